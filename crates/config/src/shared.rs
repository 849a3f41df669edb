//! Owns how a limit says that it counts in the store: `store` and `on_store_failure`.

use sluicegate_limiter::{Algorithm, Policy};

use super::field::KeyField;
use super::report::{KeyPlace, PlacedValue, ProblemReport};
use super::rules::{OnStoreFailure, SharedMode, SharedRules};
use super::section::TableSection;
use super::tables::store::EXAMPLE;

const MODES: [(&str, Option<SharedMode>); 3] = [
    ("local", None),
    ("shared", Some(SharedMode::Synced)),
    ("shared-strict", Some(SharedMode::Strict)),
];
const FAILURES: [(&str, OnStoreFailure); 3] = [
    ("local", OnStoreFailure::Local),
    ("open", OnStoreFailure::Open),
    ("closed", OnStoreFailure::Closed),
];

/// The two keys of `[limit.NAME]`.
pub(super) struct StoreModeKeys<'d> {
    store: Option<KeyField<'d>>,
    on_failure: Option<KeyField<'d>>,
}

impl<'d> StoreModeKeys<'d> {
    /// The keys, asked for whatever is written.
    pub(super) fn from_section(section: &TableSection<'d>) -> Self {
        Self {
            store: section.field("store", "\"shared-strict\""),
            on_failure: section.field("on_store_failure", "\"local\""),
        }
    }

    /// Returns the settings of a limit with this policy, and their place; `None` inside for one that counts by itself.
    pub(super) fn read(&self, policy: Option<&Policy>) -> Option<Option<PlacedValue<SharedRules>>> {
        let mode = match &self.store {
            None => Some(None),
            Some(field) => mode(field),
        };
        let on_failure = match &self.on_failure {
            None => Some(OnStoreFailure::default()),
            Some(field) => failure(field),
        };
        let mode = mode?;
        let on_failure = on_failure?;
        let (Some(mode), Some(store)) = (mode, &self.store) else {
            return match &self.on_failure {
                None => Some(None),
                Some(field) => field.refuse(
                    "this limit counts by itself, so no store can fail it",
                    "write store = \"shared\" or \"shared-strict\", or leave it out",
                ),
            };
        };
        if mode == SharedMode::Synced
            && policy.is_some_and(|policy| matches!(policy.algorithm(), Algorithm::Exact))
        {
            return store.refuse(
                "\"exact\" promises what counts that are exchanged afterwards cannot keep",
                "write store = \"shared-strict\", or another algorithm",
            );
        }
        Some(Some(store.placed(SharedRules { mode, on_failure })))
    }
}

/// Reports limits that count in a store that is not there, and a store in which none counts.
pub(super) fn check<'r>(
    store: Option<&KeyPlace>,
    uses: impl IntoIterator<Item = &'r KeyPlace>,
    report: &ProblemReport<'_>,
) {
    let mut uses = uses.into_iter().peekable();
    match store {
        None => {
            for place in uses {
                report.absent(
                    place,
                    "there is no store to count in",
                    format!("write [store] {EXAMPLE}"),
                );
            }
        }
        Some(store) => {
            // A limit that could not be read may use it.
            if uses.peek().is_none() && !report.has_errors() {
                report.unused(
                    store,
                    "no limit counts in the store, so that it shares temporary rules alone",
                    "write store = \"shared\" or \"shared-strict\" in a limit; leave [store] out where gateways share no temporary rules",
                );
            }
        }
    }
}

fn mode(field: &KeyField<'_>) -> Option<Option<SharedMode>> {
    field.word(&MODES, |got| format!("there is no way to count {got}"))
}

fn failure(field: &KeyField<'_>) -> Option<OnStoreFailure> {
    field.word(&FAILURES, |got| {
        format!("there is no way to go on without a store {got}")
    })
}
