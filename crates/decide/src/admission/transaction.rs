//! Owns the charges and permits of a request, from the moment at which they are made until they are settled.
//!
//! [`reserve`] decides over the checks and makes the charges. A request that passes commits them; then they are settled by its response, or
//! at its end.
//!
//! # Invariants
//! 1. A [`Transaction`] that is dropped before it is committed refunds its charges and gives back its permits; dropped afterwards it
//!    settles them as for a request without a response.
//! 2. A replicated charge is opened before the store is called: it is sent to other nodes when it is settled.

mod reserve;

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluicegate_base::clock;
use sluicegate_limiter::{Cost, MAX_ASKS, Permit, Reservation, Settle, Timestamp};

use super::backend::BackendKind;
use super::limit::ActiveLimit;
use super::limit_check::LimitCheck;
use super::limit_event::{LimitEvent, LimitNote};
use super::reserved_units::HeldReserve;
use super::settlement::{FinalResponse, RequestEnd, ResponseProgress};
use crate::store::{RemoteCharge, ReplicatedCharge};

pub(super) use reserve::{JointDecision, JointProgress, JointQuestion};

/// Owns the charges and permits of a request.
#[must_use = "dropped, it refunds everything"]
#[derive(Debug, Default)]
pub(super) struct Transaction {
    local: Option<Reservation>,
    replicated: Vec<ReplicatedCharge>,
    remote: Vec<RemoteCharge>,
    permits: Vec<Permit>,
    /// The limits that are charged, by kind of backend; none before the commit.
    limits: ArrayVec<ChargedLimit, MAX_ASKS>,
    progress: RequestProgress,
    /// The charges of limits in shadow and of rates in shadow, each decided by itself.
    separate: Vec<Transaction>,
}

/// A limit that is charged.
#[derive(Debug)]
struct ChargedLimit {
    /// The backend of the charge: that of the limit, or this node for a charge that is made beside the limit's own.
    backend: BackendKind,
    /// The index on the route, by which the settlement is reported; `None` where that of the limit's own charge is.
    reported_as: Option<u8>,
    limit: Arc<ActiveLimit>,
    /// The cost that was charged.
    reserved: Cost,
    /// The part of the limit's sum of reserves, until it is dropped; `None` where the cost was known, or is in the sum already.
    _held: Option<HeldReserve>,
    progress: ResponseProgress,
}

/// The settlements of the charges in one backend, in the order of the checks; `None` for those that wait for the end of the request.
type Settlements = ArrayVec<Option<Settle>, MAX_ASKS>;

/// The facts by which charges are settled.
#[derive(Clone, Copy, Debug)]
pub(super) enum SettlementFacts<'a> {
    /// The head of the response.
    Response(FinalResponse<'a>),
    /// The end of the request.
    End(&'a RequestEnd<'a>),
    /// None: the request is dropped.
    None,
}

/// The progress of a request through admission, which decides how its charges are settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RequestProgress {
    /// Its limits are not decided: dropping its charges refunds them.
    #[default]
    Undecided,
    /// It passes, and its limits hold it back, or others of them are not decided yet: dropping its charges withdraws them.
    HeldBack,
    /// It is on its way to its response, by which its charges are settled.
    UnderWay,
}

impl Transaction {
    /// Returns a transaction of local charges.
    fn of_local(charge: Reservation) -> Self {
        let mut transaction = Self::default();
        transaction.local = Some(charge);
        transaction
    }

