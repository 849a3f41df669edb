//! Collects the problems of a file while it is walked.
//!
//! Nothing stops at a problem: whoever finds one records it here and goes on without the value. A problem is recorded with its
//! [`ProblemEvidence`], since a text that is not TOML hides what follows, and what is hidden must not be called missing.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use sluicegate_base::bounds::GEO_DATABASE_BYTES;

use super::environment::Environment;
use super::form::{KeyConstraints, ValueConstraint};
use super::problem::{ParseError, Problem, Problems, Severity, SyntaxFault};
use super::redaction::SecretRedaction;
use super::rules::Name;
use super::source::SourceText;
use super::written_tables::{UnknownKey, UnknownKeys};

/// The path of a key or value, and the bytes of the file at which it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPlace {
    /// `limit.otp.rates[0]`
    pub(super) path: String,
    /// `None` for what is not written at all.
    pub(super) span: Option<Range<usize>>,
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct PlacedValue<T> {
    pub(super) value: T,
    pub(super) place: KeyPlace,
}

/// The evidence for a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProblemEvidence {
    /// The text at its place.
    Written,
    /// That something stands nowhere in the file.
    Absent,
    /// A variable of the environment in the text at its place, whose value is not there.
    Variable,
}

/// The problems found so far, and what a walk needs beside the tree.
pub(super) struct ProblemReport<'t> {
    pub(super) source: SourceText<'t>,
    pub(super) environment: &'t dyn Environment,
    /// The directory of the configuration, where relative paths begin.
    base: PathBuf,
    /// The files that were read beside the configuration.
    files: RefCell<BTreeSet<PathBuf>>,
    found: RefCell<Vec<FoundProblem>>,
    /// Every key that was asked for: `limit.NAME.rates`.
    known: RefCell<BTreeSet<String>>,
    /// Those among them that must be written.
    required: RefCell<BTreeSet<String>>,
    /// The uses of lists, in the order in which they were read.
    used_lists: RefCell<Vec<PlacedValue<Name>>>,
    /// The crawlers that routes and lists name, in the order in which they were read.
    used_crawlers: RefCell<Vec<PlacedValue<Name>>>,
    /// The tables that are written, and the keys that they do not have.
    unknown_keys: RefCell<UnknownKeys>,
    /// The forms of values; `None` where they are not collected.
    forms: Option<RefCell<KeyConstraints>>,
}

#[derive(Debug)]
struct FoundProblem {
    severity: Severity,
    ground: ProblemEvidence,
    place: KeyPlace,
    mistake: ParseError,
}

impl KeyPlace {
    /// The place of the whole file.
    pub(super) fn file() -> Self {
        Self {
            path: String::new(),
            span: None,
        }
    }

    /// The place of something inside, such as `.rates` or `[0]`.
    pub(super) fn inside(&self, step: &str, span: Option<Range<usize>>) -> Self {
        let step = if self.path.is_empty() {
            step.trim_start_matches('.')
        } else {
            step
        };
        Self {
            path: format!("{}{step}", self.path),
            span,
        }
    }
}

impl<'t> ProblemReport<'t> {
    /// An empty report about the file `file_name`.
    pub(super) fn new(
        source: SourceText<'t>,
        environment: &'t dyn Environment,
        file_name: &str,
    ) -> Self {
        let base = Path::new(file_name).parent();
        Self {
            source,
            environment,
            base: base.unwrap_or(Path::new("")).to_owned(),
            files: RefCell::default(),
            found: RefCell::default(),
            known: RefCell::default(),
            required: RefCell::default(),
            used_lists: RefCell::default(),
            used_crawlers: RefCell::default(),
            unknown_keys: RefCell::default(),
            forms: None,
        }
    }

    /// The same report, which notes how values are written besides.
    pub(super) fn noting_forms(self) -> Self {
        Self {
            forms: Some(RefCell::default()),
            ..self
        }
    }

    /// Notes how the value of a key is written.
    pub(super) fn note(&self, generic_path: &str, form: impl FnOnce() -> ValueConstraint) {
        let Some(forms) = &self.forms else { return };
        let mut forms = forms.borrow_mut();
        let form = form();
        let of_key = forms.entry(generic_path.to_owned()).or_default();
        if !of_key.contains(&form) {
            of_key.push(form);
        }
    }

    /// Returns the forms of the values of keys, as far as they were read.
    pub(super) fn forms(&self) -> KeyConstraints {
        let forms = self.forms.as_ref();
        forms.map_or_else(KeyConstraints::new, |forms| forms.borrow().clone())
    }

    /// Returns the path that the configuration means by `text`.
    pub(super) fn path(&self, text: &str) -> PathBuf {
        self.base.join(text)
    }

    /// Reads a file of the configuration, and remembers it as one whose change is a change of the configuration.
    pub(super) fn read_file(&self, path: &Path) -> io::Result<String> {
        self.files.borrow_mut().insert(path.to_owned());
        self.environment.read(path)
    }

