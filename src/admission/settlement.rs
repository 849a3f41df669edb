//! Settles a charge by the response: kept, refunded, or adjusted to the cost that the origin reports or that the gateway measures.
//!
//! Most charges are settled by the head of the response. A cost that is known at its end waits for the end of the request: the charge
//! stays as it was reserved until then, so that parallel requests find it taken.

use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode};
use sluicegate_base::reported_cost::{CostReader, ReportedNumber};
use sluicegate_limiter::{Cost, Settle};

use super::report::LimitEvent;
use crate::config::Condition;
use crate::config::rules::{
    CostSource, CountedRequests, LimitRules, MeasuredCost, Pointer, ReserveRules,
};

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
    /// The gateway, since the request failed.
    Failure,
    /// The cache, without asking the origin.
    Cache,
    /// A proxy that asked for the decision and keeps the response to itself.
    Unseen,
}

/// The facts about a request that has ended, as far as charges depend on them; `None` for what is unknown, whose reserve is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestEnd<'a> {
    /// The contact with an origin, which may have done what the request asks for.
    pub origin: OriginContact,
    /// The numbers that the body of the response reports, by pointer.
    pub reported: &'a [CostReader],
    /// True if that body has come to its end, so that nothing else will be reported.
    pub is_whole: bool,
    /// Bytes of the response's body that were sent to the client.
    pub sent: Option<u64>,
    /// Bytes of the request's body that were received.
    pub received: Option<u64>,
    /// Time from the decision to the end.
    pub duration: Option<Duration>,
}

/// The contact of a request with an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OriginContact {
    /// No origin did.
    Never,
    /// An origin got a part of it at least, as far as is known.
    #[default]
    Made,
}

/// The rule of a limit whose charges wait for the response.
#[derive(Clone, Debug, PartialEq)]
pub struct SettlementRule {
    count_if: Option<Condition>,
    measured: Option<MeasuredCost>,
    counting: CountedRequests,
}

/// The settlement of a charge, and the event to report beside that of the cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChargeSettlement {
    pub(super) settle: Settle,
    pub(super) events: [Option<LimitEvent>; 2],
}

impl ChargeSettlement {
    const KEPT: Self = Self::of(Settle::Keep, None);
    const REFUNDED: Self = Self::of(Settle::Refund, Some(LimitEvent::Released));

    const fn of(settle: Settle, event: Option<LimitEvent>) -> Self {
        Self {
            settle,
            events: [event, None],
        }
    }
}

impl SettlementRule {
    /// Returns the rule in `rules`; `None` where a charge stands as it was made.
    #[must_use]
    pub fn of(rules: &LimitRules) -> Option<Self> {
        let measured = rules.cost.measured();
        let waits = rules.count_if.is_some()
            || measured.is_some()
            || rules.count == CountedRequests::Origin;
        waits.then(|| Self {
            count_if: rules.count_if.clone(),
            measured: measured.cloned(),
            counting: rules.count,
        })
    }

    /// Returns the field in which the origin reports the cost, which is not for clients.
    #[must_use]
    pub fn reported_by(&self) -> Option<&HeaderName> {
        self.measured.as_ref()?.source.field()
    }

    /// Returns the pointer to the cost that the origin reports in the body of its response.
    #[must_use]
    pub fn reported_at(&self) -> Option<&Pointer> {
        self.measured.as_ref()?.source.json()
    }

