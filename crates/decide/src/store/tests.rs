//! Tests of strict limits while the store is unavailable; its own answers are tested with real servers, end to end.

use std::sync::Arc;

use sluicegate_limiter::{
    Ask, Capacity, Cost, KeyHash, Limit, Period, Policy, Rate, Rates, Settle, Timestamp,
};

use crate::rejection::LimitRejection;

use super::strict::RemoteCheck;
use super::*;
use sluicegate_config::rules::OnStoreFailure;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
const KEY: KeyHash = KeyHash::from_bits(7);

fn unreachable_store() -> Arc<dyn CountingStore> {
    Arc::new(UnreachableStore::default())
}

/// A limit of so many an hour, and its tables.
struct Bench {
    shared: Arc<RemoteBackend>,
    cache: Limit,
    /// By its failure rule, so that a closed limit is distinguished from the others.
    limit: u8,
}

impl Bench {
    fn new(
        store: &Arc<dyn CountingStore>,
        name: &str,
        count: u32,
        on_failure: OnStoreFailure,
    ) -> Self {
        let rate = Rate::new(count, Period::from_secs(3_600).unwrap()).unwrap();
        let policy = Policy::from(Rates::new([rate]).unwrap());
        let table = || Limit::new(policy.clone(), Capacity::new(10).unwrap());
        let shared = RemoteBackend::new(
            &name.into(),
            store,
            table(),
            on_failure,
            Revalidation::Never,
        );
        Self {
            shared: Arc::new(shared),
            cache: table(),
            limit: on_failure as u8,
        }
    }

    fn ask(&self) -> RemoteCheck<'_> {
        StoreCheck {
            limit: self.limit,
            backend: &self.shared,
            ask: Ask {
                limit: &self.cache,
                key: KEY,
                cost: Cost::ONE,
                payer: None,
            },
            remote_key: Some(KEY),
        }
    }

    /// What this node may still admit.
    fn left(&self) -> u32 {
        let own = self.shared.own().peek(KEY, Cost::ONE, NOW);
        own.statuses()[0].remaining
    }
}

/// Reserves `asks`, and returns what was charged.
fn reserved(
    asks: &[RemoteCheck<'_>],
) -> (Result<BackendVerdict, LimitRejection>, Vec<RemoteCharge>) {
    let mut charges = Vec::new();
    let verdict = reserve_without_store(asks, &mut charges);
    (verdict, charges)
}

/// Reserves `asks` while no call reaches the store.
fn reserve_without_store(
    asks: &[RemoteCheck<'_>],
    charges: &mut Vec<RemoteCharge>,
) -> Result<BackendVerdict, LimitRejection> {
    let mut progress = reserve(asks.iter().copied(), charges, NOW)?;
    loop {
        progress = match progress {
            StoreProgress::Decided(verdict) => return Ok(verdict),
            StoreProgress::AskStore(question) => {
                question.answer(Err(StoreFailure::NotSent), charges, NOW)?
            }
        };
    }
}

fn settle(charges: Vec<RemoteCharge>, settle: Settle) {
    for charge in charges {
        charge.settle(settle, NOW);
    }
}

fn is_rejected(asks: &[RemoteCheck<'_>]) -> bool {
    let (verdict, charge) = reserved(asks);
    verdict.is_ok_and(|verdict| !verdict.is_charged) && charge.is_empty()
}

fn admitted(asks: &[RemoteCheck<'_>]) -> Vec<RemoteCharge> {
    let (verdict, charge) = reserved(asks);
    let verdict = verdict.expect("none is closed");
    let mut by = verdict.decisions.iter().map(|decision| decision.by);
    assert!(by.all(|by| by == Some(DecisionSource::Fallback)));
    assert!(verdict.is_charged, "they have room");
    charge
}

/// Goal: without a store a node decides by what it admitted itself, queues it, and settles it. Method: charges that stand, that are given
/// back and that come to more; then none is left.
#[test]
fn a_node_alone_decides_by_its_share_and_queues_it() {
    let store = unreachable_store();
    let limit = Bench::new(&store, "a", 3, OnStoreFailure::Local);
    let units = || -> u64 {
        store
            .replay_queue()
            .take(9)
            .iter()
            .map(|(_, delta)| delta.units)
            .sum()
    };
    drop(admitted(&[limit.ask()]));
    assert_eq!((limit.left(), units()), (2, 1));
    let charge = admitted(&[limit.ask()]);
    settle(charge, Settle::Refund);
    assert_eq!((limit.left(), units()), (2, 0));
    let charge = admitted(&[limit.ask()]);
    settle(charge, Settle::Adjust(Cost::new(2).unwrap()));
    assert_eq!((limit.left(), units()), (0, 2));
    assert!(is_rejected(&[limit.ask()]));
    assert_eq!((limit.left(), units()), (0, 0));
}

/// Goal: nothing is counted twice. Method: a charge that may have arrived is not queued; one that surely did not is.
#[test]
fn what_may_have_arrived_is_not_sent_again() {
    let store = unreachable_store();
    let limit = Bench::new(&store, "a", 3, OnStoreFailure::Local);
    for (error, queued) in [(StoreFailure::Unknown, 0), (StoreFailure::NotSent, 1)] {
        let ask = limit.ask();
        let group = std::iter::once((0, &ask)).collect();
        let mut charge = Vec::new();
        let verdict = fallback::reserve(&group, error, &mut charge, NOW);
        assert!(verdict.expect("it is not closed").is_charged, "{error:?}");
        assert_eq!(store.replay_queue().keys(), queued, "{error:?}");
    }
}

/// Goal: all or nothing without a store too (contract C2). Method: beside a limit with room one that has none, one that is open, one that
/// is closed, in either order.
#[test]
fn limits_are_charged_together_without_a_store() {
    let store = unreachable_store();
    let wide = Bench::new(&store, "wide", 9, OnStoreFailure::Local);
    let narrow = Bench::new(&store, "narrow", 1, OnStoreFailure::Local);
    let open = Bench::new(&store, "open", 1, OnStoreFailure::Open);
    let closed = Bench::new(&store, "closed", 1, OnStoreFailure::Closed);
    drop(admitted(&[narrow.ask()]));
    for asks in [[wide.ask(), narrow.ask()], [narrow.ask(), wide.ask()]] {
        assert!(is_rejected(&asks));
    }
    let unavailable = Err(closed.ask().unavailable());
    for asks in [[closed.ask(), wide.ask()], [wide.ask(), closed.ask()]] {
        let (verdict, _) = reserved(&asks);
        assert_eq!(verdict.map(|_| ()), unavailable);
    }
    assert_eq!(wide.left(), 9);
    for _ in 0..2 {
        drop(admitted(&[open.ask(), wide.ask()]));
    }
    assert_eq!(wide.left(), 7);
}

/// Goal: a caller that stops waiting can refund everything. Method: the charges of three calls in one owner, refunded together.
#[test]
fn charges_of_several_calls_are_refunded_together() {
    let store = unreachable_store();
    let limit = Bench::new(&store, "a", 3, OnStoreFailure::Local);
    let mut charge = Vec::new();
    for _ in 0..3 {
        let verdict = reserve_without_store(&[limit.ask()], &mut charge);
        assert!(verdict.is_ok_and(|verdict| verdict.is_charged));
    }
    assert_eq!((limit.left(), store.replay_queue().keys()), (0, 1));
    settle(charge, Settle::Refund);
    assert_eq!((limit.left(), store.replay_queue().keys()), (3, 0));
}
