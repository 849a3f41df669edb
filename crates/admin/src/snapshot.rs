//! Samples the running gateway for `/status` and `/metrics`: every number of a page is read in one place, under one configuration.
//!
//! The pages are functions of these plain values, so a test writes the values that it needs. Endpoints that change something, or that
//! walk a table, are not samples: they take the process itself.

use sluicegate_base::clock;
use sluicegate_decide::state::DirectoryHealth;
use sluicegate_limiter::Timestamp;
use sluicegate_redis_link::LinkStatus;

use super::acme::AcmeView;
use super::cache::CacheView;
use super::certificates::CertificateView;
use super::configuration::ConfigurationView;
use super::connections::ConnectionsView;
use super::crawler_look_ups::CrawlerLookUpsView;
use super::limit_view::LimitView;
use super::origin_view::OriginView;
use super::problems::{self, OperatingProblem};
use super::rules::RulesSection;
use sluicegate_config::MemoryPlan;
use sluicegate_process::GatewayProcess;
use sluicegate_record::RequestRecorder;
use sluicegate_store::{RemoteWriteStats, ReplicationStats};

/// The state of the gateway at one moment.
pub(super) struct AdminSnapshot<'a> {
    /// The counters of requests, which each page reads in its own form.
    pub recorder: &'a RequestRecorder,
    /// The moments of the process.
    pub times: ProcessTimes,
    /// The problems of the gateway, the heaviest first.
    pub problems: Vec<OperatingProblem>,
    /// The configuration in use.
    pub configuration: ConfigurationView,
    /// The memory that the configuration may take.
    pub memory: MemoryPlan,
    /// The number of routes.
    pub routes: usize,
    /// Every limit.
    pub limits: Vec<LimitView>,
    /// Every origin.
    pub origins: Vec<OriginView>,
    /// The connections of clients.
    pub connections: ConnectionsView,
    /// The certificates that listeners serve; none without TLS.
    pub certificates: Vec<CertificateView>,
    /// The state of ACME certificates; `None` where none is ordered.
    pub acme: Option<AcmeView>,
    /// The state of the cache; `None` where no route caches.
    pub cache: Option<CacheView>,
    /// The look-ups of crawlers' addresses; `None` where no crawler has domains.
    pub crawler_look_ups: Option<CrawlerLookUpsView>,
    /// The temporary rules.
    pub rules: RulesSection,
    /// The state of the state directory; `None` without one.
    pub state: Option<DirectoryHealth>,
    /// The state of the link to the store; `None` without one.
    pub store: Option<LinkStatus>,
    /// The writes that wait for the store; `None` without one.
    pub remote_writes: Option<RemoteWriteStats>,
    /// The state of the replication of shared limits; `None` without a store.
    pub replication: Option<ReplicationStats>,
}

/// The moments of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessTimes {
    /// The time of its start.
    pub started: Timestamp,
    /// The time of the limits now.
    pub now: Timestamp,
    /// The time of the wall clock now.
    pub wall: Timestamp,
}

impl<'a> AdminSnapshot<'a> {
    /// Samples `process`. Takes some milliseconds where limits are many, since it samples the table of each.
    pub(super) fn new(process: &'a GatewayProcess) -> Self {
        let shared = &*process.shared;
        let in_force = shared.snapshot();
        let times = ProcessTimes {
            started: process.lifecycle.started,
            now: clock::now(),
            wall: clock::wall(),
        };
        let limits = in_force.compiled.limits.values();
        let pools = in_force.pools.values();
        let store = in_force.store.as_ref();
        Self {
            recorder: &shared.recorder,
            times,
            problems: problems::find(process, &in_force),
            configuration: ConfigurationView::new(&process.reloader, &in_force),
            memory: MemoryPlan::new(&in_force.compiled.rules),
            routes: in_force.routes.len(),
            limits: limits
                .map(|limit| LimitView::new(limit, times.now))
                .collect(),
            origins: pools.map(|pool| OriginView::new(pool, times.now)).collect(),
            connections: ConnectionsView::new(shared, &in_force.compiled.rules),
            certificates: CertificateView::all(&in_force),
            acme: AcmeView::new(&shared.acme, &in_force.compiled.rules),
            cache: CacheView::new(&shared.cache.storage, &in_force),
            crawler_look_ups: CrawlerLookUpsView::new(&in_force),
            rules: RulesSection::new(&in_force),
            state: process.reloader.storage.health(),
            store: store.map(|store| store.status()),
            remote_writes: store.map(|store| store.remote_write_stats()),
            replication: store.map(|store| store.replication_stats(times.now)),
        }
    }
}
