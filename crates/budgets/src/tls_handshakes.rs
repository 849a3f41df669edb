//! Decides how many TLS handshakes may be in progress: a maximum in all, and for one client no more than are left.
//!
//! A handshake takes as much CPU time as a hundred requests, and memory until it ends. It counts from the first byte that the client sends:
//! a connection that sends none is only a connection. At the maximum a connection is closed without an alert.
//!
//! One client may have as many as are left. So one alone has half of them, and a new client always finds room.
//!
//! # Concurrency
//! The same as for [`super::ConnectionLimiter`].

use std::fmt::{self, Display, Formatter};

use sluicegate_base::bounds::HANDSHAKES;

use super::client_accounts::{AccountCharge, ClientAccount, ClientAccounts, Resource};
use super::tally::{BudgetCap, BudgetTallies, ResourceTally};
use sluicegate_config::rules::DefenceRules;
use sluicegate_record::HandshakeFailure;

/// The TLS handshakes in progress.
#[derive(Debug, Default)]
pub struct TlsHandshakes(ResourceTally);

/// A permit for one handshake. Dropping it returns the permit.
#[derive(Debug)]
#[must_use = "dropped, the permit is returned at once"]
pub struct HandshakePermit<'a> {
    handshakes: &'a TlsHandshakes,
    _of_client: AccountCharge,
}

/// A handshake of QUIC, of which there is a cap of its own. It is charged to a client that has proved its address.
#[derive(Debug)]
#[must_use = "dropped, the charge ends at once"]
pub struct ClientHandshake {
    _of_client: AccountCharge,
}

impl ClientHandshake {
    /// Charges a handshake to the client with this account, which may have as many as are `left`; `None` where it has.
    pub fn enter(account: &ClientAccount, left: u64) -> Option<Self> {
        let charged = account.charge(Resource::Handshakes, 1, |held| held == 0 || held < left);
        charged.map(|charge| Self { _of_client: charge })
    }
}

/// The text for the process log of a handshake that was refused: it names the client that has most.
#[derive(Debug)]
pub struct RefusedHandshake<'a> {
    /// The accounts of all clients.
    pub accounts: &'a ClientAccounts,
    /// The maximum number of handshakes.
    pub most: u64,
}

impl TlsHandshakes {
    /// Returns the maximum number under these rules.
    #[must_use]
    pub fn most(rules: &DefenceRules) -> u64 {
        rules
            .max_tls_handshakes
            .map_or(HANDSHAKES, |most| most.get())
            .into()
    }

    /// Returns a permit for a handshake of the client with this account.
    ///
    /// # Errors
    /// `most` are in progress, or the client has as many as are left. It is counted.
    pub fn enter(
        &self,
        account: &ClientAccount,
        most: u64,
    ) -> Result<HandshakePermit<'_>, BudgetCap> {
        let of_client = self.0.charge((1, most), |all| {
            let left = most.saturating_sub(all);
            // The first handshake of a client needs no more than a place.
            account.charge(Resource::Handshakes, 1, |held| held == 0 || held < left)
        })?;
        Ok(HandshakePermit {
            handshakes: self,
            _of_client: of_client,
        })
    }

    /// Returns the statistics.
    #[must_use]
    pub fn tallies(&self) -> BudgetTallies {
        self.0.tallies()
    }
}

impl Drop for HandshakePermit<'_> {
    fn drop(&mut self) {
        self.handshakes.0.release(1);
    }
}

impl From<BudgetCap> for HandshakeFailure {
    fn from(cap: BudgetCap) -> Self {
        match cap {
            BudgetCap::All => Self::LimitReached,
            BudgetCap::Client => Self::ClientLimitReached,
        }
    }
}

impl Display for RefusedHandshake<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "max_tls_handshakes = {}", self.most)?;
        let held = |account: &ClientAccount| account.held(Resource::Handshakes);
        match self.accounts.largest(1, held).first() {
            Some(account) => write!(f, ", of which {account} has {}", held(account)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_config::{no_review, parse};

    /// Goal: one client leaves room for others, and a handshake that ends makes room. Method: three clients that take what they get, one
    /// after the other; the text of a refusal names the first.
    #[test]
    fn a_client_has_as_many_handshakes_as_are_left() {
        let text = "[[listener]]\naddress = \"127.0.0.1:1\"\n[[route]]\npath = \"/*\"\nrespond = { status = 200 }\n";
        let rules = parse("test.toml", text, no_review).unwrap().rules;
        let (handshakes, accounts) = (TlsHandshakes::default(), ClientAccounts::default());
        let mut kept = Vec::new();
        let mut fill = |from: &str| {
            let account = accounts.find(from.parse().unwrap(), &rules.client);
            let enter = || handshakes.enter(&account, 16).ok();
            let entered: Vec<_> = std::iter::from_fn(enter).collect();
            let count = entered.len();
            kept.push(entered);
            count
        };
        assert_eq!(fill("192.0.2.1"), 8);
        assert_eq!(fill("2001:db8::1"), 4);
        assert_eq!(fill("192.0.2.3"), 2);
        assert_eq!(fill("192.0.2.1"), 0);
        assert_eq!(handshakes.tallies().held, 14);
        let refused = RefusedHandshake {
            accounts: &accounts,
            most: 16,
        };
        let text = "max_tls_handshakes = 16, of which 192.0.2.1 has 8";
        assert_eq!(refused.to_string(), text);
        kept.clear();
        assert_eq!(handshakes.tallies().held, 0);
        assert_eq!(refused.to_string(), "max_tls_handshakes = 16");
    }
}
