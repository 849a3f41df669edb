//! Registers the open connections of clients, and finds the one that is closed so that a new one gets in.
//!
//! A connection that waits for a request, and holds none, can be closed: the next request takes another connection. Between clients the one
//! that holds most loses a connection first, so that a flood closes its own connections and not those of clients that have few; between
//! its connections the one that has waited longest. A connection whose head is not whole is closed after those of its client that wait for
//! one. Connections whose PROXY header may still come count as those of one client; one that has sent none for a second goes first of all.
//!
//! Waiting is a word of each connection: a request costs two stores, and no list is kept in order. A search looks at no more than
//! [`EXAMINED_CONNECTIONS`]. As long as there are fewer the order is exact; of more a part stands for all, since a client that holds many
//! has some in every part.
//!
//! # Concurrency
//! The connections lie in shards, each under a lock. A connection ends its wait, or it is closed: both are one transition of its word. The
//! permit of a connection that is closed is taken from it at once, before its thread closes the socket.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use sluicegate_base::bounds::{CONNECTION_SHARDS, EXAMINED_CONNECTIONS};
use sluicegate_base::clock;
use sluicegate_limiter::Timestamp;

use super::client_accounts::{AccountCharge, ClientAccount, LEVELS, Resource};

/// The time in which a PROXY header comes: load balancers send it at once.
const ARRIVAL: Duration = Duration::from_secs(1);

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum ConnectionPhase {
    /// It carries a request, or another protocol.
    Busy,
    /// It waits for the first byte of a request.
    Idle,
    /// It waits for the rest of a head, or of a handshake.
    Partial,
    /// It is closed for another one.
    Reclaimed,
}

/// The kinds of connections that are closed for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimedWait {
    /// For the first byte of a request.
    Idle,
    /// For the rest of a head, or of a handshake.
    Partial,
}

/// The phase of a connection, and the time of its beginning, in one word: the last bits of the nanoseconds are the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConnectionActivity(u64);

/// The place that an open connection has in the maximum numbers.
#[derive(Debug)]
pub(super) struct ConnectionPlace {
    /// The charge of its client; `None` before a PROXY header names the client.
    pub(super) of_client: Option<AccountCharge>,
}

/// A connection that was closed for another one.
#[derive(Debug)]
pub(super) struct ReclaimedConnection {
    pub(super) wait: ReclaimedWait,
    /// `None` where its end has returned it.
    pub(super) place: Option<ConnectionPlace>,
}

/// One open connection.
#[derive(Debug)]
pub(super) struct RegisteredConnection {
    activity: AtomicU64,
    /// `None` once it is reclaimed.
    place: Mutex<Option<ConnectionPlace>>,
    reclaimed: AtomicWaker,
    shard: usize,
    /// Its index in the shard, under whose lock it changes.
    index: AtomicUsize,
}

/// The open connections.
#[derive(Debug, Default)]
pub(super) struct OpenConnections {
    shards: [Mutex<Vec<Arc<RegisteredConnection>>>; CONNECTION_SHARDS],
    /// The number of connections that were registered.
    registered: AtomicUsize,
    /// The number of searches.
    searches: AtomicUsize,
}

/// A connection that may be closed, and what was seen of it.
struct ReclaimCandidate {
    rank: CandidateRank,
    connection: Arc<RegisteredConnection>,
    seen: ConnectionActivity,
}

/// The first candidates of a search, and the numbers of the connections that it saw.
#[derive(Default)]
struct FoundCandidates {
    /// The first one of a client, or with a PROXY header that is late.
    of_clients: Option<ReclaimCandidate>,
    /// The first one with a PROXY header that may still come.
    unnamed: Option<ReclaimCandidate>,
    /// The examined connections with a PROXY header that may still come.
    unnamed_count: u64,
    examined: u64,
    /// The shards of the examined connections, and all connections in them.
    shards: u64,
    in_shards: u64,
}

/// The load by which a candidate is ranked.
enum CandidateLoad {
    /// The connections of its client, and of the networks around it.
    OfClient([u64; LEVELS]),
    /// The number of connections with a PROXY header that may still come, which a search counts.
    OfUnnamed,
}

