//! Owns the snapshot: one configuration compiled for requests, complete and immutable.
//!
//! A request takes it once and keeps it to its end, so it never sees half a reload. Compiling carries over the state that must
//! survive: the counters of limits whose key is unchanged, and pools whose rules are, with their health.

mod addresses;

use std::collections::BTreeMap;
use std::sync::Arc;

use sluicegate_base::geo::{GeoDatabases, GeoField};
use sluicegate_decide::state::CounterStorage;
use sluicegate_limiter::{Seed, Timestamp};

use sluicegate_config::rules::{
    FixedResponse, HeaderCase, Name, Protocol, RedirectRules, RouteAction, RouteCacheRules,
    RouteRules, Rules,
};
use sluicegate_decide::admission::{KeySeed, KeyTextRules, LimitEnvironment};
use sluicegate_decide::compiled_rules::{CompiledRoute, CompiledRules};
use sluicegate_decide::store::CountingStore;
use sluicegate_origin::ServerPool;
use sluicegate_record::{RequestMetrics, RouteMetrics};
use sluicegate_store::{Store, SystemEnvironment};
use sluicegate_tls::{self as tls, Certificates, Listeners};

pub use self::addresses::keep_addresses;

/// One compiled configuration.
pub struct Snapshot {
    /// The part that the stages that decide read.
    pub compiled: CompiledRules,
    /// Counts configurations since the start of the process, from 1.
    pub generation: u64,
    /// The databases of the places by which rejected clients are counted; `None` where no operator is shown them.
    pub client_places: Option<GeoDatabases>,
    /// The part that serves, of each of the compiled routes.
    pub routes: Vec<Arc<ActiveRoute>>,
    /// Every pool.
    pub pools: BTreeMap<Name, Arc<ServerPool>>,
    /// The configuration of each bound address.
    pub listeners: Listeners,
    /// The certificates that are installed at run time; the same in every snapshot.
    pub certificates: Arc<Certificates>,
    /// The store; `None` without `[store]`. The code that puts the snapshot in force starts it.
    pub store: Option<Arc<Store>>,
    /// True if some route caches.
    pub stores: bool,
    /// True if some listener redirects to https.
    pub redirects: bool,
    /// True if an origin of a route gets the names of fields in the case in which they were sent.
    pub keeps_case: bool,
}

/// A route in force.
pub struct ActiveRoute {
    /// The part of it that the stages that decide read.
    pub compiled: Arc<CompiledRoute>,
    /// The action for an admitted request.
    pub action: ActiveAction,
    /// The caching rules; `None` for no caching.
    pub cache: Option<RouteCacheRules>,
    /// Its handles of the metrics, which also contain its name and those of its limits.
    pub metrics: RouteMetrics,
}

/// The action for an admitted request.
pub enum ActiveAction {
    /// It is forwarded to the pool.
    Forward(Arc<ServerPool>),
    /// It is answered here.
    Respond(Arc<FixedResponse>),
    /// It is answered with a redirect.
    Redirect(Arc<RedirectRules>),
}

impl ActiveAction {
    /// Returns whether the action is to forward to an origin that gets the names of fields in the case in which they were sent.
    #[must_use]
    pub fn keeps_case(&self) -> bool {
        matches!(self, Self::Forward(pool) if pool.rules.header_case == HeaderCase::AsSent)
    }

    /// Returns whether a server may report a request as unprocessed, so that it is sent again whatever its method: over HTTP/2.
    #[must_use]
    pub fn may_leave_requests(&self) -> bool {
        matches!(self, Self::Forward(pool) if pool.rules.transport.protocol != Protocol::Http1)
    }
}

impl Snapshot {
    /// Compiles `rules`; `previous` is the snapshot in force, if any, `storage` the storage of counters; keys that the rules
    /// name are hashed under `seed`.
    #[must_use]
    pub fn compile(
        rules: Rules,
        previous: Option<&Snapshot>,
        storage: &CounterStorage,
        metrics: &RequestMetrics,
        seed: &KeySeed,
        now: Timestamp,
    ) -> Self {
        let certificates = previous
            .map(|snapshot| Arc::clone(&snapshot.certificates))
            .unwrap_or_default();
        let pools = compile_pools(&rules, previous, seed, now);
        let store = compile_store(&rules, previous, storage, metrics);
        let counting = store.clone().map(|store| store as Arc<dyn CountingStore>);
        let environment = LimitEnvironment {
            storage,
            store: counting.as_ref(),
            seed,
            key_texts: KeyTextRules::new(&rules),
            now,
        };
        let previous_compiled = previous.map(|snapshot| &snapshot.compiled);
        let compiled = CompiledRules::compile(rules, previous_compiled, environment);
        let rules = &compiled.rules;
        let routes = rules.routes.iter().zip(&compiled.routes);
        let routes: Vec<Arc<ActiveRoute>> = routes
            .map(|(rules, route)| Arc::new(active_route(rules, route, &pools, metrics)))
            .collect();
        Self {
            client_places: client_places(rules),
            generation: previous.map_or(0, |snapshot| snapshot.generation) + 1,
            stores: rules.routes.iter().any(|route| route.cache.is_some()),
            redirects: (rules.listeners.iter())
                .any(|listener| listener.redirect_to_https.is_some()),
            keeps_case: routes.iter().any(|route| route.action.keeps_case()),
            routes,
            listeners: tls::compile(
                &rules.listeners,
                &certificates,
                previous.map(|snapshot| &snapshot.listeners),
            ),
            certificates,
            pools,
            store,
            compiled,
        }
    }
}

