//! Says what was decided: one decision an ask, a verdict over all asks of a request.
//!
//! A decision keeps the words that decided and the moment, and works out the status of a rate only when it is read: most
//! requests pass and it never is. Only the answer of a log is computed at once, and a rejection where the caller reads much of
//! it. Everything here is of bounded size. The verdict over one ask lies in a few cache lines and is made without allocation;
//! one over several takes a single block.

use std::fmt;
use std::time::Duration;

use arrayvec::ArrayVec;

use crate::algorithm::{CompiledRate, Word};
use crate::cost::Cost;
use crate::exact::ComputedAnswer;
use crate::rate::MAX_RATES;
use crate::status::{AskOutcome, KeyPlacement, NEVER, RateStatus, RateStatuses, RefusingRates};
use crate::time::Timestamp;

/// Most limits that one request can face.
pub const MAX_ASKS: usize = 8;

/// The result of reading a key in a table: everything that a decision needs except the limit itself.
#[derive(Clone, Copy)]
pub(crate) struct KeyFinding {
    pub(crate) asked: AskOutcome,
    pub(crate) placement: KeyPlacement,
    pub(crate) refusing: RefusingRates,
    /// The words that decided; behind the last rate they mean nothing.
    pub(crate) words: [Word; MAX_RATES],
}

impl KeyFinding {
    /// Returns whether some rate has no room.
    pub(crate) fn refuses(&self) -> bool {
        self.refusing != RefusingRates::default()
    }
}

/// One limit's answer.
#[derive(Clone)]
pub struct Decision(DecisionSource);

/// Charges that the place which decides does not count yet, or not where they are counted in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateCharges {
    /// Units of other places.
    pub others: u32,
    /// Units that were charged here, and are charged once more where all places count.
    pub own: u32,
    /// The longest time until they are charged, and since those of this place were.
    pub delay: Duration,
}

/// The source of a decision.
#[derive(Clone)]
enum DecisionSource {
    Words(WordEvidence),
    /// A log is too long to be taken along: its answer is worked out at once.
    Computed(ComputedAnswer),
}

/// The words of a key, as a moment read them.
#[derive(Clone)]
struct WordEvidence {
    now: Timestamp,
    finding: KeyFinding,
    /// One for each rate of the limit.
    compiled_rates: ArrayVec<CompiledRate, MAX_RATES>,
}

impl Decision {
    /// Makes a decision from a finding about a key of a limit with `rates` rates, which have these meters.
    #[inline(always)]
    pub(crate) fn new(
        now: Timestamp,
        finding: KeyFinding,
        rates: usize,
        compiled_rates: &[CompiledRate; MAX_RATES],
    ) -> Self {
        // Only those that say something are copied: this is a good part of what a decision writes.
        let mut own = ArrayVec::new();
        for compiled in &compiled_rates[..rates.min(MAX_RATES)] {
            own.push(*compiled);
        }
        Self(DecisionSource::Words(WordEvidence {
            now,
            finding,
            compiled_rates: own,
        }))
    }

    /// Makes a decision from an answer that is computed.
    pub(crate) const fn computed(answer: ComputedAnswer) -> Self {
        Self(DecisionSource::Computed(answer))
    }

    /// The words that decided, for a charge to replace; `None` for a log.
    #[inline(always)]
    pub(crate) const fn words_mut(&mut self) -> Option<&mut [Word; MAX_RATES]> {
        match &mut self.0 {
            DecisionSource::Words(words) => Some(&mut words.finding.words),
            DecisionSource::Computed(_) => None,
        }
    }

    /// Marks the decision as that about a charge of `cost` which was made.
    #[inline(always)]
    pub(crate) const fn set_charged(&mut self, cost: Cost) {
        if let DecisionSource::Words(words) = &mut self.0 {
            words.finding.asked = AskOutcome::Charged(cost);
        }
    }

    /// Adds so many units to what remains, since the charge is refunded. The times stay, which are then too long at most.
    fn refund(&mut self, units: u32) {
        if self.is_admitted() {
            let statuses = self.statuses().into_iter();
            let refunded = statuses.map(|status| (status.refunded(units), false));
            let answer = ComputedAnswer::new(refunded).with_placement(self.placement());
            self.0 = DecisionSource::Computed(answer);
        }
    }

    /// Computes now what a rejection states.
    fn compute(&mut self) {
        if let DecisionSource::Words(words) = &self.0 {
            self.0 = DecisionSource::Computed(words.answer());
        }
    }

