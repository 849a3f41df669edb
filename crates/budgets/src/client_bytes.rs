//! Bounds the bytes that the process holds for its clients: a maximum in all, and for one client no more than is left.
//!
//! There are four budgets. An origin sends faster than a client reads, and the bytes between them are in the gateway's memory: each
//! answer reserves the maximum that it may hold (`crate::gateway::unread` decides when, and how much). A body from which a limit takes
//! its key is read before the request is decided, as slowly as its client sends it: the request reserves the maximum of that
//! (`crate::gateway::key_body`). A body that is kept for another attempt reserves what is kept (`crate::gateway::replay_bytes`). What the
//! listener holds before the gateway passes it on, heads and frames that are not whole and bodies that are sent ahead over HTTP/2, is
//! reserved while it waits (`crate::listener`), as are large heads of requests that wait (`crate::gateway::large_head`). Each holds little,
//! but a client may have a thousand of them, and there are many clients. What finds no room is counted, and answered with 503, cut off, or
//! not kept.
//!
//! One client may reserve as much as is left. So one alone has half of the budget, two have a third each, and a new client
//! always finds room: no share per client has to be configured. A trusted proxy that names no client has no bound of its own.
//! What such a proxy holds for a client that it names once it has done so is charged to that client as well.
//!
//! # Concurrency
//! Two clients that enter at the same time may both be admitted beyond their bounds, by one reservation each.

use std::mem;
use std::sync::Arc;

use super::client_accounts::{AccountCharge, ClientAccount, Resource};
use super::tally::{BudgetCap, BudgetTallies, ResourceTally};

/// A budget of bytes.
#[derive(Debug)]
pub struct ClientBytes {
    /// The number of a client's account that counts them.
    resource: Resource,
    /// The maximum without a configured one.
    most: u64,
    tally: ResourceTally,
}

/// A reservation; dropping it releases it.
#[derive(Debug)]
pub struct BytesPermit {
    budget: Arc<ClientBytes>,
    bytes: u64,
    of_client: AccountCharge,
}

