//! Decides what the rules of a frontend and of its backend do with the requests of one cell.

use super::redirects::RedirectTarget;
use super::rules::{CLOSED, RuleKind, SectionRule};
use super::samples::{CounterKind, TableCounter};
use super::tables::{self, StickTables, TrackRule};
use crate::bounds;
use crate::cells::RequestCell;
use crate::cells::{ConditionTerm, SignedTerm};
use crate::client_fields::ProxyFieldUse;
use crate::ledger::{EntryId, Ledger};
use crate::model::{FieldEdits, KeyPart};
use crate::own_fields::is_own_field;

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
    /// The parts that the operator has to write, since no key says them.
    pub(super) to_fill_in: Vec<String>,
    /// The field that the key reads, where only a proxy may write that.
    pub(super) proxy_field: Option<ProxyFieldUse>,
}

impl CellLimit {
    /// Returns true if HAProxy compares the same counter with the same count, and answers alike.
    fn is_same_counter(&self, other: &Self) -> bool {
        self.table == other.table
            && self.kind == other.kind
            && self.key == other.key
            && self.on_missing == other.on_missing
            && self.most == other.most
            && self.period == other.period
            && self.status == other.status
    }

    /// Adds the lines of another rule about the same counter.
    fn join(&mut self, other: &Self) {
        fn add<T: PartialEq + Clone>(own: &mut Vec<T>, others: &[T]) {
            for other in others {
                if !own.contains(other) {
                    own.push(other.clone());
                }
            }
        }
        add(&mut self.sources, &other.sources);
        add(&mut self.differences, &other.differences);
        add(&mut self.to_fill_in, &other.to_fill_in);
    }
}

/// The result of all rules for the requests of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CellEffect {
    pub(super) limits: Vec<CellLimit>,
    pub(super) answer: Option<CellAnswer>,
    pub(super) backend: Option<String>,
    pub(super) request_fields: FieldEdits,
    pub(super) response_fields: FieldEdits,
}

/// An answer of the file's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CellAnswer {
    Respond(u16, String),
    Redirect(RedirectTarget),
}

impl CellEffect {
    /// Returns true if the file refuses the requests, whatever counters say.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(&self.answer, Some(CellAnswer::Respond(status, _)) if *status >= 400)
    }

    /// Returns the effect without what an answer of the gateway's own does not need.
    pub(super) fn without_unused(mut self) -> Self {
        if self.answer.is_some() {
            self.backend = None;
            self.request_fields = FieldEdits::default();
        }
        self
    }
}

/// An entry of a stick table that the requests of a cell fill: the table, and the key.
pub(super) type TrackedEntry = (String, Vec<KeyPart>);

/// A cell with the result of all rules.
pub(super) struct EvaluatedCell {
    /// The frontend.
    pub(super) section: EntryId,
    pub(super) cell: RequestCell,
    pub(super) effect: CellEffect,
    /// The entries that its requests fill.
    pub(super) tracked: Vec<TrackedEntry>,
    /// The limits of rules about its requests that come after the answer.
    after_answer: Vec<CellLimit>,
}

impl EvaluatedCell {
    fn all_limits(&self) -> impl Iterator<Item = &CellLimit> {
        self.effect.limits.iter().chain(&self.after_answer)
    }
}

/// Makes one limit of those of several rules about one counter, since a counter of HAProxy has the requests of all of them.
pub(super) fn share_counters(cells: &mut [EvaluatedCell]) {
    let mut shared: Vec<CellLimit> = Vec::new();
    for limit in cells.iter().flat_map(EvaluatedCell::all_limits) {
        match shared.iter_mut().find(|it| it.is_same_counter(limit)) {
            Some(known) => known.join(limit),
            None => shared.push(limit.clone()),
        }
    }
    for cell in cells {
        for limits in [&mut cell.effect.limits, &mut cell.after_answer] {
            for one in std::mem::take(limits) {
                let joined = shared.iter().find(|it| it.is_same_counter(&one));
                limits.extend(joined.filter(|it| !limits.contains(it)).cloned());
            }
        }
    }
}

/// The difference of a limit in which requests count that the file answers before the rule of the limit.
const ANSWERED: &str = "requests that the file answers before this rule count too, and are refused beyond the limit; HAProxy answers them";

