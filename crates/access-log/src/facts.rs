//! Owns the facts about logs that decide what a reader may ask of them.

use std::collections::BTreeSet;

use crate::field_selection::{FieldSelection, FieldSpelling};
use crate::format::{self, LogFormat};
use crate::line::{FieldKind, ParsedLine};
use crate::log_clock;
use crate::log_parser::LogParser;

/// Names of values that are kept of each kind, since clients choose those of request fields.
const MAX_NAMES: usize = 4_096;

/// Longest name that is kept, in bytes.
const MAX_NAME: usize = 256;

/// The values that lines of logs have: the first lines, or all of them after [`LogReader::survey`](crate::LogReader::survey).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFacts {
    /// The formats.
    pub formats: BTreeSet<&'static str>,
    /// The layers of the envelopes around lines: `json`, `cri`, `time`, `compose`, `pod`, `stern`, `syslog`.
    pub envelopes: BTreeSet<&'static str>,
    /// Set if some line has a host.
    pub has_host: bool,
    /// Set if some line has a method.
    pub has_method: bool,
    /// Set if some line has a duration.
    pub has_duration: bool,
    /// Set if some line has a status.
    pub has_status: bool,
    /// Set if some line says which crawler a client is.
    pub has_crawler: bool,
    /// The request fields that are kept, by name in lower case.
    pub request_fields: BTreeSet<String>,
    /// The templates of keys of which lines have hashes.
    pub key_templates: BTreeSet<String>,
    /// The limits of which lines have costs.
    pub costs: BTreeSet<String>,
    /// The limits of which lines have announced reserves.
    pub reserves: BTreeSet<String>,
    /// Set if later lines of a stream may have further values: it is read once, so only its first lines are known before all others.
    pub is_partial: bool,
    /// The earliest time of the first lines, in nanoseconds since the Unix epoch; one far from that of the lines around it does not count.
    pub first_time: Option<u64>,
}

impl LogFacts {
    /// Adds the values of a log's first lines.
    pub(crate) fn add_sample(
        &mut self,
        sample: &[u8],
        parser: &LogParser,
        selection: &FieldSelection,
    ) {
        let mut begins = Vec::new();
        let mut parser = parser.restarted();
        for line in format::lines(sample) {
            let mut parsed = ParsedLine::with_fields(selection);
            if parser.parse(line, &mut parsed).is_err() {
                continue;
            }
            begins.push(parsed.time);
            self.add_line(&parsed);
        }
        if let LogFormat::Template(template) = parser.format() {
            // Servers write `-` for a field that a request does not have, so the first lines may have no value of it.
            for (field, spelling) in template.request_fields() {
                if selection.has(field, spelling) {
                    self.add_name(FieldKind::RequestField, field, spelling);
                }
            }
        }
        self.formats.insert(parser.format().name());
        self.envelopes.extend(parser.envelope());
        let begins = [self.first_time, log_clock::begin_of(&begins)];
        self.first_time = begins.into_iter().flatten().min();
    }

    /// Adds the values of a line.
    pub(crate) fn add_line(&mut self, line: &ParsedLine<'_>) {
        self.has_host |= !line.host.is_empty();
        self.has_method |= !line.method.is_empty();
        self.has_duration |= line.duration.is_some();
        self.has_status |= line.status > 0;
        for field in &line.fields {
            self.add_name(field.kind, field.name.raw(), line.spelling);
        }
    }

    fn add_name(&mut self, kind: FieldKind, name: &[u8], spelling: FieldSpelling) {
        let names = match kind {
            FieldKind::RequestField => &mut self.request_fields,
            FieldKind::KeyHash => &mut self.key_templates,
            FieldKind::Cost => &mut self.costs,
            FieldKind::Reserve => &mut self.reserves,
            FieldKind::Crawler => {
                self.has_crawler = true;
                return;
            }
        };
        let Ok(text) = std::str::from_utf8(name) else {
            return;
        };
        if names.contains(text) || names.len() >= MAX_NAMES || text.len() > MAX_NAME {
            return;
        }
        names.insert(match kind {
            FieldKind::RequestField => {
                let bytes = text.bytes().map(|byte| spelling.normalized(byte));
                bytes.map(char::from).collect()
            }
            _ => text.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::RawText;

    /// Goal: clients that make up names of request fields take no memory without bound. Method: more names than are kept, and a long one.
    #[test]
    fn names_are_bounded() {
        let mut facts = LogFacts::default();
        let mut names: Vec<String> = (0..=MAX_NAMES).map(|name| format!("X-{name}")).collect();
        names.insert(0, "x".repeat(MAX_NAME + 1));
        names.insert(0, "X-Api-Key".to_owned());
        for name in &names {
            let mut line = ParsedLine::default();
            let name = RawText::plain(name.as_bytes());
            line.add(FieldKind::RequestField, name, RawText::plain(b"1"));
            facts.add_line(&line);
        }
        assert_eq!(facts.request_fields.len(), MAX_NAMES);
        assert!(facts.request_fields.contains("x-api-key"));
        assert!(
            facts
                .request_fields
                .iter()
                .all(|name| name.len() <= MAX_NAME)
        );
    }
}
