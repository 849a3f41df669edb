//! Owns the snapshot: one configuration compiled for requests, complete and immutable.
//!
//! A request takes it once and keeps it to its end, so it never sees half a reload. Compiling carries over the state that must
//! survive: the counters of limits whose key is unchanged, and pools whose rules are, with their health.

mod addresses;
mod named_fields;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use sluicegate_base::crawler::CrawlerRegistry;
use sluicegate_base::geo::{GeoDatabases, GeoField};
use sluicegate_base::received::ReceivedFields;
use sluicegate_decide::challenge::{ChallengeCookies, ChallengePage, OpenChallenge, SigningKeys};
use sluicegate_decide::client::{ClientLists, FieldPolicy, ListEffect};
use sluicegate_decide::rejection::{LimitRejection, RejectionReason};
use sluicegate_decide::request_id::RequestId;
use sluicegate_decide::response::{RefusalContext, RefusalResponse, rate_limit_policy, varies};
use sluicegate_decide::route::{RequestListener, RouteTable};
use sluicegate_decide::state::CounterStorage;
use sluicegate_decide::temporary_rules::{LimitEdits, TemporaryRules};
use sluicegate_decide::trace_fields::TRACEPARENT;
use sluicegate_decide::url_scheme::UrlScheme;
use sluicegate_limiter::{Seed, Timestamp};

use crate::config::Action;
use crate::config::rules::{
    FixedResponse, ForwardedSource, HeaderCase, KeyPart, Name, Protocol, RedirectRules,
    RefusalRules, RouteAction, RouteCacheRules, RouteRules, Rules, ShapeRules, ValueSource,
};
use crate::origin::ServerPool;
use crate::record::{RequestMetrics, RouteMetrics};
use crate::store::{Store, SystemEnvironment};
use crate::tls::{self, Certificates, Listeners};
use sluicegate_decide::admission::{
    ActiveLimit, AdmissionReport, KeySeed, KeyTextRules, LimitEnvironment, RouteLimits, ScaledLimit,
};
use sluicegate_decide::store::CountingStore;

pub use self::addresses::keep_addresses;

/// One compiled configuration.
pub struct Snapshot {
    /// The rules that it was compiled from.
    pub rules: Rules,
    /// Counts configurations since the start of the process, from 1.
    pub generation: u64,
    /// The databases that say where clients are.
    pub geo: GeoDatabases,
    /// The databases of the places by which rejected clients are counted; `None` where no operator is shown them.
    pub client_places: Option<GeoDatabases>,
    /// The databases that name the networks of clients, for temporary rules.
    pub networks: GeoDatabases,
    /// The rules that operators set for a time; the same in every snapshot.
    pub temporary: Arc<TemporaryRules>,
    /// The temporary rules about limits with which they were compiled.
    pub limit_edits: LimitEdits,
    /// The crawlers with their proofs.
    pub crawlers: CrawlerRegistry,
    /// Finds the index of a request's route in [`Self::routes`].
    pub router: RouteTable,
    /// The routes in file order.
    pub routes: Vec<Arc<ActiveRoute>>,
    /// Every limit, used or not.
    pub limits: BTreeMap<Name, Arc<ActiveLimit>>,
    /// Every pool.
    pub pools: BTreeMap<Name, Arc<ServerPool>>,
    /// The configuration of each bound address.
    pub listeners: Listeners,
    /// The certificates that are installed at run time; the same in every snapshot.
    pub certificates: Arc<Certificates>,
    /// The store; `None` without `[store]`. The code that puts the snapshot in force starts it.
    pub store: Option<Arc<Store>>,
    /// The cookies of the challenges of all limits.
    pub challenge_cookies: ChallengeCookies,
    /// True if some route caches.
    pub stores: bool,
    /// True if some route names listeners.
    names_listeners: bool,
    /// True if some listener redirects to https.
    pub redirects: bool,
    /// True if an origin of a route gets the names of fields in the case in which they were sent.
    pub keeps_case: bool,
    /// The request fields, other than `Host`, on which a rejection may depend.
    fields: Vec<HeaderName>,
    /// The request fields that may pass.
    pub field_policy: FieldPolicy,
    /// The request fields that only the gateway may write: marks of limits.
    pub marks: Vec<HeaderName>,
}