/// The order in which connections are closed, the greatest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CandidateRank {
    /// The connections of its client, and of the networks around it; for one without a client the number of such connections.
    load: [u64; LEVELS],
    is_idle: bool,
    since: Reverse<Timestamp>,
}

impl ReclaimedWait {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Idle, Self::Partial];

    /// Returns its name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Partial => "partial",
        }
    }
}

impl ConnectionActivity {
    const PHASES: u64 = 3;
    const BUSY: Self = Self(ConnectionPhase::Busy as u64);
    const RECLAIMED: Self = Self(ConnectionPhase::Reclaimed as u64);

    fn new(phase: ConnectionPhase, since: Timestamp) -> Self {
        Self((since.as_nanos() & !Self::PHASES) | phase as u64)
    }

    fn phase(self) -> ConnectionPhase {
        match self.0 & Self::PHASES {
            0 => ConnectionPhase::Busy,
            1 => ConnectionPhase::Idle,
            2 => ConnectionPhase::Partial,
            _ => ConnectionPhase::Reclaimed,
        }
    }

    fn since(self) -> Timestamp {
        Timestamp::from_nanos(self.0 & !Self::PHASES)
    }

    /// Returns the kind of its wait; `None` where it does not wait.
    fn wait(self) -> Option<ReclaimedWait> {
        match self.phase() {
            ConnectionPhase::Idle => Some(ReclaimedWait::Idle),
            ConnectionPhase::Partial => Some(ReclaimedWait::Partial),
            ConnectionPhase::Busy | ConnectionPhase::Reclaimed => None,
        }
    }
}

impl RegisteredConnection {
    /// Notes that it waits for the first byte of a request, from now on if it did not before.
    pub(super) fn wait(&self) {
        self.change(|now| match now.phase() {
            ConnectionPhase::Busy | ConnectionPhase::Partial => {
                Some(ConnectionActivity::new(ConnectionPhase::Idle, clock::now()))
            }
            ConnectionPhase::Idle | ConnectionPhase::Reclaimed => None,
        });
    }

    /// Notes that it waits for the rest of a head, or of a handshake, that began at `since`.
    pub(super) fn wait_for_rest(&self, since: Timestamp) {
        self.change(|now| match now.phase() {
            ConnectionPhase::Busy | ConnectionPhase::Idle => {
                Some(ConnectionActivity::new(ConnectionPhase::Partial, since))
            }
            ConnectionPhase::Partial | ConnectionPhase::Reclaimed => None,
        });
    }

    /// Notes that it carries a request. Returns false where it was closed before.
    #[must_use]
    pub(super) fn begin(&self) -> bool {
        self.change(|now| match now.phase() {
            ConnectionPhase::Idle | ConnectionPhase::Partial => Some(ConnectionActivity::BUSY),
            ConnectionPhase::Busy | ConnectionPhase::Reclaimed => None,
        });
        self.activity().phase() != ConnectionPhase::Reclaimed
    }

    /// Completes when it is closed for another one.
    pub(super) fn poll_reclaimed(&self, context: &Context<'_>) -> Poll<()> {
        self.reclaimed.register(context.waker());
        match self.activity().phase() {
            ConnectionPhase::Reclaimed => Poll::Ready(()),
            ConnectionPhase::Busy | ConnectionPhase::Idle | ConnectionPhase::Partial => {
                Poll::Pending
            }
        }
    }

    /// Returns its place, if it has one.
    pub(super) fn place(&self) -> MutexGuard<'_, Option<ConnectionPlace>> {
        // Nothing panics under the lock.
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn activity(&self) -> ConnectionActivity {
        // Relaxed, here and below: the word is the only fact; the waker orders itself.
        ConnectionActivity(self.activity.load(Ordering::Relaxed))
    }

