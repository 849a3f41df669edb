//! Makes `circuit_breaker` of an origin: the connections of a server, and the requests that wait for one.

use super::sections::{ConfigSection, SectionLine};
use super::tables::millis;
use crate::bounds;
use crate::ledger::Ledger;
use crate::model::Origin;
use crate::toml::{duration, inline};

/// The bounds of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerBounds {
    /// `maxconn`.
    pub(super) connections: Option<u64>,
    /// `maxqueue`.
    pub(super) queue: Option<u64>,
}

/// Writes the bounds of the servers of an origin. `lines` are those of the backend, then those that it inherits.
pub(super) fn bound(
    backend: &ConfigSection,
    lines: &[&SectionLine],
    servers: &[ServerBounds],
    origin: &mut Origin,
    ledger: &mut Ledger,
) {
    let smallest = servers.iter().filter_map(|it| it.connections).min();
    let Some(most) = smallest else { return };
    // A request waits at any server of an origin.
    let queues: Option<Vec<u64>> = servers.iter().map(|it| it.queue).collect();
    let pending = queues.map_or(bounds::ORIGIN_CONNECTIONS, |it| {
        it.iter().sum::<u64>().min(bounds::ORIGIN_CONNECTIONS)
    });
    let wait = wait(lines, ledger);
    origin.keys.push((
        "circuit_breaker",
        inline(&[
            format!("max_connections = {}", most.min(bounds::ORIGIN_CONNECTIONS)),
            format!("max_pending = {pending}"),
            format!("pending_timeout = {}", duration(wait)),
        ]),
    ));
    let is_bound = |line: &&SectionLine| line.words.iter().any(|it| it == "maxconn");
    for line in backend.named("server").filter(is_bound) {
        ledger.differs(
            line.id,
            format!(
                "requests wait for all servers of the origin together, at most {pending} of them"
            ),
        );
    }
    if most > bounds::ORIGIN_CONNECTIONS || servers.iter().any(|it| it.connections != smallest) {
        let comment = ledger.comment(backend.id);
        ledger.fill_in(format!(
            "{comment}: [origin.{}.circuit_breaker] max_connections: servers have other maxconn than {most}, and all of an origin have \
             one; make an origin of each kind",
            origin.name
        ));
    }
}

/// Returns the longest time for which a request waits, in milliseconds: `timeout queue`, or else `timeout connect`.
fn wait(lines: &[&SectionLine], ledger: &mut Ledger) -> u64 {
    let named = |name: &str| lines.iter().find(|it| it.starts(&["timeout", name]));
    let Some(line) = named("queue").or_else(|| named("connect")) else {
        return bounds::PENDING_MILLIS;
    };
    match millis(line.word(2)) {
        Some(millis) if (1..=bounds::PENDING_MILLIS).contains(&millis) => {
            ledger.translated(line.id);
            millis
        }
        // HAProxy takes 0 for no bound.
        Some(_) => {
            ledger.differs(
                line.id,
                "a request waits for a connection for a minute at most",
            );
            bounds::PENDING_MILLIS
        }
        None => {
            ledger.fill_in_for(
                line.id,
                "[origin.NAME.circuit_breaker] pending_timeout is 1ms to 1m; 1m is written",
            );
            bounds::PENDING_MILLIS
        }
    }
}
