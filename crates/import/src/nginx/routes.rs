//! Makes the routes of a server block: one for each location, host, and case of its limits.

use std::collections::BTreeSet;

use super::access::{self, ClientAccess, ClientBlocks};
use super::answers;
use super::cases::{self, CaseList};
use super::fields;
use super::front_controllers::{self, RoutedLocation};
use super::host_conditions;
use super::hosts::ServerHost;
use super::jumps::{Destination, JumpTable};
use super::limits::{LimitMaker, LocationLimits};
use super::location_block::{LocationBlock, LocationMatch};
use super::locations::{self, PlacedLocation};
use super::omissions;
use super::origins::{FILES, OriginMaker, is_files};
use super::redirects::{self, PathRedirect};
use super::rewrites;
use super::sent_path::sent_path;
use super::templates::{self, QueryChange};
use super::tree::Directive;
use super::zones::ZoneTable;
use crate::client_lists::ListMaker;
use crate::closed_hosts;
use crate::ledger::Ledger;
use crate::model::{FieldEdits, Route, RouteAction, TableRemarks};

/// Makes routes, and with them limits, origins and lists.
pub(super) struct RouteMaker<'d> {
    pub(super) zones: ZoneTable,
    pub(super) limits: LimitMaker,
    pub(super) origins: OriginMaker<'d>,
    pub(super) lists: ListMaker,
    pub(super) routes: Vec<Route>,
}

impl<'d> RouteMaker<'d> {
    /// Adds the routes of a server block: those of hosts that an `if` is about, and those of all others.
    pub(super) fn add_server(&mut self, place: &ServerPlace<'_, 'd>, ledger: &mut Ledger) {
        let directive = place.server.directive;
        let divided = host_conditions::divide(directive, place.hosts);
        for (condition, hosts) in divided.conditional.iter().filter(|(_, it)| !it.is_empty()) {
            ledger.translated(condition.directive.id);
            let placed = PlacedLocation {
                location: LocationBlock::of_server(place.server, condition.directive.children()),
                path: "/*".to_owned(),
            };
            let table = JumpTable::new(Vec::new());
            let place = ServerPlace { hosts, ..*place };
            self.add_location(&placed, &place, &table, ledger);
        }
        if divided.rest.is_empty() {
            let reason = "each host of the server block has an answer of its own";
            for child in directive.children() {
                omissions::leave_without_effect(child, reason, ledger);
            }
            return;
        }
        let hosts = &divided.rest;
        self.add_locations(&ServerPlace { hosts, ..*place }, ledger);
    }

    fn add_locations(&mut self, place: &ServerPlace<'_, 'd>, ledger: &mut Ledger) {
        let server = place.server;
        let children = server.directive.children();
        let mut found = Vec::new();
        locations::collect(children, &server.scope, None, &mut found, ledger);
        let table = JumpTable::new(found.clone());
        let takes_all =
            |it: &LocationBlock<'_>| it.match_kind != LocationMatch::Exact && it.text == "/";
        let answers = children
            .iter()
            .any(|it| matches!(it.name.as_str(), "return" | "root" | "try_files"));
        let is_limited = !server.scope.requests.is_empty() || !server.scope.connections.is_empty();
        let mut root = LocationBlock::of_server(server, children);
        root.rewrite = redirects::of_server(&root);
        if root.rewrite.is_some() || children.iter().any(|it| it.name == "return") {
            // It answers before a location is looked for.
            found.clear();
        }
        found.retain(|it| it.match_kind != LocationMatch::Named);
        rewrites::split(&mut found, server, root.rewrite, &table);
        let is_needed = answers || is_limited || root.rewrite.is_some() || found.is_empty();
        let is_open = !found.iter().any(takes_all);
        let closed = (is_open && !is_needed).then(|| root.clone());
        found.extend(Some(root).filter(|_| is_open && is_needed));
        let mut located = Vec::new();
        let first = self.routes.len();
        for placed in locations::place(found, ledger) {
            let start = self.routes.len();
            self.add_location(&placed, place, &table, ledger);
            let routes = start..self.routes.len();
            located.push(RoutedLocation { placed, routes });
        }
        let scripts = front_controllers::routes(&located, &self.routes, &table, ledger);
        self.routes.splice(first..first, scripts);
        if let Some(root) = closed {
            self.close_hosts(&root, place, ledger);
        }
        table.leave_unreached(children, ledger);
    }

