//! Counts what fails of networks of clients, so that no network makes the gateway repeat an expensive proof without end.
//!
//! A network is a /24 or a /48. Its count belongs to one minute; two networks that meet in a slot lose their counts by turns.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;

use crate::address::{PrefixBits, prefix};
use crate::bounds::NETWORK_FAILURE_SLOTS;

/// Failures of networks of clients in the present minute.
#[derive(Debug)]
pub(super) struct NetworkFailures {
    random: RandomState,
    /// Each is a tag of 32 bits, a minute of 24 bits and a count of 8.
    slots: Box<[AtomicU64]>,
}

impl Default for NetworkFailures {
    fn default() -> Self {
        let slots = (0..NETWORK_FAILURE_SLOTS).map(|_| AtomicU64::new(0));
        Self {
            random: RandomState::new(),
            slots: slots.collect(),
        }
    }
}

impl NetworkFailures {
    /// Returns whether the network of `client` has failed so often in the minute of `now`, in seconds since 1970.
    pub(super) fn reach(&self, failures: u64, client: IpAddr, now: u64) -> bool {
        let (slot, word) = self.word(client, now);
        // Relaxed: the word is all that is read.
        let found = slot.map_or(0, |slot| slot.load(Ordering::Relaxed));
        found & !COUNT == word && found & COUNT >= failures
    }

    /// Counts a failure. Another network in the same slot loses its count.
    pub(super) fn add(&self, client: IpAddr, now: u64) {
        let (slot, word) = self.word(client, now);
        let Some(slot) = slot else { return };
        // Relaxed: as in `reach`.
        let found = slot.load(Ordering::Relaxed);
        let count = if found & !COUNT == word {
            found & COUNT
        } else {
            0
        };
        let count = (count + 1).min(COUNT);
        slot.store(word | count, Ordering::Relaxed);
    }

    /// Returns the slot of a network, and its word without a count.
    fn word(&self, client: IpAddr, now: u64) -> (Option<&AtomicU64>, u64) {
        let network = prefix(client, PrefixBits { v4: 24, v6: 48 });
        let hash = self.random.hash_one(network.as_bytes());
        let slot = usize::try_from(hash % NETWORK_FAILURE_SLOTS as u64).unwrap_or(0);
        let minute = (now / 60) & 0x00ff_ffff;
        (self.slots.get(slot), hash & TAG | minute << 8)
    }
}

/// The bits of a count.
const COUNT: u64 = 0xff;
/// The bits of a tag.
const TAG: u64 = 0xffff_ffff_0000_0000;

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 16;

    /// Goal: a network that fails is left alone for the rest of the minute, and others are not. Method: failures up to the cap from
    /// addresses of one network; then the next minute.
    #[test]
    fn failures_of_a_network_are_bounded_in_a_minute() {
        let failures = NetworkFailures::default();
        let client = |text: &str| text.parse::<IpAddr>().unwrap();
        for at in 0..MOST {
            assert!(!failures.reach(MOST, client("192.0.2.1"), 600), "{at}");
            failures.add(client("192.0.2.1"), 600);
        }
        assert!(failures.reach(MOST, client("192.0.2.200"), 659));
        assert!(!failures.reach(MOST, client("192.0.2.1"), 660));
        assert!(!failures.reach(MOST, client("192.0.3.1"), 659));
        assert!(!failures.reach(MOST, client("2001:db8::1"), 659));
    }
}
