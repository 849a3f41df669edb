//! Orders the requests that leaky buckets delay: one queue for each key of each limit.
//!
//! A leaky bucket computes how long a request has to wait for those before it. When one of those leaves, its charge is refunded,
//! and all behind it are due earlier by the time of its cost. So a queue stores one time, the turn of its first request, and the
//! distance that each request keeps from the next. When the first request goes, the second takes over: at the same time if the
//! first one left, and one distance later if it had its turn. A request whose own time has come goes in any case.
//!
//! # Limits
//! Requests are counted in all, by limit, and by client. Each operation costs the logarithm of the queue's length, so a client
//! that comes and goes causes no work for others.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::HashMap;
use sluicegate_base::address::AddressPrefix;
use sluicegate_base::bounds::{WAITERS, WAITERS_OF_CLIENT, WAITERS_OF_LIMIT};
use sluicegate_limiter::KeyHash;
use tokio::sync::Notify;
use tokio::time::Instant;

use sluicegate_config::rules::Name;
use sluicegate_decide::admission::QueuePlace;

/// The delayed requests of the process, in their queues.
#[derive(Debug, Default)]
pub struct DelayedRequests(Mutex<DelayQueues>);

impl DelayedRequests {
    /// Locks the queues.
    pub fn queues(&self) -> MutexGuard<'_, DelayQueues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn count(&self) -> usize {
        self.queues().count()
    }
}

/// The queues of delayed requests.
#[derive(Debug, Default)]
pub struct DelayQueues {
    all: usize,
    of_limit: HashMap<Name, usize>,
    of_client: HashMap<AddressPrefix, usize>,
    queues: HashMap<(Name, KeyHash), Queue>,
    /// A serial number, which orders requests with one time.
    next: u64,
}

/// The requests of one key of a limit.
#[derive(Debug)]
struct Queue {
    /// The turn of the first.
    turn: Instant,
    /// Requests by the turn that each has if no other leaves.
    waiting: BTreeMap<(Instant, u64), Arc<Notify>>,
}

/// One delayed request.
#[derive(Debug)]
pub struct Delayed {
    number: u64,
    client: AddressPrefix,
    places: Vec<(QueuePlace, Instant)>,
    /// Notifies that its turn may have changed.
    pub moved: Arc<Notify>,
}

/// The way in which a request leaves its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It is forwarded; the next one keeps its distance.
    Admitted,
    /// It has left, and its charge is refunded.
    Withdrawn,
}

impl DelayQueues {
    /// Returns the number of requests.
    pub fn count(&self) -> usize {
        self.all
    }

    /// Adds a request of this client to its queues; `None` at the maximum.
    pub fn enter(
        &mut self,
        client: AddressPrefix,
        places: Vec<QueuePlace>,
        now: Instant,
    ) -> Option<Delayed> {
        let of_client = count_of(&self.of_client, &client);
        let is_full =
            |place: &QueuePlace| count_of(&self.of_limit, &place.limit) >= WAITERS_OF_LIMIT;
        if self.all >= WAITERS || of_client >= WAITERS_OF_CLIENT || places.iter().any(is_full) {
            return None;
        }
        self.all += 1;
        self.next += 1;
        *self.of_client.entry(client).or_default() += 1;
        let moved = Arc::new(Notify::new());
        let places: Vec<_> = places
            .into_iter()
            .map(|place| {
                let turn = now + place.delay;
                (place, turn)
            })
            .collect();
        for (place, turn) in &places {
            *self.of_limit.entry(Arc::clone(&place.limit)).or_default() += 1;
            if place.spacing.is_some() {
                let queue = self.queues.entry(queue_of(place)).or_insert_with(|| Queue {
                    turn: *turn,
                    waiting: BTreeMap::new(),
                });
                queue.turn = queue.turn.min(*turn);
                let rank = (*turn, self.next);
                queue.waiting.insert(rank, Arc::clone(&moved));
            }
        }
        Some(Delayed {
            number: self.next,
            client,
            places,
            moved,
        })
    }

    /// Returns the current turn of a request.
    pub fn turn(&self, request: &Delayed) -> Option<Instant> {
        let turn = |(place, turn): &(QueuePlace, Instant)| {
            let queue = self.queues.get(&queue_of(place));
            let first = queue.filter(|queue| queue.is_first((*turn, request.number)));
            first.map_or(*turn, |queue| queue.turn.min(*turn))
        };
        request.places.iter().map(turn).max()
    }

    /// Removes a request from its queues.
    pub fn leave(&mut self, request: &Delayed, departure: Departure) {
        self.all -= 1;
        subtract(&mut self.of_client, &request.client);
        for (place, turn) in &request.places {
            subtract(&mut self.of_limit, &place.limit);
            let (Some(queue), Some(spacing)) =
                (self.queues.get_mut(&queue_of(place)), place.spacing)
            else {
                continue;
            };
            let rank = (*turn, request.number);
            if queue.is_first(rank) {
                queue.turn = queue.turn.min(*turn);
                if departure == Departure::Admitted {
                    queue.turn += spacing;
                }
            }
            queue.waiting.remove(&rank);
            match queue.waiting.first_key_value() {
                Some((_, next)) => next.notify_one(),
                None => {
                    self.queues.remove(&queue_of(place));
                }
            }
        }
    }
}

