//! Logs at the start what will be served: a line for each listener, limit and origin, and the number of routes.

use std::path::Path;

use tracing::info;

use crate::config::rules::{
    Http2, Http3, LimitRules, ListenerProtocol, ListenerRules, OriginRules, Rules,
};
use crate::config::{Action, Share};
use sluicegate_explain::{LimitExplained, counted};

/// Maximum lines of one kind. `/status`, `/routes` and `/config` list the others.
const LINES: usize = 50;

/// Logs the configuration.
pub(super) fn announce(file: &Path, rules: &Rules) {
    info!(
        "sluicegate {} runs with {}",
        env!("CARGO_PKG_VERSION"),
        file.display()
    );
    for listener in &rules.listeners {
        info!("listening on {}", of_listener(listener));
    }
    match rules.admin.address {
        Some(address) => info!("admin on {address}"),
        None => info!("admin off: no metrics, no status, no probes"),
    }
    let limits = rules.limits.iter().map(|(name, limit)| {
        let explained = LimitExplained::new(name, limit, rules);
        format!("limit {name}{}: {}", in_shadow(limit), explained.allows)
    });
    each(limits, "limits");
    let origins = rules.origins.iter();
    each(
        origins.map(|(name, origin)| format!("origin {name} at {}", servers(origin))),
        "origins",
    );
    info!(
        "{}, {}, {}",
        counted(rules.routes.len() as u64, "route"),
        counted(rules.limits.len() as u64, "limit"),
        counted(rules.origins.len() as u64, "origin")
    );
}

fn each(mut lines: impl Iterator<Item = String>, what: &str) {
    for line in lines.by_ref().take(LINES) {
        info!("{line}");
    }
    if let more @ 1.. = lines.count() {
        info!("and {more} more {what}");
    }
}

/// Returns `, in shadow` for a limit that rejects nothing, and the share of keys for which it is enforced where there is one.
fn in_shadow(limit: &LimitRules) -> String {
    match limit.action {
        Action::Shadow => ", in shadow".to_owned(),
        _ if limit.enforce != Share::ALL => {
            format!(", enforced for {} of its keys", limit.enforce)
        }
        _ => String::new(),
    }
}

/// Returns `0.0.0.0:443: TLS for www.example.com, HTTP/1.1 and HTTP/2`.
fn of_listener(listener: &ListenerRules) -> String {
    let spoken = match (listener.http2(), listener.http3) {
        (Http2::Accepted, Http3::Accepted) => "HTTP/1.1, HTTP/2 and HTTP/3",
        (Http2::Off, Http3::Accepted) => "HTTP/1.1 and HTTP/3",
        (Http2::Accepted, Http3::Off) => "HTTP/1.1 and HTTP/2",
        (Http2::Off, Http3::Off) => "HTTP/1.1",
    };
    let spoken = match listener.protocol {
        ListenerProtocol::Http => spoken.to_owned(),
        ListenerProtocol::ForwardAuth { .. } => format!("decisions for other proxies, {spoken}"),
        ListenerProtocol::RateLimitService => "decisions for Envoy, gRPC".to_owned(),
    };
    let Some(tls) = &listener.tls else {
        return match listener.redirect_to_https {
            Some(port) => format!("{}: redirects to https, port {port}", listener.address),
            None => format!("{}: {spoken} in clear text", listener.address),
        };
    };
    let written = tls.certificates.iter();
    let written =
        written.flat_map(|certificate| certificate.names().iter().map(ToString::to_string));
    let ordered = tls.acme.iter().flat_map(|names| names.names());
    let names: Vec<String> = written.chain(ordered.map(ToString::to_string)).collect();
    let names = if names.is_empty() {
        "any name".to_owned()
    } else {
        names.join(", ")
    };
    format!("{}: {spoken} by TLS for {names}", listener.address)
}

fn servers(origin: &OriginRules) -> String {
    let entries = origin.servers.iter().map(|entry| match &entry.name {
        Some(name) if entry.is_unknown() => format!("{name} (does not resolve)"),
        Some(name) => name.to_string(),
        None => entry.addresses.iter().map(ToString::to_string).collect(),
    });
    entries.collect::<Vec<_>>().join(", ")
}
