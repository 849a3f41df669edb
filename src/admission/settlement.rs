//! Settles a charge by the response: kept, refunded, or adjusted to the cost that the origin reports.

use http::{HeaderMap, HeaderName, StatusCode};
use sluicegate_limiter::{Cost, Settle};

use super::report::LimitEvent;
use crate::config::Condition;
use crate::config::rules::{CostRules, CountedRequests, LimitRules};

/// The response to the client, as far as charges depend on it.
#[derive(Clone, Copy, Debug)]
pub struct FinalResponse<'a> {
    /// The source of the response.
    pub by: ResponseSource,
    /// The final status, the gateway's own included; 101 for an upgrade.
    pub status: StatusCode,
    /// The origin's fields; fields of the gateway's own response do not matter.
    pub fields: &'a HeaderMap,
}

/// The source of a response, as far as charges depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseSource {
    /// The origin, or the gateway in its place.
    Origin,
    /// The cache, without asking the origin.
    Cache,
    /// A proxy that asked for the decision and keeps the response to itself.
    Unseen,
}

/// The rule of a limit whose charges wait for the response.
#[derive(Clone, Debug, PartialEq)]
pub struct SettlementRule {
    count_if: Option<Condition>,
    reported: Option<ReportedCost>,
    counting: CountedRequests,
}

/// A cost that the origin reports.
#[derive(Clone, Debug, PartialEq)]
struct ReportedCost {
    by: HeaderName,
    at_most: u32,
}

impl SettlementRule {
    /// Returns the rule in `rules`; `None` where a charge stands as it was made.
    #[must_use]
    pub fn of(rules: &LimitRules) -> Option<Self> {
        let reported = match &rules.cost {
            CostRules::Fixed(_) => None,
            CostRules::Told { by, at_most } => Some(ReportedCost {
                by: by.clone(),
                at_most: *at_most,
            }),
        };
        let waits = rules.count_if.is_some()
            || reported.is_some()
            || rules.count == CountedRequests::Origin;
        waits.then(|| Self {
            count_if: rules.count_if.clone(),
            reported,
            counting: rules.count,
        })
    }

    /// Returns the field in which the origin reports the cost, which is not for clients.
    #[must_use]
    pub fn reported_by(&self) -> Option<&HeaderName> {
        self.reported.as_ref().map(|reported| &reported.by)
    }

    /// Returns the settlement of the charge, and the event to report. Without a response `count_if` counts nothing, and no cost is
    /// reported. A charge by a response that nobody shows is kept, so that the limit applies.
    pub(super) fn settlement(
        &self,
        response: Option<FinalResponse<'_>>,
    ) -> (Settle, Option<LimitEvent>) {
        let by = response.map(|response| response.by);
        if by == Some(ResponseSource::Unseen) {
            return (Settle::Keep, None);
        }
        if self.counting == CountedRequests::Origin && by == Some(ResponseSource::Cache) {
            return (Settle::Refund, Some(LimitEvent::Released));
        }
        let counts = self.count_if.as_ref().is_none_or(|condition| {
            response.is_some_and(|response| condition.holds(response.status, response.fields))
        });
        if !counts {
            return (Settle::Refund, Some(LimitEvent::Released));
        }
        match (&self.reported, response) {
            (Some(reported), Some(response)) => reported.settlement(response.fields),
            _ => (Settle::Keep, None),
        }
    }
}

impl ReportedCost {
    /// Returns the settlement at the cost in these fields, and the event to report.
    fn settlement(&self, fields: &HeaderMap) -> (Settle, Option<LimitEvent>) {
        let mut lines = fields.get_all(&self.by).iter();
        let units = match (lines.next(), lines.next()) {
            (None, _) => return (Settle::Keep, None),
            (Some(line), None) => units(line.as_bytes()),
            // Two costs are none.
            (Some(_), Some(_)) => None,
        };
        match units.map(|units| units.min(self.at_most)) {
            None => (Settle::Keep, Some(LimitEvent::CostMalformed)),
            Some(units) => match Cost::new(units) {
                None => (Settle::Refund, Some(LimitEvent::Cost(0))),
                Some(cost) => (Settle::Adjust(cost), Some(LimitEvent::Cost(units))),
            },
        }
    }
}

/// Parses decimal digits; a number that is too large becomes the largest one.
fn units(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u32, |units, digit| {
        let digit = digit.is_ascii_digit().then(|| u32::from(digit - b'0'))?;
        Some(units.saturating_mul(10).saturating_add(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn reported(lines: &[&'static str]) -> (Settle, Option<LimitEvent>) {
        let by = HeaderName::from_static("x-cost");
        let mut fields = HeaderMap::new();
        for line in lines {
            fields.append(&by, HeaderValue::from_static(line));
        }
        let rule = SettlementRule {
            count_if: None,
            reported: Some(ReportedCost { by, at_most: 100 }),
            counting: CountedRequests::All,
        };
        rule.settlement(Some(FinalResponse {
            by: ResponseSource::Origin,
            status: StatusCode::OK,
            fields: &fields,
        }))
    }

    /// Goal: the cost that the origin reports, within its bounds, and one unit where the field is malformed. Method: numbers at the
    /// edges, and values that a lenient parser would take.
    #[test]
    fn a_cost_is_read_clamped_or_one() {
        let cost = |units| Settle::Adjust(Cost::new(units).expect("a cost"));
        assert_eq!(reported(&["7"]), (cost(7), Some(LimitEvent::Cost(7))));
        assert_eq!(
            reported(&["0"]),
            (Settle::Refund, Some(LimitEvent::Cost(0)))
        );
        assert_eq!(reported(&["007"]).0, cost(7));
        for large in ["101", "4294967296", "99999999999999999999999999"] {
            assert_eq!(reported(&[large]), (cost(100), Some(LimitEvent::Cost(100))));
        }
        assert_eq!(reported(&[]), (Settle::Keep, None));
        for wrong in [
            &["-1"][..],
            &["1.5"],
            &["+1"],
            &[""],
            &["0x10"],
            &["1 2"],
            &["1", "1"],
        ] {
            let malformed = (Settle::Keep, Some(LimitEvent::CostMalformed));
            assert_eq!(reported(wrong), malformed, "{wrong:?}");
        }
    }
}
