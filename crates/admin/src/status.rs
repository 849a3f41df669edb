//! Writes `/status`: the state of the whole gateway as JSON.
//!
//! The shape is documented in `docs/operations/admin-api.md`; fields are added.

use serde::Serialize;
use sluicegate_decide::rfc3339;
use sluicegate_decide::state::{CounterPersistence, DirectoryHealth};

use super::acme::AcmeSection;
use super::advice;
use super::cache::CacheSection;
use super::certificates::CertificateSection;
use super::clients::ClientSection;
use super::configuration::{ConfigurationView, ReloadSection};
use super::limit_view::{ActivationView, BansView, LimitFacts, LimitView, PermitsView, ShareView};
use super::origins::OriginSection;
use super::page::AdminPage;
use super::problems::ProblemList;
use super::replication::ReplicationSection;
use super::rules::RulesSection;
use super::snapshot::AdminSnapshot;
use super::store::StoreSection;
use sluicegate_config::MemoryPlan;
use sluicegate_record::access_log::AccessLogCounts;
use sluicegate_record::{RequestFigures, RequestTotals};

/// Returns the page of `/status`, with these clients.
pub(super) fn page(sampled: AdminSnapshot<'_>, clients: Vec<ClientSection>) -> AdminPage {
    let times = sampled.times;
    let status = StatusPage {
        version: env!("CARGO_PKG_VERSION"),
        started: rfc3339::format(times.started),
        uptime: times.now.saturating_since(times.started).as_secs(),
        problems: ProblemList::new(sampled.problems),
        configuration: ConfigurationSection::new(sampled.configuration),
        routes: sampled.routes,
        requests_in_flight: sampled.recorder.metrics.requests_in_flight(),
        requests: sampled.recorder.metrics.request_totals(),
        recent: sampled.recorder.metrics.recent_requests(),
        clients,
        memory: sampled.memory,
        limits: sampled.limits.into_iter().map(LimitSection::new).collect(),
        state: sampled.state.map(StateSection::new),
        store: sampled.store.map(StoreSection::new),
        replication: sampled.replication.map(ReplicationSection::new),
        cache: sampled.cache.map(CacheSection::from),
        acme: sampled.acme.map(AcmeSection::new),
        origins: (sampled.origins.into_iter())
            .map(OriginSection::new)
            .collect(),
        certificates: (sampled.certificates.into_iter())
            .map(|certificate| CertificateSection::new(certificate, times.wall))
            .collect(),
        temporary_rules: sampled.rules,
        access_log: AccessLogSection::new(sampled.recorder.log.counts()),
    };
    AdminPage::json(&status)
}

#[derive(Serialize)]
struct StatusPage {
    version: &'static str,
    started: String,
    uptime: u64,
    #[serde(flatten)]
    problems: ProblemList,
    configuration: ConfigurationSection,
    routes: usize,
    requests_in_flight: u64,
    requests: RequestTotals,
    recent: RequestFigures,
    clients: Vec<ClientSection>,
    memory: MemoryPlan,
    limits: Vec<LimitSection>,
    state: Option<StateSection>,
    store: Option<StoreSection>,
    replication: Option<ReplicationSection>,
    cache: Option<CacheSection>,
    acme: Option<AcmeSection>,
    origins: Vec<OriginSection>,
    certificates: Vec<CertificateSection>,
    temporary_rules: RulesSection,
    access_log: AccessLogSection,
}

#[derive(Serialize)]
pub(super) struct ConfigurationSection {
    file: String,
    generation: u64,
    loaded_at: String,
    last_reload: Option<ReloadSection>,
    pending_restart: Vec<String>,
    broken_files: Vec<String>,
}