/// The bytes of a client that a trusted proxy names; dropping it returns them. The budget counts them as the proxy's.
#[derive(Debug)]
pub struct NamedBytes(#[expect(dead_code, reason = "its drop returns the bytes")] AccountCharge);

impl ClientBytes {
    /// Returns an empty budget for these bytes, with this maximum where none is configured.
    #[must_use]
    pub fn new(resource: Resource, most: u64) -> Self {
        Self {
            resource,
            most,
            tally: ResourceTally::default(),
        }
    }

    /// Returns the maximum, where this one is configured.
    #[must_use]
    pub fn most(&self, configured: Option<u64>) -> u64 {
        configured.unwrap_or(self.most)
    }

    /// Reserves so many bytes for the client with this account, within the maximum that is `configured`.
    ///
    /// # Errors
    /// There is no room. It is counted.
    pub fn enter(
        self: &Arc<Self>,
        account: &ClientAccount,
        bytes: u64,
        configured: Option<u64>,
    ) -> Result<BytesPermit, BudgetCap> {
        let entered = self.try_enter(account, bytes, configured);
        entered.or_else(|cap| self.tally.refuse(cap))
    }

    /// Reserves so many bytes, as [`enter`](Self::enter) does, for a use that the request does without where there is no room.
    ///
    /// # Errors
    /// There is no room. It is not counted as refused.
    pub fn try_enter(
        self: &Arc<Self>,
        account: &ClientAccount,
        bytes: u64,
        configured: Option<u64>,
    ) -> Result<BytesPermit, BudgetCap> {
        let most = self.most(configured);
        // One reservation is always admitted, however small the budget.
        let of_client = self.tally.try_charge((bytes, most.max(bytes)), |all| {
            let left = most.saturating_sub(all);
            let fits = |held: u64| held == 0 || held.saturating_add(bytes) <= left;
            account.charge(self.resource, bytes, fits)
        })?;
        Ok(BytesPermit {
            budget: Arc::clone(self),
            bytes,
            of_client,
        })
    }

    /// Extends `held` to at least so many bytes of the client with this account, as [`enter`](Self::enter) reserves them.
    ///
    /// # Errors
    /// There is no room for the rest. It is counted, and `held` stays as it is.
    pub fn extend(
        self: &Arc<Self>,
        held: &mut Option<BytesPermit>,
        account: &ClientAccount,
        bytes: u64,
        configured: Option<u64>,
    ) -> Result<(), BudgetCap> {
        let more = bytes.saturating_sub(held.as_ref().map_or(0, |held| held.bytes));
        if more == 0 {
            return Ok(());
        }
        let more = self.enter(account, more, configured)?;
        match held {
            Some(held) => held.absorb(more),
            None => *held = Some(more),
        }
        Ok(())
    }

    /// Charges so many bytes that this budget counts already, for a trusted proxy, to the client with this account that the proxy names.
    ///
    /// # Errors
    /// The client would hold more than is left. It is counted.
    pub fn charge_named(
        &self,
        account: &ClientAccount,
        bytes: u64,
        configured: Option<u64>,
    ) -> Result<NamedBytes, BudgetCap> {
        let left = self.most(configured).saturating_sub(self.tallies().held);
        let fits = |held: u64| held == 0 || held.saturating_add(bytes) <= left;
        match account.charge(self.resource, bytes, fits) {
            Some(charge) => Ok(NamedBytes(charge)),
            None => self.tally.refuse(BudgetCap::Client),
        }
    }

    /// Returns the statistics.
    #[must_use]
    pub fn tallies(&self) -> BudgetTallies {
        self.tally.tallies()
    }
}

impl BytesPermit {
    /// Releases all but so many bytes.
    pub fn shrink(&mut self, to: u64) {
        let surplus = self.bytes.saturating_sub(to);
        self.release(surplus);
    }

    /// Adds a permit of the same budget and client.
    fn absorb(&mut self, mut other: Self) {
        self.bytes += mem::take(&mut other.bytes);
        self.of_client.absorb(&mut other.of_client);
    }

    fn release(&mut self, bytes: u64) {
        self.bytes -= bytes;
        self.budget.tally.release(bytes);
        self.of_client.reduce(bytes);
    }
}

impl Drop for BytesPermit {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::ClientAccounts;
    use super::*;
    use sluicegate_config::rules::Rules;
    use sluicegate_config::{no_review, parse};

    /// The bytes of a reservation.
    const PIECE: u64 = 1_000;

    /// A budget with room for so many pieces, and the rules.
    struct Room(Arc<ClientBytes>, ClientAccounts, Rules);

    impl Room {
        fn of(pieces: u64, lines: &str) -> Self {
            let text = format!(
                "[[listener]]\naddress = \"127.0.0.1:1\"\n{lines}\n\
                 [[route]]\npath = \"/*\"\nrespond = {{ status = 200, body = \"\" }}\n"
            );
            let rules = parse("test.toml", &text, no_review).unwrap().rules;
            let budget = ClientBytes::new(Resource::UnreadBytes, pieces * PIECE);
            Self(Arc::new(budget), ClientAccounts::default(), rules)
        }

        fn enter(&self, from: &str) -> Result<BytesPermit, BudgetCap> {
            let account = self.1.find(from.parse().unwrap(), &self.2.client);
            self.0.enter(&account, PIECE, None)
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
            BudgetTallies {
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
        assert_eq!(room.enter("192.0.2.1").unwrap_err(), BudgetCap::All);
    }

    /// Goal: one reservation always finds room. Method: a budget of no byte.
    #[test]
    fn one_piece_is_always_admitted() {
        let mut kept = Vec::new();
        assert_eq!(Room::of(0, "").fill("192.0.2.1", &mut kept), 1);
    }

    /// Goal: a permit grows as long as there is room, keeps what it has where there is none, and is released whole. Method: a permit that
    /// is extended in steps.
    #[test]
    fn a_permit_grows() {
        let room = Room::of(10, "");
        let account = room.1.find("192.0.2.1".parse().unwrap(), &room.2.client);
        let mut held = None;
        for (pieces, fits) in [(1, true), (4, true), (2, true), (6, false), (5, true)] {
            let extended = room.0.extend(&mut held, &account, pieces * PIECE, None);
            assert_eq!(extended.is_ok(), fits, "{pieces}");
        }
        assert_eq!(room.0.tallies().held, 5 * PIECE);
        drop(held);
        assert_eq!(room.0.tallies().held, 0);
        assert_eq!(room.fill("192.0.2.1", &mut Vec::new()), 5);
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
