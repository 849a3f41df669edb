//! Bounds the bytes that the process holds for its clients: a maximum in all, and for one client no more than is left.
//!
//! There are two budgets. An origin sends faster than a client reads, and the bytes between them are in the gateway's memory: each answer
//! reserves the maximum that it may hold (`crate::gateway::unread` decides when, and how much). A body from which a limit takes its key is
//! read before the request is decided, as slowly as its client sends it: the request reserves the maximum of that
//! (`crate::gateway::key_body`). Each holds little, but a client may have a thousand of them, and there are many clients. What finds no
//! room is counted, and answered with 503 or cut off.
//!
//! One client may reserve as much as is left. So one alone has half of the budget, two have a third each, and a new client
//! always finds room: no share per client has to be configured. A client is an address, or an IPv6 /64, as in the limits. A
//! trusted proxy that names no client has no bound of its own.
//!
//! # Concurrency
//! Two requests that enter at the same time may both be admitted beyond the bound, by one reservation each.
//!
//! # Limits
//! The bytes of clients are counted in two rows of [`COUNTED_CLIENTS`] numbers, and the smaller of a client's two numbers
//! counts: where two clients share both, each has less. The numbers are never too small.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_base::bounds::COUNTED_CLIENTS;

use super::client_key;
use crate::admission::KeySeed;
use crate::client::{PeerTrust, hop};
use crate::config::rules::Rules;

/// A budget of bytes.
#[derive(Debug)]
pub struct ClientBytes {
    /// The name of what is counted, by which the numbers of a client differ from those of other budgets.
    kind: &'static [u8],
    /// The maximum without a configured one.
    most: u64,
    all: AtomicU64,
    of_clients: [Box<[AtomicU64]>; 2],
    refused: [AtomicU64; BytesCap::ALL.len()],
}

/// A reservation; dropping it releases it.
#[derive(Debug)]
pub struct BytesPermit {
    account: Arc<ClientBytes>,
    bytes: u64,
    /// The indexes of the client's numbers; `None` for a trusted proxy.
    of_client: Option<[usize; 2]>,
}

/// The cap that a reservation exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BytesCap {
    /// On the bytes of all clients.
    All,
    /// On those of its client.
    Client,
}

/// Statistics of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BytesTallies {
    /// Bytes that are reserved.
    pub held: u64,
    /// Reservations for which there was no room, by [`BytesCap`] in the order of [`BytesCap::ALL`].
    pub refused: [u64; BytesCap::ALL.len()],
}

impl BytesCap {
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

impl ClientBytes {
    /// Returns an empty budget for this kind of bytes, with this maximum where none is configured.
    #[must_use]
    pub fn new(kind: &'static [u8], most: u64) -> Self {
        let row = || (0..COUNTED_CLIENTS).map(|_| AtomicU64::new(0)).collect();
        Self {
            kind,
            most,
            all: AtomicU64::new(0),
            of_clients: [row(), row()],
            refused: Default::default(),
        }
    }

    /// Returns the maximum, where this one is configured.
    #[must_use]
    pub fn most(&self, configured: Option<u64>) -> u64 {
        configured.unwrap_or(self.most)
    }

    /// Reserves so many bytes for the client at `address`, within the maximum that is `configured`.
    ///
    /// # Errors
    /// There is no room. It is counted.
    pub fn enter(
        self: &Arc<Self>,
        (address, bytes): (IpAddr, u64),
        configured: Option<u64>,
        rules: &Rules,
        seed: &KeySeed,
    ) -> Result<BytesPermit, BytesCap> {
        let most = self.most(configured);
        // Relaxed, here and below: the numbers bound memory and publish nothing.
        let others = self.all.fetch_add(bytes, Ordering::Relaxed);
        let mut permit = BytesPermit {
            account: Arc::clone(self),
            bytes,
            of_client: None,
        };
        let held = others.saturating_add(bytes);
        // One reservation is always admitted, however small the budget.
        if held > most.max(bytes) {
            return self.count(BytesCap::All);
        }
        if hop(address, &rules.client) == PeerTrust::Trusted {
            return Ok(permit);
        }
        let key = client_key(self.kind, address, seed);
        let places = places(key.bits());
        permit.of_client = Some(places);
        let numbers = self.of_clients.iter().zip(places);
        let before = numbers.map(|(row, place)| row[place].fetch_add(bytes, Ordering::Relaxed));
        let before = before.min().unwrap_or(0);
        if before > 0 && before.saturating_add(bytes) > most - held.min(most) {
            return self.count(BytesCap::Client);
        }
        Ok(permit)
    }

