//! Owns what a request takes from a limit: a number, or what it comes to once it has been served, and what is reserved until then.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use http::HeaderName;
use sluicegate_limiter::Cost;

use super::key::Pointer;

/// `cost`: what a request takes from a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostRules {
    /// So much; default 1.
    Fixed(Cost),
    /// A cost that is known late: a part is reserved when the request comes, and settled when it is known.
    Measured(MeasuredCost),
}

/// A cost that is known once the response is there, or has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredCost {
    /// The measure.
    pub source: CostSource,
    /// `cost_unit`: the bytes, milliseconds or reported units that make one unit of the limit. A part of one counts as one.
    pub per_unit: NonZeroU64,
    /// `max_cost`: the most units that a request is charged; at most the largest count of the limit's rates, or what fits into its burst.
    pub at_most: u32,
    /// `reserve`: what is charged when the request comes.
    pub reserve: ReserveRules,
    /// `quota_unit`: the name of the unit in the `RateLimit` fields.
    pub quota_unit: Option<Arc<str>>,
}

/// The measure of a cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostSource {
    /// `response.header.NAME`: a field of the response, which clients do not get to see.
    ResponseField(HeaderName),
    /// `response.bytes`: bytes of the response's body that were sent to the client.
    ResponseBytes,
    /// `request.bytes`: bytes of the request body that the client sent.
    RequestBytes,
    /// `response.json.POINTER`: a number in the response's body, in JSON or in the last server-sent event that has one; or a sum of such.
    ResponseJson(ReportedSum),
    /// `response.duration`: milliseconds from the decision to the end of the response.
    ResponseDuration,
}

/// The numbers in a body that make up a cost; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedSum(pub Vec<ReportedPart>);

/// A number of a sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedPart {
    /// The places where it may be, at least one. The first that has a number counts.
    pub places: Vec<Pointer>,
    /// The meaning of a body that has it nowhere.
    pub absent: AbsentPart,
}

/// The meaning of a body that lacks a part of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsentPart {
    /// The cost is not known.
    Unknown,
    /// The part is 0.
    Zero,
}

/// The charge before the cost is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReserveRules {
    /// One unit, the default: a request that costs more is expected.
    OneUnit,
    /// So much. A request that costs more is reported.
    Fixed(Cost),
    /// The cost that the request announces.
    Announced(AnnouncedReserve),
}

/// A reserve that requests announce: the sum of the parts that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedReserve {
    /// The parts, at least one of which is read from the request.
    pub parts: Vec<ReservePart>,
    /// The largest cost that the limit ever admits. A request that announces more is rejected.
    pub largest_admitted: Cost,
}

/// A part of a reserve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservePart {
    /// So many units.
    Units(u32),
    /// `body.json.POINTER`: a number in the request's body.
    Json(Pointer),
}

impl CostRules {
    /// Returns the cost that is charged when a request comes, if it is the same for all requests.
    #[must_use]
    pub fn at_once(&self) -> Option<Cost> {
        match self {
            Self::Fixed(cost) => Some(*cost),
            Self::Measured(measured) => match &measured.reserve {
                ReserveRules::OneUnit => Some(Cost::ONE),
                ReserveRules::Fixed(cost) => Some(*cost),
                ReserveRules::Announced(_) => None,
            },
        }
    }

    /// Returns the reserve that requests announce, if they do.
    #[must_use]
    pub fn announced(&self) -> Option<(&MeasuredCost, &AnnouncedReserve)> {
        let measured = self.measured()?;
        match &measured.reserve {
            ReserveRules::Announced(announced) => Some((measured, announced)),
            ReserveRules::OneUnit | ReserveRules::Fixed(_) => None,
        }
    }

    /// Returns the rules of a cost that is known late.
    #[must_use]
    pub fn measured(&self) -> Option<&MeasuredCost> {
        match self {
            Self::Fixed(_) => None,
            Self::Measured(measured) => Some(measured),
        }
    }
}

impl MeasuredCost {
    /// Returns the units of the limit that an amount of what is measured comes to, at most `max_cost`; 0 for nothing.
    #[must_use]
    pub fn units(&self, amount: u64) -> u32 {
        self.unbounded_units(amount).min(self.at_most)
    }

    /// Returns the units of the limit that an amount of what is measured comes to, whatever `max_cost` is.
    #[must_use]
    pub fn unbounded_units(&self, amount: u64) -> u32 {
        let units = amount.div_ceil(self.per_unit.get());
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    /// Returns the factor by which counts are shown in the `RateLimit` fields: bytes are shown as bytes, whatever the unit of the limit.
    #[must_use]
    pub fn shown_factor(&self) -> u64 {
        match self.source {
            CostSource::ResponseBytes | CostSource::RequestBytes => self.per_unit.get(),
            CostSource::ResponseField(_)
            | CostSource::ResponseJson(_)
            | CostSource::ResponseDuration => 1,
        }
    }
}

impl CostSource {
    /// Returns the field in which the origin reports the cost, if it does.
    #[must_use]
    pub fn field(&self) -> Option<&HeaderName> {
        match self {
            Self::ResponseField(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the numbers in the response's body that make up the cost, if they are there.
    #[must_use]
    pub fn json(&self) -> Option<&ReportedSum> {
        match self {
            Self::ResponseJson(sum) => Some(sum),
            _ => None,
        }
    }
}

impl ReportedSum {
    /// Returns all places where a body is read.
    pub fn places(&self) -> impl Iterator<Item = &Pointer> {
        self.0.iter().flat_map(|part| &part.places)
    }
}

impl fmt::Display for ReportedSum {
    /// Writes the places, as in `/usage/input_tokens + /usage/output_tokens`; those of one part with `or` between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(" + ")?;
            }
            for (index, place) in part.places.iter().enumerate() {
                let or = if index > 0 { " or " } else { "" };
                write!(f, "{or}{place}")?;
            }
            if part.absent == AbsentPart::Zero {
                f.write_str(" or 0")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for CostSource {
    /// Writes the source like the configuration does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResponseField(name) => write!(f, "response.header.{name}"),
            Self::ResponseBytes => f.write_str("response.bytes"),
            Self::RequestBytes => f.write_str("request.bytes"),
            Self::ResponseJson(sum) => write!(f, "response.json.{sum}"),
            Self::ResponseDuration => f.write_str("response.duration"),
        }
    }
}
