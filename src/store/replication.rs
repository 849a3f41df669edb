//! Decides what the store is told in one sync, and what becomes of each answer, lost ones included: the protocol without its transport.
//!
//! What is due of a key becomes one push, with a number of this node's. A push whose answer is lost is sent again as it was, before
//! anything else of its key; the key in the store remembers the number, so it counts once however often it arrives
//! ([`script::push`]). A push that surely did not arrive goes back to what is due.
//!
//! # Limits
//! A key remembers a number for [`PUSH_MEMORY`] at least. A push that got no answer for nearly as long is given up: it may have been
//! charged and may not, and nothing is to be charged twice. So an outage costs the store at most what was under way when it began, and
//! these nodes still count it themselves.
//!
//! What has waited through an outage is told as far as this node still counts it: of an hour's admissions, those that the limit's
//! periods reach back to.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_limiter::{Cost, Policy, Timestamp};

use super::pending_writes::{ClockPair, PendingWrites, TakenDelta, cost_of};
use super::replay_queue::{ReplayDelta, ReplayQueue};
use super::script::{
    self, Ask, Call, ChargeResult, KeyName, NodeId, PUSH_MEMORY, PushNumber, ScriptAnswer,
};
use sluicegate_redis_link::random;

/// What the transport says of one call.
#[derive(Debug)]
pub(super) enum Delivery {
    /// It was answered.
    Answered(script::Reply),
    /// It surely did nothing: it was not sent, or was refused.
    NotExecuted,
    /// Nobody knows.
    Unknown,
}

/// What a node exchanges with the store, and how far it is.
#[derive(Debug)]
pub(super) struct SyncSession {
    node: NodeId,
    last: u64,
    /// The oldest first. Bounded by the keys that may be owed.
    unanswered: VecDeque<PendingPush>,
}

/// Where a node keeps what is to be told, and what came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SyncQueues<'a> {
    /// Of limits whose counts are exchanged.
    pub(super) owed: &'a PendingWrites,
    /// Of limits that the store decides, while it was away.
    pub(super) unsent: &'a ReplayQueue,
    /// What came of it.
    pub(super) pushed: &'a PushCounters,
}

/// One call that tells, or asks.
#[derive(Debug)]
pub(super) struct PendingPush {
    whose: PushSource,
    name: KeyName,
    /// `None` if nothing is told.
    told: Option<(Cost, PushNumber)>,
    /// When it was first sent.
    first: Timestamp,
    /// Whether it may have arrived before.
    sent: SendState,
    /// A moment of the store's, where it has said that it lives in other windows than it was thought to.
    near: Option<Timestamp>,
}

/// In which book it stood.
#[derive(Debug)]
enum PushSource {
    Pending(TakenDelta),
    Replay(ReplayDelta),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendState {
    NotSent,
    MaybeSent,
}

/// What came of pushes since the start.
#[derive(Debug, Default)]
pub(super) struct PushCounters {
    /// Units that the store charged, or had charged already.
    units: AtomicU64,
    /// Pushes sent again.
    repeated: AtomicU64,
    /// Pushes to keys that hold what no gateway writes.
    foreign: AtomicU64,
    syncs: AtomicU64,
    /// Whether clocks were found far apart, and that was said.
    pub(super) is_skewed: AtomicBool,
    /// In nanoseconds since the epoch; 0 for none.
    oldest_unanswered: AtomicU64,
}

/// How far a sync came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncResult {
    /// All was told.
    Complete,
    /// The store went away.
    Partial,
}

/// How long a push is repeated, with a margin for the way.
const PATIENCE: Duration = Duration::from_secs(PUSH_MEMORY.as_secs() - 10);
/// What has waited for longer is told as far as it still counts.
const LATE: Duration = Duration::from_secs(2);

impl Default for SyncSession {
    /// That of a node with a name of its own, random for a process.
    fn default() -> Self {
        Self::new(NodeId(random()))
    }
}

