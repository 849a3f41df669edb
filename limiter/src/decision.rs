//! Says what was decided: one decision an ask, a verdict over all asks of a request.
//!
//! Everything here is a value of bounded size, made without allocation: a refusal must cost little.

use std::time::Duration;

use arrayvec::ArrayVec;

use crate::rate::{MAX_RATES, Rate};

/// Most limits that one request can face.
pub const MAX_ASKS: usize = 8;

/// The wait for a cost that no amount of waiting admits, since it exceeds the rate's count: 136 years, which every
/// header can carry.
pub const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

/// How one rate stands for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The rate.
    pub rate: Rate,
    /// Whole units of cost that would be admitted right now; after the charge, where one was made.
    pub remaining: u32,
    /// From now until `remaining` grows by one if nothing else arrives, zero when all is free. For a rate that refuses:
    /// until the refused cost would fit, [`NEVER`] if it exceeds the rate's count.
    pub next_free: Duration,
    /// From now until everything is free if nothing else arrives.
    pub reset: Duration,
}

/// Whether one limit lets a request pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Every rate has room.
    Admitted,
    /// Some rate has not.
    Refused {
        /// Index of the rate with the longest wait, in the order of [`Decision::standings`].
        rate: usize,
    },
}

/// Where a key was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// In a slot of its own, or it would get one.
    Alone,
    /// Together with other newcomers, since every slot it could use belongs to a key that still owes: the capacity is
    /// too small.
    InOverflow,
}

/// One limit's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    standings: ArrayVec<Standing, MAX_RATES>,
    refusal: Option<(usize, Duration)>,
    counted: Counted,
}

impl Decision {
    pub(crate) fn new(counted: Counted) -> Self {
        Self {
            standings: ArrayVec::new(),
            refusal: None,
            counted,
        }
    }

    /// Adds the standing of the next rate, which has room.
    pub(crate) fn push(&mut self, standing: Standing) {
        self.standings.push(standing);
    }

    /// Adds the standing of the next rate, which refuses.
    pub(crate) fn push_refusing(&mut self, standing: Standing) {
        if self
            .refusal
            .is_none_or(|(_, wait)| standing.next_free > wait)
        {
            self.refusal = Some((self.standings.len(), standing.next_free));
        }
        self.standings.push(standing);
    }

    /// How every rate stands, in the order of the limit's rates.
    #[must_use]
    pub fn standings(&self) -> &[Standing] {
        &self.standings
    }

    /// Whether this limit lets the request pass; another limit of the verdict may still refuse it.
    #[must_use]
    pub fn outcome(&self) -> Judgement {
        match self.refusal {
            None => Judgement::Admitted,
            Some((rate, _)) => Judgement::Refused { rate },
        }
    }

    /// Where the key was counted.
    #[must_use]
    pub fn counted(&self) -> Counted {
        self.counted
    }

    /// How long until every rate of this limit has room if nothing else arrives; `None` when they have it now.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal.map(|(_, wait)| wait)
    }
}

/// Whether a request passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every rate of every ask has room; all were charged, or would be.
    Admitted,
    /// Some rate has not; nothing was charged.
    Refused {
        /// Index of the ask that has to wait longest.
        ask: usize,
        /// Index of its rate that has to wait longest.
        rate: usize,
    },
}

/// The answer over all limits of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    decisions: ArrayVec<Decision, MAX_ASKS>,
    refusal: Option<Refusal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refusal {
    ask: usize,
    rate: usize,
    wait: Duration,
}

impl Verdict {
    /// The verdict over one ask.
    pub(crate) fn of(decision: Decision) -> Self {
        let mut verdict = Self::default();
        verdict.push(decision);
        verdict
    }

    /// Adds the decision about the next ask.
    pub(crate) fn push(&mut self, decision: Decision) {
        if let Some((rate, wait)) = decision.refusal {
            self.refuse(Refusal {
                ask: self.decisions.len(),
                rate,
                wait,
            });
        }
        self.decisions.push(decision);
    }

    /// The verdict with another decision about the ask at `index`.
    pub(crate) fn with_decision(self, index: usize, decision: Decision) -> Self {
        let mut verdict = Self::default();
        let mut other = Some(decision);
        for (ask, decision) in self.decisions.into_iter().enumerate() {
            verdict.push(if ask == index {
                other.take().unwrap_or(decision)
            } else {
                decision
            });
        }
        verdict
    }

    /// Refuses for good: there are more asks than can be charged together.
    pub(crate) fn refuse_surplus(&mut self) {
        self.refuse(Refusal {
            ask: MAX_ASKS,
            rate: 0,
            wait: NEVER,
        });
    }

    fn refuse(&mut self, refusal: Refusal) {
        if self
            .refusal
            .is_none_or(|longest| refusal.wait > longest.wait)
        {
            self.refusal = Some(refusal);
        }
    }

    /// Whether the request passes.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self.refusal {
            None => Outcome::Admitted,
            Some(Refusal { ask, rate, .. }) => Outcome::Refused { ask, rate },
        }
    }

    /// One decision an ask, in the order of the asks.
    #[must_use]
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The longest wait over all rates that refuse: after it the request would be admitted if nothing else arrived.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal.map(|refusal| refusal.wait)
    }
}
