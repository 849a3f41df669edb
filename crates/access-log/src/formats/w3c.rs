//! Parses the standard logs of CloudFront: words separated by tabs, whose meaning the line `#Fields:` says.
//!
//! The time is that of the end, in UTC and whole seconds; `time-taken` is the duration. Fields are in percent encoding where they have
//! spaces or quotes; they are read as they stand.

use crate::address::address;
use crate::line::{FieldKind, LineError, LoggedTreatment, ParsedLine};
use crate::skipped::SkippedKind;
use crate::text::RawText;
use crate::time;

/// Most columns that are read.
const MAX_COLUMNS: usize = 64;

/// The order of the columns, as the latest `#Fields:` of a log said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnOrder(Vec<LogColumn>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogColumn {
    Date,
    Time,
    Bytes,
    Client,
    Method,
    Host,
    HostHeader,
    Path,
    Query,
    Status,
    Referer,
    UserAgent,
    Id,
    ForwardedFor,
    Duration,
    FirstByte,
    ResultType,
    Other,
}

impl Default for ColumnOrder {
    /// Returns the order of the standard logs, for files whose head was cut off.
    fn default() -> Self {
        let standard = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) \
                        cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken \
                        x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status \
                        fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len \
                        sc-range-start sc-range-end";
        Self::of(standard.split_ascii_whitespace())
    }
}

impl ColumnOrder {
    fn of<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let column = |name: &str| match name {
            "date" => LogColumn::Date,
            "time" => LogColumn::Time,
            "sc-bytes" => LogColumn::Bytes,
            "c-ip" => LogColumn::Client,
            "cs-method" => LogColumn::Method,
            "cs(Host)" => LogColumn::Host,
            "x-host-header" => LogColumn::HostHeader,
            "cs-uri-stem" => LogColumn::Path,
            "cs-uri-query" => LogColumn::Query,
            "sc-status" => LogColumn::Status,
            "cs(Referer)" => LogColumn::Referer,
            "cs(User-Agent)" => LogColumn::UserAgent,
            "x-edge-request-id" => LogColumn::Id,
            "x-forwarded-for" => LogColumn::ForwardedFor,
            "time-taken" => LogColumn::Duration,
            "time-to-first-byte" => LogColumn::FirstByte,
            "x-edge-result-type" => LogColumn::ResultType,
            _ => LogColumn::Other,
        };
        Self(names.take(MAX_COLUMNS).map(column).collect())
    }

    /// Parses a line; one that begins with `#Fields:` sets the order of the columns.
    pub(crate) fn line<'a>(
        &mut self,
        line: &'a [u8],
        into: &mut ParsedLine<'a>,
    ) -> Result<(), LineError> {
        if let Some(comment) = line.strip_prefix(b"#") {
            let names = comment
                .strip_prefix(b"Fields:")
                .and_then(|names| std::str::from_utf8(names).ok());
            if let Some(names) = names {
                *self = Self::of(names.split_ascii_whitespace());
            }
            return Err(LineError::NoRequest(SkippedKind::Comment));
        }
        let mut date = &b""[..];
        let mut host_header = RawText::default();
        let words = line.split(|byte| *byte == b'\t');
        for (column, word) in self.0.iter().zip(words) {
            let text = RawText::plain(word);
            if word == b"-" {
                continue;
            }
            match column {
                LogColumn::Date => date = word,
                LogColumn::Time => into.time = time::date_and_time(date, word).unwrap_or(0),
                LogColumn::Bytes => into.bytes = time::number(word),
                LogColumn::Client => into.client = address(word),
                LogColumn::Method => into.method = text,
                LogColumn::Host => into.host = text,
                LogColumn::HostHeader => host_header = text,
                LogColumn::Path => into.target = text,
                LogColumn::Query => into.query = text,
                LogColumn::Status => {
                    // 000 where the client left.
                    let status = time::number(word).and_then(|status| u16::try_from(status).ok());
                    into.status = status.unwrap_or(0);
                }
                LogColumn::Referer => into.add_request_field(b"referer", text),
                LogColumn::UserAgent => into.add_request_field(b"user-agent", text),
                LogColumn::Id => into.id = text,
                LogColumn::ForwardedFor => into.add(
                    FieldKind::RequestField,
                    RawText::plain(b"x-forwarded-for"),
                    text,
                ),
                LogColumn::Duration => into.duration = time::seconds(word),
                LogColumn::FirstByte => into.first_byte = time::seconds(word),
                LogColumn::ResultType
                    if matches!(word, b"Hit" | b"RefreshHit" | b"OriginShieldHit") =>
                {
                    into.treatment = LoggedTreatment::Cached;
                }
                LogColumn::ResultType | LogColumn::Other => {}
            }
        }
        if !host_header.is_empty() {
            // `cs(Host)` is the name of the distribution, this is what clients asked for.
            into.host = host_header;
        }
        if into.method.is_empty() {
            return Err(LineError::Malformed(
                "the line does not have the columns of `#Fields:`",
            ));
        }
        into.count_time_from_end();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the lines of AWS' documentation are read. Method: those lines ("Standard log file format", CloudFront's developer guide).
    #[test]
    fn the_lines_of_cloudfronts_documentation_are_read() {
        let line = include_bytes!("samples/cloudfront.log").trim_ascii_end();
        let mut columns = ColumnOrder::default();
        let mut into = ParsedLine::default();
        assert_eq!(
            columns.line(b"#Version: 1.0", &mut into),
            Err(LineError::NoRequest(SkippedKind::Comment))
        );
        columns.line(line, &mut into).unwrap();
        assert_eq!(into.time, 1_575_493_351_000_000_000 - 1_000_000);
        assert_eq!(into.client, Some("192.0.2.100".parse().unwrap()));
        assert_eq!(
            (into.host.raw(), into.target.raw(), into.query.raw()),
            (&b"www.example.com"[..], &b"/index.html"[..], &b"a=1"[..])
        );
        assert_eq!(
            (into.status, into.bytes, into.treatment),
            (200, Some(392), LoggedTreatment::Cached)
        );
    }

    /// Goal: a file says its own order. Method: a head with three columns changed.
    #[test]
    fn the_order_is_that_of_the_head() {
        let mut columns = ColumnOrder::default();
        let head = b"#Fields: date time cs-method c-ip cs-uri-stem sc-status";
        assert_eq!(
            columns.line(head, &mut ParsedLine::default()),
            Err(LineError::NoRequest(SkippedKind::Comment))
        );
        let mut into = ParsedLine::default();
        columns
            .line(b"2019-12-04\t21:02:31\tPOST\t192.0.2.1\t/a\t204", &mut into)
            .unwrap();
        assert_eq!(
            (into.method.raw(), into.target.raw(), into.status),
            (&b"POST"[..], &b"/a"[..], 204)
        );
        assert!(matches!(
            columns.line(b"x", &mut ParsedLine::default()),
            Err(LineError::Malformed(_))
        ));
    }
}
