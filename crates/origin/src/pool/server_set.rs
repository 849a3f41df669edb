//! Holds the servers of a pool at one time, and replaces them: each server that stays keeps its [`ServerState`].

use std::sync::Arc;

use pingora::upstreams::peer::Peer;
use sluicegate_base::bounds::{LEAST_STREAM_WINDOW, ORIGIN_STREAMS, POOL_SERVERS, SERVER_REQUESTS};
use tracing::warn;

use super::ServerPool;
use crate::adaptive_limit::{HeavyClients, ServerLimit};
use crate::balancer::{PickContext, ServerTier};
use crate::dialer;
use crate::peer::{group_of, peer};
use crate::server::{OriginServer, ServerPermit, point};
use crate::server_state::{HealthChecking, ServerState};
use crate::unverified_tls::UnverifiedTls;
use sluicegate_config::rules::{OriginAddress, OriginRules, Protocol, Role};

/// The servers of a pool at one time.
#[derive(Default)]
pub(super) struct ServerSet {
    pub(super) primaries: ServerTier,
    pub(super) backups: ServerTier,
}

impl ServerPool {
    /// Replaces the servers by those at `addresses`: those in `known` keep their state.
    pub(crate) fn assemble(
        &self,
        addresses: &[Vec<OriginAddress>],
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
                all.extend(self.server(address, entry, server_state).map(Arc::new));
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
        address: &OriginAddress,
        entry: usize,
        server_state: Arc<ServerState>,
    ) -> Option<OriginServer> {
        let rules = self.rules.servers.get(entry)?;
        let tag = || {
            let text = address.to_string();
            let parts: [&[u8]; 3] = [b"sticky", self.name.as_bytes(), text.as_bytes()];
            self.seed.tag(parts)
        };
        let mut peer = peer(address, Some(rules), &self.rules)?;
        let most = self
            .rules
            .circuit_breaker
            .and_then(|circuit| circuit.max_connections);
        let connections = most.map(|most| {
            // Connections that are counted here are of no use to another origin, which would not count them.
            peer.group_key = group_of(&self.name, peer.group_key);
            dialer::bound(&mut peer, &server_state.connections, most, &self.queues);
            server_state.connections.clear_exhaustion();
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
            address: address.clone(),
            server_state,
            role: rules.role,
            weight: rules.weight,
            entry,
            point: point(address),
            tag: self.rules.sticky.is_some().then(tag),
            queue: self.queue.clone(),
            queues: Arc::clone(&self.queues),
            slow_start: self.rules.slow_start,
            checking: match self.rules.health {
                Some(_) => HealthChecking::Configured,
                None => HealthChecking::Absent,
            },
            max_in_flight: max_in_flight(&self.rules),
            adaptive,
            connections,
            peer,
            unverified_tls: UnverifiedTls::from_rules(&self.rules),
            protocol: self.rules.transport.protocol,
            stream_window: stream_window(address, &self.rules),
            reuse_key,
        })
    }
}

impl ServerSet {
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<OriginServer>> {
        let tiers = [&self.primaries, &self.backups];
        tiers.into_iter().flat_map(ServerTier::servers)
    }

    /// Takes a permit at the server that a sticky cookie names; `None` where that server is not in service, and the client gets
    /// another.
    pub(super) fn tagged(&self, tag: u64, terms: &PickContext<'_>) -> Option<ServerPermit> {
        let server = self.all().find(|server| server.tag == Some(tag))?;
        let held = terms
            .takes(server)
            .then(|| server.hold(terms.client, terms.now));
        held?
    }
}

/// Returns the window of each stream of HTTP/2; `None`: that for the distance of the server. A socket has none that the kernel measures,
/// and its server is on this machine.
fn stream_window(address: &OriginAddress, rules: &OriginRules) -> Option<u32> {
    let of_socket = || matches!(address, OriginAddress::Unix(_)).then_some(LEAST_STREAM_WINDOW);
    rules.stream_window.or_else(of_socket)
}

/// Returns the maximum number of requests in flight at a server: `max_requests`, and no more than `max_connections` can carry;
/// without either, the number of ports.
fn max_in_flight(rules: &OriginRules) -> u32 {
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
