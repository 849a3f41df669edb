//! Decides which connections are accepted: a maximum in all, and for one client no more than are left.
//!
//! A connection counts from its acceptance to its close, whatever its protocol. At the maximum one that waits for a request is closed for
//! it ([`open_connections`](super::open_connections)). Where there is none, the new one is closed without a byte: a flood should cost as
//! little as possible, and under TLS an answer would cost a handshake. It is counted in a metric and not logged, since a line for each
//! would flood the log too.
//!
//! One client may have as many as are left. So one alone has half of them, two have a third each, and a new client always finds room;
//! beyond that it takes the places of clients that hold more. A configured maximum of one client takes the place of this share. Trusted
//! proxies are exempt by their own address, since each carries many clients.
//!
//! # Concurrency
//! The number of connections is one atomic: a permit is taken by adding one, and released by being dropped, so that none is lost
//! whichever way a connection ends. Those of a client are a number of its [`ClientAccount`].
//!
//! # Limits
//! A connection that is closed for another one has its socket until its thread closes it. Of those there are at most
//! [`CLOSING_CONNECTIONS`], and no more than one for sixteen files; beyond them new connections are refused.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};

use sluicegate_base::bounds::{CLOSING_CONNECTIONS, DEFAULT_CONNECTIONS};
use sluicegate_limiter::{Concurrency, Timestamp};

use super::client_accounts::{ClientAccount, Resource, SHARES};
use super::open_connections::{
    ConnectionPlace, OpenConnections, ReclaimedWait, RegisteredConnection,
};
use super::open_files::{OpenFiles, OwnFiles};
use super::tally::{BudgetCap, BudgetTallies, ResourceTally};
use sluicegate_config::rules::{DefenceRules, Rules};

/// Limits the open connections, in all and of one client.
#[derive(Debug)]
pub struct ConnectionLimiter {
    tally: ResourceTally,
    files: OpenFiles,
    /// The maximum that the file descriptor limit allows, less the descriptors that the configuration needs.
    allowed: AtomicU32,
    open: OpenConnections,
    /// Connections that are closed for others, and have their sockets yet.
    closing: AtomicU64,
    /// The number of connections that were closed for others, in the order of [`ReclaimedWait::ALL`].
    reclaimed: [AtomicU64; ReclaimedWait::ALL.len()],
}

/// A permit for one open connection. Dropping it returns the permit.
#[derive(Debug)]
#[must_use = "dropped, the permit is returned at once"]
pub struct ClientConnectionPermit {
    connection_limiter: Arc<ConnectionLimiter>,
    connection: Arc<RegisteredConnection>,
}

/// The maximum numbers of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionCaps {
    /// In all.
    pub all: Concurrency,
    /// For one client; `None` where it may have as many as are left.
    pub of_client: Option<Concurrency>,
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
            open: OpenConnections::default(),
            closing: AtomicU64::new(0),
            reclaimed: Default::default(),
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
        ConnectionCaps {
            all: rules.max_connections.unwrap_or_else(allowed),
            of_client: rules.max_connections_per_client,
        }
    }

    /// Returns a permit for one connection, before anything is read, of the client with this account, if it is known.
    ///
    /// # Errors
    /// The maximum is reached, and no connection can be closed for it. It is counted.
    pub fn enter(
        self: &Arc<Self>,
        account: Option<&ClientAccount>,
        rules: &DefenceRules,
    ) -> Result<ClientConnectionPermit, BudgetCap> {
        let caps = self.caps(rules);
        let all = caps.all.get().into();
        let entered = (self.tally.try_add(1, all)).and_then(|held| {
            let place = caps.charge(account, held);
            place.inspect_err(|_| self.tally.release(1))
        });
        let entered = entered.or_else(|cap| {
            self.reclaim(account, caps, cap)?;
            self.tally.try_add(1, all)?;
            Ok(ConnectionPlace::unbounded(account))
        });
        let place = entered.or_else(|cap| self.tally.refuse(cap))?;
        Ok(ClientConnectionPermit {
            connection_limiter: Arc::clone(self),
            connection: self.open.register(place),
        })
    }

    /// Closes a connection so that one of the client with this account, which `cap` refused, may take its place.
    ///
    /// # Errors
    /// There is none, or its client may not have it.
    fn reclaim(
        &self,
        account: Option<&ClientAccount>,
        caps: ConnectionCaps,
        cap: BudgetCap,
    ) -> Result<(), BudgetCap> {
        if account.is_some_and(|account| caps.are_reached_by(account)) {
            return Err(BudgetCap::Client);
        }
        // Relaxed, here and below: the numbers bound descriptors and are shown, and publish nothing.
        let closing = self.closing.fetch_add(1, Ordering::Relaxed);
        // Where few files may be open, few of them are for these.
        let most = (self.files.now / 16).clamp(16, CLOSING_CONNECTIONS);
        let reclaimed = match closing < most {
            true => self.open.reclaim(account),
            false => None,
        };
        let Some(reclaimed) = reclaimed else {
            self.closing.fetch_sub(1, Ordering::Relaxed);
            return Err(cap);
        };
        self.reclaimed[reclaimed.wait as usize].fetch_add(1, Ordering::Relaxed);
        self.release(reclaimed.place);
        Ok(())
    }

    /// Returns the place of a connection, if it has one.
    fn release(&self, place: Option<ConnectionPlace>) {
        if place.is_some() {
            self.tally.release(1);
        }
    }

    /// Returns the statistics.
    #[must_use]
    pub fn tallies(&self) -> BudgetTallies {
        self.tally.tallies()
    }

    /// Returns the number of connections that were closed for others, in the order of [`ReclaimedWait::ALL`].
    #[must_use]
    pub fn reclaimed(&self) -> [u64; ReclaimedWait::ALL.len()] {
        (self.reclaimed.each_ref()).map(|count| count.load(Ordering::Relaxed))
    }
}

