//! Reads when a limit or a tier applies: `when`, `until` and `keep_active_for`.
//!
//! An active limit stays so until `until` has held for `keep_active_for` without a break, so that a figure near the threshold does not
//! switch it on and off. Without `until`, the margin of a tenth takes its place
//! ([`HysteresisMargin::Tenth`](super::load_condition::HysteresisMargin)).

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::field::KeyField;
use super::load_condition::{LoadCondition, load_condition};
use super::report::PlacedValue;
use super::section::TableSection;

/// Shortest and longest time for which `until` has to hold.
const KEEP: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_600);

/// The time for which `until` has to hold unless the file says another.
const USUAL_KEEP: Duration = Duration::from_secs(10);

/// The rules by which a limit or a tier becomes active, and inactive again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivationRules {
    /// The condition that activates.
    pub when: LoadCondition,
    /// The condition that ends it; `None`: `when` does not hold, not even within a tenth of its thresholds.
    pub until: Option<LoadCondition>,
    /// The time for which the end has to hold without a break.
    pub keep_active_for: Duration,
}

impl ActivationRules {
    /// Returns both conditions.
    pub fn conditions(&self) -> impl Iterator<Item = &LoadCondition> {
        std::iter::once(&self.when).chain(&self.until)
    }
}

/// The keys of a limit or a tier that are about its activation.
pub(super) struct ActivationKeys<'d> {
    when: Option<KeyField<'d>>,
    until: Option<KeyField<'d>>,
    keep: Option<KeyField<'d>>,
}

/// The rules, with the places of their conditions.
pub(super) struct ParsedActivation {
    pub(super) rules: Arc<ActivationRules>,
    pub(super) conditions: Vec<PlacedValue<LoadCondition>>,
}

impl<'d> ActivationKeys<'d> {
    /// The keys of a table, asked for whatever is written.
    pub(super) fn from_section(section: &TableSection<'d>) -> Self {
        Self {
            when: section.field("when", "\"origin.app.p99 > 500ms\""),
            until: section.field("until", "\"origin.app.p99 < 300ms\""),
            keep: section.field("keep_active_for", "\"10s\""),
        }
    }

    /// Returns `when`, where it is written.
    pub(super) fn when(&self) -> Option<&KeyField<'d>> {
        self.when.as_ref()
    }

    /// Returns the rules; `None` inside where nothing is written, outside where it is wrong.
    pub(super) fn read(&self) -> Option<Option<ParsedActivation>> {
        let Some(field) = &self.when else {
            let idle = [&self.until, &self.keep];
            return match idle.into_iter().flatten().next() {
                Some(field) => field.refuse(
                    "nothing says when it becomes active, so it always is",
                    "write when = \"origin.app.p99 > 500ms\", or leave it out",
                ),
                None => Some(None),
            };
        };
        let when = load_condition(field);
        let until = self.until.as_ref();
        let until = until.map(|field| load_condition(field).map(|until| (field, until)));
        let keep = match &self.keep {
            Some(keep) => keep.duration(KEEP),
            None => Some(USUAL_KEEP),
        };
        let when = when?;
        let until = transpose(until)?;
        let keep = keep?;
        let mut conditions = vec![field.placed(when.clone())];
        conditions.extend((until.as_ref()).map(|(field, until)| field.placed(until.clone())));
        let rules = Arc::new(ActivationRules {
            when,
            until: until.map(|(_, until)| until),
            keep_active_for: keep,
        });
        Some(Some(ParsedActivation { rules, conditions }))
    }
}

/// Returns `None` for what is wrong.
fn transpose<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        Some(read) => read.map(Some),
        None => Some(None),
    }
}
