//! Makes routes, limits, origins and listeners of a frontend and its backends.

use std::collections::BTreeMap;

use super::backends;
use super::binds;
use super::evaluation::{self, CellAnswer, CellEffect, EvaluatedCell, RuleEvaluation};
use super::host_rules::HostRules;
use super::letter_case::FoldedPaths;
use super::limits::LimitTable;
use super::responses;
use super::rules::{self, ListenerTls, RuleKind, SectionRule};
use super::sections::{self, ConfigSection, SectionLine};
use super::separation::{self, FrontendPlace, ReadFrontend};
use super::sources;
use super::tables::StickTables;
use super::tls::TlsDefaults;
use super::uncounted;
use crate::cells::{self, CellDivision, RequestCell, TermList};
use crate::client_fields;
use crate::ledger::Ledger;
use crate::model::{GatewayModel, Route, RouteAction, TableRemarks};
use crate::names::NamePool;

/// Translates frontends of a configuration.
pub(super) struct FrontendImporter<'s> {
    sections: &'s [ConfigSection],
    backends: BTreeMap<&'s str, &'s ConfigSection>,
    tables: &'s StickTables,
    tls: &'s TlsDefaults,
    gateway: GatewayModel,
    limits: LimitTable<'s>,
    folded_paths: FoldedPaths,
    origin_names: NamePool,
    /// Names of origins by those of their backends.
    origins: BTreeMap<String, String>,
    frontends: Vec<ReadFrontend<'s>>,
    /// The cells of all frontends, since their rules can be about the same counters.
    cells: Vec<EvaluatedCell>,
}

/// The rules that can decide about the requests of a frontend.
struct FrontendRules<'s> {
    own: HostRules,
    backends: BTreeMap<&'s str, Vec<SectionRule>>,
    default_backend: Option<String>,
}

impl FrontendRules<'_> {
    /// Returns the conditions that can decide about the requests for the host of a cell: those of the frontend, and of the backends that
    /// such requests can reach.
    fn conditions(&self, cell: &RequestCell) -> Vec<&TermList> {
        let own = self.own.about(cell.host.as_deref());
        let mut found: Vec<&TermList> = conditions(own.iter().copied()).collect();
        let mut reached: Vec<&str> = Vec::new();
        let mut reaches_default = true;
        for rule in own {
            let RuleKind::Use(backend) = &rule.kind else {
                continue;
            };
            let possible = |it: &TermList| cell.may_hold(it, cells::CellDimension::Host);
            if rule.alternatives().any(possible) && !reached.contains(&backend.as_str()) {
                reached.push(backend);
            }
            if rule.alternatives().any(|it| cell.holds_for_host(it)) {
                reaches_default = false;
                break;
            }
        }
        reached.extend(self.default_backend.as_deref().filter(|_| reaches_default));
        let backends = reached.iter().filter_map(|name| self.backends.get(name));
        found.extend(backends.flat_map(conditions));
        found
    }

    /// Returns all cells of requests.
    fn cells(&self) -> Result<CellDivision, String> {
        let all = conditions(self.own.all()).chain(self.backends.values().flat_map(conditions));
        cells::divide(&cells::hosts(all), |cell| self.conditions(cell))
    }
}

fn conditions<'r>(
    rules: impl IntoIterator<Item = &'r SectionRule>,
) -> impl Iterator<Item = &'r TermList> {
    rules
        .into_iter()
        .filter(|rule| !matches!(rule.kind, RuleKind::ToHttps))
        .flat_map(SectionRule::alternatives)
}

impl<'s> FrontendImporter<'s> {
    pub(super) fn new(
        sections: &'s [ConfigSection],
        tables: &'s StickTables,
        tls: &'s TlsDefaults,
    ) -> Self {
        let is_backend = |it: &&ConfigSection| matches!(it.kind.as_str(), "backend" | "listen");
        let backends = sections.iter().filter(is_backend).rev();
        Self {
            sections,
            // Of two with one name the first one is meant.
            backends: backends.map(|it| (it.name.as_str(), it)).collect(),
            tables,
            tls,
            gateway: GatewayModel::default(),
            limits: LimitTable::new(tables),
            folded_paths: FoldedPaths::read(sections),
            origin_names: NamePool::default(),
            origins: BTreeMap::new(),
            frontends: Vec::new(),
            cells: Vec::new(),
        }
    }