impl ConnectionCaps {
    /// Returns the most connections that one client may have while no other has any.
    #[must_use]
    pub fn of_one_alone(self) -> Concurrency {
        let half = || at_least_one(self.all.get() / 2);
        self.of_client.unwrap_or_else(half)
    }

    /// Charges a connection to its client, if that is known, of `held` connections in all.
    fn charge(
        self,
        account: Option<&ClientAccount>,
        held: u64,
    ) -> Result<ConnectionPlace, BudgetCap> {
        let Some(account) = account else {
            return Ok(ConnectionPlace { of_client: None });
        };
        let left = u64::from(self.all.get()).saturating_sub(held);
        // The first connection of a client needs no more than a place.
        let fits = |held: u64| match self.of_client {
            Some(most) => held < u64::from(most.get()),
            None => held == 0 || held < left,
        };
        let of_client = account.charge(Resource::Connections, 1, fits);
        match of_client {
            Some(_) => Ok(ConnectionPlace { of_client }),
            None => Err(BudgetCap::Client),
        }
    }

    /// Returns whether a client, or a network around it, has its configured maximum, so that it gets no place of others.
    fn are_reached_by(self, account: &ClientAccount) -> bool {
        let Some(most) = self.of_client else {
            return false;
        };
        let most = u64::from(most.get());
        let mut held = account.load(Resource::Connections).into_iter().zip(SHARES);
        held.any(|(held, share)| held >= most * share)
    }
}

impl ConnectionPlace {
    /// Returns the place of a connection that replaces another one.
    fn unbounded(account: Option<&ClientAccount>) -> Self {
        let charge = |account: &ClientAccount| account.charge(Resource::Connections, 1, |_| true);
        Self {
            of_client: account.and_then(charge),
        }
    }
}

impl ClientConnectionPermit {
    /// Charges the connection to its client, which a PROXY header has named. It does not [wait](Self::wait) from then on.
    ///
    /// # Errors
    /// The client's maximum is reached, and no connection can be closed for it. It is counted.
    pub fn belongs_to(
        &self,
        account: &ClientAccount,
        rules: &DefenceRules,
    ) -> Result<(), BudgetCap> {
        let limiter = &self.connection_limiter;
        // It makes no room for itself. One that was closed for another one ends when it waits.
        let _ = self.begin();
        // Released before another is taken, so that a connection has one.
        if let Some(place) = &mut *self.connection.place() {
            place.of_client = None;
        }
        let caps = limiter.caps(rules);
        let charged = caps.charge(Some(account), limiter.tallies().held);
        let charged = charged.or_else(|cap| {
            limiter.reclaim(Some(account), caps, cap)?;
            Ok(ConnectionPlace::unbounded(Some(account)))
        });
        let place = charged.or_else(|cap| limiter.tally.refuse(cap))?;
        if let Some(own) = &mut *self.connection.place() {
            *own = place;
        }
        Ok(())
    }

