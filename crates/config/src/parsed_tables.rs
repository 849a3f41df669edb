//! Reads every table of a configuration by itself, checks the tables together, and makes the rules of them.
//!
//! A table that is wrong is left out, and takes no other with it: the rest is read and checked all the same. Only the rules need every
//! table.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;
use sluicegate_base::crawler::CrawlerStatus;

use super::acme_references;
use super::activation_references::{self, ConditionSubjects, PlacedConditions};
use super::crawler_references;
use super::cycle;
use super::defined_names::DefinedNames;
use super::fallback_limit::FallbackLimits;
use super::field::all;
use super::forward_auth;
use super::guarded_hosts;
use super::limit_levels::LimitLevels;
use super::references;
use super::report::{KeyPlace, PlacedValue, ProblemReport};
use super::route_review::{RouteReport, RouteReview};
use super::rules::{
    AcmeRules, AdminRules, CacheRules, ChallengeKeyRules, ClientRules, CrawlerRules, GeoRules,
    JwtRules, KeyPart, LimitRules, ListRules, ListenerRules, LogRules, Name, OriginRules, Rules,
    ServerRules, ShapeRules, StoreRules, TracingRules,
};
use super::section::TableSection;
use super::shared;
use super::tables::parsed_route::ParsedRoute;
use super::tables::route::RouteDefaults;
use super::tables::{
    acme, admin, cache, challenge, client, crawler, geo, jwt, limit, list, listener, log, origin,
    route, store, transform,
};

/// The tables of a file, each as far as it can be read.
pub(super) struct ParsedTables {
    server: Option<ServerRules>,
    listeners: Vec<PlacedValue<ListenerRules>>,
    /// True if a listener could not be read. Offline one with a certificate is not.
    lacks_listener: bool,
    /// The places of `redirect_to_https`.
    redirects: Vec<KeyPlace>,
    client: Option<ClientRules>,
    geo: Option<GeoRules>,
    crawlers: BTreeMap<Name, CrawlerRules>,
    /// The place of `signed_hosts` in `[client]`.
    signed_hosts: KeyPlace,
    /// The place of `dns_servers` in `[client]`.
    dns_servers: KeyPlace,
    /// The block of `[client]` that trusts every address.
    everyone: Option<PlacedValue<IpNet>>,
    admin: Option<PlacedValue<AdminRules>>,
    log: Option<LogRules>,
    /// The place of `only` in `[log]`.
    log_filter: KeyPlace,
    jwt: Option<PlacedValue<Option<JwtRules>>>,
    challenge: Option<ChallengeKeyRules>,
    store: Option<PlacedValue<Option<StoreRules>>>,
    cache: Option<CacheRules>,
    acme: Option<PlacedValue<Option<AcmeRules>>>,
    defined: DefinedNames,
    origins: BTreeMap<Name, OriginRules>,
    limits: ParsedLimits,
    lists: BTreeMap<Name, ListRules>,
    shape: Option<ShapeRules>,
    tracing: Option<TracingRules>,
    routes: Vec<ParsedRoute>,
}

/// The limits that could be read, and what they name elsewhere.
#[derive(Default)]
struct ParsedLimits {
    rules: BTreeMap<Name, LimitRules>,
    fallbacks: FallbackLimits,
    /// The conditions over figures, by limit.
    conditions: PlacedConditions,
    /// The places at which limits say that they count in the store.
    in_store: Vec<KeyPlace>,
    levels: LimitLevels,
}

