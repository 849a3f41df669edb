//! Translates Ingress manifests with the annotations of ingress-nginx.
//!
//! Each Ingress has zones of its own, which all its paths share, and so it has limits of its own here.

pub(crate) mod annotations;
mod classes;
mod host_paths;
pub(crate) mod kinds;
mod precedence;
mod rewrites;
mod services;
mod settings;
pub(crate) mod yaml;

use std::collections::BTreeSet;

use sluicegate_base::path::PathCase;

use self::annotations::IngressAnnotations;
use self::host_paths::{HostNotations, PathNotation, WrittenRoute};
use self::precedence::{PathClaims, PathStrength};
use self::services::ServiceOrigins;
use self::settings::ControllerSettings;
use self::yaml::YamlNode;
use crate::client_lists::ListMaker;
use crate::closed_hosts::{self, ALL_PATHS};
use crate::ledger::{EntryId, Ledger};
use crate::model::{
    GatewayModel, KeyPart, Limit, LimitAction, LimitAlgorithm, Listener, Route, RouteAction,
    TableRemarks,
};
use crate::names::NamePool;
use crate::position::SyntaxError;
use crate::shapes;

/// The status that ingress-nginx answers at a limit unless its ConfigMap says otherwise.
const USUAL_STATUS: u16 = 503;

/// Translates a text.
pub(crate) fn read(
    name: &str,
    text: &str,
    ledger: &mut Ledger,
) -> Result<GatewayModel, SyntaxError> {
    let documents = yaml::parse(name, text, ledger)?;
    let mut importer = IngressImporter::default();
    let objects: Vec<&YamlNode> = documents.iter().flat_map(items).collect();
    let of_kind = |kind: &'static str| {
        let objects = objects.iter().copied();
        objects.filter(move |it| it.get("kind").and_then(YamlNode::text) == Some(kind))
    };
    for list in documents.iter().filter(|it| is_list(it)) {
        for member in ["kind", "apiVersion"] {
            for id in list.get(member).map(YamlNode::entries).unwrap_or_default() {
                ledger.translated(id);
            }
        }
        for id in list
            .get("metadata")
            .map(YamlNode::entries)
            .unwrap_or_default()
        {
            ledger.left_out(id, "it describes a list");
        }
    }
    for object in &objects {
        let kind = object
            .get("kind")
            .and_then(YamlNode::text)
            .unwrap_or_default();
        let reason = match kind {
            "Ingress" => "an Ingress has no counterpart for it",
            "Service" => "no path leads to it by a name of a port",
            "ConfigMap" => {
                "it is none of the settings that are imported; see [server], [client] and [log]"
            }
            kind => {
                kinds::leave_out(object, kind, ledger);
                continue;
            }
        };
        for id in object.entries() {
            ledger.left_out(id, reason);
        }
        for name in ["kind", "apiVersion"] {
            if let Some(YamlNode::Scalar { id, .. }) = object.get(name) {
                ledger.translated(*id);
            }
        }
    }
    for object in of_kind("ConfigMap").filter(|it| settings::is_of_controller(it)) {
        translate_name(object, ledger);
        let settings = &mut importer.settings;
        settings.read(object, &mut importer.gateway, ledger);
    }
    importer
        .settings
        .identify_clients(&mut importer.gateway, ledger);
    for object in of_kind("Service") {
        translate_name(object, ledger);
        importer.services.define(object, namespace(object), ledger);
    }
    let classes: Vec<&YamlNode> = of_kind("IngressClass").collect();
    let ingresses = classes::of_one_controller(of_kind("Ingress").collect(), &classes, ledger);
    for ingress in importer.held_paths(precedence::by_age(ingresses, ledger), ledger) {
        importer.ingress(&ingress, ledger);
    }
    // A weaker path may have had the requests of a stronger one.
    let claims = std::mem::take(&mut importer.claims);
    importer
        .routes
        .retain(|it| claims.has(&it.route, it.strength));
    importer.close_hosts();
    let mut gateway = importer.gateway;
    gateway.routes = host_paths::ordered(importer.routes, &importer.notations);
    gateway.origins = importer.services.origins;
    gateway.lists = importer.lists.lists;
    gateway.listeners.push(Listener {
        address: "0.0.0.0:80".to_owned(),
        ..Listener::default()
    });
    Ok(gateway)
}

/// Returns the objects of a document.
fn items(document: &YamlNode) -> Vec<&YamlNode> {
    match document.get("items") {
        Some(items) if is_list(document) => items.elements().iter().collect(),
        _ => vec![document],
    }
}

/// Returns true for what `kubectl get` prints of several objects.
fn is_list(document: &YamlNode) -> bool {
    let kind = document.get("kind").and_then(YamlNode::text);
    kind.is_some_and(|kind| kind.ends_with("List"))
}

