//! Reports keys that their table does not have, with what to write instead.
//!
//! In TOML a line belongs to the table whose head stands last before it. So a key that is written behind `[origin.app.health]` and that
//! `[origin.app]` has is not misspelt: it stands too low. Which keys the other tables have is known once all are read, so unknown keys
//! are collected until then.

use super::field::shortened;
use super::key_homes;
use super::problem::ParseError;
use super::report::{KeyPlace, ProblemReport};
use super::suggest;
use super::written_tables::{NOT_KNOWN, UnknownKey, UnknownKeys, WrittenTable};

/// Most keys of a table that a message lists.
const MOST_LISTED: usize = 12;

/// Reports the keys that their tables do not have, once all tables are read.
pub(super) fn report_unknown_keys(report: &ProblemReport<'_>) {
    let unknown_keys = report.take_unknown_keys();
    report.revise_errors(|place, mistake| unknown_keys.among_names(place, mistake, report));
    for unknown in &unknown_keys.keys {
        let home = unknown_keys.home(unknown, report);
        let advice = match home {
            Some(home) => unknown_keys.move_advice(&unknown.table, home, report),
            None => unknown.advice(),
        };
        if let Some(home) = home {
            report.forget_absent(&home.path, &unknown.key);
        }
        report.error(&unknown.place, NOT_KNOWN, advice);
    }
}

impl UnknownKeys {
    /// Returns the place and the mistake of a key that stands in a table whose keys are names of the operator's own, such as
    /// `[route.headers]`, and belongs to one around it. The error that was found is that it is missing there, or no value for a name here.
    fn among_names(
        &self,
        place: &KeyPlace,
        mistake: &ParseError,
        report: &ProblemReport<'_>,
    ) -> Option<(KeyPlace, ParseError)> {
        let (parent, _) = place.path.rsplit_once('.').unwrap_or_default();
        let advice = mistake.advice.as_deref().unwrap_or_default();
        let is_asked_for = |key: &str| advice.contains(&format!("{key} = "));
        let lacking = match self.tables.contains_key(&place.path) {
            true => &place.path,
            false => parent,
        };
        let below = format!("{lacking}.");
        let mut tables = self.tables.range(below.clone()..).map(|(_, table)| table);
        let in_own_table = self.tables.get(parent).and_then(|table| {
            let mut keys = table.keys.iter();
            let found = keys.find(|(key, _)| place.path == format!("{parent}.{key}"))?;
            Some((table, found))
        });
        let found = in_own_table.or_else(|| {
            let mut tables = tables
                .by_ref()
                .take_while(|table| table.path.starts_with(&below));
            tables.find_map(|table| {
                let mut keys = table.keys.iter();
                Some((table, keys.find(|(key, _)| is_asked_for(key))?))
            })
        });
        let (table, (key, span)) = found?;
        let home = self.around(&table.path, key, report)?;
        let is_unknown = |unknown: &UnknownKey| unknown.table == table.path && unknown.key == *key;
        let is_name = !has_key(table, key, report) && !self.keys.iter().any(is_unknown);
        if !is_name {
            return None;
        }
        let message = format!(
            "`{key}` is a key of {}, and stands among the names of {}",
            self.head_or_path(home, report),
            self.head_or_path(table, report)
        );
        let advice = self.move_advice(&table.path, home, report);
        let place = KeyPlace {
            path: format!("{}.{key}", table.path),
            span: Some(span.clone()),
        };
        Some((place, ParseError::with_advice(message, advice)))
    }

    /// Returns the table that the key belongs to: one around its own, or the one whose head stands before that of its own.
    fn home(&self, unknown: &UnknownKey, report: &ProblemReport<'_>) -> Option<&WrittenTable> {
        let UnknownKey { table, key, .. } = unknown;
        self.around(table, key, report).or_else(|| {
            let before = self.head_before(table, report)?;
            has_key(before, key, report).then_some(before)
        })
    }

    /// Returns the innermost table around the one at `path` that has a key.
    fn around(&self, path: &str, key: &str, report: &ProblemReport<'_>) -> Option<&WrittenTable> {
        let ends = path.rmatch_indices(['.', '[']);
        let mut around = ends.filter_map(|(end, _)| self.tables.get(&path[..end]));
        around.find(|table| has_key(table, key, report))
    }

    /// Returns the table whose head stands before that of the table at `path`, in the same file.
    fn head_before(&self, path: &str, report: &ProblemReport<'_>) -> Option<&WrittenTable> {
        let start = self.tables.get(path)?.span.start;
        self.heads.get(&start)?;
        let (before, path) = self.heads.range(..start).next_back()?;
        let is_same_file = report.source.file(*before) == report.source.file(start);
        self.tables.get(path).filter(|_| is_same_file)
    }

    /// Returns what to do about a line in the table at `path` that belongs to `home`.
    fn move_advice(&self, path: &str, home: &WrittenTable, report: &ProblemReport<'_>) -> String {
        let home = self.head_or_path(home, report);
        let own = self.tables.get(path);
        match own.filter(|own| self.has_head(own)) {
            Some(own) => {
                let own = self.head_or_path(own, report);
                format!("this line belongs to the table above: write it under {home}, before {own}")
            }
            None => format!("it belongs to the table around this one: write it in {home}"),
        }
    }

    fn has_head(&self, table: &WrittenTable) -> bool {
        self.heads.get(&table.span.start) == Some(&table.path)
    }

    /// Returns the head of a table as it is written, or its path where it has none.
    fn head_or_path(&self, table: &WrittenTable, report: &ProblemReport<'_>) -> String {
        match self.has_head(table) {
            true => {
                let head = shortened(report.source.slice(&table.span));
                head.replace(char::is_control, "\u{fffd}")
            }
            false => format!("`{}`", table.path),
        }
    }
}

impl UnknownKey {
    /// Returns the advice where no table of the file has the key.
    fn advice(&self) -> String {
        let slips = suggest::slips(&self.key, &self.unwritten);
        if !slips.is_empty() {
            return did_you_mean(&slips);
        }
        let with_word = suggest::names_with_word(&self.key, &self.unwritten);
        let home = key_homes::advice(&self.key, &self.generic, &self.table);
        match (with_word.as_slice(), home) {
            ([], Some(home)) if self.known.len() <= MOST_LISTED => {
                format!("{home}; {}", self.known_keys())
            }
            ([], Some(home)) => home,
            ([], None) => self.known_keys(),
            (names, None) => did_you_mean(names),
            (names, Some(home)) => format!("{} {home}", did_you_mean(names)),
        }
    }

    /// Lists the keys of the table, or says where they are listed.
    fn known_keys(&self) -> String {
        match self.known.len() {
            0..=MOST_LISTED => format!("the keys here are {}", quoted_keys(&self.known, ", ")),
            _ => {
                "conf/reference.toml and `sluicegate schema` have the keys of each table".to_owned()
            }
        }
    }
}

fn did_you_mean(keys: &[&str]) -> String {
    format!("did you mean {}?", quoted_keys(keys, " or "))
}

fn quoted_keys(keys: &[&str], between: &str) -> String {
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    keys.join(between)
}

fn has_key(table: &WrittenTable, key: &str, report: &ProblemReport<'_>) -> bool {
    report.is_known(&format!("{}.{key}", table.generic))
}
