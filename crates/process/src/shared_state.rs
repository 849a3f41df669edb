//! Holds what all requests share: the snapshot in force, the recorder, the budgets, the cache.

use std::sync::Arc;

use arc_swap::ArcSwap;
use sluicegate_base::bounds::{
    HEALTH_WATCHES, KEY_BODIES_WITHOUT_MEMORY, RECEIVED_WITHOUT_MEMORY, REPLAYS_WITHOUT_MEMORY,
    UNREAD_WITHOUT_MEMORY,
};
use sluicegate_base::clock;
use sluicegate_decide::in_force::InForce;
use sluicegate_decide::state::CounterStorage;
use sluicegate_decide::temporary_rules::{TemporaryRule, TemporaryRules};
use sluicegate_limiter::Timestamp;
use tokio::sync::Semaphore;

use super::cut_off::CutOff;
use crate::snapshot::Snapshot;
use sluicegate_acme::AcmeState;
use sluicegate_budgets::{
    CapCounts, ClientAccounts, ClientBytes, ClientStreams, ConnectionLimiter, DelayedRequests,
    FileShares, OpenFiles, OriginRequests, Resource, TlsHandshakes,
};
use sluicegate_cache::ResponseCache;
use sluicegate_config::AvailableMemory;
use sluicegate_config::rules::Rules;
use sluicegate_decide::admission::KeySeed;
use sluicegate_history::{CounterReading, GatewayHistory, MarkKind};
use sluicegate_origin::{HopName, OriginConnector};
use sluicegate_record::{Outcome, RequestRecorder};
use sluicegate_tls::Certificates;
use sluicegate_usage::UsageSamples;

/// Shared by all requests of the process.
pub struct SharedState {
    /// The secret of the limits' keys.
    pub seed: KeySeed,
    /// The name of this process in `CDN-Loop`.
    pub hop: HopName,
    /// Access log and metrics.
    pub recorder: RequestRecorder,
    /// The certificates that are installed at run time.
    pub certificates: Arc<Certificates>,
    /// The rules that operators set for a time.
    pub temporary: Arc<TemporaryRules>,
    /// The cache of responses.
    pub cache: &'static ResponseCache,
    /// The accounts of clients, from which each of these budgets takes a client's share.
    pub accounts: ClientAccounts,
    /// Limits the connections of clients.
    pub connection_limiter: Arc<ConnectionLimiter>,
    /// Bounds the TLS handshakes in progress.
    pub tls_handshakes: TlsHandshakes,
    /// Bounds the streams of HTTP/2 of clients.
    pub client_streams: Arc<ClientStreams>,
    /// Bounds the calls that watch the health of a rate limit service.
    pub health_watches: Semaphore,
    /// Bounds the requests in flight to origins.
    pub origin_requests: Arc<OriginRequests>,
    /// Bounds the unread bytes of answers.
    pub unread_answers: Arc<ClientBytes>,
    /// Counts the answers that are sent uncompressed because their encoder finds no room among those bytes.
    pub uncompressed: CapCounts,
    /// Bounds the bytes of bodies that are read for keys.
    pub key_bodies: Arc<ClientBytes>,
    /// Bounds the bytes of bodies that are kept for another attempt.
    pub replays: Arc<ClientBytes>,
    /// The bytes of heads that are not whole, and of bodies that were sent ahead.
    pub received: Arc<ClientBytes>,
    /// Opens and keeps connections to origins.
    pub origins: OriginConnector,
    /// The delayed requests.
    pub delayed: DelayedRequests,
    /// Ends what is in flight when a drain has lasted too long.
    pub cut_off: CutOff,
    /// The largest uses of the limits' keys.
    pub usage: Arc<UsageSamples>,
    /// The figures and events of the last hour.
    pub history: GatewayHistory,
    /// The pending proofs and the state of ordered certificates.
    pub acme: Arc<AcmeState>,
    snapshot: ArcSwap<Snapshot>,
}

impl SharedState {
    /// Returns what a temporary rule does, in few words, with the hash of its key where its limit has one.
    #[must_use]
    pub fn rule_summary(&self, rule: &TemporaryRule) -> String {
        let snapshot = self.snapshot();
        let limit = rule
            .target
            .limit()
            .and_then(|name| snapshot.compiled.limits.get(name));
        let named = limit.and_then(|limit| limit.key_of_rule(&rule.target, &self.seed));
        rule.summary(named.map(|named| named.key))
    }

