//! Collects the problems of a file while it is walked.
//!
//! Nothing stops at a problem: whoever finds one records it here and goes on without the value. A problem is recorded with its
//! [`Ground`], since a text that is not TOML hides what follows, and what is hidden must not be called missing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeString;

use super::environment::Environment;
use super::form::{Form, Forms};
use super::problem::{Mistake, Problem, Problems, Severity};
use super::rules::Name;
use super::source::Source;
use super::syntax::Fault;

/// Where something stands, and what it is called there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// `limit.otp.rates[0]`
    pub(super) path: String,
    /// `None` for what is not written at all.
    pub(super) span: Option<Range<usize>>,
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// The evidence for a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ground {
    /// The text at its place.
    Written,
    /// That something stands nowhere in the file.
    Absent,
}

/// The problems found so far, and what a walk needs beside the tree.
pub(super) struct Report<'t> {
    pub(super) source: Source<'t>,
    pub(super) environment: &'t dyn Environment,
    /// The directory of the configuration, where relative paths begin.
    base: PathBuf,
    /// The files that were read beside the configuration.
    files: RefCell<BTreeSet<PathBuf>>,
    found: RefCell<Vec<Found>>,
    /// Every key that was asked for: `limit.NAME.rates`.
    known: RefCell<BTreeSet<String>>,
    /// Those among them that must be written.
    required: RefCell<BTreeSet<String>>,
    /// Keys that are written under an old name: the name, by the byte at which it stands.
    old_names: RefCell<BTreeMap<usize, &'static str>>,
    /// The uses of lists, in the order in which they were read.
    used_lists: RefCell<Vec<Placed<Name>>>,
    /// The forms of values; `None` where they are not collected.
    forms: Option<RefCell<Forms>>,
}

#[derive(Debug)]
struct Found {
    severity: Severity,
    ground: Ground,
    place: Place,
    mistake: Mistake,
}

impl Place {
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

impl<'t> Report<'t> {
    /// An empty report about the file `file_name`.
    pub(super) fn new(
        source: Source<'t>,
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
            old_names: RefCell::default(),
            used_lists: RefCell::default(),
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
    pub(super) fn note(&self, generic_path: &str, form: impl FnOnce() -> Form) {
        let Some(forms) = &self.forms else { return };
        let (mut forms, form) = (forms.borrow_mut(), form());
        let of_key = forms.entry(generic_path.to_owned()).or_default();
        if !of_key.contains(&form) {
            of_key.push(form);
        }
    }

    /// Returns the forms of the values of keys, as far as they were read.
    pub(super) fn forms(&self) -> Forms {
        let forms = self.forms.as_ref();
        forms.map_or_else(Forms::new, |forms| forms.borrow().clone())
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

    /// The files that were read, in order.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.files.borrow().iter().cloned().collect()
    }

    /// Records that the file cannot be used because of what is written.
    pub(super) fn error(
        &self,
        place: &Place,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let mistake = Mistake::with_advice(message, advice);
        self.record(Severity::Error, Ground::Written, place, mistake);
    }

    /// Records that the file cannot be used because of what is not written.
    pub(super) fn absent(
        &self,
        place: &Place,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let mistake = Mistake::with_advice(message, advice);
        self.record(Severity::Error, Ground::Absent, place, mistake);
    }

    /// Records what can hardly be intended.
    pub(super) fn warning(
        &self,
        place: &Place,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let mistake = Mistake::with_advice(message, advice);
        self.record(Severity::Warning, Ground::Written, place, mistake);
    }

    /// Records that what is written is used nowhere.
    pub(super) fn unused(
        &self,
        place: &Place,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let mistake = Mistake::with_advice(message, advice);
        self.record(Severity::Warning, Ground::Absent, place, mistake);
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

    /// Every key that was asked for.
    pub(super) fn known(&self) -> BTreeSet<String> {
        self.known.borrow().clone()
    }

    /// Remembers that a key is written under an old name.
    pub(super) fn note_renamed(&self, start: usize, old_name: &'static str) {
        self.old_names.borrow_mut().insert(start, old_name);
    }

    /// The old name under which a key is written, if it is.
    pub(super) fn old_name(&self, key: &Spanned<DeString<'_>>) -> Option<&'static str> {
        self.old_names.borrow().get(&key.span().start).copied()
    }

    /// The name under which a key is written.
    pub(super) fn written_name<'k>(&self, key: &'k Spanned<DeString<'_>>) -> &'k str {
        self.old_name(key).unwrap_or(key.get_ref())
    }

    /// Remembers that `[client]` or a route uses lists.
    pub(super) fn note_lists<'n>(&self, names: impl Iterator<Item = &'n Placed<Name>>) {
        self.used_lists.borrow_mut().extend(names.cloned());
    }

    /// Returns the uses of lists.
    pub(super) fn used_lists(&self) -> Vec<Placed<Name>> {
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
    pub(super) fn line_of(&self, place: &Place) -> usize {
        place
            .span
            .as_ref()
            .map_or(1, |span| self.source.line(span.start))
    }

    /// All problems: those of the syntax, and of the others those that the faults in the syntax did not cause.
    pub(super) fn finish(self, faults: Vec<Fault>) -> Problems {
        let Self { source, found, .. } = self;
        let broken: BTreeSet<usize> = faults
            .iter()
            .map(|fault| source.line_of_all(fault.span.start))
            .collect();
        let hidden_from = faults
            .iter()
            .filter(|fault| fault.hides_the_rest)
            .map(|fault| fault.span.start)
            .min();
        let caused = |found: &Found| {
            if found.severity == Severity::Warning && found.ground == Ground::Absent {
                return true;
            }
            let Some(hidden_from) = hidden_from else {
                let span = found.place.span.as_ref();
                return span.is_some_and(|span| {
                    let lines = source.line_of_all(span.start)..=source.line_of_all(span.end);
                    broken.range(lines).next().is_some()
                });
            };
            let ends = found
                .place
                .span
                .as_ref()
                .map_or(usize::MAX, |span| span.end);
            found.ground == Ground::Absent || ends > hidden_from
        };
        let told = found
            .into_inner()
            .into_iter()
            .filter(|found| faults.is_empty() || !caused(found));
        let problem = |severity, place: Place, mistake: Mistake| Problem {
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
            key_path: place.path,
            message: mistake.message,
            advice: mistake.advice.unwrap_or_default(),
            excerpt: place.span.as_ref().map(|span| source.excerpt(span)),
        };
        let told = told.map(|found| (found.severity, found.place, found.mistake));
        let told: Vec<_> = told.collect();
        let of_syntax = faults.into_iter().map(|fault| {
            let place = Place {
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

    fn record(&self, severity: Severity, ground: Ground, place: &Place, mistake: Mistake) {
        self.found.borrow_mut().push(Found {
            severity,
            ground,
            place: place.clone(),
            mistake,
        });
    }
}
