//! Owns how the cost of a request is written: `cost = 5`, or what it is measured by, such as `cost = "response.bytes"`, with `reserve`,
//! `max_cost`, `cost_unit` and `quota_unit`.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use sluicegate_limiter::{Cost, KeyHash, Limit, MAX_COUNT, Policy, Timestamp};
use toml::de::DeValue;

use super::field::{KeyField, all, quoted};
use super::key;
use super::problem::ParseError;
use super::rules::{
    AbsentPart, AnnouncedReserve, CostRules, CostSource, MeasuredCost, Pointer, ReportedPart,
    ReportedSum, ReservePart, ReserveRules,
};
use super::section::TableSection;

/// Bytes of one unit.
const UNIT_BYTES: RangeInclusive<u64> = 1..=1 << 40;
/// Time of one unit.
const UNIT_TIME: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3_600);
/// Reported units of one unit.
const UNIT_REPORTED: RangeInclusive<u64> = 1..=1_000_000_000;
/// Most parts of a reserve.
const MOST_PARTS: usize = 4;
/// Most places in a body that make up a cost: each is looked for in every byte.
const MOST_PLACES: usize = 8;
/// Longest name of a unit.
const QUOTA_UNIT: usize = 32;
/// The unit of bytes, draft-ietf-httpapi-ratelimit-headers-11, "Quota Unit Parameter".
const CONTENT_BYTES: &str = "content-bytes";

/// The keys that say what a request costs.
pub(super) struct CostKeys<'d> {
    cost: Option<KeyField<'d>>,
    /// Those that only a measured cost has.
    max_cost: Option<KeyField<'d>>,
    reserve: Option<KeyField<'d>>,
    cost_unit: Option<KeyField<'d>>,
    quota_unit: Option<KeyField<'d>>,
}

impl<'d> CostKeys<'d> {
    /// The keys of `[limit.NAME]`, asked for whatever is written.
    pub(super) fn from_section(section: &TableSection<'d>) -> Self {
        Self {
            cost: section.field("cost", "1"),
            max_cost: section.field("max_cost", "100"),
            reserve: section.field("reserve", "100"),
            cost_unit: section.field("cost_unit", "\"1KiB\""),
            quota_unit: section.field("quota_unit", "\"tokens\""),
        }
    }

    /// The cost under a limit with this policy; `None` when what is written is wrong, which was reported then.
    pub(super) fn read(&self, policy: &Policy) -> Option<CostRules> {
        let source = match &self.cost {
            Some(field) => match field.value {
                DeValue::String(_) => field.parsed(source),
                DeValue::Array(_) => sum(field).map(CostSource::ResponseJson),
                _ => {
                    self.refuse_measuring();
                    return fixed(field, policy).map(CostRules::Fixed);
                }
            },
            None => {
                self.refuse_measuring()?;
                return Some(CostRules::Fixed(Cost::ONE));
            }
        };
        let largest_count = policy.rates().iter().map(|rate| rate.count()).max();
        let largest_admitted = largest_admitted(policy);
        let largest = largest_count.unwrap_or(1).max(largest_admitted);
        let at_most = match &self.max_cost {
            Some(field) => most(field, largest),
            None => Some(largest),
        };
        let reserve = match &self.reserve {
            Some(field) => reserved(field, policy, Cost::new(largest_admitted)?),
            None => Some(ReserveRules::OneUnit),
        };
        let source = source?;
        let per_unit = match &self.cost_unit {
            Some(field) => unit(field, &source),
            None => Some(NonZeroU64::MIN),
        };
        let quota_unit = match (&self.quota_unit, &source) {
            (Some(field), _) => field.parsed(unit_name).map(Some),
            (None, CostSource::ResponseBytes | CostSource::RequestBytes) => {
                Some(Some(Arc::from(CONTENT_BYTES)))
            }
            (None, _) => Some(None),
        };
        let at_most = at_most?;
        let reserve = reserve?;
        if let (ReserveRules::Fixed(units), Some(field)) = (&reserve, &self.reserve)
            && units.get() > at_most
        {
            return field.refuse(
                format!("no request costs more than {at_most}"),
                "write no more than max_cost",
            );
        }
        Some(CostRules::Measured(MeasuredCost {
            source,
            per_unit: per_unit?,
            at_most,
            reserve,
            quota_unit: quota_unit?,
        }))
    }

