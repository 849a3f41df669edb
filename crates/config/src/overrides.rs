//! Reads the file that `overrides` names: which keys of a limit have rates of their own, are not limited, or are blocked.
//!
//! The rates of a row have the periods of the limit's own, so that both are judged by the same counters: whoever changes the tier
//! keeps what was counted. Distinct rates are few, rows are many; rates are read once, however often they are written.
//!
//! # Limits
//! [`OVERRIDE_BYTES`](bounds::OVERRIDE_BYTES), [`OVERRIDE_ROWS`](bounds::OVERRIDE_ROWS) and
//! [`OVERRIDE_TIERS`](bounds::OVERRIDE_TIERS).
//!
//! # Errors
//! Of the mistakes in a file the first ten are told, with their lines. They are warnings: the content in force stays, and at the start the
//! rates of the limit hold for every key.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_base::bounds;
use sluicegate_limiter::{Algorithm, KeyHash, Limit, Policy, Rates, Refill, Timestamp};
use toml::de::{DeTable, DeValue};

use super::field::{KeyField, describe, quoted, text_or_warning};
use super::override_rows::{OverrideRows, TierIndex, counted_by};
use super::problem::ParseError;
use super::rates::rate;
use super::rules::{CostRules, FileState, KeyPart, KeyTemplate, OverrideRules, Tier};
use super::source::SourceText;

/// Mistakes of one file that are told.
const TOLD: usize = 10;

/// The limit that rows and tiers are about.
pub(super) struct OverriddenLimit<'a> {
    pub(super) key: &'a KeyTemplate,
    pub(super) policy: &'a Policy,
    pub(super) cost: &'a CostRules,
}

/// A row as written: its line, its key, and its rates with semicolons between them.
struct WrittenRow {
    line: usize,
    key: Vec<String>,
    rates: String,
}

/// The overrides that the file has which `field` names.
pub(super) fn read(field: &KeyField<'_>, about: &OverriddenLimit<'_>) -> Option<OverrideRules> {
    let path = field.path()?;
    let shown = quoted(&path.display().to_string());
    if about.key.0.contains(&KeyPart::Global) {
        return field.refuse(
            "a limit with one counter for all has no keys to tell apart",
            "change its rates, and leave overrides out",
        );
    }
    let lost = |file| {
        Some(OverrideRules {
            file,
            state: FileState::Lost,
            tiers: Vec::new(),
            rows: Arc::default(),
        })
    };
    let extension = path.extension().and_then(|extension| extension.to_str());
    if !matches!(extension, Some("csv" | "toml")) {
        let message = format!("{shown} is neither a .toml nor a .csv file");
        return field.refuse(message, "write overrides = \"tiers.csv\"");
    }
    let (path, text) = text_or_warning(field)?;
    let Some(text) = text else {
        return lost(path);
    };
    if text.len() > bounds::OVERRIDE_BYTES {
        let message = format!("{shown} has {} bytes", text.len());
        field.warn(message, format!("keep it to {}", bounds::OVERRIDE_BYTES));
        return lost(path);
    }
    let mut reading = OverrideReader {
        about,
        rows: OverrideRows::default(),
        lines: Vec::new(),
        tiers: Vec::new(),
        known: HashMap::new(),
        mistakes: Vec::new(),
        wrong: 0,
    };
    if path.extension().is_some_and(|extension| extension == "csv") {
        reading.csv(&text);
    } else {
        reading.toml(&text);
    }
    reading.check_twins();
    if reading.wrong > 0 {
        for (line, mistake) in &reading.mistakes {
            field.warn(
                format!("{shown} line {line}: {}", mistake.message),
                mistake.advice.clone().unwrap_or_default(),
            );
        }
        if let more @ 1.. = reading.wrong.saturating_sub(TOLD) {
            let message = format!("{shown} has {more} more mistakes");
            field.warn(message, "correct these first");
        }
        return lost(path);
    }
    Some(OverrideRules {
        file: path,
        state: FileState::Read,
        tiers: reading.tiers,
        rows: Arc::new(reading.rows),
    })
}

/// A file while it is read.
struct OverrideReader<'a> {
    about: &'a OverriddenLimit<'a>,
    rows: OverrideRows,
    /// The line of each row.
    lines: Vec<usize>,
    tiers: Vec<Tier>,
    /// The tiers by how they are written.
    known: HashMap<String, TierIndex>,
    mistakes: Vec<(usize, ParseError)>,
    wrong: usize,
}