impl SyncSession {
    /// What `node` exchanges.
    #[must_use]
    pub(super) fn new(node: NodeId) -> Self {
        Self {
            node,
            last: 0,
            unanswered: VecDeque::new(),
        }
    }

    /// What to send next, at most `most` pushes to keys that begin with `prefix`: those without an answer first, then keys that have
    /// waited since `until` or longer.
    pub(super) fn batch(
        &mut self,
        prefix: &str,
        most: usize,
        books: SyncQueues<'_>,
        until: Timestamp,
        now: Timestamp,
    ) -> Vec<PendingPush> {
        let mut batch = Vec::new();
        while batch.len() < most
            && let Some(push) = self.unanswered.pop_front()
        {
            if now.saturating_since(push.first) < PATIENCE {
                books.pushed.repeated.fetch_add(1, Ordering::Relaxed);
                batch.push(push);
            } else {
                push.give_up(books);
            }
        }
        for taken in books.owed.take(most - batch.len(), until) {
            batch.push(self.tell(prefix, taken, now));
        }
        for (name, debt) in books.unsent.take(most - batch.len()) {
            // The store hears of a key in the order of its pushes.
            let mut others = batch.iter().chain(&self.unanswered);
            if others.any(|push| push.name == name) {
                put_back(books, &name, &debt);
            } else {
                batch.push(self.tell_late(name, debt, now));
            }
        }
        batch
    }

    /// Takes in what came of `push`, which was sent; the store's time, if it told that.
    pub(super) fn heard(
        &mut self,
        push: PendingPush,
        fate: Delivery,
        books: SyncQueues<'_>,
    ) -> Option<Timestamp> {
        let answer = match fate {
            Delivery::Answered(reply) => script::read(&[push.ask()], reply).ok(),
            Delivery::NotExecuted if push.sent == SendState::NotSent => {
                push.put_back(books);
                return None;
            }
            Delivery::NotExecuted | Delivery::Unknown => None,
        };
        match answer {
            Some(ScriptAnswer::Decided(decided)) => {
                for told in &decided.told {
                    if let PushSource::Pending(taken) = &push.whose {
                        if decided.came == ChargeResult::Charged {
                            let excess = told.state.excess(push.policy(), decided.now);
                            taken.account.tally.exceed(excess.min(push.units()));
                        }
                        books.owed.adopt(taken.debtor, &told.state, decided.now);
                    }
                }
                // Relaxed, here and above: numbers to show, publish nothing.
                books
                    .pushed
                    .units
                    .fetch_add(push.units(), Ordering::Relaxed);
                Some(decided.now)
            }
            Some(ScriptAnswer::Elsewhen(now)) => {
                // Nothing was written, so the number may be used again.
                let near = Some(now);
                self.unanswered.push_back(PendingPush { near, ..push });
                Some(now)
            }
            // Pushes are for any epoch.
            Some(ScriptAnswer::Foreign(_) | ScriptAnswer::Emptied) => {
                books.pushed.foreign.fetch_add(1, Ordering::Relaxed);
                push.give_up(books);
                None
            }
            None if push.told.is_none() => {
                push.give_up(books);
                None
            }
            None => {
                let sent = SendState::MaybeSent;
                self.unanswered.push_back(PendingPush { sent, ..push });
                None
            }
        }
    }

    /// Gives up all pushes without an answer.
    pub(super) fn give_up(&mut self, books: SyncQueues<'_>) {
        for push in self.unanswered.drain(..) {
            push.give_up(books);
        }
    }

    /// Since when the one waits that is the oldest of those without an answer.
    #[must_use]
    pub(super) fn oldest_unanswered(&self) -> Option<Timestamp> {
        let since = self.unanswered.iter().map(|push| match &push.whose {
            PushSource::Pending(taken) => taken.since,
            PushSource::Replay(_) => push.first,
        });
        since.min()
    }

    fn tell(&mut self, prefix: &str, mut taken: TakenDelta, now: Timestamp) -> PendingPush {
        if now.saturating_since(taken.since) > LATE {
            let counted = taken.account.own.used(taken.debtor.key(), now);
            taken.units = taken.units.min(counted);
        }
        let name = KeyName::new(prefix, taken.name, &taken.account.tally.limit);
        self.push(name, taken.units, PushSource::Pending(taken), now)
    }

