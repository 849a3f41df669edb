//! Reads stick tables, and which keys they are filled by.

use std::collections::BTreeMap;

use super::samples::{self, CounterKind, SampleKey};
use super::sections::{ConfigSection, SectionLine};
use crate::bounds;
use crate::ledger::{EntryId, Ledger};
use crate::model::KeyPart;
use crate::shapes::LARGEST_COUNT;

/// A stick table.
#[derive(Clone, Debug)]
pub(super) struct StickTable {
    pub(super) id: EntryId,
    /// The section that holds it.
    pub(super) section: EntryId,
    /// Periods of its rates in seconds, by the word that stores them.
    periods: BTreeMap<String, Result<u64, String>>,
    pub(super) capacity: Option<u64>,
    /// True if other instances of HAProxy get its entries.
    pub(super) has_peers: bool,
    /// The number of bytes of a key that are kept, where keys are texts.
    key_bytes: Option<u16>,
}

/// A key of which a table keeps a beginning.
pub(super) struct StoredKey {
    pub(super) parts: Vec<KeyPart>,
    /// The part that no key of the gateway is.
    pub(super) to_fill_in: Option<String>,
    pub(super) difference: Option<String>,
}

/// Bytes of a text that a table keeps where it names no length.
const USUAL_KEY_BYTES: u16 = 31;

impl StickTable {
    /// Returns the period of a counter in seconds; `None` for requests in flight, which have none.
    pub(super) fn period(&self, kind: CounterKind) -> Result<Option<u64>, String> {
        let stored = kind.stored();
        match self.periods.get(stored) {
            None => Err(format!("the stick table does not store {stored}")),
            Some(_) if kind == CounterKind::InFlight => Ok(None),
            Some(period) => period.clone().map(Some),
        }
    }

    /// Returns a key as the table keeps it: requests with the same beginning share a counter.
    pub(super) fn stored(&self, parts: &[KeyPart]) -> StoredKey {
        let mut stored = StoredKey {
            parts: parts.to_vec(),
            to_fill_in: None,
            difference: None,
        };
        let Some(bytes) = self.key_bytes else {
            return stored;
        };
        match stored.parts.as_mut_slice() {
            [KeyPart::Header(text) | KeyPart::Cookie(text) | KeyPart::Query(text)] => {
                *text = format!("{text} | first {bytes}");
                stored.difference = Some(format!(
                    "{bytes} characters of the key count; in HAProxy as many bytes"
                ));
            }
            [KeyPart::ClientIp | KeyPart::ClientNetwork(..) | KeyPart::Method] => {}
            _ => {
                stored.to_fill_in = Some(format!(
                    "HAProxy counts by the first {bytes} bytes of the key; here keys that differ behind these have counters of their own"
                ));
            }
        }
        stored
    }
}

/// The stick tables by the names of their sections.
#[derive(Default)]
pub(super) struct StickTables {
    tables: BTreeMap<String, StickTable>,
}

impl StickTables {
    /// Reads the tables of all sections.
    pub(super) fn new(sections: &[ConfigSection], ledger: &mut Ledger) -> Self {
        let mut tables = Self::default();
        for section in sections {
            for line in section.named("stick-table") {
                ledger.left_out(line.id, "no limit that is imported counts in it");
                tables
                    .tables
                    .insert(section.name.clone(), table(line, section.id));
            }
        }
        tables
    }

    /// Returns the entry that a rule fills: its table, and the key as that keeps it.
    pub(super) fn stored_entry(&self, track: &TrackRule) -> (String, Vec<KeyPart>) {
        let table = self.tables.get(&track.table);
        let key = table.map(|it| it.stored(&track.key).parts);
        (track.table.clone(), key.unwrap_or(track.key.clone()))
    }

    /// Returns the table of a section.
    pub(super) fn get(&self, name: &str) -> Result<&StickTable, String> {
        let table = self.tables.get(name);
        table.ok_or_else(|| format!("there is no stick table {name:?}"))
    }
}

fn table(line: &SectionLine, section: EntryId) -> StickTable {
    let size = line.behind("size").and_then(size).unwrap_or(0);
    let mut periods = BTreeMap::new();
    let stored = line
        .words
        .iter()
        .skip_while(|word| *word != "store")
        .skip(1);
    for store in stored.take(1).flat_map(|list| split_stores(list)) {
        let (name, period) = match store.split_once('(') {
            Some((name, period)) => (name, seconds(period.trim_end_matches(')'))),
            None => (store, Ok(0)),
        };
        periods.insert(name.to_owned(), period);
    }
    StickTable {
        id: line.id,
        section,
        periods,
        capacity: (size > bounds::USUAL_CAPACITY).then_some(size.min(bounds::CAPACITY)),
        has_peers: line.behind("peers").is_some(),
        key_bytes: (line.behind("type") == Some("string"))
            .then(|| line.behind("len").and_then(|it| it.parse().ok()))
            .map(|length| length.unwrap_or(USUAL_KEY_BYTES)),
    }
}

