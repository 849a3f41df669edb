//! Makes routes of routers: the requests of an entry point are divided into cases, and each is led where the strongest router leads it.

use std::collections::{BTreeMap, BTreeSet};

use super::account::TreeAccount;
use super::chain::{MiddlewareStep, SchemeRedirect};
use super::paths::{FollowedPath, PathEdit, substituted_before_rest};
use super::routers::TraefikRouter;
use super::services::{ServiceTarget, TraefikOrigins};
use super::tree;
use crate::cells::{self, CellDivision, RequestCell, TermList};
use crate::cells::{ConditionTerm, SignedTerm};
use crate::model::{FieldEdits, Route, RouteAction, TableRemarks};
use crate::slots;

/// The result for the requests of a case.
#[derive(Clone, Debug, Default, PartialEq)]
struct CaseEffect {
    /// The router, by its number; `None` where no router takes the requests.
    router: Option<usize>,
    limits: Vec<String>,
    edits: Vec<PathEdit>,
    redirect: Option<CaseRedirect>,
    /// The clients that pass, the status of others, and the limits before.
    allowed: Option<(Vec<String>, u16, Vec<String>)>,
    max_body: Option<String>,
    request_fields: FieldEdits,
    response_fields: FieldEdits,
    keys: BTreeMap<&'static str, String>,
    attempts: Option<u64>,
}

/// A redirect: the beginning of the URL, and whether the path follows it.
#[derive(Clone, Debug, PartialEq)]
struct CaseRedirect {
    url: String,
    keeps_path: bool,
    status: u16,
}

/// Conditions by the host that they need, so that those of other hosts are not compared.
struct HostIndex<'d> {
    of_host: BTreeMap<&'d str, Vec<usize>>,
    others: Vec<usize>,
    conditions: &'d [Vec<SignedTerm>],
}

impl<'d> HostIndex<'d> {
    fn new(conditions: &'d [Vec<SignedTerm>]) -> Self {
        let mut index = Self {
            of_host: BTreeMap::new(),
            others: Vec::new(),
            conditions,
        };
        for (at, terms) in conditions.iter().enumerate() {
            let needed = terms.iter().find_map(|it| match &it.term {
                ConditionTerm::Host(hosts) if !it.is_negated => Some(hosts),
                _ => None,
            });
            match needed.filter(|hosts| hosts.iter().all(|it| !it.starts_with('*'))) {
                Some(hosts) => {
                    for host in hosts {
                        index.of_host.entry(host).or_default().push(at);
                    }
                }
                None => index.others.push(at),
            }
        }
        index
    }

    /// Returns the conditions that requests for the host of a cell can meet, in their order.
    fn conditions(&self, cell: &RequestCell) -> Vec<&'d TermList> {
        let own = cell.host.as_deref().and_then(|it| self.of_host.get(it));
        let mut found: Vec<usize> = own
            .into_iter()
            .flatten()
            .chain(&self.others)
            .copied()
            .collect();
        found.sort_unstable();
        found.dedup();
        found
            .into_iter()
            .map(|at| self.conditions[at].as_slice())
            .collect()
    }
}

/// The connections of clients to an entry point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionKind {
    ClearText,
    Tls,
}

/// Translates the routers of an entry point.
pub(super) struct RouterRoutes<'r, 'c, 's> {
    pub(super) routers: &'r [&'r TraefikRouter<'c>],
    pub(super) connection: ConnectionKind,
    /// `listeners` of each route, where not all have the same.
    pub(super) listeners: &'r [String],
    pub(super) services: &'s mut TraefikOrigins<'c>,
}

/// The difference of each redirect.
const REDIRECT: &str = "307 and 308 for all methods; Traefik answers 302 and 301 to GET";

