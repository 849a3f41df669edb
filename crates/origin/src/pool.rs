//! Owns the servers of one origin, their queue, and what is known of the origin as a whole.
//!
//! Servers may come and go while the pool serves: the whole set is replaced ([`server_set`]). [`pick`] chooses a server for an attempt, and
//! [`attempt_end`] judges the server by the end of it.
//!
//! # Concurrency
//! Requests load the set and never wait. Only the task that looks up names replaces it.

mod attempt_end;
mod pick;
mod server_set;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use http::uri::Scheme;
use sluicegate_base::bounds::RESOLVE_AGAIN;
use sluicegate_limiter::Timestamp;

use super::due_time::DueTime;
use super::failure_log::FailureLog;
use super::idle::PoolGeneration;
use super::latency::OriginLatency;
use super::pending_queue::{OriginQueues, PendingQueue};
use super::retry_budget::RetryBudget;
use super::server::{OriginServer, ServerPermit};
use super::server_state::ServerState;
use super::server_status::ServerStatus;
use crate::request_failure::FailureKind;
use sluicegate_budgets::OriginShare;
use sluicegate_config::rules::{Name, OriginAddress, OriginRules};
use sluicegate_decide::admission::KeySeed;

use server_set::ServerSet;

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
    pub(super) reading_due: DueTime,
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
        let addresses: Vec<Vec<OriginAddress>> = rules
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
            reading_due: DueTime::default(),
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

    /// Returns the tag of the server for the client's sticky cookie, where the origin has one.
    #[must_use]
    pub fn tag_of(&self, held: &ServerPermit) -> Option<u64> {
        held.server.tag
    }
}

#[cfg(test)]
pub(super) mod tests;
