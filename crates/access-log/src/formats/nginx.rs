//! Parses lines that nginx writes by a `log_format` of the operator's: as text by the format itself, or as JSON whose members have the
//! names of nginx's variables.
//!
//! A value ends where the text behind its variable begins; nginx escapes quotes in values, by `\x22` or as JSON does. nginx writes a line
//! when the request ends: its begin is earlier by `$request_time`, where the line has that.

use crate::address::address;
use crate::field_selection::FieldSpelling;
use crate::json::{self, JsonValue};
use crate::line::{FieldKind, LineError, LoggedTreatment, ParsedLine};
use crate::text::{EscapeSyntax, RawText};
use crate::time;

/// A compiled `log_format`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTemplate {
    /// The variables, each with the text before it.
    parts: Vec<TemplatePart>,
    /// The text behind the last variable.
    end: Box<[u8]>,
    escapes: EscapeSyntax,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TemplatePart {
    before: Box<[u8]>,
    variable: Box<[u8]>,
}

impl LogTemplate {
    /// Compiles a format: the text with its variables, or the whole directive, `log_format name escape=json '{…' '…}';`.
    ///
    /// # Errors
    /// The reason why no request can be read by it, and what to write instead.
    pub fn parse(written: &str) -> Result<Self, String> {
        let (text, is_json) = format_text(written);
        let escapes = match is_json || text.starts_with('{') {
            true => EscapeSyntax::Json,
            false => EscapeSyntax::Backslash,
        };
        let mut parts = Vec::new();
        let mut before = String::new();
        let mut rest = &*text;
        while let Some((literal, behind)) = rest.split_once('$') {
            before.push_str(literal);
            let (name, behind) = variable(behind);
            if name.is_empty() {
                return Err(
                    "a `$` in the format has no name behind it; write $remote_addr".to_owned(),
                );
            }
            if !parts.is_empty() && before.is_empty() {
                return Err(format!(
                    "nothing separates ${name} from the variable before it; write a space or a quote between them"
                ));
            }
            parts.push(TemplatePart {
                before: std::mem::take(&mut before).into_bytes().into(),
                variable: name.as_bytes().into(),
            });
            rest = behind;
        }
        let has = |names: &[&str]| {
            parts
                .iter()
                .any(|part| names.iter().any(|name| name.as_bytes() == &*part.variable))
        };
        if !has(&["remote_addr", "realip_remote_addr"]) {
            return Err(
                "the format has no $remote_addr, so no client can be told from another".to_owned(),
            );
        }
        if !has(&["time_local", "time_iso8601", "msec"]) {
            return Err(
                "the format has no time; it needs $time_local, $time_iso8601 or $msec".to_owned(),
            );
        }
        Ok(Self {
            parts,
            end: rest.as_bytes().into(),
            escapes,
        })
    }

    /// Returns the request fields that lines have, as nginx's variables name them: in lower case, with underscores.
    pub(crate) fn request_fields(&self) -> impl Iterator<Item = &[u8]> {
        let variables = self.parts.iter().map(|part| &*part.variable);
        variables
            .filter_map(request_field)
            .filter(|name| *name != b"host")
    }

    /// Parses a line.
    pub(crate) fn line<'a>(
        &'a self,
        line: &'a [u8],
        into: &mut ParsedLine<'a>,
    ) -> Result<(), LineError> {
        const OTHER: LineError =
            LineError::Malformed("the line does not have the text of the format");
        let first = self.parts.first().map_or(&*self.end, |part| &*part.before);
        let mut rest = line.strip_prefix(first).ok_or(OTHER)?;
        for (index, part) in self.parts.iter().enumerate() {
            let behind = self
                .parts
                .get(index + 1)
                .map_or(&*self.end, |next| &*next.before);
            let length = value_length(rest, behind).ok_or(OTHER)?;
            let (value, more) = rest.split_at(length);
            rest = more.get(behind.len()..).unwrap_or_default();
            let escapes = match memchr::memchr(b'\\', value) {
                Some(_) => self.escapes,
                None => EscapeSyntax::None,
            };
            set(into, &part.variable, RawText::new(value, escapes))?;
        }
        into.count_time_from_end();
        Ok(())
    }
}

/// Returns the text of a format out of the directive that declares it, and whether it is declared as JSON.
fn format_text(written: &str) -> (String, bool) {
    let written = written.trim();
    let Some(directive) = written.strip_prefix("log_format") else {
        return (written.to_owned(), false);
    };
    let is_json = directive
        .split('\'')
        .next()
        .is_some_and(|begin| begin.contains("escape=json"));
    // The text is everything between quotes; nginx joins the parts.
    let quoted = directive.split('\'').skip(1).step_by(2);
    (quoted.collect(), is_json)
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

/// Returns the name of the request field whose value a variable has.
fn request_field(variable: &[u8]) -> Option<&[u8]> {
    variable.strip_prefix(b"http_")
}

/// Returns the length of a value that ends before `behind`, or with the line where that is empty.
fn value_length(rest: &[u8], behind: &[u8]) -> Option<usize> {
    let Some(first) = behind.first() else {
        return Some(rest.len());
    };
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(*first, b'\\', rest.get(from..)?)?;
        if rest.get(at..)?.starts_with(behind) {
            return Some(at);
        }
        from = at + if rest.get(at) == Some(&b'\\') { 2 } else { 1 };
    }
}