    /// Of what was admitted while the store was away nobody knows how much still counts: at most what fills the limit.
    fn tell_late(&mut self, name: KeyName, debt: ReplayDelta, now: Timestamp) -> PendingPush {
        let units = debt.units.min(debt.policy.most().into());
        self.push(name, units, PushSource::Replay(debt), now)
    }

    fn push(
        &mut self,
        name: KeyName,
        units: u64,
        whose: PushSource,
        now: Timestamp,
    ) -> PendingPush {
        let told = cost_of(units).map(|cost| {
            self.last += 1;
            (cost, PushNumber(self.last))
        });
        PendingPush {
            whose,
            name,
            told,
            first: now,
            sent: SendState::NotSent,
            near: None,
        }
    }

    /// The call that makes `push`.
    #[must_use]
    pub(super) fn call(&self, push: &PendingPush, at: ClockPair) -> Call {
        let near = push.near.unwrap_or(at.store);
        match push.told {
            Some((_, number)) => script::push(&push.ask(), self.node, number, near),
            None => script::peek(&[push.ask()], near),
        }
    }
}

impl PendingPush {
    fn policy(&self) -> &Policy {
        match &self.whose {
            PushSource::Pending(taken) => taken.account.view.policy(),
            PushSource::Replay(debt) => &debt.policy,
        }
    }

    fn ask(&self) -> Ask<'_> {
        Ask {
            policy: self.policy(),
            name: &self.name,
            cost: self.told.map_or(Cost::ONE, |(cost, _)| cost),
        }
    }

    fn units(&self) -> u64 {
        self.told.map_or(0, |(cost, _)| cost.get().into())
    }

    /// It was not told.
    fn put_back(&self, books: SyncQueues<'_>) {
        match &self.whose {
            PushSource::Pending(taken) => books.owed.put_back(taken),
            PushSource::Replay(debt) => put_back(books, &self.name, debt),
        }
    }

    /// Nobody will know what came of it.
    fn give_up(&self, books: SyncQueues<'_>) {
        _ = books.owed.lose(self.units());
        if let PushSource::Pending(taken) = &self.whose {
            books.owed.let_go(taken.debtor);
        }
    }
}

fn put_back(books: SyncQueues<'_>, name: &KeyName, debt: &ReplayDelta) {
    if let Some(cost) = cost_of(debt.units) {
        let policy = &debt.policy;
        books.unsent.add(&Ask { policy, name, cost });
    }
}

impl PushCounters {
    /// Units that the store was told of.
    #[must_use]
    pub(super) fn units(&self) -> u64 {
        self.units.load(Ordering::Relaxed)
    }

    /// Pushes that were sent again, since their answer was lost.
    #[must_use]
    pub(super) fn repeated(&self) -> u64 {
        self.repeated.load(Ordering::Relaxed)
    }

    /// Syncs that went through.
    #[must_use]
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Since when the oldest push without an answer waits, after the latest sync.
    #[must_use]
    pub(super) fn oldest_unanswered(&self) -> Option<Timestamp> {
        let nanos = self.oldest_unanswered.load(Ordering::Relaxed);
        (nanos > 0).then(|| Timestamp::from_nanos(nanos))
    }

    /// A sync has ended.
    pub(super) fn ended(&self, exchange: &SyncSession, went: SyncResult) {
        if went == SyncResult::Complete {
            self.syncs.fetch_add(1, Ordering::Relaxed);
        }
        let oldest = exchange.oldest_unanswered();
        self.oldest_unanswered
            .store(oldest.map_or(0, Timestamp::as_nanos), Ordering::Relaxed);
    }

    /// Pushes to keys that hold what no gateway writes.
    #[must_use]
    pub(super) fn foreign(&self) -> u64 {
        self.foreign.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
#[path = "replication_tests.rs"]
mod tests;
