//! Declares `[route.respond]`: an answer of the gateway's own.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use sluicegate_config_derive::Table;

use crate::declaration::{ParsedText, ReadBy, StatusIn, TABLE, TEXT};
use crate::field::{KeyField, quoted};
use crate::problem::ParseError;
use crate::refusal::headers;
use crate::section::TableSection;

/// A fixed response instead of an origin.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "route[].respond", check = complete_type)]
pub struct FixedResponse {
    /// Required. 200 to 599.
    #[key(example = "403", shown = "200", reader = StatusIn(200..=599))]
    pub status: StatusCode,
    /// The body. Default: empty.
    #[key(
        example = "\"not here\\n\"",
        shown = "\"User-agent: *\\nDisallow: /\\n\"",
        default = Bytes::new(),
        reader = ReadBy(body, TEXT)
    )]
    pub body: Bytes,
    /// The type of the body. Default: "text/plain; charset=utf-8" where there is one.
    #[key(
        example = "\"application/json\"",
        shown = "\"text/plain; charset=utf-8\"",
        reader = ParsedText(content_type)
    )]
    pub content_type: Option<HeaderValue>,
    /// Further fields, at most 16. Default: none.
    #[key(example = "{ x-support = \"help@example.com\" }", default = Vec::new(), reader = ReadBy(headers, TABLE))]
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

pub(super) fn read(field: &KeyField<'_>) -> Option<FixedResponse> {
    FixedResponse::read(field.section()?)
}

fn body(field: &KeyField<'_>) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(field.text()?.as_bytes()))
}

/// Refuses a body that the status has no place for, and gives others their type.
fn complete_type(keys: &mut FixedResponseKeys, section: &TableSection<'_>) -> Option<()> {
    if keys.body.as_ref().is_none_or(Bytes::is_empty) {
        return Some(());
    }
    // RFC 9110 §15.3.5, §15.3.6, §15.4.5
    if let Some(status) = keys.status
        && [204, 205, 304].contains(&status.as_u16())
    {
        section.report.error(
            &section.place,
            format!("an answer with status {} has no body", status.as_u16()),
            "leave out the body, or write status = 200",
        );
        return None;
    }
    if keys.content_type == Some(None) {
        keys.content_type = Some(Some(HeaderValue::from_static("text/plain; charset=utf-8")));
    }
    Some(())
}

/// Parses a media type.
pub(crate) fn content_type(text: &str) -> Result<HeaderValue, ParseError> {
    let wrong = || ParseError::new(format!("{} is not a media type", quoted(text)));
    let (kind, subtype) = text.split_once('/').ok_or_else(wrong)?;
    if kind.is_empty() || subtype.is_empty() || kind.contains(' ') {
        return Err(wrong());
    }
    HeaderValue::from_str(text).map_err(|_| wrong())
}
