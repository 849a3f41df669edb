//! Decides what the rules of a frontend and of its backend do with the requests of one cell.

use super::cells::{ConditionValues, RequestCell};
use super::samples::{CounterKind, TableCounter};
use super::sections::{ConfigSection, SectionLine};
use super::tables::{self, StickTables, TrackRule};
use super::terms::{AclTable, ConditionTerm, RuleCondition, SignedTerm};
use crate::ledger::{EntryId, Ledger};
use crate::model::KeyPart;
use crate::own_fields::is_own_field;

/// A rule that is understood.
pub(super) struct SectionRule {
    pub(super) id: EntryId,
    pub(super) condition: RuleCondition,
    pub(super) kind: RuleKind,
}

/// The action of a rule.
pub(super) enum RuleKind {
    /// Fills a sticky counter.
    Track(u8, TrackRule),
    /// Answers with a status. `Some` where the rule names it.
    Deny(Option<u16>),
    /// Answers with a status and a text.
    Return(u16, String),
    /// Ends the rules of a section, but for those that name a backend.
    Allow,
    /// Sends to a backend.
    Use(String),
    /// Sets a field.
    SetHeader(String, String),
    /// Sends to HTTPS, which listeners do.
    ToHttps,
}

/// A limit that holds in a cell. Equal ones share counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CellLimit {
    pub(super) table: String,
    pub(super) kind: CounterKind,
    pub(super) key: Vec<KeyPart>,
    pub(super) on_missing: Option<&'static str>,
    pub(super) most: u64,
    pub(super) period: Option<u64>,
    pub(super) status: Option<u16>,
    /// The lines of track and rule.
    pub(super) sources: Vec<EntryId>,
    pub(super) differences: Vec<String>,
}

/// The result of all rules for the requests of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CellEffect {
    pub(super) limits: Vec<CellLimit>,
    pub(super) answer: Option<(u16, String)>,
    pub(super) backend: Option<String>,
    pub(super) set_headers: Vec<(String, String)>,
}

/// Parses the rules of a section in their order, each with its entry.
pub(super) fn parse(section: &ConfigSection) -> Vec<(EntryId, Result<SectionRule, String>)> {
    let acls = AclTable::of(section);
    let lines = section.lines.iter().filter(|line| is_rule(line));
    lines
        .map(|line| (line.id, rule(line, section, &acls)))
        .collect()
}

/// Returns the rules of a section in the order in which they are applied; those that have no counterpart are left out.
pub(super) fn read(section: &ConfigSection, ledger: &mut Ledger) -> Vec<SectionRule> {
    let mut rules = Vec::new();
    for (id, rule) in parse(section) {
        match rule {
            Ok(rule) => {
                for id in [rule.id].iter().chain(&rule.condition.sources) {
                    ledger.left_out(*id, "no route is affected by it");
                }
                rules.push(rule);
            }
            Err(reason) => {
                ledger.left_out(id, reason);
                let shown = ledger.comment(id);
                if GUARDS.iter().any(|word| shown.contains(word)) {
                    ledger.fill_in(format!(
                        "{shown}: it may keep requests out, and is left out"
                    ));
                }
            }
        }
    }
    // `use_backend` comes after all `http-request`.
    rules.sort_by_key(|rule| matches!(rule.kind, RuleKind::Use(_)));
    rules
}

/// Words of rules whose omission lets requests pass that HAProxy refuses.
const GUARDS: [&str; 7] = [
    " deny",
    " tarpit",
    " reject",
    " silent-drop",
    " auth",
    " use-service",
    " lua.",
];

fn is_rule(line: &SectionLine) -> bool {
    matches!(
        line.word(0),
        "http-request" | "tcp-request" | "use_backend" | "redirect"
    )
}