impl ParsedTables {
    /// Reads every table. The order counts: of two problems at one place the one that is found first is shown first.
    pub(super) fn read(root: TableSection<'_>) -> Self {
        // What it names was read already.
        root.field("include", "[\"limits/*.toml\"]")
            .and_then(|field| all(field.list()?.iter().map(|element| element.text())));
        let server = ServerRules::read(root.section("server", "{ threads = 4 }"));
        let listeners = root.repeated("listener", listener::EXAMPLE);
        let redirects = listener::redirect_places(&listeners);
        let written = listeners.len();
        let listeners = listener::read(listeners);
        let lacks_listener = listeners.len() < written;
        let client = root.section("client", "{ trusted_proxies = [\"10.0.0.0/8\"] }");
        let everyone = client::everyone(&client);
        let [signed_hosts, dns_servers] =
            ["signed_hosts", "dns_servers"].map(|key| client.place_of(key));
        let client = ClientRules::read(client);
        let geo = GeoRules::read(root.section("geo", geo::EXAMPLE));
        let crawlers = root.named("crawler", crawler::EXAMPLE);
        let admin = admin::read(root.section("admin", "{ address = \"127.0.0.1:9180\" }"));
        let log = root.section("log", "{ access = \"stdout\" }");
        let log_filter = log.place_of("only");
        let log = LogRules::read(log);
        let jwt = root.field("jwt", jwt::EXAMPLE);
        let jwt = jwt.map(|field| field.placed(jwt::read(&field)));
        let challenge = ChallengeKeyRules::read(root.section("challenge", challenge::EXAMPLE));
        let store = root.field("store", store::EXAMPLE);
        let store = store.map(|field| field.placed(field.section().and_then(StoreRules::read)));
        let cache = CacheRules::read(root.section("cache", cache::EXAMPLE));
        let state_dir = server.as_ref().map(|server| server.state_dir.as_deref());
        let acme = root.field("acme", acme::EXAMPLE);
        let acme = acme.map(|field| field.placed(acme::read(&field, state_dir)));
        let origins = root.named("origin", origin::EXAMPLE);
        let limits = root.named("limit", limit::EXAMPLE);
        let lists = root.named("list", list::EXAMPLE);
        let mut defined = DefinedNames {
            lists: places(&lists),
            crawlers: places(&crawlers),
            limits: places(&limits),
            origins: places(&origins),
        };
        let origins = read_named(origins, OriginRules::read);
        let limits = ParsedLimits::read(limits, &mut defined.limits, root.report);
        let lists = read_named(lists, ListRules::read);
        let crawlers = read_named(crawlers, CrawlerRules::read);
        let shape = transform::of_all(&root);
        let tracing = TracingRules::read(root.section("tracing", "{ propagate = true }"));
        let routes = root.repeated("route", route::EXAMPLE).into_iter();
        let of_all = RouteDefaults {
            shape: shape.as_ref(),
            action: listener::only_decide(&listeners).then(forward_auth::admitting),
        };
        let routes = routes.map(|section| route::read(section, &of_all));
        let mut routes: Vec<_> = routes.collect();
        route::number_alike(&mut routes);
        limits.levels.extend_routes(&mut routes, root.report);
        require_one(&root, "listener", listener::EXAMPLE);
        require_one(&root, "route", route::EXAMPLE);
        root.finish();
        Self {
            server,
            listeners,
            lacks_listener,
            redirects,
            client,
            geo,
            crawlers,
            signed_hosts,
            dns_servers,
            everyone,
            admin,
            log,
            log_filter,
            jwt,
            challenge,
            store,
            cache,
            acme,
            defined,
            origins,
            limits,
            lists,
            shape,
            tracing,
            routes,
        }
    }

    /// Checks what the tables say about each other; `review` checks the routes together.
    pub(super) fn check(&self, report: &ProblemReport<'_>, review: RouteReview) {
        let Self {
            listeners,
            defined,
            routes,
            ..
        } = self;
        let limits = &self.limits.rules;
        listener::check_distinct(listeners, report);
        listener::check_names(listeners, report);
        acme_references::check(self.acme.as_ref(), listeners, report);
        if let Some(admin) = &self.admin {
            admin::check_apart(admin, listeners, report);
        }
        references::check_defined(routes, defined, report);
        self.limits.fallbacks.check(limits, defined, routes, report);
        self.limits
            .levels
            .check_fallbacks(&self.limits.fallbacks, report);
        let subjects = ConditionSubjects {
            limits,
            origins: &self.origins,
            defined,
        };
        activation_references::check(&self.limits.conditions, &subjects, report);
        references::check_route_names(routes, report);
        references::check_parameters(limits, routes, report);
        if !self.lacks_listener {
            references::check_listeners(listeners, routes, report);
            guarded_hosts::check_asked(listeners, routes, report);
            guarded_hosts::check_guarded(listeners, routes, report);
            references::check_told(listeners, limits, defined, report);
        }
        let jwt = self.jwt.as_ref().map(|jwt| &jwt.place);
        references::check_tokens(jwt, limits, defined, report);
        let store = self.store.as_ref().map(|store| &store.place);
        shared::check(store, &self.limits.in_store, report);
        self.check_places(report);
        self.check_crawlers(report);
        references::check_stored(self.cache.as_ref(), routes, report);
        let operator = self.admin.as_ref().and_then(|admin| admin.value.address);
        cycle::check(&self.origins, &defined.origins, listeners, operator, report);
        if let Some(only) = self.log.as_ref().and_then(|log| log.only.as_ref()) {
            log::check_routes(only, &self.log_filter, routes, report);
        }
        review(&RouteReport::new(routes, report));
        if let Some(client) = &self.client {
            self.check_client(client, report);
        }
    }

