//! Owns the servers of one origin, and picks one of them for each request.
//!
//! Primaries come before backups, and servers that have not failed the request before those that have. [`ServerTier::choose`] picks among
//! equals. Servers may come and go while the pool serves: the whole set is replaced, and each server that stays keeps its [`ServerState`].
//!
//! # Concurrency
//! Requests load the set and never wait. Only the task that looks up names replaces it.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::uri::Scheme;
use pingora::upstreams::peer::Peer;
use sluicegate_base::address::{AddressPrefix, PrefixBits, prefix};
use sluicegate_base::bounds::{ORIGIN_STREAMS, POOL_SERVERS, RESOLVE_AGAIN, SERVER_REQUESTS};
use sluicegate_limiter::Timestamp;
use tracing::warn;

use super::adaptive_limit::{HeavyClients, LimitRefusal, ServerLimit};
use super::balancer::{PickContext, ServerTier};
use super::client_counts::ClientTag;
use super::dialer;
use super::due_time::DueTime;
use super::failure::AttemptFailure;
use super::failure_log::FailureLog;
use super::idle::PoolGeneration;
use super::latency::OriginLatency;
use super::peer::{group_of, peer};
use super::pending_queue::{AttemptWait, OriginQueues, PendingQueue};
use super::retry_budget::RetryBudget;
use super::server::{OriginServer, ServerPermit, point};
use super::server_state::{ServerState, ServerStatus};
use crate::admission::{KeySeed, RequestFacts};
use crate::budgets::OriginShare;
use crate::config::rules::{Balance, Name, OriginRules, OutlierDetectionRules, Protocol, Role};
use crate::failure::FailureKind;

/// The networks by which an adaptive limit counts clients: what a provider gives to one customer or less.
const CLIENT_NETWORK: PrefixBits = PrefixBits { v4: 24, v6: 56 };

/// The servers of one `[origin.NAME]`. A reload that leaves its rules alone keeps the pool; where they changed, the remaining servers keep
/// their state.
pub struct ServerPool {
    /// The name of the origin.
    pub name: Name,
    /// The rules of the origin.
    pub rules: OriginRules,
    /// The retry budget.
    pub budget: Arc<RetryBudget>,
    /// The queue of requests for its servers; `None` where the servers have no bound.
    pub queue: Option<Arc<PendingQueue>>,
    /// This queue and those of earlier configurations.
    queues: Arc<OriginQueues>,
    servers: ArcSwap<ServerSet>,
    generation: PoolGeneration,
    /// The seed of the values of sticky cookies.
    seed: KeySeed,
    turn: AtomicU64,
    /// Locked during an ejection, so that two concurrent ones cannot exceed the bound on ejected servers.
    ejecting: Mutex<()>,
    /// The times of its servers' answers.
    pub latency: Arc<OriginLatency>,
    /// The part of the requests in flight that are on their way to it.
    pub share: Arc<OriginShare>,
    /// Failures of requests that are not a server's.
    pub failures: FailureLog,
    /// Number of names whose latest look-up failed.
    pub(super) unresolved: AtomicUsize,
    pub(super) check_due: DueTime,
    pub(super) lookup_due: DueTime,
    pub(super) budget_due: DueTime,
}

/// The servers of a pool at one time.
#[derive(Default)]
struct ServerSet {
    primaries: ServerTier,
    backups: ServerTier,
}

/// The input of a pick. Owns all its values, so that a request can wait with it.
#[derive(Clone, Debug, Default)]
pub struct PickRequest {
    /// The time of the pick.
    pub now: Timestamp,
    /// Servers that failed the request already.
    pub failed: FailedServers,
    /// The result of [`ServerPool::client_tag`] for the request.
    pub client: ClientTag,
    /// The result of [`ServerPool::spread`] for the request.
    pub spread: Option<u64>,
    /// The tag that the client's sticky cookie has.
    pub sticky: Option<u64>,
}

/// Servers that failed one request: at most one for each of its attempts. Most requests have none, and pay for no room.
pub type FailedServers = Vec<SocketAddr>;

/// The result of a pick.
#[derive(Debug)]
pub enum PickResult {
    /// A permit at a server.
    Server(ServerPermit),
    /// Servers are in service, but at their bound on requests.
    Full,
    /// No server is in service.
    None,
}