impl OverrideReader<'_> {
    fn mistaken(&mut self, line: usize, mistake: ParseError) {
        self.wrong += 1;
        if self.mistakes.len() < TOLD {
            self.mistakes.push((line, mistake));
        }
    }

    /// `client.ip,path,rates`, then a row a line.
    fn csv(&mut self, text: &str) {
        let columns: Vec<String> = self.about.key.0.iter().map(column).collect();
        let heading = format!("{},rates", columns.join(","));
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .comment(Some(b'#'))
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let mut record = csv::StringRecord::new();
        let mut has_heading = false;
        loop {
            match reader.read_record(&mut record) {
                Ok(false) => break,
                Ok(true) => {}
                Err(error) => {
                    let line = error.position().map_or(1, |position| position.line());
                    let message = "this is no line of a table".to_owned();
                    let advice = "write a key and its rates, with a comma between them";
                    self.mistaken(as_line(line), ParseError::with_advice(message, advice));
                    break;
                }
            }
            let line = as_line(record.position().map_or(1, |position| position.line()));
            if !has_heading {
                has_heading = true;
                let named = record
                    .iter()
                    .eq(columns.iter().map(String::as_str).chain(["rates"]));
                if !named {
                    let message = "the first line names the columns".to_owned();
                    let advice = format!("write {heading}");
                    return self.mistaken(line, ParseError::with_advice(message, advice));
                }
                continue;
            }
            if record.len() != columns.len() + 1 {
                let message = format!("{} values are not one for each column", record.len());
                let advice =
                    format!("write {heading}; several rates have a semicolon between them");
                self.mistaken(line, ParseError::with_advice(message, advice));
                continue;
            }
            let mut values = record.iter().map(str::to_owned);
            let key = values.by_ref().take(columns.len()).collect();
            let rates = values.next().unwrap_or_default();
            self.row(WrittenRow { line, key, rates });
        }
    }

    /// `[[override]]` with `key` and `rates`.
    fn toml(&mut self, text: &str) {
        let source = SourceText::new("", text);
        let table = match DeTable::parse(text) {
            Ok(table) => table,
            Err(error) => {
                let line = error.span().map_or(1, |span| source.line(span.start));
                let message = format!("this is no TOML: {}", error.message());
                let advice =
                    "write [[override]], then key = \"192.0.2.7\" and rates = \"unlimited\"";
                return self.mistaken(line, ParseError::with_advice(message, advice));
            }
        };
        for (name, value) in table.get_ref() {
            let rows = value.get_ref().as_array();
            let Some(rows) = rows.filter(|_| name.get_ref() == "override") else {
                let message = format!("{} is no list of overrides", quoted(name.get_ref()));
                let advice =
                    "write [[override]], then key = \"192.0.2.7\" and rates = \"unlimited\"";
                self.mistaken(
                    source.line(name.span().start),
                    ParseError::with_advice(message, advice),
                );
                continue;
            };
            for row in rows {
                let line = source.line(row.span().start);
                match written(row.get_ref(), line) {
                    Ok(row) => self.row(row),
                    Err(mistake) => self.mistaken(line, mistake),
                }
            }
        }
    }

    fn row(&mut self, row: WrittenRow) {
        if self.rows.len() >= bounds::OVERRIDE_ROWS {
            let message = "there are more rows than a limit takes".to_owned();
            let advice = format!("keep {}", bounds::OVERRIDE_ROWS);
            return self.mistaken(row.line, ParseError::with_advice(message, advice));
        }
        let parts = &self.about.key.0;
        if row.key.len() != parts.len() {
            let message = format!(
                "the key has {} parts, and the limit's {}",
                row.key.len(),
                parts.len()
            );
            let names: Vec<_> = parts.iter().map(column).collect();
            let advice = format!("write one value for each of {}", names.join(", "));
            return self.mistaken(row.line, ParseError::with_advice(message, advice));
        }
        let key: Result<Vec<_>, _> = parts
            .iter()
            .zip(&row.key)
            .map(|(part, text)| counted_by(part, text))
            .collect();
        let tier = self.tier(&row.rates);
        match (key, tier) {
            (Ok(key), Ok(tier)) => {
                self.rows.push(&key, tier);
                self.lines.push(row.line);
            }
            (key, tier) => {
                for mistake in [key.err(), tier.err()].into_iter().flatten() {
                    self.mistaken(row.line, mistake);
                }
            }
        }
    }

    fn tier(&mut self, written: &str) -> Result<TierIndex, ParseError> {
        if let Some(known) = self.known.get(written) {
            return Ok(*known);
        }
        let tier = tier(written, self.about)?;
        let place = self.tiers.iter().position(|other| *other == tier);
        let place = place.unwrap_or(self.tiers.len());
        let index = u8::try_from(place)
            .ok()
            .filter(|_| place < bounds::OVERRIDE_TIERS)
            .ok_or_else(|| {
                ParseError::with_advice(
                    format!("this is one more tier than {}", bounds::OVERRIDE_TIERS),
                    "give more keys the same rates",
                )
            })?;
        if place == self.tiers.len() {
            self.tiers.push(tier);
        }
        // As many spellings as tiers are remembered; a file with others is read more slowly.
        if self.known.len() < bounds::OVERRIDE_TIERS {
            self.known.insert(written.to_owned(), TierIndex(index));
        }
        Ok(TierIndex(index))
    }

    fn check_twins(&mut self) {
        if let Some([one, other]) = self.rows.find_twin() {
            let line = |row: usize| self.lines.get(row).copied().unwrap_or_default();
            let message = format!("the key of line {} stands here again", line(one));
            let mistake = ParseError::with_advice(message, "write it once");
            self.mistaken(line(other), mistake);
        }
    }
}

