//! Implements [`AdminView`] for the running gateway, in one place.

use std::net::SocketAddr;
use std::sync::Arc;

use sluicegate_base::bounds::RELOAD_PATIENCE;
use sluicegate_base::clock;
use sluicegate_limiter::{ActiveBan, KeyHash, Timestamp};
use sluicegate_redis_link::LinkStatus;
use tracing::{info, warn};

use super::cache::CacheView;
use super::certificates::CertificateView;
use super::keys::{KeyEdit, KeyRequestError, KeyResult, KeySelector, KeyView};
use super::limit_view::{BansView, LimitView, PermitsView, ShareView};
use super::origin_view::{OriginView, ServerView};
use super::origins::ServerCommand;
use super::view::{
    AcmeView, AdminView, BannedKeysView, ConfigurationView, ConnectionsView, ProcessTimes,
    ReadyState, ReloadView, TopKeysView,
};
use crate::acme::OrderOutcome;
use crate::admission::{ActiveBans, ActiveLimit, NamedKey};
use crate::cache::purge::PurgeScope;
use crate::config::MemoryPlan;
use crate::explain::RouteExplained;
use crate::origin::{AttemptOutcome, OriginServer, ServerPool};
use crate::process::{GatewayProcess, Phase, ReloadReport};
use crate::record::RequestRecorder;
use crate::state::DirectoryHealth;
use crate::store::{KeyChange, RemoteWriteStats, ReplicationStats};

impl AdminView for GatewayProcess {
    fn token(&self) -> Option<Arc<str>> {
        self.shared.snapshot().rules.admin.token_file.clone()
    }

    fn readiness(&self) -> ReadyState {
        match self.lifecycle.phase() {
            Phase::Starting => ReadyState::Starting,
            Phase::Serving if !self.lifecycle.is_store_ready(&self.shared.snapshot()) => {
                ReadyState::StoreNotReached
            }
            Phase::Serving => ReadyState::Ready,
            Phase::Draining => ReadyState::Draining,
        }
    }

    fn times(&self) -> ProcessTimes {
        ProcessTimes {
            started: self.lifecycle.started,
            now: clock::now(),
            wall: clock::wall(),
        }
    }

    fn configuration(&self) -> ConfigurationView {
        let snapshot = self.shared.snapshot();
        let report = self.reloader.last_reload();
        ConfigurationView {
            file: Some(self.reloader.file().to_owned()),
            generation: snapshot.generation,
            loaded_at: Some(snapshot.compiled_at),
            broken_files: snapshot.rules.broken_files(),
            pending_restart: report
                .as_ref()
                .map_or_else(Vec::new, |report| report.pending_restart.clone()),
            last_reload: report.map(ReloadView::from),
        }
    }

    fn written(&self) -> serde_json::Value {
        self.shared.snapshot().rules.written.for_readers()
    }

    fn routes_explained(&self) -> Vec<serde_json::Value> {
        let snapshot = self.shared.snapshot();
        let rules = &snapshot.rules;
        let routes = rules.routes.iter();
        let explained =
            routes.map(|route| serde_json::to_value(RouteExplained::without_secrets(route, rules)));
        explained.filter_map(Result::ok).collect()
    }

    fn reload(&self) -> Option<ReloadView> {
        let ended = self.reloader.requests.wish(RELOAD_PATIENCE);
        let report = self.reloader.last_reload().filter(|_| ended)?;
        Some(report.into())
    }

    fn memory(&self) -> Option<MemoryPlan> {
        Some(MemoryPlan::of(&self.shared.snapshot().rules))
    }

    fn connections(&self) -> Option<ConnectionsView> {
        let rules = &self.shared.snapshot().rules;
        Some(ConnectionsView {
            tallies: self.shared.connection_limiter.tallies(),
            caps: self.shared.connection_limiter.caps(&rules.server.defence),
            requests: self.shared.origin_requests.tallies(),
            request_caps: self.shared.origin_requests.caps(rules),
            unread: self.shared.unread_answers.tallies(),
            most_unread: self.shared.unread_answers.most(rules),
        })
    }

    fn limits(&self) -> Vec<LimitView> {
        let now = clock::now();
        self.shared
            .snapshot()
            .limits
            .values()
            .map(|active| sample(active, now))
            .collect()
    }

    fn top(&self, limit: &str, most: usize) -> Option<TopKeysView> {
        let now = clock::now();
        // A handle of the table alone: the walk may outlast a reload and must keep no snapshot alive.
        let active = self.shared.snapshot().limits.get(limit).map(Arc::clone)?;
        Some(TopKeysView {
            limit: sample(&active, now),
            ages: active.limit.ages(active.moment(now)),
            fullest: active.limit.top(most, active.moment(now)),
        })
    }