impl ServerPool {
    /// Returns a pool whose servers all count as healthy until a check fails. It takes over the state of servers that remain
    /// from `before`, a pool of the same name.
    #[must_use]
    pub fn new(
        name: Name,
        rules: OriginRules,
        seed: &KeySeed,
        before: Option<&Self>,
        now: Timestamp,
    ) -> Self {
        let kept = before.filter(|before| before.rules.retry == rules.retry);
        let budget = kept.map_or_else(
            || Arc::new(RetryBudget::new(rules.retry.as_ref())),
            |before| Arc::clone(&before.budget),
        );
        let queues = before.map_or_else(Arc::default, |before| Arc::clone(&before.queues));
        let kept = before.and_then(|before| before.queue.as_ref());
        let queue = rules.circuit_breaker.map(|circuit| match kept {
            Some(queue) if queue.rules == circuit => Arc::clone(queue),
            _ => queues.add(circuit),
        });
        let addresses: Vec<Vec<SocketAddr>> = rules
            .servers
            .iter()
            .map(|entry| entry.addresses.clone())
            .collect();
        let unresolved = rules.servers.iter().filter(|entry| entry.is_unknown());
        let unresolved = unresolved.count();
        let look_up_after = match unresolved {
            // The names were resolved when the configuration was read.
            0 => rules.resolve_every,
            _ => rules.resolve_every.min(RESOLVE_AGAIN),
        };
        let pool = Self {
            name,
            budget,
            queue,
            queues,
            servers: ArcSwap::default(),
            generation: before
                .map_or_else(PoolGeneration::default, |before| before.generation.next()),
            seed: seed.clone(),
            turn: AtomicU64::new(0),
            ejecting: Mutex::new(()),
            latency: before.map_or_else(Arc::default, |before| Arc::clone(&before.latency)),
            share: before.map_or_else(Arc::default, |before| Arc::clone(&before.share)),
            failures: FailureLog::default(),
            check_due: DueTime::default(),
            unresolved: AtomicUsize::new(unresolved),
            lookup_due: DueTime::at(now.saturating_add(look_up_after)),
            budget_due: DueTime::default(),
            rules,
        };
        let known = before.map_or_else(Vec::new, Self::servers);
        let new_state = || match before {
            // At the start of the gateway the history of no server is known, so none needs a slow start.
            None => ServerState::default(),
            Some(_) => ServerState::new_at(now),
        };
        pool.assemble(&addresses, &known, new_state);
        pool
    }

    /// Replaces the servers by those at `addresses`: those in `known` keep their state.
    pub(super) fn assemble(
        &self,
        addresses: &[Vec<SocketAddr>],
        known: &[Arc<OriginServer>],
        new_state: impl Fn() -> ServerState,
    ) {
        let mut all: Vec<Arc<OriginServer>> = Vec::new();
        let mut left_out = 0;
        for (entry, addresses) in addresses.iter().enumerate() {
            for address in addresses {
                if all.iter().any(|server| server.address == *address) {
                    continue;
                }
                if all.len() == POOL_SERVERS {
                    left_out += 1;
                    continue;
                }
                let same = known.iter().find(|server| server.address == *address);
                let server_state = same.map_or_else(
                    || Arc::new(new_state()),
                    |server| Arc::clone(&server.server_state),
                );
                all.extend(self.server(*address, entry, server_state).map(Arc::new));
            }
        }
        for server in known {
            if !all.iter().any(|kept| kept.address == server.address) {
                server.server_state.accept_only(None, self.generation);
            }
        }
        if left_out > 0 {
            warn!(
                "origin {}: it has more than {POOL_SERVERS} servers, {left_out} are left out",
                self.name
            );
        }
        let (primaries, backups) = all
            .into_iter()
            .partition(|server| server.role == Role::Primary);
        self.servers.store(Arc::new(ServerSet {
            primaries: ServerTier::new(primaries),
            backups: ServerTier::new(backups),
        }));
    }

