//! Parses logs in the W3C extended format, whose columns the line `#Fields:` names: the standard logs of CloudFront, and those of IIS.
//!
//! The time is that of the end, in UTC and whole seconds; `time-taken` is the duration. CloudFront separates columns by tabs and has
//! percent encoding where they have spaces or quotes; they are read as they stand. IIS separates them by spaces, and has a plus for each
//! space of a request field. Its Advanced Logging and other servers have quotes around values with spaces, and local times, which are read
//! as those of UTC.

use crate::line::{LineError, LoggedTreatment, ParsedLine};
use crate::skipped::SkippedKind;
use crate::text::{EscapeSyntax, RawText};
use crate::time;
use crate::values::{DurationUnit, LineValues, RequestEdge, ValueMeaning};

/// Most columns that are read.
const MAX_COLUMNS: usize = 64;

/// The server that writes a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum W3cServer {
    CloudFront,
    Iis,
}

/// The order of the columns, as the latest `#Fields:` of a log said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnOrder {
    server: W3cServer,
    columns: Vec<LogColumn>,
    /// The date of the latest `#Date:`, for lines without one.
    date: [u8; 10],
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LogColumn {
    /// The name of a request field, where it is one.
    name: Box<[u8]>,
    content: ColumnContent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnContent {
    Date,
    TimeOfDay,
    /// `cs(Host)` of CloudFront, which is the name of the distribution.
    DistributionName,
    ResultType,
    Value(ValueMeaning),
}

impl ColumnOrder {
    /// Returns the order of CloudFront's standard logs, for files whose head was cut off.
    pub(crate) fn cloud_front() -> Self {
        Self::new(
            W3cServer::CloudFront,
            "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) \
             cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken \
             x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status \
             fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len \
             sc-range-start sc-range-end",
        )
    }

    /// Returns the order that IIS has by default, for files whose head was cut off.
    pub(crate) fn iis() -> Self {
        Self::new(
            W3cServer::Iis,
            "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status \
             sc-substatus sc-win32-status time-taken",
        )
    }

    fn new(server: W3cServer, names: &str) -> Self {
        Self {
            server,
            columns: server.columns(names),
            date: [0; 10],
        }
    }

    /// Returns the name of the format.
    pub(crate) const fn name(&self) -> &'static str {
        match self.server {
            W3cServer::CloudFront => "cloudfront",
            W3cServer::Iis => "iis",
        }
    }

    /// Parses a line; one that begins with `#Fields:` sets the order of the columns.
    pub(crate) fn line<'a>(
        &'a mut self,
        line: &'a [u8],
        into: &mut ParsedLine<'a>,
    ) -> Result<(), LineError> {
        if let Some(comment) = line.strip_prefix(b"#") {
            self.set(comment);
            return Err(LineError::NoRequest(SkippedKind::Comment));
        }
        let mut date = &self.date[..];
        let mut distribution = RawText::default();
        let mut treatment = LoggedTreatment::Answered;
        let mut values = LineValues::new(into);
        let mut rest = line;
        let words = std::iter::from_fn(|| self.server.take_word(&mut rest));
        for (column, word) in self.columns.iter().zip(words) {
            let text = RawText::plain(word);
            match column.content {
                ColumnContent::Date => date = word,
                ColumnContent::TimeOfDay => {
                    let time = time::date_and_time(date, word);
                    values.set_time(RequestEdge::End, time.unwrap_or(0));
                }
                ColumnContent::DistributionName => distribution = text,
                ColumnContent::ResultType
                    if matches!(word, b"Hit" | b"RefreshHit" | b"OriginShieldHit") =>
                {
                    treatment = LoggedTreatment::Cached;
                }
                ColumnContent::ResultType => {}
                ColumnContent::Value(
                    meaning @ (ValueMeaning::Field(_) | ValueMeaning::FieldBehind(_)),
                ) => {
                    let text = RawText::new(word, self.server.escapes());
                    values.set(meaning, &column.name, text)?;
                }
                ColumnContent::Value(meaning) => values.set(meaning, &column.name, text)?,
            }
        }
        // What clients asked for is in another column.
        values.set(ValueMeaning::Host, b"", distribution)?;
        values.finish();
        into.treatment = treatment;
        if into.method.is_empty() && into.target.is_empty() {
            return Err(LineError::Malformed(
                "the line does not have the columns of `#Fields:`",
            ));
        }
        Ok(())
    }

    /// Takes a directive.
    fn set(&mut self, directive: &[u8]) {
        let Ok(text) = std::str::from_utf8(directive) else {
            return;
        };
        if let Some(names) = text.strip_prefix("Fields:") {
            self.columns = self.server.columns(names);
        }
        let text = text.strip_prefix("Start-").unwrap_or(text);
        let date = text.strip_prefix("Date:").map(str::trim_start);
        if let Some(date) = date.and_then(|date| date.as_bytes().first_chunk()) {
            self.date = *date;
        }
    }
}