    /// Returns the configuration.
    pub(super) fn finish(mut self, ledger: &mut Ledger) -> GatewayModel {
        let mut cells = std::mem::take(&mut self.cells);
        evaluation::share_counters(&mut cells);
        evaluation::count_answered(&mut cells);
        uncounted::require(&mut cells);
        let frontends = std::mem::take(&mut self.frontends);
        let (places, client) = separation::separate(&frontends, &mut self.gateway, ledger);
        self.gateway.client = client;
        let mut cells = cells.into_iter().peekable();
        for (frontend, place) in frontends.iter().zip(places) {
            let mut own = Vec::new();
            while let Some(it) = cells.next_if(|it| it.section == frontend.section.id) {
                own.push((it.cell, it.effect.without_unused()));
            }
            // Routes without listeners are those of the only frontend.
            if frontends.len() == 1 || !place.listeners.is_empty() {
                self.routes(own, frontend, place, ledger);
            }
        }
        let global = global_lines(self.sections).filter_map(binds::connection_bound);
        let own = frontends.iter().filter_map(|it| it.connections);
        binds::connections(global.collect(), own.collect(), &mut self.gateway, ledger);
        let fields = self.limits.proxy_fields();
        client_fields::identify_clients(&mut self.gateway.client, &fields, ledger);
        self.gateway.limits = self.limits.limits;
        self.gateway
    }

    /// Sets the bounds of the process on the heads of requests.
    pub(super) fn bound_heads(&mut self, ledger: &mut Ledger) {
        let global: Vec<&SectionLine> = global_lines(self.sections).collect();
        binds::head_bounds(&global, &mut self.gateway, ledger);
    }

    /// Translates a frontend that only redirects to HTTPS, and leads certificate authorities to a backend.
    pub(super) fn redirect(&mut self, frontend: &'s ConfigSection, ledger: &mut Ledger) {
        let listeners = self.listeners(frontend, Some("true"), ledger);
        let rules = rules::read(frontend, ListenerTls::None, ledger);
        let leads_on = |it: &SectionRule| matches!(it.kind, RuleKind::Use(_));
        if rules.iter().any(leads_on) {
            let read = ReadFrontend {
                redirects: true,
                ..ReadFrontend::new(frontend, listeners)
            };
            self.divide(read, (rules, None), ListenerTls::None, ledger);
        }
    }

    /// Adds the listeners of a frontend, and returns their addresses. `redirect` is `redirect_to_https` of those in clear text.
    fn listeners(
        &mut self,
        frontend: &ConfigSection,
        redirect: Option<&str>,
        ledger: &mut Ledger,
    ) -> Vec<String> {
        let first = self.gateway.listeners.len();
        binds::listeners(frontend, (redirect, self.tls), &mut self.gateway, ledger);
        for (id, rule) in rules::parse(frontend) {
            let is_redirect = rule.is_ok_and(|rule| matches!(rule.kind, RuleKind::ToHttps));
            if redirect.is_some() && is_redirect {
                ledger.differs(
                    id,
                    "the redirect is 308 to port 443, except for what certificate authorities ask for",
                );
            }
        }
        let added = self.gateway.listeners[first..].iter();
        added.map(|it| it.address.clone()).collect()
    }