impl RouterRoutes<'_, '_, '_> {
    /// Returns the routes of all routers.
    pub(super) fn routes(&mut self, account: &mut TreeAccount<'_>) -> Vec<Route> {
        let divisions: Vec<Vec<SignedTerm>> =
            self.routers.iter().flat_map(|it| it.divisions()).collect();
        let hosts = cells::hosts(divisions.iter().map(Vec::as_slice));
        let index = HostIndex::new(&divisions);
        let CellDivision {
            cells,
            has_intersections,
        } = match cells::divide(&hosts, |cell| index.conditions(cell)) {
            Ok(division) => division,
            Err(reason) => {
                account.ledger.fill_in(format!("[[route]]: {reason}"));
                return Vec::new();
            }
        };
        let mut evaluated = Vec::with_capacity(cells.len());
        for cell in cells {
            let effect = self.effect(&cell, account);
            evaluated.push((cell, effect));
        }
        self.report_unreached(&evaluated, account);
        let mut cells = cells::needed(evaluated);
        // The gateway answers 404 itself where no route is.
        if let Some((cell, effect)) = cells.last()
            && effect.router.is_none()
            && *cell == RequestCell::default()
        {
            cells.pop();
        }
        if !has_intersections {
            self.report_overlaps(&cells, account);
        }
        let mut routes = Vec::new();
        for group in cells.chunk_by(|(one, _), (other, _)| one.host == other.host) {
            let open_prefixes = cells::open_prefixes(group.iter().map(|(cell, _)| cell));
            for (cell, effect) in group {
                match self.made((cell, effect), &open_prefixes, account) {
                    Ok(made) => routes.extend(made),
                    Err(reason) => {
                        let router = effect.router.map_or("none", |at| self.routers[at].name);
                        account
                            .ledger
                            .fill_in(format!("[[route]] of the router {router}: {reason}"));
                    }
                }
            }
        }
        routes
    }

    /// Records the routers whose requests all belong to stronger ones.
    fn report_unreached(&self, cells: &[(RequestCell, CaseEffect)], account: &mut TreeAccount<'_>) {
        let reached: BTreeSet<usize> = cells.iter().filter_map(|(_, it)| it.router).collect();
        for (at, router) in self.routers.iter().enumerate() {
            if !reached.contains(&at) {
                let rule = tree::member(router.node, "rule").unwrap_or(router.node);
                let difference = "it gets no request: routers with a higher priority, by default a longer rule, take all";
                account.differs(rule, difference);
            }
        }
    }

    /// Follows the requests of a case through the chain of the strongest router that takes them.
    fn effect(&self, cell: &RequestCell, account: &mut TreeAccount<'_>) -> CaseEffect {
        let mut effect = CaseEffect::default();
        let takes = |router: &&TraefikRouter<'_>| {
            let mut alternatives = router.rule.alternatives.iter();
            alternatives.any(|it| cell.may_hold(it, cells::CellDimension::Method))
        };
        let Some(at) = self.routers.iter().position(takes) else {
            return effect;
        };
        effect.router = Some(at);
        let mut path = FollowedPath::new(cell.path.as_ref());
        for (id, step) in &self.routers[at].chain {
            match step {
                MiddlewareStep::Limit(name) if !effect.limits.contains(name) => {
                    effect.limits.push(name.clone());
                }
                MiddlewareStep::Limit(_) => {}
                MiddlewareStep::Path(edit) if is_without_effect(edit, path.as_mut()) => {}
                MiddlewareStep::Path(edit) => effect.edits.push(edit.clone()),
                MiddlewareStep::Allow(blocks, status) if effect.allowed.is_none() => {
                    effect.allowed = Some((blocks.clone(), *status, effect.limits.clone()));
                }
                MiddlewareStep::Allow(..) => account.ledger.fill_in(format!(
                    "[[route]] of the router {}: a second list of clients that pass",
                    self.routers[at].name
                )),
                MiddlewareStep::MaxBody(most) => effect.max_body = Some(most.clone()),
                MiddlewareStep::RequestFields(edits) => {
                    effect.request_fields.replace_values(edits);
                }
                MiddlewareStep::ResponseFields(edits) => {
                    effect.response_fields.replace_values(edits);
                }
                MiddlewareStep::Further(key, value) => {
                    effect.keys.insert(key, value.clone());
                }
                MiddlewareStep::Retry(attempts) => effect.attempts = Some(*attempts),
                MiddlewareStep::ToScheme(redirect) => effect.redirect = self.to_scheme(redirect),
                MiddlewareStep::ToUrl(expression, replacement, status) => {
                    match self.to_url((expression, replacement), *status, cell) {
                        Ok(redirect) => effect.redirect = redirect,
                        Err(reason) => {
                            if let Some(id) = id {
                                account.ledger.fill_in_for(*id, &reason);
                            }
                        }
                    }
                }
            }
            if effect.redirect.is_some() {
                break;
            }
        }
        effect
    }

    /// Returns the redirect to a scheme; `None` where the connection has it.
    fn to_scheme(&self, redirect: &SchemeRedirect) -> Option<CaseRedirect> {
        let has_it = match self.connection {
            ConnectionKind::Tls => redirect.scheme == "https",
            ConnectionKind::ClearText => redirect.scheme == "http",
        };
        let port = match (redirect.scheme.as_str(), redirect.port.as_deref()) {
            (_, None) | ("https", Some("443")) | ("http", Some("80")) => String::new(),
            (_, Some(port)) => format!(":{port}"),
        };
        (!has_it).then(|| CaseRedirect {
            url: format!("{}://{{host}}{port}", redirect.scheme),
            keeps_path: true,
            status: redirect.status,
        })
    }

    /// Returns the redirect of an expression over the URL; `None` where the requests of a case do not match it.
    fn to_url(
        &self,
        edit: (&str, &str),
        status: u16,
        cell: &RequestCell,
    ) -> Result<Option<CaseRedirect>, String> {
        let scheme = match self.connection {
            ConnectionKind::Tls => "https",
            ConnectionKind::ClearText => "http",
        };
        let host = cell.host.as_deref().filter(|it| !it.starts_with('*'));
        let host = host
            .ok_or("an expression over URLs becomes a redirect where the router names the host")?;
        let url = format!("{scheme}://{host}/");
        let head = edit.0.split_once("://").map_or(edit.0, |(_, it)| it);
        let head = head
            .trim_end_matches(['$', '?'])
            .trim_end_matches("(.*)")
            .trim_end_matches("(.+)");
        // An expression without a path is about all paths of a host or about none.
        let is_about_hosts = !head.trim_end_matches(['/', '\\', '?']).contains('/');
        match substituted_before_rest(edit, &url)? {
            Some((made, _)) if made == url => Ok(None),
            Some((made, keeps_path)) => Ok(Some(CaseRedirect {
                url: match keeps_path {
                    true => made.trim_end_matches('/').to_owned(),
                    false => made,
                },
                keeps_path,
                status,
            })),
            None if is_about_hosts => Ok(None),
            None => Err(format!(
                "{:?} is about some paths of {host}; write a route for them",
                edit.0
            )),
        }
    }

    /// Returns the routes of a case.
    fn made(
        &mut self,
        (cell, effect): (&RequestCell, &CaseEffect),
        open_prefixes: &[String],
        account: &mut TreeAccount<'_>,
    ) -> Result<Vec<Route>, String> {
        let term = cell.path.as_ref();
        let mut remarks = TableRemarks::default();
        if let Some(at) = effect.router {
            let rule = tree::member(self.routers[at].node, "rule");
            remarks.sources.extend(rule.and_then(tree::entry));
        }
        let (path, action) = match &effect.redirect {
            Some(redirect) => {
                remarks.differences.push(REDIRECT.to_owned());
                let to = redirect_url(redirect, cell, open_prefixes)?;
                let status = redirect.status;
                (
                    cells::path(term, open_prefixes)?,
                    RouteAction::Redirect { to, status },
                )
            }
            None => self.forward((cell, effect), open_prefixes, account)?,
        };
        let mut route = Route::new(path, action);
        route.remarks = remarks;
        route.host.clone_from(&cell.host);
        route.methods = cell.method.clone().unwrap_or_default();
        route.values.clone_from(&cell.values);
        route.client = cell.client.clone().unwrap_or_default();
        route.limits.clone_from(&effect.limits);
        route.listeners = self.listeners.to_vec();
        let refused = self.refused(effect, &route)?;
        if let Some((blocks, ..)) = &effect.allowed {
            route.client.clone_from(blocks);
        }
        let is_forwarded = matches!(route.action, RouteAction::Forward { .. });
        if is_forwarded {
            route.max_body.clone_from(&effect.max_body);
            route.request_fields.clone_from(&effect.request_fields);
            route.response_fields.clone_from(&effect.response_fields);
            route
                .keys
                .extend(effect.keys.iter().map(|(key, value)| (*key, value.clone())));
        }
        Ok([Some(route), refused].into_iter().flatten().collect())
    }

    /// Returns the route of the clients that do not pass.
    fn refused(&self, effect: &CaseEffect, route: &Route) -> Result<Option<Route>, String> {
        let Some((_, status, limits)) = &effect.allowed else {
            return Ok(None);
        };
        if !route.client.is_empty() {
            return Err("both its rule and a middleware depend on the client's address".to_owned());
        }
        Ok(Some(Route {
            action: RouteAction::empty_answer(*status),
            limits: limits.clone(),
            ..route.clone()
        }))
    }

    /// Returns the path and the action of requests that are not redirected.
    fn forward(
        &mut self,
        (cell, effect): (&RequestCell, &CaseEffect),
        open_prefixes: &[String],
        account: &mut TreeAccount<'_>,
    ) -> Result<(String, RouteAction), String> {
        let term = cell.path.as_ref();
        let respond = |status: u16, body: &str| RouteAction::Respond {
            status,
            body: body.to_owned(),
        };
        let plain = cells::path(term, open_prefixes);
        let Some(router) = effect.router.map(|at| self.routers[at]) else {
            return Ok((plain?, respond(404, "")));
        };
        let Some(service) = router.service else {
            account.ledger.fill_in(format!(
                "[[route]] of the router {}: it names no service",
                router.name
            ));
            return Ok((plain?, respond(404, "")));
        };
        let origin = match self.services.target(service, effect.attempts, account) {
            ServiceTarget::Origin(origin) => origin,
            ServiceTarget::Answer(status, body) => return Ok((plain?, respond(status, body))),
        };
        let mut sent = FollowedPath::new(term);
        for edit in &effect.edits {
            let path = sent
                .as_mut()
                .ok_or("the path of an expression is not changed")?;
            path.apply(edit)?;
        }
        let (path, rewrite) = match sent {
            Some(sent) => sent.route(term, open_prefixes)?,
            None => (plain?, None),
        };
        let action = RouteAction::Forward {
            origin,
            strip_prefix: None,
            rewrite,
        };
        Ok((path, action))
    }

    /// Records the paths whose requests another route takes, by which a refusal or a limit is lost.
    fn report_overlaps(&self, cells: &[(RequestCell, CaseEffect)], account: &mut TreeAccount<'_>) {
        let loses = |first: &CaseEffect, second: &CaseEffect| {
            let has_limit = |limit| first.limits.contains(limit);
            let loses_limit = !second.limits.iter().all(has_limit);
            first.router.is_some() && (loses_limit || first.allowed != second.allowed)
        };
        for (first, second) in cells::lost_overlaps(cells, loses) {
            account.ledger.fill_in(format!(
                "[[route]]: a path with both `{}` and `{}` has only the middlewares of the first; make a route of both",
                first.text(),
                second.text()
            ));
        }
    }
}

