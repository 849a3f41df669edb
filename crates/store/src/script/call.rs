//! Builds calls: each ask as the numbers that the script judges it by.
//!
//! ```text
//! mode, then for each ask:  rates, cost, entries,  [push: node, number | settle: made]
//!              and for each of its rates:  kind, field, count, period,  what the kind needs,  [settle: the fields left]
//! ```
//! `entries` is zero but for logs, which take two keys instead of one: the log, and what is to be remembered beside it.

use sluicegate_limiter::{
    CalendarWindow, Cost, DrainTime, LogEntry, RateState, RateTerms, RemoteState, Settle,
    Timestamp, WindowStart,
};

use super::{Call, NodeId, PushNumber, terms};
use sluicegate_decide::store::{KeyName, StoreAsk, StoreCharge, settled_units};

/// Charges all of `asks`, or none. `near` is a moment near the store's: it chooses the windows of a calendar that are sent.
#[must_use]
pub fn decide(asks: &[StoreAsk<'_>], near: Timestamp) -> Call {
    asking("decide", asks, near)
}

/// Returns the decision of [`decide`], and writes nothing.
#[must_use]
pub fn peek(asks: &[StoreAsk<'_>], near: Timestamp) -> Call {
    asking("peek", asks, near)
}

/// Charges `ask` whether it fits or not, unless the key has seen this push, or a later one, of the node.
#[must_use]
pub fn push(ask: &StoreAsk<'_>, node: NodeId, number: PushNumber, near: Timestamp) -> Call {
    let mut call = CallBuilder::from_mode("push");
    call.ask(ask);
    call.text(&format!("{:016x}", node.0));
    call.number(number.0);
    call.terms(ask, near, None);
    call.0
}

/// Charges `ask` whether it fits or not.
#[must_use]
pub fn charge_unchecked(ask: &StoreAsk<'_>, near: Timestamp) -> Call {
    let mut call = CallBuilder::from_mode("force");
    call.ask(ask);
    call.terms(ask, near, None);
    call.0
}

/// Deletes all that is kept under a name, whatever the algorithm.
#[must_use]
pub fn forget(name: &KeyName) -> Call {
    let name = name.as_str();
    let mut call = CallBuilder::from_mode("forget");
    call.0.keys = ["", ":log", ":beside"]
        .map(|kind| format!("{name}{kind}").into_bytes())
        .into();
    call.0
}

/// Makes a key count at least what the store had counted before, whatever it counts now. May be repeated.
#[must_use]
pub fn restore(ask: &StoreAsk<'_>, state: &RemoteState, near: Timestamp) -> Call {
    let mut call = CallBuilder::from_mode("restore");
    call.ask(ask);
    for (rate, terms) in terms(ask, near).iter().enumerate() {
        call.rate(terms);
        match (terms, state.rates().get(rate)) {
            (RateTerms::Log { .. }, state) => call.runs(state),
            (_, state) => call.left(state),
        }
    }
    call.0
}

/// Changes a charge to its final cost: a surplus is refunded as far as it still counts, a shortfall is charged whether it fits or not.
/// `None` if the cost stays.
#[must_use]
pub fn settle(charge: &StoreCharge, due: Settle, near: Timestamp) -> Option<Call> {
    let charged = charge.ask().cost.get();
    let actual = settled_units(charge.ask().cost, due);
    let of = |cost: Cost| StoreAsk {
        cost,
        ..charge.ask()
    };
    if let Some(missing) = Cost::new(actual.saturating_sub(charged)) {
        return Some(charge_unchecked(&of(missing), near));
    }
    let surplus = of(Cost::new(charged - actual)?);
    let mut call = CallBuilder::from_mode("settle");
    call.ask(&surplus);
    call.number(charge.made().as_nanos() / NANOS_PER_MILLI);
    call.terms(&surplus, near, Some(charge.left()));
    Some(call.0)
}

const NANOS_PER_MILLI: u64 = 1_000_000;

fn asking(mode: &str, asks: &[StoreAsk<'_>], near: Timestamp) -> Call {
    let mut call = CallBuilder::from_mode(mode);
    for ask in distinct(asks) {
        call.ask(&ask);
        call.terms(&ask, near, None);
    }
    call.0
}

/// Merges the asks by name.
pub(super) fn distinct<'a>(asks: &[StoreAsk<'a>]) -> Vec<StoreAsk<'a>> {
    let mut distinct: Vec<StoreAsk<'a>> = Vec::with_capacity(asks.len());
    for ask in asks {
        match distinct.iter_mut().find(|other| other.name == ask.name) {
            Some(other) => other.cost = other.cost.saturating_add(ask.cost),
            None => distinct.push(*ask),
        }
    }
    distinct
}

