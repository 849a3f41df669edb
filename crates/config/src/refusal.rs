//! Owns how refusals are worded: `[limit.NAME.refusal]` and `[route.refusal]`.
//!
//! A template knows four placeholders, and only a word in braces is one: `{retry_after}`. So JSON and style sheets keep their
//! braces. A word that is no placeholder is an error rather than text, since clients would get to read it; doubled braces write one
//! anyway: `{{limit}}` becomes `{limit}`.

use std::ops::Range;
use std::sync::Arc;

use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use sluicegate_base::bounds;
use sluicegate_config_derive::Table;
use sluicegate_http1::is_hop_by_hop;
use toml::Spanned;
use toml::de::DeValue;

use super::braces::{BracedPart, cut};
use super::declaration::{ParsedText, ReadBy, StatusIn, TABLE, TEXT};
use super::field::{KeyField, all, describe, quoted};
use super::problem::ParseError;
use super::report::KeyPlace;
use super::rules::{Escape, Piece, RefusalRules, Wording};
use super::section::{TableSection, step};
use super::suggest;
use super::tables::respond::content_type;

/// The placeholders.
const PLACEHOLDERS: [(&str, Piece); 4] = [
    ("limit", Piece::Limit),
    ("retry_after", Piece::RetryAfter),
    ("request_id", Piece::RequestId),
    ("route", Piece::Route),
];

/// The type of a body that has no other.
const PLAIN: &str = "text/plain; charset=utf-8";

/// Fields of an answer that are the gateway's own, beside those of one hop and all that tell about rates.
const OWN: [HeaderName; 6] = [
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::DATE,
    header::RETRY_AFTER,
    header::VARY,
    HeaderName::from_static("x-request-id"),
];

/// The `refusal` of a limit or route: `None` inside when it is not written, outside when it is wrong.
pub(super) fn from_section(section: &TableSection<'_>) -> Option<Option<Arc<RefusalRules>>> {
    section.optional("refusal", "{ status = 503 }", |field| {
        rules(field).map(Arc::new)
    })
}

fn rules(field: &KeyField<'_>) -> Option<RefusalRules> {
    let table = RefusalTable::read(field.section()?)?;
    let alternatives = [table.json, table.html, table.text];
    Some(RefusalRules {
        status: table.status,
        body: table.body,
        alternatives: alternatives.into_iter().flatten().collect(),
        headers: table.headers,
    })
}

/// The response to rejected requests. The table of a route takes precedence over that of a limit. In bodies {limit}, {route}, {retry_after}
/// (seconds) and {request_id} are replaced; {{limit}} is the text "{limit}". At most 16384 bytes each. gRPC callers always get status 8,
/// RESOURCE_EXHAUSTED. Default: 429 with a problem body (RFC 9457).
#[derive(Table)]
#[table(path = "limit.NAME.refusal")]
pub(super) struct RefusalTable {
    /// The status, 400 to 599.
    #[key(example = "429", default = StatusCode::TOO_MANY_REQUESTS, reader = StatusIn(400..=599))]
    status: StatusCode,
    #[part(read = typed_body, keys = BodyKeys::keys)]
    body: Option<Wording>,
    /// A body for clients whose Accept prefers JSON. Default: none.
    #[key(
        example = "'{ \"error\": \"slow down\" }'",
        shown = r#"'{ "error": "too many tries", "retry_after": {retry_after}, "id": "{request_id}" }'"#,
        reader = ReadBy(|field| wording(field, "application/json"), TEXT)
    )]
    json: Option<Wording>,
    /// A body for clients whose Accept prefers HTML. Default: none.
    #[key(
        example = "\"<p>slow down\"",
        shown = "\"<!doctype html><title>Too many tries</title><p>Please try again in {retry_after} seconds.\"",
        reader = ReadBy(|field| wording(field, "text/html; charset=utf-8"), TEXT)
    )]
    html: Option<Wording>,
    /// A body for clients whose Accept prefers plain text. Default: none.
    #[key(
        example = "\"slow down\"",
        shown = "\"Too many tries, again in {retry_after} s.\"",
        reader = ReadBy(|field| wording(field, PLAIN), TEXT)
    )]
    text: Option<Wording>,
    /// Further fields, at most 16. Default: none.
    #[key(example = "{ x-support = \"help@example.com\" }", default = Vec::new(), reader = ReadBy(headers, TABLE))]
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// The keys of the body, which are read together: one is the type of the other.
#[derive(Table)]
struct BodyKeys {
    /// The body, unless Accept prefers one of the others. Default: the problem body.
    #[key(
        example = "\"slow down\"",
        shown = r#"'{ "error": "too many tries", "retry_after": {retry_after} }'"#,
        reader = ReadBy(|field| wording(field, PLAIN), TEXT)
    )]
    body: Option<Wording>,
    /// The type of `body`. Default: "text/plain; charset=utf-8".
    #[key(
        example = "\"text/html; charset=utf-8\"",
        shown = "\"application/json\"",
        reader = ParsedText(content_type)
    )]
    content_type: Option<HeaderValue>,
}