fn namespace(object: &YamlNode) -> &str {
    let namespace = object
        .at(&["metadata", "namespace"])
        .and_then(YamlNode::text);
    namespace.unwrap_or("default")
}

/// Records that the name of an object is what others find it by.
fn translate_name(object: &YamlNode, ledger: &mut Ledger) {
    for member in ["name", "namespace"] {
        if let Some(YamlNode::Scalar { id, .. }) = object.at(&["metadata", member]) {
            ledger.translated(*id);
        }
    }
}

#[derive(Default)]
struct IngressImporter {
    gateway: GatewayModel,
    services: ServiceOrigins,
    names: NamePool,
    lists: ListMaker,
    settings: ControllerSettings,
    claims: PathClaims,
    notations: HostNotations,
    /// The hosts, each with the rule that names it first.
    hosts: Vec<(String, Vec<EntryId>)>,
    known_hosts: BTreeSet<String>,
    routes: Vec<WrittenRoute>,
}

/// An Ingress with the paths that no older one has, each with its host.
struct IngressPaths<'n> {
    object: &'n YamlNode,
    annotations: IngressAnnotations,
    paths: Vec<(Option<&'n str>, &'n YamlNode)>,
    /// The hosts that no older one names: the default backend has the paths of them that no rule names.
    hosts: Vec<&'n str>,
    /// True if it has a rule for a host.
    names_host: bool,
}

/// The keys that all routes of an Ingress share.
struct SharedRules {
    sources: Vec<EntryId>,
    limits: Vec<String>,
    allow: Vec<String>,
    block: Vec<String>,
}

/// The beginning of a route: its host, its path, and what is behind it.
struct PathRule<'n> {
    host: Option<&'n str>,
    path: String,
    written: String,
    case: PathCase,
    strength: PathStrength,
    rewrite: Option<String>,
    sources: Vec<EntryId>,
    backend: &'n YamlNode,
}

