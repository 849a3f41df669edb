//! Decides which connections are accepted: a maximum in all, and a maximum of one client.
//!
//! A connection counts from its acceptance to its close, whatever its protocol. One beyond the maximum is closed without a byte:
//! a flood should cost as little as possible, and under TLS an answer would cost a handshake. It is counted in a metric and not
//! logged, since a line for each would flood the log too.
//!
//! A client is an address, or an IPv6 /64, as `client.ip` in a key. Trusted proxies are exempt by their own address, since each
//! carries many clients. No other address is exempt; the default of a quarter of all is so wide that a proxy which is not
//! configured as trusted still works, and so narrow that no single client shuts out all others.
//!
//! # Concurrency
//! The number of connections is one atomic: a permit is taken by adding one, and released by being dropped, so that none is lost
//! whichever way a connection ends. Those of a client are a number of its [`ClientAccount`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sluicegate_base::bounds::DEFAULT_CONNECTIONS;
use sluicegate_limiter::Concurrency;

use super::client_accounts::{AccountCharge, ClientAccount, Resource};
use super::open_files::{OpenFiles, OwnFiles};
use super::tally::{BudgetCap, BudgetTallies, ResourceTally};
use crate::config::rules::{DefenceRules, Rules};

/// Limits the open connections, in all and of one client.
#[derive(Debug)]
pub struct ConnectionLimiter {
    tally: ResourceTally,
    files: OpenFiles,
    /// The maximum that the file descriptor limit allows, less the descriptors that the configuration needs.
    allowed: AtomicU32,
}

/// A permit for one open connection. Dropping it returns the permit.
#[derive(Debug)]
#[must_use = "dropped, the permit is returned at once"]
pub struct ClientConnectionPermit {
    connection_limiter: Arc<ConnectionLimiter>,
    of_client: Option<AccountCharge>,
}

/// The maximum numbers of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionCaps {
    /// In all.
    pub all: Concurrency,
    /// For one client.
    pub of_client: Concurrency,
}

impl ConnectionLimiter {
    /// The configuration keys of its caps, in the order of [`BudgetCap::ALL`].
    pub const KEYS: [&str; BudgetCap::ALL.len()] =
        ["max_connections", "max_connections_per_client"];

    /// Returns a limiter without connections.
    #[must_use]
    pub fn new(files: OpenFiles, rules: &Rules) -> Self {
        let allowed = allowed(files, rules);
        Self {
            tally: ResourceTally::default(),
            files,
            allowed: AtomicU32::new(allowed.get()),
        }
    }

    /// Applies rules that need another number of descriptors.
    pub fn follow(&self, rules: &Rules) {
        let allowed = allowed(self.files, rules);
        self.allowed.store(allowed.get(), Ordering::Relaxed);
    }

    /// Returns the maximum numbers.
    #[must_use]
    pub fn caps(&self, rules: &DefenceRules) -> ConnectionCaps {
        // Relaxed: a bound, publishes nothing.
        let allowed = || at_least_one(self.allowed.load(Ordering::Relaxed));
        let all = rules.max_connections.unwrap_or_else(allowed);
        let of_client = rules
            .max_connections_per_client
            .unwrap_or_else(|| a_quarter_of(all));
        ConnectionCaps { all, of_client }
    }

    /// Returns a permit for one connection, before anything is read.
    ///
    /// # Errors
    /// The maximum is reached. It is counted.
    pub fn enter(
        self: &Arc<Self>,
        rules: &DefenceRules,
    ) -> Result<ClientConnectionPermit, BudgetCap> {
        self.tally.add(1, self.caps(rules).all.get().into())?;
        Ok(ClientConnectionPermit {
            connection_limiter: Arc::clone(self),
            of_client: None,
        })
    }

    /// Returns the statistics.
    #[must_use]
    pub fn tallies(&self) -> BudgetTallies {
        self.tally.tallies()
    }
}

impl ClientConnectionPermit {
    /// Charges the connection to its client, once that is known: at the acceptance, or after a PROXY header.
    ///
    /// # Errors
    /// The client's maximum is reached. It is counted.
    pub fn belongs_to(
        &mut self,
        account: &ClientAccount,
        rules: &DefenceRules,
    ) -> Result<(), BudgetCap> {
        let connection_limiter = &self.connection_limiter;
        // Released before another is taken, so that a connection has one.
        self.of_client = None;
        let max = connection_limiter.caps(rules).of_client.get().into();
        self.of_client = account.charge(Resource::Connections, 1, |held| held < max);
        match self.of_client {
            Some(_) => Ok(()),
            None => connection_limiter.tally.refuse(BudgetCap::Client),
        }
    }
}

impl Drop for ClientConnectionPermit {
    fn drop(&mut self) {
        self.connection_limiter.tally.release(1);
    }
}

/// Returns how many connections the descriptors allow under these rules.
fn allowed(files: OpenFiles, rules: &Rules) -> Concurrency {
    // Each may need a second descriptor, for its request to an origin.
    let half = files.for_connections(OwnFiles::of(rules)) / 2;
    let half = u32::try_from(half).unwrap_or(u32::MAX);
    at_least_one(half.min(DEFAULT_CONNECTIONS))
}

/// Returns the maximum of one client out of `all`: it takes four clients to use all.
fn a_quarter_of(all: Concurrency) -> Concurrency {
    at_least_one(all.get() / 4)
}