/// Reads the body with its type.
fn typed_body(section: &TableSection<'_>) -> Option<Option<Wording>> {
    let BodyKeys { body, content_type } = BodyKeys::read_keys(section)?;
    let Some(media_type) = content_type else {
        return Some(body);
    };
    let Some(mut body) = body else {
        return section.refuse(
            "content_type",
            "there is no body that this is the type of",
            "write body = \"slow down\", or leave it out",
        );
    };
    body.escape = escape(&media_type);
    body.content_type = media_type;
    match check_json(&body) {
        Ok(()) => Some(Some(body)),
        Err(mistake) => section.mistaken("body", mistake),
    }
}

fn wording(field: &KeyField<'_>, media_type: &'static str) -> Option<Wording> {
    let text = field.text()?;
    if text.len() > bounds::REFUSAL_BODY {
        return field.refuse(
            format!(
                "{} bytes are too many for an answer that is to cost little",
                text.len()
            ),
            format!(
                "write at most {} bytes, and link to the rest",
                bounds::REFUSAL_BODY
            ),
        );
    }
    let content_type = HeaderValue::from_static(media_type);
    let wording = Wording {
        escape: escape(&content_type),
        content_type,
        template: field.parsed(template)?,
    };
    match check_json(&wording) {
        Ok(()) => Some(wording),
        Err(mistake) => field.mistaken(mistake),
    }
}

/// Returns an error for a body of JSON that is none once it is filled in.
fn check_json(wording: &Wording) -> Result<(), ParseError> {
    let is_json = || serde_json::from_str::<serde::de::IgnoredAny>(&sample(&wording.template));
    if wording.escape != Escape::Json || is_json().is_ok() {
        return Ok(());
    }
    Err(ParseError::with_advice(
        "filled in, this is no JSON",
        "put {limit}, {route} and {request_id} inside quotes, or write another content_type",
    ))
}

/// Returns the way in which values are escaped in a text of this type. Nothing is known of other types than these; what is filled in there
/// is a number, hexadecimal digits, or a name out of the configuration.
fn escape(content_type: &HeaderValue) -> Escape {
    let essence = content_type.to_str().unwrap_or_default();
    let essence = essence
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    match &*essence {
        "application/json" => Escape::Json,
        "text/html" | "text/xml" | "application/xml" => Escape::Html,
        other if other.ends_with("+json") => Escape::Json,
        other if other.ends_with("+xml") => Escape::Html,
        _ => Escape::None,
    }
}

/// The pieces of a text.
fn template(text: &str) -> Result<Vec<Piece>, ParseError> {
    let pieces = cut(text, is_in_word).into_iter().map(|piece| match piece {
        BracedPart::Text(plain) => Ok(Piece::Text(plain.into())),
        BracedPart::Word(word) => placeholder(word),
    });
    pieces.collect()
}

/// Returns whether a byte may be in the name of a placeholder.
fn is_in_word(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte == b'_'
}

fn placeholder(word: &str) -> Result<Piece, ParseError> {
    let known = PLACEHOLDERS.into_iter().find(|(name, _)| *name == word);
    known.map(|(_, piece)| piece).ok_or_else(|| {
        let names = PLACEHOLDERS.map(|(name, _)| name);
        let message = format!("there is no placeholder {{{word}}}");
        let advice = match suggest::nearest(word, names) {
            Some(meant) => {
                format!("did you mean {{{meant}}}? for the text itself write {{{{{word}}}}}")
            }
            None => format!(
                "write one of {{{}}}; for the text itself write {{{{{word}}}}}",
                names.join("}, {")
            ),
        };
        ParseError::with_advice(message, advice)
    })
}

/// The text as it might be sent.
fn sample(template: &[Piece]) -> String {
    template
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::RetryAfter => "1",
            Piece::Limit | Piece::Route | Piece::RequestId => "a",
        })
        .collect()
}