    fn change(&self, next: impl Fn(ConnectionActivity) -> Option<ConnectionActivity>) {
        let next = |now| next(ConnectionActivity(now)).map(|next| next.0);
        // A phase that stays as it is, is no error.
        let _ = (self.activity).fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

impl ReclaimCandidate {
    /// Closes the connection, if it still waits as it was seen to.
    fn reclaim(self) -> Option<ReclaimedConnection> {
        let wait = self.seen.wait()?;
        let closed = ConnectionActivity::RECLAIMED.0;
        let activity = &self.connection.activity;
        (activity.compare_exchange(self.seen.0, closed, Ordering::Relaxed, Ordering::Relaxed))
            .ok()?;
        let place = self.connection.place().take();
        self.connection.reclaimed.wake();
        Some(ReclaimedConnection { wait, place })
    }
}

impl OpenConnections {
    /// Registers a connection that waits for its first byte.
    pub(super) fn register(&self, place: ConnectionPlace) -> Arc<RegisteredConnection> {
        let shard = self.registered.fetch_add(1, Ordering::Relaxed) % CONNECTION_SHARDS;
        let mut connections = self.shard(shard);
        let connection = Arc::new(RegisteredConnection {
            activity: AtomicU64::new(
                ConnectionActivity::new(ConnectionPhase::Idle, clock::now()).0,
            ),
            place: Mutex::new(Some(place)),
            reclaimed: AtomicWaker::new(),
            shard,
            index: AtomicUsize::new(connections.len()),
        });
        connections.push(Arc::clone(&connection));
        connection
    }

    /// Removes a connection that has ended. Returns whether it was reclaimed before.
    pub(super) fn remove(&self, connection: &RegisteredConnection) -> bool {
        let mut connections = self.shard(connection.shard);
        let index = connection.index.load(Ordering::Relaxed);
        connections.swap_remove(index);
        if let Some(moved) = connections.get(index) {
            moved.index.store(index, Ordering::Relaxed);
        }
        if connections.len() < connections.capacity() / 4 {
            connections.shrink_to_fit();
        }
        // From here on no search closes it.
        let last = (connection.activity).swap(ConnectionActivity::RECLAIMED.0, Ordering::Relaxed);
        ConnectionActivity(last).phase() == ConnectionPhase::Reclaimed
    }

    /// Closes the connection that is to make room for one of the client with this account, or of a client that is not known yet. Returns
    /// it; `None` where there is none.
    pub(super) fn reclaim(&self, account: Option<&ClientAccount>) -> Option<ReclaimedConnection> {
        // A connection may get its request meanwhile.
        (0..3).find_map(|_| self.find(account, clock::now())?.reclaim())
    }

    /// Returns the first connection to close of those that are examined.
    fn find(&self, account: Option<&ClientAccount>, now: Timestamp) -> Option<ReclaimCandidate> {
        let search = self.searches.fetch_add(1, Ordering::Relaxed);
        let mut left = EXAMINED_CONNECTIONS;
        let mut found = FoundCandidates::default();
        for shard in 0..CONNECTION_SHARDS {
            let connections = self.shard((search + shard) % CONNECTION_SHARDS);
            let examined = connections.len().min(left);
            left -= examined;
            found.shards += 1;
            found.in_shards += connections.len() as u64;
            // Further searches begin at other places.
            let begin =
                (search / CONNECTION_SHARDS * EXAMINED_CONNECTIONS) % connections.len().max(1);
            let (before, behind) = connections.split_at(begin);
            for connection in behind.iter().chain(before).take(examined) {
                found.examine(connection, account, now);
            }
            if left == 0 {
                break;
            }
        }
        found.first(account)
    }

    fn shard(&self, shard: usize) -> MutexGuard<'_, Vec<Arc<RegisteredConnection>>> {
        // Nothing panics under the lock.
        (self.shards[shard].lock()).unwrap_or_else(PoisonError::into_inner)
    }
}

impl FoundCandidates {
    /// Examines a connection that may make room for one of the client with this account.
    fn examine(
        &mut self,
        connection: &Arc<RegisteredConnection>,
        account: Option<&ClientAccount>,
        now: Timestamp,
    ) {
        self.examined += 1;
        let seen = connection.activity();
        let Some(wait) = seen.wait() else {
            return;
        };
        let waited = now.saturating_since(seen.since());
        let load = (connection.place().as_ref()).and_then(|place| place.load(waited, account));
        let Some(load) = load else {
            return;
        };
        let (first, load) = match load {
            CandidateLoad::OfClient(load) => (&mut self.of_clients, load),
            CandidateLoad::OfUnnamed => {
                self.unnamed_count += 1;
                (&mut self.unnamed, [0; LEVELS])
            }
        };
        let rank = CandidateRank {
            load,
            is_idle: wait == ReclaimedWait::Idle,
            since: Reverse(seen.since()),
        };
        if first.as_ref().is_none_or(|first| first.rank < rank) {
            let connection = Arc::clone(connection);
            *first = Some(ReclaimCandidate {
                rank,
                connection,
                seen,
            });
        }
    }

