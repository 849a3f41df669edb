//! Accounts for each directive of the input: it is translated, or left out with a reason.
//!
//! The parser enters every directive, and an entry is left out until a translator says otherwise. So a directive that no translator
//! handles is listed.

use std::collections::BTreeSet;
use std::fmt;

use crate::bounds;
use crate::position::Position;

/// The reason for which a directive is left out that no translator handles.
pub(crate) const UNKNOWN: &str = "`sluicegate import` does not know it";

/// The number of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(usize);

/// The result for a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryTreatment {
    /// The configuration says it.
    Translated,
    /// The configuration has no key for it; contains the reason.
    LeftOut(String),
}

/// A directive of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Its place.
    pub position: Position,
    /// Its text, without what stands in its block.
    pub text: String,
    /// The result.
    pub treatment: EntryTreatment,
    /// The differences between the directive and its translation.
    pub differences: Vec<String>,
}

/// All directives of the input, in their order.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Vec<LedgerEntry>,
    to_fill_in: Vec<String>,
    known_to_fill_in: BTreeSet<String>,
    /// Directives that a line of these is about.
    required: BTreeSet<EntryId>,
    /// Directives that change no answer in the input either.
    without_effect: BTreeSet<EntryId>,
}

impl Ledger {
    /// Enters a directive, left out so far.
    pub(crate) fn enter(&mut self, position: Position, text: &str) -> EntryId {
        let id = EntryId(self.entries.len());
        self.entries.push(LedgerEntry {
            position,
            text: shown(text),
            treatment: EntryTreatment::LeftOut(UNKNOWN.to_owned()),
            differences: Vec::new(),
        });
        id
    }

    /// Enters a part of a directive that says several things.
    pub(crate) fn enter_part(&mut self, whole: EntryId, text: &str) -> EntryId {
        let position = self.entry(whole).position.clone();
        self.enter(position, text)
    }

    /// Records that the configuration says what a directive says.
    pub(crate) fn translated(&mut self, id: EntryId) {
        self.entry(id).treatment = EntryTreatment::Translated;
    }

    /// Records a directive that is translated with another meaning.
    pub(crate) fn differs(&mut self, id: EntryId, difference: impl Into<String>) {
        let entry = self.entry(id);
        entry.treatment = EntryTreatment::Translated;
        let difference = printable(&difference.into());
        if !entry.differences.contains(&difference) {
            entry.differences.push(difference);
        }
    }

    /// Records the reason for which a directive is left out, unless another one is known or it is translated.
    pub(crate) fn left_out_with(&mut self, id: EntryId, reason: &str) {
        let entry = self.entry(id);
        if entry.treatment == EntryTreatment::LeftOut(UNKNOWN.to_owned()) {
            entry.treatment = EntryTreatment::LeftOut(printable(reason));
        }
    }

    /// Records a directive that changes no answer in the input, unless another reason is known or it is translated.
    pub(crate) fn without_effect(&mut self, id: EntryId, reason: &str) {
        if self.entry(id).treatment == EntryTreatment::LeftOut(UNKNOWN.to_owned()) {
            self.left_out(id, reason);
            self.without_effect.insert(id);
        }
    }

    /// Returns true if a directive is left out that changes answers in the input.
    pub(crate) fn has_lost_effect(&self, id: EntryId) -> bool {
        !self.is_translated(id) && !self.without_effect.contains(&id)
    }

    /// Records what the operator has to write before the configuration does what a directive did.
    pub(crate) fn fill_in_for(&mut self, id: EntryId, what: &str) {
        self.required.insert(id);
        let comment = self.comment(id);
        self.fill_in(format!("{comment}: {what}"));
    }

    /// Records the reason for which a directive is left out, and that the operator has to write what it does.
    pub(crate) fn lose(&mut self, id: EntryId, reason: &str) {
        self.left_out(id, reason);
        self.fill_in_for(id, reason);
    }

    /// Records that the operator has to write what a directive does that is left out, unless a line says so.
    pub(crate) fn require(&mut self, id: EntryId) {
        if let EntryTreatment::LeftOut(reason) = self.entry(id).treatment.clone()
            && !self.required.contains(&id)
        {
            self.fill_in_for(id, &reason);
        }
    }

