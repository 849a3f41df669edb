//! Makes routes of the sites of listeners: one for each cell of requests that needs one.

use sluicegate_base::path::PathCase;

use super::answers::StepAnswer;
use super::conditions::RequestCondition;
use super::division;
use super::evaluation::{CellEvaluation, SiteEffect};
use super::listeners::{ListenerGroup, PlacedSite};
use super::paths::CurrentPath;
use super::redirects::{self, RoutePlace};
use super::steps::{ChainStep, StepKind};
use crate::bounds;
use crate::cells::{self, PathTerm, RequestCell, covers_host};
use crate::ledger::{EntryId, Ledger};
use crate::model::{FieldEdits, GatewayModel, Limit, Route, RouteAction, TableRemarks};

/// A site whose directives were read.
pub(super) struct ReadSite {
    pub(super) id: EntryId,
    pub(super) steps: Vec<ChainStep>,
}

/// A cell of a site.
type SiteCell = (RequestCell, SiteEffect);

/// Makes the routes of a group of listeners.
pub(super) struct SiteRouteMaker<'s> {
    pub(super) sites: &'s [ReadSite],
    pub(super) limits: &'s [Limit],
    pub(super) group: &'s ListenerGroup,
}

impl SiteRouteMaker<'_> {
    /// Adds the routes.
    pub(super) fn add_routes(&self, gateway: &mut GatewayModel, ledger: &mut Ledger) {
        let mut cells: Vec<SiteCell> = Vec::new();
        for placed in &self.group.sites {
            for host in self.hosts(placed) {
                match self.evaluated(placed, host.as_deref(), ledger) {
                    Ok(found) if cells.len() + found.len() > bounds::REQUEST_CELLS => {
                        let most = bounds::REQUEST_CELLS;
                        let reason =
                            format!("the sites divide requests into more than {most} cases");
                        ledger.fill_in_for(self.sites[placed.site].id, &reason);
                    }
                    Ok(found) => cells.extend(found),
                    Err(reason) => ledger.fill_in_for(self.sites[placed.site].id, &reason),
                }
            }
        }
        let kept = joined(cells::needed(cells));
        for group in kept.chunk_by(|(one, _), (other, _)| one.host == other.host) {
            let open_prefixes = cells::open_prefixes(group.iter().map(|(cell, _)| cell));
            for (cell, effect) in group {
                self.add_route(cell, effect, &open_prefixes, gateway, ledger);
            }
        }
        self.add_redirects(gateway);
    }

    /// Returns the hosts of a site, and those that its conditions name.
    fn hosts(&self, placed: &PlacedSite) -> Vec<Option<String>> {
        let mut found: Vec<Option<String>> = Vec::new();
        let mut inner: Vec<&RequestCondition> = Vec::new();
        collect(&self.sites[placed.site].steps, &mut inner);
        let named = inner.into_iter().filter_map(|it| match it {
            RequestCondition::Host(hosts) => Some(hosts),
            _ => None,
        });
        let named: Vec<&String> = named.flatten().collect();
        for host in placed.hosts.iter().cloned() {
            if !found.contains(&host) {
                found.push(host);
            }
        }
        for host in named {
            let owner = self.owner(host);
            let known = Some(host.clone());
            if owner == Some(placed.site) && !found.contains(&known) {
                found.push(known);
            }
        }
        found
    }

    /// Returns the site that takes a host.
    fn owner(&self, host: &str) -> Option<usize> {
        let all = self.group.sites.iter().flat_map(|placed| {
            let hosts = placed.hosts.iter();
            hosts.map(|own| (placed.site, own.as_deref()))
        });
        let taking = all.filter(|(_, own)| own.is_none_or(|own| covers_host(own, host)));
        let rank = |own: Option<&str>| match own {
            None => (0, 0),
            Some(own) if own.starts_with('*') => (1, own.len()),
            Some(_) => (2, 0),
        };
        let best = taking.max_by_key(|(_, own)| rank(*own));
        best.map(|(site, _)| site)
    }

    fn evaluated(
        &self,
        placed: &PlacedSite,
        host: Option<&str>,
        ledger: &mut Ledger,
    ) -> Result<Vec<SiteCell>, String> {
        let scheme = self.group.scheme;
        let steps = &self.sites[placed.site].steps;
        let cells = division::divide(host, scheme, steps)?;
        let mut found = Vec::with_capacity(cells.len());
        for cell in cells {
            let evaluation = CellEvaluation::new(&cell, scheme, steps);
            evaluation
                .sources
                .iter()
                .for_each(|id| ledger.translated(*id));
            for (id, reason) in &evaluation.problems {
                ledger.fill_in_for(*id, reason);
            }
            let effect = evaluation.effect;
            found.push((cell, effect));
        }
        Ok(found)
    }

    /// Returns the number of the site of a host.
    fn site(&self, host: Option<&str>) -> Option<&ReadSite> {
        let exact = |placed: &&PlacedSite| placed.hosts.iter().any(|own| own.as_deref() == host);
        let placed = self.group.sites.iter().find(exact);
        let number = placed
            .map(|placed| placed.site)
            .or_else(|| self.owner(host?));
        number.map(|number| &self.sites[number])
    }

    fn add_route(
        &self,
        cell: &RequestCell,
        effect: &SiteEffect,
        open_prefixes: &[String],
        gateway: &mut GatewayModel,
        ledger: &mut Ledger,
    ) {
        let Some(site) = self.site(cell.host.as_deref()) else {
            return;
        };
        let path = cells::path(cell.path.as_ref(), open_prefixes);
        let (path, case) = match path.and_then(|path| Ok((path, path_case(cell)?))) {
            Ok(found) => found,
            Err(reason) => {
                let text = cell.path.as_ref().map(shown).unwrap_or_default();
                let what = format!("the path {text} is left out: {reason}");
                ledger.fill_in_for(site.id, &what);
                return;
            }
        };
        let mut remarks = TableRemarks {
            sources: vec![site.id],
            differences: Vec::new(),
        };
        let evaluation = CellEvaluation::new(cell, self.group.scheme, &site.steps);
        remarks.sources.extend(evaluation.sources);
        let place = RoutePlace {
            cell,
            open_prefixes,
            scheme: self.group.scheme,
        };
        let action = match place.action(effect, &mut remarks) {
            Ok(action) => action,
            Err(reason) => {
                let id = remarks.sources.last().copied().unwrap_or(site.id);
                ledger.fill_in_for(id, &format!("its requests are answered with 404: {reason}"));
                RouteAction::empty_answer(404)
            }
        };
        remarks.differences.extend(differences(cell, effect));
        let limits = effect.limits.iter().map(|at| self.limits[*at].name.clone());
        gateway.routes.push(Route {
            remarks,
            host: cell.host.clone(),
            case,
            listeners: self.group.names.clone(),
            methods: cell.method.clone().unwrap_or_default(),
            values: cell.values.clone(),
            client: cell.client.clone().unwrap_or_default(),
            limits: limits.collect(),
            max_body: effect.max_body.clone(),
            request_fields: request_fields(effect),
            response_fields: effect.response_fields.clone(),
            keys: Vec::from_iter(effect.compress.clone().map(|it| ("compress", it))),
            ..Route::new(path, action)
        });
    }

    /// Adds the redirects of automatic HTTPS beside sites in clear text.
    fn add_redirects(&self, gateway: &mut GatewayModel) {
        for (host, port) in &self.group.redirected {
            let port = match port {
                443 => String::new(),
                port => format!(":{port}"),
            };
            let action = RouteAction::Redirect {
                to: format!("https://{{host}}{port}/{{rest}}"),
                status: 308,
            };
            let mut route = Route::new("/*".to_owned(), action);
            route.host = Some(host.clone());
            route.listeners.clone_from(&self.group.names);
            gateway.routes.push(route);
        }
    }
}