impl W3cServer {
    /// Takes the next value off a line: up to a tab, or up to a blank; other blanks may follow, and quotes may be around it.
    fn take_word<'a>(self, rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        if self == Self::Iis {
            *rest = rest.trim_ascii_start();
        }
        if rest.is_empty() {
            return None;
        }
        if self == Self::Iis
            && let Some(word) = quoted(rest)
        {
            *rest = rest.get(word.len() + 2..)?;
            return Some(word);
        }
        let end = match self {
            Self::CloudFront => memchr::memchr(b'\t', rest),
            Self::Iis => memchr::memchr2(b' ', b'\t', rest),
        };
        let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
        *rest = behind.get(1..).unwrap_or_default();
        Some(word)
    }

    /// Returns the escapes of request fields. A plus in a path may be one that the client sent.
    const fn escapes(self) -> EscapeSyntax {
        match self {
            Self::CloudFront => EscapeSyntax::None,
            Self::Iis => EscapeSyntax::Plus,
        }
    }

    fn columns(self, names: &str) -> Vec<LogColumn> {
        let names = names.split_ascii_whitespace().take(MAX_COLUMNS);
        let column = |name| LogColumn {
            name: field_name(name).unwrap_or(name).as_bytes().into(),
            content: self.content(name),
        };
        names.map(column).collect()
    }

    /// Returns the content of the column with this name.
    fn content(self, name: &str) -> ColumnContent {
        let meaning = match (self, name) {
            (_, "date" | "date-local") => return ColumnContent::Date,
            (_, "time" | "time-local") => return ColumnContent::TimeOfDay,
            (Self::CloudFront, "cs(Host)") => return ColumnContent::DistributionName,
            (_, "x-edge-result-type") => return ColumnContent::ResultType,
            (_, "c-ip") => ValueMeaning::Client,
            (_, "cs-method") => ValueMeaning::Method,
            (_, "x-host-header" | "cs-host" | "cs(Host)") => ValueMeaning::Host,
            (_, "cs-uri-stem") => ValueMeaning::Path,
            (_, "cs-uri") => ValueMeaning::Target,
            (_, "cs-uri-query") => ValueMeaning::Query,
            (_, "sc-status") => ValueMeaning::Status,
            (_, "sc-bytes" | "bytes") => ValueMeaning::Bytes,
            (_, "x-edge-request-id") => ValueMeaning::Id,
            (_, "cs(Referer)") => ValueMeaning::Field(b"referer"),
            (_, "cs(User-Agent)") => ValueMeaning::Field(b"user-agent"),
            (Self::CloudFront, "x-forwarded-for") => ValueMeaning::FieldBehind(0),
            (Self::CloudFront, "time-taken") => ValueMeaning::Duration(DurationUnit::Seconds),
            (Self::CloudFront, "time-to-first-byte") => {
                ValueMeaning::FirstByte(DurationUnit::Seconds)
            }
            (Self::Iis, "time-taken" | "TimeTakenMS") => {
                ValueMeaning::Duration(DurationUnit::Millis)
            }
            (Self::Iis, name) if field_name(name).is_some() || !is_standard(name) => {
                ValueMeaning::FieldBehind(0)
            }
            _ => ValueMeaning::Other,
        };
        ColumnContent::Value(meaning)
    }
}

/// Returns the text that begins with a quote, up to the one before a blank or the end; two quotes are one that belongs to the text.
fn quoted(text: &[u8]) -> Option<&[u8]> {
    let inside = text.strip_prefix(b"\"")?;
    let mut from = 0;
    loop {
        let at = from + memchr::memchr(b'"', inside.get(from..)?)?;
        match inside.get(at + 1) {
            None | Some(b' ' | b'\t') => return inside.get(..at),
            Some(b'"') => from = at + 2,
            Some(_) => from = at + 1,
        }
    }
}

/// Returns the request field of a column like `cs(Cookie)`.
fn field_name(column: &str) -> Option<&str> {
    column.strip_prefix("cs(")?.strip_suffix(')')
}