/// Returns the index of the merged ask that contains this one, and its cost.
pub(super) fn joint_ask(asks: &[StoreAsk<'_>], ask: &StoreAsk<'_>) -> (usize, Cost) {
    let distinct = distinct(asks);
    let index = distinct.iter().position(|other| other.name == ask.name);
    // It is one of `asks`.
    index.map_or((0, ask.cost), |index| (index, distinct[index].cost))
}

/// Returns the same call for a store of this epoch: a store of another one executes nothing, and answers that it was emptied.
#[must_use]
pub fn guarded(mut call: Call, marker: Vec<u8>, epoch: &str) -> Call {
    call.keys.insert(0, marker);
    call.args.splice(0..0, ["guarded".into(), epoch.into()]);
    call
}

/// A call that is being written.
struct CallBuilder(Call);

impl CallBuilder {
    fn from_mode(mode: &str) -> Self {
        Self(Call {
            keys: Vec::new(),
            args: vec![mode.into()],
        })
    }

    fn text(&mut self, text: &str) {
        self.0.args.push(text.into());
    }

    fn number(&mut self, number: impl Into<i128>) {
        let number: i128 = number.into();
        self.0.args.push(number.to_string().into_bytes());
    }

    fn ask(&mut self, ask: &StoreAsk<'_>) {
        let name = ask.name.as_str();
        let entries = ask.policy.log_entries();
        match entries {
            None => self.0.keys.push(name.into()),
            // Of another type than words are: an edit of the algorithm finds another key.
            Some(_) => {
                self.0.keys.push(format!("{name}:log").into());
                self.0.keys.push(format!("{name}:beside").into());
            }
        }
        self.number(ask.policy.rates().len() as u64);
        self.number(ask.cost.get());
        self.number(entries.unwrap_or(0));
    }

    fn terms(&mut self, ask: &StoreAsk<'_>, near: Timestamp, left: Option<&RemoteState>) {
        for (rate, terms) in terms(ask, near).iter().enumerate() {
            self.rate(terms);
            if let Some(left) = left {
                self.left(left.rates().get(rate));
            }
        }
    }

    fn rate(&mut self, terms: &RateTerms) {
        let kind = kind_of(terms);
        let rate = terms.rate();
        let period = rate.period().as_secs();
        self.text(kind);
        self.text(&format!("{kind}{period}"));
        self.number(rate.count());
        self.number(period);
        match terms {
            RateTerms::Sliding { .. }
            | RateTerms::Log { .. }
            | RateTerms::Window {
                begins: WindowStart::Epoch | WindowStart::First,
                ..
            } => {}
            RateTerms::Window {
                begins: WindowStart::Key { millis },
                ..
            } => self.number(*millis),
            RateTerms::Window {
                begins: WindowStart::Calendar(spans),
                ..
            } => {
                for CalendarWindow { begin, length } in spans {
                    self.number(*begin);
                    self.number(*length);
                }
            }
            RateTerms::Interval { burst, .. } => self.number(*burst),
            RateTerms::Drain {
                cost,
                room,
                ceiling,
                horizon,
                ..
            } => {
                self.drain_time(Some(*cost));
                self.drain_time(*room);
                self.drain_time(Some(*ceiling));
                // Below 2^35.
                self.number(horizon.as_millis() as u64);
            }
        }
    }

    /// Appends a drain time; minus one stands for one that never fits.
    fn drain_time(&mut self, time: Option<DrainTime>) {
        let (millis, ticks) = time.map_or((-1, 0), |time| (i128::from(time.millis), time.ticks));
        self.number(millis);
        self.number(ticks);
    }

    /// Appends a log as three runs, the latest first, of so many units at a moment. No unit is later than it was, as far as the store has
    /// reported.
    fn runs(&mut self, state: Option<&RateState>) {
        let runs = match state.copied() {
            Some(RateState::Logged {
                latest,
                awaited,
                oldest: Some(oldest),
            }) => {
                let awaited = awaited.filter(|entry| entry.age < oldest.age);
                let middle = awaited.map_or((0, 0), |entry| (oldest.age - entry.age, entry.millis));
                [(oldest.age - middle.0, latest), middle, (1, oldest.millis)]
            }
            _ => [(0, 0); 3],
        };
        for (units, millis) in runs {
            self.number(units);
            self.number(millis);
        }
    }

    fn left(&mut self, left: Option<&RateState>) {
        let fields: [u64; 3] = match left.copied() {
            Some(RateState::Sliding {
                second,
                previous,
                current,
            }) => [second, previous.into(), current.into()],
            Some(RateState::Begun { millis, count }) => [millis, count.into(), 0],
            Some(RateState::Owing {
                millis,
                ticks,
                generation,
            }) => [millis, ticks.into(), generation.into()],
            Some(RateState::Logged { latest, .. }) => [latest, 0, 0],
            Some(RateState::Unused) | None => [0; 3],
        };
        for field in fields {
            self.number(field);
        }
    }
}

/// Returns the letter of an algorithm. With the period it names the field, so that no algorithm reads what another wrote.
fn kind_of(terms: &RateTerms) -> &'static str {
    match terms {
        RateTerms::Sliding { .. } => "s",
        RateTerms::Window { begins, .. } => match begins {
            WindowStart::Epoch => "w",
            WindowStart::First => "f",
            WindowStart::Key { .. } => "k",
            WindowStart::Calendar(_) => "c",
        },
        RateTerms::Interval { .. } => "i",
        RateTerms::Drain { .. } => "d",
        RateTerms::Log { .. } => "l",
    }
}