    /// Commits the charges over `checks`, since the request passes with this progress.
    pub(super) fn commit(mut self, checks: &[LimitCheck<'_>], progress: RequestProgress) -> Self {
        for kind in BackendKind::ALL {
            for check in checks.iter().filter(|check| check.kind() == kind) {
                self.enter(kind, check, Some(check.limit));
            }
        }
        self.pass(progress)
    }

    /// Adds a charge over `checks` that was decided by itself, and its permits.
    pub(super) fn add_separate(&mut self, checks: &[LimitCheck<'_>], reserved: Self) {
        let progress = self.progress;
        self.add(reserved.commit(checks, progress));
    }

    /// Adds a charge of this node that was decided by itself, for the limit of `check`, wherever that counts.
    pub(super) fn add_separate_local(
        &mut self,
        check: &LimitCheck<'_>,
        charge: Reservation,
        reported_as: Option<u8>,
    ) {
        let mut separate = Self::of_local(charge);
        separate.enter(BackendKind::Local, check, reported_as);
        let progress = self.progress;
        self.add(separate.pass(progress));
    }

    /// Adds a committed charge, unless it stands as it was made, and its permits.
    fn add(&mut self, mut committed: Self) {
        self.permits.append(&mut committed.permits);
        if committed.is_charged() {
            self.separate.push(committed);
        }
    }

    /// Adds a permit.
    pub(super) fn add_permit(&mut self, permit: Option<Permit>) {
        self.permits.extend(permit);
    }

    /// Returns whether it holds permits.
    pub(super) fn holds_permits(&self) -> bool {
        !self.permits.is_empty()
    }

    /// Gives the permits back.
    pub(super) fn release_permits(&mut self) {
        self.permits.clear();
    }

    /// Returns the progress of the request.
    pub(super) fn progress(&self) -> RequestProgress {
        self.progress
    }

    /// Opens the replicated charges: they may still change.
    fn open_replicated(&mut self) {
        self.replicated.iter_mut().for_each(ReplicatedCharge::open);
    }

    /// Enters the limit of `check` as one that is charged in `backend`, after those that are entered.
    fn enter(&mut self, backend: BackendKind, check: &LimitCheck<'_>, reported_as: Option<u8>) {
        // A transaction is over as many checks as it has room for.
        self.limits.push(ChargedLimit {
            backend,
            reported_as,
            limit: Arc::clone(check.active),
            reserved: check.ask.cost,
            _held: reported_as.and_then(|_| {
                let reserved = check.active.reserved.as_ref()?;
                Some(reserved.hold(check.ask.cost.get()))
            }),
            progress: ResponseProgress::Awaited,
        });
    }

    fn pass(mut self, progress: RequestProgress) -> Self {
        match progress {
            RequestProgress::UnderWay => self.start(),
            RequestProgress::Undecided | RequestProgress::HeldBack => self.progress = progress,
        }
        self.open_replicated();
        self
    }

    /// Starts the request: charges of backends in which no limit depends on the response stand.
    pub(super) fn start(&mut self) {
        self.progress = RequestProgress::UnderWay;
        for kind in BackendKind::ALL {
            let mut limits = self.limits.iter().filter(|charged| charged.backend == kind);
            if !limits.any(|charged| charged.limit.settlement.is_some()) {
                self.limits.retain(|charged| charged.backend != kind);
                self.let_stand(kind);
            }
        }
        self.separate.iter_mut().for_each(Self::start);
        self.separate.retain(Self::is_charged);
    }

    /// Forgets the charge of a backend, which stands as it was made.
    fn let_stand(&mut self, kind: BackendKind) {
        match kind {
            BackendKind::Local => drop(self.local.take()),
            BackendKind::Replicated => self.replicated.clear(),
            BackendKind::Remote => self.remote.clear(),
        }
    }

    /// Returns the units that the limit with this index on the route is charged and that are not settled.
    pub(super) fn charged_units(&self, limit: u8) -> u32 {
        let mut charged = self.limits.iter();
        let own = charged.find(|charged| charged.reported_as == Some(limit));
        own.map_or(0, |charged| charged.reserved.get())
    }

    /// Returns whether some charge is not settled.
    pub(super) fn is_charged(&self) -> bool {
        let own = self.local.is_some() || !self.replicated.is_empty() || !self.remote.is_empty();
        own || !self.separate.is_empty()
    }

    /// Settles the charges: by these facts where the request is on its way, else by a refund. Returns the notes about it. Costs that are
    /// known at the end of the request stay charged until then.
    pub(super) fn settle(&mut self, by: SettlementFacts<'_>, now: Timestamp) -> Vec<LimitNote> {
        let mut notes = match self.progress {
            RequestProgress::Undecided | RequestProgress::HeldBack => self.refund(now),
            RequestProgress::UnderWay => self.settle_by(by, now),
        };
        for separate in &mut self.separate {
            notes.extend(separate.settle(by, now));
        }
        self.separate.retain(Self::is_charged);
        notes
    }

    fn refund(&mut self, now: Timestamp) -> Vec<LimitNote> {
        if let Some(charge) = self.local.take() {
            match self.progress {
                // A leaky bucket lets the requests behind it move up.
                RequestProgress::HeldBack => charge.withdraw(now),
                RequestProgress::Undecided | RequestProgress::UnderWay => charge.release(now),
            }
        }
        for charge in self.replicated.drain(..) {
            charge.settle(Settle::Refund, now);
        }
        for charge in self.remote.drain(..) {
            charge.settle(Settle::Refund, now);
        }
        let charged = std::mem::take(&mut self.limits);
        let released = charged
            .iter()
            .map(|charged| charged.note(LimitEvent::Released));
        released.flatten().collect()
    }

    fn settle_by(&mut self, by: SettlementFacts<'_>, now: Timestamp) -> Vec<LimitNote> {
        let mut notes = Vec::new();
        let mut charged = std::mem::take(&mut self.limits);
        let [local, replicated, remote] = BackendKind::ALL.map(|kind| -> Settlements {
            let charged = charged.iter().filter(|charged| charged.backend == kind);
            charged
                .map(|charged| charged.settlement(by, &mut notes))
                .collect()
        });
        let mut settled = [local.iter(), replicated.iter(), remote.iter()];
        charged.retain(|charged| {
            // Those that are left wait for the end of a response that counts.
            charged.progress = ResponseProgress::Begun;
            let of_backend = settled.get_mut(charged.backend as usize);
            let settlement = of_backend.and_then(Iterator::next);
            settlement.is_some_and(Option::is_none)
        });
        self.limits = charged;
        // There is one for each charge.
        let at = |settlements: &Settlements, index: usize| {
            let settlement = settlements.get(index);
            settlement.copied().unwrap_or(Some(Settle::Keep))
        };
        if let Some(charge) = self.local.take() {
            self.local = charge.settle_known(now, |index| at(&local, index));
        }
        for (index, charge) in std::mem::take(&mut self.replicated).into_iter().enumerate() {
            match at(&replicated, index) {
                Some(settlement) => charge.settle(settlement, now),
                None => self.replicated.push(charge),
            }
        }
        for mut charge in std::mem::take(&mut self.remote) {
            match at(&remote, charge.index) {
                Some(settlement) => charge.settle(settlement, now),
                None => {
                    let before = remote.iter().take(charge.index);
                    charge.index = before.filter(|settlement| settlement.is_none()).count();
                    self.remote.push(charge);
                }
            }
        }
        notes
    }
}

impl ChargedLimit {
    /// Returns the settlement of the charge by these facts, and adds the notes about it; `None` where it waits for the end of the request.
    fn settlement(&self, by: SettlementFacts<'_>, notes: &mut Vec<LimitNote>) -> Option<Settle> {
        let Some(rule) = &self.limit.settlement else {
            return Some(Settle::Keep);
        };
        let settlement = match (by, self.progress) {
            (SettlementFacts::Response(response), ResponseProgress::Awaited) => {
                rule.by_response(response, self.reserved)?
            }
            // The first head of a response counts.
            (SettlementFacts::Response(_), ResponseProgress::Begun) => return None,
            (SettlementFacts::End(end), progress) => match end.logged_units(&self.limit.name) {
                Some(units) => rule.by_log(units, self.reserved),
                None => rule.by_end(end, progress, self.reserved),
            },
            (SettlementFacts::None, progress) => rule.without_end(progress),
        };
        let events = settlement.events.into_iter().flatten();
        notes.extend(events.filter_map(|event| self.note(event)));
        Some(settlement.settle)
    }

    fn note(&self, event: LimitEvent) -> Option<LimitNote> {
        let limit = self.reported_as?;
        Some(LimitNote { limit, event })
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.is_charged() {
            self.settle(SettlementFacts::None, clock::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_limiter::{Ask, Capacity, KeyHash, Limit, Period, Rate, Rates, reserve};

    use super::*;

    /// Goal: a request that ends while the store is asked gives back what was charged here; one that passes does not. Method: drop one
    /// transaction, commit another.
    #[test]
    fn an_open_transaction_is_refunded_when_it_is_dropped() {
        let rate = Rate::new(5, Period::from_secs(3_600).unwrap()).unwrap();
        let limit = Limit::new(Rates::new([rate]).unwrap(), Capacity::new(10).unwrap());
        let (key, cost, now) = (KeyHash::from_bits(7), Cost::ONE, clock::now());
        let open = || {
            let payer = None;
            let limit = &limit;
            let (_, charge) = reserve(
                &[Ask {
                    limit,
                    key,
                    cost,
                    payer,
                }],
                now,
            );
            Transaction::of_local(charge.expect("room"))
        };
        let left = || limit.peek(key, cost, now).statuses()[0].remaining;
        let transaction = open();
        assert_eq!(left(), 4);
        drop(transaction);
        assert_eq!(left(), 5);
        drop(open().commit(&[], RequestProgress::UnderWay));
        assert_eq!(left(), 4);
    }
}