/// Returns the treatment of case: only `path_regexp` regards it.
fn path_case(cell: &RequestCell) -> Result<PathCase, String> {
    let is_expression = |it: &PathTerm| matches!(it, PathTerm::Expression(_));
    match &cell.path {
        Some(PathTerm::Expression(_)) => Ok(PathCase::Kept),
        Some(PathTerm::Every(parts)) if parts.iter().any(is_expression) => {
            match parts.iter().all(is_expression) {
                true => Ok(PathCase::Kept),
                false => Err(
                    "`path_regexp` regards letter case, and `path` does not; write a route of both"
                        .to_owned(),
                ),
            }
        }
        _ => Ok(PathCase::Ignored),
    }
}

/// Returns the edits of the fields that the origin gets. An answer of the gateway's own reads none.
fn request_fields(effect: &SiteEffect) -> FieldEdits {
    match &effect.answer {
        Some(StepAnswer::Forward(_)) => effect.request_fields.clone(),
        _ => FieldEdits::default(),
    }
}

/// Returns what a route means otherwise than the site.
fn differences(cell: &RequestCell, effect: &SiteEffect) -> Vec<String> {
    let mut found = Vec::new();
    let host = cell.host.as_deref().unwrap_or_default();
    if host.starts_with('*') {
        found.push("`*` is names at any depth; in Caddy it is one label".to_owned());
    }
    if effect.limits.len() > 1 {
        let difference = "a request that one limit refuses is counted in none; Caddy counts it in each zone that it looks at before";
        found.push(difference.to_owned());
    }
    found
}