/// Reads the state of a rate, and returns how many numbers it took.
pub(super) fn state_of(terms: &RateTerms, numbers: &[u64]) -> Option<(RateState, usize)> {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let entry = |age: u64, millis: u64| {
        // An age is sent as one more than it is, so that zero is none.
        age.checked_sub(1).map(|age| LogEntry {
            age: small(age),
            millis,
        })
    };
    match (terms, numbers) {
        (RateTerms::Log { .. }, [latest, awaited, awaited_at, oldest, oldest_at, ..]) => {
            let state = RateState::Logged {
                latest: *latest,
                awaited: entry(*awaited, *awaited_at),
                oldest: entry(*oldest, *oldest_at),
            };
            Some((state, 5))
        }
        (RateTerms::Log { .. }, _) => None,
        (_, [0, 0, 0, ..]) => Some((RateState::Unused, 3)),
        (RateTerms::Sliding { .. }, [second, previous, current, ..]) => {
            let state = RateState::Sliding {
                second: *second,
                previous: small(*previous),
                current: small(*current),
            };
            Some((state, 3))
        }
        (RateTerms::Window { .. } | RateTerms::Interval { .. }, [millis, count, _, ..]) => {
            let state = RateState::Begun {
                millis: *millis,
                count: small(*count),
            };
            Some((state, 3))
        }
        (RateTerms::Drain { .. }, [millis, ticks, generation, ..]) => {
            let state = RateState::Owing {
                millis: *millis,
                ticks: small(*ticks),
                generation: u16::try_from(*generation).unwrap_or(1),
            };
            Some((state, 3))
        }
        _ => None,
    }
}
