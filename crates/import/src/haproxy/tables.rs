//! Reads stick tables, and which keys they are filled by.

use std::collections::BTreeMap;

use super::samples::{self, CounterKind, SampleKey};
use super::sections::{ConfigSection, SectionLine};
use crate::ledger::{EntryId, Ledger};
use crate::model::KeyPart;
use crate::shapes::LARGEST_COUNT;

/// The default capacity of a limit.
const USUAL_CAPACITY: u64 = 262_144;

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
}

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
}

/// The stick tables by the names of their sections.
#[derive(Default)]
pub(super) struct StickTables {
    tables: BTreeMap<String, StickTable>,
}

impl StickTables {
    /// Reads the tables of all sections.
    pub(super) fn of(sections: &[ConfigSection], ledger: &mut Ledger) -> Self {
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
        capacity: (size > USUAL_CAPACITY).then_some(size.min(1 << 30)),
        has_peers: line.behind("peers").is_some(),
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
        millis if millis > 0 && millis % 1_000 == 0 && millis <= 31 * 86_400_000 => {
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