    fn bans(&self, limit: &str, most: usize) -> Option<BannedKeysView> {
        let now = clock::now();
        // A handle of the bans alone: the walk must keep no snapshot alive.
        let active = self.shared.snapshot().limits.get(limit).map(Arc::clone)?;
        let ActiveBans {
            bans,
            survival: persistence,
        } = active.bans.as_ref()?;
        Some(BannedKeysView {
            bans: BansView::sample(bans, persistence, now),
            keys: bans.top(most, now),
        })
    }

    fn lift_ban(&self, limit: &str, key: KeyHash) -> Option<Option<ActiveBan>> {
        let active = self.shared.snapshot().limits.get(limit).map(Arc::clone)?;
        let bans = &active.bans.as_ref()?.bans;
        let lifted = bans.lift(key, clock::now());
        // The used units would ban the key again with its next request.
        let named = NamedKey::of_hash(key);
        let clear = active.set_key(&named, None, KeyChange::Cleared, clock::now());
        if let Some(Err(why)) = wait_for(clear) {
            warn!(
                "limit {limit}: the counters of a key whose ban is lifted stay in the store: {why}"
            );
        }
        Some(lifted)
    }

    fn key(&self, limit: &str, which: &KeySelector, change: &KeyEdit) -> KeyResult {
        // A handle of the limit alone: the walk must keep no snapshot alive.
        let active = self.shared.snapshot().limits.get(limit).map(Arc::clone);
        let active = active.ok_or(KeyRequestError::NoLimit)?;
        let named = match which {
            KeySelector::Hash(key) => NamedKey::of_hash(*key),
            KeySelector::Values(values) => active
                .name_key(values, &self.shared.seed)
                .map_err(KeyRequestError::BadValues)?,
        };
        let now = clock::now();
        active.catch_up(&named, now);
        let was_banned = is_banned(&active, named.key, now);
        self.change_key(&active, &named, *change, now)?;
        let now = clock::now();
        Ok(KeyView {
            key: named.key,
            state: wait_for(active.key_state(&named, now)).ok_or_else(no_runtime)?,
            now,
            was_banned,
        })
    }

    fn state(&self) -> Option<DirectoryHealth> {
        self.reloader.storage.condition()
    }

    fn store(&self) -> Option<LinkStatus> {
        Some(self.shared.snapshot().store.as_ref()?.status())
    }

    fn remote_write_stats(&self) -> Option<RemoteWriteStats> {
        Some(self.shared.snapshot().store.as_ref()?.remote_write_stats())
    }

    fn replication_stats(&self) -> Option<ReplicationStats> {
        Some(
            self.shared
                .snapshot()
                .store
                .as_ref()?
                .replication_stats(clock::now()),
        )
    }

    fn acme(&self) -> Option<AcmeView> {
        let snapshot = self.shared.snapshot();
        let rules = snapshot.rules.acme.as_ref()?;
        Some(AcmeView {
            directory: Arc::clone(&rules.directory),
            statuses: self.shared.acme.statuses(),
            orders: OrderOutcome::ALL.map(|outcome| (outcome, self.shared.acme.orders(outcome))),
        })
    }

    fn certificates(&self) -> Vec<CertificateView> {
        CertificateView::all(&self.shared.snapshot())
    }

    fn cache(&self) -> Option<CacheView> {
        let storage = &self.shared.cache.storage;
        let stores = self.shared.snapshot().stores;
        stores.then(|| CacheView::of(storage.usage(), &storage.stats))
    }

    fn purge(&self, purge: &PurgeScope) -> u64 {
        self.shared.cache.storage.purge(purge)
    }

    fn origins(&self) -> Vec<OriginView> {
        self.shared
            .snapshot()
            .pools
            .values()
            .map(|pool| show(pool))
            .collect()
    }

    fn command_server(
        &self,
        origin: &str,
        server: SocketAddr,
        order: ServerCommand,
    ) -> Option<ServerView> {
        let pool = self.shared.snapshot().pools.get(origin).map(Arc::clone)?;
        let servers = pool.servers();
        let server = servers.iter().find(|each| each.address == server)?;
        let now = clock::now();
        let (changed, done) = match order {
            ServerCommand::Drain => (server.server_state.drain(), "drains"),
            ServerCommand::Undrain => (server.server_state.undrain(now), "is asked again"),
        };
        if changed {
            info!(
                "origin {origin}: by the operator's word server {} {done}",
                server.address
            );
        }
        Some(show_server(server, now))
    }