    /// Notes that the connection waits for the first byte of a request: it may be closed for another one.
    pub fn wait(&self) {
        self.connection.wait();
    }

    /// Notes that the connection waits for the rest of a head, or of a handshake, that began at `since`: it may be closed for another one.
    pub fn wait_for_rest(&self, since: Timestamp) {
        self.connection.wait_for_rest(since);
    }

    /// Notes that the connection carries a request, or ends by itself. Returns false where it is closed for another one.
    #[must_use]
    pub fn begin(&self) -> bool {
        self.connection.begin()
    }

    /// Completes when the connection is to be closed for another one.
    pub fn poll_reclaimed(&self, context: &Context<'_>) -> Poll<()> {
        self.connection.poll_reclaimed(context)
    }

    /// Completes when the connection is to be closed for another one.
    pub async fn reclaimed(&self) {
        poll_fn(|context| self.poll_reclaimed(context)).await;
    }
}

impl Drop for ClientConnectionPermit {
    fn drop(&mut self) {
        let limiter = &self.connection_limiter;
        if limiter.open.remove(&self.connection) {
            limiter.closing.fetch_sub(1, Ordering::Relaxed);
        }
        // One that was closed for another one has no place any more.
        let place = self.connection.place().take();
        limiter.release(place);
    }
}

/// Returns how many connections the descriptors allow under these rules.
fn allowed(files: OpenFiles, rules: &Rules) -> Concurrency {
    // Each may need a second descriptor, for its request to an origin.
    let half = files.for_connections(OwnFiles::new(rules)) / 2;
    let half = u32::try_from(half).unwrap_or(u32::MAX);
    at_least_one(half.min(DEFAULT_CONNECTIONS))
}

