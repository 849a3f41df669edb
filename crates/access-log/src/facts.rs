//! Owns the facts about logs that decide what a reader may ask of them.

use std::collections::BTreeSet;

use crate::format::{self, LogFormat};
use crate::line::{FieldKind, ParsedLine};

/// The values that the first lines of logs have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFacts {
    /// The formats.
    pub formats: BTreeSet<&'static str>,
    /// Set if some line has a host.
    pub has_host: bool,
    /// Set if some line has a duration.
    pub has_duration: bool,
    /// Set if some line has a status.
    pub has_status: bool,
    /// Set if some line says which crawler a client is.
    pub has_crawler: bool,
    /// The request fields, by name in lower case.
    pub request_fields: BTreeSet<String>,
    /// The templates of keys of which lines have hashes.
    pub key_templates: BTreeSet<String>,
    /// The limits of which lines have costs.
    pub costs: BTreeSet<String>,
    /// The limits of which lines have announced reserves.
    pub reserves: BTreeSet<String>,
    /// The earliest time, in nanoseconds since the Unix epoch.
    pub first_time: Option<u64>,
}

impl LogFacts {
    /// Adds the values of a log's first lines, and returns its first time.
    pub(crate) fn add(&mut self, sample: &[u8], format: &LogFormat) -> Option<u64> {
        let mut first = None;
        let mut format = format.clone();
        for line in format::lines(sample) {
            let mut parsed = ParsedLine::default();
            if format.parse(line, &mut parsed).is_err() {
                continue;
            }
            first = first.or(Some(parsed.time));
            self.has_host |= !parsed.host.is_empty();
            self.has_duration |= parsed.duration.is_some();
            self.has_status |= parsed.status > 0;
            for field in &parsed.fields {
                let name = String::from_utf8_lossy(field.name.raw()).into_owned();
                match field.kind {
                    FieldKind::RequestField => self
                        .request_fields
                        .insert(name.to_ascii_lowercase().replace('_', "-")),
                    FieldKind::KeyHash => self.key_templates.insert(name),
                    FieldKind::Cost => self.costs.insert(name),
                    FieldKind::Crawler => std::mem::replace(&mut self.has_crawler, true),
                    FieldKind::Reserve => self.reserves.insert(name),
                };
            }
        }
        self.formats.insert(format.name());
        let earliest = [self.first_time, first].into_iter().flatten().min();
        self.first_time = earliest;
        first
    }
}