    /// Returns the settlement of a charge of so many units by the head of the response; `None` where the cost is known at its end. A charge
    /// by a response that nobody shows is kept, so that the limit applies.
    pub(super) fn by_response(
        &self,
        response: FinalResponse<'_>,
        reserved: Cost,
    ) -> Option<ChargeSettlement> {
        if response.by == ResponseSource::Unseen {
            return Some(ChargeSettlement::KEPT);
        }
        if response.by == ResponseSource::Failure && self.reported_at().is_some() {
            // The response of the origin is unknown, and what it spent too.
            return None;
        }
        let is_stored = response.by == ResponseSource::Cache;
        let is_counted = !(is_stored && self.counting == CountedRequests::Origin)
            && self
                .count_if
                .as_ref()
                .is_none_or(|condition| condition.holds(response.status, response.fields));
        if !is_counted {
            return Some(ChargeSettlement::REFUNDED);
        }
        let Some(cost) = &self.measured else {
            return Some(ChargeSettlement::KEPT);
        };
        if is_stored && cost.source.json().is_some() {
            // Nothing was spent on it.
            return Some(ChargeSettlement::REFUNDED);
        }
        let field = cost.source.field()?;
        Some(match reported(response.fields, field) {
            Ok(amount) => cost_of(cost, amount, reserved),
            Err(event) => ChargeSettlement::of(Settle::Keep, event),
        })
    }

    /// Returns the settlement of a charge of so many units by the end of the request, whose response is counted if there was one. Without a
    /// response `count_if` counts nothing, and no cost is reported.
    pub(super) fn by_end(
        &self,
        end: &RequestEnd<'_>,
        progress: ResponseProgress,
        reserved: Cost,
    ) -> ChargeSettlement {
        if let Some(cost) = &self.measured
            && let CostSource::ResponseJson(pointer) = &cost.source
        {
            return by_report(cost, pointer, end, reserved);
        }
        if progress == ResponseProgress::Awaited && self.count_if.is_some() {
            return ChargeSettlement::REFUNDED;
        }
        let Some(cost) = &self.measured else {
            return ChargeSettlement::KEPT;
        };
        let amount = match &cost.source {
            CostSource::ResponseField(_) | CostSource::ResponseJson(_) => None,
            CostSource::ResponseBytes => end.sent,
            CostSource::RequestBytes => end.received,
            CostSource::ResponseDuration => end.duration.map(whole_millis),
        };
        amount.map_or(ChargeSettlement::KEPT, |amount| {
            cost_of(cost, amount, reserved)
        })
    }

    /// Returns the settlement of a charge whose request ends without any fact about it: a cost that would be known at the end stays
    /// reserved, so that the limit applies.
    pub(super) fn without_end(&self, progress: ResponseProgress) -> ChargeSettlement {
        match progress {
            ResponseProgress::Awaited if self.count_if.is_some() => ChargeSettlement::REFUNDED,
            ResponseProgress::Awaited | ResponseProgress::Begun => ChargeSettlement::KEPT,
        }
    }
}

/// The progress of a response by which a charge is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseProgress {
    /// Its head has not come.
    Awaited,
    /// Its head has come, and counts; the cost is known at its end.
    Begun,
}

/// Returns the settlement of a charge by the cost that the body of the response reports. Where it reports none, or was broken off, an
/// origin that was asked may have spent the reserve all the same.
fn by_report(
    cost: &MeasuredCost,
    pointer: &Pointer,
    end: &RequestEnd<'_>,
    reserved: Cost,
) -> ChargeSettlement {
    let mut readers = end.reported.iter();
    let reader = readers.find(|reader| *reader.steps() == *pointer.0);
    match reader.and_then(CostReader::number) {
        Some(ReportedNumber::Found(amount))
            if end.is_whole || cost.units(amount) > reserved.get() =>
        {
            cost_of(cost, amount, reserved)
        }
        Some(ReportedNumber::Malformed) => {
            ChargeSettlement::of(Settle::Keep, Some(LimitEvent::CostMalformed))
        }
        _ if end.origin == OriginContact::Never => ChargeSettlement::REFUNDED,
        _ => ChargeSettlement::of(Settle::Keep, Some(LimitEvent::CostMissing)),
    }
}