    fn server(
        &self,
        address: SocketAddr,
        entry: usize,
        server_state: Arc<ServerState>,
    ) -> Option<OriginServer> {
        let rules = self.rules.servers.get(entry)?;
        let tag = || {
            let text = address.to_string();
            let parts: [&[u8]; 3] = [b"sticky", self.name.as_bytes(), text.as_bytes()];
            self.seed.tag(parts)
        };
        let mut peer = peer(address, Some(rules), &self.rules);
        let most = self
            .rules
            .circuit_breaker
            .and_then(|circuit| circuit.max_connections);
        let connections = most.map(|most| {
            // Connections that are counted here are of no use to another origin, which would not count them.
            peer.group_key = group_of(&self.name, peer.group_key);
            dialer::bound(&mut peer, &server_state.connections, most, &self.queues);
            server_state.connections.relieve();
            Arc::clone(&server_state.connections)
        });
        let heavy = match &self.rules.circuit_breaker {
            Some(circuit) if circuit.max_pending > 0 => HeavyClients::Queued,
            _ => HeavyClients::Rejected,
        };
        let adaptive = self.rules.adaptive_concurrency.map(|rules| ServerLimit {
            rules,
            limit: server_state.adaptive_limit(&rules),
            heavy,
        });
        let reuse_key = peer.reuse_hash();
        server_state.accept_only(Some(reuse_key), self.generation);
        Some(OriginServer {
            address,
            server_state,
            role: rules.role,
            weight: rules.weight,
            entry,
            point: point(address),
            tag: self.rules.sticky.is_some().then(tag),
            queue: self.queue.clone(),
            queues: Arc::clone(&self.queues),
            slow_start: self.rules.slow_start,
            places: places(&self.rules),
            adaptive,
            connections,
            peer,
            protocol: self.rules.transport.protocol,
            reuse_key,
        })
    }

    /// Returns every server, in service or not: primaries, then backups.
    #[must_use]
    pub fn servers(&self) -> Vec<Arc<OriginServer>> {
        let set = self.servers.load();
        set.all().cloned().collect()
    }

    /// Returns the number of names whose latest look-up failed.
    #[must_use]
    pub fn unresolved(&self) -> usize {
        // Relaxed, like the store of this number: it is only shown, and publishes nothing.
        self.unresolved.load(Ordering::Relaxed)
    }

    /// Explains why no server is in service: the number of servers, and how many have which status.
    #[must_use]
    pub fn why_no_server(&self, now: Timestamp) -> (FailureKind, String) {
        let servers = self.servers();
        if servers.is_empty() {
            let names = self
                .rules
                .servers
                .iter()
                .filter_map(|entry| entry.name.as_deref());
            let names: Vec<&str> = names.collect();
            let reason = format!("no address is known of {}", names.join(", "));
            return (FailureKind::Resolve, reason);
        }
        let mut reason = format!("of {} servers", servers.len());
        for state in [
            ServerStatus::Down,
            ServerStatus::Ejected,
            ServerStatus::Draining,
        ] {
            let count = servers
                .iter()
                .filter(|server| server.state(now) == state)
                .count();
            if count > 0 {
                reason.push_str(&format!(", {count} {}", state.as_str()));
            }
        }
        (FailureKind::NoServer, reason)
    }

    /// Returns how many descriptors a request may need on its way to a server: where connections are counted, each has a
    /// duplicate.
    #[must_use]
    pub fn files_of_connection(&self) -> u64 {
        if self.bounds_connections() { 2 } else { 1 }
    }