fn rule(
    line: &SectionLine,
    section: &ConfigSection,
    acls: &AclTable,
) -> Result<SectionRule, String> {
    let (words, condition) = acls.condition(line)?;
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let status = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1)?.parse::<u16>().ok()
    };
    let refusable = |status: u16| (400..=599).contains(&status);
    let kind = match (word(0), word(1)) {
        ("use_backend", name) if !name.contains('%') => RuleKind::Use(name.to_owned()),
        ("redirect", "scheme") | ("http-request", "redirect")
            if words.iter().any(|word| word == "scheme")
                && words.iter().any(|word| word == "https") =>
        {
            RuleKind::ToHttps
        }
        ("http-request", name) if name.starts_with("track-sc") => {
            let (number, track) = tables::track(line, 1, &section.name)?;
            RuleKind::Track(number, track)
        }
        ("tcp-request", "connection" | "content") if word(2).starts_with("track-sc") => {
            let (number, track) = tables::track(line, 2, &section.name)?;
            RuleKind::Track(number, track)
        }
        ("http-request", "deny" | "tarpit") => {
            RuleKind::Deny(status("deny_status").filter(|it| refusable(*it)))
        }
        ("http-request", "reject" | "silent-drop") => RuleKind::Deny(None),
        ("http-request", "allow") => RuleKind::Allow,
        ("http-request", "return") => {
            let text = match (
                words.iter().position(|it| it == "string"),
                words.iter().any(|it| it == "lf-string" || it == "file"),
            ) {
                (_, true) => return Err("an answer has a text without variables".to_owned()),
                (Some(at), _) => word(at + 1).to_owned(),
                (None, _) => String::new(),
            };
            RuleKind::Return(status("status").unwrap_or(200), text)
        }
        ("http-request", "set-header") => {
            let name = word(2).to_ascii_lowercase();
            if name == "host" {
                return Err("see [origin.NAME] host".to_owned());
            }
            let value = match word(3) {
                "%[src]" => "{client_ip}".to_owned(),
                _ if is_own_field(&name) => String::new(),
                value if value.contains('%') => {
                    return Err("no slot of request_headers is this".to_owned());
                }
                value => value.replace('{', "{{").replace('}', "}}"),
            };
            RuleKind::SetHeader(name, value)
        }
        ("http-request" | "tcp-request", other) => {
            return Err(format!("{other} has no counterpart"));
        }
        _ => return Err("it has no counterpart".to_owned()),
    };
    let counts = condition
        .alternatives
        .iter()
        .flatten()
        .any(|literal| matches!(literal.term, ConditionTerm::Above(..)));
    if counts && !matches!(kind, RuleKind::Deny(_)) {
        return Err("only refusals depend on counters".to_owned());
    }
    Ok(SectionRule {
        id: line.id,
        condition,
        kind,
    })
}

/// Returns the blocks of clients that a rule refuses with 403 whatever they ask for; `None` where it is another rule.
pub(super) fn blocked(rule: &SectionRule) -> Option<Vec<String>> {
    if !matches!(rule.kind, RuleKind::Deny(None | Some(403)))
        || rule.condition.alternatives.is_empty()
    {
        return None;
    }
    let mut blocks = Vec::new();
    for alternative in &rule.condition.alternatives {
        match alternative.as_slice() {
            [
                SignedTerm {
                    term: ConditionTerm::Client(addresses),
                    is_negated: false,
                },
            ] => blocks.extend(addresses.iter().cloned()),
            _ => return None,
        }
    }
    Some(blocks)
}

/// Adds the values that the conditions of rules name.
pub(super) fn add_values(rules: &[SectionRule], values: &mut ConditionValues) {
    for rule in rules
        .iter()
        .filter(|rule| !matches!(rule.kind, RuleKind::ToHttps))
    {
        values.add(&rule.condition);
    }
}

/// The state of a request on its way through the rules.
pub(super) struct RuleEvaluation<'r> {
    pub(super) effect: CellEffect,
    tracks: Vec<(u8, &'r TrackRule)>,
    tables: &'r StickTables,
}

impl<'r> RuleEvaluation<'r> {
    pub(super) fn new(tables: &'r StickTables) -> Self {
        Self {
            effect: CellEffect::default(),
            tracks: Vec::new(),
            tables,
        }
    }