/// A route in force.
pub struct ActiveRoute {
    /// The lists that apply to its clients, those of `[client]` too.
    pub lists: ClientLists,
    /// Its limits, in the order written.
    pub limits: RouteLimits,
    /// The action for an admitted request.
    pub action: ActiveAction,
    /// `RateLimit-Policy`; `None` where no limit has this style, or where it differs between requests.
    policy: Option<HeaderValue>,
    /// The text of rejections; `None` leaves that to the limit that rejects.
    pub refusal: Option<Arc<RefusalRules>>,
    /// True if a limit counts by a parameter of the path, or a field is made of one, which then must have one reading.
    pub reads_parameters: bool,
    /// The parameters of the path that its limits count by.
    pub parameters: Box<[Arc<str>]>,
    /// True if a limit counts by the path or by a parameter of it, which no client may then choose.
    pub counts_by_path: bool,
    /// True if a limit takes its key or its reserve from the body, which is then read before the decision.
    pub reads_body: bool,
    /// True if a key of its limits is in the query, with which frameworks merge the parameters of a body.
    pub compares_body: bool,
    /// True if a request without a verified certificate of its client is rejected.
    pub needs_certificate: bool,
    /// Largest request body, in bytes.
    pub max_body_bytes: u64,
    /// The caching rules; `None` for no caching.
    pub cache: Option<RouteCacheRules>,
    /// The edits of requests and answers; `None` where they pass unchanged.
    pub shape: Option<Arc<ShapeRules>>,
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

impl ActiveRoute {
    /// Returns `RateLimit-Policy` for the limits in the report: on most routes the same for every request.
    #[must_use]
    pub fn policy(&self, judged: &AdmissionReport) -> Option<HeaderValue> {
        if self.limits.are_together() {
            self.policy.clone()
        } else {
            rate_limit_policy(judged.items(&self.limits))
        }
    }

    /// Returns the response to a request on this route that a limit rejects; `report` is that of the limits, where they were asked.
    #[must_use]
    pub fn refusal(
        &self,
        rejection: &LimitRejection,
        report: Option<&AdmissionReport>,
        headers: &ReceivedFields,
        request_id: RequestId,
        scheme: UrlScheme,
    ) -> RefusalResponse {
        let page = match rejection.reason {
            RejectionReason::Challenged(open) => self.page(rejection, &open, scheme),
            _ => None,
        };
        if let Some(page) = page {
            return RefusalResponse::of_page(page);
        }
        let scene = RefusalContext {
            route: self.metrics.name(),
            wording: self.refusal.as_ref(),
            headers,
            request_id,
        };
        let limit = match report.filter(|_| rejection.reason.shows_status()) {
            Some(report) => {
                let check = report.refusing_check();
                check.and_then(|check| report.items(&self.limits).nth(check))
            }
            None => {
                let limit = self.limits.get(usize::from(rejection.limit));
                limit.map(|limit| &limit.items)
            }
        };
        RefusalResponse::new(rejection, limit, &scene)
    }