    /// Returns the first connection to close for one of the client with this account.
    fn first(self, account: Option<&ClientAccount>) -> Option<ReclaimCandidate> {
        let unnamed = self.unnamed_in_all();
        // As between two clients: they make room for one that holds less.
        let makes_room =
            account.is_none_or(|account| unnamed > account.load(Resource::Connections)[0]);
        let first_unnamed = self.unnamed.filter(|_| makes_room);
        let first_unnamed = first_unnamed.map(|mut candidate| {
            candidate.rank.load = [unnamed; LEVELS];
            candidate
        });
        let both = self.of_clients.into_iter().chain(first_unnamed);
        both.max_by_key(|candidate| candidate.rank)
    }

    /// Returns the number of connections with a PROXY header that may still come: of more connections than are examined a part stands for
    /// all.
    fn unnamed_in_all(&self) -> u64 {
        let open = self.in_shards * CONNECTION_SHARDS as u64 / self.shards.max(1);
        self.unnamed_count * open / self.examined.max(1)
    }
}

impl ConnectionPlace {
    /// Returns the load by which its connection, which has `waited` for so long, is ranked; `None` where it does not make room for one of
    /// this client.
    fn load(&self, waited: Duration, account: Option<&ClientAccount>) -> Option<CandidateLoad> {
        let own = match &self.of_client {
            Some(charge) => charge.account(),
            None if waited < ARRIVAL => return Some(CandidateLoad::OfUnnamed),
            // It says who its client is in time.
            None => return Some(CandidateLoad::OfClient([u64::MAX; LEVELS])),
        };
        let makes_room = |account| own.makes_room_for(account, Resource::Connections);
        (account.is_none_or(makes_room))
            .then(|| CandidateLoad::OfClient(own.load(Resource::Connections)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ClientAccounts;
    use super::*;
    use sluicegate_config::{no_review, parse};

    /// Registers a connection of the client with this account, or one without a PROXY header.
    fn register(open: &OpenConnections, account: Option<&ClientAccount>) {
        let charge = |account: &ClientAccount| account.charge(Resource::Connections, 1, |_| true);
        open.register(ConnectionPlace {
            of_client: account.and_then(charge),
        });
    }

    /// Goal: a flood of connections without a PROXY header closes its own connections first, for new ones of the flood and for those of
    /// clients; fewer of them than a client holds do not make room for it, but late ones do. Method: clients with two connections each, the
    /// oldest of all; one connection without a header, more than the clients have, and more than are examined.
    #[test]
    fn connections_without_a_proxy_header_count_as_one_client() {
        let text = "[[listener]]\naddress = \"127.0.0.1:1\"\n[[route]]\npath = \"/*\"\nrespond = { status = 200, body = \"\" }\n";
        let rules = parse("test.toml", text, no_review).unwrap().rules;
        let accounts = ClientAccounts::default();
        let find = |from: &str| accounts.find(from.parse().unwrap(), &rules.client);
        for flood in [1, 40, 4 * EXAMINED_CONNECTIONS] {
            let open = OpenConnections::default();
            let clients = ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(&find);
            let begin = clock::now();
            for client in clients.iter().chain(&clients) {
                register(&open, Some(client));
            }
            for _ in 0..flood {
                register(&open, None);
            }
            let closes_client = |account, now| {
                let first = open.find(account, now).unwrap();
                let place = first.reclaim().unwrap().place.unwrap();
                place.of_client.is_some()
            };
            for _ in 0..if flood == 1 { 1 } else { 10 } {
                assert_eq!(closes_client(None, begin), flood == 1);
                assert_eq!(closes_client(Some(&clients[2]), begin), flood == 1);
            }
            let late = begin.saturating_add(2 * ARRIVAL);
            assert!(!closes_client(Some(&clients[0]), late));
        }
    }
}
