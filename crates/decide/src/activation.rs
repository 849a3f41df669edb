//! Decides whether a limit or a tier with a condition is active, and shows the decision to requests.
//!
//! A background task looks at the figures every [`LOAD_LOOK`](sluicegate_base::bounds::LOAD_LOOK) and takes the next step of the
//! automaton ([`ActivationPhase`]). A request reads one word.
//!
//! # Concurrency
//! Only the task takes steps, one at a time behind a lock. The word that requests read is relaxed: a request that reads an old value is
//! decided as one that came a moment earlier. Each request reads it once, so a step in between changes nothing for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate_config::rules::ActivationRules;
use sluicegate_config::{HysteresisMargin, LoadFigure};
use sluicegate_limiter::Timestamp;

/// The activation of one limit or tier. A reload keeps it, as long as the limit or the tier has a condition.
#[derive(Debug)]
pub struct LoadActivation {
    /// The rules.
    pub rules: Arc<ActivationRules>,
    is_active: AtomicBool,
    state: Mutex<ActivationState>,
    activated: AtomicU64,
    deactivated: AtomicU64,
}

/// The part that only steps change.
#[derive(Clone, Copy, Debug, Default)]
struct ActivationState {
    phase: ActivationPhase,
    /// The time of the latest transition.
    since: Option<Timestamp>,
}

/// The state of the automaton.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActivationPhase {
    /// It applies to no request.
    #[default]
    Inactive,
    /// It applies.
    Active,
    /// It applies, and its end has held since this time.
    Ending(Timestamp),
}

/// A change that requests notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivationChange {
    /// It became active.
    Activated,
    /// It became inactive.
    Deactivated,
}

impl ActivationPhase {
    /// Returns whether it applies to requests.
    #[must_use]
    pub fn is_active(self) -> bool {
        self != Self::Inactive
    }

    /// Returns the phase after a look at these figures.
    ///
    /// A clock that goes back restarts the wait for the end, so the phase is never left early.
    #[must_use]
    pub fn next(
        self,
        rules: &ActivationRules,
        figures: impl Fn(&LoadFigure) -> Option<u64>,
        now: Timestamp,
    ) -> Self {
        if rules.when.holds(&figures, HysteresisMargin::None) {
            return Self::Active;
        }
        let ends = match &rules.until {
            Some(until) => until.holds_or_is_unknown(&figures),
            None => !rules.when.holds(&figures, HysteresisMargin::Tenth),
        };
        match self {
            Self::Inactive => Self::Inactive,
            Self::Active | Self::Ending(_) if !ends => Self::Active,
            Self::Ending(since)
                if now >= since && now.saturating_since(since) >= rules.keep_active_for =>
            {
                Self::Inactive
            }
            Self::Ending(since) if now >= since => self,
            Self::Active | Self::Ending(_) => Self::Ending(now),
        }
    }
}

impl LoadActivation {
    /// Returns the activation by `rules`; `before` is that of the same limit or tier in the configuration before, whose state stays.
    #[must_use]
    pub fn new(rules: &Arc<ActivationRules>, before: Option<&Arc<Self>>) -> Arc<Self> {
        let Some(before) = before else {
            return Arc::new(Self {
                rules: Arc::clone(rules),
                is_active: AtomicBool::new(false),
                state: Mutex::default(),
                activated: AtomicU64::new(0),
                deactivated: AtomicU64::new(0),
            });
        };
        if before.rules == *rules {
            return Arc::clone(before);
        }
        let state = *before.state();
        let [activated, deactivated] = before.changes();
        Arc::new(Self {
            rules: Arc::clone(rules),
            is_active: AtomicBool::new(state.phase.is_active()),
            state: Mutex::new(state),
            activated: AtomicU64::new(activated),
            deactivated: AtomicU64::new(deactivated),
        })
    }

    /// Returns whether it applies to a request that comes now.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Returns the time of the latest transition; `None` before the first.
    #[must_use]
    pub fn since(&self) -> Option<Timestamp> {
        self.state().since
    }

    /// Returns how often it became active, and inactive.
    #[must_use]
    pub fn changes(&self) -> [u64; 2] {
        [&self.activated, &self.deactivated].map(|count| count.load(Ordering::Relaxed))
    }

    /// Takes a step by these figures. Returns the change that requests notice, if there is one.
    pub fn look(
        &self,
        figures: impl Fn(&LoadFigure) -> Option<u64>,
        now: Timestamp,
    ) -> Option<ActivationChange> {
        let mut state = self.state();
        let was_active = state.phase.is_active();
        state.phase = state.phase.next(&self.rules, figures, now);
        let is_active = state.phase.is_active();
        if is_active == was_active {
            return None;
        }
        state.since = Some(now);
        self.is_active.store(is_active, Ordering::Relaxed);
        let (count, change) = if is_active {
            (&self.activated, ActivationChange::Activated)
        } else {
            (&self.deactivated, ActivationChange::Deactivated)
        };
        count.fetch_add(1, Ordering::Relaxed);
        Some(change)
    }

    fn state(&self) -> MutexGuard<'_, ActivationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use sluicegate_config::{no_review, parse};

    use super::*;