    /// Computes the status of every rate, in the order of the limit's rates.
    #[must_use]
    pub fn statuses(&self) -> RateStatuses {
        match &self.0 {
            DecisionSource::Words(words) => {
                RateStatuses::new(words.rates().map(|rate| words.status(rate)))
            }
            DecisionSource::Computed(answer) => answer.statuses(),
        }
    }

    /// Whole units that fit now under every rate: the least `remaining` of its [`statuses`](Self::statuses).
    #[must_use]
    pub fn remaining(&self) -> u32 {
        match &self.0 {
            DecisionSource::Words(words) => words.remaining(),
            DecisionSource::Computed(answer) => answer.remaining(),
        }
    }

    /// The rate that refuses with the longest wait, of equal ones the first, and the wait.
    fn refusal(&self) -> Option<(usize, Duration)> {
        match &self.0 {
            DecisionSource::Words(words) => words.refusal(),
            DecisionSource::Computed(answer) => answer.refusal(),
        }
    }

    /// Returns whether this limit lets the request pass; another limit of the verdict may still refuse it.
    #[must_use]
    #[inline]
    pub fn is_admitted(&self) -> bool {
        !self.is_refused()
    }

    /// Returns whether some rate of this limit has no room.
    #[must_use]
    #[inline]
    pub fn is_refused(&self) -> bool {
        match &self.0 {
            DecisionSource::Words(words) => words.finding.refuses(),
            DecisionSource::Computed(answer) => answer.refusing().is_some(),
        }
    }

    /// Index of the rate that refuses with the longest wait, in the order of [`statuses`](Self::statuses); `None` when every rate has
    /// room.
    #[must_use]
    #[inline]
    pub fn refusing_rate(&self) -> Option<usize> {
        match &self.0 {
            DecisionSource::Words(words) => words.refusing_rate(),
            DecisionSource::Computed(answer) => answer.refusing(),
        }
    }

    /// Returns the time for which the request must be held back: more than zero only where a leaky bucket queues it.
    #[must_use]
    pub fn delay(&self) -> Duration {
        match &self.0 {
            DecisionSource::Words(words) => words.delay(),
            DecisionSource::Computed(_) => Duration::ZERO,
        }
    }

    /// Returns the counter that the key was counted by.
    #[must_use]
    pub fn placement(&self) -> KeyPlacement {
        match &self.0 {
            DecisionSource::Words(words) => words.finding.placement,
            DecisionSource::Computed(answer) => answer.placement(),
        }
    }

    /// Time until every rate of this limit has room if nothing else arrives; `None` when all have room now.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal().map(|(_, wait)| wait)
    }

    /// Returns the same rejection with the waits of a key whose `late` charges are made up to their delay from now, whenever that makes
    /// the wait longest. A rate that has room, a decision that does not refuse, and that of a log stay as they are.
    ///
    /// # Limits
    /// A charge that is made in the next window of a calendar waits for the end of the present one only.
    #[must_use]
    pub fn with_late_charges(self, late: LateCharges) -> Self {
        match &self.0 {
            DecisionSource::Words(words) if words.finding.refuses() => {
                Self::computed(words.answer_with(late))
            }
            _ => self,
        }
    }
}

impl WordEvidence {
    /// Computes the answer of a refusal with charges that are made later. A rate with room stays as it is: that others have used it up is a
    /// guess, and would make a client wait for the longest period.
    fn answer_with(&self, late: LateCharges) -> ComputedAnswer {
        let statuses = self.rates().map(|rate| {
            if self.finding.refusing.has(rate) {
                (self.late_status(rate, late), true)
            } else {
                (self.status(rate), false)
            }
        });
        ComputedAnswer::new(statuses).with_placement(self.finding.placement)
    }

    /// Returns the status of a refusing rate with charges that are made later.
    fn late_status(&self, rate: usize, late: LateCharges) -> RateStatus {
        let compiled = self.compiled_rates[rate];
        let later = self.now.saturating_add(late.delay);
        let first = self.now.saturating_sub(late.delay);
        let all = late.others.saturating_add(late.own);
        if late.own == 0 || compiled.is_in_one_window(first, later) {
            self.status_after(rate, late.others, later, late.delay)
        } else if compiled.has_given_windows() {
            // The word counts its own in the window before.
            self.status_after(rate, all, later, late.delay)
        } else {
            // Charges that are made later end later by as much; those behind a refill take from that.
            let soon = self.status_after(rate, late.others, self.now, late.delay);
            let last = self.status_after(rate, late.others, later, late.delay);
            if last.next_free > soon.next_free {
                last
            } else {
                soon
            }
        }
    }

