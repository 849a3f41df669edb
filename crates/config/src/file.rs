//! Reads a whole configuration: text in, rules or problems out.
//!
//! The order is: syntax, then each table by itself, then what the tables say about each other. No step stops the next.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use toml::de::DeTable;

use super::cycle;
use super::env_variables;
use super::environment::{BoundedEnvironment, Environment, OfflineEnvironment};
use super::fallback_limit::FallbackLimits;
use super::field::all;
use super::form::KeyConstraints;
use super::include::IncludedTexts;
use super::problem::{Problem, Problems, Severity};
use super::references::{self, DefinedNames};
use super::renamed_keys;
use super::report::{KeyPlace, ProblemReport};
use super::route_review::{RouteReport, RouteReview, no_review};
use super::rules::{
    CacheRules, ClientRules, ListRules, LogRules, OriginRules, Rules, ServerRules, StoreRules,
    TracingRules,
};
use super::section::TableSection;
use super::shared;
use super::source::SourceText;
use super::tables::route::ParsedRoute;
use super::tables::{
    acme, admin, cache, client, jwt, limit, list, listener, listener_tls, log, origin, route,
    store, transform,
};
use super::written::WrittenConfig;

/// A configuration that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The rules that the operator wrote.
    pub rules: Rules,
    /// The places that were hardly intended so.
    pub warnings: Problems,
}

/// Reads a configuration file; `review` checks its routes together.
///
/// Relative paths in it begin at its directory. Names of servers are resolved now, which blocks for some seconds at most; one that does not
/// resolve is a warning.
///
/// # Errors
///
/// Everything that is wrong with it, or why it cannot be read.
pub fn load(path: &Path, review: RouteReview) -> Result<Loaded, Problems> {
    let (name, text) = text_of(path)?;
    parse_in(&name, &text, &BoundedEnvironment::default(), review)
}

/// Judges a configuration file by its text and its lists alone: no name is looked up, and no certificate, key or secret is read. What
/// cannot be judged so is in no rules.
#[must_use]
pub fn load_offline(path: &Path, review: RouteReview) -> Problems {
    match text_of(path) {
        Ok((name, text)) => parse_offline(&name, &text, review),
        Err(problems) => problems,
    }
}

/// Checks a text like [`load_offline`] checks a file.
#[must_use]
pub fn parse_offline(file_name: &str, text: &str, review: RouteReview) -> Problems {
    let (_, problems) = read_in(file_name, text, &OfflineEnvironment, review);
    problems
}

/// The name of a file in problems, and its text.
fn text_of(path: &Path) -> Result<(String, String), Problems> {
    let name = path.display().to_string();
    let unreadable = |message: String, advice: &str, line, column| {
        Problems::new(vec![Problem {
            severity: Severity::Error,
            file: Arc::from(&*name),
            line,
            column,
            key_path: String::new(),
            message,
            advice: advice.to_owned(),
            excerpt: None,
        }])
    };
    let bytes = std::fs::read(path).map_err(|error| {
        let advice = "name a TOML file that the user who runs the gateway may read";
        unreadable(format!("the file cannot be read: {error}"), advice, 1, 1)
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..valid]);
        let source = SourceText::new(&name, &text);
        let advice = "save the file as UTF-8, which TOML is";
        let (line, column) = (source.line(valid), source.column(valid));
        unreadable(
            "the file is not UTF-8 from here on".to_owned(),
            advice,
            line,
            column,
        )
    })?;
    Ok((name, text))
}

/// Reads a configuration from its text; `file_name` is what problems call it, relative paths begin at its directory, and
/// `review` checks its routes together.
///
/// # Errors
///
/// Everything that is wrong with it.
///
/// # Example
///
/// ```
/// let text = r#"
/// [[listener]]
/// address = "0.0.0.0:8080"
///
/// [[route]]
/// path = "/*"
/// origin = "app"
///
/// [origin.app]
/// servers = ["127.0.0.1"]
/// "#;
/// let problems = sluicegate_config::parse("gateway.toml", text, sluicegate_config::no_review);
/// let problems = problems.expect_err("a port is missing");
/// assert!(problems.to_string().starts_with(
///     "gateway.toml:10:12: origin.app.servers[0]: \"127.0.0.1\" has no port; write \"127.0.0.1:80\""
/// ));
/// ```
pub fn parse(file_name: &str, text: &str, review: RouteReview) -> Result<Loaded, Problems> {
    parse_in(file_name, text, &BoundedEnvironment::default(), review)
}