    /// The keys of a measured cost say nothing beside a number.
    fn refuse_measuring(&self) -> Option<()> {
        let advice = "leave it out, or write cost = \"response.header.x-cost\"";
        let foreign = [
            (
                &self.max_cost,
                "max_cost bounds what the origin says, and this limit does not ask it",
            ),
            (
                &self.reserve,
                "reserve is held until the cost is known, and the cost of this limit is known at once",
            ),
            (
                &self.cost_unit,
                "cost_unit divides what is measured, and this limit measures nothing",
            ),
            (
                &self.quota_unit,
                "quota_unit names what is measured, and this limit counts requests",
            ),
        ];
        let mut found = Some(());
        for (field, message) in foreign {
            if let Some(field) = field {
                found = field.refuse(message, advice);
            }
        }
        found
    }
}

/// The most that a request costs; `largest` is the largest count of the rates, or what fits into the burst.
fn most(field: &KeyField<'_>, largest: u32) -> Option<u32> {
    // The range of all limits, which the schema has.
    let units = field.integer(1..=u64::from(MAX_COUNT))?;
    let units = u32::try_from(units).ok()?;
    if units > largest {
        return field.refuse(
            format!("{units} is out of range"),
            format!("the most is {largest}"),
        );
    }
    Some(units)
}

/// The reserve: a number, or what requests announce.
fn reserved(field: &KeyField<'_>, policy: &Policy, largest_admitted: Cost) -> Option<ReserveRules> {
    let parts = match field.value {
        DeValue::Array(_) => all(field.list()?.iter().map(part))?,
        DeValue::String(_) => vec![part(field)?],
        _ => return fixed(field, policy).map(ReserveRules::Fixed),
    };
    if parts.len() > MOST_PARTS
        || parts
            .iter()
            .all(|part| matches!(part, ReservePart::Units(_)))
    {
        return field.refuse(
            "a list of a reserve has what requests announce, and units beside",
            format!("write 1 to {MOST_PARTS} parts: [\"body.json./max_tokens\", 1000], or a number alone"),
        );
    }
    Some(ReserveRules::Announced(AnnouncedReserve {
        parts,
        largest_admitted,
    }))
}

/// A part of a reserve.
fn part(field: &KeyField<'_>) -> Option<ReservePart> {
    match field.value {
        DeValue::String(_) => field.parsed(|text| {
            let path = text.strip_prefix("body.json.").ok_or_else(|| {
                ParseError::with_advice(
                    format!("{} is no reserve", quoted(text)),
                    "write a number, or where the request announces it: \"body.json./max_tokens\"",
                )
            })?;
            key::pointer("body.json", path).map(ReservePart::Json)
        }),
        _ => {
            let units = field.integer(1..=u64::from(u32::MAX))?;
            u32::try_from(units).ok().map(ReservePart::Units)
        }
    }
}

/// Returns the largest cost that a limit of this policy ever admits.
fn largest_admitted(policy: &Policy) -> u32 {
    let unused = Limit::with_buckets(policy.clone(), 1);
    let now = Timestamp::from_secs(0);
    let is_admitted = |units: u32| {
        let cost = Cost::new(units).unwrap_or(Cost::ONE);
        let decision = unused.peek(KeyHash::from_bits(0), cost, now);
        decision.retry_after().is_none()
    };
    let mut admitted = 1;
    let mut refused = MAX_COUNT + 1;
    while refused - admitted > 1 {
        let middle = admitted.midpoint(refused);
        if is_admitted(middle) {
            admitted = middle;
        } else {
            refused = middle;
        }
    }
    admitted
}

/// The source of a measured cost.
fn source(text: &str) -> Result<CostSource, ParseError> {
    let field = |name: &str| HeaderName::from_bytes(name.as_bytes()).ok();
    match text {
        "response.bytes" => return Ok(CostSource::ResponseBytes),
        "request.bytes" => return Ok(CostSource::RequestBytes),
        "response.duration" => return Ok(CostSource::ResponseDuration),
        _ => {}
    }
    if let Some(path) = text.strip_prefix("response.json.") {
        let pointer = key::pointer("response.json", path)?;
        return Ok(CostSource::ResponseJson(ReportedSum(vec![found_at(
            pointer,
        )])));
    }
    let name = text.strip_prefix("response.header.");
    let name = name.and_then(field).map(CostSource::ResponseField);
    name.ok_or_else(|| {
        ParseError::with_advice(
            format!("{} is no cost", quoted(text)),
            "write a number, the field of the response that says it: \"response.header.x-cost\", or what is measured: \
             \"response.bytes\", \"request.bytes\", \"response.duration\" or \"response.json./usage/total_tokens\"",
        )
    })
}

