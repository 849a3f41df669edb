//! Makes the routes of a server block: one for each location, host, and case of its limits.

use super::access::{self, ClientAccess};
use super::cases::{self, RouteCase};
use super::fields;
use super::limits::{LimitMaker, LocationLimits};
use super::listens::ServerHosts;
use super::locations::{self, LocationBlock, LocationMatch, PlacedLocation};
use super::origins::OriginMaker;
use super::tree::Directive;
use super::variables::ValueCondition;
use super::zones::ZoneTable;
use crate::ledger::{EntryId, Ledger};
use crate::model::{ClientList, Route, RouteAction, TableRemarks};
use crate::names::NamePool;

/// Makes routes, and with them limits, origins and lists.
pub(super) struct RouteMaker<'d> {
    pub(super) zones: ZoneTable,
    pub(super) limits: LimitMaker,
    pub(super) origins: OriginMaker<'d>,
    pub(super) lists: Vec<ClientList>,
    pub(super) list_names: NamePool,
    pub(super) routes: Vec<Route>,
}

impl<'d> RouteMaker<'d> {
    /// Adds the routes of a server block.
    pub(super) fn add_server(
        &mut self,
        server: &super::listens::ServerBlock<'d>,
        number: usize,
        hosts: &ServerHosts,
        ledger: &mut Ledger,
    ) {
        let children = server.directive.children();
        let mut found = Vec::new();
        locations::collect(children, &server.scope, &mut found, ledger);
        let takes_all =
            |it: &LocationBlock<'_>| it.match_kind != LocationMatch::Exact && it.text == "/";
        let answers = children
            .iter()
            .any(|it| matches!(it.name.as_str(), "return" | "root"));
        let is_limited = !server.scope.requests.is_empty() || !server.scope.connections.is_empty();
        if children.iter().any(|it| it.name == "return") {
            // It answers before a location is looked for.
            found.clear();
        }
        if !found.iter().any(takes_all) && (answers || is_limited || found.is_empty()) {
            found.push(LocationBlock {
                directive: None,
                match_kind: LocationMatch::Prefix,
                text: "/".to_owned(),
                scope: server.scope.clone(),
                children,
            });
        }
        let placed = locations::place(found, ledger);
        let hosts: Vec<Option<String>> = match hosts.any {
            true => vec![None],
            false => hosts.names.iter().cloned().map(Some).collect(),
        };
        for location in placed {
            self.add_location(&location, server, number, &hosts, ledger);
        }
    }

    fn add_location(
        &mut self,
        placed: &PlacedLocation<'d>,
        server: &super::listens::ServerBlock<'d>,
        number: usize,
        hosts: &[Option<String>],
        ledger: &mut Ledger,
    ) {
        let location = &placed.location;
        let scope = &location.scope;
        let own = location.directive.unwrap_or(server.directive);
        let mut remarks = TableRemarks {
            sources: vec![own.id],
            differences: Vec::new(),
        };
        let action = self.action(placed, &mut remarks, ledger);
        // nginx answers `return` before it looks at limits and access.
        let is_answer = !matches!(action, RouteAction::Forward { .. });
        let LocationLimits {
            choices,
            sources,
            differences,
            status,
        } = match is_answer {
            true => LocationLimits::default(),
            false => self.limits.of_location(scope, number, &self.zones, ledger),
        };
        remarks.sources.extend(sources);
        remarks.differences.extend(differences);
        let max_body = scope
            .max_body
            .and_then(|directive| max_body(directive, ledger));
        let set_headers = match is_answer {
            true => Vec::new(),
            false => fields::set_headers(scope, ledger),
        };
        let access = match is_answer {
            true => ClientAccess::All,
            false => access::read(&scope.access, ledger),
        };
        let exempt = cases::exempt(&choices);
        let allow = exempt.map(|blocks| self.list("not-limited", &blocks, &[]));
        let (cases, differences) = match &allow {
            // The list takes the place of all cases.
            Some(_) => cases::of(&cases::defaults(choices)),
            None => cases::of(&choices),
        };
        remarks.differences.extend(differences);
        for host in hosts {
            for case in &cases {
                let mut route = Route {
                    remarks: remarks.clone(),
                    host: host.clone(),
                    path: placed.path.clone(),
                    methods: case.methods.clone(),
                    header: None,
                    query: None,
                    client: case.client.clone(),
                    limits: case.limits.clone(),
                    allow: allow.iter().cloned().collect(),
                    block: Vec::new(),
                    action: action.clone(),
                    max_body: max_body.clone(),
                    set_headers: set_headers.clone(),
                    status: status.filter(|_| !case.limits.is_empty()),
                };
                condition(case, &mut route);
                self.add_route(route, &access, ledger);
            }
        }
    }

