//! Owns a pool of servers, and chooses one for a request: each healthy one in turn.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use pingora::upstreams::peer::HttpPeer;

use super::complaint::Complaints;
use super::peer::peer;
use crate::admission::Admitted;
use crate::clock;
use crate::config::rules::{HealthRules, Name, OriginRules};

/// The servers of one `[origin.NAME]`. Kept across a reload that leaves its rules alone, health included.
pub struct Pool {
    /// Its name.
    pub name: Name,
    /// Its rules.
    pub rules: OriginRules,
    servers: Box<[Server]>,
    /// What an operator has to mend before its servers can be spoken with.
    pub complaints: Complaints,
    next: AtomicUsize,
    /// When the next health check is due, in nanoseconds since the Unix epoch; [`CHECK_RUNNING`] during one.
    next_check: AtomicU64,
}

const CHECK_RUNNING: u64 = u64::MAX;

/// One server of a pool.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    peer: HttpPeer,
    up: AtomicBool,
    /// Check results in a row that contradict `up`.
    streak: AtomicUsize,
}

impl Pool {
    /// A pool whose servers all count as healthy until a check says otherwise.
    #[must_use]
    pub fn new(name: Name, rules: OriginRules) -> Self {
        let servers = rules
            .servers
            .iter()
            .map(|address| Server {
                address: *address,
                peer: peer(*address, &rules),
                up: AtomicBool::new(true),
                streak: AtomicUsize::new(0),
            })
            .collect();
        Self {
            name,
            rules,
            servers,
            complaints: Complaints::default(),
            next: AtomicUsize::new(0),
            next_check: AtomicU64::new(0),
        }
    }

    /// The next healthy server, other than `failed` where there is a choice; `None` when none is healthy.
    ///
    /// Asks for the evidence that the request passed admission.
    pub fn choose(&self, _: &Admitted, failed: Option<SocketAddr>) -> Option<&Server> {
        // Relaxed: the counter only spreads requests and publishes nothing.
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let count = self.servers.len();
        let healthy = (0..count)
            .map(|step| &self.servers[(first.wrapping_add(step)) % count])
            .filter(|server| server.is_up());
        let mut fallback = None;
        for server in healthy {
            if failed == Some(server.address) {
                fallback = Some(server);
            } else {
                return Some(server);
            }
        }
        fallback
    }

    /// Every server, healthy or not.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Whether a health check is due; if so it counts as running until [`Self::end_check`].
    pub(super) fn start_check(&self) -> bool {
        let due = self.rules.health.is_some()
            && self.next_check.load(Ordering::Relaxed) <= clock::now().as_nanos();
        if due {
            // Relaxed: only the loop of the health service starts checks.
            self.next_check.store(CHECK_RUNNING, Ordering::Relaxed);
        }
        due
    }

    /// Schedules the next check.
    pub(super) fn end_check(&self) {
        if let Some(health) = &self.rules.health {
            let next = clock::now().saturating_add(health.interval);
            self.next_check.store(next.as_nanos(), Ordering::Relaxed);
        }
    }
}

impl Server {
    /// What Pingora needs to connect.
    #[must_use]
    pub fn peer(&self) -> Box<HttpPeer> {
        Box::new(self.peer.clone())
    }

    /// Whether the server is in use.
    #[must_use]
    pub fn is_up(&self) -> bool {
        // Relaxed: health is advice; a request that still sees the old value is retried elsewhere.
        self.up.load(Ordering::Relaxed)
    }

    /// Counts a check's result; true when it takes the server out of use or puts it back.
    pub(super) fn observe(&self, result: Health, rules: &HealthRules) -> bool {
        let wanted = result == Health::Up;
        let needed = match result {
            Health::Up => rules.healthy_after,
            Health::Down => rules.unhealthy_after,
        };
        // Relaxed: one check of a pool runs at a time, so nobody else writes these.
        let streak = if wanted == self.is_up() {
            0
        } else {
            self.streak.load(Ordering::Relaxed) + 1
        };
        let flips = streak >= needed.max(1);
        self.streak
            .store(if flips { 0 } else { streak }, Ordering::Relaxed);
        if flips {
            self.up.store(wanted, Ordering::Relaxed);
        }
        flips
    }
}

/// Whether a server is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Up,
    Down,
}