/// Reads a configuration as [`parse`] does, on a machine that answers as `environment` does.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn parse_in(
    file_name: &str,
    text: &str,
    environment: &dyn Environment,
    review: RouteReview,
) -> Result<Loaded, Problems> {
    let (rules, problems) = read_in(file_name, text, environment, review);
    match rules {
        Some(rules) if problems.count(Severity::Error) == 0 => Ok(Loaded {
            rules,
            warnings: problems,
        }),
        _ => Err(problems),
    }
}

/// The rules, as far as they can be made, and all problems.
fn read_in(
    file_name: &str,
    text: &str,
    environment: &dyn Environment,
    review: RouteReview,
) -> (Option<Rules>, Problems) {
    let texts = IncludedTexts::gather(file_name, text, environment);
    let report = ProblemReport::new(texts.source(), environment, file_name);
    let (mut table, faults) = texts.tree(&report);
    renamed_keys::apply(&mut table, &report);
    let written = Arc::new(WrittenConfig::of(&table));
    env_variables::fill(&mut table, &report);
    let rules = walk(&table, &report, review).map(|rules| Rules {
        written,
        patterns: texts.patterns.clone(),
        included: texts.included(),
        read_files: report.files(),
        ..rules
    });
    (rules, report.finish(faults))
}

/// Every key that the tables written in `text` can have, whether it is written or not: `limit.NAME.rates`, `route[].path`.
#[must_use]
pub fn known_keys(text: &str, environment: &dyn Environment) -> BTreeSet<String> {
    let (table, _) = DeTable::parse_recoverable(text);
    let report = ProblemReport::new(SourceText::new("", text), environment, "");
    walk(table.get_ref(), &report, no_review);
    report.known()
}

/// Returns those of [`known_keys`] that must be written where their table is.
pub(super) fn required_keys(text: &str, environment: &dyn Environment) -> BTreeSet<String> {
    let (table, _) = DeTable::parse_recoverable(text);
    let report = ProblemReport::new(SourceText::new("", text), environment, "");
    walk(table.get_ref(), &report, no_review);
    report.required()
}

/// Returns the forms that the values written in `text` may have.
pub(super) fn forms(text: &str, environment: &dyn Environment) -> KeyConstraints {
    let (table, _) = DeTable::parse_recoverable(text);
    let report = ProblemReport::new(SourceText::new("", text), environment, "").noting_forms();
    walk(table.get_ref(), &report, no_review);
    report.forms()
}