    /// Checks what limits and routes take from clients and their proxies.
    fn check_client(&self, client: &ClientRules, report: &ProblemReport<'_>) {
        let limits = &self.limits.rules;
        let routes = &self.routes;
        let defined = &self.defined;
        references::check_trust(self.everyone.as_ref(), limits, routes, report);
        references::check_tier_fields(client, limits, defined, report);
        if let Some(server) = &self.server {
            let overrides = server.defence.path_override_headers;
            references::check_received(client, overrides, limits, routes, defined, report);
        }
        forward_auth::check(&self.listeners, client, limits, defined, report);
    }

    /// Checks that databases have what limits, routes and lists read of clients' places.
    fn check_places(&self, report: &ProblemReport<'_>) {
        let Some(databases) = &self.geo else { return };
        let limits = self.limits.rules.iter().flat_map(|(name, limit)| {
            let place = self.defined.limits.get(name);
            limit
                .places_read()
                .filter_map(move |field| Some((field, place?)))
        });
        let routes = self.routes.iter().flat_map(|route| {
            let rules = route.rules.iter();
            let fields = rules.flat_map(|rules| rules.matches.place.fields());
            fields.map(|field| (field, &route.place))
        });
        let lists = self.lists.iter().flat_map(|(name, list)| {
            let place = self.defined.lists.get(name);
            let fields: Vec<_> = list.places().fields().collect();
            fields
                .into_iter()
                .filter_map(move |field| Some((field, place?)))
        });
        geo::check(databases, limits.chain(routes).chain(lists), report);
    }

    /// Checks the crawlers, and that limits, routes and lists name those that there are.
    fn check_crawlers(&self, report: &ProblemReport<'_>) {
        let defined = &self.defined.crawlers;
        crawler_references::check_names(defined, self.crawlers.iter(), report);
        let counting = self.limits.rules.iter().filter_map(|(name, limit)| {
            let place = self.defined.limits.get(name)?;
            limit.key.reads_crawler().then_some(place)
        });
        crawler_references::check_keys(defined.len(), counting, report);
        if let Some(client) = &self.client {
            let signing = self
                .crawlers
                .iter()
                .filter(|(_, rules)| rules.jwks_file.is_some());
            let signing = signing.filter_map(|(name, _)| defined.get(name));
            crawler_references::check_signed_hosts(client, signing, &self.signed_hosts, report);
            let crawlers = self.crawlers.values();
            crawler_references::check_dns_servers(client, crawlers, &self.dns_servers, report);
        }
        let routes = self.routes.iter().filter_map(|route| route.rules.as_ref());
        let counts_others = |name: &Name| {
            let mut routes = routes.clone();
            routes.any(|route| {
                route.limits.contains(name) && route.matches.crawler.takes(&CrawlerStatus::None)
            })
        };
        for (name, limit) in &self.limits.rules {
            let by_crawler = limit.key.0.iter().all(|part| *part == KeyPart::Crawler);
            if let Some(place) = self.defined.limits.get(name)
                && by_crawler
                && limit.overrides.is_none()
                && counts_others(name)
            {
                report.warning(
                    place,
                    "all clients that are no crawlers share one counter of it, as the value \"none\"",
                    "name crawlers in its routes, as crawlers = [\"!none\"], or add \"client.ip\" to the key",
                );
            }
        }
    }