    /// Records the reason for which a directive is left out, unless it is translated elsewhere.
    pub(crate) fn left_out(&mut self, id: EntryId, reason: impl Into<String>) {
        self.without_effect.remove(&id);
        let entry = self.entry(id);
        if entry.treatment != EntryTreatment::Translated {
            entry.treatment = EntryTreatment::LeftOut(printable(&reason.into()));
        }
    }

    /// Records what the operator has to write before the configuration does what the input did.
    pub(crate) fn fill_in(&mut self, what: impl Into<String>) {
        let what = printable(&what.into());
        if self.known_to_fill_in.insert(what.clone()) {
            self.to_fill_in.push(what);
        }
    }

    /// Returns true if the configuration says what a directive says.
    pub(crate) fn is_translated(&self, id: EntryId) -> bool {
        self.entries[id.0].treatment == EntryTreatment::Translated
    }

    /// Returns the reason for which a directive is left out; `None` where it is translated.
    pub(crate) fn reason(&self, id: EntryId) -> Option<&str> {
        match &self.entries[id.0].treatment {
            EntryTreatment::LeftOut(reason) => Some(reason),
            EntryTreatment::Translated => None,
        }
    }

    /// Returns the directive as comments show it: its place and its text.
    pub(crate) fn comment(&self, id: EntryId) -> String {
        let entry = &self.entries[id.0];
        format!("{}: {}", entry.position, entry.text)
    }

    /// Returns all directives in the order in which they were read.
    pub fn entries(&self) -> &[LedgerEntry] {
        &self.entries
    }

    /// Returns what the operator has to write before the configuration does what the input did.
    pub fn to_fill_in(&self) -> &[String] {
        &self.to_fill_in
    }

    /// Returns the directives that are left out, each with its reason.
    pub fn omissions(&self) -> impl Iterator<Item = (&LedgerEntry, &str)> {
        self.entries
            .iter()
            .filter_map(|entry| match &entry.treatment {
                EntryTreatment::LeftOut(reason) => Some((entry, reason.as_str())),
                EntryTreatment::Translated => None,
            })
    }

    fn entry(&mut self, id: EntryId) -> &mut LedgerEntry {
        &mut self.entries[id.0]
    }
}

/// Writes the numbers, the differences, the omissions and what is to be filled in.
impl fmt::Display for Ledger {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left_out = self.omissions().count();
        let differing = self.entries.iter().filter(|e| !e.differences.is_empty());
        writeln!(
            into,
            "{} directives: {} translated, {} of them with a difference, {left_out} left out",
            self.entries.len(),
            self.entries.len() - left_out,
            differing.clone().count(),
        )?;
        if !self.to_fill_in.is_empty() {
            writeln!(into, "\nTo fill in:")?;
        }
        for what in &self.to_fill_in {
            writeln!(into, "  {what}")?;
        }
        if left_out < self.entries.len() && differing.clone().next().is_some() {
            writeln!(into, "\nDifferences:")?;
        }
        for entry in differing {
            writeln!(into, "  {}: {}", entry.position, entry.text)?;
            for difference in &entry.differences {
                writeln!(into, "      {difference}")?;
            }
        }
        if left_out > 0 {
            writeln!(into, "\nLeft out:")?;
        }
        let mut reasons = BTreeSet::new();
        for (entry, reason) in self.omissions() {
            // A reason is written once; further directives of the same kind refer to it by their name.
            let name = entry.text.split(' ').next().unwrap_or_default();
            let is_new = reasons.insert((name, reason));
            match is_new {
                true => writeln!(into, "  {}: {}: {reason}", entry.position, entry.text)?,
                false => writeln!(into, "  {}: {}", entry.position, entry.text)?,
            }
        }
        Ok(())
    }
}

/// Returns the text with spaces in place of line ends and other control characters. A comment or a terminal would take them for its own.
pub(crate) fn printable(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Returns one line of a text, without control characters and cut.
fn shown(text: &str) -> String {
    let mut line: String = printable(text).chars().take(bounds::SHOWN).collect();
    if text.chars().nth(bounds::SHOWN).is_some() {
        line.push('…');
    }
    line
}
