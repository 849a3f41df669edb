//! Decides what the steps of a site do with the requests of one cell.

use super::answers::StepAnswer;
use super::conditions::RequestCondition;
use super::paths::{CurrentPath, folded};
use super::steps::{ChainStep, StepKind};
use crate::bounds;
use crate::cells::{CellDimension, RequestCell, covers_host};
use crate::ledger::EntryId;
use crate::model::FieldEdits;

/// The result of all steps for the requests of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SiteEffect {
    /// The numbers of the limits.
    pub(super) limits: Vec<usize>,
    pub(super) answer: Option<StepAnswer>,
    /// The path that the origin gets, or from which a redirect is made; `None` where it is as it came.
    pub(super) path: Option<CurrentPath>,
    pub(super) request_fields: FieldEdits,
    pub(super) response_fields: FieldEdits,
    pub(super) max_body: Option<String>,
    pub(super) compress: Option<String>,
}

/// The connection of requests, and what is known of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownCell<'c> {
    pub(super) cell: &'c RequestCell,
    /// The last dimension that is known.
    pub(super) known: CellDimension,
    pub(super) scheme: RequestScheme,
}

/// The scheme of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestScheme {
    Http,
    Https,
}

impl RequestScheme {
    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

impl KnownCell<'_> {
    /// Returns whether a condition holds for requests with this path; `None` where that is not known.
    pub(super) fn truth(&self, condition: &RequestCondition, path: &CurrentPath) -> Option<bool> {
        let cell = self.cell;
        let in_dimension = |dimension, holds: bool| (dimension <= self.known).then_some(holds);
        match condition {
            RequestCondition::All(all) => all_hold(all.iter().map(|it| self.truth(it, path))),
            RequestCondition::Any(any) => {
                let opposites = any.iter().map(|it| opposite(self.truth(it, path)));
                opposite(all_hold(opposites))
            }
            RequestCondition::Not(inner) => opposite(self.truth(inner, path)),
            RequestCondition::Tls => Some(self.scheme == RequestScheme::Https),
            RequestCondition::Host(hosts) => {
                let host = cell.host.as_ref();
                let holds = host.is_some_and(|host| hosts.iter().any(|it| covers_host(it, host)));
                in_dimension(CellDimension::Host, holds)
            }
            RequestCondition::Path(term) => {
                let current = path.term.as_ref()?;
                in_dimension(CellDimension::Path, folded(term).covers(&folded(current)))
            }
            RequestCondition::Client(blocks) => {
                in_dimension(CellDimension::Client, cell.has_client_of(blocks))
            }
            RequestCondition::Method(method) => {
                let methods = cell.method.as_ref();
                let holds = methods.is_some_and(|own| own.iter().all(|it| it == method));
                in_dimension(CellDimension::Method, holds)
            }
            RequestCondition::Value(value) => {
                let holds = cell.values.iter().any(|own| value.takes(own));
                in_dimension(CellDimension::Value, holds)
            }
        }
    }
}

/// Returns whether all truths hold; `None` where that is not known.
fn all_hold(truths: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut all = Some(true);
    for truth in truths {
        if truth == Some(false) {
            return truth;
        }
        all = all.and(truth);
    }
    all
}

fn opposite(truth: Option<bool>) -> Option<bool> {
    truth.map(|holds| !holds)
}

/// The state of a request on its way through the steps.
pub(super) struct CellEvaluation<'c> {
    known: KnownCell<'c>,
    path: CurrentPath,
    pub(super) effect: SiteEffect,
    /// The directives that its requests reach.
    pub(super) sources: Vec<EntryId>,
    /// The directives whose effect is not known, with the reason.
    pub(super) problems: Vec<(EntryId, String)>,
}

impl<'c> CellEvaluation<'c> {
    /// Evaluates steps for a cell.
    pub(super) fn new(cell: &'c RequestCell, scheme: RequestScheme, steps: &[ChainStep]) -> Self {
        let path = CurrentPath::new(cell.path.as_ref());
        let mut evaluation = Self {
            known: KnownCell {
                cell,
                known: CellDimension::Method,
                scheme,
            },
            path: path.clone(),
            effect: SiteEffect::default(),
            sources: Vec::new(),
            problems: Vec::new(),
        };
        evaluation.run(steps);
        evaluation.effect.path = (evaluation.path != path).then_some(evaluation.path.clone());
        if !matches!(
            evaluation.effect.answer,
            Some(StepAnswer::Forward(_) | StepAnswer::Redirect { .. })
        ) {
            evaluation.effect.path = None;
        }
        evaluation
    }