impl Queue {
    fn is_first(&self, rank: (Instant, u64)) -> bool {
        let first = self.waiting.first_key_value();
        first.is_some_and(|(first, _)| *first == rank)
    }
}

/// Returns the limit and the key of a queue.
fn queue_of(place: &QueuePlace) -> (Name, KeyHash) {
    (Arc::clone(&place.limit), place.key)
}

fn count_of<K: Eq + Hash>(counts: &HashMap<K, usize>, key: &K) -> usize {
    counts.get(key).copied().unwrap_or_default()
}

fn subtract<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::*;
    use sluicegate_base::address::{PrefixBits, prefix};

    fn client(n: u8) -> AddressPrefix {
        prefix(IpAddr::from([192, 0, 2, n]), PrefixBits::default())
    }

    fn place(limit: &str, delay: u64) -> QueuePlace {
        QueuePlace {
            limit: limit.into(),
            key: KeyHash::from_bits(1),
            delay: seconds(delay),
            spacing: Some(seconds(10)),
        }
    }

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// Returns requests that wait 10, 20, 30 … seconds in one queue.
    fn waiting(queues: &mut DelayQueues, now: Instant, count: u64) -> Vec<Delayed> {
        let enter = |n| queues.enter(client(1), vec![place("a", 10 * n)], now);
        (1..=count).filter_map(enter).collect()
    }

    /// Goal: when one leaves, those behind it are due one distance earlier, those before it unchanged, and a request that had
    /// its turn keeps the next one at its distance. Method: five wait; the second leaves, then the first; the third goes.
    #[test]
    fn those_behind_move_up() {
        let (mut queues, now) = (DelayQueues::default(), Instant::now());
        let all = waiting(&mut queues, now, 5);
        let turn = |queues: &DelayQueues, n: usize| {
            let turn = queues.turn(&all[n - 1]).expect("it waits");
            turn.duration_since(now).as_secs()
        };
        queues.leave(&all[1], Departure::Withdrawn);
        assert_eq!(turn(&queues, 1), 10);
        queues.leave(&all[0], Departure::Withdrawn);
        assert_eq!(turn(&queues, 3), 10);
        queues.leave(&all[2], Departure::Admitted);
        assert_eq!(turn(&queues, 4), 20);
        queues.leave(&all[3], Departure::Admitted);
        assert_eq!(turn(&queues, 5), 30);
        queues.leave(&all[4], Departure::Admitted);
        assert!(queues.queues.is_empty() && queues.of_limit.is_empty());
        assert!(queues.of_client.is_empty() && queues.count() == 0);
    }

    /// Goal: a request in two queues waits for both, and delays no other beyond the turn that the bucket gave. Method: it is
    /// first in one queue and second in the other.
    #[test]
    fn a_request_waits_in_all_its_queues() {
        let (mut queues, now) = (DelayQueues::default(), Instant::now());
        let mut enter = |places| queues.enter(client(1), places, now).expect("there is room");
        let first = enter(vec![place("b", 40)]);
        let both = enter(vec![place("a", 10), place("b", 50)]);
        let behind = enter(vec![place("a", 20)]);
        assert_eq!(queues.turn(&both), Some(now + seconds(50)));
        assert_eq!(queues.turn(&behind), Some(now + seconds(20)));
        queues.leave(&first, Departure::Withdrawn);
        assert_eq!(queues.turn(&both), Some(now + seconds(40)));
    }

    /// Goal: neither a client nor a limit takes all places. Method: fill the share of one client, of one limit, of all; leave
    /// once.
    #[test]
    fn waiters_have_a_share_by_client_and_by_limit() {
        let (mut queues, now) = (DelayQueues::default(), Instant::now());
        let mut inside = Vec::new();
        for (limit, of_limit, from) in [
            ("a", WAITERS_OF_LIMIT, 0),
            ("b", WAITERS - WAITERS_OF_LIMIT, 50),
        ] {
            let mut entered = 0;
            for n in from.. {
                let before = entered;
                while let Some(one) = queues.enter(client(n), vec![place(limit, 1)], now) {
                    entered += 1;
                    inside.push(one);
                }
                assert!(entered - before <= WAITERS_OF_CLIENT);
                if entered == before {
                    break;
                }
            }
            assert_eq!(entered, of_limit);
        }
        assert_eq!(queues.count(), WAITERS);
        assert!(queues.enter(client(99), vec![place("c", 1)], now).is_none());
        let one = inside.pop().expect("many");
        queues.leave(&one, Departure::Admitted);
        assert!(queues.enter(client(99), vec![place("c", 1)], now).is_some());
    }
}