    /// Applies rules in their order, up to the one that answers.
    pub(super) fn apply(
        &mut self,
        cell: &RequestCell,
        rules: &'r [SectionRule],
        ledger: &mut Ledger,
    ) {
        let mut is_allowed = false;
        for rule in rules {
            if self.effect.answer.is_some() {
                return;
            }
            if is_allowed && !matches!(rule.kind, RuleKind::Use(_)) {
                continue;
            }
            let is_certain = cell.always(&rule.condition);
            let used = match &rule.kind {
                RuleKind::ToHttps => false,
                RuleKind::Allow if is_certain => {
                    is_allowed = true;
                    true
                }
                RuleKind::Track(number, track) if is_certain => {
                    // The first rule that tracks a counter fills it.
                    if !self.tracks.iter().any(|(known, _)| known == number) {
                        self.tracks.push((*number, track));
                    }
                    false
                }
                RuleKind::Use(name) if is_certain => {
                    self.effect.backend.get_or_insert(name.clone());
                    true
                }
                RuleKind::Deny(status) if is_certain => {
                    self.effect.answer = Some((status.unwrap_or(403), String::new()));
                    true
                }
                RuleKind::Return(status, text) if is_certain => {
                    self.effect.answer = Some((*status, text.clone()));
                    true
                }
                // The gateway writes it.
                RuleKind::SetHeader(name, _) if is_own_field(name) => true,
                RuleKind::SetHeader(name, value) if is_certain => {
                    self.effect.set_headers.retain(|(known, _)| known != name);
                    self.effect.set_headers.push((name.clone(), value.clone()));
                    true
                }
                RuleKind::Deny(status) => self.limit(cell, rule, *status, ledger),
                _ => false,
            };
            if used {
                ledger.translated(rule.id);
                for source in &rule.condition.sources {
                    ledger.translated(*source);
                }
            }
        }
    }

    /// Adds the limits of a refusal that depends on counters. Returns false if it has no counterpart.
    fn limit(
        &mut self,
        cell: &RequestCell,
        rule: &SectionRule,
        status: Option<u16>,
        ledger: &mut Ledger,
    ) -> bool {
        let mut used = false;
        for alternative in cell.remaining(&rule.condition) {
            match self.limit_of(&alternative, rule, status) {
                Ok(limit) => {
                    if self.effect.limits.len() < crate::bounds::ROUTE_LIMITS
                        && !self.effect.limits.contains(&limit)
                    {
                        self.effect.limits.push(limit);
                    }
                    used = true;
                }
                Err(reason) => {
                    ledger.left_out(rule.id, reason.clone());
                    ledger.fill_in(format!(
                        "{}: it is left out: {reason}",
                        ledger.comment(rule.id)
                    ));
                }
            }
        }
        used
    }

    fn limit_of(
        &self,
        literals: &[&SignedTerm],
        rule: &SectionRule,
        status: Option<u16>,
    ) -> Result<CellLimit, String> {
        let [literal] = literals else {
            return Err("a refusal by several counters at once has no counterpart".to_owned());
        };
        let ConditionTerm::Above(counter, most) = &literal.term else {
            return Err("a refusal by no counter".to_owned());
        };
        if literal.is_negated {
            return Err("a refusal below a count has no counterpart".to_owned());
        }
        let track = self.track_of(counter)?;
        let table_name = counter.table.clone().unwrap_or(track.table.clone());
        let table = self.tables.get(&table_name)?;
        let period = table.period(counter.kind)?;
        let mut differences = track.differences.clone();
        if status.is_none() {
            differences
                .push("refusals are 429; HAProxy answers 403 unless told otherwise".to_owned());
        }
        if counter.kind == CounterKind::Requests {
            differences.push(
                "refused requests are not counted; in HAProxy a client that goes on asking stays refused".to_owned(),
            );
        }
        if rule.condition.alternatives.iter().any(|it| it.len() > 1) {
            differences.push(
                "only requests that the rule is about are counted; HAProxy counts all that it tracks".to_owned(),
            );
        }
        if counter.kind == CounterKind::Errors {
            differences.push(
                "responses of 400 to 499 count, and requests in flight until they are answered"
                    .to_owned(),
            );
        }
        Ok(CellLimit {
            table: table_name,
            kind: counter.kind,
            key: track.key.clone(),
            on_missing: track.on_missing,
            most: tables::count(*most)?,
            period,
            status: status.filter(|status| *status != 429),
            sources: vec![table.id, track.line, rule.id],
            differences,
        })
    }

    fn track_of(&self, counter: &TableCounter) -> Result<&'r TrackRule, String> {
        let by_address = || {
            let mut tracks = self.tracks.iter();
            tracks.find(|(_, track)| track.key == [KeyPart::ClientIp])
        };
        let found = match counter.tracked {
            Some(number) => self.tracks.iter().find(|(known, _)| *known == number),
            None => by_address(),
        };
        let (_, track) = found.ok_or("nothing fills this counter before the rule")?;
        Ok(track)
    }
}
