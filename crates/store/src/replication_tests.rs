//! Tests of the exchange: nodes, a store that counts, and a line between them that loses what a test chooses.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proptest::prelude::*;

use sluicegate_decide::store::{ChargeState, Enqueued, ReplicatedKey, ReplicatedLimit};
use sluicegate_limiter::{Capacity, KeyHash, Limit, Period, Rate, Rates};

use super::*;

/// Returns a moment, so many milliseconds after the noon of a day.
fn at(millis: u64) -> ClockPair {
    let here = Timestamp::from_nanos(1_800_014_400_000_000_000 + millis * 1_000_000);
    ClockPair { here, store: here }
}

/// Returns the limit `otp`, of 100 a day.
fn replicated(queue: &PendingWrites) -> Arc<ReplicatedLimit> {
    let day = Period::from_secs(86_400).expect("a period");
    let rate = Rate::new(100, day).expect("a rate");
    let capacity = Capacity::new(1000).expect("a capacity");
    let table = || Limit::new(Rates::new([rate]).expect("rates"), capacity);
    Arc::new(ReplicatedLimit {
        registered: queue.register(&"otp".into()),
        cache: table(),
        own: table(),
    })
}

fn key_of(replicated: &Arc<ReplicatedLimit>, name: u64) -> ReplicatedKey {
    ReplicatedKey {
        replicated: Arc::clone(replicated),
        key: KeyHash::from_bits(name << 20),
        name: KeyHash::from_bits(name),
    }
}

/// Charges a key as a request does that is admitted.
fn charge(queue: &PendingWrites, key: &ReplicatedKey, cost: Cost, at: ClockPair) -> Enqueued {
    let seen = queue.sequence(&key.replicated, key.key);
    for table in [&key.replicated.cache, &key.replicated.own] {
        table.count(key.key, cost, at.here);
    }
    queue.add(key, cost, ChargeState::Final, seen, at)
}

/// A store that counts one window of each key, and keeps the numbers of pushes as the script does.
#[derive(Default)]
struct Store {
    counts: HashMap<Vec<u8>, i64>,
    seen: HashMap<(Vec<u8>, Vec<u8>), u64>,
}

impl Store {
    fn run(&mut self, call: &Call, now: Timestamp) -> Reply {
        let (name, words) = (&call.keys[0], &call.args);
        let number =
            |word: usize| -> u64 { String::from_utf8_lossy(&words[word]).parse().unwrap() };
        let count = self.counts.entry(name.clone()).or_default();
        let mut code = 0;
        if words[0] == b"push" {
            let seen = self
                .seen
                .entry((name.clone(), words[4].clone()))
                .or_default();
            code = 2;
            if number(5) > *seen {
                *seen = number(5);
                *count += i64::try_from(number(2)).unwrap();
                code = 1;
            }
        }
        let second = i64::try_from(now.as_secs()).unwrap();
        let numbers = [code, second, 0, 0, 0, second, 0, *count];
        Reply::Rows(numbers.map(Reply::Integer).to_vec())
    }
}

struct Gateway {
    pending: PendingWrites,
    replay: ReplayQueue,
    remembered: RecoveryCache,
    pushed: PushCounters,
    session: SyncSession,
    replicated: Arc<ReplicatedLimit>,
}

/// What happens to one call.
#[derive(Clone, Copy, Debug)]
enum Line {
    Passes,
    LosesTheCall,
    LosesTheAnswer,
    Refuses,
}

impl Gateway {
    fn new(node: u64) -> Self {
        let pending = PendingWrites::default();
        Self {
            replicated: replicated(&pending),
            session: SyncSession::new(NodeId(node)),
            pushed: PushCounters::default(),
            replay: ReplayQueue::default(),
            remembered: RecoveryCache::default(),
            pending,
        }
    }

    fn charge(&self, key: u64, units: u32, millis: u64) {
        let cost = Cost::new(units).expect("a cost");
        charge(
            &self.pending,
            &key_of(&self.replicated, key),
            cost,
            at(millis),
        );
    }

