//! Settles a charge by the response: kept, refunded, or adjusted to the cost that the origin reports or that the gateway measures.
//!
//! Most charges are settled by the head of the response. A cost that is known at its end waits for the end of the request: the charge
//! stays as it was reserved until then, so that parallel requests find it taken.

use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode};
use sluicegate_base::reported_cost::{CostReader, ReportedNumber};
use sluicegate_limiter::{Cost, Settle};

use super::limit_event::LimitEvent;
use sluicegate_config::Condition;
use sluicegate_config::rules::{
    AbsentPart, CostSource, CountedRequests, LimitRules, MeasuredCost, Name, Pointer, ReportedSum,
    ReserveRules,
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
    /// The units that a log has of costs which it does not show, by limit; none for a live request.
    pub logged: &'a [LoggedCost],
}

/// The cost of a request at one limit, as a log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCost {
    /// The limit.
    pub limit: Name,
    /// Its units; 0 where the charge was given back.
    pub units: u32,
}

impl RequestEnd<'_> {
    /// Returns the units that the log has of the cost at this limit.
    pub(super) fn logged_units(&self, limit: &Name) -> Option<u32> {
        let mut logged = self.logged.iter();
        let logged = logged.find(|logged| logged.limit == *limit)?;
        Some(logged.units)
    }
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
    const KEPT: Self = Self::new(Settle::Keep, None);
    const REFUNDED: Self = Self::new(Settle::Refund, Some(LimitEvent::Released));

    const fn new(settle: Settle, event: Option<LimitEvent>) -> Self {
        Self {
            settle,
            events: [event, None],
        }
    }
}