    fn add_location(
        &mut self,
        placed: &PlacedLocation<'d>,
        place: &ServerPlace<'_, 'd>,
        table: &JumpTable<'d>,
        ledger: &mut Ledger,
    ) {
        let own = placed.location.directive.unwrap_or(place.server.directive);
        let destination = table.destination(&placed.location);
        let scope = &destination.location.scope;
        let mut remarks = TableRemarks {
            sources: vec![own.id],
            differences: Vec::new(),
        };
        if let Some(internal) = placed.location.scope.internal {
            self.add_internal(placed, place, internal, remarks, ledger);
            return;
        }
        let action = self.action(placed, place, &destination, &mut remarks, ledger);
        record_jumps(&destination, &action, ledger);
        table.require_others(&destination, ledger);
        // nginx answers `return` before it looks at limits and access.
        let is_answer = !matches!(action, RouteAction::Forward { .. });
        let LocationLimits {
            choices,
            sources,
            differences,
            status,
        } = match is_answer {
            true => {
                let reason = "nginx answers `return` before it looks at it";
                scope.meet_nothing(reason, ledger);
                LocationLimits::default()
            }
            false => self
                .limits
                .of_location(scope, place.number, &self.zones, ledger),
        };
        remarks.sources.extend(sources);
        remarks.differences.extend(differences);
        let mut bounds = destination.max_body_before.clone();
        bounds.extend(scope.max_body);
        let max_body = max_body(&bounds, ledger);
        let edits = fields::route_edits(scope, &action, place.server.scheme(), ledger);
        let access = match is_answer {
            true => ClientAccess::default(),
            false => access::read_all(&destination.access(), ledger),
        };
        let exempt = cases::exempt(&choices);
        let allow = exempt.map(|blocks| self.lists.list("not-limited", &blocks, &[]));
        let CaseList {
            cases,
            differences,
            looser,
        } = match &allow {
            // The list takes the place of all cases.
            Some(_) => cases::combine(&cases::defaults(choices)),
            None => cases::combine(&choices),
        };
        remarks.differences.extend(differences);
        for looser in looser {
            for limit in scope.requests.iter().chain(&scope.connections) {
                ledger.fill_in_for(limit.id, &looser);
            }
        }
        for host in place.hosts {
            for case in &cases {
                let route = Route {
                    remarks: remarks.clone(),
                    host: host.name.clone(),
                    listeners: host.listeners.clone(),
                    methods: case.methods.clone(),
                    values: case.conditions.clone(),
                    client: case.client.clone(),
                    limits: case.limits.clone(),
                    allow: allow.iter().cloned().collect(),
                    max_body: max_body.clone(),
                    request_fields: edits.request.clone(),
                    response_fields: edits.response.clone(),
                    status: status.filter(|_| !case.limits.is_empty()),
                    case: placed.location.case(),
                    keys: place.keys(),
                    ..Route::new(placed.path.clone(), action.clone())
                };
                self.add_route(route, &access, ledger);
            }
        }
    }

    /// Adds the routes of an `internal` location, which nginx answers clients with 404 for.
    fn add_internal(
        &mut self,
        placed: &PlacedLocation<'d>,
        place: &ServerPlace<'_, 'd>,
        internal: &Directive,
        mut remarks: TableRemarks,
        ledger: &mut Ledger,
    ) {
        ledger.translated(internal.id);
        remarks.sources.push(internal.id);
        for host in place.hosts {
            self.routes.push(Route {
                remarks: remarks.clone(),
                host: host.name.clone(),
                listeners: host.listeners.clone(),
                case: placed.location.case(),
                keys: place.keys(),
                ..Route::new(placed.path.clone(), RouteAction::empty_answer(404))
            });
        }
    }

    /// Adds routes for the paths that no location of a server block takes, where those of a wider host would take them.
    fn close_hosts(
        &mut self,
        root: &LocationBlock<'d>,
        place: &ServerPlace<'_, 'd>,
        ledger: &mut Ledger,
    ) {
        for host in place.hosts {
            let name = host.name.as_deref();
            let Some(name) = name.filter(|it| closed_hosts::has_wider(it, place.all_hosts)) else {
                continue;
            };
            let access = access::read_all(std::slice::from_ref(&root.scope.access), ledger);
            let mut route = Route {
                listeners: host.listeners.clone(),
                keys: place.keys(),
                ..closed_hosts::closing_route(name)
            };
            route.remarks.sources.push(place.server.directive.id);
            self.add_route(route, &access, ledger);
        }
    }