/// Returns the databases of countries and networks for operators; `None` without a token, since nobody is shown clients then.
fn client_places(rules: &Rules) -> Option<GeoDatabases> {
    rules.admin.token_file.as_ref()?;
    let databases = || rules.geo.databases.iter().map(|file| &file.database);
    let has = |field: &GeoField| databases().any(|database| database.fields().contains(field));
    let fields = [GeoField::Country, GeoField::Asn].into_iter().filter(has);
    Some(GeoDatabases::new(databases(), &fields.collect::<Vec<_>>()))
}

/// Keeps a pool whose rules are unchanged; where they changed, keeps the state of its servers. Closes idle connections to removed origins.
fn compile_pools(
    rules: &Rules,
    previous: Option<&Snapshot>,
    seed: &KeySeed,
    now: Timestamp,
) -> BTreeMap<Name, Arc<ServerPool>> {
    // Gateways with one store secret use the same values of sticky cookies.
    let secret = |rules: &Rules| rules.store.as_ref().and_then(|store| store.secret_file);
    let seed = match secret(rules) {
        Some(secret) => KeySeed::from_seed(Seed::from_bytes(secret.0)),
        None => seed.clone(),
    };
    let same_secret =
        previous.is_some_and(|before| secret(&before.compiled.rules) == secret(rules));
    let kept = |name: &Name| previous.and_then(|snapshot| snapshot.pools.get(name));
    let before = previous.into_iter().flat_map(|snapshot| &snapshot.pools);
    for (_, removed) in before.filter(|(name, _)| !rules.origins.contains_key(*name)) {
        removed.close_idle();
    }
    rules
        .origins
        .iter()
        .map(|(name, origin)| {
            let before = kept(name);
            let pool = before
                .filter(|pool| same_secret && pool.rules == *origin)
                .cloned()
                .unwrap_or_else(|| {
                    let before = before.map(|pool| &**pool);
                    Arc::new(ServerPool::new(
                        name.clone(),
                        origin.clone(),
                        &seed,
                        before,
                        now,
                    ))
                });
            (name.clone(), pool)
        })
        .collect()
}

/// Keeps a store whose rules are unchanged, with its connections.
fn compile_store(
    rules: &Rules,
    previous: Option<&Snapshot>,
    storage: &CounterStorage,
    metrics: &RequestMetrics,
) -> Option<Arc<Store>> {
    let rules = rules.store.as_ref()?;
    let before = previous.and_then(|snapshot| snapshot.store.as_ref());
    match before {
        Some(store) if store.rules() == rules => Some(Arc::clone(store)),
        _ => {
            let before = before.map(|store| &**store);
            // A store before it has heard of the fleet since.
            let known_gateways = storage.known_gateways().filter(|_| before.is_none());
            let environment = Arc::new(SystemEnvironment);
            let observer = Arc::clone(&metrics.store);
            let store = Store::new(rules.clone(), known_gateways, environment, observer, before);
            Some(Arc::new(store))
        }
    }
}

/// Returns what serves the compiled route with these rules.
fn active_route(
    rules: &RouteRules,
    route: &Arc<CompiledRoute>,
    pools: &BTreeMap<Name, Arc<ServerPool>>,
    metrics: &RequestMetrics,
) -> ActiveRoute {
    let limits = route.limits.iter().map(|limit| limit.name.clone());
    ActiveRoute {
        action: match &rules.action {
            RouteAction::Forward(origin) => ActiveAction::Forward(Arc::clone(&pools[origin])),
            RouteAction::Respond(response) => ActiveAction::Respond(Arc::new(response.clone())),
            RouteAction::Redirect(redirect) => ActiveAction::Redirect(Arc::clone(redirect)),
        },
        cache: rules.cache.clone(),
        metrics: metrics.route(&rules.name, &limits.collect::<Vec<_>>()),
        compiled: Arc::clone(route),
    }
}