/// Adds to each cell that the file answers the limits whose counters its requests raise: HAProxy counts a request when it tracks it, and
/// the answer comes after that. A refusal raises each limit of the counter, any other answer only those of the rules about it.
pub(super) fn count_answered(cells: &mut [EvaluatedCell]) {
    let mut all: Vec<CellLimit> = Vec::new();
    for limit in cells.iter().flat_map(|it| &it.effect.limits) {
        if limit.kind != CounterKind::InFlight && !all.contains(limit) {
            all.push(limit.clone());
        }
    }
    let mut answered: Vec<CellLimit> = Vec::new();
    for EvaluatedCell {
        effect,
        tracked,
        after_answer,
        ..
    } in cells.iter_mut()
    {
        if effect.answer.is_none() {
            continue;
        }
        let is_refusal = effect.is_refusal();
        for limit in &all {
            let is_counted = tracked
                .iter()
                .any(|(table, key)| *table == limit.table && *key == limit.key);
            let is_added = is_counted
                && (is_refusal || after_answer.contains(limit))
                && effect.limits.len() < bounds::ROUTE_LIMITS
                && !effect.limits.contains(limit);
            if is_added {
                effect.limits.push(limit.clone());
                if !is_refusal {
                    answered.push(limit.clone());
                }
            }
        }
    }
    let limits = cells.iter_mut().flat_map(|it| &mut it.effect.limits);
    for limit in limits.filter(|limit| answered.contains(limit)) {
        limit.differences.push(ANSWERED.to_owned());
    }
}

/// The state of a request on its way through the rules.
pub(super) struct RuleEvaluation<'r> {
    pub(super) effect: CellEffect,
    tracks: Vec<(u8, &'r TrackRule)>,
    /// The sticky counters that rules before fill for other requests.
    untracked: Vec<u8>,
    after_answer: Vec<CellLimit>,
    tables: &'r StickTables,
}

impl<'r> RuleEvaluation<'r> {
    pub(super) fn new(tables: &'r StickTables) -> Self {
        Self {
            effect: CellEffect::default(),
            tracks: Vec::new(),
            untracked: Vec::new(),
            after_answer: Vec::new(),
            tables,
        }
    }

    /// Returns the result for a cell.
    pub(super) fn finish(self, cell: RequestCell, section: EntryId) -> EvaluatedCell {
        let tracks = self.tracks.iter();
        EvaluatedCell {
            section,
            cell,
            effect: self.effect,
            tracked: tracks
                .map(|(_, track)| self.tables.stored_entry(track))
                .collect(),
            after_answer: self.after_answer,
        }
    }

    /// Applies rules in their order, up to the one that answers.
    pub(super) fn apply(
        &mut self,
        cell: &RequestCell,
        rules: impl IntoIterator<Item = &'r SectionRule>,
        ledger: &mut Ledger,
    ) {
        if self.effect.answer.is_some() {
            return;
        }
        let mut ended_phase = None;
        for rule in rules {
            if self.effect.answer.is_some() {
                self.skip(cell, rule);
                continue;
            }
            if ended_phase == Some(rule.phase) {
                self.untracked.extend(rule.tracked());
                continue;
            }
            let is_certain = cell.always(&rule.condition);
            let used = match &rule.kind {
                RuleKind::ToHttps | RuleKind::SetSource(_) => false,
                RuleKind::Allow if is_certain => {
                    ended_phase = Some(rule.phase);
                    true
                }
                RuleKind::Track(number, track) if is_certain => {
                    // The first rule that tracks a counter fills it.
                    if !self.tracks.iter().any(|(known, _)| known == number) {
                        self.tracks.push((*number, track));
                    }
                    false
                }
                RuleKind::Track(number, _) => {
                    self.untracked.push(*number);
                    false
                }
                RuleKind::Use(name) if is_certain => {
                    self.effect.backend.get_or_insert(name.clone());
                    true
                }
                RuleKind::Deny(status) if is_certain => {
                    self.answer(status.unwrap_or(403), "");
                    true
                }
                RuleKind::Return(status, text) if is_certain => {
                    self.answer(*status, text);
                    true
                }
                RuleKind::Redirect(target) if is_certain => {
                    self.effect.answer = Some(CellAnswer::Redirect(target.clone()));
                    true
                }
                // The gateway writes it.
                RuleKind::Request(edit) if is_own_field(&edit.name) => true,
                RuleKind::Request(edit) if is_certain => {
                    let result = edit.apply(&mut self.effect.request_fields);
                    if let Err(reason) = result {
                        ledger.lose(rule.id, reason);
                    }
                    result.is_ok()
                }
                RuleKind::Deny(status) => self.limit(cell, rule, *status, ledger),
                _ => false,
            };
            if used {
                ledger.translated(rule.id);
                if let Some(difference) = rule.difference {
                    ledger.differs(rule.id, difference);
                }
                for source in &rule.condition.sources {
                    ledger.translated(*source);
                }
            }
        }
    }