/// Returns the settlement at the cost of an amount of what is measured.
fn cost_of(cost: &MeasuredCost, amount: u64, reserved: Cost) -> ChargeSettlement {
    let units = cost.units(amount);
    let settle = Cost::new(units).map_or(Settle::Refund, Settle::Adjust);
    let beyond = units.saturating_sub(reserved.get());
    // A single unit is reserved only so that no request passes uncounted.
    let is_exceeded = beyond > 0 && cost.reserve != ReserveRules::OneUnit;
    ChargeSettlement {
        settle,
        events: [
            Some(LimitEvent::Cost(units)),
            is_exceeded.then_some(LimitEvent::OverReserve(beyond)),
        ],
    }
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the cost that the origin reports in this field.
///
/// # Errors
/// The event to report, if there is one: the field is missing or malformed.
fn reported(fields: &HeaderMap, by: &HeaderName) -> Result<u64, Option<LimitEvent>> {
    let mut lines = fields.get_all(by).iter();
    let amount = match (lines.next(), lines.next()) {
        (None, _) => return Err(None),
        (Some(line), None) => digits(line.as_bytes()),
        // Two costs are none.
        (Some(_), Some(_)) => None,
    };
    amount.ok_or(Some(LimitEvent::CostMalformed))
}

/// Parses decimal digits; a number that is too large becomes the largest one.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |amount, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(amount.saturating_mul(10).saturating_add(digit))
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use http::HeaderValue;

    use super::*;

    fn rule(source: CostSource, per_unit: u64, reserve: ReserveRules) -> SettlementRule {
        SettlementRule {
            count_if: None,
            measured: Some(MeasuredCost {
                source,
                per_unit: NonZeroU64::new(per_unit).expect("a unit"),
                at_most: 100,
                reserve,
                quota_unit: None,
            }),
            counting: CountedRequests::All,
        }
    }

    fn reported(lines: &[&'static str]) -> (Settle, Option<LimitEvent>) {
        let by = HeaderName::from_static("x-cost");
        let mut fields = HeaderMap::new();
        for line in lines {
            fields.append(&by, HeaderValue::from_static(line));
        }
        let rule = rule(CostSource::ResponseField(by), 1, ReserveRules::OneUnit);
        let response = FinalResponse {
            by: ResponseSource::Origin,
            status: StatusCode::OK,
            fields: &fields,
        };
        let settlement = rule.by_response(response, Cost::ONE);
        let settlement = settlement.expect("the head has the cost");
        assert_eq!(
            settlement.events[1], None,
            "one unit is expected to be too little"
        );
        (settlement.settle, settlement.events[0])
    }

    /// Goal: what is measured is divided by the unit and rounded up, nothing is free, and a cost beyond the reserve is charged and told.
    /// Method: amounts around the unit, the reserve and the maximum.
    #[test]
    fn a_measured_cost_is_settled_in_units_at_the_end() {
        let reserve = Cost::new(10).expect("a cost");
        let rule = rule(
            CostSource::ResponseBytes,
            1024,
            ReserveRules::Fixed(reserve),
        );
        let response = FinalResponse {
            by: ResponseSource::Origin,
            status: StatusCode::OK,
            fields: &HeaderMap::new(),
        };
        assert_eq!(rule.by_response(response, reserve), None);
        let cost = |units| Settle::Adjust(Cost::new(units).expect("a cost"));
        for (sent, settle, units, beyond) in [
            (0, Settle::Refund, 0, None),
            (1, cost(1), 1, None),
            (1024, cost(1), 1, None),
            (1025, cost(2), 2, None),
            (10 * 1024, cost(10), 10, None),
            (
                10 * 1024 + 1,
                cost(11),
                11,
                Some(LimitEvent::OverReserve(1)),
            ),
            (u64::MAX, cost(100), 100, Some(LimitEvent::OverReserve(90))),
        ] {
            let end = RequestEnd {
                sent: Some(sent),
                ..RequestEnd::default()
            };
            for progress in [ResponseProgress::Awaited, ResponseProgress::Begun] {
                let settlement = rule.by_end(&end, progress, reserve);
                let events = [Some(LimitEvent::Cost(units)), beyond];
                assert_eq!(
                    (settlement.settle, settlement.events),
                    (settle, events),
                    "{sent}"
                );
            }
        }
        assert_eq!(
            rule.without_end(ResponseProgress::Begun).settle,
            Settle::Keep
        );
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