    /// One batch over this line.
    fn sync(&mut self, store: &mut Store, line: Line, millis: u64) -> usize {
        let at = at(millis);
        let queues = SyncQueues {
            pending: &self.pending,
            replay: &self.replay,
            remembered: &self.remembered,
            pushed: &self.pushed,
        };
        let batch = self.session.batch("test", 100, queues, at.here, at.here);
        let size = batch.len();
        for push in batch {
            let call = self.session.call(&push, None, at);
            let reply = match line {
                Line::Passes => Ok(store.run(&call, at.store)),
                Line::LosesTheCall => Err(StoreError::TimedOut),
                Line::LosesTheAnswer => {
                    store.run(&call, at.store);
                    Err(StoreError::TimedOut)
                }
                Line::Refuses => Err(StoreError::Unavailable),
            };
            _ = self.session.apply(push, reply, queues);
        }
        size
    }

    fn cached_units(&self, key: u64, millis: u64) -> u64 {
        self.replicated
            .cache
            .used(key_of(&self.replicated, key).key, at(millis).store)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Charge { node: usize, key: u64, units: u32 },
    Sync { node: usize, line: Line },
}

fn step() -> impl Strategy<Value = Step> {
    let line = prop_oneof![
        Just(Line::Passes),
        Just(Line::LosesTheCall),
        Just(Line::LosesTheAnswer),
        Just(Line::Refuses),
    ];
    prop_oneof![
        (0..3_usize, 0..3_u64, 1..5_u32).prop_map(|(node, key, units)| Step::Charge {
            node,
            key,
            units
        }),
        (0..3_usize, line).prop_map(|(node, line)| Step::Sync { node, line }),
    ]
}

proptest! {
    /// Goal: whatever is lost on the way, the store comes to count each charge once, and every node to see the sum. Method: three nodes
    /// that charge and sync over a line that loses calls and answers, against a plain sum; then a quiet time without losses.
    #[test]
    fn every_charge_counts_once(steps in prop::collection::vec(step(), 1..80)) {
        let mut nodes = [1, 2, 3].map(Gateway::new);
        let mut store = Store::default();
        let mut charged = BTreeMap::<u64, u64>::new();
        for (millis, step) in (0..).zip(steps) {
            match step {
                Step::Charge { node, key, units } => {
                    nodes[node].charge(key, units, millis);
                    *charged.entry(key).or_default() += u64::from(units);
                }
                Step::Sync { node, line } => {
                    nodes[node].sync(&mut store, line, millis);
                }
            }
        }
        for node in &mut nodes {
            while node.sync(&mut store, Line::Passes, 1_000) > 0 {}
        }
        let counted: u64 = store.counts.values().map(|count| u64::try_from(*count).unwrap()).sum();
        prop_assert_eq!(counted, charged.values().sum::<u64>());
        for (key, units) in charged {
            for node in &mut nodes {
                let asked = key_of(&node.replicated, key);
                node.pending.queue_read(&asked, at(1_000).here);
                node.sync(&mut store, Line::Passes, 1_000);
                prop_assert_eq!(node.cached_units(key, 1_000), units);
            }
        }
        prop_assert!(nodes.iter().all(|node| node.pending.backlog().keys == 0 && node.pending.lost() == 0));
    }
}

/// Goal: a client that moves to another node finds its count there after one sync. Method: a key of one node, charged once by
/// another.
#[test]
fn a_push_brings_back_what_others_charged() {
    let (mut one, mut two) = (Gateway::new(1), Gateway::new(2));
    let mut store = Store::default();
    one.charge(1, 90, 0);
    one.sync(&mut store, Line::Passes, 0);
    two.charge(1, 1, 1);
    assert_eq!(two.cached_units(1, 1), 1);
    two.sync(&mut store, Line::Passes, 1);
    assert_eq!(two.cached_units(1, 1), 91);
}

/// Goal: a push is not repeated when the store may have dropped its number. Method: an answer lost, and a minute without the store.
#[test]
fn a_push_without_an_answer_is_given_up_before_it_could_count_twice() {
    let mut node = Gateway::new(1);
    let mut store = Store::default();
    node.charge(1, 5, 0);
    node.sync(&mut store, Line::LosesTheAnswer, 0);
    store.seen.clear();
    let minute = u64::try_from(PUSH_MEMORY.as_millis()).unwrap();
    assert_eq!(node.sync(&mut store, Line::Passes, minute), 0);
    assert_eq!(store.counts.values().sum::<i64>(), 5);
    assert_eq!(node.pending.lost(), 5);
    // Later charges are sent.
    node.charge(1, 2, minute);
    node.sync(&mut store, Line::Passes, minute);
    assert_eq!(store.counts.values().sum::<i64>(), 7);
}

/// Goal: after an outage of days the store gets what still counts, not all that was admitted. Method: units of three days ago and of
/// now, none of them sent before.
#[test]
fn what_has_waited_is_told_as_far_as_it_still_counts() {
    let mut node = Gateway::new(1);
    let mut store = Store::default();
    let days = 3 * 86_400_000;
    node.charge(1, 50, 0);
    node.sync(&mut store, Line::Refuses, 0);
    node.charge(1, 4, days);
    node.sync(&mut store, Line::Passes, days + 1);
    assert_eq!(store.counts.values().sum::<i64>(), 4);
}

/// Goal: what nodes admitted beyond a limit is counted, once. Method: two nodes that admit sixty each of a hundred.
#[test]
fn excess_is_counted_where_it_was_charged() {
    let (mut one, mut two) = (Gateway::new(1), Gateway::new(2));
    let mut store = Store::default();
    for node in [&mut one, &mut two] {
        node.charge(1, 60, 0);
        node.sync(&mut store, Line::Passes, 0);
    }
    let excess = [&one, &two].map(|node| node.replicated.registered.excess());
    assert_eq!(excess, [0, 20]);
}

/// Goal: a key that another program uses holds up nothing. Method: the answer for a foreign key, and a reply that is no answer at all.
#[test]
fn a_foreign_key_is_let_go() {
    let mut node = Gateway::new(1);
    node.charge(1, 5, 0);
    let foreign = Reply::Rows([4, 1, 0, 0, 0].map(Reply::Integer).to_vec());
    for (reply, left, lost) in [(Reply::Nil, 1, 0), (foreign, 0, 5)] {
        let now = at(0).here;
        let queues = SyncQueues {
            pending: &node.pending,
            replay: &node.replay,
            remembered: &node.remembered,
            pushed: &node.pushed,
        };
        let push = node
            .session
            .batch("test", 1, queues, now, now)
            .pop()
            .unwrap();
        _ = node.session.apply(push, Ok(reply), queues);
        assert_eq!(
            (node.pending.backlog().keys, node.pending.lost()),
            (left, lost)
        );
    }
    assert_eq!(node.pushed.foreign(), 1);
}

/// Goal: what a strict limit admitted while its store was unavailable is sent when it is back, once, no more than fills the limit, and is
/// remembered as the store answers. Method: a key with a few units and one with an hour's, over a line that refuses, then loses an answer,
/// then passes.
#[test]
fn what_strict_limits_admitted_meanwhile_is_told() {
    let mut node = Gateway::new(1);
    let mut store = Store::default();
    for (key, units) in [("few", 3), ("many", 5_000)] {
        let policy = node.replicated.cache.policy();
        let name = KeyName::new("test", key_of(&node.replicated, 1).name, key);
        node.replay.add(&StoreAsk {
            policy,
            name: &name,
            cost: Cost::new(units).unwrap(),
        });
    }
    for (line, waiting) in [
        (Line::Refuses, 2),
        (Line::LosesTheAnswer, 0),
        (Line::Passes, 0),
    ] {
        assert_eq!(node.remembered.calls(at(0).store), []);
        assert_eq!(node.sync(&mut store, line, 0), 2);
        assert_eq!(node.replay.keys(), waiting);
    }
    assert_eq!(node.remembered.calls(at(0).store).len(), 2);
    assert_eq!(node.sync(&mut store, Line::Passes, 0), 0);
    let mut counts: Vec<i64> = store.counts.values().copied().collect();
    counts.sort_unstable();
    assert_eq!(counts, [3, 100]);
}