    /// Returns the scheme of its connections.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        match self.rules.transport.tls {
            Some(_) => Scheme::HTTPS,
            None => Scheme::HTTP,
        }
    }

    /// Closes the idle connections, because the origin is removed.
    pub fn close_idle(&self) {
        for server in self.servers() {
            (server.server_state).accept_only(None, self.generation.next());
        }
    }

    /// Returns whether its servers have a bound on connections.
    pub(super) fn bounds_connections(&self) -> bool {
        self.rules
            .circuit_breaker
            .is_some_and(|circuit| circuit.max_connections.is_some())
    }

    /// Returns the hash that the request is spread by, where the balance uses a key; `None` where it does not, or the request lacks the
    /// value.
    #[must_use]
    pub fn spread<'a>(&self, facts: impl FnOnce() -> RequestFacts<'a>) -> Option<u64> {
        match &self.rules.balance {
            Balance::Hash(key) => KeySeed::spread(key, &facts()),
            _ => None,
        }
    }

    /// Returns the tag of the client at `address`: its network, in which many addresses are as easy to get as one. Only an adaptive limit
    /// counts by it.
    #[must_use]
    pub fn client_tag(&self, address: IpAddr) -> ClientTag {
        if self.rules.adaptive_concurrency.is_none() {
            return ClientTag::default();
        }
        let network = prefix(address, CLIENT_NETWORK);
        ClientTag(self.seed.tag([b"network", network.as_bytes()]))
    }

    /// Returns why the adaptive limits of all servers in service let no further request of `client` in; `None` where another bound is
    /// reached.
    #[must_use]
    pub fn limit_refusal(&self, client: ClientTag, now: Timestamp) -> Option<LimitRefusal> {
        let set = self.servers.load();
        let mut usable = set.all().filter(|server| server.is_usable(now));
        usable.find_map(|server| server.limit_refusal(client))
    }

    /// Picks a server for a new attempt, and takes a permit there.
    pub(super) fn choose(&self, request: &PickRequest) -> PickResult {
        if request.failed.is_empty() && self.rules.retry.is_some() {
            self.budget.earn();
        }
        match &self.queue {
            // This request does not overtake waiting ones.
            Some(queue) if queue.waiting() > 0 => PickResult::Full,
            _ => self.find(request),
        }
    }

    /// Waits for a permit at a server for a request of `client`; [`PickResult::Full`] where there is none at the end of the wait.
    /// `request` makes a new pick request for each try.
    pub(super) async fn wait(
        &self,
        wait: &mut AttemptWait,
        client: AddressPrefix,
        request: impl Fn() -> PickRequest,
    ) -> PickResult {
        match &self.queue {
            Some(queue) => {
                // Where connections are counted, the next request is woken when this one has its connection, so that they keep
                // their order.
                let has_room = || !self.bounds_connections() && self.has_room(request().now);
                queue
                    .wait(wait, client, has_room, || self.find(&request()))
                    .await
            }
            None => PickResult::Full,
        }
    }

    /// Wakes a waiting request, if there is a place for it.
    pub(super) fn wake(&self, now: Timestamp) {
        let waits = self.queue.as_ref().is_some_and(|queue| queue.waiting() > 0);
        if waits && self.has_room(now) {
            self.queues.wake();
        }
    }

    fn has_room(&self, now: Timestamp) -> bool {
        let set = self.servers.load();
        set.all()
            .any(|server| server.is_usable(now) && server.has_room(ClientTag::default()))
    }

    /// Picks a server as [`choose`](Self::choose) does, for a request that has waited already.
    pub(super) fn find(&self, request: &PickRequest) -> PickResult {
        let set = self.servers.load();
        let mut terms = PickContext {
            balance: &self.rules.balance,
            now: request.now,
            failed: &request.failed,
            client: request.client,
            spread: request.spread,
            turn: &self.turn,
        };
        if let Some(held) = request.sticky.and_then(|tag| set.tagged(tag, &terms)) {
            return PickResult::Server(held);
        }
        // A server that failed the request before is better than none: the network may have broken the connection.
        for failed in [&request.failed[..], &[]] {
            terms.failed = failed;
            for tier in [&set.primaries, &set.backups] {
                // A place that another request took leaves one server fewer to find, unless it is released meanwhile.
                for _ in 0..=tier.servers().len() {
                    let chosen = tier.choose(&terms);
                    match chosen.map(|server| server.hold(request.client, request.now)) {
                        Some(Some(held)) => return PickResult::Server(held),
                        Some(None) => {}
                        None => break,
                    }
                }
            }
            if request.failed.is_empty() {
                break;
            }
        }
        if set.all().any(|server| server.is_usable(request.now)) {
            PickResult::Full
        } else {
            PickResult::None
        }
    }

    /// Returns the tag of the server for the client's sticky cookie, where the origin has one.
    #[must_use]
    pub fn tag_of(&self, held: &ServerPermit) -> Option<u64> {
        held.server.tag
    }

    // ── outcomes of attempts ──

    /// Records a failed attempt. Ejects the server for a while after too many failures, if enough others remain.
    pub fn failed(&self, held: &mut ServerPermit, failure: AttemptFailure, now: Timestamp) {
        held.outcome = Some(failure.into());
        held.end_wait(failure, || now);
        let rules = self.rules.outlier_detection.as_ref();
        let counts = rules.filter(|rules| failure.is_among(&rules.on));
        let server_state = &held.server.server_state;
        if server_state.fail(failure, counts, now)
            && let Some(rules) = rules
        {
            self.eject(&held.server, rules, now);
        }
    }

    /// Records an attempt that was answered with this status.
    pub fn answered(
        &self,
        held: &mut ServerPermit,
        status: http::StatusCode,
        now: impl Fn() -> Timestamp,
    ) {
        let answer = AttemptFailure::Status(status.as_u16());
        let rules = self.rules.outlier_detection.as_ref();
        let counts = rules.is_some_and(|rules| answer.is_among(&rules.on));
        if counts || status.is_server_error() {
            self.failed(held, answer, now());
        } else {
            held.outcome = Some(answer.into());
            held.end_wait(answer, now);
        }
        if !counts {
            held.server.server_state.succeed();
        }
    }

    fn eject(&self, server: &OriginServer, rules: &OutlierDetectionRules, now: Timestamp) {
        // A caller that finds it locked gives up: the next failure tries again.
        let Ok(_ejecting) = self.ejecting.try_lock() else {
            return;
        };
        let set = self.servers.load();
        let tier = match server.role {
            Role::Primary => set.primaries.servers(),
            Role::Backup => set.backups.servers(),
        };
        let out = tier.iter().filter(|other| !other.is_usable(now)).count();
        let may_be_out = tier.len() * usize::from(rules.max_percent.0) / 100;
        if !server.is_usable(now) || out >= may_be_out {
            return;
        }
        let length = server.server_state.eject(rules, now);
        warn!(
            "origin {}: server {} failed {} requests in a row and is left alone for {} s",
            self.name,
            server.address,
            rules.consecutive_failures,
            length.as_secs_f64()
        );
    }

    /// Returns whether a request may be tried again that failed so after `attempts` attempts, so long after its decision; if so, counts
    /// a retry.
    #[must_use]
    pub fn grants_retry(
        &self,
        failure: AttemptFailure,
        attempts: u8,
        since: impl Fn() -> Duration,
    ) -> bool {
        if attempts > self.rules.retries {
            return false;
        }
        let Some(rules) = &self.rules.retry else {
            let granted = failure == AttemptFailure::Connect;
            if granted {
                self.budget.note();
            }
            return granted;
        };
        failure.is_among(&rules.on)
            && rules.deadline.is_none_or(|deadline| since() < deadline)
            && self.budget.spend()
    }
}