#[derive(Serialize)]
struct LimitSection {
    #[serde(flatten)]
    facts: LimitFacts,
    keys: u64,
    slots: u64,
    bytes: u64,
    load: f64,
    slots_reused: u64,
    persistent: bool,
    counters: String,
    overflow: OverflowSection,
    share: Option<ShareSection>,
    ban: Option<BansSection>,
    banned_by_rules: u64,
    concurrency: Option<ConcurrencySection>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<ActivationView>,
    reserved_units: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct BansSection {
    #[serde(rename = "for")]
    first: f64,
    factor: f64,
    max: f64,
    keys: u64,
    slots: u64,
    bytes: u64,
    begun: u64,
    not_kept: u64,
    persistent: bool,
    found: String,
}

#[derive(Serialize)]
struct ConcurrencySection {
    max: u32,
    keys: u64,
    slots: u64,
    bytes: u64,
    overflow_refused: u64,
}

#[derive(Serialize)]
struct StateSection {
    directory: String,
    errors: u64,
    error: Option<String>,
}

#[derive(Serialize)]
pub(super) struct OverflowSection {
    active: bool,
    since: Option<String>,
    until: Option<String>,
    affected: f64,
    decisions: u64,
    refused: u64,
    advice: Option<u64>,
}

#[derive(Serialize)]
struct ShareSection {
    slots: u64,
    refused: u64,
    client: Option<String>,
    at: Option<String>,
    advice: Option<String>,
}

#[derive(Serialize)]
struct AccessLogSection {
    lines: u64,
    dropped: u64,
    write_errors: u64,
}

impl ConfigurationSection {
    pub(super) fn new(view: ConfigurationView) -> Self {
        let last_reload = view.last_reload;
        Self {
            file: view.file.display().to_string(),
            generation: view.generation,
            loaded_at: rfc3339::format(view.loaded_at),
            pending_restart: (last_reload.as_ref())
                .map_or_else(Vec::new, |report| report.pending_restart.clone()),
            last_reload: last_reload.map(ReloadSection::new),
            broken_files: view
                .broken_files
                .iter()
                .map(|file| file.to_string())
                .collect(),
        }
    }
}

impl LimitSection {
    fn new(view: LimitView) -> Self {
        // `Capacity` is at least 1. Rounded to a thousandth, which is finer than the sample.
        let load = view.keys as f64 / view.capacity.keys() as f64;
        let overflow = OverflowSection::new(&view);
        let advice = advice::share(&view);
        let share = view
            .share
            .as_ref()
            .map(|share| ShareSection::new(share, advice));
        let (persistent, counters) = persistence(&view.persistence);
        Self {
            facts: view.facts,
            keys: view.keys,
            slots: view.slots,
            bytes: view.bytes,
            load: (load * 1_000.0).round() / 1_000.0,
            slots_reused: view.slots_reused,
            persistent,
            counters,
            overflow,
            share,
            ban: view.bans.as_ref().map(BansSection::new),
            banned_by_rules: view.banned_by_rules,
            concurrency: view.permits.as_ref().map(ConcurrencySection::new),
            conditions: view.activations,
            reserved_units: view.reserved,
        }
    }
}

/// Returns whether counters outlive the process, and the state in which their file was found.
fn persistence(persistence: &CounterPersistence) -> (bool, String) {
    match persistence {
        CounterPersistence::InFile { found, .. } => (true, found.clone()),
        CounterPersistence::InMemory { reason } => (false, format!("in memory only: {reason}")),
    }
}

impl BansSection {
    pub(super) fn new(view: &BansView) -> Self {
        let (persistent, found) = persistence(&view.persistence);
        Self {
            first: view.rules.first().as_secs_f64(),
            factor: f64::from(view.rules.factor().hundredths()) / 100.0,
            max: view.rules.max().as_secs_f64(),
            keys: view.keys,
            slots: view.slots,
            bytes: view.bytes,
            begun: view.tallies.begun,
            not_kept: view.tallies.not_kept,
            persistent,
            found,
        }
    }
}

impl ConcurrencySection {
    fn new(view: &PermitsView) -> Self {
        Self {
            max: view.max.get(),
            keys: view.keys,
            slots: view.slots,
            bytes: view.bytes,
            overflow_refused: view.overflow_refused,
        }
    }
}

impl OverflowSection {
    pub(super) fn new(view: &LimitView) -> Self {
        Self {
            active: view.overflow_active,
            since: view.overflow.map(|spell| rfc3339::format(spell.since)),
            until: view.overflow.map(|spell| rfc3339::format(spell.until)),
            affected: view.overflow_affected as f64 / 1000.0,
            decisions: view.overflow_decisions,
            refused: view.overflow_refused,
            advice: advice::capacity(view),
        }
    }
}

impl ShareSection {
    fn new(view: &ShareView, advice: Option<String>) -> Self {
        Self {
            slots: view.slots,
            refused: view.refused,
            client: view.latest.map(|latest| latest.client.to_string()),
            at: view.latest.map(|latest| rfc3339::format(latest.at)),
            advice,
        }
    }
}

impl StateSection {
    fn new(health: DirectoryHealth) -> Self {
        Self {
            directory: health.path.display().to_string(),
            errors: health.errors,
            error: health.last_error,
        }
    }
}

impl AccessLogSection {
    fn new(counts: AccessLogCounts) -> Self {
        Self {
            lines: counts.lines,
            dropped: counts.dropped,
            write_errors: counts.write_errors,
        }
    }
}