    /// Reads the rules of a frontend. `lines` are its own and those that it inherits, the strongest first.
    pub(super) fn import(
        &mut self,
        frontend: &'s ConfigSection,
        lines: &[&SectionLine],
        ledger: &mut Ledger,
    ) {
        ledger.translated(frontend.id);
        let mut tls = binds::listener_tls(frontend);
        let redirect = redirect(frontend, ledger);
        if redirect.is_some() && tls == ListenerTls::Some {
            // Only requests over TLS reach the routes.
            tls = ListenerTls::All;
        }
        let listeners = self.listeners(frontend, redirect, ledger);
        binds::times(lines, &mut self.gateway, ledger);
        let mut read = ReadFrontend::new(frontend, listeners);
        read.connections = lines.iter().find_map(|line| binds::connection_bound(line));
        let mut own = rules::read(frontend, tls, ledger);
        sources::take(&mut own, &mut read.client, ledger);
        read.refused = separation::take_refused(&mut own, ledger);
        if let Some(line) = lines.iter().find(|line| line.word(0) == "monitor-uri") {
            own.insert(0, rules::monitor(line));
        }
        let default = lines.iter().find(|line| line.word(0) == "default_backend");
        if let Some(line) = default {
            ledger.translated(line.id);
        }
        let itself = (frontend.kind == "listen").then_some(frontend.name.as_str());
        let default_backend = default.map(|line| line.word(1)).or(itself);
        self.divide(read, (own, default_backend), tls, ledger);
    }

    /// Divides the requests of a frontend into cells, and applies its rules to each.
    fn divide(
        &mut self,
        mut read: ReadFrontend<'s>,
        (mut own, default_backend): (Vec<SectionRule>, Option<&str>),
        tls: ListenerTls,
        ledger: &mut Ledger,
    ) {
        rules::leave_out_files(&mut own, ledger);
        let frontend = read.section;
        let rules = FrontendRules {
            backends: self.backend_rules(frontend, (&own, default_backend), tls, ledger),
            default_backend: default_backend.map(str::to_owned),
            own: HostRules::new(own),
        };
        match rules.cells() {
            Ok(division) => {
                read.has_intersections = division.has_intersections;
                let cells = self.evaluate(division.cells, &rules, frontend, ledger);
                self.cells.extend(cells);
            }
            Err(reason) => ledger.lose(frontend.id, &reason),
        }
        self.frontends.push(read);
    }

    /// Makes the routes of a frontend of its cells.
    fn routes(
        &mut self,
        mut cells: Vec<(RequestCell, CellEffect)>,
        frontend: &ReadFrontend<'s>,
        place: FrontendPlace,
        ledger: &mut Ledger,
    ) {
        if frontend.redirects {
            // The listener answers all other requests.
            cells.retain(|(_, effect)| effect.backend.is_some());
        }
        let cells = cells::needed(cells);
        if !frontend.has_intersections {
            report_overlaps(&cells, frontend.section, ledger);
        }
        let first = self.gateway.routes.len();
        for group in cells.chunk_by(|(one, _), (other, _)| one.host == other.host) {
            let open_prefixes = cells::open_prefixes(group.iter().map(|(cell, _)| cell));
            for (cell, effect) in group {
                self.route((cell, effect), &open_prefixes, frontend.section, ledger);
            }
        }
        for route in &mut self.gateway.routes[first..] {
            route.listeners.clone_from(&place.listeners);
            route.block.clone_from(&place.block);
        }
    }

