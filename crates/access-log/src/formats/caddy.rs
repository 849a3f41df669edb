//! Parses Caddy's lines of JSON, which have the logger `http.log.access` or one below it.
//!
//! One log may have the lines of all loggers. A request that failed has a line of `http.log.error` beside that of `http.log.access`, and
//! with debugging each attempt at an origin has one too, with the same members. So only lines of the access logger, and lines without a
//! logger, which an encoder may remove, are requests.
//!
//! `client_ip` is the client behind trusted proxies, `remote_ip` the peer. `ts` is the time of the end, `duration` in seconds; with another
//! `time_format` or `duration_format` of Caddy's encoder both are read as the texts that it writes.

use crate::address::address;
use crate::json::{self, JsonValue};
use crate::line::{FieldKind, LineError, ParsedLine};
use crate::skipped::SkippedKind;
use crate::text::RawText;
use crate::time;

/// Parses a line.
pub(crate) fn parse<'a>(line: &'a [u8], into: &mut ParsedLine<'a>) -> Result<(), LineError> {
    let mut request = None;
    let mut logger = None;
    json::members(line, |name, value| {
        match name.raw() {
            b"ts" => {
                into.time = time::seconds(value.raw())
                    .or_else(|| time::rfc3339(value.raw()))
                    .unwrap_or(0)
            }
            b"request" => request = Some(value),
            b"logger" => logger = value.text(),
            b"duration" => into.duration = duration(value.raw()),
            b"size" => into.bytes = time::number(value.raw()),
            b"status" => {
                let status =
                    time::number(value.raw()).and_then(|status| u16::try_from(status).ok());
                into.status = status.unwrap_or(0);
            }
            _ => {}
        }
        Ok(())
    })?;
    if let Some(kind) = logger.and_then(skipped) {
        return Err(LineError::NoRequest(kind));
    }
    match request {
        Some(JsonValue::Nested(request)) => {
            json::members(request, |name, value| member(name, value, into))?
        }
        _ if into.time > 0 => return Err(LineError::NoRequest(SkippedKind::Message)),
        _ => return Err(LineError::Malformed("there is no \"request\"")),
    }
    into.count_time_from_end();
    Ok(())
}

/// Returns the kind of the lines of a logger; `None` of the access logger, whose lines are requests.
fn skipped(logger: RawText<'_>) -> Option<SkippedKind> {
    let is_below = |parent: &[u8]| {
        let behind = logger.raw().strip_prefix(parent);
        behind.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
    };
    if is_below(b"http.log.access") {
        None
    } else if is_below(b"http.log.error") {
        Some(SkippedKind::RequestError)
    } else {
        Some(SkippedKind::Message)
    }
}

fn member<'a>(
    name: RawText<'a>,
    value: JsonValue<'a>,
    into: &mut ParsedLine<'a>,
) -> Result<(), LineError> {
    match name.raw() {
        b"client_ip" => into.client = address(value.raw()),
        b"remote_ip" => into.peer = address(value.raw()),
        b"method" => into.method = value.text().unwrap_or_default(),
        b"host" => into.host = value.text().unwrap_or_default(),
        b"uri" => into.target = value.text().unwrap_or_default(),
        b"headers" => {
            if let JsonValue::Nested(headers) = value {
                json::members(headers, |name, value| {
                    if let Some(value) = value
                        .first_text()
                        .filter(|value| value.raw() != b"REDACTED")
                    {
                        into.add(FieldKind::RequestField, name, value);
                    }
                    Ok(())
                })?;
            }
        }
        _ => {}
    }
    // Before version 2.7 there was no `client_ip`.
    into.client = into.client.or(into.peer);
    Ok(())
}