/// Further fields, in the order written.
pub(super) fn headers(field: &KeyField<'_>) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let section = field.section()?;
    let entries = section.entries();
    if entries.len() > bounds::REFUSAL_FIELDS {
        let message = format!("{} fields are too many for a refusal", entries.len());
        return field.refuse(message, format!("keep at most {}", bounds::REFUSAL_FIELDS));
    }
    let mut seen = HeaderMap::new();
    let read = entries.into_iter().map(|(key, span, value)| {
        let place = field.place.inside(&step(key), Some(span));
        let (name, value) = match header(key, value, &place) {
            Ok(header) => header,
            Err((place, mistake)) => {
                let advice = mistake.advice.unwrap_or_else(|| field.advice());
                field.report.error(&place, mistake.message, advice);
                return None;
            }
        };
        if seen.insert(name.clone(), value.clone()).is_some() {
            let message = format!("{name} is named twice, since case does not matter");
            field.report.error(&place, message, "write it once");
            return None;
        }
        Some((name, value))
    });
    all(read.collect::<Vec<_>>())
}

fn header(
    key: &str,
    value: &Spanned<DeValue<'_>>,
    place: &KeyPlace,
) -> Result<(HeaderName, HeaderValue), (KeyPlace, ParseError)> {
    let name = header_name(key).map_err(|mistake| (place.clone(), mistake))?;
    let of_value = |span: Range<usize>| KeyPlace {
        span: Some(span),
        ..place.clone()
    };
    let wrong = |message: String| {
        let advice = format!("write {} = \"help@example.com\"", quoted(key));
        (
            of_value(value.span()),
            ParseError::with_advice(message, advice),
        )
    };
    let DeValue::String(text) = value.get_ref() else {
        return Err(wrong(format!(
            "expected a string, got {}",
            describe(value.get_ref())
        )));
    };
    let value = HeaderValue::from_str(text)
        .map_err(|_| wrong(format!("{} cannot be the value of a header", quoted(text))))?;
    Ok((name, value))
}

fn header_name(key: &str) -> Result<HeaderName, ParseError> {
    let name = HeaderName::try_from(key).map_err(|_| {
        let message = format!("{} is not the name of a header", quoted(key));
        ParseError::with_advice(message, "write one such as x-support")
    })?;
    let text = name.as_str();
    if name == header::CONTENT_TYPE {
        return Err(ParseError::with_advice(
            "the type of a body is said by a key of its own",
            "write content_type beside the body",
        ));
    }
    // The writer of a file does not know the connection.
    if is_hop_by_hop(text.as_bytes()) {
        let message = format!("{name} speaks of a connection, which is the gateway's affair");
        return Err(ParseError::with_advice(message, "leave it out"));
    }
    if OWN.contains(&name) || text.starts_with("ratelimit") || text.starts_with("x-ratelimit") {
        let message = format!("{name} is written by the gateway");
        return Err(ParseError::with_advice(message, "leave it out"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.into())
    }

    /// Goal: only words in braces are placeholders. Method: JSON, style sheets, doubled and lone braces.
    #[test]
    fn braces_that_hold_no_word_are_text() {
        let read = |text: &str| template(text).unwrap();
        assert_eq!(
            read("{\"wait\":{retry_after}}"),
            [text("{\"wait\":"), Piece::RetryAfter, text("}")]
        );
        assert_eq!(read("p{color:red}"), [text("p{color:red}")]);
        assert_eq!(
            read("{{limit}} is {limit}"),
            [text("{limit} is "), Piece::Limit]
        );
        assert_eq!(read("{{{limit}}}"), [text("{{limit}}")]);
        assert_eq!(read("a { b } {"), [text("a { b } {")]);
        assert_eq!(
            read("{route}{request_id}"),
            [Piece::Route, Piece::RequestId]
        );
        assert_eq!(read(""), []);
    }

    /// Goal: clients never read a misspelt placeholder. Method: a near miss and a far one.
    #[test]
    fn a_word_that_is_no_placeholder_is_answered() {
        let mistake = template("wait {retry_afer} s").unwrap_err();
        assert_eq!(mistake.message, "there is no placeholder {retry_afer}");
        assert_eq!(
            mistake.advice.unwrap(),
            "did you mean {retry_after}? for the text itself write {{retry_afer}}"
        );
        let far = template("{client}").unwrap_err().advice.unwrap();
        assert!(
            far.starts_with("write one of {limit}, {retry_after}, {request_id}, {route};"),
            "{far}"
        );
    }
}