    fn answer(&mut self, status: u16, text: &str) {
        self.effect.answer = Some(CellAnswer::Respond(status, text.to_owned()));
    }

    /// Remembers the limits of a rule that comes after the answer.
    fn skip(&mut self, cell: &RequestCell, rule: &SectionRule) {
        let RuleKind::Deny(status) = &rule.kind else {
            return;
        };
        for alternative in cell.remaining(&rule.condition) {
            let limit = self.limit_of(&alternative, rule, *status);
            self.after_answer.extend(limit.ok().flatten());
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
            let limit = self.limit_of(&alternative, rule, status);
            let added = limit.and_then(|it| it.map(|limit| self.add_limit(limit)).transpose());
            match added {
                Ok(None) => {}
                Ok(Some(())) => used = true,
                Err(reason) => ledger.lose(rule.id, &reason),
            }
        }
        used
    }

    fn add_limit(&mut self, limit: CellLimit) -> Result<(), String> {
        if self.effect.limits.contains(&limit) {
            return Ok(());
        }
        if self.effect.limits.len() == bounds::ROUTE_LIMITS {
            let most = bounds::ROUTE_LIMITS;
            return Err(format!("a route has at most {most} limits"));
        }
        self.effect.limits.push(limit);
        Ok(())
    }

    /// Returns the limit of a refusal that depends on counters; `None` where no rule before fills its counter for the requests of the cell.
    fn limit_of(
        &self,
        literals: &[&SignedTerm],
        rule: &SectionRule,
        status: Option<u16>,
    ) -> Result<Option<CellLimit>, String> {
        let [literal] = literals else {
            return Err("a refusal by several counters at once has no counterpart".to_owned());
        };
        let ConditionTerm::Above(counter, most) = &literal.term else {
            return Err("a refusal by no counter".to_owned());
        };
        if literal.is_negated {
            return Err("a refusal below a count has no counterpart".to_owned());
        }
        let Some(track) = self.track_of(counter)? else {
            return Ok(None);
        };
        let table_name = counter.table.clone().unwrap_or(track.table.clone());
        let table = self.tables.get(&table_name)?;
        let period = table.period(counter.kind)?;
        let key = table.stored(&track.key);
        let mut differences = track.differences.clone();
        differences.extend(key.difference);
        let mut differs = |difference: &str| differences.push(difference.to_owned());
        match (status, rule.difference) {
            (None, Some(CLOSED)) => differs(CLOSED),
            (None, _) => differs("refusals are 429; HAProxy answers 403 unless told otherwise"),
            (Some(_), _) => {}
        }
        if counter.kind == CounterKind::Requests {
            differs(
                "refused requests are not counted; in HAProxy a client that goes on asking stays refused",
            );
        }
        if counter.kind == CounterKind::Errors {
            differs(
                "responses of 400 to 499 count, and requests in flight until they are answered",
            );
        }
        if table.has_peers {
            differs("each gateway counts by itself; `store = \"shared\"` counts together");
        }
        Ok(Some(CellLimit {
            table: table_name,
            kind: counter.kind,
            key: key.parts,
            to_fill_in: key.to_fill_in.into_iter().collect(),
            on_missing: track.on_missing,
            most: tables::count(*most)?,
            period,
            status: status.filter(|status| *status != 429),
            sources: vec![table.id, track.line, rule.id],
            differences,
            proxy_field: track.proxy_field.clone().map(|field| ProxyFieldUse {
                field,
                source: track.line,
            }),
        }))
    }

    fn track_of(&self, counter: &TableCounter) -> Result<Option<&'r TrackRule>, String> {
        let by_address = || {
            let mut tracks = self.tracks.iter();
            tracks
                .find(|(_, track)| track.key == [KeyPart::ClientIp] && track.proxy_field.is_none())
        };
        let found = match counter.tracked {
            Some(number) => self.tracks.iter().find(|(known, _)| *known == number),
            None => by_address(),
        };
        match (found, counter.tracked) {
            (Some((_, track)), _) => Ok(Some(track)),
            (None, Some(number)) if self.untracked.contains(&number) => Ok(None),
            (None, None) if !self.untracked.is_empty() => Ok(None),
            (None, _) => Err("no rule before it that is imported fills this counter".to_owned()),
        }
    }
}
