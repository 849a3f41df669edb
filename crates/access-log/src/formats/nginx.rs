//! Parses lines that nginx writes by a `log_format` of the operator's: as text by the format itself, or as JSON whose members have the
//! names of nginx's variables.
//!
//! A value ends where the text behind its variable begins; nginx escapes quotes in values, by `\x22` or as JSON does. nginx writes a line
//! when the request ends: its begin is earlier by `$request_time`, where the line has that.

use super::nginx_directive::format_text;
use crate::field_selection::FieldSpelling;
use crate::json;
use crate::line::{LineError, ParsedLine};
use crate::template::{LogTemplate, TemplateBuilder, TemplateNotation};
use crate::values::{DurationUnit, LineValues, RequestEdge, ValueMeaning};

/// Compiles a format: the text with its variables, or a part of a configuration with the directive,
/// `log_format name escape=json '{…' '…}';`.
///
/// # Errors
/// The reason why no request can be read by it, and what to write instead.
pub(crate) fn template(written: &str) -> Result<LogTemplate, String> {
    let format = format_text(written)?;
    let mut builder = TemplateBuilder::new();
    let mut rest = &*format.text;
    while let Some((literal, behind)) = rest.split_once('$') {
        builder.text(literal.as_bytes());
        let (name, behind) = variable(behind);
        if name.is_empty() {
            return Err("a `$` in the format has no name behind it; write $remote_addr".to_owned());
        }
        let meaning = meaning(name.as_bytes());
        builder.value(name.as_bytes(), meaning, &format!("${name}"))?;
        rest = behind;
    }
    builder.text(rest.as_bytes());
    builder.finish(TemplateNotation::Nginx, format.escapes)
}

/// Returns the name of a variable, written bare or in braces, and what follows it.
fn variable(text: &str) -> (&str, &str) {
    if let Some((name, rest)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) {
        return (name, rest);
    }
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !in_name(c)).unwrap_or(text.len());
    text.split_at(end)
}

/// Parses a line of JSON whose members have the names of variables.
pub(crate) fn json<'a>(line: &'a [u8], into: &mut ParsedLine<'a>) -> Result<(), LineError> {
    into.spelling = FieldSpelling::Variable;
    let mut values = LineValues::new(into);
    json::members(line, |name, value| {
        let name = name.raw();
        values.set(meaning(name), name, value.text().unwrap_or_default())
    })?;
    if !values.names_target() {
        return Err(LineError::Malformed(
            "there is no \"request\" and no \"request_uri\"",
        ));
    }
    values.finish();
    Ok(())
}

/// Returns the meaning of a variable. nginx writes a line when the request ends.
fn meaning(variable: &[u8]) -> ValueMeaning {
    match variable {
        b"remote_addr" => ValueMeaning::Client,
        b"realip_remote_addr" => ValueMeaning::Peer,
        b"msec" | b"time_local" | b"time_iso8601" => ValueMeaning::Time(RequestEdge::End),
        b"request" => ValueMeaning::RequestLine,
        b"request_method" => ValueMeaning::Method,
        b"request_uri" => ValueMeaning::Target,
        b"uri" | b"document_uri" => ValueMeaning::Path,
        b"args" | b"query_string" | b"is_args" => ValueMeaning::Query,
        b"status" => ValueMeaning::Status,
        b"body_bytes_sent" | b"bytes_sent" => ValueMeaning::Bytes,
        b"request_time" => ValueMeaning::Duration(DurationUnit::Seconds),
        b"upstream_header_time" => ValueMeaning::FirstByte(DurationUnit::Seconds),
        b"http_host" | b"host" => ValueMeaning::Host,
        b"request_id" => ValueMeaning::Id,
        b"upstream_cache_status" => ValueMeaning::CacheResult,
        name if name.starts_with(REQUEST_FIELD) => ValueMeaning::FieldBehind(REQUEST_FIELD.len()),
        _ => ValueMeaning::Other,
    }
}