    /// Returns the page with a challenge of the limit that rejects.
    fn page(
        &self,
        rejection: &LimitRejection,
        open: &OpenChallenge,
        scheme: UrlScheme,
    ) -> Option<ChallengePage> {
        let limit = self.limits.get(usize::from(rejection.limit))?;
        limit.challenge.as_ref()?.page(open, scheme)
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
        let temporary = previous
            .map(|snapshot| Arc::clone(&snapshot.temporary))
            .unwrap_or_default();
        let limit_edits = temporary.limit_edits(now);
        let limits = compile_limits(&rules, previous, &limit_edits, environment);
        let routes: Vec<Arc<ActiveRoute>> = rules
            .routes
            .iter()
            .map(|route| Arc::new(compile_route(route, &rules, &limits, &pools, metrics)))
            .collect();
        Self {
            geo: geo_databases(&rules),
            client_places: client_places(&rules),
            networks: network_databases(&rules),
            temporary,
            limit_edits,
            crawlers: crawlers(&rules, previous),
            router: RouteTable::compile(&rules.routes, rules.server.max_body_bytes),
            generation: previous.map_or(0, |snapshot| snapshot.generation) + 1,
            fields: fields_read(&rules),
            marks: marks(&rules),
            field_policy: FieldPolicy::compile(
                &rules.client,
                rules.server.defence.path_override_headers,
                rules.server.defence.underscores,
                named_fields::of(&rules),
            ),
            challenge_cookies: ChallengeCookies::new(
                (limits.values())
                    .filter(|limit| limit.challenge.is_some())
                    .map(|limit| Arc::clone(&limit.name)),
            ),
            stores: rules.routes.iter().any(|route| route.cache.is_some()),
            names_listeners: (rules.routes.iter()).any(|route| !route.matches.listeners.is_empty()),
            redirects: (rules.listeners.iter())
                .any(|listener| listener.redirect_to_https.is_some()),
            keeps_case: routes.iter().any(|route| route.action.keeps_case()),
            routes,
            limits,
            listeners: tls::compile(
                &rules.listeners,
                &certificates,
                previous.map(|snapshot| &snapshot.listeners),
            ),
            certificates,
            pools,
            store,
            rules,
        }
    }

    /// Returns the listener of requests that come to this address, as routes name it; `None` stands for an unknown address.
    #[must_use]
    pub fn request_listener(&self, address: Option<SocketAddr>) -> RequestListener<'_> {
        let Some(address) = address else {
            return RequestListener::Unknown;
        };
        // Without a look-up: most configurations have no such route.
        let listener = (self.names_listeners).then(|| self.listeners.get(&address));
        let name = listener
            .flatten()
            .and_then(|listener| listener.rules.name.as_deref());
        RequestListener::Known(name)
    }

    /// Returns whether some database names the networks of clients.
    #[must_use]
    pub fn has_networks(&self) -> bool {
        !self.networks.is_empty()
    }

    /// Returns the request fields, other than `Host`, on which a decision may depend.
    pub fn fields(&self) -> impl Iterator<Item = &HeaderName> {
        self.fields.iter()
    }
}

/// Returns the databases, which answer for what the rules read alone.
fn geo_databases(rules: &Rules) -> GeoDatabases {
    let databases = rules.geo.databases.iter().map(|file| &file.database);
    GeoDatabases::new(databases, &rules.geo_fields())
}

/// Returns the databases of countries and networks for operators; `None` without a token, since nobody is shown clients then.
fn client_places(rules: &Rules) -> Option<GeoDatabases> {
    rules.admin.token_file.as_ref()?;
    let databases = || rules.geo.databases.iter().map(|file| &file.database);
    let has = |field: &GeoField| databases().any(|database| database.fields().contains(field));
    let fields = [GeoField::Country, GeoField::Asn].into_iter().filter(has);
    Some(GeoDatabases::new(databases(), &fields.collect::<Vec<_>>()))
}

/// Returns the databases that name networks, which temporary rules may name at any time.
fn network_databases(rules: &Rules) -> GeoDatabases {
    let databases = rules.geo.databases.iter().map(|file| &file.database);
    GeoDatabases::new(databases, &[GeoField::Asn])
}

