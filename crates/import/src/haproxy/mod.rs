//! Translates configurations of HAProxy.
//!
//! The routes of the gateway hold on every listener, so one frontend becomes routes; frontends that only redirect to HTTPS become
//! listeners, and others are left out. Rules are applied to cells of requests, as [`cells`] explains.

mod backends;
mod binds;
mod cells;
mod elsewhere;
mod lexer;
mod rules;
mod samples;
mod sections;
mod tables;
mod terms;

use std::collections::BTreeMap;

use self::cells::{ConditionValues, RequestCell};
use self::rules::{CellEffect, CellLimit, RuleEvaluation, RuleKind, SectionRule};
use self::samples::CounterKind;
use self::sections::{ConfigSection, SectionLine};
use self::tables::StickTables;
use self::terms::PathTerm;
use crate::ledger::Ledger;
use crate::model::{
    ClientList, GatewayModel, Limit, LimitAction, LimitAlgorithm, Route, RouteAction, TableRemarks,
};
use crate::names::NamePool;
use crate::paths;
use crate::position::SyntaxError;

/// Translates a text.
pub(crate) fn read(
    name: &str,
    text: &str,
    ledger: &mut Ledger,
) -> Result<GatewayModel, SyntaxError> {
    let sections = sections::parse(name, text, ledger)?;
    elsewhere::say(&sections, ledger);
    let tables = StickTables::of(&sections, ledger);
    let mut importer = FrontendImporter {
        backends: sections
            .iter()
            .filter(|it| matches!(it.kind.as_str(), "backend" | "listen"))
            .map(|it| (it.name.as_str(), it))
            .collect(),
        defaults: inherited(&sections),
        tables: &tables,
        gateway: GatewayModel::default(),
        limits: Vec::new(),
        limit_names: NamePool::default(),
        origin_names: NamePool::default(),
        origins: BTreeMap::new(),
    };
    let frontends = sections
        .iter()
        .filter(|it| matches!(it.kind.as_str(), "frontend" | "listen"));
    let mut is_first = true;
    for frontend in frontends {
        if elsewhere::is_left_out(frontend, &importer.defaults) {
            let reason = "statistics are in the metrics of [admin], and the gateway speaks HTTP";
            ledger.left_out(frontend.id, reason);
            for line in &frontend.lines {
                ledger.left_out_with(line.id, reason);
            }
            continue;
        }
        if redirects_only(frontend) {
            binds::listeners(frontend, Some("true"), &mut importer.gateway, ledger);
            continue;
        }
        if !is_first {
            let reason =
                "routes hold on every listener; import this frontend into a file of its own";
            for id in [frontend.id]
                .into_iter()
                .chain(frontend.lines.iter().map(|it| it.id))
            {
                ledger.left_out(id, reason);
            }
            ledger.fill_in(format!("{}: {reason}", ledger.comment(frontend.id)));
            continue;
        }
        is_first = false;
        importer.frontend(frontend, ledger);
    }
    binds::times(&importer.defaults, &mut importer.gateway, ledger);
    Ok(importer.gateway)
}

/// Returns the lines of all `defaults` sections, the later ones first.
fn inherited(sections: &[ConfigSection]) -> Vec<&SectionLine> {
    let defaults = sections.iter().filter(|it| it.kind == "defaults");
    let mut lines: Vec<&SectionLine> = defaults.flat_map(|it| &it.lines).collect();
    lines.reverse();
    lines
}

/// Returns true if a frontend does nothing but send clients to HTTPS.
fn redirects_only(frontend: &ConfigSection) -> bool {
    let rules = rules::parse(frontend);
    let is_redirect = |rule: &Result<SectionRule, String>| matches!(rule, Ok(rule) if matches!(rule.kind, RuleKind::ToHttps));
    frontend.kind == "frontend"
        && !rules.is_empty()
        && rules.iter().all(|(_, rule)| is_redirect(rule))
        && frontend.named("default_backend").next().is_none()
}