/// Begins the names of variables with the values of request fields.
const REQUEST_FIELD: &[u8] = b"http_";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value;

    const FORMAT: &str = r#"log_format main escape=json '{"time":"$time_iso8601","client":"$remote_addr",'
        '"request":"$request","status":$status,"bytes":$body_bytes_sent,"took":$request_time,'
        '"host":"$host","agent":"$http_user_agent","key":"$http_x_api_key"}';"#;

    /// Goal: a directive out of nginx.conf reads the lines that nginx writes by it. Method: a JSON format, with a value that has quotes.
    #[test]
    fn a_directive_reads_its_lines() {
        let template = super::template(FORMAT).unwrap();
        let line = include_bytes!("samples/nginx-json.log").trim_ascii_end();
        let mut into = ParsedLine::default();
        template.line(line, &mut into).unwrap();
        assert_eq!(into.time, 1_795_245_037_500_000_000);
        assert_eq!(into.client, Some("203.0.113.7".parse().unwrap()));
        assert_eq!(
            (value(into.target), value(into.host)),
            ("/a\"b".to_owned(), "a.test".to_owned())
        );
        assert_eq!((into.status, into.duration), (200, Some(500_000_000)));
        let fields: Vec<_> = into
            .fields
            .iter()
            .map(|field| (value(field.name), value(field.value)))
            .collect();
        assert_eq!(fields, [("user_agent".to_owned(), "x\\".to_owned())]);
    }

    /// Goal: formats of text are read too. Method: nginx's own combined format with the time of the request behind it.
    #[test]
    fn a_format_of_text_reads_its_lines() {
        let written = include_str!("samples/nginx-log-format.txt").trim_end();
        let template = super::template(written).unwrap();
        let line = br#"192.0.2.1 - - [21/Nov/2026:07:10:38 +0000] "GET /\x22 HTTP/1.1" 200 7 "-" "curl/8" rt=1.000"#;
        let mut into = ParsedLine::default();
        template.line(line, &mut into).unwrap();
        assert_eq!(into.time, 1_795_245_037_000_000_000);
        assert_eq!(value(into.target), "/\"");
        assert_eq!(into.fields.len(), 1);
        assert!(template.line(b"other", &mut ParsedLine::default()).is_err());
    }

    /// Goal: a query that a line has twice is in the target once. Method: formats with the parts of a target, and with both.
    #[test]
    fn a_query_is_not_added_twice() {
        for (format, line) in [
            (
                "$remote_addr $msec $uri $args",
                "192.0.2.1 1795245038.5 /a b=c",
            ),
            (
                "$remote_addr $msec $uri $request_uri",
                "192.0.2.1 1795245038.5 /x /a?b=c",
            ),
            (
                "$remote_addr $msec \"$request\" $args",
                "192.0.2.1 1795245038.5 \"GET /a?b=c HTTP/1.1\" b=c",
            ),
        ] {
            let template = super::template(format).unwrap();
            let mut into = ParsedLine::default();
            template.line(line.as_bytes(), &mut into).unwrap();
            let parts = [value(into.target), value(into.query)];
            let whole = parts.iter().filter(|part| !part.is_empty());
            let whole = whole.map(String::as_str).collect::<Vec<_>>().join("?");
            assert_eq!(whole, "/a?b=c", "{format}");
        }
    }

    /// Goal: a path needs nothing before it, and its parts are one. Method: the address of a request as operators write it.
    #[test]
    fn parts_of_an_address_need_nothing_between_them() {
        let line = br#"192.0.2.1 1795245038.5 GET https://a.test:8443/a/b?c=d"#;
        for address in [
            "$scheme://$host:$server_port$request_uri",
            "$scheme://$host:$server_port$uri$is_args$args",
        ] {
            let template =
                super::template(&format!("$remote_addr $msec $request_method {address}"));
            let template = template.unwrap();
            let mut into = ParsedLine::default();
            template.line(line, &mut into).unwrap();
            assert_eq!(value(into.method), "GET");
            assert_eq!(
                (value(into.host), value(into.target)),
                ("a.test".to_owned(), "/a/b?c=d".to_owned())
            );
        }
    }

    /// Goal: values without escapes have none undone. Method: a backslash before the end of a value, by the option `none` and by default.
    #[test]
    fn values_without_escapes_are_as_they_stand() {
        let line = br#"192.0.2.1|1795245038.5|GET /a\|x|"#;
        for (option, target) in [("escape=none ", "/a\\"), ("", r"/a\|x")] {
            let written = format!("log_format a {option}'$remote_addr|$msec|$request|';");
            let template = super::template(&written).unwrap();
            let mut into = ParsedLine::default();
            let read = template.line(line, &mut into);
            assert_eq!(
                (read.is_ok(), value(into.target)),
                (true, target.to_owned())
            );
        }
    }

    /// Goal: members with the names of variables need no template. Method: one line.
    #[test]
    fn members_with_the_names_of_variables_are_read() {
        let line = include_bytes!("samples/nginx-variables.log").trim_ascii_end();
        let mut into = ParsedLine::default();
        json(line, &mut into).unwrap();
        assert_eq!((into.time, into.status), (1_795_245_038_000_000_000, 404));
        assert_eq!(value(into.target), "/a?b");
    }

    /// Goal: a format that cannot be used says why. Method: one without a client, without a time or a path, with two
    /// variables in a row.
    #[test]
    fn a_useless_format_is_refused() {
        for (written, part) in [
            ("$time_local", "$remote_addr"),
            ("$remote_addr", "$time_local"),
            ("$remote_addr$time_local", "nothing separates"),
            ("$remote_addr $", "has no name"),
            ("$remote_addr $time_local $status", "no $request"),
        ] {
            let error = template(written).unwrap_err();
            assert!(error.contains(part), "{written}: {error}");
        }
    }
}