/// Returns a path as Caddy writes it.
fn shown(term: &PathTerm) -> String {
    match term {
        PathTerm::Exact(text) => format!("`{text}`"),
        PathTerm::Beginning(text) => format!("`{text}*`"),
        PathTerm::Ending(text) => format!("`*{text}`"),
        PathTerm::Between(begin, end) => format!("`{begin}*{end}`"),
        PathTerm::Containing(text) => format!("`*{text}*`"),
        PathTerm::Segments(text) | PathTerm::Expression(text) => format!("`~ {text}`"),
        PathTerm::Every(parts) => parts.iter().map(shown).collect::<Vec<_>>().join(" and "),
    }
}

/// Collects the terms of all conditions.
fn collect<'s>(steps: &'s [ChainStep], into: &mut Vec<&'s RequestCondition>) {
    for step in steps {
        if let Ok(condition) = &step.matcher.condition {
            division::leaves(condition, into);
        }
        match &step.kind {
            StepKind::Block(steps) => collect(steps, into),
            StepKind::Limits(zones) => {
                for zone in zones {
                    division::leaves(&zone.condition, into);
                }
            }
            _ => {}
        }
    }
}

/// Makes one cell of those that differ in their methods only.
fn joined(cells: Vec<SiteCell>) -> Vec<SiteCell> {
    let mut found: Vec<SiteCell> = Vec::new();
    for (cell, effect) in cells {
        if let Some((last, known)) = found.last_mut()
            && let (Some(methods), Some(more)) = (&mut last.method, &cell.method)
            && *known == effect
            && (&last.host, &last.path, &last.client) == (&cell.host, &cell.path, &cell.client)
            && last.values == cell.values
        {
            methods.extend(more.iter().cloned());
            continue;
        }
        found.push((cell, effect));
    }
    found
}

impl RoutePlace<'_> {
    fn action(
        &self,
        effect: &SiteEffect,
        remarks: &mut TableRemarks,
    ) -> Result<RouteAction, String> {
        let action = match &effect.answer {
            None => {
                let difference = "no directive answers, so Caddy answers 200 without a body";
                remarks.differences.push(difference.to_owned());
                RouteAction::empty_answer(200)
            }
            Some(StepAnswer::Respond { status, body }) => RouteAction::Respond {
                status: *status,
                body: body.clone(),
            },
            Some(StepAnswer::Redirect { to, status }) => {
                let url = redirects::url(to, self, effect.path.as_ref())?;
                remarks
                    .differences
                    .extend(url.difference.map(str::to_owned));
                RouteAction::Redirect {
                    to: url.to,
                    status: *status,
                }
            }
            Some(StepAnswer::Forward(forward)) => {
                let change = self.path_change(effect.path.as_ref())?;
                RouteAction::Forward {
                    origin: forward.origin.clone(),
                    strip_prefix: change.strip_prefix,
                    rewrite: change.rewrite,
                }
            }
        };
        Ok(action)
    }

    /// Returns the path that the origin gets.
    fn path_change(&self, path: Option<&CurrentPath>) -> Result<OriginPath, String> {
        let mut change = OriginPath::default();
        let Some(path) = path else {
            return Ok(change);
        };
        let no_name = "the route has no name for the rest of its path";
        let path = path.template.as_deref().ok_or(no_name)?;
        let own = CurrentPath::new(self.cell.path.as_ref()).template;
        let prefix = own.as_deref().and_then(|own| own.strip_suffix(path));
        let is_expression = cells::is_expression(self.cell.path.as_ref(), self.open_prefixes);
        match prefix.filter(|prefix| prefix.starts_with('/') && !is_expression) {
            Some(prefix) => change.strip_prefix = Some(prefix.to_owned()),
            None if own.as_deref() == Some(path) => {}
            None => change.rewrite = Some(self.rendered(path)),
        }
        Ok(change)
    }
}

/// The keys of a route for the path that the origin gets.
#[derive(Default)]
struct OriginPath {
    strip_prefix: Option<String>,
    rewrite: Option<String>,
}