/// The numbers in the response's body that are added up.
fn sum(field: &KeyField<'_>) -> Option<ReportedSum> {
    let parts = field.list()?;
    let sum = ReportedSum(all(parts.iter().map(reported_part))?);
    let places: Vec<&Pointer> = sum.places().collect();
    if places.len() > MOST_PLACES {
        return field.refuse(
            format!("{} places make up the cost", places.len()),
            format!("the most is {MOST_PLACES}; leave out what is in the sum of others"),
        );
    }
    let is_twice = |(index, place): (usize, &&Pointer)| {
        let mut before = places.iter().take(index);
        before.any(|other| other == place)
    };
    if places.iter().enumerate().any(is_twice) {
        return field.refuse(
            "a place stands twice in the sum",
            "name each place in the body once",
        );
    }
    Some(sum)
}

/// A number of a sum: a place in the body, or a list of places of which the first with a number counts, with 0 at its end where the number
/// may be absent.
fn reported_part(field: &KeyField<'_>) -> Option<ReportedPart> {
    let DeValue::Array(_) = field.value else {
        return field.parsed(place).map(found_at);
    };
    let mut fields = field.list()?;
    let ends_in_zero = matches!(
        fields.last().map(|last| last.value),
        Some(DeValue::Integer(number)) if number.as_str() == "0"
    );
    let absent = match ends_in_zero && fields.len() > 1 {
        true => {
            fields.pop();
            AbsentPart::Zero
        }
        false => AbsentPart::Unknown,
    };
    let places = all(fields.iter().map(|field| field.parsed(place)))?;
    Some(ReportedPart { places, absent })
}

/// A number that is in this place, or unknown.
fn found_at(place: Pointer) -> ReportedPart {
    ReportedPart {
        places: vec![place],
        absent: AbsentPart::Unknown,
    }
}

/// A place in the response's body.
fn place(text: &str) -> Result<Pointer, ParseError> {
    let path = text.strip_prefix("response.json.").ok_or_else(|| {
        ParseError::with_advice(
            format!("{} is no place in the answer's body", quoted(text)),
            "a list adds up numbers of the body: [\"response.json./usage/input_tokens\", \"response.json./usage/output_tokens\"]",
        )
    })?;
    key::pointer("response.json", path)
}

/// The amount of what is measured that makes one unit.
fn unit(field: &KeyField<'_>, source: &CostSource) -> Option<NonZeroU64> {
    let amount = match source {
        CostSource::ResponseBytes | CostSource::RequestBytes => field.size(UNIT_BYTES)?,
        CostSource::ResponseDuration => {
            let time = field.duration(UNIT_TIME)?;
            u64::try_from(time.as_millis()).ok()?
        }
        CostSource::ResponseField(_) | CostSource::ResponseJson(_) => {
            field.integer(UNIT_REPORTED)?
        }
    };
    NonZeroU64::new(amount)
}

/// The name of a unit in the `RateLimit` fields: a string of RFC 9651 without escapes.
fn unit_name(text: &str) -> Result<Arc<str>, ParseError> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
    if text.is_empty() || text.len() > QUOTA_UNIT || !text.bytes().all(is_plain) {
        return Err(ParseError::with_advice(
            format!("{} is no name of a unit", quoted(text)),
            format!("write 1 to {QUOTA_UNIT} of a-z and -, as in \"tokens\""),
        ));
    }
    Ok(Arc::from(text))
}

fn fixed(field: &KeyField<'_>, policy: &Policy) -> Option<Cost> {
    let units = field.integer(1..=u64::from(u32::MAX))?;
    let cost = u32::try_from(units).ok().and_then(Cost::new)?;
    // A limit that nobody has used knows best whether it can ever admit this.
    let unused = Limit::with_buckets(policy.clone(), 1);
    let now = Timestamp::from_secs(0);
    let decision = unused.peek(KeyHash::from_bits(0), cost, now);
    if decision.retry_after().is_some() {
        return field.refuse(
            format!("a request that costs {units} would never be admitted"),
            "write no more than the smallest count of the rates, or than fits into the bucket",
        );
    }
    Some(cost)
}