    /// Reads the bytes of a database.
    pub(super) fn read_bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.borrow_mut().insert(path.to_owned());
        self.environment.read_bytes(path, GEO_DATABASE_BYTES)
    }

    /// The files that were read, in order.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.files.borrow().iter().cloned().collect()
    }

    /// Records that the file cannot be used because of what is written.
    pub(super) fn error(
        &self,
        place: &KeyPlace,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let mistake = ParseError::with_advice(message, advice);
        self.record(Severity::Error, ProblemEvidence::Written, place, mistake);
    }

    /// Records that the file cannot be used because of what is not written.
    pub(super) fn absent(
        &self,
        place: &KeyPlace,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let mistake = ParseError::with_advice(message, advice);
        self.record(Severity::Error, ProblemEvidence::Absent, place, mistake);
    }

    /// Records what can hardly be intended.
    pub(super) fn warning(
        &self,
        place: &KeyPlace,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let mistake = ParseError::with_advice(message, advice);
        self.record(Severity::Warning, ProblemEvidence::Written, place, mistake);
    }

    /// Records that a value names a variable of the environment and does not have its value. Further errors of that value are its echoes.
    pub(super) fn variable(
        &self,
        severity: Severity,
        place: &KeyPlace,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let mistake = ParseError::with_advice(message, advice);
        self.record(severity, ProblemEvidence::Variable, place, mistake);
    }

    /// Records that what is written is used nowhere.
    pub(super) fn unused(
        &self,
        place: &KeyPlace,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let mistake = ParseError::with_advice(message, advice);
        self.record(Severity::Warning, ProblemEvidence::Absent, place, mistake);
    }

    /// Returns whether an error was recorded.
    pub(super) fn has_errors(&self) -> bool {
        let found = self.found.borrow();
        found.iter().any(|found| found.severity == Severity::Error)
    }

    /// Remembers that a key exists.
    pub(super) fn know(&self, generic_path: String) {
        self.known.borrow_mut().insert(generic_path);
    }

    /// Returns whether a key was asked for.
    pub(super) fn is_known(&self, generic_path: &str) -> bool {
        self.known.borrow().contains(generic_path)
    }

    /// Remembers a table that is written in the file.
    pub(super) fn note_table(&self, place: &KeyPlace, generic_path: &str, table: &DeTable<'_>) {
        let written = place.span.as_ref().map(|span| self.source.slice(span));
        let mut unknown_keys = self.unknown_keys.borrow_mut();
        unknown_keys.add_table(place, generic_path, written.unwrap_or_default(), table);
    }

    /// Remembers a key that its table does not have, until all tables are read.
    pub(super) fn note_unknown(&self, key: UnknownKey) {
        self.unknown_keys.borrow_mut().add_key(key);
    }

    /// Returns the keys that their tables do not have, once all tables are read.
    pub(super) fn take_unknown_keys(&self) -> UnknownKeys {
        self.unknown_keys.take()
    }

    /// Replaces the errors for which `revise` finds a better place and mistake.
    pub(super) fn revise_errors(
        &self,
        revise: impl Fn(&KeyPlace, &ParseError) -> Option<(KeyPlace, ParseError)>,
    ) {
        let mut found = self.found.borrow_mut();
        let errors = found
            .iter_mut()
            .filter(|found| found.severity == Severity::Error);
        for error in errors.filter(|error| error.ground != ProblemEvidence::Variable) {
            if let Some((place, mistake)) = revise(&error.place, &error.mistake) {
                error.ground = ProblemEvidence::Written;
                error.place = place;
                error.mistake = mistake;
            }
        }
    }

    /// Removes the error that a table lacks a key: it is written, and stands in another table.
    pub(super) fn forget_absent(&self, table: &str, key: &str) {
        let assignment = format!("{key} = ");
        let own_path = format!("{table}.{key}");
        let is_echo = |found: &FoundProblem| {
            let advice = found.mistake.advice.as_deref().unwrap_or_default();
            found.ground == ProblemEvidence::Absent
                && (found.place.path == table || found.place.path == own_path)
                && advice.contains(&assignment)
        };
        self.found.borrow_mut().retain(|found| !is_echo(found));
    }

    /// Every key that was asked for.
    pub(super) fn known(&self) -> BTreeSet<String> {
        self.known.borrow().clone()
    }

    /// Remembers that `[client]` or a route uses lists.
    pub(super) fn note_lists<'n>(&self, names: impl Iterator<Item = &'n PlacedValue<Name>>) {
        self.used_lists.borrow_mut().extend(names.cloned());
    }

    /// Remembers that a route or a list names a crawler.
    pub(super) fn note_crawler(&self, name: PlacedValue<Name>) {
        self.used_crawlers.borrow_mut().push(name);
    }

    /// Returns the crawlers that routes and lists name.
    pub(super) fn used_crawlers(&self) -> Vec<PlacedValue<Name>> {
        self.used_crawlers.borrow().clone()
    }

    /// Returns the uses of lists.
    pub(super) fn used_lists(&self) -> Vec<PlacedValue<Name>> {
        self.used_lists.borrow().clone()
    }

    /// Remembers that a key must be written.
    pub(super) fn require(&self, generic_path: String) {
        self.required.borrow_mut().insert(generic_path);
    }

    /// Every key that must be written.
    pub(super) fn required(&self) -> BTreeSet<String> {
        self.required.borrow().clone()
    }

    /// The line that a place is on, for messages that speak of another one.
    pub(super) fn line_of(&self, place: &KeyPlace) -> usize {
        place
            .span
            .as_ref()
            .map_or(1, |span| self.source.line(span.start))
    }

    /// All problems: those of the syntax, and of the others those that the faults in the syntax did not cause.
    pub(super) fn finish(self, faults: Vec<SyntaxFault>, redaction: &SecretRedaction) -> Problems {
        let Self { source, found, .. } = self;
        let found = without_echoes_of_variables(found.into_inner());
        let broken: BTreeSet<usize> = faults
            .iter()
            .map(|fault| source.line_of_all(fault.span.start))
            .collect();
        let hidden_from = faults
            .iter()
            .filter(|fault| fault.hides_the_rest)
            .map(|fault| fault.span.start)
            .min();
        let caused = |found: &FoundProblem| {
            if found.severity == Severity::Warning && found.ground == ProblemEvidence::Absent {
                return true;
            }
            let is_on_broken_line = found.place.span.as_ref().is_some_and(|span| {
                let lines = source.line_of_all(span.start)..=source.line_of_all(span.end);
                broken.range(lines).next().is_some()
            });
            let Some(hidden_from) = hidden_from.filter(|_| !is_on_broken_line) else {
                return is_on_broken_line;
            };
            let ends = found
                .place
                .span
                .as_ref()
                .map_or(usize::MAX, |span| span.end);
            found.ground == ProblemEvidence::Absent || ends > hidden_from
        };
        let told = found
            .into_iter()
            .filter(|found| faults.is_empty() || !caused(found));
        let problem = |severity, place: KeyPlace, mistake: ParseError| Problem {
            severity,
            file: source.file(place.span.as_ref().map_or(0, |span| span.start)),
            line: place
                .span
                .as_ref()
                .map_or(1, |span| source.line(span.start)),
            column: place
                .span
                .as_ref()
                .map_or(1, |span| source.column(span.start)),
            shown: redaction.sentence(&source, &place.path, place.span.as_ref(), &mistake),
            key_path: place.path,
            message: mistake.message,
            advice: mistake.advice.unwrap_or_default(),
            excerpt: place.span.as_ref().map(|span| source.excerpt(span)),
        };
        let told = told.map(|found| (found.severity, found.place, found.mistake));
        let told: Vec<_> = told.collect();
        let of_syntax = faults.into_iter().map(|fault| {
            let place = KeyPlace {
                path: String::new(),
                span: Some(fault.span),
            };
            (Severity::Error, place, fault.mistake)
        });
        let mut all: Vec<_> = of_syntax.chain(told).collect();
        // The files one after the other.
        all.sort_by_key(|(severity, place, _)| {
            (place.span.as_ref().map_or(0, |span| span.start), *severity)
        });
        let all = all.into_iter();
        Problems::in_order(
            all.map(|(severity, place, mistake)| problem(severity, place, mistake))
                .collect(),
        )
    }

    fn record(
        &self,
        severity: Severity,
        ground: ProblemEvidence,
        place: &KeyPlace,
        mistake: ParseError,
    ) {
        self.found.borrow_mut().push(FoundProblem {
            severity,
            ground,
            place: place.clone(),
            mistake,
        });
    }
}

/// Removes the errors of values that lack the value of a variable: the variable is the error then, where it was a warning.
fn without_echoes_of_variables(mut found: Vec<FoundProblem>) -> Vec<FoundProblem> {
    let is_echo = |problem: &FoundProblem, variable: &KeyPlace| {
        problem.ground == ProblemEvidence::Written
            && problem.severity == Severity::Error
            && problem.place.span == variable.span
    };
    let is_variable = |problem: &&FoundProblem| problem.ground == ProblemEvidence::Variable;
    let variables = found.iter().filter(is_variable);
    let variables: Vec<KeyPlace> = variables.map(|problem| problem.place.clone()).collect();
    for variable in variables {
        let before = found.len();
        found.retain(|problem| !is_echo(problem, &variable));
        if found.len() < before {
            let at_variable = |problem: &&mut FoundProblem| {
                problem.ground == ProblemEvidence::Variable && problem.place == variable
            };
            for problem in found.iter_mut().filter(at_variable) {
                problem.severity = Severity::Error;
            }
        }
    }
    found
}