/// Applies a step to the path of a case, and returns true if it leaves the path as it is: another case may not have the same route then.
fn is_without_effect(edit: &PathEdit, path: Option<&mut FollowedPath>) -> bool {
    path.is_some_and(|path| {
        let before = path.clone();
        path.apply(edit).is_ok() && *path == before
    })
}

/// Returns the URL of a redirect for the route of a path.
fn redirect_url(
    redirect: &CaseRedirect,
    cell: &RequestCell,
    open_prefixes: &[String],
) -> Result<String, String> {
    let texts = redirect.url.split("{host}").map(slots::escaped);
    let texts: Vec<String> = texts.collect();
    let url = texts.join("{host}");
    if !redirect.keeps_path {
        return Ok(url);
    }
    let term = cell.path.as_ref();
    let path =
        FollowedPath::new(term).ok_or("a redirect has no name for the path of an expression")?;
    Ok(url + &path.template(term, open_prefixes))
}

#[cfg(test)]
mod tests {
    use crate::{Format, NoFiles, import};

    /// Goal: a request with two fields goes where Traefik sends it. Method: routers of one path by a field each, the stronger one of which
    /// excludes the other field, and a rule with both fields.
    #[test]
    fn a_request_can_have_the_fields_of_several_routers() {
        let router = |name: &str, rule: &str, priority: u32| {
            format!("    {name}: {{ rule: \"{rule}\", priority: {priority}, service: {name} }}\n")
        };
        let service = |name: &str, port: u16| {
            let url = format!("http://10.0.0.1:{port}");
            format!("    {name}: {{ loadBalancer: {{ servers: [{{ url: \"{url}\" }}] }} }}\n")
        };
        let text = [
            "http:\n  routers:\n",
            &router("first", "Header(`X-A`, `1`) && !Header(`X-B`, `1`)", 30),
            &router("second", "Header(`X-B`, `1`)", 20),
            &router("third", "Header(`X-C`, `1`) && Header(`X-D`, `1`)", 10),
            "  services:\n",
            &service("first", 1),
            &service("second", 2),
            &service("third", 3),
        ]
        .concat();
        let toml = import(Format::Traefik, "t", &text, &NoFiles).unwrap().toml;
        let origin = |headers: &str| {
            let (_, route) = toml.split_once(&format!("headers = {{ {headers} }}\n"))?;
            let origin = route.lines().find(|line| line.starts_with("origin"))?;
            origin.split('"').nth(1)
        };
        assert_eq!(origin("x-a = \"1\", x-b = \"1\""), Some("second"), "{toml}");
        assert_eq!(origin("x-a = \"1\""), Some("first"), "{toml}");
        assert_eq!(origin("x-c = \"1\", x-d = \"1\""), Some("third"), "{toml}");
    }
}