    pub(super) fn new(
        rules: Rules,
        recorder: RequestRecorder,
        storage: &CounterStorage,
        seed: KeySeed,
        open_files: OpenFiles,
        now: Timestamp,
    ) -> Self {
        let cache = ResponseCache::of_the_process(&rules.cache);
        let connection_limiter = Arc::new(ConnectionLimiter::new(open_files, &rules));
        let origin_requests = OriginRequests::new(open_files, &rules);
        let most_idle = FileShares::new(open_files, &rules).most_idle();
        let origins = OriginConnector::new(most_idle);
        let memory = AvailableMemory::of_the_process().map(|memory| memory.bytes);
        let state_dir = rules.server.state_dir.clone();
        recorder.follow_collector(&rules);
        let metrics = &recorder.metrics;
        let mut snapshot = Snapshot::compile(rules, None, storage, metrics, &seed, now);
        if let Some(directory) = &state_dir {
            snapshot.compiled.temporary.keep_in(directory, now);
        }
        if snapshot.compiled.temporary.limit_edits(now) != snapshot.compiled.limit_edits {
            let rules = snapshot.compiled.rules.clone();
            snapshot = Snapshot::compile(rules, Some(&snapshot), storage, metrics, &seed, now);
        }
        if let Some(store) = &snapshot.store {
            store.start();
        }
        Self {
            hop: HopName::new(seed.tag([&b"CDN-Loop"[..]])),
            seed,
            recorder,
            certificates: Arc::clone(&snapshot.certificates),
            temporary: Arc::clone(&snapshot.compiled.temporary),
            cache,
            accounts: ClientAccounts::default(),
            connection_limiter,
            tls_handshakes: TlsHandshakes::default(),
            client_streams: Arc::default(),
            health_watches: Semaphore::new(HEALTH_WATCHES),
            origin_requests: Arc::new(origin_requests),
            unread_answers: Arc::new(ClientBytes::new(
                Resource::UnreadBytes,
                memory.map_or(UNREAD_WITHOUT_MEMORY, |memory| memory / 4),
            )),
            uncompressed: CapCounts::default(),
            key_bodies: Arc::new(ClientBytes::new(
                Resource::KeyBodyBytes,
                memory.map_or(KEY_BODIES_WITHOUT_MEMORY, |memory| memory / 16),
            )),
            replays: Arc::new(ClientBytes::new(
                Resource::ReplayBytes,
                memory.map_or(REPLAYS_WITHOUT_MEMORY, |memory| memory / 16),
            )),
            received: Arc::new(ClientBytes::new(
                Resource::ReceivedBytes,
                memory.map_or(RECEIVED_WITHOUT_MEMORY, |memory| memory / 16),
            )),
            origins,
            delayed: DelayedRequests::default(),
            cut_off: CutOff::default(),
            usage: Arc::default(),
            history: GatewayHistory::new(now),
            acme: Arc::default(),
            snapshot: ArcSwap::from_pointee(snapshot),
        }
    }

    /// Returns the snapshot in force.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Returns a reader of a part of the snapshot in force, for a background task.
    #[must_use]
    pub fn in_force<T>(
        self: &Arc<Self>,
        read: impl Fn(&Snapshot) -> T + Send + Sync + 'static,
    ) -> InForce<T> {
        let shared = Arc::clone(self);
        InForce::new(move || read(&shared.snapshot.load()))
    }

    /// Brings the unfinished step of the history up to date.
    pub fn look_at_history(&self) {
        self.history.look(|| self.counter_reading(&self.snapshot()));
    }

    /// Finishes a step of the history.
    pub fn close_history_step(&self) {
        (self.history).close_step(|| self.counter_reading(&self.snapshot()));
    }

    /// Marks an event in the history: its sort, the object that it is about, and a sentence.
    pub fn mark(&self, kind: MarkKind, name: &str, text: &str) {
        self.history.mark(clock::now(), kind, name, text);
    }

    fn counter_reading(&self, snapshot: &Snapshot) -> CounterReading {
        let connections = self.connection_limiter.tallies().held;
        let metrics = &self.recorder.metrics;
        CounterReading::new(metrics, &snapshot.pools, connections, clock::now())
    }

    /// Records a request.
    pub fn record(&self, outcome: &Outcome<'_>) {
        self.recorder.record(outcome);
    }

    /// Compiles `rules` into the snapshot that follows `previous`, puts it in force, and returns its generation. Only the reload calls
    /// this, so compile and swap see the same previous snapshot.
    pub(super) fn put_in_force(
        &self,
        rules: Rules,
        previous: &Snapshot,
        storage: &CounterStorage,
        now: Timestamp,
    ) -> u64 {
        self.cache.storage.resize(rules.cache.max_bytes);
        let metrics = &self.recorder.metrics;
        let next = Snapshot::compile(rules, Some(previous), storage, metrics, &self.seed, now);
        // The last look at the counters of routes that are removed.
        self.history.look(|| self.counter_reading(previous));
        metrics.retain_routes(next.routes.iter().map(|route| &route.metrics));
        self.connection_limiter.follow(&next.compiled.rules);
        self.origin_requests.follow(&next.compiled.rules);
        if let Some(store) = &next.store {
            store.start();
        }
        let generation = next.generation;
        self.snapshot.store(Arc::new(next));
        generation
    }
}