    /// Returns the status of a refusing rate to which `units` are charged at `moment`, as it is `delay` later.
    fn status_after(
        &self,
        rate: usize,
        units: u32,
        moment: Timestamp,
        delay: Duration,
    ) -> RateStatus {
        let compiled = self.compiled_rates[rate];
        let before = self.finding.words[rate];
        let rate_at = compiled.at(moment);
        let word = match Cost::new(units) {
            Some(units) => rate_at.charge_unchecked(before, units),
            None => before,
        };
        let (cost, refused) = match self.finding.asked {
            AskOutcome::NotCharged(cost) => (cost, Some(cost)),
            AskOutcome::Charged(_) | AskOutcome::Peeked => (Cost::ONE, None),
        };
        if rate_at.fits(word, cost) {
            return self.status(rate);
        }
        let remaining = compiled.at(self.now).remaining(before);
        rate_at.status(word, refused).delayed(delay, remaining)
    }

    fn rates(&self) -> std::ops::Range<usize> {
        0..self.compiled_rates.len()
    }

    fn status(&self, rate: usize) -> RateStatus {
        let refused = match self.finding.asked {
            AskOutcome::NotCharged(cost) if self.finding.refusing.has(rate) => Some(cost),
            _ => None,
        };
        self.compiled_rates[rate]
            .at(self.now)
            .status(self.finding.words[rate], refused)
    }

    /// The answer of these words, which were not charged.
    fn answer(&self) -> ComputedAnswer {
        let refuses = |rate| self.finding.refusing.has(rate);
        let statuses = self.rates().map(|rate| (self.status(rate), refuses(rate)));
        ComputedAnswer::new(statuses).with_placement(self.finding.placement)
    }

    /// The rate that refuses with the longest wait, of equal ones the first, and the wait.
    fn refusal(&self) -> Option<(usize, Duration)> {
        let refusing = self.rates().filter(|rate| self.finding.refusing.has(*rate));
        let waits = refusing.map(|rate| (rate, self.status(rate).next_free));
        waits.reduce(|longest, next| if next.1 > longest.1 { next } else { longest })
    }

    #[inline]
    fn refusing_rate(&self) -> Option<usize> {
        match self.finding.refusing.0 {
            0 => None,
            one if one.is_power_of_two() => Some(one.trailing_zeros() as usize),
            _ => Some(self.refusal().map_or(0, |(rate, _)| rate)),
        }
    }

    fn remaining(&self) -> u32 {
        let remaining = self.rates().map(|rate| {
            let rate_at = self.compiled_rates[rate].at(self.now);
            rate_at.remaining(self.finding.words[rate])
        });
        remaining.min().unwrap_or(0)
    }

    fn delay(&self) -> Duration {
        let AskOutcome::Charged(cost) = self.finding.asked else {
            return Duration::ZERO;
        };
        let delay =
            |rate: usize| self.compiled_rates[rate].delay(self.now, self.finding.words[rate], cost);
        let delays = self.rates().map(delay);
        delays.max().unwrap_or_default()
    }
}

impl PartialEq for Decision {
    /// Compares what two decisions state, not the words that they were read from.
    fn eq(&self, other: &Self) -> bool {
        self.placement() == other.placement()
            && self.refusing_rate() == other.refusing_rate()
            && self.statuses() == other.statuses()
    }
}

impl Eq for Decision {}

impl fmt::Debug for Decision {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("Decision")
            .field("refusing_rate", &self.refusing_rate())
            .field("placement", &self.placement())
            .field("statuses", &self.statuses())
            .finish()
    }
}

/// The result over all limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every rate of every ask has room; all were charged, or would be.
    Admitted,
    /// Some rate has not; nothing was charged.
    Refused {
        /// Index of the ask that has to wait longest; [`MAX_ASKS`], which has no decision, where there were more than that.
        ask: usize,
        /// Index of its rate that has to wait longest.
        rate: usize,
    },
}

/// The answer over all limits of a request.
#[derive(Clone, Debug)]
pub struct Verdict {
    decisions: VerdictDecisions,
    /// Tells if there were more asks than can be charged together.
    surplus: SurplusAsks,
}