/// Translates the frontends of a configuration.
struct FrontendImporter<'s> {
    backends: BTreeMap<&'s str, &'s ConfigSection>,
    defaults: Vec<&'s SectionLine>,
    tables: &'s StickTables,
    gateway: GatewayModel,
    /// Limits that were made, with their names.
    limits: Vec<(CellLimit, String)>,
    limit_names: NamePool,
    origin_names: NamePool,
    /// NamePool of origins by those of their backends.
    origins: BTreeMap<String, String>,
}

impl<'s> FrontendImporter<'s> {
    fn frontend(&mut self, frontend: &'s ConfigSection, ledger: &mut Ledger) {
        ledger.translated(frontend.id);
        let mut rules = rules::read(frontend, ledger);
        self.block(&mut rules, ledger);
        let to_https = rules
            .iter()
            .filter(|it| matches!(it.kind, RuleKind::ToHttps));
        let mut redirect = None;
        for rule in to_https {
            redirect = Some("true");
            ledger.differs(
                rule.id,
                "the redirect is 308 to port 443, on listeners without TLS",
            );
        }
        binds::listeners(frontend, redirect, &mut self.gateway, ledger);
        let of_backends: BTreeMap<&str, Vec<SectionRule>> = self
            .backends
            .iter()
            .filter(|(name, _)| **name != frontend.name)
            .map(|(name, backend)| (*name, rules::read(backend, ledger)))
            .collect();
        let mut values = ConditionValues::default();
        rules::add_values(&rules, &mut values);
        of_backends
            .values()
            .for_each(|rules| rules::add_values(rules, &mut values));
        let cells = match values.cells() {
            Ok(cells) => cells,
            Err(reason) => {
                ledger.left_out(frontend.id, reason.clone());
                ledger.fill_in(format!("{}: {reason}", ledger.comment(frontend.id)));
                return;
            }
        };
        let default = frontend.named("default_backend").next();
        if let Some(line) = default {
            ledger.translated(line.id);
        }
        let own = (frontend.kind == "listen").then_some(frontend.name.as_str());
        let default = default.map(|line| line.word(1)).or(own);
        let mut effects: Vec<(RequestCell, CellEffect)> = Vec::new();
        for cell in cells {
            let mut evaluation = RuleEvaluation::new(self.tables);
            evaluation.apply(&cell, &rules, ledger);
            if evaluation.effect.backend.is_none() {
                evaluation.effect.backend = default.map(str::to_owned);
            }
            let backend = evaluation.effect.backend.clone().unwrap_or_default();
            if let Some(rules) = of_backends.get(backend.as_str()) {
                evaluation.apply(&cell, rules, ledger);
            }
            effects.push((cell, evaluation.effect));
        }
        for (cell, effect) in cells::distinct(effects) {
            self.route(&cell, &effect, frontend, ledger);
        }
    }

    /// Takes rules that refuse some addresses whatever they ask for, and come before all others, into a list for all routes.
    fn block(&mut self, rules: &mut Vec<SectionRule>, ledger: &mut Ledger) {
        let first = rules
            .iter()
            .position(|rule| rules::blocked(rule).is_none())
            .unwrap_or(rules.len());
        let mut list = ClientList {
            name: "refused".to_owned(),
            remarks: TableRemarks::default(),
            cidrs: Vec::new(),
        };
        for rule in rules.drain(..first) {
            list.cidrs
                .extend(rules::blocked(&rule).into_iter().flatten());
            list.remarks.sources.push(rule.id);
            for id in [rule.id].iter().chain(&rule.condition.sources) {
                ledger.translated(*id);
            }
        }
        if !list.cidrs.is_empty() {
            self.gateway.client.block.push(list.name.clone());
            self.gateway.lists.push(list);
        }
    }

