//! Owns the compiled rules: one configuration as the stages that decide read it, complete and immutable.
//!
//! Nothing here serves a request: pools, certificates, metrics and the link to a store are the snapshot's, which has compiled rules as one
//! of its parts. `explain` and `replay` need no more than these. Compiling carries over the counters of limits whose key is unchanged.

mod named_fields;
mod route;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use ahash::AHashMap;
use http::HeaderName;
use sluicegate_base::crawler::CrawlerRegistry;
use sluicegate_base::geo::{GeoDatabases, GeoField};
use sluicegate_config::Action;
use sluicegate_config::rules::{ForwardedSource, Name, Rules, ValueSource};
use sluicegate_limiter::Timestamp;

use crate::admission::{ActiveLimit, KeySeed, KeyTextRules, LimitEnvironment, ScaledLimit};
use crate::challenge::{ChallengeCookies, SigningKeys};
use crate::client::FieldPolicy;
use crate::response::varies;
use crate::route::{RequestListener, RouteTable};
use crate::state::CounterStorage;
use crate::temporary_rules::{LimitEdits, TemporaryRules};
use crate::trace_fields::TRACEPARENT;

pub use self::route::CompiledRoute;

/// The rules of one configuration, compiled for decisions.
pub struct CompiledRules {
    /// The rules.
    pub rules: Rules,
    /// The databases that say where clients are.
    pub geo: GeoDatabases,
    /// The databases that name the networks of clients, for temporary rules.
    pub networks: GeoDatabases,
    /// The rules that operators set for a time; the same through all reloads.
    pub temporary: Arc<TemporaryRules>,
    /// The temporary rules about limits with which they were compiled.
    pub limit_edits: LimitEdits,
    /// The crawlers with their proofs.
    pub crawlers: CrawlerRegistry,
    /// Finds the index of a request's route in [`Self::routes`].
    pub router: RouteTable,
    /// The routes in file order.
    pub routes: Vec<Arc<CompiledRoute>>,
    /// Every limit, used or not.
    pub limits: BTreeMap<Name, Arc<ActiveLimit>>,
    /// The cookies of the challenges of all limits.
    pub challenge_cookies: ChallengeCookies,
    /// The names of listeners by their address; empty where no route names listeners.
    listener_names: AHashMap<SocketAddr, Option<Arc<str>>>,
    /// The request fields, other than `Host`, on which a rejection may depend.
    fields: Vec<HeaderName>,
    /// The request fields that may pass.
    pub field_policy: FieldPolicy,
    /// The request fields that only the gateway may write: marks of limits.
    pub marks: Vec<HeaderName>,
}

impl CompiledRules {
    /// Compiles `rules`; `previous` are those in force, if any.
    #[must_use]
    pub fn compile(
        rules: Rules,
        previous: Option<&Self>,
        environment: LimitEnvironment<'_>,
    ) -> Self {
        let temporary = previous
            .map(|previous| Arc::clone(&previous.temporary))
            .unwrap_or_default();
        let limit_edits = temporary.limit_edits(environment.now);
        let limits = compile_limits(&rules, previous, &limit_edits, environment);
        let routes = rules.routes.iter();
        let routes = routes.map(|route| Arc::new(CompiledRoute::compile(route, &rules, &limits)));
        Self {
            geo: geo_databases(&rules),
            networks: network_databases(&rules),
            temporary,
            limit_edits,
            crawlers: crawlers(&rules, previous),
            router: RouteTable::compile(&rules.routes, rules.server.max_body_bytes),
            routes: routes.collect(),
            challenge_cookies: ChallengeCookies::new(
                (limits.values())
                    .filter(|limit| limit.challenge.is_some())
                    .map(|limit| Arc::clone(&limit.name)),
            ),
            limits,
            listener_names: listener_names(&rules),
            fields: fields_read(&rules),
            field_policy: FieldPolicy::compile(
                &rules.client,
                rules.server.defence.path_override_headers,
                rules.server.defence.underscores,
                named_fields::list(&rules),
            ),
            marks: marks(&rules),
            rules,
        }
    }

    /// Compiles the rules of a configuration by itself: nothing was in force before, and no store is asked. Keys are hashed under `seed`.
    #[must_use]
    pub fn alone(rules: Rules, seed: &KeySeed, now: Timestamp) -> Self {
        let environment = LimitEnvironment {
            storage: &CounterStorage::MEMORY,
            store: None,
            seed,
            key_texts: KeyTextRules::new(&rules),
            now,
        };
        Self::compile(rules, None, environment)
    }

    /// Returns the listener of requests that come to this address, as routes name it; `None` stands for an unknown address.
    #[must_use]
    pub fn request_listener(&self, address: Option<SocketAddr>) -> RequestListener<'_> {
        let Some(address) = address else {
            return RequestListener::Unknown;
        };
        // Without a look-up: most configurations have no such route.
        let name = (!self.listener_names.is_empty()).then(|| self.listener_names.get(&address));
        RequestListener::Known(name.flatten().and_then(|name| name.as_deref()))
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

/// Returns the names of listeners by their address, where a route names one.
fn listener_names(rules: &Rules) -> AHashMap<SocketAddr, Option<Arc<str>>> {
    let mut routes = rules.routes.iter();
    if routes.all(|route| route.matches.listeners.is_empty()) {
        return AHashMap::new();
    }
    let listeners = rules.listeners.iter();
    listeners
        .map(|listener| (listener.address, listener.name.clone()))
        .collect()
}

/// Returns the databases, which answer for what the rules read alone.
fn geo_databases(rules: &Rules) -> GeoDatabases {
    let databases = rules.geo.databases.iter().map(|file| &file.database);
    GeoDatabases::new(databases, &rules.geo_fields())
}

/// Returns the databases that name networks, which temporary rules may name at any time.
fn network_databases(rules: &Rules) -> GeoDatabases {
    let databases = rules.geo.databases.iter().map(|file| &file.database);
    GeoDatabases::new(databases, &[GeoField::Asn])
}

/// Returns the crawlers, which keep the names of addresses that were looked up.
fn crawlers(rules: &Rules, previous: Option<&CompiledRules>) -> CrawlerRegistry {
    let crawlers = rules.crawlers.iter();
    let crawlers = crawlers.map(|(name, rules)| rules.crawler(name));
    let previous = previous.map(|previous| &previous.crawlers);
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

fn compile_limits(
    rules: &Rules,
    previous: Option<&CompiledRules>,
    edits: &LimitEdits,
    environment: LimitEnvironment<'_>,
) -> BTreeMap<Name, Arc<ActiveLimit>> {
    let keys = SigningKeys::new(&rules.challenge.key_file, environment.seed.secret());
    rules
        .limits
        .iter()
        .map(|(name, limit)| {
            let before = previous
                .and_then(|previous| previous.limits.get(name))
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