    fn routes(&self) -> usize {
        self.shared.snapshot().routes.len()
    }

    fn recorder(&self) -> &RequestRecorder {
        &self.shared.recorder
    }
}

impl GatewayProcess {
    fn change_key(
        &self,
        active: &ActiveLimit,
        named: &NamedKey,
        change: KeyEdit,
        now: Timestamp,
    ) -> Result<(), KeyRequestError> {
        let bans = active.bans.as_ref().map(|active| &active.bans);
        match change {
            KeyEdit::Look => return Ok(()),
            KeyEdit::Ban(length) => {
                let bans = bans.ok_or(KeyRequestError::NoBan)?;
                let max = bans.rules().max();
                if length > max {
                    return Err(KeyRequestError::LongBan(max));
                }
                let begun = bans.ban(named.key, length, now).banned();
                return begun.map(drop).ok_or(KeyRequestError::NoRoom);
            }
            KeyEdit::Clear | KeyEdit::Use(_) => {}
        }
        if active.is_shared() && !active.reaches_store(named) {
            return Err(match named.is_by_values() {
                false => KeyRequestError::NeedsValues,
                true => KeyRequestError::Store("it was not reached yet".to_owned()),
            });
        }
        let told = match change {
            KeyEdit::Clear => KeyChange::Cleared,
            KeyEdit::Look | KeyEdit::Use(_) | KeyEdit::Ban(_) => KeyChange::Set,
        };
        if told == KeyChange::Cleared
            && let Some(bans) = bans
        {
            bans.lift(named.key, now);
        }
        let set = active.set_key(named, change.used(), told, now);
        wait_for(set)
            .ok_or_else(no_runtime)?
            .map(drop)
            .map_err(KeyRequestError::Store)
    }
}

fn no_runtime() -> KeyRequestError {
    KeyRequestError::Store("it cannot be asked here".to_owned())
}

fn is_banned(active: &ActiveLimit, key: KeyHash, now: Timestamp) -> bool {
    let bans = active.bans.as_ref();
    bans.is_some_and(|active| active.bans.active(key, now).is_some())
}

/// Waits for a future that may call the store, on a thread for blocking work; `None` on a thread that belongs to no runtime.
fn wait_for<T>(work: impl Future<Output = T>) -> Option<T> {
    let runtime = tokio::runtime::Handle::try_current().ok()?;
    Some(runtime.block_on(work))
}

impl From<ReloadReport> for ReloadView {
    fn from(report: ReloadReport) -> Self {
        Self {
            at: report.at,
            result: report.error.map_or(Ok(()), Err),
            changes: report.changes,
        }
    }
}

fn sample(active: &ActiveLimit, now: Timestamp) -> LimitView {
    let counters = (&active.limit, &active.survival);
    let key = active.key.to_string();
    let view = LimitView::sample(&active.name, key, counters, active.moment(now));
    LimitView {
        action: active.action.name(),
        enforce: active.enforce.to_string(),
        shadow_rates: active
            .shadow_rates
            .as_ref()
            .map(|limit| limit.rates().clone()),
        bans: active.bans.as_ref().map(
            |ActiveBans {
                 bans,
                 survival: persistence,
             }| BansView::sample(bans, persistence, now),
        ),
        permits: active.permits.as_ref().map(PermitsView::sample),
        share: view.share.map(|share| ShareView {
            latest: active.share_news.latest(),
            ..share
        }),
        ..view
    }
}

fn show(pool: &ServerPool) -> OriginView {
    let now = clock::now();
    let queue = pool.queue.as_ref();
    OriginView {
        name: pool.name.clone(),
        servers: pool
            .servers()
            .iter()
            .map(|server| show_server(server, now))
            .collect(),
        retries: pool.budget.retries(),
        retries_not_granted: pool.budget.exhausted(),
        pending: queue.map_or(0, |queue| queue.waiting()),
        refused: queue.map_or(0, |queue| queue.refused()),
        unresolved: pool.unresolved(),
        failures: pool.failures.totals(),
        last_error: pool.failures.latest(),
    }
}

fn show_server(server: &OriginServer, now: Timestamp) -> ServerView {
    let server_state = &server.server_state;
    ServerView {
        address: server.address,
        state: server.state(now),
        weight: server.weight,
        role: server.role,
        in_flight: server_state.in_flight(),
        connections: server.open_connections(),
        outcomes: AttemptOutcome::ALL.map(|outcome| server_state.count(outcome)),
        ejections: server_state.ejections(),
        health_changes: server_state.health_changes(),
        last_failure: server_state.last_failure(),
        failures: server_state.failure_log.totals(),
        last_error: server_state.failure_log.latest(),
    }
}