    /// Returns the statistics.
    #[must_use]
    pub fn tallies(&self) -> BytesTallies {
        let refused = self.refused.each_ref();
        BytesTallies {
            held: self.all.load(Ordering::Relaxed),
            refused: refused.map(|count| count.load(Ordering::Relaxed)),
        }
    }

    fn count<T>(&self, cap: BytesCap) -> Result<T, BytesCap> {
        self.refused[cap as usize].fetch_add(1, Ordering::Relaxed);
        Err(cap)
    }
}

impl BytesPermit {
    /// Releases all but so many bytes.
    pub fn shrink(&mut self, to: u64) {
        let surplus = self.bytes.saturating_sub(to);
        self.release(surplus);
    }

    fn release(&mut self, bytes: u64) {
        self.bytes -= bytes;
        let account = &self.account;
        account.all.fetch_sub(bytes, Ordering::Relaxed);
        let places = self.of_client.into_iter().flatten();
        for (row, place) in account.of_clients.iter().zip(places) {
            row[place].fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for BytesPermit {
    fn drop(&mut self) {
        self.release(self.bytes);
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

    /// The bytes of a reservation.
    const PIECE: u64 = 1_000;

    /// A budget with room for so many pieces, and the rules.
    struct Room(Arc<ClientBytes>, Rules);

    impl Room {
        fn of(pieces: u64, lines: &str) -> Self {
            let text = format!(
                "[[listener]]\naddress = \"127.0.0.1:1\"\n{lines}\n\
                 [[route]]\npath = \"/*\"\nrespond = {{ status = 200, body = \"\" }}\n"
            );
            let rules = parse("test.toml", &text, no_review).unwrap().rules;
            Self(Arc::new(ClientBytes::new(b"test", pieces * PIECE)), rules)
        }

        fn enter(&self, from: &str) -> Result<BytesPermit, BytesCap> {
            let seed = KeySeed::from_seed(Seed::from_bytes([7; 16]));
            let client = (from.parse().unwrap(), PIECE);
            self.0.enter(client, None, &self.1, &seed)
        }

        /// Returns how many pieces this client gets.
        fn fill(&self, from: &str, kept: &mut Vec<BytesPermit>) -> usize {
            let before = kept.len();
            while let Ok(permit) = self.enter(from) {
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
        assert_eq!(room.0.tallies().held, 56 * PIECE);
        kept.clear();
        assert_eq!(
            room.0.tallies(),
            BytesTallies {
                held: 0,
                refused: [0, 5]
            }
        );
        assert_eq!(room.fill("192.0.2.1", &mut kept), 32);
    }

    /// Goal: the bound on all also applies to trusted proxies. Method: a trusted proxy takes all; a client gets nothing.
    #[test]
    fn a_trusted_proxy_may_take_everything() {
        let room = Room::of(10, "[client]\ntrusted_proxies = [\"10.0.0.0/8\"]");
        let mut kept = Vec::new();
        assert_eq!(room.fill("10.1.2.3", &mut kept), 10);
        assert_eq!(room.enter("192.0.2.1").unwrap_err(), BytesCap::All);
    }

    /// Goal: one reservation always finds room. Method: a budget of no byte.
    #[test]
    fn one_piece_is_always_admitted() {
        let mut kept = Vec::new();
        assert_eq!(Room::of(0, "").fill("192.0.2.1", &mut kept), 1);
    }

    /// Goal: what is released before the end makes room, and is released once. Method: pieces that shrink to a tenth, and more.
    #[test]
    fn a_permit_shrinks() {
        let room = Room::of(10, "");
        let mut kept = Vec::new();
        assert_eq!(room.fill("192.0.2.1", &mut kept), 5);
        for permit in &mut kept {
            permit.shrink(PIECE / 10);
            permit.shrink(PIECE);
        }
        assert_eq!(room.0.tallies().held, 5 * PIECE / 10);
        assert_eq!(room.fill("192.0.2.1", &mut kept), 4);
        kept.clear();
        assert_eq!(room.0.tallies().held, 0);
    }
}