    fn rules(keys: &str) -> Arc<ActivationRules> {
        let text = format!(
            "listener = [{{ address = '127.0.0.1:1' }}]
             route = [{{ path = '/*', limits = ['strict'], respond = {{ status = 200 }} }}]
             [limit.strict]
             key = 'client.ip'
             rates = ['5 per 1m']
             {keys}"
        );
        let loaded = parse("gateway.toml", &text, no_review);
        let rules = loaded.expect("a configuration").rules;
        let activation = rules.limits["strict"].activation.clone();
        activation.expect("an activation")
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000).saturating_add(Duration::from_millis(millis))
    }

    /// Looks every 250 ms, at a figure of `value` for so many looks each; returns the phases' activity as text: `-` and `A`.
    fn run(activation: &LoadActivation, values: &[(Option<u64>, usize)]) -> String {
        let looks = values
            .iter()
            .flat_map(|(value, looks)| vec![*value; *looks]);
        looks
            .zip(0..)
            .map(|(value, look)| {
                _ = activation.look(|_| value, at(look * 250));
                if activation.is_active() { 'A' } else { '-' }
            })
            .collect()
    }

    /// Goal: a limit is active from the first look at which its condition holds, until the figure has been a tenth below for as long as it
    /// is kept, without a break. Method: a figure that rises, hovers within the margin, dips shortly, and falls.
    #[test]
    fn the_end_has_to_hold_without_a_break() {
        let activation = LoadActivation::new(
            &rules("when = 'connections > 100'\nkeep_active_for = '1s'"),
            None,
        );
        let told = run(
            &activation,
            &[
                (Some(100), 2),
                (Some(101), 1),
                (Some(91), 6),
                (Some(90), 4),
                (Some(95), 1),
                (Some(90), 4),
                (Some(0), 1),
                (Some(100), 2),
            ],
        );
        assert_eq!(told, "--AAAAAAAAAAAAAAAA---");
        assert_eq!(activation.changes(), [1, 1]);
        assert_eq!(activation.since(), Some(at(18 * 250)));
    }

    /// Goal: an end of its own replaces the margin, an unknown figure ends, and what still meets the condition goes on although the end
    /// holds too. Method: an end above the condition, and figures on all sides.
    #[test]
    fn an_end_of_its_own_replaces_the_margin() {
        let keys = "when = 'connections > 100'\nuntil = 'connections < 50'\nkeep_active_for = '1s'";
        let activation = LoadActivation::new(&rules(keys), None);
        assert_eq!(
            run(
                &activation,
                &[(Some(101), 1), (Some(50), 9), (Some(49), 5), (Some(99), 1)]
            ),
            "AAAAAAAAAAAAAA--"
        );
        let activation = LoadActivation::new(&rules(keys), None);
        assert_eq!(
            run(&activation, &[(None, 2), (Some(101), 1), (None, 6)]),
            "--AAAAA--"
        );
        let keys =
            "when = 'connections > 100'\nuntil = 'connections < 500'\nkeep_active_for = '1s'";
        let activation = LoadActivation::new(&rules(keys), None);
        assert_eq!(run(&activation, &[(Some(200), 20)]), "A".repeat(20));
    }

    /// Goal: a reload changes nothing of the state, whatever it changes of the rules. Method: the same rules, then others, while active.
    #[test]
    fn a_reload_keeps_the_state() {
        let first = LoadActivation::new(&rules("when = 'connections > 100'"), None);
        assert_eq!(
            first.look(|_| Some(101), at(0)),
            Some(ActivationChange::Activated)
        );
        let same = LoadActivation::new(&rules("when = 'connections > 100'"), Some(&first));
        assert!(Arc::ptr_eq(&first, &same));
        let other = LoadActivation::new(
            &rules("when = 'connections > 1000'\nkeep_active_for = '1s'"),
            Some(&first),
        );
        assert!(other.is_active());
        assert_eq!((other.since(), other.changes()), (Some(at(0)), [1, 0]));
        assert_eq!(other.look(|_| Some(101), at(250)), None);
        assert_eq!(
            other.look(|_| Some(101), at(1_250)),
            Some(ActivationChange::Deactivated)
        );
    }

    proptest! {
        /// Goal: whatever the figure and the clock do, a limit is active whenever its condition holds, ends only after the time that it is
        /// kept without a value within the margin, and so changes no more often than that. Method: random values and steps of the clock,
        /// also backwards, beside a model that remembers every look.
        #[test]
        fn it_never_ends_early_and_never_begins_late(
            looks in proptest::collection::vec((0_u64..140, -500_i64..2_000), 1..200)
        ) {
            let rules = rules("when = 'connections > 100'\nkeep_active_for = '3s'");
            let activation = LoadActivation::new(&rules, None);
            let (mut millis, mut ended_at) = (1_000_000_i64, None);
            for (value, step) in looks {
                millis += step;
                let now = at(millis.unsigned_abs());
                let was_active = activation.is_active();
                let change = activation.look(|_| Some(value), now);
                prop_assert_eq!(change.is_some(), was_active != activation.is_active());
                if value > 100 {
                    prop_assert!(activation.is_active());
                } else if !was_active {
                    prop_assert!(!activation.is_active());
                }
                if value > 90 {
                    ended_at = None;
                } else if ended_at.is_none_or(|ended| millis < ended) {
                    ended_at = Some(millis);
                }
                let may_end = ended_at.is_some_and(|ended| millis - ended >= 3_000);
                prop_assert_eq!(was_active && !activation.is_active(), was_active && may_end);
            }
        }
    }
}
