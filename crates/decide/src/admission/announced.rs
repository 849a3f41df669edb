//! Decides what a request reserves by what it announces: `reserve = "body.json./max_tokens"`.
//!
//! A client chooses what it announces, so a value that the origin may read in another way is none: a member that stands twice, a body of
//! another type, or a longer one than is read. Such a request reserves the most that it can cost. One that announces more than the limit
//! ever admits reserves just that, for which no counter has room: with a smaller reserve it could spend more than was left.

use crate::rejection::MissingReason;
use sluicegate_limiter::Cost;

use super::body;
use super::facts::RequestFacts;
use super::settlement::digits;
use sluicegate_config::rules::{CostRules, MeasuredCost, ReservePart};

/// The reserve that requests announce.
#[derive(Clone, Debug)]
pub(super) struct AnnouncedCost {
    cost: MeasuredCost,
    parts: Vec<ReservePart>,
    largest_admitted: Cost,
}

impl AnnouncedCost {
    /// Returns the rule in `cost`; `None` where every request reserves the same.
    pub(super) fn new(cost: &CostRules) -> Option<Self> {
        let (cost, announced) = cost.announced()?;
        Some(Self {
            cost: cost.clone(),
            parts: announced.parts.clone(),
            largest_admitted: announced.largest_admitted,
        })
    }

    /// Returns what this request reserves.
    pub(super) fn reserve(&self, facts: &RequestFacts<'_>) -> Cost {
        match self.sum(facts) {
            Some(announced) if announced > self.largest_admitted => announced,
            announced => {
                let announced = announced.unwrap_or(self.largest_admitted);
                Cost::new(self.cost.at_most).map_or(announced, |most| announced.min(most))
            }
        }
    }

    /// Returns the sum of the parts; `None` where the request announces none, or one that is not read.
    fn sum(&self, facts: &RequestFacts<'_>) -> Option<Cost> {
        let mut sum = 0_u32;
        let mut announced = false;
        for part in &self.parts {
            let units = match part {
                ReservePart::Units(units) => *units,
                ReservePart::Json(pointer) => {
                    match body::json(facts.body, facts.headers, pointer) {
                        Ok(text) => {
                            announced = true;
                            self.cost.unbounded_units(digits(&text)?)
                        }
                        Err(MissingReason::Absent) => 0,
                        Err(_) => return None,
                    }
                }
            };
            sum = sum.saturating_add(units);
        }
        Cost::new(sum.max(1)).filter(|_| announced)
    }
}