/// Returns the crawlers, which keep the names of addresses that were looked up.
fn crawlers(rules: &Rules, previous: Option<&Snapshot>) -> CrawlerRegistry {
    let crawlers = rules.crawlers.iter();
    let crawlers = crawlers.map(|(name, rules)| rules.crawler(name));
    let previous = previous.map(|snapshot| &snapshot.crawlers);
    CrawlerRegistry::new(crawlers, rules.client.signed_hosts.clone()).with_reverse_dns(previous)
}

/// Returns the request fields, other than `Host`, on which a decision under `rules` may depend.
pub fn fields_read(rules: &Rules) -> Vec<HeaderName> {
    let forwarded = match &rules.client.client_ip_header {
        ForwardedSource::XForwardedFor => HeaderName::from_static("x-forwarded-for"),
        ForwardedSource::Forwarded => http::header::FORWARDED,
        ForwardedSource::SingleValue(name) => name.clone(),
    };
    let matched = rules
        .routes
        .iter()
        .flat_map(|route| route.matches.headers.iter().map(|(name, _)| name.clone()));
    let counted = rules
        .limits
        .values()
        .flat_map(|limit| limit.values_read())
        .filter_map(|value| match &value.source {
            ValueSource::Header(name) => Some(name.clone()),
            ValueSource::Cookie(_) => Some(http::header::COOKIE),
            ValueSource::Claim(_) => Some(http::header::AUTHORIZATION),
            ValueSource::Query(_) | ValueSource::PathParameter(_) => None,
            // Keys in bodies are left to the proxy.
            ValueSource::Json(_) | ValueSource::Form(_) => None,
            // The value belongs to the connection, not to the request.
            ValueSource::CertificateSubject
            | ValueSource::CertificateFingerprint
            | ValueSource::Ja4 => None,
        });
    let mut fields: Vec<_> = matched.chain(counted).chain([forwarded]).collect();
    fields.extend(rules.client.request_id.clone());
    if rules.reads_crawlers() {
        fields.push(http::header::USER_AGENT);
    }
    if rules.tracing.is_some() {
        fields.push(TRACEPARENT.clone());
    }
    let wordings = rules.limits.values().map(|limit| &limit.refusal);
    let mut wordings = wordings.chain(rules.routes.iter().map(|route| &route.refusal));
    if wordings.any(|wording| wording.as_ref().is_some_and(|rules| varies(rules))) {
        fields.push(http::header::ACCEPT);
    }
    let mut shapes = rules.routes.iter().filter_map(|route| route.shape.as_ref());
    if shapes.any(|shape| shape.cors.is_some()) {
        // These fields make a preflight, which may be another route's.
        fields.push(http::header::ORIGIN);
        fields.push(http::header::ACCESS_CONTROL_REQUEST_METHOD);
    }
    fields.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    fields.dedup();
    fields
}