    /// Returns the rules of the backends that a frontend names.
    fn backend_rules(
        &self,
        frontend: &ConfigSection,
        (own, default): (&[SectionRule], Option<&str>),
        tls: ListenerTls,
        ledger: &mut Ledger,
    ) -> BTreeMap<&'s str, Vec<SectionRule>> {
        let named = own.iter().filter_map(|rule| match &rule.kind {
            RuleKind::Use(name) => Some(name.as_str()),
            _ => None,
        });
        let mut rules = BTreeMap::new();
        for name in named.chain(default) {
            if name != frontend.name
                && let Some(backend) = self.backends.get(name)
                && !rules.contains_key(name)
            {
                let mut read = rules::read(backend, tls, ledger);
                sources::leave_out(&mut read, ledger);
                rules::leave_out_files(&mut read, ledger);
                report_redirects(&read, tls, ledger);
                rules.insert(backend.name.as_str(), read);
            }
        }
        rules
    }

    /// Applies the rules to each cell.
    fn evaluate(
        &self,
        cells: Vec<RequestCell>,
        rules: &FrontendRules<'_>,
        frontend: &ConfigSection,
        ledger: &mut Ledger,
    ) -> Vec<EvaluatedCell> {
        let mut evaluated: Vec<EvaluatedCell> = Vec::with_capacity(cells.len());
        for cell in cells {
            let mut evaluation = RuleEvaluation::new(self.tables);
            let own = rules.own.about(cell.host.as_deref());
            evaluation.apply(&cell, own.iter().copied(), ledger);
            let backend = evaluation.effect.backend.take();
            let backend = backend.or_else(|| rules.default_backend.clone());
            let reached = backend
                .as_deref()
                .filter(|_| evaluation.effect.answer.is_none());
            let reached = reached.and_then(|it| rules.backends.get(it));
            if let Some(rules) = reached {
                evaluation.apply(&cell, rules, ledger);
            }
            evaluation.effect.backend = backend;
            let passed: Vec<&SectionRule> = reached.into_iter().flatten().chain(own).collect();
            responses::apply(&mut evaluation.effect, &cell, &passed, ledger);
            evaluated.push(evaluation.finish(cell, frontend.id));
        }
        evaluated
    }

    fn route(
        &mut self,
        (cell, effect): (&RequestCell, &CellEffect),
        open_prefixes: &[String],
        frontend: &ConfigSection,
        ledger: &mut Ledger,
    ) {
        let term = cell.path.as_ref();
        let to = match &effect.answer {
            Some(CellAnswer::Redirect(target)) => target.url(term, open_prefixes).map(Some),
            _ => Ok(None),
        };
        let path = cells::path(term, open_prefixes);
        let case = self.folded_paths.case(term);
        let (path, to, case) = match path.and_then(|path| Ok((path, to?, case?))) {
            Ok(found) => found,
            Err(reason) => {
                ledger.fill_in(format!(
                    "{}: a path is left out: {reason}",
                    ledger.comment(frontend.id)
                ));
                return;
            }
        };
        let mut remarks = TableRemarks {
            sources: vec![frontend.id],
            differences: Vec::new(),
        };
        let limits = effect.limits.iter();
        let limits = limits
            .map(|limit| self.limits.name(limit, ledger))
            .collect();
        let action = match (&effect.answer, &effect.backend) {
            (Some(CellAnswer::Respond(status, body)), _) => RouteAction::Respond {
                status: *status,
                body: body.clone(),
            },
            (Some(CellAnswer::Redirect(target)), _) => {
                remarks
                    .differences
                    .push("the query of the request is kept".to_owned());
                RouteAction::Redirect {
                    to: to.unwrap_or_default(),
                    status: target.status,
                }
            }
            (None, Some(backend)) => RouteAction::Forward {
                origin: self.origin(backend, ledger),
                strip_prefix: None,
                rewrite: None,
            },
            (None, None) => {
                let difference = "no backend is named, so HAProxy answers 503";
                remarks.differences.push(difference.to_owned());
                RouteAction::empty_answer(503)
            }
        };
        self.gateway.routes.push(Route {
            remarks,
            host: cell.host.clone(),
            case,
            methods: cell.method.clone().unwrap_or_default(),
            client: cell.client.clone().unwrap_or_default(),
            limits,
            request_fields: effect.request_fields.clone(),
            response_fields: effect.response_fields.clone(),
            ..Route::new(path, action)
        });
    }

    /// Returns the name of the origin of a backend, which is made if it is new.
    fn origin(&mut self, backend: &str, ledger: &mut Ledger) -> String {
        if let Some(name) = self.origins.get(backend) {
            return name.clone();
        }
        let name = self.origin_names.unique(backend);
        self.origins.insert(backend.to_owned(), name.clone());
        let origin = match self.backends.get(backend) {
            Some(section) => {
                let inherited = sections::inherited(self.sections, section);
                backends::origin(section, name.clone(), (&inherited, self.tls), ledger)
            }
            None => backends::missing(backend, name.clone(), ledger),
        };
        self.gateway.origins.push(origin);
        name
    }
}