/// Reads every table; `None` when the rules cannot be made, which was reported then.
fn walk(table: &DeTable<'_>, report: &ProblemReport<'_>, review: RouteReview) -> Option<Rules> {
    let root = TableSection::root(report, table);
    // What it names was read already.
    root.field("include", "[\"limits/*.toml\"]")
        .and_then(|field| all(field.list()?.iter().map(|element| element.text())));
    let server = ServerRules::read(root.section("server", "{ threads = 4 }"));
    let listener_sections = root.repeated("listener", listener::EXAMPLE);
    let no_listener = listener_sections.is_empty();
    let listeners = listener::read(listener_sections);
    let client = root.section("client", "{ trusted_proxies = [\"10.0.0.0/8\"] }");
    let everyone = client::everyone(&client);
    let client = ClientRules::read(client);
    let admin = admin::read(root.section("admin", "{ address = \"127.0.0.1:9180\" }"));
    let log_section = root.section("log", "{ access = \"stdout\" }");
    let place_of_only = log_section.place_of("only");
    let log = LogRules::read(log_section);
    let jwt_field = root.field("jwt", jwt::EXAMPLE);
    let jwt = jwt_field.as_ref().map(|field| jwt::read(field));
    let store_field = root.field("store", store::EXAMPLE);
    let store = store_field
        .as_ref()
        .map(|field| StoreRules::read(field.section()?));
    let cache = CacheRules::read(root.section("cache", cache::EXAMPLE));
    let acme_field = root.field("acme", acme::EXAMPLE);
    let acme = acme_field.as_ref().map(|field| {
        let state_dir = server.as_ref().map(|server| server.state_dir.as_deref());
        acme::read(field, state_dir)
    });
    let origins = root.named("origin", origin::EXAMPLE);
    let limits = root.named("limit", limit::EXAMPLE);
    let lists = root.named("list", list::EXAMPLE);
    let defined = DefinedNames {
        lists: places(&lists),
        limits: places(&limits),
        origins: places(&origins),
    };
    let origins: BTreeMap<_, _> = origins
        .into_iter()
        .filter_map(|(name, section)| Some((name, OriginRules::read(section)?)))
        .collect();
    let mut fallbacks = FallbackLimits::default();
    let mut in_store = Vec::new();
    let limits: BTreeMap<_, _> = limits
        .into_iter()
        .filter_map(|(name, section)| {
            let read = limit::read(section)?;
            fallbacks.add(&name, read.then);
            in_store.extend(read.shared);
            Some((name, read.rules))
        })
        .collect();
    let lists: BTreeMap<_, _> = lists
        .into_iter()
        .filter_map(|(name, section)| Some((name, ListRules::read(section)?)))
        .collect();
    let shape = transform::of_all(&root);
    let tracing = TracingRules::read(root.section("tracing", "{ propagate = true }"));
    let routes: Vec<ParsedRoute> = root
        .repeated("route", route::EXAMPLE)
        .into_iter()
        .map(|section| route::read(section, shape.as_ref()))
        .collect();
    for (key, is_missing, example) in [
        ("listener", no_listener, listener::EXAMPLE),
        ("route", routes.is_empty(), route::EXAMPLE),
    ] {
        if is_missing && !table.contains_key(key) {
            let place = KeyPlace::file().inside(key, None);
            report.absent(
                &place,
                format!("there is no {key}"),
                format!("write [[{key}]] {example}"),
            );
        }
    }
    root.finish();

    listener::check_distinct(&listeners, report);
    let ordering = acme_field
        .as_ref()
        .map(|field| (field, acme.as_ref().and_then(Option::as_ref)));
    acme::check(ordering, &listeners, report);
    if let Some(admin) = &admin {
        admin::check_apart(admin, &listeners, report);
    }
    references::check_defined(&routes, &defined, report);
    fallbacks.check(&limits, &defined, &routes, report);
    references::check_route_names(&routes, report);
    references::check_parameters(&limits, &routes, report);
    // Offline a listener with a certificate is not made.
    if !report.environment.is_offline() {
        listener_tls::check_told(&listeners, &limits, &defined, report);
    }
    references::check_tokens(jwt_field.as_ref(), &limits, &defined, report);
    let store_place = store_field.as_ref().map(|field| &field.place);
    shared::check(store_place, &in_store, report);
    cache::check(cache.as_ref(), &routes, report);
    let operator = admin.as_ref().and_then(|admin| admin.value.address);
    cycle::check(&origins, &defined.origins, &listeners, operator, report);
    if let Some(only) = log.as_ref().and_then(|log| log.only.as_ref()) {
        log::check_routes(only, &place_of_only, &routes, report);
    }
    review(&RouteReport::new(&routes, report));
    if let Some(client) = &client {
        references::check_trust(everyone.as_ref(), &limits, &routes, report);
        references::check_tier_fields(client, &limits, &defined, report);
        if let Some(server) = &server {
            let overrides = server.defence.path_override_headers;
            references::check_received(client, overrides, &limits, &routes, &defined, report);
        }
    }

    // With no error every table was read, so nothing below is left out.
    if report.has_errors() {
        return None;
    }
    references::check_used(&routes, &fallbacks, &defined, report);
    Some(Rules {
        server: server?,
        listeners: listeners
            .into_iter()
            .map(|listener| listener.value)
            .collect(),
        client: client?,
        admin: admin?.value,
        log: log?,
        jwt: match jwt {
            Some(jwt) => Some(jwt?),
            None => None,
        },
        store: match store {
            Some(store) => Some(store?),
            None => None,
        },
        cache: cache?,
        acme: match acme {
            Some(acme) => Some(acme?),
            None => None,
        },
        origins,
        lists,
        limits,
        routes: routes
            .into_iter()
            .map(|route| route.rules)
            .collect::<Option<_>>()?,
        tracing: Some(tracing?).filter(|tracing| tracing.propagate),
        shape: Some(shape?).filter(|shape| !shape.is_empty()).map(Arc::new),
        written: Arc::default(),
        patterns: Vec::new(),
        included: Vec::new(),
        read_files: Vec::new(),
    })
}

fn places(
    sections: &[(super::rules::Name, TableSection<'_>)],
) -> BTreeMap<super::rules::Name, KeyPlace> {
    sections
        .iter()
        .map(|(name, section)| (name.clone(), section.place.clone()))
        .collect()
}