    /// Adds a route, for the clients that may come.
    fn add_route(&mut self, mut route: Route, access: &ClientAccess, ledger: &mut Ledger) {
        for ClientBlocks { sources, blocks } in &access.except {
            let name = self.lists.list("denied", blocks, sources);
            route.block.push(name);
        }
        match &access.only {
            None => self.routes.push(route),
            Some(ClientBlocks { sources, blocks })
                if route.client.is_empty() || blocks.is_empty() =>
            {
                route.remarks.sources.extend(sources);
                let refused = Route {
                    limits: Vec::new(),
                    allow: Vec::new(),
                    block: Vec::new(),
                    max_body: None,
                    request_fields: FieldEdits::default(),
                    status: None,
                    action: RouteAction::empty_answer(403),
                    ..route.clone()
                };
                // `deny all` alone lets nobody come.
                if !blocks.is_empty() {
                    route.client.clone_from(blocks);
                    self.routes.push(route);
                }
                self.routes.push(refused);
            }
            Some(ClientBlocks { sources, .. }) => {
                for id in sources {
                    let reason =
                        "access and limits of one location both depend on the client's address";
                    ledger.lose(*id, reason);
                }
                self.routes.push(route);
            }
        }
    }

    /// Returns the action for requests of a location that another one may answer.
    fn action(
        &mut self,
        placed: &PlacedLocation<'d>,
        place: &ServerPlace<'_, 'd>,
        destination: &Destination<'d>,
        remarks: &mut TableRemarks,
        ledger: &mut Ledger,
    ) -> RouteAction {
        let location = &destination.location;
        remarks
            .sources
            .extend(destination.jumps.iter().map(|it| it.id));
        if let Some(redirect) = redirects::answer(&placed.location) {
            return redirected(redirect, remarks, ledger);
        }
        let find = |names: &[&str]| {
            let mut children = location.children.iter();
            children.find(|it| names.contains(&it.name.as_str()))
        };
        if let Some(directive) = find(&["return"]) {
            match answers::answer(directive, placed, place.server) {
                Ok(action) => {
                    ledger.translated(directive.id);
                    remarks.sources.push(directive.id);
                    for difference in answers::differences(directive, &action, location) {
                        ledger.differs(directive.id, difference.as_str());
                        remarks.differences.push(difference);
                    }
                    return action;
                }
                Err(reason) => {
                    return forward(self.origins.in_place_of(directive.id, &reason, ledger));
                }
            }
        }
        let pass = find(&["proxy_pass", "grpc_pass"]).filter(|_| location.directive.is_some());
        let Some(pass) = pass else {
            if access::is_closed(&destination.access()) {
                // The route refuses everybody.
                return forward(FILES.to_owned());
            }
            let (what, reason) = match answers::other_answer(location) {
                Some(other) => {
                    let reason = ledger.reason(other.id).unwrap_or_default();
                    (ledger.comment(other.id), reason.to_owned())
                }
                None => {
                    let reason = "the gateway serves no files".to_owned();
                    (format!("the files of {}", placed.path), reason)
                }
            };
            return forward(self.origins.files(&what, &reason, ledger));
        };
        let target = match self.origins.target(pass, &location.scope, ledger) {
            Ok(target) => target,
            Err(reason) => {
                return forward(self.origins.in_place_of(pass.id, &reason, ledger));
            }
        };
        remarks.sources.push(pass.id);
        remarks.sources.extend(&target.assignments);
        match sent_path(placed, destination, &target.path) {
            Ok(sent) => {
                if sent.merges_slashes {
                    let difference = "nginx sends two slashes where the rest of the path begins with one; here it is one";
                    ledger.differs(pass.id, difference);
                    remarks.differences.push(difference.to_owned());
                }
                if !sent.keeps_query {
                    let difference = "the query of the client goes along";
                    ledger.differs(pass.id, difference);
                    remarks.differences.push(difference.to_owned());
                }
                RouteAction::Forward {
                    origin: target.origin,
                    strip_prefix: sent.strip_prefix,
                    rewrite: sent.rewrite,
                }
            }
            Err(reason) => {
                ledger.fill_in_for(pass.id, &format!("`rewrite` of its route; {reason}"));
                forward(target.origin)
            }
        }
    }
}