/// Parses `0.000929675` or, with `duration_format string`, `929.675µs`.
fn duration(text: &[u8]) -> Option<u64> {
    if let Some(nanos) = time::seconds(text) {
        return Some(nanos);
    }
    let text = std::str::from_utf8(text).ok()?;
    let units = [
        ("ns", 1_000_000_000),
        ("µs", 1_000_000),
        ("ms", 1_000),
        ("s", 1),
    ];
    let (number, parts) = units
        .iter()
        .find_map(|(unit, parts)| Some((text.strip_suffix(unit)?, *parts)))?;
    time::seconds(number.as_bytes()).map(|nanos| nanos / parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field_selection::FieldSelection;
    use crate::line::MAX_FIELDS;

    /// Goal: a client cannot push a field out of its line, or put another in its place. Method: a hundred made-up fields, and one that
    /// nginx would spell alike, before the field that is kept; and more fields than are kept where all are.
    #[test]
    fn made_up_fields_do_not_hide_a_wanted_one() {
        let padding: String = (0..100)
            .map(|field| format!("\"X-Pad-{field}\":[\"1\"],"))
            .collect();
        let line = format!(
            "{{\"ts\":1646861401.5,\"request\":{{\"client_ip\":\"127.0.0.1\",\"headers\":{{{padding}\"X_Api_Key\":[\"b\"],\
             \"X-Api-Key\":[\"a\"]}}}}}}"
        );
        let selection = FieldSelection::new(["x-api-key"]);
        let mut into = ParsedLine::with_fields(&selection);
        parse(line.as_bytes(), &mut into).unwrap();
        let fields: Vec<_> = (into.fields.iter())
            .map(|field| (field.name.raw(), field.value.raw()))
            .collect();
        assert_eq!(fields, [(&b"X-Api-Key"[..], &b"a"[..])]);
        assert_eq!(into.cut_fields, 0);
        let mut into = ParsedLine::default();
        parse(line.as_bytes(), &mut into).unwrap();
        assert_eq!(
            (into.fields.len(), into.cut_fields),
            (MAX_FIELDS, 102 - MAX_FIELDS as u64)
        );
    }

    /// Goal: the line of Caddy's documentation is read. Method: that line (caddyserver.com/docs/logging), shortened in its headers.
    #[test]
    fn the_line_of_caddys_documentation_is_read() {
        let line = include_bytes!("samples/caddy.log").trim_ascii_end();
        let mut into = ParsedLine::default();
        parse(line, &mut into).unwrap();
        assert_eq!(into.time, 1_646_861_401_524_102_400 - 929_675);
        assert_eq!(into.client, Some("127.0.0.1".parse().unwrap()));
        assert_eq!(
            (into.method.raw(), into.host.raw(), into.target.raw()),
            (&b"GET"[..], &b"localhost"[..], &b"/"[..])
        );
        assert_eq!(
            (into.status, into.bytes, into.duration),
            (200, Some(10_900), Some(929_675))
        );
        let agent = into
            .fields
            .iter()
            .find(|field| field.name.raw() == b"User-Agent");
        assert_eq!(
            agent.map(|field| field.value.raw()),
            Some(&b"curl/7.82.0"[..])
        );
    }

    /// Goal: a request that failed is one request, and lines of other loggers are none. Method: one request with the lines of each logger
    /// that has its members, of which the access logger may have a name below it, or none.
    #[test]
    fn only_lines_of_the_access_logger_are_requests() {
        let line = |logger: &str| {
            format!(
                "{{\"ts\":1646861401.5,{logger}\"request\":{{\"client_ip\":\"192.0.2.1\",\"method\":\"GET\",\"uri\":\"/\"}},\
                 \"duration\":0.1,\"status\":502}}"
            )
        };
        let skipped = |kind| Err(LineError::NoRequest(kind));
        for (logger, result) in [
            ("", Ok(())),
            ("\"logger\":\"http.log.access\",", Ok(())),
            ("\"logger\":\"http.log.access.shop\",", Ok(())),
            (
                "\"logger\":\"http.log.error\",",
                skipped(SkippedKind::RequestError),
            ),
            (
                "\"logger\":\"http.log.error.shop\",",
                skipped(SkippedKind::RequestError),
            ),
            (
                "\"logger\":\"http.handlers.reverse_proxy\",",
                skipped(SkippedKind::Message),
            ),
            (
                "\"logger\":\"http.log.accessory\",",
                skipped(SkippedKind::Message),
            ),
        ] {
            let text = line(logger);
            let found = parse(text.as_bytes(), &mut ParsedLine::default());
            assert_eq!(found, result, "{logger}");
        }
    }

    /// Goal: messages between the requests are no broken lines. Method: one of Caddy's own.
    #[test]
    fn messages_are_no_requests() {
        let line = br#"{"level":"info","ts":1646861401.52,"msg":"serving initial configuration"}"#;
        assert_eq!(
            parse(line, &mut ParsedLine::default()),
            Err(LineError::NoRequest(SkippedKind::Message))
        );
        assert!(matches!(
            parse(b"{}", &mut ParsedLine::default()),
            Err(LineError::Malformed(_))
        ));
        assert_eq!(duration("929.675µs".as_bytes()), Some(929_675));
        assert_eq!(duration(b"1.5s"), Some(1_500_000_000));
    }
}
