//! Counts the requests of each client at one server, so that the heaviest are rejected first.
//!
//! A client is a network, /24 of IPv4 and /56 of IPv6, given as a tag: a hash under the secret seed of the gateway, so nobody can choose
//! with whom a client shares a bucket. A word has the upper 48 bits of a tag and a count of 16 bits; a count of zero is a free word.
//!
//! # Concurrency
//! Lock-free: every change is one compare-and-swap, and tag and count are one word. Two requests of a new client may take two words; both
//! count, since a client's count is the sum over its bucket, and each request is subtracted from the word that it was added to.
//!
//! # Limits
//! [`LIMITED_CLIENTS`] words in buckets of eight. A request whose bucket is full of other clients is not counted, which favors it: an
//! attacker cannot take that from others, and gains nothing by it that a network more would not give.

use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_base::bounds::LIMITED_CLIENTS;

/// Words of a bucket: one cache line.
const WORDS: usize = 8;
const BUCKETS: usize = LIMITED_CLIENTS / WORDS;
/// Bits of a count.
const COUNT_BITS: u32 = 16;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
/// Changes of a bucket by other requests that an addition outlasts; a request beyond is not counted.
const TRIES: usize = 16;

/// The client of a request, as a hash of its network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientTag(pub(super) u64);

/// The requests of each client at one server.
#[derive(Debug)]
pub(super) struct ClientCounts(Box<[ClientBucket]>);

#[derive(Debug, Default)]
#[repr(align(64))]
struct ClientBucket([AtomicU64; WORDS]);

/// The word in which a request is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountedAt {
    bucket: usize,
    word: usize,
}

impl Default for ClientCounts {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| ClientBucket::default()).collect())
    }
}

impl ClientCounts {
    /// Returns the number of requests of a client.
    pub(super) fn count(&self, client: ClientTag) -> u32 {
        let Some(bucket) = self.0.get(bucket_of(client)) else {
            return 0;
        };
        let words = bucket.0.iter().map(|word| word.load(Ordering::Relaxed));
        let own = words.filter(|word| is_of(*word, client));
        own.fold(0, |sum, word| sum + count_in(word))
    }

    /// Adds a request of a client; `None` where there is no room to count it.
    pub(super) fn add(&self, client: ClientTag) -> Option<CountedAt> {
        let bucket = bucket_of(client);
        let words = &self.0.get(bucket)?.0;
        for _ in 0..TRIES {
            let seen = words.each_ref().map(|word| word.load(Ordering::Relaxed));
            let own = |word: &u64| is_of(*word, client) && count_in(*word) < COUNT as u32;
            let word = (seen.iter().position(own))
                .or_else(|| seen.iter().position(|word| count_in(*word) == 0))?;
            let before = seen[word];
            let after = if own(&before) {
                before + 1
            } else {
                client.0 & !COUNT | 1
            };
            // Relaxed: the count publishes nothing.
            if words[word]
                .compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
            {
                return Some(CountedAt { bucket, word });
            }
        }
        None
    }

    /// Subtracts a request that [`add`](Self::add) counted there.
    pub(super) fn remove(&self, at: CountedAt) {
        if let Some(bucket) = self.0.get(at.bucket) {
            // The count is at least one: the request that ends is in it.
            bucket.0[at.word].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn bucket_of(client: ClientTag) -> usize {
    // The lower bits are not part of the tag in a word.
    (client.0 & COUNT) as usize % BUCKETS
}

fn is_of(word: u64, client: ClientTag) -> bool {
    count_in(word) > 0 && word & !COUNT == client.0 & !COUNT
}

fn count_in(word: u64) -> u32 {
    (word & COUNT) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn client(number: u64) -> ClientTag {
        ClientTag(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    proptest! {
        /// Goal: counts are exact while there is room. Method: arbitrary additions and subtractions beside a map.
        #[test]
        fn counts_are_exact(steps in prop::collection::vec((0_u64..40, any::<bool>()), 0..400)) {
            let counts = ClientCounts::default();
            let mut model: HashMap<u64, Vec<CountedAt>> = HashMap::new();
            for (number, adds) in steps {
                let own = model.entry(number).or_default();
                if adds {
                    own.extend(counts.add(client(number)));
                } else if let Some(at) = own.pop() {
                    counts.remove(at);
                }
                prop_assert_eq!(counts.count(client(number)), own.len() as u32);
            }
        }
    }

    /// Goal: a full bucket rejects nobody and takes nothing from those in it. Method: nine clients of one bucket, and one that leaves.
    #[test]
    fn a_client_without_room_counts_as_none() {
        let counts = ClientCounts::default();
        let of_bucket = |number: u64| ClientTag(number << COUNT_BITS | 7);
        let counted: Vec<CountedAt> = (1..=8)
            .filter_map(|one| counts.add(of_bucket(one)))
            .collect();
        assert_eq!(counted.len(), 8);
        assert_eq!(counts.add(of_bucket(9)), None);
        assert_eq!(counts.count(of_bucket(9)), 0);
        assert!((1..=8).all(|one| counts.count(of_bucket(one)) == 1));
        counts.remove(counted[3]);
        assert!(counts.add(of_bucket(9)).is_some());
        assert_eq!(
            (counts.count(of_bucket(9)), counts.count(of_bucket(4))),
            (1, 0)
        );
    }

    /// Goal: no interleaving loses or invents a request. Method: threads that add and remove for the same clients; nothing is left.
    #[test]
    fn no_interleaving_loses_a_request() {
        let counts = ClientCounts::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..5_000 {
                        let own = client(turn % 3);
                        if let Some(at) = counts.add(own) {
                            assert!(counts.count(own) >= 1);
                            counts.remove(at);
                        }
                    }
                });
            }
        });
        assert!((0..3).all(|number| counts.count(client(number)) == 0));
    }
}