/// Records the directives that pass requests on, and what a route cannot do as they do.
fn record_jumps(destination: &Destination<'_>, action: &RouteAction, ledger: &mut Ledger) {
    let passed = destination.left.iter().chain([&destination.location]);
    for directive in passed.filter_map(|it| it.directive) {
        ledger.translated(directive.id);
    }
    for directive in &destination.jumps {
        ledger.translated(directive.id);
    }
    for scope in &destination.unmet {
        let reason = "a `rewrite` passes requests on before nginx looks at it";
        scope.meet_nothing(reason, ledger);
    }
    let RouteAction::Forward { origin, .. } = action else {
        return;
    };
    let leads_to_files = is_files(origin);
    let children = destination.location.children.iter();
    for files in children.filter(|it| it.name == "try_files" && !leads_to_files) {
        if let Some(status) = files.words.last().filter(|it| it.starts_with('=')) {
            let status = status.trim_start_matches('=');
            let what = format!(
                "a route that responds with {status}: nginx passes on only what it has a file for"
            );
            ledger.fill_in_for(files.id, &what);
        }
    }
    for step in destination.steps.iter().filter(|_| !leads_to_files) {
        record_query(step.directive, ledger);
    }
    for directive in destination.files.iter().filter(|_| !leads_to_files) {
        let difference = "requests for files are passed on too, and count in the limits behind";
        ledger.differs(directive.id, difference);
        let what = format!(
            "a route for the files that nginx answers with, unless origin {origin} has them"
        );
        ledger.fill_in_for(directive.id, &what);
    }
}

/// Records that requests which a directive passes on have another query in nginx.
fn record_query(directive: &Directive, ledger: &mut Ledger) {
    let target = match directive.name.as_str() {
        "rewrite" => directive.word(1),
        _ => directive.words.last().map(String::as_str),
    };
    let target = target.unwrap_or_default();
    match templates::query_change(target, &directive.name) {
        QueryChange::Kept => {}
        QueryChange::Dropped => {
            ledger.differs(directive.id, "the query of the client goes along");
        }
        QueryChange::Own => {
            let what = format!("the query of {target}; {}", templates::OWN_QUERY);
            ledger.fill_in_for(directive.id, &what);
        }
    }
}

/// The part of a configuration that the routes of a server block are made for.
pub(super) struct ServerPlace<'p, 'd> {
    pub(super) server: &'p super::listens::ServerBlock<'d>,
    pub(super) number: usize,
    pub(super) hosts: &'p [ServerHost],
    /// The hosts of all server blocks.
    pub(super) all_hosts: &'p BTreeSet<Option<String>>,
    /// True if its routes refuse who has no certificate.
    pub(super) requires_certificate: bool,
}

impl ServerPlace<'_, '_> {
    /// Returns further keys of each route.
    fn keys(&self) -> Vec<(&'static str, String)> {
        let certificate = ("require", "{ client_certificate = true }".to_owned());
        let keys = self.requires_certificate.then_some(certificate);
        keys.into_iter().collect()
    }
}

/// Returns the action of a location whose `rewrite` sends clients elsewhere.
fn redirected(
    redirect: PathRedirect<'_>,
    remarks: &mut TableRemarks,
    ledger: &mut Ledger,
) -> RouteAction {
    let rewrite = redirect.rewrite.id;
    ledger.translated(rewrite);
    remarks.sources.push(rewrite);
    if !redirect.keeps_query {
        let difference = "the query of the client goes along";
        ledger.differs(rewrite, difference);
        remarks.differences.push(difference.to_owned());
    }
    RouteAction::Redirect {
        to: redirect.to,
        status: redirect.status,
    }
}

fn forward(origin: String) -> RouteAction {
    RouteAction::Forward {
        origin,
        strip_prefix: None,
        rewrite: None,
    }
}

/// Returns the least of the bounds that a request meets.
fn max_body(directives: &[&Directive], ledger: &mut Ledger) -> Option<String> {
    let mut least: Option<u64> = None;
    for directive in directives {
        match directive.word(0).and_then(super::zones::bytes) {
            // nginx takes 0 for no bound.
            Some(0) => {
                ledger.differs(directive.id, "a body has at most 1 TiB");
                least = least.or(Some(1 << 40));
            }
            Some(bytes) => {
                ledger.translated(directive.id);
                least = Some(least.map_or(bytes, |least| least.min(bytes)));
            }
            None => ledger.left_out(directive.id, "it is no size"),
        }
    }
    least.map(|bytes| match bytes {
        bytes if bytes % (1 << 40) == 0 => format!("{}TiB", bytes >> 40),
        bytes if bytes % (1 << 20) == 0 => format!("{}MiB", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => format!("{}KiB", bytes >> 10),
        bytes => format!("{bytes}B"),
    })
}