    /// Adds a route, for the clients that may come.
    fn add_route(&mut self, mut route: Route, access: &ClientAccess, ledger: &mut Ledger) {
        match access {
            ClientAccess::All => self.routes.push(route),
            ClientAccess::Except { sources, blocks } => {
                let name = self.list("denied", blocks, sources);
                route.block = vec![name];
                self.routes.push(route);
            }
            ClientAccess::Only { sources, blocks } if route.client.is_empty() => {
                route.remarks.sources.extend(sources);
                let refused = Route {
                    limits: Vec::new(),
                    allow: Vec::new(),
                    max_body: None,
                    set_headers: Vec::new(),
                    status: None,
                    action: RouteAction::Respond {
                        status: 403,
                        body: String::new(),
                    },
                    ..route.clone()
                };
                // `deny all` alone lets nobody come.
                if !blocks.is_empty() {
                    route.client.clone_from(blocks);
                    self.routes.push(route);
                }
                self.routes.push(refused);
            }
            ClientAccess::Only { sources, .. } => {
                for id in sources {
                    let reason =
                        "access and limits of one location both depend on the client's address";
                    ledger.left_out(*id, reason);
                    ledger.fill_in(format!("{}: {reason}", ledger.comment(*id)));
                }
                self.routes.push(route);
            }
        }
    }

    /// Returns the list of these blocks, which is made if it is new.
    fn list(&mut self, wanted: &str, blocks: &[String], sources: &[EntryId]) -> String {
        if let Some(list) = self.lists.iter().find(|list| list.cidrs == blocks) {
            return list.name.clone();
        }
        let name = self.list_names.unique(wanted);
        self.lists.push(ClientList {
            name: name.clone(),
            remarks: TableRemarks {
                sources: sources.to_vec(),
                differences: Vec::new(),
            },
            cidrs: blocks.to_vec(),
        });
        name
    }

    /// Returns the action of a location.
    fn action(
        &mut self,
        placed: &PlacedLocation<'d>,
        remarks: &mut TableRemarks,
        ledger: &mut Ledger,
    ) -> RouteAction {
        let location = &placed.location;
        let find = |names: &[&str]| {
            let mut children = location.children.iter();
            children.find(|it| names.contains(&it.name.as_str()))
        };
        if let Some(directive) = find(&["return"]) {
            match answer(directive, placed) {
                Ok(action) => {
                    ledger.translated(directive.id);
                    remarks.sources.push(directive.id);
                    return action;
                }
                Err(reason) => {
                    ledger.left_out(directive.id, reason.clone());
                    let files = self.origins.files(&ledger.comment(directive.id), ledger);
                    return forward(files);
                }
            }
        }
        let pass = find(&["proxy_pass", "grpc_pass"]).filter(|_| location.directive.is_some());
        let Some(pass) = pass else {
            let what = match find(&["fastcgi_pass", "uwsgi_pass", "scgi_pass", "memcached_pass"]) {
                Some(other) => ledger.comment(other.id),
                None => format!("the files of {}", placed.path),
            };
            return forward(self.origins.files(&what, ledger));
        };
        match self.origins.target(pass, &location.scope, ledger) {
            Ok(target) => {
                remarks.sources.push(pass.id);
                let (strip_prefix, rewrite) = match target.path {
                    Some(path) => rewritten(placed, &path),
                    None => (None, None),
                };
                RouteAction::Forward {
                    origin: target.origin,
                    strip_prefix,
                    rewrite,
                }
            }
            Err(reason) => {
                ledger.left_out(pass.id, reason);
                forward(self.origins.files(&ledger.comment(pass.id), ledger))
            }
        }
    }
}

