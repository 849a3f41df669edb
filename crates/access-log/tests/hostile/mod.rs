//! Reads a case of hostile logs and compares the reader with a slow model: each line parsed by itself, then a stable sort.
//!
//! The fuzz target `access_logs` and the property test beside it run the same check.

use std::io::Cursor;
use std::net::IpAddr;

use sluicegate_access_log::{
    FieldSelection, LogFormat, LogReader, MAX_FIELDS, MAX_LINE, OpenError, ParsedLine, ReadOptions,
    TimeSpread,
};

/// A line between two logs of a case.
pub(crate) const SEPARATOR: &[u8] = b"\n----\n";

/// A `log_format` of nginx.
const TEMPLATE: &str = r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" rt=$request_time"#;

/// Bytes from which a format is detected.
const DETECTED_BYTES: usize = 4 * MAX_LINE;

/// The first bytes of compressed logs, which the model does not read.
const COMPRESSED: [&[u8]; 2] = [&[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd]];

/// What the lines of all logs are.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    lines: u64,
    broken: u64,
    skipped: u64,
    left_out: u64,
    /// Time and client of each request.
    requests: Vec<(u64, IpAddr)>,
}

/// Checks a case: a letter for the format, one for the times, and the texts of the logs.
pub(crate) fn check(case: &[u8]) {
    let Some(([format, spread], texts)) = case.split_first_chunk() else {
        return;
    };
    let options = ReadOptions {
        format: format_of(*format),
        spread: match spread {
            b's' => TimeSpread::OverSecond,
            _ => TimeSpread::AsLogged,
        },
        fields: FieldSelection::new(["User-Agent"]),
    };
    let logs = split(texts);
    let named = logs.iter().enumerate().map(|(index, text)| {
        let bytes: Box<dyn std::io::Read> = Box::new(Cursor::new(text.to_vec()));
        (index.to_string(), bytes)
    });
    let mut reader = match LogReader::from_streams(named.collect(), &options) {
        Ok(reader) => reader,
        Err(OpenError::Unreadable(..) | OpenError::UnknownFormat(_)) => return,
    };
    let mut found = Vec::new();
    let mut latest = 0;
    while let Some(request) = reader.next_request() {
        assert!(latest <= request.time, "time goes back");
        assert!(request.fields.iter().count() <= MAX_FIELDS);
        latest = request.time;
        found.push((request.time, request.client));
    }
    let stats = reader.stats();
    assert!(stats.broken_lines.len() as u64 <= stats.broken);
    assert!(
        stats
            .broken_lines
            .iter()
            .all(|line| line.text.chars().count() <= 161)
    );
    if logs
        .iter()
        .any(|log| COMPRESSED.iter().any(|magic| log.starts_with(magic)))
    {
        return;
    }
    if !reader.facts().envelopes.is_empty() {
        // The model reads bare lines.
        return;
    }
    let mut expected = Expected::default();
    for log in &logs {
        expected.add(log, &options);
    }
    assert_eq!(
        (
            stats.lines,
            stats.broken,
            stats.skipped.total(),
            stats.left_out,
            found.len() as u64 + stats.misdated
        ),
        (
            expected.lines,
            expected.broken,
            expected.skipped,
            expected.left_out,
            expected.requests.len() as u64
        ),
        "a line is counted twice or not at all"
    );
    assert!(stats.misdated_lines.len() as u64 <= stats.misdated);
    expected.requests.sort();
    if stats.misdated > 0 {
        for (_, client) in found {
            let is_found = expected
                .requests
                .iter()
                .position(|(_, other)| *other == client);
            expected
                .requests
                .remove(is_found.expect("a request of the logs"));
        }
        return;
    }
    if options.spread == TimeSpread::AsLogged && stats.order.late == 0 {
        found.sort();
        assert_eq!(found, expected.requests);
    } else {
        let clients = |requests: &[(u64, IpAddr)]| {
            let mut clients: Vec<IpAddr> = requests.iter().map(|(_, client)| *client).collect();
            clients.sort();
            clients
        };
        assert_eq!(clients(&found), clients(&expected.requests));
    }
}

/// Returns the format that a letter names; `None` to detect it.
fn format_of(letter: u8) -> Option<LogFormat> {
    if letter == b't' {
        return LogFormat::named(TEMPLATE).ok();
    }
    let name = LogFormat::NAMES.get(usize::from(letter.checked_sub(b'0')?))?;
    LogFormat::named(name).ok()
}

/// Returns the texts of the logs of a case.
fn split(mut texts: &[u8]) -> Vec<&[u8]> {
    let mut logs = Vec::new();
    while let Some(at) = texts
        .windows(SEPARATOR.len())
        .position(|part| part == SEPARATOR)
    {
        logs.push(&texts[..at]);
        texts = &texts[at + SEPARATOR.len()..];
    }
    logs.push(texts);
    logs
}

/// Returns the lines of a log; a NUL ends one too, but no empty one.
fn lines(log: &[u8]) -> Vec<&[u8]> {
    let mut rest = log.strip_prefix(b"\xef\xbb\xbf").unwrap_or(log);
    let mut lines = Vec::new();
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | 0)) {
        if rest[end] == b'\n' || end > 0 {
            lines.push(&rest[..end]);
        }
        rest = &rest[end + 1..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

impl Expected {
    /// Adds the lines of a log.
    fn add(&mut self, log: &[u8], options: &ReadOptions) {
        let sample = &log[..log.len().min(DETECTED_BYTES)];
        let detected = || LogFormat::detect(sample);
        let Some(mut format) = options.format.clone().or_else(detected) else {
            return;
        };
        for line in lines(log) {
            self.lines += 1;
            if line.len() > MAX_LINE {
                self.broken += 1;
                continue;
            }
            let mut parsed = ParsedLine::default();
            match format.parse(line, &mut parsed) {
                Ok(()) => {
                    self.left_out += parsed.left_out;
                    let client = parsed.client.expect("a request has a client");
                    self.requests.push((parsed.time, client));
                }
                Err(sluicegate_access_log::LineError::NoRequest(_)) => self.skipped += 1,
                Err(_) => self.broken += 1,
            }
        }
    }
}
