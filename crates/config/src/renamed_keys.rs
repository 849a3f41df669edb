//! Accepts the names that keys had in the version before, and warns of each with the name that it has now.
//!
//! The tree is changed before it is walked: a value that stands under an old name moves under the new one and keeps its places, so that no
//! reader of a table sees old names. The [`ProblemReport`] remembers what is written, and problems go on naming that.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::report::{KeyPlace, ProblemReport};
use super::section::step;

/// A key that has another name than in the version before.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenamedKey {
    /// The table that has the key, by the names that hold now: `origin.NAME.retry`, `route[].cache`.
    pub(super) table: &'static str,
    pub(super) old: &'static str,
    pub(super) new: &'static str,
}

/// Every renamed key; a table stands before its own keys.
pub(super) const RENAMED_KEYS: [RenamedKey; 16] = [
    renamed("origin.NAME", "circuit", "circuit_breaker"),
    renamed("origin.NAME", "ejection", "outlier_detection"),
    renamed(
        "origin.NAME.outlier_detection",
        "failures",
        "consecutive_failures",
    ),
    renamed("origin.NAME.outlier_detection", "for", "base_ejection_time"),
    renamed("origin.NAME.outlier_detection", "max", "max_ejection_time"),
    renamed("origin.NAME.retry", "within", "deadline"),
    renamed("limit.NAME", "then", "fallback_limit"),
    renamed("client", "forwarded", "client_ip_header"),
    renamed("server", "override_fields", "path_override_headers"),
    renamed("server", "body_key_bytes", "max_key_body_bytes"),
    renamed("store", "sync", "sync_interval"),
    renamed("cache", "memory", "max_bytes"),
    renamed("cache", "max_object", "max_object_bytes"),
    renamed("route[].cache", "max_object", "max_object_bytes"),
    renamed("tracing", "sample", "sample_ratio"),
    renamed("acme", "terms_agreed", "accept_terms"),
];

const fn renamed(table: &'static str, old: &'static str, new: &'static str) -> RenamedKey {
    RenamedKey { table, old, new }
}

/// Gives every key of the tree the name that it has now.
pub(super) fn apply(tree: &mut DeTable<'_>, report: &ProblemReport<'_>) {
    for key in &RENAMED_KEYS {
        let steps: Vec<&str> = key.table.split('.').collect();
        rename_below(tree, &steps, &KeyPlace::file(), key, report);
    }
}

/// Renames a key in the tables that `steps` lead to from `table`, which stands at `place`.
fn rename_below(
    table: &mut DeTable<'_>,
    steps: &[&str],
    place: &KeyPlace,
    key: &RenamedKey,
    report: &ProblemReport<'_>,
) {
    let Some((next, rest)) = steps.split_first() else {
        return rename(table, place, key, report);
    };
    let name = next.trim_end_matches("[]");
    for (found, value) in table.iter_mut() {
        if name != "NAME" && name != &**found.get_ref() {
            continue;
        }
        let place = place.inside(&step(report.written_name(found)), None);
        match value.get_mut() {
            DeValue::Table(table) => rename_below(table, rest, &place, key, report),
            DeValue::Array(elements) if name != *next => {
                for (at, element) in elements.iter_mut().enumerate() {
                    if let DeValue::Table(table) = element.get_mut() {
                        let place = place.inside(&format!("[{at}]"), None);
                        rename_below(table, rest, &place, key, report);
                    }
                }
            }
            // The reader of the value says what it should be.
            _ => {}
        }
    }
}

fn rename(table: &mut DeTable<'_>, place: &KeyPlace, key: &RenamedKey, report: &ProblemReport<'_>) {
    let RenamedKey { old, new, .. } = *key;
    let Some((written, value)) = table.remove_entry(old) else {
        return;
    };
    let place = place.inside(&step(old), Some(written.span()));
    if table.contains_key(new) {
        report.error(
            &place,
            format!("`{old}` is called `{new}` now, and both are written"),
            format!("keep `{new}`"),
        );
        return;
    }
    report.warning(
        &place,
        format!("`{old}` is called `{new}` now"),
        "write that, since the next version takes no other",
    );
    report.note_renamed(written.span().start, old);
    table.insert(Spanned::new(written.span(), new.into()), value);
}
