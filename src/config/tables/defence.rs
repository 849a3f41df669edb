//! The keys of `[server]` that say how much a client may press against the gateway before it asks for anything.

use std::time::Duration;

use sluicegate_limiter::Concurrency;

use crate::config::field::{Field, quoted};
use crate::config::problem::Mistake;
use crate::config::rules::{DefenceRules, OverrideFields, Underscores};
use crate::config::section::Section;

/// Longest wait for a head: an hour. Nobody types one.
const LONGEST_HEAD: Duration = Duration::from_secs(3600);
/// Largest rate that can be asked for: 1 MiB a second. More would cut honest uploads from most homes.
const LARGEST_RATE: u64 = 1 << 20;

/// Most bytes that may wait for clients: 1 TiB, more than machines have.
const MOST_UNREAD: u64 = 1 << 40;

/// Reads them.
pub(super) fn read(section: &Section<'_>) -> Option<DefenceRules> {
    let max_connections = section.optional("max_connections", "100000", connections);
    let max_connections_per_client =
        section.optional("max_connections_per_client", "1000", connections);
    let max_origin_requests = section.optional("max_origin_requests", "100000", connections);
    let max_origin_requests_per_client =
        section.optional("max_origin_requests_per_client", "1000", connections);
    let max_unread_bytes = section.optional("max_unread_bytes", "\"1GiB\"", |field| {
        field.size(0..=MOST_UNREAD)
    });
    let ten = Duration::from_secs(10);
    let client_header_timeout = section.or("client_header_timeout", "\"10s\"", ten, |field| {
        field.duration(Duration::from_millis(1)..=LONGEST_HEAD)
    });
    let client_min_rate = section.or("client_min_rate", "\"240B\"", 240, |field| {
        field.size(0..=LARGEST_RATE)
    });
    let client_min_read_rate = section.or("client_min_read_rate", "\"240B\"", 240, |field| {
        field.size(0..=LARGEST_RATE)
    });
    let max_uri_bytes = section.or("max_uri_bytes", "\"8KiB\"", 8 << 10, |field| {
        field
            .size(64..=1 << 20)
            .and_then(|size| usize::try_from(size).ok())
    });
    let stripped = OverrideFields::Strip;
    let override_fields = section.or("path_override_headers", "\"strip\"", stripped, |field| {
        strip_or_pass(
            field,
            [OverrideFields::Strip, OverrideFields::Pass],
            "origins ignore such fields or are asked by them",
        )
    });
    let underscores = section.or("underscores", "\"strip\"", Underscores::Strip, |field| {
        strip_or_pass(
            field,
            [Underscores::Strip, Underscores::Pass],
            "clients send fields with such names to origins that want them",
        )
    });
    Some(DefenceRules {
        max_connections: max_connections?,
        max_connections_per_client: max_connections_per_client?,
        max_origin_requests: max_origin_requests?,
        max_origin_requests_per_client: max_origin_requests_per_client?,
        max_unread_bytes: max_unread_bytes?,
        client_header_timeout: client_header_timeout?,
        client_min_rate: client_min_rate?,
        client_min_read_rate: client_min_read_rate?,
        max_uri_bytes: max_uri_bytes?,
        override_fields: override_fields?,
        underscores: underscores?,
    })
}

fn connections(field: &Field<'_>) -> Option<Concurrency> {
    let count = field.integer(1..=Concurrency::MAX.get().into())?;
    Concurrency::new(u32::try_from(count).ok()?).ok()
}

/// What becomes of some fields; `where_to_pass` says when an operator may let them pass.
fn strip_or_pass<T: Clone>(
    field: &Field<'_>,
    [strip, pass]: [T; 2],
    where_to_pass: &str,
) -> Option<T> {
    field.choice(&[("strip", strip), ("pass", pass)], |other| {
        Mistake::with_advice(
            format!("{} is neither \"strip\" nor \"pass\"", quoted(other)),
            format!("write \"strip\", or \"pass\" where {where_to_pass}"),
        )
    })
}
