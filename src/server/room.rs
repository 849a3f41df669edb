//! Logs how many connections are possible, and where the configuration needs more descriptors than the process may open.

use std::fmt::Write;

use tracing::{info, warn};

use crate::config::rules::Rules;
use sluicegate_budgets::{ConnectionCaps, OpenFiles, OwnFiles, RequestCaps};

use super::start_error::StartError;

/// Logs the caps, and the settings that exceed them.
pub(super) fn log_room(
    files: OpenFiles,
    rules: &Rules,
    connections: ConnectionCaps,
    requests: RequestCaps,
) {
    let OpenFiles { before, now } = files;
    info!(
        "{now} files may be open ({before} before); at most {} connections, {} of one client; at most {} requests on their way to \
         origins, {} of one client",
        connections.all.get(),
        connections.of_one_alone().get(),
        requests.all,
        requests.of_client.get()
    );
    if let Some(shortage) = shortage(files, rules) {
        warn!("{shortage}");
    }
}

/// Returns the descriptors that a configuration needs beyond the limit, and what to write; `None` where they suffice.
#[must_use]
pub fn shortage(files: OpenFiles, rules: &Rules) -> Option<String> {
    let own = OwnFiles::new(rules);
    if let Err(fewest) = files.suffice(own) {
        return Some(StartError::FewFiles(fewest).to_string());
    }
    let defence = &rules.server.defence;
    let connections = defence.max_connections.map(|all| u64::from(all.get()));
    let requests = defence.max_origin_requests.map(|all| u64::from(all.get()));
    // Each connection has a duplicate.
    let origins = 2 * connections_of_origins(rules);
    let others = files.now - files.for_connections(own);
    let needed = others
        .saturating_add(connections.unwrap_or_default())
        .saturating_add(origins.max(requests.unwrap_or_default()));
    if needed <= files.now {
        return None;
    }
    let mut text = String::new();
    let mut add = |what: std::fmt::Arguments<'_>| {
        let comma = if text.is_empty() { "" } else { ", " };
        // A write into a string does not fail.
        let _ = write!(text, "{comma}{what}");
    };
    if let Some(connections) = connections {
        add(format_args!("{connections} for max_connections"));
    }
    if origins > 0 {
        add(format_args!("{origins} for max_connections of origins"));
    }
    if let Some(requests) = requests.filter(|requests| *requests > origins) {
        add(format_args!(
            "{} for max_origin_requests",
            requests - origins
        ));
    }
    add(format_args!("{others} for everything else"));
    Some(format!(
        "these numbers need {needed} open files ({text}), and the process may have {}: raise the limit (LimitNOFILE={needed}, ulimit -n \
         {needed}), or lower the numbers",
        files.now
    ))
}

/// Returns how many connections servers may have where their origin bounds them.
fn connections_of_origins(rules: &Rules) -> u64 {
    let of_origin = |origin: &crate::config::rules::OriginRules| {
        let servers: usize = origin
            .servers
            .iter()
            .map(|entry| entry.addresses.len())
            .sum();
        let most = origin
            .circuit_breaker
            .and_then(|circuit| circuit.max_connections);
        u64::from(most.unwrap_or_default()).saturating_mul(servers as u64)
    };
    rules.origins.values().map(of_origin).sum()
}