    /// Runs the steps of a block, up to the one that answers.
    fn run(&mut self, steps: &[ChainStep]) {
        let mut taken: Vec<&str> = Vec::new();
        for step in steps {
            if self.effect.answer.is_some() {
                return;
            }
            let group = step.group();
            if group.is_some_and(|group| taken.contains(&group)) {
                continue;
            }
            match self.holds(&step.matcher.condition) {
                Some(true) => {}
                Some(false) => continue,
                None => {
                    self.problem(step.id, "the path that it compares is not known");
                    continue;
                }
            }
            taken.extend(group);
            self.apply(step);
        }
    }

    fn apply(&mut self, step: &ChainStep) {
        self.sources.push(step.id);
        match &step.kind {
            StepKind::Block(steps) => self.run(steps),
            StepKind::Path(change) => {
                if let Err(reason) = self.path.change(change) {
                    self.problem(step.id, &reason);
                    self.path.term = None;
                    self.path.template = None;
                }
            }
            StepKind::Limits(zones) => {
                for zone in zones {
                    match self.known.truth(&zone.condition, &self.path) {
                        Some(true) => self.add_limit(zone.limit, step.id),
                        Some(false) => {}
                        None => self.problem(step.id, "the path that it compares is not known"),
                    }
                }
            }
            StepKind::RequestFields(edits) => {
                let result = self.effect.request_fields.extend(edits);
                self.record(result, step.id);
            }
            StepKind::ResponseFields(edits) => {
                let result = self.effect.response_fields.extend(edits);
                self.record(result, step.id);
            }
            StepKind::MaxBody(most) => self.effect.max_body = Some(most.clone()),
            StepKind::Compress(table) => self.effect.compress = Some(table.clone()),
            StepKind::Answer(answer) => self.answer(answer, step.id),
        }
    }

    fn answer(&mut self, answer: &StepAnswer, id: EntryId) {
        if let StepAnswer::Forward(forward) = answer {
            if let Some(rewrite) = &forward.rewrite
                && let Err(reason) = self.path.change(rewrite)
            {
                self.problem(id, &reason);
            }
            if self.path.template.is_none() && self.path.term.is_none() {
                self.problem(id, "the path that the origin gets is not known");
            }
            let effect = &mut self.effect;
            let request = effect.request_fields.extend(&forward.request_fields);
            let response = effect.response_fields.extend(&forward.response_fields);
            self.record(request.and(response), id);
        }
        self.effect.answer = Some(answer.clone());
    }

    fn record(&mut self, result: Result<(), &'static str>, id: EntryId) {
        if let Err(reason) = result {
            self.problem(id, reason);
        }
    }

    fn add_limit(&mut self, limit: usize, id: EntryId) {
        let limits = &mut self.effect.limits;
        if limits.contains(&limit) {
            return;
        }
        if limits.len() == bounds::ROUTE_LIMITS {
            let most = bounds::ROUTE_LIMITS;
            self.problem(id, &format!("a route has at most {most} limits"));
            return;
        }
        limits.push(limit);
    }

    fn holds(&self, condition: &Result<RequestCondition, String>) -> Option<bool> {
        self.known.truth(condition.as_ref().ok()?, &self.path)
    }

    fn problem(&mut self, id: EntryId, reason: &str) {
        self.problems.push((id, reason.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use crate::{Format, NoFiles, import};

    /// Goal: conditions within others are judged once each, and not twice at every level. Method: `not` within `not`, 28 times.
    #[test]
    fn conditions_within_others_are_judged_once() {
        let depth = 28;
        let begin = "not {\n".repeat(depth);
        let end = "}\n".repeat(depth);
        let matcher = format!("@m {{\n{begin}path /a\nmethod GET\n{end}}}\n");
        let text = format!(":8080 {{\n{matcher}respond @m 403\nrespond ok\n}}\n");
        let imported = import(Format::Caddy, "c", &text, &NoFiles).unwrap();
        assert_eq!(imported.toml.matches("status = 403").count(), 1);
    }
}