/// Returns the maximum number of requests in flight at a server: `max_requests`, and no more than `max_connections` can carry;
/// without either, the number of ports.
fn places(rules: &OriginRules) -> u32 {
    let each = match rules.transport.protocol {
        Protocol::Http1 => 1,
        // The maximum; a server that accepts fewer streams, or none, rejects the others.
        Protocol::H2 | Protocol::H2c | Protocol::Auto => ORIGIN_STREAMS as u32,
    };
    let carried = |connections: u32| connections.saturating_mul(each);
    let bounds = rules
        .circuit_breaker
        .map(|circuit| [circuit.max_requests, circuit.max_connections.map(carried)]);
    let bound = bounds.into_iter().flatten().flatten().min();
    bound.unwrap_or_else(|| carried(SERVER_REQUESTS))
}

impl ServerSet {
    fn all(&self) -> impl Iterator<Item = &Arc<OriginServer>> {
        let tiers = [&self.primaries, &self.backups];
        tiers.into_iter().flat_map(ServerTier::servers)
    }

    /// Takes a permit at the server that a sticky cookie names; `None` where that server is not in service, and the client gets
    /// another.
    fn tagged(&self, tag: u64, terms: &PickContext<'_>) -> Option<ServerPermit> {
        let server = self.all().find(|server| server.tag == Some(tag))?;
        let held = terms
            .takes(server)
            .then(|| server.hold(terms.client, terms.now));
        held?
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
pub(super) mod tests;
