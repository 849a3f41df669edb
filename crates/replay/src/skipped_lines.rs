//! Writes how many lines of logs are no requests and should be none, by kind: in a sentence, and as JSON.

use std::fmt;

use serde::{Serialize, Serializer};
use sluicegate_access_log::{SkippedCounts, SkippedKind};

use sluicegate_explain::{counted, counted_with};

/// The lines that are no requests and should be none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedLines(pub(super) SkippedCounts);

impl SkippedLines {
    /// Returns the number of all of them.
    pub(super) fn total(self) -> u64 {
        self.0.total()
    }
}

impl fmt::Display for SkippedLines {
    /// Writes `3 lines are no requests: 2 messages, 1 comment`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbs = ["is no request", "are no requests"];
        let kinds = self.0.iter();
        let kinds: Vec<String> = kinds
            .map(|(kind, count)| counted_kind(kind, count))
            .collect();
        write!(
            f,
            "{}: {}",
            counted_with(self.0.total(), "line", verbs),
            kinds.join(", ")
        )
    }
}

impl Serialize for SkippedLines {
    /// Writes an object with the number of lines of each kind: `{"message": 2, "error_record": 1}`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kinds = self.0.iter();
        serializer.collect_map(kinds.map(|(kind, count)| (kind.noun().replace(' ', "_"), count)))
    }
}

/// Writes the number of lines of one kind.
fn counted_kind(kind: SkippedKind, count: u64) -> String {
    match kind {
        SkippedKind::OtherService => {
            counted_with(count, "line", ["of another service", "of other services"])
        }
        _ => counted(count, kind.noun()),
    }
}