/// Parses a line of JSON whose members have the names of variables.
pub(crate) fn json<'a>(line: &'a [u8], into: &mut ParsedLine<'a>) -> Result<(), LineError> {
    json::members(line, |name, value| match value {
        JsonValue::Text(text) => set(into, name.raw(), text),
        JsonValue::Number(digits) => set(into, name.raw(), RawText::plain(digits)),
        JsonValue::Nested(_) | JsonValue::Literal(_) => Ok(()),
    })?;
    into.count_time_from_end();
    Ok(())
}

/// Takes the value of a variable.
fn set<'a>(
    into: &mut ParsedLine<'a>,
    variable: &'a [u8],
    value: RawText<'a>,
) -> Result<(), LineError> {
    let raw = value.raw();
    if matches!(raw, b"-" | b"") {
        return Ok(());
    }
    let time = |time: Option<u64>| time.ok_or(LineError::Malformed("the time is malformed"));
    match variable {
        b"remote_addr" => {
            let client = address(raw);
            into.client =
                Some(client.ok_or(LineError::Malformed("$remote_addr is not an address"))?);
        }
        b"realip_remote_addr" => into.peer = address(raw),
        b"msec" => into.time = time(time::seconds(raw))?,
        b"time_local" if into.time == 0 => into.time = time(time::clf(raw))?,
        b"time_iso8601" if into.time == 0 => into.time = time(time::rfc3339(raw))?,
        b"request" => into.set_request_line(value),
        b"request_method" => into.method = value,
        b"request_uri" => into.target = value,
        b"uri" | b"document_uri" if into.target.is_empty() => into.target = value,
        b"args" | b"query_string" => into.query = value,
        b"status" => {
            let status = time::number(raw).and_then(|status| u16::try_from(status).ok());
            into.status = status.ok_or(LineError::Malformed("$status is not a number"))?;
        }
        b"body_bytes_sent" | b"bytes_sent" => into.bytes = time::number(raw),
        b"request_time" => into.duration = time::seconds(raw),
        b"upstream_header_time" => into.first_byte = time::seconds(raw),
        b"http_host" | b"host" if into.host.is_empty() => into.host = value,
        b"request_id" => into.id = value,
        b"upstream_cache_status" if raw == b"HIT" => into.treatment = LoggedTreatment::Cached,
        _ => {
            if let Some(name) = request_field(variable) {
                into.spelling = FieldSpelling::Variable;
                into.add(FieldKind::RequestField, RawText::plain(name), value);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = r#"log_format main escape=json '{"time":"$time_iso8601","client":"$remote_addr",'
        '"request":"$request","status":$status,"bytes":$body_bytes_sent,"took":$request_time,'
        '"host":"$host","agent":"$http_user_agent","key":"$http_x_api_key"}';"#;

    fn value(text: RawText<'_>) -> String {
        let mut bytes = Vec::new();
        text.append_to(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    /// Goal: a directive out of nginx.conf reads the lines that nginx writes by it. Method: a JSON format, with a value that has quotes.
    #[test]
    fn a_directive_reads_its_lines() {
        let template = LogTemplate::parse(FORMAT).unwrap();
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
        let template = LogTemplate::parse(written).unwrap();
        let line = br#"192.0.2.1 - - [21/Nov/2026:07:10:38 +0000] "GET /\x22 HTTP/1.1" 200 7 "-" "curl/8" rt=1.000"#;
        let mut into = ParsedLine::default();
        template.line(line, &mut into).unwrap();
        assert_eq!(into.time, 1_795_245_037_000_000_000);
        assert_eq!(value(into.target), "/\"");
        assert_eq!(into.fields.len(), 1);
        assert!(template.line(b"other", &mut ParsedLine::default()).is_err());
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

    /// Goal: a format that cannot be used says why. Method: one without a client, without a time, with two variables in a row.
    #[test]
    fn a_useless_format_is_refused() {
        for (written, part) in [
            ("$time_local", "$remote_addr"),
            ("$remote_addr", "$time_local"),
            ("$remote_addr$time_local", "nothing separates"),
            ("$remote_addr $", "has no name"),
        ] {
            let error = LogTemplate::parse(written).unwrap_err();
            assert!(error.contains(part), "{written}: {error}");
        }
    }
}
