//! Decides how many bytes of answers may be unread by clients: a maximum in all, and for one client no more than is left.
//!
//! An origin sends faster than a client reads, and the bytes between them are in the gateway's memory. Each answer holds little,
//! but a client may have a thousand of them, and there are many clients. So an answer reserves the maximum that it may hold in
//! one budget, and releases it at its end. An answer for which there is no room is counted, and replaced by 503 or cut off.
//! `crate::gateway::unread` decides when an answer needs a reservation, and of which size.
//!
//! One client may reserve as much as is left. So one alone has half of the budget, two have a third each, and a new client
//! always finds room: no share per client has to be configured. A client is an address, or an IPv6 /64, as in the limits. A
//! trusted proxy that names no client has no bound of its own.
//!
//! # Concurrency
//! Two requests that enter at the same time may both be admitted beyond the bound, by one answer each.
//!
//! # Limits
//! The bytes of clients are counted in two rows of [`COUNTED_CLIENTS`] numbers, and the smaller of a client's two numbers
//! counts: where two clients share both, each has less. The numbers are never too small.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_base::bounds::{
    ANSWER_OVERHEAD, ANSWER_PIPE, COUNTED_CLIENTS, SMALL_ANSWER, UNREAD_WITHOUT_MEMORY,
};

use super::client_key;
use crate::admission::KeySeed;
use crate::client::{PeerTrust, hop};
use crate::config::AvailableMemory;
use crate::config::rules::Rules;

/// The budget of unread bytes.
#[derive(Debug)]
pub struct UnreadAnswers {
    /// The maximum without a configured one.
    most: u64,
    all: AtomicU64,
    of_clients: [Box<[AtomicU64]>; 2],
    refused: [AtomicU64; UnreadCap::ALL.len()],
}

/// The reservation of one answer; dropping it releases it.
#[derive(Debug)]
pub struct UnreadPermit {
    account: Arc<UnreadAnswers>,
    bytes: u64,
    /// The indexes of the client's numbers; `None` for a trusted proxy.
    of_client: Option<[usize; 2]>,
}

/// The cap that an answer exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadCap {
    /// On all answers.
    All,
    /// On those of its client.
    Client,
}

/// Statistics of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreadTallies {
    /// Bytes that current answers may come to hold.
    pub held: u64,
    /// Answers for which there was no room, by [`UnreadCap`] in the order of [`UnreadCap::ALL`].
    pub refused: [u64; UnreadCap::ALL.len()],
}

impl UnreadCap {
    /// Every bound.
    pub const ALL: [Self; 2] = [Self::All, Self::Client];

    /// Returns its name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Client => "client",
        }
    }
}

impl UnreadAnswers {
    /// Returns an empty budget of a quarter of this memory.
    #[must_use]
    pub fn new(memory: Option<&AvailableMemory>) -> Self {
        let row = || (0..COUNTED_CLIENTS).map(|_| AtomicU64::new(0)).collect();
        Self {
            most: memory.map_or(UNREAD_WITHOUT_MEMORY, |memory| memory.bytes / 4),
            all: AtomicU64::new(0),
            of_clients: [row(), row()],
            refused: Default::default(),
        }
    }

    /// Returns the maximum of unread bytes under these rules.
    #[must_use]
    pub fn most(&self, rules: &Rules) -> u64 {
        rules.server.defence.max_unread_bytes.unwrap_or(self.most)
    }

    /// Reserves room for an answer to the client at `address` whose body has so many bytes; `None` where that is not known
    /// beforehand. A small answer needs no reservation.
    ///
    /// # Errors
    /// There is no room. It is counted.
    /// There is no room. It is counted.
    pub fn enter(
        self: &Arc<Self>,
        address: IpAddr,
        body: Option<u64>,
        rules: &Rules,
        seed: &KeySeed,
    ) -> Result<Option<UnreadPermit>, UnreadCap> {
        let bytes = held_by(body);
        if bytes == 0 {
            return Ok(None);
        }
        let most = self.most(rules);
        // Relaxed, here and below: the numbers bound memory and publish nothing.
        let others = self.all.fetch_add(bytes, Ordering::Relaxed);
        let mut permit = UnreadPermit {
            account: Arc::clone(self),
            bytes,
            of_client: None,
        };
        let held = others.saturating_add(bytes);
        // One answer is always admitted, however small the budget.
        if held > most.max(bytes) {
            return self.count(UnreadCap::All);
        }
        if hop(address, &rules.client) == PeerTrust::Trusted {
            return Ok(Some(permit));
        }
        let key = client_key(b"unread answers", address, seed);
        let places = places(key.bits());
        permit.of_client = Some(places);
        let numbers = self.of_clients.iter().zip(places);
        let before = numbers.map(|(row, place)| row[place].fetch_add(bytes, Ordering::Relaxed));
        let before = before.min().unwrap_or(0);
        if before > 0 && before.saturating_add(bytes) > most - held.min(most) {
            return self.count(UnreadCap::Client);
        }
        Ok(Some(permit))
    }

