//! Writes what changes seldom as events: what the configuration says, and the state of origins, store and certificates.

use std::collections::BTreeMap;

use serde::Serialize;
use sluicegate_base::clock;
use sluicegate_decide::rfc3339;

use crate::acme::{AcmeSection, AcmeView};
use crate::cache::{CacheSection, CacheView};
use crate::certificates::{CertificateSection, CertificateView};
use crate::configuration::ConfigurationView;
use crate::limit_view::{ActivationView, LimitFacts};
use crate::origin_view::OriginView;
use crate::origins::OriginSection;
use crate::replication::ReplicationSection;
use crate::rules::RulesSection;
use crate::status::ConfigurationSection;
use crate::store::StoreSection;
use sluicegate_config::rules::ListenerRules;
use sluicegate_decide::admission::ActiveLimit;
use sluicegate_process::GatewayProcess;
use sluicegate_process::snapshot::Snapshot;
use sluicegate_record::live_counts::counter_names;

/// The part that a reload changes.
#[derive(Serialize)]
pub(super) struct OverviewEvent {
    version: &'static str,
    started: String,
    /// `token` where actions need the token of `[admin] token_file`; `none` where none is configured, so that there are none.
    actions: &'static str,
    /// The names of the numbers of a limit in `counters` events.
    counters: Vec<&'static str>,
    configuration: ConfigurationSection,
    routes: usize,
    listeners: Vec<OverviewListener>,
    limits: Vec<OverviewLimit>,
}

/// A listener.
#[derive(Serialize)]
struct OverviewListener {
    address: String,
    name: Option<String>,
}

/// A limit.
#[derive(Serialize)]
struct OverviewLimit {
    #[serde(flatten)]
    facts: LimitFacts,
    /// Seconds of the first ban; null without `ban`.
    ban: Option<f64>,
    concurrency: Option<u32>,
    shared: bool,
}

/// The part that changes by itself.
#[derive(Serialize)]
pub(super) struct StateEvent {
    origins: Vec<OriginSection>,
    /// The conditions of limits and tiers, by the names of their limits; only of limits that have one.
    conditions: BTreeMap<String, Vec<ActivationView>>,
    store: Option<StoreSection>,
    replication: Option<ReplicationSection>,
    certificates: Vec<CertificateSection>,
    acme: Option<AcmeSection>,
    cache: Option<CacheSection>,
    rules: RulesSection,
}

impl OverviewEvent {
    pub(super) fn new(process: &GatewayProcess, snapshot: &Snapshot) -> Self {
        let configuration = ConfigurationView::new(&process.reloader, snapshot);
        let has_token = snapshot.compiled.rules.admin.token_file.is_some();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            started: rfc3339::format(process.lifecycle.started),
            actions: if has_token { "token" } else { "none" },
            counters: counter_names().to_vec(),
            configuration: ConfigurationSection::new(configuration),
            routes: snapshot.routes.len(),
            listeners: (snapshot.compiled.rules.listeners.iter())
                .map(OverviewListener::new)
                .collect(),
            limits: (snapshot.compiled.limits.values())
                .map(|limit| OverviewLimit::new(limit))
                .collect(),
        }
    }
}

impl OverviewListener {
    fn new(listener: &ListenerRules) -> Self {
        Self {
            address: listener.address.to_string(),
            name: listener.name.as_ref().map(ToString::to_string),
        }
    }
}

impl OverviewLimit {
    fn new(active: &ActiveLimit) -> Self {
        Self {
            facts: LimitFacts::new(active),
            ban: (active.bans.as_ref()).map(|active| active.bans.rules().first().as_secs_f64()),
            concurrency: (active.permits.as_ref()).map(|permits| permits.max().get()),
            shared: active.is_shared(),
        }
    }
}

impl StateEvent {
    pub(super) fn new(process: &GatewayProcess, snapshot: &Snapshot) -> Self {
        let shared = &process.shared;
        let now = clock::now();
        let wall = clock::wall();
        let pools = snapshot.pools.values();
        let conditions = (snapshot.compiled.limits.values())
            .map(|limit| (limit.name.to_string(), ActivationView::new(limit)))
            .filter(|(_, conditions)| !conditions.is_empty());
        let certificates = CertificateView::all(snapshot).into_iter();
        let store = snapshot.store.as_ref();
        Self {
            origins: pools
                .map(|pool| OriginSection::new(OriginView::new(pool, now)))
                .collect(),
            conditions: conditions.collect(),
            store: store.map(|store| StoreSection::new(store.status())),
            replication: store.map(|store| ReplicationSection::new(store.replication_stats(now))),
            certificates: certificates
                .map(|certificate| CertificateSection::new(certificate, wall))
                .collect(),
            acme: AcmeView::new(&shared.acme, &snapshot.compiled.rules).map(AcmeSection::new),
            cache: CacheView::new(&shared.cache.storage, snapshot).map(CacheSection::from),
            rules: RulesSection::new(snapshot),
        }
    }
}