/// The decisions of a verdict: most requests face one limit.
#[derive(Clone, Debug)]
enum VerdictDecisions {
    One(Decision),
    Several(Vec<Decision>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SurplusAsks {
    None,
    Some,
}

impl Verdict {
    /// The verdict over one ask.
    #[inline(always)]
    pub(crate) fn over_one(decision: Decision) -> Self {
        Self {
            decisions: VerdictDecisions::One(decision),
            surplus: SurplusAsks::None,
        }
    }

    /// The verdict over these decisions.
    pub(crate) fn over(decisions: Vec<Decision>) -> Self {
        Self {
            decisions: VerdictDecisions::Several(decisions),
            surplus: SurplusAsks::None,
        }
    }

    /// Replaces the decision about the ask at `index`.
    pub(crate) fn replace(&mut self, index: usize, other: Decision) {
        let place = match &mut self.decisions {
            VerdictDecisions::One(decision) => Some(decision),
            VerdictDecisions::Several(decisions) => decisions.get_mut(index),
        };
        if let Some(decision) = place {
            *decision = other;
        }
    }

    /// Refuses for good: there are more asks than can be charged together.
    pub(crate) fn refuse_surplus(&mut self) {
        self.surplus = SurplusAsks::Some;
    }

    /// Returns whether the request passes.
    #[must_use]
    #[inline]
    pub fn outcome(&self) -> Outcome {
        if let VerdictDecisions::One(decision) = &self.decisions {
            return match decision.refusing_rate() {
                None => Outcome::Admitted,
                Some(rate) => Outcome::Refused { ask: 0, rate },
            };
        }
        let asks = self.decisions().iter().enumerate();
        let mut refused = asks.filter_map(|(ask, decision)| {
            let rate = decision.refusing_rate()?;
            Some(Outcome::Refused { ask, rate })
        });
        // Waits are worked out only where there are several to compare.
        match (self.surplus, refused.next(), refused.next()) {
            (SurplusAsks::None, None, _) => Outcome::Admitted,
            (SurplusAsks::None, Some(only), None) => only,
            _ => match self.refusal() {
                Some((ask, rate, _)) => Outcome::Refused { ask, rate },
                None => Outcome::Admitted,
            },
        }
    }

    /// Reports that the charges are refunded: each ask gets back as many units as `units` returns for its index.
    pub fn refund(&mut self, units: impl Fn(usize) -> u32) {
        let decisions: &mut [Decision] = match &mut self.decisions {
            VerdictDecisions::One(decision) => std::slice::from_mut(decision),
            VerdictDecisions::Several(decisions) => decisions,
        };
        for (ask, decision) in decisions.iter_mut().enumerate() {
            decision.refund(units(ask));
        }
    }

    /// Computes now what the decisions of a rejection state, since its wait, its fields and its line in the log read the status of each
    /// rate. Of an admission little is read, so it stays as it is.
    pub fn compute(&mut self) {
        if self.outcome() == Outcome::Admitted {
            return;
        }
        match &mut self.decisions {
            VerdictDecisions::One(decision) => decision.compute(),
            VerdictDecisions::Several(decisions) => {
                decisions.iter_mut().for_each(Decision::compute)
            }
        }
    }

    /// The longest delay over all limits: the time for which an admitted request must be held back.
    #[must_use]
    pub fn delay(&self) -> Duration {
        let delays = self.decisions().iter().map(Decision::delay);
        delays.max().unwrap_or_default()
    }

    /// Whole units that fit now under every rate of every limit; `None` when there is no limit.
    #[must_use]
    pub fn remaining(&self) -> Option<u32> {
        self.decisions().iter().map(Decision::remaining).min()
    }

    /// One decision an ask, of the first [`MAX_ASKS`], in the order of the asks.
    #[must_use]
    pub fn decisions(&self) -> &[Decision] {
        match &self.decisions {
            VerdictDecisions::One(decision) => std::slice::from_ref(decision),
            VerdictDecisions::Several(decisions) => decisions,
        }
    }

    /// The longest wait over all rates that refuse: after it the request would be admitted if nothing else arrived.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal().map(|(_, _, wait)| wait)
    }

    /// The ask and its rate with the longest wait, of equal ones the first, and the wait.
    fn refusal(&self) -> Option<(usize, usize, Duration)> {
        let surplus = (self.surplus == SurplusAsks::Some).then_some((MAX_ASKS, 0, NEVER));
        let asks = self.decisions().iter().enumerate();
        let refusals = asks.filter_map(|(ask, decision)| {
            let (rate, wait) = decision.refusal()?;
            Some((ask, rate, wait))
        });
        refusals
            .chain(surplus)
            .reduce(|longest, next| if next.2 > longest.2 { next } else { longest })
    }
}

impl PartialEq for Verdict {
    fn eq(&self, other: &Self) -> bool {
        self.surplus == other.surplus && self.decisions() == other.decisions()
    }
}

impl Eq for Verdict {}