    fn route(
        &mut self,
        cell: &RequestCell,
        effect: &CellEffect,
        frontend: &ConfigSection,
        ledger: &mut Ledger,
    ) {
        let path = match &cell.path {
            None => Ok("/*".to_owned()),
            Some(PathTerm::Exact(text)) => {
                paths::encoded(text).map_err(|c| format!("no path has {c:?}"))
            }
            Some(PathTerm::Beginning(text)) if text.ends_with('/') => paths::encoded(text)
                .map(|text| text + "*")
                .map_err(|c| format!("no path has {c:?}")),
            Some(PathTerm::Beginning(text)) => paths::beginning_with(text),
            Some(PathTerm::Expression(text)) => paths::searched(text),
        };
        let path = match path {
            Ok(path) => path,
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
        let limits: Vec<String> = effect
            .limits
            .iter()
            .map(|limit| self.limit(limit, ledger))
            .collect();
        let action = match (&effect.answer, &effect.backend) {
            (Some((status, body)), _) => RouteAction::Respond {
                status: *status,
                body: body.clone(),
            },
            (None, Some(backend)) => {
                let origin = self.origin(backend, ledger);
                RouteAction::Forward {
                    origin,
                    strip_prefix: None,
                    rewrite: None,
                }
            }
            (None, None) => {
                let difference = "no backend is named, so HAProxy answers 503";
                remarks.differences.push(difference.to_owned());
                RouteAction::Respond {
                    status: 503,
                    body: String::new(),
                }
            }
        };
        let is_answer = !matches!(action, RouteAction::Forward { .. });
        self.gateway.routes.push(Route {
            remarks,
            host: cell.host.clone(),
            path,
            methods: cell.method.clone().unwrap_or_default(),
            header: None,
            query: None,
            client: cell.client.clone().unwrap_or_default(),
            limits: if is_answer { Vec::new() } else { limits },
            allow: Vec::new(),
            block: Vec::new(),
            action,
            max_body: None,
            set_headers: if is_answer {
                Vec::new()
            } else {
                effect.set_headers.clone()
            },
            status: None,
        });
    }

    /// Returns the name of a limit, which is made if it is new.
    fn limit(&mut self, wanted: &CellLimit, ledger: &mut Ledger) -> String {
        if let Some((_, name)) = self.limits.iter().find(|(known, _)| known == wanted) {
            return name.clone();
        }
        let ending = match wanted.kind {
            CounterKind::Requests => "requests",
            CounterKind::Errors => "errors",
            CounterKind::InFlight => "in-flight",
        };
        let name = self
            .limit_names
            .unique(&format!("{}-{ending}", wanted.table));
        if let Ok(table) = self.tables.get(&wanted.table) {
            ledger.translated(table.section);
        }
        for id in &wanted.sources {
            ledger.translated(*id);
        }
        if let Some(last) = wanted.sources.last() {
            for difference in &wanted.differences {
                ledger.differs(*last, difference.clone());
            }
        }
        let capacity = self
            .tables
            .get(&wanted.table)
            .ok()
            .and_then(|it| it.capacity);
        self.gateway.limits.push(Limit {
            name: name.clone(),
            remarks: TableRemarks {
                sources: wanted.sources.clone(),
                differences: wanted.differences.clone(),
            },
            key: wanted.key.clone(),
            on_missing: wanted.on_missing,
            rate: (wanted.most, period(wanted.period.unwrap_or(1))),
            algorithm: LimitAlgorithm::SlidingWindow,
            action: LimitAction::Reject,
            capacity,
            concurrency: (wanted.kind == CounterKind::InFlight).then_some(wanted.most),
            count_if: (wanted.kind == CounterKind::Errors)
                .then_some("response.status in 400..=499"),
            status: wanted.status,
        });
        self.limits.push((wanted.clone(), name.clone()));
        name
    }

    /// Returns the name of the origin of a backend, which is made if it is new.
    fn origin(&mut self, backend: &str, ledger: &mut Ledger) -> String {
        if let Some(name) = self.origins.get(backend) {
            return name.clone();
        }
        let name = self.origin_names.unique(backend);
        self.origins.insert(backend.to_owned(), name.clone());
        let origin = match self.backends.get(backend) {
            Some(section) => backends::origin(section, name.clone(), &self.defaults, ledger),
            None => backends::missing(backend, name.clone(), ledger),
        };
        self.gateway.origins.push(origin);
        name
    }
}

/// Returns a period as the configuration writes it.
fn period(seconds: u64) -> String {
    match seconds {
        1 => "second".to_owned(),
        60 => "minute".to_owned(),
        3_600 => "hour".to_owned(),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}