/// Returns whether a name is one that the format defines. IIS names columns that an operator adds as the operator does: by the request
/// field.
fn is_standard(name: &str) -> bool {
    let prefixes = ["c-", "s-", "cs-", "sc-", "sr-", "rs-", "cs(", "sc("];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the lines of AWS' documentation are read. Method: those lines ("Standard log file format", CloudFront's developer guide).
    #[test]
    fn the_lines_of_cloudfronts_documentation_are_read() {
        let line = include_bytes!("samples/cloudfront.log").trim_ascii_end();
        let mut columns = ColumnOrder::cloud_front();
        assert_eq!(
            columns.line(b"#Version: 1.0", &mut ParsedLine::default()),
            Err(LineError::NoRequest(SkippedKind::Comment))
        );
        let mut into = ParsedLine::default();
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
        let mut columns = ColumnOrder::cloud_front();
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
        drop(into);
        assert!(matches!(
            columns.line(b"x", &mut ParsedLine::default()),
            Err(LineError::Malformed(_))
        ));
    }

    /// Goal: values in quotes and columns apart by several blanks are read. Method: the forms of IIS Advanced Logging, of cookies with
    /// spaces, and of caches with full URLs.
    #[test]
    fn quotes_and_blanks_may_be_around_values() {
        for (head, line, target, host) in [
            (
                "#Fields:   date-local time-local   s-ip   cs-method cs-uri-stem c-ip cs(User-Agent) cs(Host) sc-status TimeTakenMS",
                "2026-11-21 07:10:38.042 192.0.2.1 GET /a - \"a \"\"b\"\" c\" \"a.test\" 404 42",
                "/a",
                "a.test",
            ),
            (
                "#Fields: date time c-ip cs-method cs-uri-stem cs(Cookie) cs-host sc-status",
                "2026-11-21 07:10:38 192.0.2.9 GET /a \"a=b; c=d\" a.test 404",
                "/a",
                "a.test",
            ),
            (
                "#Fields:  c-ip  c-dns  date  time  cs-method  cs-uri  sc-status  bytes",
                "192.0.2.9\t a   2026-11-21   07:10:38  GET  https://a.test/a?b=c  404   350",
                "/a?b=c",
                "a.test",
            ),
        ] {
            let mut columns = ColumnOrder::iis();
            assert!(
                columns
                    .line(head.as_bytes(), &mut ParsedLine::default())
                    .is_err()
            );
            let mut into = ParsedLine::default();
            columns.line(line.as_bytes(), &mut into).unwrap();
            into.split_absolute_target();
            assert_eq!(into.time, 1_795_245_038_000_000_000, "{line}");
            assert_eq!(
                (into.target.raw(), into.host.raw()),
                (target.as_bytes(), host.as_bytes())
            );
            assert_eq!(into.status, 404, "{line}");
        }
    }

    /// Goal: the lines of IIS are read. Method: a head and a line in the form of Microsoft's documentation, with custom fields; another
    /// order without a date; a line without a head.
    #[test]
    fn lines_of_iis_are_read() {
        let mut columns = ColumnOrder::iis();
        let mut lines = include_str!("samples/iis.log").lines();
        for directive in lines.by_ref().take(4) {
            let read = columns.line(directive.as_bytes(), &mut ParsedLine::default());
            assert_eq!(read, Err(LineError::NoRequest(SkippedKind::Comment)));
        }
        let mut into = ParsedLine::default();
        columns
            .line(lines.next().unwrap().as_bytes(), &mut into)
            .unwrap();
        assert_eq!(
            (into.time, into.duration),
            (1_795_245_038_000_000_000 - 78_000_000, Some(78_000_000))
        );
        assert_eq!(into.client, Some("203.0.113.7".parse().unwrap()));
        assert_eq!(
            (into.target.raw(), into.query.raw(), into.host.raw()),
            (&b"/a.aspx"[..], &b"b=c"[..], &b"shop.test"[..])
        );
        let fields = into.fields.iter().map(|field| {
            let mut value = Vec::new();
            field.value.append_to(&mut value);
            (
                String::from_utf8_lossy(field.name.raw()).into_owned(),
                String::from_utf8(value).unwrap(),
            )
        });
        let fields: Vec<_> = fields.collect();
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            fields,
            [
                field("user-agent", "Mozilla/5.0 (Windows NT 10.0)"),
                field("Cookie", "sid=1; theme=dark"),
                field("X-Forwarded-For", "198.51.100.9, 192.0.2.9"),
            ]
        );
        drop(into);
        let head = b"#Fields: time c-ip cs-method cs-uri-stem cs-uri-query sc-status";
        assert!(columns.line(head, &mut ParsedLine::default()).is_err());
        let mut into = ParsedLine::default();
        columns
            .line(b"07:10:39 ::1 GET /a - 200", &mut into)
            .unwrap();
        assert_eq!(into.time, 1_795_245_039_000_000_000);
        let mut columns = ColumnOrder::iis();
        let line = b"2026-11-21 07:10:38 10.0.0.5 GET /a - 443 - 203.0.113.7 curl/8 - 200 0 0 15";
        columns.line(line, &mut ParsedLine::default()).unwrap();
    }
}