/// Returns the lines of the process.
fn global_lines(sections: &[ConfigSection]) -> impl Iterator<Item = &SectionLine> {
    let global = sections.iter().filter(|it| it.kind == "global");
    global.flat_map(|it| &it.lines)
}

/// The reason for which a redirect to HTTPS of some requests is left out.
const ALL_OR_NONE: &str = "a listener redirects all requests or none";

/// Returns `redirect_to_https` of the listeners in clear text. A redirect of some requests is to be filled in.
fn redirect(frontend: &ConfigSection, ledger: &mut Ledger) -> Option<&'static str> {
    let mut redirect = None;
    for (_, rule) in rules::parse(frontend) {
        let Ok(rule) = rule else { continue };
        if !matches!(rule.kind, RuleKind::ToHttps) {
            continue;
        }
        if rules::is_for_all(&rule) {
            redirect = Some("true");
        } else {
            ledger.lose(rule.id, ALL_OR_NONE);
        }
    }
    redirect
}

/// Records the redirects to HTTPS of a backend. Those of a frontend hold for its listeners.
fn report_redirects(rules: &[SectionRule], tls: ListenerTls, ledger: &mut Ledger) {
    for rule in rules {
        if matches!(rule.kind, RuleKind::ToHttps) && tls != ListenerTls::All {
            ledger.lose(rule.id, ALL_OR_NONE);
        }
    }
}

/// Records the paths whose requests another route takes, by which a refusal or a limit is lost.
fn report_overlaps(
    cells: &[(RequestCell, CellEffect)],
    frontend: &ConfigSection,
    ledger: &mut Ledger,
) {
    let loses = |first: &CellEffect, second: &CellEffect| {
        let has_limit = |limit| first.limits.contains(limit);
        let loses_limit = !second.limits.iter().all(has_limit);
        !first.is_refusal() && (second.is_refusal() || loses_limit)
    };
    for (first, second) in cells::lost_overlaps(cells, loses) {
        ledger.fill_in(format!(
            "{}: a path with both `{}` and `{}` has only the rules of the first; make a route of both",
            ledger.comment(frontend.id),
            first.text(),
            second.text()
        ));
    }
}

#[cfg(test)]
mod tests {
    use crate::{Format, Ledger, NoFiles, import};

    fn imported(text: &str) -> (String, Ledger) {
        let imported = import(Format::Haproxy, "h", text, &NoFiles).unwrap();
        (imported.toml, imported.ledger)
    }

    /// Goal: an edge of an organization is imported, and in seconds. Method: 300 hosts with two paths each, a limit of one host, and a path
    /// for all hosts in front.
    #[test]
    fn paths_of_different_hosts_are_added_and_not_multiplied() {
        let mut text = String::from(
            "frontend f\n bind :80\n stick-table type ip size 1k expire 30s store http_req_rate(10s)\n \
             http-request track-sc0 src if { hdr(host) h0.test }\n \
             http-request deny if { hdr(host) h0.test } { sc_http_req_rate(0) gt 10 }\n",
        );
        let mut backends = String::new();
        for host in 0..300 {
            for path in ["a", "b"] {
                text += &format!(
                    " use_backend {path}{host} if {{ hdr(host) -i h{host}.test }} {{ path_beg /{path}/ }}\n"
                );
                backends += &format!(
                    "backend {path}{host}\n server s 10.0.0.1:{}\n",
                    9_000 + host
                );
            }
        }
        let (toml, ledger) = imported(&format!("{text}{backends}"));
        // One more for the limited host, and one for all others.
        assert_eq!(toml.matches("[[route]]").count(), 602);
        assert!(ledger.to_fill_in().is_empty(), "{ledger}");
        let challenge = " use_backend acme if { path_beg /.well-known/acme-challenge/ }\n";
        let text = text.replacen(" use_backend", &format!("{challenge} use_backend"), 1);
        let acme = "backend acme\n server s 10.0.0.2:80\n";
        let (toml, _) = imported(&format!("{text}{backends}{acme}"));
        // The limited host has a route of its own for the challenge, all others share one.
        assert_eq!(toml.matches("[[route]]").count(), 604);
    }