impl IngressImporter {
    /// Returns the Ingresses with their paths, and notes how the paths of each host are written.
    fn held_paths<'n>(
        &mut self,
        ingresses: Vec<&'n YamlNode>,
        ledger: &mut Ledger,
    ) -> Vec<IngressPaths<'n>> {
        let mut found = Vec::with_capacity(ingresses.len());
        for object in ingresses {
            let mut annotations = IngressAnnotations::new(object, ledger);
            annotations.inherit(&self.settings.timeouts);
            let place = format!("{}/{}", namespace(object), ingress_name(object));
            let mut held = Vec::new();
            let mut hosts = Vec::new();
            let mut names_host = false;
            let rules = object.at(&["spec", "rules"]).map(YamlNode::elements);
            for rule in rules.unwrap_or_default() {
                let host = rule.get("host").and_then(YamlNode::text);
                let entries = rule.get("host").map(YamlNode::entries).unwrap_or_default();
                entries.iter().for_each(|id| ledger.translated(*id));
                names_host |= host.is_some();
                hosts.extend(host.filter(|it| self.is_new_host(it, entries)));
                let paths = rule.at(&["http", "paths"]).map(YamlNode::elements);
                for path in paths.unwrap_or_default() {
                    if !self.claims.is_held(path, (host, &place), ledger) {
                        self.notations.add(host, path, &annotations);
                        held.push((host, path));
                    }
                }
            }
            found.push(IngressPaths {
                object,
                annotations,
                paths: held,
                hosts,
                names_host,
            });
        }
        found
    }

    fn ingress(&mut self, ingress: &IngressPaths<'_>, ledger: &mut Ledger) {
        let annotations = &ingress.annotations;
        let object = ingress.object;
        let namespace = namespace(object);
        let name = ingress_name(object);
        translate_name(object, ledger);
        self.report_tls(object, annotations, ledger);
        let mut shared = SharedRules {
            sources: object
                .at(&["metadata", "name"])
                .map(YamlNode::entries)
                .unwrap_or_default(),
            limits: self.limits(&format!("{namespace}-{name}"), annotations, ledger),
            allow: Vec::new(),
            block: Vec::new(),
        };
        if let Some((id, blocks)) = annotations
            .exempt
            .as_ref()
            .filter(|_| !shared.limits.is_empty())
        {
            shared.allow.push(
                self.lists
                    .list(&format!("{name}-not-limited"), blocks, &[*id]),
            );
        }
        if let Some((id, blocks)) = &annotations.denied {
            shared
                .block
                .push(self.lists.list(&format!("{name}-denied"), blocks, &[*id]));
        }
        for (host, path) in &ingress.paths {
            let notation = self.notations.notation(*host, path);
            for rule in path_rules(path, *host, annotations, notation, ledger) {
                self.route(rule, namespace, &shared, annotations, ledger);
            }
        }
        let spec = |name: &str| object.at(&["spec", name]);
        if let Some(backend) = spec("defaultBackend").or_else(|| spec("backend")) {
            if ingress.names_host && ingress.hosts.is_empty() {
                let reason = "the first Ingress of its hosts has their default backend";
                backend
                    .entries()
                    .iter()
                    .for_each(|id| ledger.left_out(*id, reason));
            }
            let hosts = ingress.hosts.iter().copied().map(Some);
            let every = (!ingress.names_host).then_some(None);
            for host in hosts.chain(every) {
                let rule = PathRule {
                    host,
                    path: ALL_PATHS.to_owned(),
                    written: "/".to_owned(),
                    case: PathCase::Kept,
                    strength: PathStrength::DefaultBackend,
                    rewrite: None,
                    sources: Vec::new(),
                    backend,
                };
                self.route(rule, namespace, &shared, annotations, ledger);
            }
        }
    }

    /// Notes a host, and returns true if no older Ingress names it.
    fn is_new_host(&mut self, host: &str, sources: Vec<EntryId>) -> bool {
        let host = host.to_ascii_lowercase();
        let is_new = self.known_hosts.insert(host.clone());
        if is_new {
            self.hosts.push((host, sources));
        }
        is_new
    }

    /// Adds routes for the paths that no Ingress names for a host, where those of a wider host would take them.
    fn close_hosts(&mut self) {
        let is_all = |it: &&WrittenRoute| it.route.path == ALL_PATHS;
        let whole = self.routes.iter().filter(is_all);
        let whole: BTreeSet<Option<String>> = whole.map(|it| it.route.host.clone()).collect();
        let known = self.routes.iter().map(|it| it.route.host.clone());
        let known: BTreeSet<Option<String>> = known.collect();
        for (host, sources) in std::mem::take(&mut self.hosts) {
            let is_closed = whole.contains(&Some(host.clone()));
            if is_closed || !closed_hosts::has_wider(&host, &known) {
                continue;
            }
            let mut route = closed_hosts::closing_route(&host);
            route.remarks.sources = sources;
            self.routes.push(WrittenRoute {
                route,
                path: "/".to_owned(),
                strength: PathStrength::DefaultBackend,
            });
        }
    }

    /// Records the certificates and the redirect of an Ingress.
    fn report_tls(
        &self,
        ingress: &YamlNode,
        annotations: &IngressAnnotations,
        ledger: &mut Ledger,
    ) {
        let tls = ingress.at(&["spec", "tls"]);
        if let Some(tls) = tls {
            for id in tls.entries() {
                let reason = "secrets are in the cluster; see [listener.tls] certificates";
                ledger.left_out(id, reason);
            }
            let namespace = namespace(ingress);
            let name = ingress_name(ingress);
            ledger.fill_in(format!(
                "[[listener]]: a listener at 0.0.0.0:443 with tls.certificates, for the secrets of {namespace}/{name}"
            ));
        }
        let redirects = annotations.ssl_redirect.or(self.settings.ssl_redirect);
        if redirects.unwrap_or(tls.is_some()) {
            ledger.fill_in(
                "[[listener]]: redirect_to_https = true at 0.0.0.0:80, where all routes are to be redirected",
            );
        }
    }

    fn limits(
        &mut self,
        name: &str,
        annotations: &IngressAnnotations,
        ledger: &mut Ledger,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let rates = [
            ("rps", annotations.per_second, "second"),
            ("rpm", annotations.per_minute, "minute"),
        ];
        for (ending, rate, period) in rates {
            let Some((id, count)) = rate else { continue };
            let algorithm = shapes::at_once(annotations.burst(count));
            let mut limit = self.limit(
                &format!("{name}-{ending}"),
                id,
                self.settings.status,
                ledger,
            );
            limit
                .remarks
                .sources
                .extend(annotations.multiplier.map(|(id, _)| id));
            limit.rate = (count, period.to_owned());
            limit.algorithm = algorithm;
            found.push(limit.name.clone());
            self.gateway.limits.push(limit);
        }
        if let Some((id, most)) = annotations.connections {
            let mut limit = self.limit(
                &format!("{name}-connections"),
                id,
                self.settings.connections_status,
                ledger,
            );
            limit.concurrency = Some(most);
            found.push(limit.name.clone());
            self.gateway.limits.push(limit);
        }
        found
    }

    fn limit(
        &mut self,
        name: &str,
        id: EntryId,
        status: Option<u16>,
        ledger: &mut Ledger,
    ) -> Limit {
        let mut differences = vec![
            "IPv6 clients are counted by /64; write \"client.ip/32,/128\" to count single addresses as ingress-nginx does".to_owned(),
            "each gateway counts by itself, as each replica of ingress-nginx does; `store = \"shared\"` counts together".to_owned(),
        ];
        if status.is_none() {
            differences.push(format!("refusals are 429; ingress-nginx answers {USUAL_STATUS} unless its ConfigMap says otherwise"));
        }
        for difference in &differences {
            ledger.differs(id, difference.clone());
        }
        Limit {
            name: self.names.unique(name),
            remarks: TableRemarks {
                sources: vec![id],
                differences,
            },
            key: vec![KeyPart::ClientIp],
            on_missing: None,
            rate: (1, "second".to_owned()),
            algorithm: LimitAlgorithm::Gcra(1),
            action: LimitAction::Reject,
            capacity: None,
            concurrency: None,
            status: status.filter(|it| *it != 429),
            count_if: None,
        }
    }

    fn route(
        &mut self,
        rule: PathRule<'_>,
        namespace: &str,
        shared: &SharedRules,
        annotations: &IngressAnnotations,
        ledger: &mut Ledger,
    ) {
        let host = rule.host.map(str::to_ascii_lowercase);
        if !self.claims.takes((&host, &rule.path), rule.strength) {
            let reason = "another path of the same host takes these requests";
            for id in rule.backend.entries() {
                ledger.left_out(id, reason);
            }
            return;
        }
        let Some(origin) = self
            .services
            .origin(rule.backend, namespace, annotations, ledger)
        else {
            for id in rule.backend.entries() {
                ledger.left_out(id, "a backend is a service");
            }
            return;
        };
        let mut sources = shared.sources.clone();
        sources.extend(rule.sources);
        let action = RouteAction::Forward {
            origin,
            strip_prefix: None,
            rewrite: rule.rewrite,
        };
        let strength = rule.strength;
        let mut push = |route| {
            self.routes.push(WrittenRoute {
                route,
                path: rule.written.clone(),
                strength,
            });
        };
        let route = Route {
            remarks: TableRemarks {
                sources,
                differences: Vec::new(),
            },
            host,
            case: rule.case,
            limits: shared.limits.clone(),
            allow: shared.allow.clone(),
            block: shared.block.clone(),
            max_body: annotations.max_body.clone(),
            ..Route::new(rule.path, action)
        };
        let Some((_, blocks)) = &annotations.only else {
            push(route);
            return;
        };
        let passed = Route {
            client: blocks.clone(),
            ..route.clone()
        };
        push(passed);
        let refused = Route {
            limits: Vec::new(),
            allow: Vec::new(),
            max_body: None,
            action: RouteAction::empty_answer(403),
            ..route
        };
        push(refused);
    }
}

