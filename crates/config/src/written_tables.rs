//! Remembers the tables that are written in a file, and the keys that they do not have.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::DeTable;

use super::report::KeyPlace;

/// The message of a key that its table does not have.
pub(super) const NOT_KNOWN: &str = "this key is not known";

/// A table that is written in the file.
#[derive(Clone, Debug)]
pub(super) struct WrittenTable {
    /// `limit.otp`
    pub(super) path: String,
    /// `limit.NAME`
    pub(super) generic: String,
    /// Its head, `[limit.otp]`, or the whole of an inline table.
    pub(super) span: Range<usize>,
    /// The keys below its head, with their places; none where it has no head.
    pub(super) keys: Vec<(String, Range<usize>)>,
}

/// A key that its table does not have.
#[derive(Debug)]
pub(super) struct UnknownKey {
    pub(super) place: KeyPlace,
    pub(super) key: String,
    /// The path of its table.
    pub(super) table: String,
    /// The form of that path: `limit.NAME`.
    pub(super) generic: String,
    /// The keys that its table has.
    pub(super) known: Vec<&'static str>,
    /// Those of them that are not written, one of which may be meant.
    pub(super) unwritten: Vec<&'static str>,
}

/// The tables of a file, and the keys that they do not have.
#[derive(Debug, Default)]
pub(super) struct UnknownKeys {
    pub(super) tables: BTreeMap<String, WrittenTable>,
    /// The paths of the tables that have a head, by its first byte.
    pub(super) heads: BTreeMap<usize, String>,
    pub(super) keys: Vec<UnknownKey>,
}

impl UnknownKeys {
    /// Remembers a table of the file with its keys. It has a head where `written`, its text, is that.
    pub(super) fn add_table(
        &mut self,
        place: &KeyPlace,
        generic: &str,
        written: &str,
        table: &DeTable<'_>,
    ) {
        let Some(span) = place.span.clone() else {
            return;
        };
        let mut keys = Vec::new();
        if written.starts_with('[') {
            self.heads.insert(span.start, place.path.clone());
            keys.extend(
                table
                    .keys()
                    .map(|key| (key.get_ref().to_string(), key.span())),
            );
        }
        let table = WrittenTable {
            path: place.path.clone(),
            generic: generic.to_owned(),
            span,
            keys,
        };
        self.tables.insert(place.path.clone(), table);
    }

    /// Remembers a key that its table does not have.
    pub(super) fn add_key(&mut self, key: UnknownKey) {
        self.keys.push(key);
    }
}