    /// Goal: what a prefix within a segment takes goes where HAProxy sends it, although the gateway prefers expressions to prefixes.
    /// Method: a longer prefix with a slash at its end below such a one.
    #[test]
    fn a_prefix_below_an_expression_is_an_expression() {
        let (toml, _) = imported(
            "frontend f\n bind :80\n use_backend two if { path_beg /api/v2/ }\n use_backend one if { path_beg /api }\n \
             use_backend one if { path_beg /b/ }\nbackend one\n server s 10.0.0.1:80\nbackend two\n server s 10.0.0.2:80\n",
        );
        let paths: Vec<&str> = toml
            .lines()
            .filter(|line| line.starts_with("path"))
            .collect();
        let values: Vec<&str> = paths
            .iter()
            .filter_map(|it| it.split("= ").nth(1))
            .collect();
        assert_eq!(
            values,
            [
                "\"~ ^/api/v2/(.*)$\"",
                "\"~ ^/api(.*)$\"",
                "\"/b/*\"",
                "\"/*\""
            ]
        );
    }

    /// Goal: a limit and an answer that hold for a path together have a route of their own; where none is known, that is to be filled in.
    /// Method: an ending and an expression beside a limited prefix, and the same with an ending that is refused.
    #[test]
    fn a_limit_that_another_route_hides_has_a_route_or_is_to_be_filled_in() {
        let text = |condition: &str, action: &str| {
            format!(
                "frontend f\n bind :80\n stick-table type ip size 1k expire 30s store http_req_rate(10s)\n \
                 http-request track-sc0 src if {{ path_beg /a/ }}\n {action} if {{ {condition} }}\n \
                 http-request deny if {{ path_beg /a/ }} {{ sc_http_req_rate(0) gt 10 }}\n \
                 default_backend one\nbackend one\n server s 10.0.0.1:80\nbackend two\n server s 10.0.0.2:80\n"
            )
        };
        let (toml, ledger) = imported(&text("path_end .php", "use_backend two"));
        assert!(ledger.to_fill_in().is_empty(), "{ledger}");
        assert!(
            toml.contains("path        = \"~ ^/a/.*\\\\.php$\""),
            "{toml}"
        );
        let (_, ledger) = imported(&text("path_reg [0-9]+x", "use_backend two"));
        assert_eq!(ledger.to_fill_in().len(), 1, "{ledger}");
        assert!(ledger.to_fill_in()[0].contains("`path_beg /a/` and `path_reg [0-9]+x`"));
        let (_, ledger) = imported(&text("path_end .php", "http-request deny"));
        assert!(ledger.to_fill_in().is_empty(), "{ledger}");
    }

    /// Goal: the usual pair of frontends is imported whole: one for certificate authorities that redirects all others, and one with TLS.
    /// Method: either order of the two.
    #[test]
    fn a_redirecting_frontend_keeps_the_way_of_certificate_authorities() {
        let plain = "frontend plain\n bind :80\n acl challenge path_beg /.well-known/acme-challenge/\n \
             http-request redirect scheme https unless challenge\n use_backend acme if challenge\n";
        let tls = "frontend tls\n bind :443 ssl crt a.pem\n http-request deny if { path /x }\n default_backend app\n";
        let backends = "backend app\n server s 10.0.0.1:80\nbackend acme\n server s 10.0.0.2:80\n";
        for order in [[plain, tls], [tls, plain]] {
            let (toml, ledger) = imported(&format!("{}{backends}", order.concat()));
            assert!(ledger.to_fill_in().is_empty(), "{ledger}");
            // Port 443 has no such route in HAProxy.
            let route = "path      = \"/.well-known/acme-challenge/*\"\nlisteners = [\"plain\"]\norigin    = \"acme\"\n";
            assert!(toml.contains(route), "{toml}");
            assert!(toml.contains("redirect_to_https = true"), "{toml}");
        }
    }
}