    /// Warns of definitions that nothing uses, and of HTTPS that nobody speaks. It is asked only of a file without errors: what uses them
    /// may be what is wrong.
    pub(super) fn check_used(&self, report: &ProblemReport<'_>) {
        if let Some(client) = &self.client {
            // The one that is not read may speak TLS.
            let redirects = match self.lacks_listener {
                true => &[],
                false => &*self.redirects,
            };
            listener::check_https(&self.listeners, redirects, client, report);
        }
        if let Some(acme) = self.acme.as_ref().filter(|_| !self.lacks_listener) {
            acme_references::check_used(acme, &self.listeners, report);
        }
        references::check_used(&self.routes, &self.limits.fallbacks, &self.defined, report);
        let are_read = || {
            let mut limits = self.limits.rules.values();
            !report.used_crawlers().is_empty() || limits.any(|limit| limit.key.reads_crawler())
        };
        crawler_references::check_used(&self.defined.crawlers, are_read, report);
    }

    /// Makes the rules; `None` where a table could not be read, which was reported then.
    pub(super) fn into_rules(self) -> Option<Rules> {
        let listeners = self.listeners.into_iter();
        let routes = self.routes.into_iter();
        Some(Rules {
            server: self.server?,
            listeners: listeners.map(|listener| listener.value).collect(),
            client: self.client?,
            geo: self.geo?,
            crawlers: self.crawlers,
            admin: self.admin?.value,
            log: self.log?,
            jwt: optional(self.jwt)?,
            challenge: self.challenge?,
            store: optional(self.store)?,
            cache: self.cache?,
            acme: optional(self.acme)?,
            origins: self.origins,
            lists: self.lists,
            limits: self.limits.rules,
            routes: routes.map(|route| route.rules).collect::<Option<_>>()?,
            collector: self.tracing.as_ref()?.otlp.clone(),
            tracing: self.tracing.filter(|tracing| tracing.propagate),
            shape: Some(self.shape?)
                .filter(|shape| !shape.is_empty())
                .map(Arc::new),
            written: Arc::default(),
            patterns: Vec::new(),
            included: Vec::new(),
            read_files: Vec::new(),
        })
    }
}

impl ParsedLimits {
    /// Reads every table, and adds the limits that prefixes make to those that are `defined`.
    fn read(
        sections: Vec<(Name, TableSection<'_>)>,
        defined: &mut BTreeMap<Name, KeyPlace>,
        report: &ProblemReport<'_>,
    ) -> Self {
        let mut limits = Self::default();
        for (name, section) in sections {
            if let Some(limit) = limit::read(section) {
                limits.fallbacks.add(&name, limit.then);
                if !limit.conditions.is_empty() {
                    limits.conditions.insert(name.clone(), limit.conditions);
                }
                limits.in_store.extend(limit.shared);
                let levels = limits.levels.add(&name, limit.levels, defined, report);
                limits.rules.extend(levels);
                limits.rules.insert(name, limit.rules);
            }
        }
        limits
    }
}

/// Reads tables of one kind, and keeps those that can be read.
fn read_named<T>(
    sections: Vec<(Name, TableSection<'_>)>,
    read: fn(TableSection<'_>) -> Option<T>,
) -> BTreeMap<Name, T> {
    let read = |(name, section)| Some((name, read(section)?));
    sections.into_iter().filter_map(read).collect()
}

/// The places of tables of one kind, whether or not they can be read.
fn places(sections: &[(Name, TableSection<'_>)]) -> BTreeMap<Name, KeyPlace> {
    let place = |(name, section): &(Name, TableSection<'_>)| (name.clone(), section.place.clone());
    sections.iter().map(place).collect()
}

/// Reports that a file has no table of a kind of which it needs one.
fn require_one(root: &TableSection<'_>, key: &'static str, example: &str) {
    if !root.has(key) {
        root.report.absent(
            &root.place.inside(key, None),
            format!("there is no {key}"),
            format!("write [[{key}]] {example}"),
        );
    }
}

/// The rules of a table that need not be written: `None` inside where it is not, outside where it could not be read.
fn optional<T>(table: Option<PlacedValue<Option<T>>>) -> Option<Option<T>> {
    match table {
        Some(table) => table.value.map(Some),
        None => Some(None),
    }
}