    /// Returns the statistics.
    #[must_use]
    pub fn tallies(&self) -> UnreadTallies {
        let refused = self.refused.each_ref();
        UnreadTallies {
            held: self.all.load(Ordering::Relaxed),
            refused: refused.map(|count| count.load(Ordering::Relaxed)),
        }
    }

    fn count<T>(&self, cap: UnreadCap) -> Result<T, UnreadCap> {
        self.refused[cap as usize].fetch_add(1, Ordering::Relaxed);
        Err(cap)
    }
}

impl Drop for UnreadPermit {
    fn drop(&mut self) {
        let account = &self.account;
        account.all.fetch_sub(self.bytes, Ordering::Relaxed);
        let places = self.of_client.into_iter().flatten();
        for (row, place) in account.of_clients.iter().zip(places) {
            row[place].fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// Returns how many bytes an answer with such a body may come to hold.
fn held_by(body: Option<u64>) -> u64 {
    match body {
        Some(body) if body <= SMALL_ANSWER => 0,
        Some(body) => body.min(ANSWER_PIPE) + ANSWER_OVERHEAD,
        None => ANSWER_PIPE + ANSWER_OVERHEAD,
    }
}

/// Returns the client's index in each row.
fn places(hash: u64) -> [usize; 2] {
    let place = |half: u64| usize::try_from(half % COUNTED_CLIENTS).unwrap_or(0);
    [place(hash >> 32), place(hash & 0xffff_ffff)]
}

#[cfg(test)]
mod tests {
    use sluicegate_limiter::Seed;

    use super::*;
    use crate::config::{no_review, parse};

    const ANSWER: u64 = ANSWER_PIPE + ANSWER_OVERHEAD;

    /// A budget with room for so many answers of unknown length, and the rules.
    struct Room(Arc<UnreadAnswers>, Rules);

    impl Room {
        fn of(answers: u64, lines: &str) -> Self {
            let text = format!(
                "[server]\nmax_unread_bytes = {}\n{lines}\n[[listener]]\naddress = \"127.0.0.1:1\"\n\
                 [[route]]\npath = \"/*\"\nrespond = {{ status = 200, body = \"\" }}\n",
                answers * ANSWER
            );
            let rules = parse("test.toml", &text, no_review).unwrap().rules;
            Self(Arc::new(UnreadAnswers::new(None)), rules)
        }

        fn enter(&self, from: &str, body: Option<u64>) -> Result<Option<UnreadPermit>, UnreadCap> {
            let seed = KeySeed::from_seed(Seed::from_bytes([7; 16]));
            self.0.enter(from.parse().unwrap(), body, &self.1, &seed)
        }

        /// Returns how many answers this client gets.
        fn fill(&self, from: &str, kept: &mut Vec<UnreadPermit>) -> usize {
            let before = kept.len();
            while let Ok(Some(permit)) = self.enter(from, None) {
                kept.push(permit);
            }
            kept.len() - before
        }
    }

    /// Goal: one client leaves room for others, who find it however many there are. Method: clients that take what they get, one
    /// after the other; IPv6 by /64; then all release.
    #[test]
    fn a_client_has_as_much_as_is_left() {
        let room = Room::of(64, "");
        let mut kept = Vec::new();
        assert_eq!(room.fill("192.0.2.1", &mut kept), 32);
        assert_eq!(room.fill("2001:db8::1", &mut kept), 16);
        assert_eq!(room.fill("2001:db8::2", &mut kept), 0);
        assert_eq!(room.fill("192.0.2.3", &mut kept), 8);
        assert_eq!(room.fill("192.0.2.1", &mut kept), 0);
        assert_eq!(room.0.tallies().held, 56 * ANSWER);
        kept.clear();
        assert_eq!(
            room.0.tallies(),
            UnreadTallies {
                held: 0,
                refused: [0, 5]
            }
        );
        assert_eq!(room.fill("192.0.2.1", &mut kept), 32);
    }

    /// Goal: the bound on all also applies to trusted proxies. Method: a trusted proxy takes all; a client gets nothing, small
    /// answers pass.
    #[test]
    fn a_trusted_proxy_may_take_everything() {
        let room = Room::of(10, "[client]\ntrusted_proxies = [\"10.0.0.0/8\"]");
        let mut kept = Vec::new();
        assert_eq!(room.fill("10.1.2.3", &mut kept), 10);
        assert_eq!(room.enter("192.0.2.1", None).unwrap_err(), UnreadCap::All);
        assert!(
            room.enter("192.0.2.1", Some(SMALL_ANSWER))
                .unwrap()
                .is_none()
        );
    }

    /// Goal: an answer reserves its maximum, and one is always served. Method: lengths around the bounds; a budget of one byte.
    #[test]
    fn an_answer_takes_what_it_may_hold() {
        assert_eq!(held_by(Some(SMALL_ANSWER)), 0);
        assert_eq!(held_by(Some(100_000)), 100_000 + ANSWER_OVERHEAD);
        assert_eq!(held_by(Some(u64::MAX)), ANSWER);
        assert_eq!(held_by(None), ANSWER);
        let room = Room::of(0, "");
        let mut kept = Vec::new();
        assert_eq!(room.fill("192.0.2.1", &mut kept), 1);
    }
}