fn split_stores(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|store| !store.is_empty())
}

/// Returns a number with a factor of 1024 for each letter of `k`, `m` and `g`.
fn size(text: &str) -> Option<u64> {
    let (number, shift) = match text.chars().next_back()? {
        'k' | 'K' => (&text[..text.len() - 1], 10),
        'm' | 'M' => (&text[..text.len() - 1], 20),
        'g' | 'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Returns the milliseconds of a time, by default of milliseconds.
pub(super) fn millis(text: &str) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let factor = match &text[digits..] {
        "" | "ms" => 1,
        "us" => return Some(number / 1_000),
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

fn seconds(text: &str) -> Result<u64, String> {
    let millis = millis(text).ok_or_else(|| format!("{text:?} is no period"))?;
    match millis {
        millis if millis > 0 && millis % 1_000 == 0 && millis <= bounds::PERIOD_SECONDS * 1_000 => {
            Ok(millis / 1_000)
        }
        _ => Err(format!("periods are whole seconds up to 31d, not {text}")),
    }
}

/// A rule that names the key of a table.
#[derive(Clone, Debug)]
pub(super) struct TrackRule {
    pub(super) line: EntryId,
    pub(super) table: String,
    pub(super) key: Vec<KeyPart>,
    pub(super) on_missing: Option<&'static str>,
    pub(super) differences: Vec<String>,
    /// The field that the key reads, where only a proxy may write that.
    pub(super) proxy_field: Option<String>,
}

/// Reads `track-sc0 src table NAME`, of which `at` is the first word; the table is that of the section unless one is named.
pub(super) fn track(
    line: &SectionLine,
    at: usize,
    section: &str,
) -> Result<(u8, TrackRule), String> {
    let number = line.word(at).strip_prefix("track-sc");
    let number: u8 = number
        .and_then(|number| number.parse().ok())
        .ok_or("the number of a sticky counter is expected")?;
    let SampleKey {
        parts: key,
        differences,
        proxy_field,
    } = samples::key(line.word(at + 1))?;
    let absent = key.iter().any(KeyPart::can_be_absent);
    let track = TrackRule {
        line: line.id,
        table: line.behind("table").unwrap_or(section).to_owned(),
        // A request without the sample is not tracked.
        on_missing: absent.then_some("skip"),
        key,
        differences,
        proxy_field,
    };
    Ok((number, track))
}

/// Checks a count of a rule.
pub(super) fn count(most: u64) -> Result<u64, String> {
    if (1..=LARGEST_COUNT).contains(&most) {
        return Ok(most);
    }
    Err(format!(
        "a limit lets 1 to {LARGEST_COUNT} through, not {most}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a text counts by the beginning that a table keeps. Method: tables with and without a length, of texts and of addresses, keys
    /// that can and that cannot be cut.
    #[test]
    fn a_table_of_texts_keeps_the_beginning_of_a_key() {
        let stored = |table_text: &str, part: KeyPart| {
            let section = format!("backend t\n stick-table {table_text} size 1k\n");
            let mut ledger = Ledger::default();
            let sections = super::super::sections::parse("h", &section, &mut ledger).unwrap();
            let tables = StickTables::new(&sections, &mut ledger);
            let key = tables.get("t").unwrap().stored(&[part]);
            (key.parts[0].text(), key.to_fill_in.is_some())
        };
        let header = || KeyPart::Header("x-key | lower".to_owned());
        let cut = |length: u8| (format!("header.x-key | lower | first {length}"), false);
        assert_eq!(stored("type string len 8", header()), cut(8));
        assert_eq!(stored("type string", header()), cut(31));
        assert!(stored("type string", KeyPart::Path).1);
        assert!(!stored("type ip", KeyPart::Path).1);
        assert!(!stored("type string", KeyPart::ClientIp).1);
    }

    /// Goal: times are those of HAProxy, whose default is a millisecond. Method: each unit.
    #[test]
    fn times_are_read() {
        assert_eq!(millis("10s"), Some(10_000));
        assert_eq!(millis("250"), Some(250));
        assert_eq!(millis("1d"), Some(86_400_000));
        assert_eq!(millis("1w"), None);
        assert_eq!(seconds("10s"), Ok(10));
        assert!(seconds("500ms").is_err());
        assert_eq!(size("100k"), Some(102_400));
    }
}