/// Returns the marks of all routes, since an origin trusts a mark on every route.
fn marks(rules: &Rules) -> Vec<HeaderName> {
    let fields = rules
        .limits
        .values()
        .filter_map(|limit| match &limit.action {
            Action::Mark { field, .. } => Some(field.clone()),
            _ => None,
        });
    let mut marks: Vec<HeaderName> = fields.collect();
    marks.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    marks.dedup();
    marks
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
    let same_secret = previous.is_some_and(|before| secret(&before.rules) == secret(rules));
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

fn compile_limits(
    rules: &Rules,
    previous: Option<&Snapshot>,
    edits: &LimitEdits,
    environment: LimitEnvironment<'_>,
) -> BTreeMap<Name, Arc<ActiveLimit>> {
    let keys = SigningKeys::new(&rules.challenge.key_file, environment.seed.secret());
    rules
        .limits
        .iter()
        .map(|(name, limit)| {
            let before = previous
                .and_then(|snapshot| snapshot.limits.get(name))
                .map(|limit| &**limit);
            let scaled = ScaledLimit::new(name, limit, edits);
            let limit = scaled.as_ref().map_or(limit, |scaled| &scaled.rules);
            let active = ActiveLimit::new(name, limit, before, environment);
            let active = active.with_key_rules(edits, environment.seed);
            let active = active.with_scaling(scaled.map(|scaled| scaled.scaling));
            (name.clone(), Arc::new(active.with_signing_keys(&keys)))
        })
        .collect()
}

fn compile_route(
    route: &RouteRules,
    rules: &Rules,
    limits: &BTreeMap<Name, Arc<ActiveLimit>>,
    pools: &BTreeMap<Name, Arc<ServerPool>>,
    metrics: &RequestMetrics,
) -> ActiveRoute {
    let written = route
        .limits
        .iter()
        .map(|name| Arc::clone(&limits[name]))
        .collect();
    let limits = RouteLimits::new(written, |name| limits.get(name).cloned());
    let names: Vec<Name> = limits.iter().map(|limit| limit.name.clone()).collect();
    let reads = |is_read: fn(&ValueSource) -> bool| {
        let written = names.iter().filter_map(|name| rules.limits.get(name));
        let mut values = written.flat_map(|limit| limit.values_read());
        values.any(|value| is_read(&value.source))
    };
    let mut written = names.iter().filter_map(|name| rules.limits.get(name));
    let announces = written.any(|limit| limit.cost.announced().is_some());
    let fields_read = (route.shape.as_ref()).is_some_and(|shape| shape.fields_read_path());
    let written = names.iter().filter_map(|name| rules.limits.get(name));
    let parameters: Box<[Arc<str>]> = written
        .flat_map(|limit| limit.values_read())
        .filter_map(|value| match &value.source {
            ValueSource::PathParameter(name) => Some(Arc::clone(name)),
            _ => None,
        })
        .collect();
    let reads_segments = !parameters.is_empty();
    let written = names.iter().filter_map(|name| rules.limits.get(name));
    let counts_by_path = reads_segments
        || written
            .flat_map(|limit| &limit.key.0)
            .any(|part| *part == KeyPart::Path);
    ActiveRoute {
        lists: lists_of(route, rules),
        action: match &route.action {
            RouteAction::Forward(origin) => ActiveAction::Forward(Arc::clone(&pools[origin])),
            RouteAction::Respond(response) => ActiveAction::Respond(Arc::new(response.clone())),
            RouteAction::Redirect(redirect) => ActiveAction::Redirect(Arc::clone(redirect)),
        },
        reads_parameters: fields_read || reads_segments,
        parameters,
        counts_by_path,
        reads_body: reads(ValueSource::is_in_body) || announces,
        compares_body: reads(|source| matches!(source, ValueSource::Query(_))),
        policy: limits
            .are_together()
            .then(|| rate_limit_policy(limits.iter().map(|limit| &limit.items)))
            .flatten(),
        refusal: route.refusal.clone(),
        shape: route.shape.clone(),
        needs_certificate: route.require.needs_certificate(),
        max_body_bytes: route.max_body_bytes.unwrap_or(rules.server.max_body_bytes),
        cache: route.cache.clone(),
        metrics: metrics.route(&route.name, &names),
        limits,
    }
}

/// Returns the lists of a route and those of every route; one that both name with one effect counts once.
fn lists_of(route: &RouteRules, rules: &Rules) -> ClientLists {
    let mut lists = ClientLists::default();
    let of_all = &rules.client.lists;
    let of_route = &route.lists;
    for (effect, of_all, of_route) in [
        (ListEffect::Allow, &of_all.allow, &of_route.allow),
        (ListEffect::Block, &of_all.block, &of_route.block),
    ] {
        let more = of_route.iter().filter(|name| !of_all.contains(name));
        for name in of_all.iter().chain(more) {
            let list = &rules.lists[name];
            for blocks in list.sets() {
                lists.add(name, effect, blocks);
            }
            lists.add_places(name, effect, list.places());
            lists.add_crawlers(name, effect, &list.crawlers);
        }
    }
    lists
}