fn ingress_name(ingress: &YamlNode) -> &str {
    let name = ingress.at(&["metadata", "name"]).and_then(YamlNode::text);
    name.unwrap_or("ingress")
}

/// Returns the rules of routes that stand for a path of an Ingress.
fn path_rules<'n>(
    path: &'n YamlNode,
    host: Option<&'n str>,
    annotations: &IngressAnnotations,
    notation: PathNotation,
    ledger: &mut Ledger,
) -> Vec<PathRule<'n>> {
    let Some(backend) = path.get("backend") else {
        return Vec::new();
    };
    let text = host_paths::text(path);
    let mut sources: Vec<EntryId> = Vec::new();
    for node in [path.get("path"), path.get("pathType")]
        .into_iter()
        .flatten()
    {
        for id in node.entries() {
            ledger.translated(id);
            sources.push(id);
        }
    }
    sources.truncate(1);
    let found = match host_paths::route_paths(path, notation) {
        Ok(found) => found,
        Err(reason) => {
            if let Some(id) = path.entries().first() {
                let place = ledger.comment(*id);
                ledger.fill_in(format!("{place}: no path of a route is this: {reason}"));
            }
            return Vec::new();
        }
    };
    let written = host_paths::written(path, notation);
    let rewrite = annotations.rewrite_of(text);
    let rewrite = rewrite.and_then(|(id, target)| rewrites::template((*id, target), text, ledger));
    // Among expressions the first one is the stronger one, whatever its type is.
    let is_regex = notation == PathNotation::Expression;
    let strength = match host_paths::kind(path) {
        "Exact" if !is_regex => PathStrength::Exact,
        _ => PathStrength::Prefix,
    };
    // Its expressions ignore case in nginx.
    let case = match is_regex {
        true => PathCase::Ignored,
        false => PathCase::Kept,
    };
    let rules = found.into_iter().map(|path| PathRule {
        host,
        path,
        written: written.clone(),
        case,
        strength,
        rewrite: rewrite.clone(),
        sources: sources.clone(),
        backend,
    });
    rules.collect()
}