/// One `[[override]]`.
fn written(row: &DeValue<'_>, line: usize) -> Result<WrittenRow, ParseError> {
    let advice =
        "write key = \"192.0.2.7\" and rates = [\"100 per 10s\"], \"unlimited\" or \"blocked\"";
    let wrong = |message: String| ParseError::with_advice(message, advice);
    let table = row
        .as_table()
        .ok_or_else(|| wrong(format!("expected a table, got {}", describe(row))))?;
    let unknown = table
        .keys()
        .find(|key| !["key", "rates"].contains(&&**key.get_ref()));
    if let Some(unknown) = unknown {
        return Err(wrong(format!(
            "{} is not known here",
            quoted(unknown.get_ref())
        )));
    }
    let texts = |name: &str| -> Result<Vec<String>, ParseError> {
        let value = table
            .get(name)
            .ok_or_else(|| wrong(format!("`{name}` is missing")))?;
        let text = |value: &DeValue<'_>| match value {
            DeValue::String(text) => Ok(text.to_string()),
            other => Err(wrong(format!(
                "expected a string for `{name}`, got {}",
                describe(other)
            ))),
        };
        match value.get_ref() {
            DeValue::Array(values) => values.iter().map(|value| text(value.get_ref())).collect(),
            one => Ok(vec![text(one)?]),
        }
    };
    Ok(WrittenRow {
        line,
        key: texts("key")?,
        rates: texts("rates")?.join(";"),
    })
}

/// Reads the tier that `written` says: rates with semicolons between them, `unlimited` or `blocked`.
pub(super) fn tier(written: &str, about: &OverriddenLimit<'_>) -> Result<Tier, ParseError> {
    match written {
        "unlimited" => return Ok(Tier::Unlimited),
        "blocked" => return Ok(Tier::Blocked),
        _ => {}
    }
    let own = about.policy.rates();
    let rates: Result<Vec<_>, _> = written.split(';').map(|text| rate(text.trim())).collect();
    let rates = Rates::new(rates?).map_err(|error| ParseError::new(error.to_string()))?;
    let periods =
        |rates: &Rates| -> Vec<u32> { rates.iter().map(|rate| rate.period().as_secs()).collect() };
    if periods(&rates) != periods(own) {
        let shown: Vec<_> = periods(own).iter().map(|secs| format!("{secs}s")).collect();
        return Err(ParseError::with_advice(
            format!(
                "the periods of {} are not those of the limit",
                quoted(written)
            ),
            format!("write one rate for each of {}", shown.join(", ")),
        ));
    }
    if refills_differ(about.policy, &rates) {
        return Err(ParseError::with_advice(
            format!(
                "{} refills a bucket that takes several intervals to fill at another pace than the limit's rates, \
                 and both share counters",
                quoted(written)
            ),
            "write refill = \"greedy\" in the limit, or a `burst` of no more than any count",
        ));
    }
    let policy = Policy::new(about.policy.algorithm().clone(), rates)
        .map_err(|error| ParseError::with_advice(error.to_string(), "write other counts"))?;
    if let Some(cost) = about.cost.at_once() {
        // As for the limit itself: one that nobody has used knows best what it can ever admit.
        let unused = Limit::with_buckets(policy.clone(), 1);
        let decision = unused.peek(KeyHash::from_bits(0), cost, Timestamp::from_secs(0));
        if decision.retry_after().is_some() {
            return Err(ParseError::with_advice(
                format!(
                    "{} never admits the limit's cost of {}",
                    quoted(written),
                    cost.get()
                ),
                "write a larger count, or \"blocked\"",
            ));
        }
    }
    Ok(Tier::Rates(policy))
}

/// Returns whether a bucket that is not full after one interval is full sooner by these rates than by the limit's own, or later. Whoever
/// looks for room by the faster ones would take counters that still owe by the slower.
fn refills_differ(policy: &Policy, rates: &Rates) -> bool {
    let Algorithm::TokenBucket {
        burst: Some(burst),
        refill: Refill::Interval,
    } = policy.algorithm()
    else {
        return false;
    };
    let counts = policy.rates().iter().zip(rates.iter());
    let mut counts = counts.map(|(own, other)| (own.count(), other.count()));
    counts.any(|(own, other)| own != other && *burst > own.min(other))
}

/// Returns the name of the column of a part.
fn column(part: &KeyPart) -> String {
    match part {
        KeyPart::ClientIp { .. } => "client.ip".to_owned(),
        KeyPart::Value(value) => value.source.to_string(),
        other => other.to_string(),
    }
}

fn as_line(line: u64) -> usize {
    usize::try_from(line).unwrap_or(usize::MAX)
}