pub(super) fn at_least_one(count: u32) -> Concurrency {
    Concurrency::new(count.clamp(1, Concurrency::MAX.get())).unwrap_or(Concurrency::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::ClientAccounts;
    use super::*;
    use crate::config::{no_review, parse};

    fn rules(lines: &str) -> Rules {
        let text = format!(
            "{lines}\n[[listener]]\naddress = \"127.0.0.1:1\"\n[[route]]\npath = \"/*\"\nrespond = {{ status = 200, body = \"\" }}\n"
        );
        parse("test.toml", &text, no_review).unwrap().rules
    }

    fn with_files(now: u64) -> Arc<ConnectionLimiter> {
        let files = OpenFiles { before: 0, now };
        let limiter = ConnectionLimiter::new(files, &rules("[server]\nthreads = 1"));
        Arc::new(limiter)
    }

    /// Goal: the defaults follow the descriptor limit and are never zero. Method: few descriptors, many, and no limit.
    #[test]
    fn half_of_the_files_are_for_clients_and_a_quarter_of_that_for_one() {
        let rules = rules("").server.defence;
        let caps = |now| {
            let caps = with_files(now).caps(&rules);
            (caps.all.get(), caps.of_client.get())
        };
        assert_eq!(caps(20_128), (10_000, 2500));
        assert_eq!(
            caps(u64::MAX),
            (DEFAULT_CONNECTIONS, DEFAULT_CONNECTIONS / 4)
        );
        assert_eq!(caps(0), (1, 1));
    }

    /// Goal: a configured number applies, and a client's share follows it. Method: one number, the other, both.
    #[test]
    fn a_quarter_of_what_is_written_is_for_one_client() {
        let caps = |lines: &str| {
            let caps =
                with_files(20_128).caps(&rules(&format!("[server]\n{lines}")).server.defence);
            (caps.all.get(), caps.of_client.get())
        };
        assert_eq!(caps("max_connections = 400"), (400, 100));
        assert_eq!(caps("max_connections_per_client = 7"), (10_000, 7));
        let both = "max_connections = 400\nmax_connections_per_client = 7";
        assert_eq!(caps(both), (400, 7));
    }

    /// Goal: a permit is taken once and released on every path. Method: the maximum is two; the third is counted as rejected and
    /// leaves nothing behind.
    #[test]
    fn the_connection_too_many_is_refused_and_leaves_nothing() {
        let rules = rules("[server]\nmax_connections = 2").server.defence;
        let connection_limiter = with_files(1000);
        let one = connection_limiter.enter(&rules).unwrap();
        let other = connection_limiter.enter(&rules).unwrap();
        assert_eq!(
            connection_limiter.enter(&rules).unwrap_err(),
            BudgetCap::All
        );
        assert_eq!(
            connection_limiter.tallies(),
            BudgetTallies {
                held: 2,
                refused: [1, 0]
            }
        );
        drop((one, other));
        assert_eq!(connection_limiter.tallies().held, 0);
        assert!(connection_limiter.enter(&rules).is_ok());
    }

    /// Goal: one client cannot shut others out, and an IPv6 /64 is one client. Method: the maximum of each is two; the third of
    /// an address and of a network are rejected, others pass, and a trusted proxy is not a client.
    #[test]
    fn a_client_has_its_share_and_a_trusted_proxy_no_bound() {
        let rules = rules(
            "[server]\nmax_connections_per_client = 2\n[client]\ntrusted_proxies = [\"10.0.0.0/8\"]",
        );
        let connection_limiter = with_files(1000);
        let accounts = ClientAccounts::default();
        let mut kept = Vec::new();
        let mut connect = |from: &str| {
            let account = accounts.find(from.parse().unwrap(), &rules.client);
            let mut place = connection_limiter.enter(&rules.server.defence).unwrap();
            let result = place.belongs_to(&account, &rules.server.defence);
            kept.push(place);
            result
        };
        for from in [
            "192.0.2.1",
            "192.0.2.1",
            "192.0.2.2",
            "2001:db8::1",
            "2001:db8::2",
        ] {
            assert_eq!(connect(from), Ok(()), "{from}");
        }
        for from in ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::3"] {
            assert_eq!(connect(from), Err(BudgetCap::Client), "{from}");
        }
        for _ in 0..5 {
            assert_eq!(connect("10.1.2.3"), Ok(()));
        }
        kept.clear();
        assert_eq!(
            connection_limiter.tallies(),
            BudgetTallies {
                held: 0,
                refused: [0, 3]
            }
        );
        let account = accounts.find("192.0.2.1".parse().unwrap(), &rules.client);
        let mut place = connection_limiter.enter(&rules.server.defence).unwrap();
        let again = place.belongs_to(&account, &rules.server.defence);
        assert_eq!(again, Ok(()));
    }

    /// Goal: a permit after a PROXY header counts for its client, not for its sender. Method: the same permit belongs to one
    /// after the other.
    #[test]
    fn a_permit_moves_to_another_client() {
        let rules = rules("[server]\nmax_connections_per_client = 1");
        let defence = &rules.server.defence;
        let connection_limiter = with_files(1000);
        let accounts = ClientAccounts::default();
        let account = |from: &str| accounts.find(from.parse().unwrap(), &rules.client);
        let (first, second) = (account("192.0.2.1"), account("192.0.2.2"));
        let mut place = connection_limiter.enter(defence).unwrap();
        let mut next = connection_limiter.enter(defence).unwrap();
        assert_eq!(place.belongs_to(&first, defence), Ok(()));
        assert_eq!(place.belongs_to(&second, defence), Ok(()));
        assert_eq!(next.belongs_to(&first, defence), Ok(()));
        // Nor does the permit count against itself.
        assert_eq!(next.belongs_to(&first, defence), Ok(()));
    }
}