impl SettlementRule {
    /// Returns the rule in `rules`; `None` where a charge stands as it was made.
    #[must_use]
    pub fn new(rules: &LimitRules) -> Option<Self> {
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

    /// Returns the pointers to the cost that the origin reports in the body of its response.
    pub fn reported_at(&self) -> impl Iterator<Item = &Pointer> {
        let sum = self.measured.as_ref().and_then(|cost| cost.source.json());
        sum.into_iter().flat_map(ReportedSum::places)
    }

    /// Returns whether no log has what the cost is made of.
    #[must_use]
    pub fn is_unlogged(&self) -> bool {
        let source = self.measured.as_ref().map(|cost| &cost.source);
        matches!(
            source,
            Some(CostSource::ResponseJson(_) | CostSource::RequestBytes)
        )
    }

    /// Returns whether the origin reports the cost in the body of its response.
    fn is_in_body(&self) -> bool {
        let measured = self.measured.as_ref();
        measured.is_some_and(|cost| cost.source.json().is_some())
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
        if response.by == ResponseSource::Failure && self.is_in_body() {
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
            Err(event) => ChargeSettlement::new(Settle::Keep, event),
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
            && let CostSource::ResponseJson(sum) = &cost.source
        {
            return by_report(cost, sum, end, reserved);
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

    /// Returns the settlement of a charge at the units that a log has.
    pub(super) fn by_log(&self, units: u32, reserved: Cost) -> ChargeSettlement {
        self.measured
            .as_ref()
            .map_or(ChargeSettlement::KEPT, |cost| {
                settled_at(cost, units.min(cost.at_most), reserved)
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

/// The sum of the numbers in a body, as far as it reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportedAmount {
    /// All parts.
    Complete(u64),
    /// The parts that are there; 0 where none is.
    Partial(u64),
    /// Something else than a number stands for a part.
    Malformed,
}

impl ReportedAmount {
    fn from_sum(sum: &ReportedSum, readers: &[CostReader]) -> Self {
        let number = |place: &Pointer| {
            let mut readers = readers.iter();
            let reader = readers.find(|reader| *reader.steps() == *place.0)?;
            reader.number()
        };
        let mut amount = 0_u64;
        let mut found = false;
        let mut lacking = false;
        for part in &sum.0 {
            match part.places.iter().find_map(number) {
                Some(ReportedNumber::Found(number)) => {
                    amount = amount.saturating_add(number);
                    found = true;
                }
                Some(ReportedNumber::Malformed) => return Self::Malformed,
                None => lacking |= part.absent == AbsentPart::Unknown,
            }
        }
        match found && !lacking {
            true => Self::Complete(amount),
            false => Self::Partial(amount),
        }
    }
}

/// Returns the settlement of a charge by the cost that the body of the response reports. Where it reports none, a part of it, or was broken
/// off, an origin that was asked may have spent the reserve all the same.
fn by_report(
    cost: &MeasuredCost,
    sum: &ReportedSum,
    end: &RequestEnd<'_>,
    reserved: Cost,
) -> ChargeSettlement {
    match ReportedAmount::from_sum(sum, end.reported) {
        ReportedAmount::Complete(amount) if end.is_whole => cost_of(cost, amount, reserved),
        ReportedAmount::Complete(amount) | ReportedAmount::Partial(amount)
            if cost.units(amount) > reserved.get() =>
        {
            cost_of(cost, amount, reserved)
        }
        ReportedAmount::Malformed => {
            ChargeSettlement::new(Settle::Keep, Some(LimitEvent::CostMalformed))
        }
        _ if end.origin == OriginContact::Never => ChargeSettlement::REFUNDED,
        _ => ChargeSettlement::new(Settle::Keep, Some(LimitEvent::CostMissing)),
    }
}

/// Returns the settlement at the cost of an amount of what is measured.
fn cost_of(cost: &MeasuredCost, amount: u64, reserved: Cost) -> ChargeSettlement {
    settled_at(cost, cost.units(amount), reserved)
}

fn settled_at(cost: &MeasuredCost, units: u32, reserved: Cost) -> ChargeSettlement {
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
    use std::sync::Arc;

    use http::HeaderValue;
    use sluicegate_base::reported_cost::ReportForm;

    use super::*;
    use sluicegate_config::rules::ReportedPart;

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

    /// Goal: a sum is known once each of its parts is, from the first place that has it, and a part that is missing never makes a request
    /// cheaper than its reserve. Method: bodies as language models send them, whole and broken off, and a part that may be absent.
    #[test]
    fn a_sum_is_settled_once_it_is_complete() {
        let place = |text: &str| Pointer(text.split('/').skip(1).map(Arc::from).collect());
        let part = |places: &[&str], absent| ReportedPart {
            places: places.iter().map(|text| place(text)).collect(),
            absent,
        };
        let sum = ReportedSum(vec![
            part(&["/usage/in", "/message/usage/in"], AbsentPart::Unknown),
            part(&["/usage/cached"], AbsentPart::Zero),
            part(&["/usage/out"], AbsentPart::Unknown),
        ]);
        let reserve = Cost::new(50).expect("a cost");
        let rule = rule(
            CostSource::ResponseJson(sum),
            1,
            ReserveRules::Fixed(reserve),
        );
        let settled = |body: &str, is_whole: bool| {
            let readers: Vec<CostReader> = rule
                .reported_at()
                .map(|place| {
                    let mut reader = CostReader::new(ReportForm::Json, Arc::from(&*place.0));
                    reader.read(body.as_bytes());
                    reader
                })
                .collect();
            let end = RequestEnd {
                reported: &readers,
                is_whole,
                ..RequestEnd::default()
            };
            let settlement = rule.by_end(&end, ResponseProgress::Begun, reserve);
            (settlement.settle, settlement.events[0])
        };
        let cost = |units| {
            let settle = Settle::Adjust(Cost::new(units).expect("a cost"));
            (settle, Some(LimitEvent::Cost(units)))
        };
        let missing = (Settle::Keep, Some(LimitEvent::CostMissing));
        let malformed = (Settle::Keep, Some(LimitEvent::CostMalformed));
        for (body, expected) in [
            (r#"{"usage":{"in":12,"out":3}}"#, cost(15)),
            (r#"{"usage":{"in":12,"cached":5,"out":3}}"#, cost(20)),
            (
                r#"{"message":{"usage":{"in":12,"out":1}}}{"usage":{"out":7}}"#,
                cost(19),
            ),
            // The last event corrects the first.
            (
                r#"{"message":{"usage":{"in":12}}}{"usage":{"in":30,"out":7}}"#,
                cost(37),
            ),
            (r#"{"message":{"usage":{"in":12}}}{"error":{}}"#, missing),
            (r#"{"usage":{"cached":5}}"#, missing),
            (r#"{}"#, missing),
            (r#"{"usage":{"in":12,"out":"7"}}"#, malformed),
            // More than the reserve is spent, whatever is missing.
            (r#"{"usage":{"in":60}}"#, cost(60)),
            (
                r#"{"usage":{"in":18446744073709551615,"out":2}}"#,
                cost(100),
            ),
        ] {
            assert_eq!(settled(body, true), expected, "{body}");
        }
        assert_eq!(settled(r#"{"usage":{"in":12,"out":3}}"#, false), missing);
        assert_eq!(settled(r#"{"usage":{"in":40,"out":13}}"#, false), cost(53));
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