fn forward(origin: String) -> RouteAction {
    RouteAction::Forward {
        origin,
        strip_prefix: None,
        rewrite: None,
    }
}

/// Returns `strip_prefix` and `rewrite` for a target that has a path, which takes the place of the location's.
fn rewritten(placed: &PlacedLocation<'_>, path: &str) -> (Option<String>, Option<String>) {
    let location = &placed.location;
    let template = path.replace('{', "{{").replace('}', "}}");
    match location.match_kind {
        LocationMatch::Exact if location.text == path => (None, None),
        LocationMatch::Exact => (None, Some(template)),
        // nginx refuses a path behind the target of an expression.
        LocationMatch::Expression => (None, None),
        _ if location.text == path => (None, None),
        _ if path == "/" && placed.rest == "{rest}" => {
            (Some(location.text.trim_end_matches('/').to_owned()), None)
        }
        _ => (None, Some(template + placed.rest)),
    }
}

/// Returns the answer that `return` gives.
fn answer(directive: &Directive, placed: &PlacedLocation<'_>) -> Result<RouteAction, String> {
    let (status, text) = match directive.words.as_slice() {
        [url] if url.contains("://") => (302, url.as_str()),
        [status] => (number(status)?, ""),
        [status, text] => (number(status)?, text.as_str()),
        _ => return Err("a status is expected".to_owned()),
    };
    if matches!(status, 301 | 302 | 303 | 307 | 308) && !text.is_empty() {
        let (before, keeps_path) = match text.strip_suffix("$request_uri") {
            Some(before) => (before, true),
            None => (text, false),
        };
        let before = before
            .replace("$scheme", "https")
            .replace("$host", "{host}");
        if before.contains('$') {
            return Err("a redirect has no slot for these variables".to_owned());
        }
        // The query goes along in any case.
        let prefix = placed.location.text.replace('{', "{{").replace('}', "}}");
        let rest = match placed.location.match_kind {
            _ if !keeps_path => String::new(),
            LocationMatch::Exact => prefix,
            LocationMatch::Expression => {
                return Err("a redirect to the path of an expression has no counterpart".to_owned());
            }
            LocationMatch::Prefix | LocationMatch::FinalPrefix => prefix + placed.rest,
        };
        return Ok(RouteAction::Redirect {
            to: format!("{before}{rest}"),
            status,
        });
    }
    if text.contains('$') {
        return Err("bodies have no variables".to_owned());
    }
    let status = if status == 444 { 403 } else { status };
    if !(200..=599).contains(&status) {
        return Err(format!("{status} cannot be answered"));
    }
    Ok(RouteAction::Respond {
        status,
        body: text.to_owned(),
    })
}

fn number(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("{text:?} is no status"))
}

fn max_body(directive: &Directive, ledger: &mut Ledger) -> Option<String> {
    let bytes = directive.word(0).and_then(super::zones::bytes);
    match bytes {
        // nginx takes 0 for no bound; this is the largest one.
        Some(0) => {
            ledger.differs(directive.id, "a body has at most 1 TiB");
            Some("1TiB".to_owned())
        }
        Some(bytes) => {
            ledger.translated(directive.id);
            Some(match bytes {
                bytes if bytes % (1 << 20) == 0 => format!("{}MiB", bytes >> 20),
                bytes if bytes % (1 << 10) == 0 => format!("{}KiB", bytes >> 10),
                bytes => format!("{bytes}B"),
            })
        }
        None => {
            ledger.left_out(directive.id, "it is no size");
            None
        }
    }
}

fn condition(case: &RouteCase, route: &mut Route) {
    match &case.condition {
        Some(ValueCondition::Header(name, value)) => {
            route.header = Some((name.clone(), value.clone()))
        }
        Some(ValueCondition::Query(name, value)) => {
            route.query = Some((name.clone(), value.clone()))
        }
        None => {}
    }
}