pub(super) fn at_least_one(count: u32) -> Concurrency {
    Concurrency::new(count.clamp(1, Concurrency::MAX.get())).unwrap_or(Concurrency::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::ClientAccounts;
    use super::*;
    use sluicegate_config::{no_review, parse};

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
    fn half_of_the_files_are_for_clients_and_half_of_that_for_one_alone() {
        let rules = rules("").server.defence;
        let caps = |now| {
            let caps = with_files(now).caps(&rules);
            (caps.all.get(), caps.of_one_alone().get())
        };
        assert_eq!(caps(20_128), (10_000, 5000));
        assert_eq!(
            caps(u64::MAX),
            (DEFAULT_CONNECTIONS, DEFAULT_CONNECTIONS / 2)
        );
        assert_eq!(caps(0), (1, 1));
    }

    /// Goal: a configured number applies. Method: one number, the other, both.
    #[test]
    fn what_is_written_applies() {
        let caps = |lines: &str| {
            let caps =
                with_files(20_128).caps(&rules(&format!("[server]\n{lines}")).server.defence);
            (caps.all.get(), caps.of_one_alone().get())
        };
        assert_eq!(caps("max_connections = 400"), (400, 200));
        assert_eq!(caps("max_connections_per_client = 7"), (10_000, 7));
        let both = "max_connections = 400\nmax_connections_per_client = 7";
        assert_eq!(caps(both), (400, 7));
    }

    /// A limiter with the connections that it let in.
    struct Room {
        limiter: Arc<ConnectionLimiter>,
        accounts: ClientAccounts,
        rules: Rules,
    }

    impl Room {
        fn new(lines: &str) -> Self {
            Self {
                limiter: with_files(1000),
                accounts: ClientAccounts::default(),
                rules: rules(lines),
            }
        }

        fn connect(&self, from: &str) -> Result<ClientConnectionPermit, BudgetCap> {
            let account = self
                .accounts
                .find(from.parse().unwrap(), &self.rules.client);
            self.limiter
                .enter(Some(&account), &self.rules.server.defence)
        }

        /// Returns a connection that carries a request.
        fn connect_busy(&self, from: &str) -> Result<ClientConnectionPermit, BudgetCap> {
            let permit = self.connect(from)?;
            assert!(permit.begin());
            Ok(permit)
        }

        /// Returns as many busy connections as the client gets.
        fn fill(&self, from: &str) -> Vec<ClientConnectionPermit> {
            std::iter::from_fn(|| self.connect_busy(from).ok()).collect()
        }

        fn tallies(&self) -> (u64, [u64; 2], [u64; 2]) {
            let BudgetTallies { held, refused } = self.limiter.tallies();
            (held, refused, self.limiter.reclaimed())
        }
    }

    fn is_reclaimed(permit: &ClientConnectionPermit) -> bool {
        let context = Context::from_waker(std::task::Waker::noop());
        permit.poll_reclaimed(&context).is_ready()
    }

    /// Goal: a permit is taken once and released on every path. Method: the maximum is two, and both are busy; the third is counted as
    /// rejected and leaves nothing behind.
    #[test]
    fn the_connection_too_many_is_refused_and_leaves_nothing() {
        let room = Room::new("[server]\nmax_connections = 2");
        let one = room.connect_busy("192.0.2.1").unwrap();
        let other = room.connect_busy("192.0.2.2").unwrap();
        assert_eq!(room.connect("192.0.2.3").unwrap_err(), BudgetCap::All);
        assert_eq!(room.tallies(), (2, [1, 0], [0, 0]));
        drop((one, other));
        assert_eq!(room.tallies().0, 0);
        assert!(room.connect("192.0.2.3").is_ok());
    }

    /// Goal: one client leaves room for others, whatever they hold. Method: clients that take what they get, one after the other.
    #[test]
    fn a_client_has_as_many_connections_as_are_left() {
        let room = Room::new("[server]\nmax_connections = 16");
        let kept = ["192.0.2.1", "2001:db8::1", "192.0.2.3"].map(|from| room.fill(from));
        assert_eq!(kept.each_ref().map(Vec::len), [8, 4, 2]);
        assert_eq!(room.connect("192.0.2.1").unwrap_err(), BudgetCap::Client);
        drop(kept);
        assert_eq!(room.tallies().0, 0);
    }

    /// Goal: a configured maximum of one client applies to an address and to an IPv6 /64, not to a trusted proxy, and no place of others is
    /// taken beyond it. Method: the maximum of each is two; the third of an address and of a network are rejected, though others idle.
    #[test]
    fn a_client_has_its_maximum_and_a_trusted_proxy_no_bound() {
        let room = Room::new(
            "[server]\nmax_connections_per_client = 2\n[client]\ntrusted_proxies = [\"10.0.0.0/8\"]",
        );
        let mut kept = Vec::new();
        for from in [
            "192.0.2.1",
            "192.0.2.1",
            "192.0.2.2",
            "2001:db8::1",
            "2001:db8::2",
        ] {
            kept.push(room.connect(from).unwrap());
        }
        for from in ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::3"] {
            assert_eq!(room.connect(from).unwrap_err(), BudgetCap::Client, "{from}");
        }
        kept.extend((0..5).map(|_| room.connect("10.1.2.3").unwrap()));
        kept.clear();
        assert_eq!(room.tallies(), (0, [0, 3], [0, 0]));
        assert!(room.connect("192.0.2.1").is_ok());
    }

    /// Goal: a permit after a PROXY header counts for its client, not for its sender. Method: the same permit belongs to one
    /// after the other.
    #[test]
    fn a_permit_moves_to_another_client() {
        let room = Room::new("[server]\nmax_connections_per_client = 1");
        let defence = &room.rules.server.defence;
        let account = |from: &str| {
            room.accounts
                .find(from.parse().unwrap(), &room.rules.client)
        };
        let first = account("192.0.2.1");
        let second = account("192.0.2.2");
        let place = room.limiter.enter(None, defence).unwrap();
        let next = room.limiter.enter(None, defence).unwrap();
        assert_eq!(place.belongs_to(&first, defence), Ok(()));
        assert_eq!(place.belongs_to(&second, defence), Ok(()));
        assert_eq!(next.belongs_to(&first, defence), Ok(()));
        // Nor does the permit count against itself.
        assert_eq!(next.belongs_to(&first, defence), Ok(()));
    }

    /// Goal: at the maximum the client that holds most loses the connection that has waited longest, and none that carries a request.
    /// Method: a client with four of six, the oldest of which is busy, and two with one each; new clients, until only busy ones are left.
    #[test]
    fn the_connection_that_waits_longest_of_the_client_with_most_is_closed() {
        let room = Room::new("[server]\nmax_connections = 6\nmax_connections_per_client = 5");
        let alone = room.connect("192.0.2.1").unwrap();
        let flood: Vec<_> = (0..4).map(|_| room.connect("192.0.2.2").unwrap()).collect();
        assert!(flood[0].begin());
        let other = room.connect("2001:db8::1").unwrap();
        let late = room.connect("192.0.2.3").unwrap();
        let closed = || flood.iter().map(is_reclaimed).collect::<Vec<_>>();
        assert_eq!(closed(), [false, true, false, false]);
        assert!(!flood[1].begin() && late.begin());
        // Its last request ends, so it waits behind the others.
        flood[0].wait();
        let later = room.connect_busy("192.0.2.3").unwrap();
        assert_eq!(closed(), [false, true, true, false]);
        assert!(other.begin() && flood[3].begin() && flood[0].begin());
        // A client takes the places of those that hold more than it does.
        assert_eq!(room.connect("192.0.2.3").unwrap_err(), BudgetCap::All);
        let last = room.connect_busy("192.0.2.4").unwrap();
        assert!(is_reclaimed(&alone));
        assert_eq!(room.connect("192.0.2.5").unwrap_err(), BudgetCap::All);
        assert_eq!(room.tallies(), (6, [2, 0], [3, 0]));
        drop((flood, alone, other, late, later, last));
        assert_eq!(room.tallies().0, 0);
        assert_eq!(room.limiter.closing.load(Ordering::Relaxed), 0);
    }

    /// Goal: a head that is not whole is closed after connections of its client that wait for one, the oldest first. Method: a client with
    /// three, of which two have a part of a head, and one with one.
    #[test]
    fn a_head_that_is_not_whole_is_closed_last() {
        let room = Room::new("[server]\nmax_connections = 4\nmax_connections_per_client = 3");
        let now = sluicegate_base::clock::now();
        let late = now.saturating_sub(std::time::Duration::from_secs(2));
        let drips: Vec<_> = (0..3).map(|_| room.connect("192.0.2.1").unwrap()).collect();
        drips[0].wait_for_rest(late);
        drips[1].wait_for_rest(now);
        let idle = room.connect("192.0.2.2").unwrap();
        let mut kept = Vec::new();
        for expected in [[false, false, true], [true, false, true]] {
            kept.push(room.connect_busy("192.0.2.3").unwrap());
            assert_eq!(drips.iter().map(is_reclaimed).collect::<Vec<_>>(), expected);
        }
        kept.push(room.connect_busy("192.0.2.4").unwrap());
        assert!(is_reclaimed(&idle));
        kept.push(room.connect_busy("192.0.2.5").unwrap());
        assert!(is_reclaimed(&drips[1]));
        assert_eq!(room.limiter.reclaimed(), [2, 2]);
    }

    /// Goal: the networks of one customer have the share of four clients, and lose places first. Method: 1,024 networks of a /48, one
    /// connection each, beside a lone client and a neighbor; then new clients.
    #[test]
    fn the_networks_of_a_customer_are_few_clients() {
        let room = Room::new("[server]\nmax_connections = 400");
        let alone = room.connect("192.0.2.1").unwrap();
        let neighbor = room.connect("2001:db8:1::1").unwrap();
        let mut flood = Vec::new();
        for network in (0..0x1_0000).step_by(64) {
            flood.extend(room.connect(&format!("2001:db8:0:{network:x}::1")));
            flood.retain(|permit| !is_reclaimed(permit));
        }
        assert_eq!(flood.len(), 318);
        let mut others = Vec::new();
        for client in 2..200 {
            others.push(room.connect_busy(&format!("192.0.2.{client}")).unwrap());
            flood.retain(|permit| !is_reclaimed(permit));
        }
        assert!(!is_reclaimed(&alone) && !is_reclaimed(&neighbor));
        assert_eq!((flood.len(), room.tallies().0), (200, 400));
    }

    /// Goal: no interleaving loses a place or a permit. Method: threads that connect, wait, begin and close at a maximum that they exceed.
    #[test]
    fn no_interleaving_loses_a_place() {
        let room = Room::new("[server]\nmax_connections = 8");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let room = &room;
                scope.spawn(move || {
                    let mut kept = std::collections::VecDeque::new();
                    for turn in 0..3_000 {
                        let from = format!("192.0.2.{}", (turn + thread) % 7);
                        kept.extend(room.connect(&from));
                        assert!(room.tallies().0 <= 8 + 4);
                        if let Some(permit) = kept.front().filter(|permit| permit.begin()) {
                            permit.wait();
                        }
                        if kept.len() > 3 {
                            kept.pop_front();
                        }
                    }
                });
            }
        });
        assert_eq!(room.tallies().0, 0);
        assert_eq!(room.limiter.closing.load(Ordering::Relaxed), 0);
    }
}
