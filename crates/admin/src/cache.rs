//! Shows the state of the cache, and purges it: POST `/cache/purge?url=…`, `?prefix=…` or `?all`.
//!
//! A purge causes work for the origin, so it needs the token, as lifting a ban does, and runs on a thread that no other response waits for.

use http::header::ALLOW;
use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;
use sluicegate_telemetry::exposition::SampledFamily;

use super::audit::{self, AuditEntry};
use super::operator::Operator;
use super::page::{AdminPage, JSON};
use super::query::decoded;
use super::task::{AdminAction, AdminTask};
use sluicegate_cache::memory_storage::{MemoryStorage, StorageUsage};
use sluicegate_cache::purge::PurgeScope;
use sluicegate_history::MarkKind;
use sluicegate_process::GatewayProcess;
use sluicegate_process::snapshot::Snapshot;

/// The state of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheView {
    /// The memory in use.
    pub filled: StorageUsage,
    /// Responses evicted to make room for others.
    pub evicted: u64,
    /// Responses not stored: no memory left, or the body did not match its Content-Length.
    pub store_aborted: u64,
    /// Responses that the operator purged.
    pub purged: u64,
    /// Responses that a write to their URL invalidated.
    pub invalidated: u64,
    /// Requests that waited for another request which fetched the same response.
    pub coalesced: u64,
    /// Stale responses that were fetched again in the background.
    pub refreshes: u64,
}

impl CacheView {
    /// Samples `storage`; `None` where no route of `snapshot` caches.
    pub(super) fn new(storage: &MemoryStorage, snapshot: &Snapshot) -> Option<Self> {
        use std::sync::atomic::Ordering::Relaxed;
        let tallies = &storage.stats;
        snapshot.stores.then(|| Self {
            filled: storage.usage(),
            evicted: tallies.evicted.load(Relaxed),
            store_aborted: tallies.abandoned.load(Relaxed),
            purged: tallies.purged.load(Relaxed),
            invalidated: tallies.invalidated.load(Relaxed),
            coalesced: tallies.waited.load(Relaxed),
            refreshes: tallies.refreshed.load(Relaxed),
        })
    }
}

/// The section of `/status`.
#[derive(Serialize)]
pub(super) struct CacheSection {
    memory: u64,
    bytes: u64,
    objects: u64,
    evicted: u64,
    store_aborted: u64,
    purged: u64,
    invalidated: u64,
    coalesced: u64,
    refreshes: u64,
}

impl From<CacheView> for CacheSection {
    fn from(view: CacheView) -> Self {
        Self {
            memory: view.filled.memory,
            bytes: view.filled.bytes,
            objects: view.filled.objects,
            evicted: view.evicted,
            store_aborted: view.store_aborted,
            purged: view.purged,
            invalidated: view.invalidated,
            coalesced: view.coalesced,
            refreshes: view.refreshes,
        }
    }
}

/// Returns the metrics of the cache apart from its requests; none where no route caches.
pub(super) fn families(view: Option<CacheView>) -> Vec<SampledFamily> {
    let Some(view) = view else { return Vec::new() };
    let gauges = [
        (
            "sluicegate_cache_memory_bytes",
            "The most that stored answers may take, in bytes.",
            view.filled.memory,
        ),
        (
            "sluicegate_cache_bytes",
            "What stored answers take, with those that are just being stored, in bytes.",
            view.filled.bytes,
        ),
        (
            "sluicegate_cache_objects",
            "Stored answers.",
            view.filled.objects,
        ),
    ];
    let counters = [
        (
            "sluicegate_cache_evicted_total",
            "Stored answers that made room for others.",
            view.evicted,
        ),
        (
            "sluicegate_cache_store_aborted_total",
            "Answers that were not stored for want of room, or since they came other than announced.",
            view.store_aborted,
        ),
        (
            "sluicegate_cache_purged_total",
            "Stored answers that the operator took away.",
            view.purged,
        ),
        (
            "sluicegate_cache_invalidated_total",
            "Stored answers that writes to their URL took away.",
            view.invalidated,
        ),
        (
            "sluicegate_cache_coalesced_total",
            "Requests that waited for another that fetched the same.",
            view.coalesced,
        ),
        (
            "sluicegate_cache_refreshes_total",
            "Stale answers that were fetched anew in the background.",
            view.refreshes,
        ),
    ];
    let gauges =
        gauges.map(|(name, help, value)| SampledFamily::gauge(name, help).series(&[], value));
    let counters =
        counters.map(|(name, help, value)| SampledFamily::counter(name, help).series(&[], value));
    gauges.into_iter().chain(counters).collect()
}

/// A query that names nothing to purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BadPurge;

/// Returns the task of a purge; `None` where the path is another one.
pub(super) fn task(request: &Parts) -> Option<AdminTask> {
    if request.uri.path() != "/cache/purge" {
        return None;
    }
    Some(match purge(request.uri.query().unwrap_or_default()) {
        _ if request.method != Method::POST => AdminTask::Show(only_posts()),
        Ok(purge) => AdminTask::Walk(Box::new(purge)),
        Err(unnamed) => AdminTask::Show(unnamed.page()),
    })
}

fn purge(query: &str) -> Result<PurgeScope, BadPurge> {
    let text = |encoded: &str| decoded(encoded).ok_or(BadPurge);
    match query.split_once('=') {
        _ if query.contains('&') => Err(BadPurge),
        None if query == "all" => Ok(PurgeScope::All),
        Some(("url", url)) => PurgeScope::url(&text(url)?).map_err(|_| BadPurge),
        Some(("prefix", url)) => PurgeScope::prefix(&text(url)?).map_err(|_| BadPurge),
        _ => Err(BadPurge),
    }
}

impl AdminAction for PurgeScope {
    /// Purges and returns the page with the number of responses.
    fn page(&self, operator: &Operator, process: &GatewayProcess) -> AdminPage {
        let purged = process.shared.cache.storage.purge(self);
        let entry = AuditEntry {
            action: "purge",
            target: "cache".to_owned(),
            change: format!("took {purged} stored answers away"),
            ..AuditEntry::default()
        };
        match purged {
            0 => audit::note(process, operator, &entry),
            _ => audit::note_and_mark(process, operator, MarkKind::Purge, "", &entry),
        }
        AdminPage::json(&serde_json::json!({ "purged": purged }))
    }
}

impl BadPurge {
    /// Returns the page that explains the query.
    fn page(self) -> AdminPage {
        let error = concat!(
            r#"{"error":"name what to purge: ?url=http://example.com/a, ?prefix=http://example.com/a or ?all; "#,
            r#"percent-encode & in a URL as %26, and % as %25"}"#
        );
        AdminPage::new(StatusCode::BAD_REQUEST, JSON, error.as_bytes())
    }
}

/// Returns the page that asks for POST.
fn only_posts() -> AdminPage {
    let error = &br#"{"error":"a purge is asked for by POST"}"#[..];
    AdminPage::new(StatusCode::METHOD_NOT_ALLOWED, JSON, error).with(ALLOW, "POST")
}
