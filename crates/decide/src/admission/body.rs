//! Decides which value of a request's body a part of a key counts by.
//!
//! The body must be whole, plain and of the kind that the key names. A value that an origin might read in another way is none
//! ([`json`](super::json)), and so is one of a body that declares another type, or its type in words that parsers read in different ways
//! ([`content_type`]). Otherwise a client could show the gateway one value and the origin another.
//!
//! # Limits
//! A body is at most `max_key_body_bytes` long.

use std::sync::Arc;

use crate::rejection::MissingReason;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderName, Method};
use sluicegate_base::parameter_name::WantedName;
use sluicegate_base::received::ReceivedFields;

use super::content_type::{self, Charset, ContentType};
use super::facts::{KnownBody, Value};
use super::json::value_at;
use super::multipart;
use super::value;
use sluicegate_config::rules::Pointer;

/// The kinds of bodies from which keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// `application/json`, or any type that ends in `+json`.
    Json,
    /// `application/x-www-form-urlencoded`.
    Form,
    /// `multipart/form-data`.
    Multipart,
}

/// The content type of a body from which keys are read.
struct BodyType<'a> {
    kind: BodyKind,
    charset: Charset,
    boundary: Option<&'a str>,
}

/// Returns the kind of a body with these fields.
///
/// # Errors
/// The reason why nothing is read from it.
pub fn reading(headers: &ReceivedFields) -> Result<BodyKind, MissingReason> {
    body_type(headers).map(|found| found.kind)
}

fn body_type(headers: &ReceivedFields) -> Result<BodyType<'_>, MissingReason> {
    match only(headers, CONTENT_ENCODING)? {
        None => {}
        Some(coding) if coding.eq_ignore_ascii_case("identity") => {}
        Some(_) => return Err(MissingReason::Encoded),
    }
    let text = only(headers, CONTENT_TYPE)?.ok_or(MissingReason::OtherType)?;
    let Some(parsed) = ContentType::parse(text) else {
        return Err(if may_be_merged(headers) {
            MissingReason::Malformed
        } else {
            MissingReason::OtherType
        });
    };
    let kind = if parsed.is("application/x-www-form-urlencoded") {
        BodyKind::Form
    } else if parsed.is("multipart/form-data") {
        BodyKind::Multipart
    } else if parsed.is_json() {
        BodyKind::Json
    } else {
        return Err(MissingReason::OtherType);
    };
    Ok(BodyType {
        kind,
        charset: parsed.charset,
        boundary: parsed.boundary,
    })
}

/// Returns whether keys read a body with this head: one of a kind, or one without a type that some origins take for a form.
#[must_use]
pub fn is_read(method: &Method, headers: &ReceivedFields) -> bool {
    match reading(headers) {
        Ok(_) => true,
        Err(why) => why == MissingReason::OtherType && is_untyped_form(method, headers),
    }
}

/// Returns whether Rack, and `cgi.FieldStorage` of Python, read the body as a form because no type is declared.
fn is_untyped_form(method: &Method, headers: &ReceivedFields) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE);
    method == Method::POST && types.all(|field| field.as_bytes().trim_ascii().is_empty())
}

fn only(headers: &ReceivedFields, name: HeaderName) -> Result<Option<&str>, MissingReason> {
    let mut fields = headers.get_all(name);
    let first = fields.next();
    let second = fields.next();
    match (first.map(|field| field.to_str()), second) {
        (None, _) => Ok(None),
        (Some(Ok(text)), None) => Ok(Some(text)),
        _ => Err(MissingReason::Malformed),
    }
}

/// Returns the bytes of a body, and its type, which is of one of these kinds.
fn bytes<'a, 'h>(
    body: KnownBody<'a>,
    kinds: &[BodyKind],
    headers: &'h ReceivedFields,
) -> Result<(&'a [u8], BodyType<'h>), MissingReason> {
    match body {
        KnownBody::Whole([]) => return Err(MissingReason::Absent),
        // The gateway reads the body wherever a key of the route needs it.
        KnownBody::Unread => return Err(MissingReason::Malformed),
        _ => {}
    }
    let found = body_type(headers)?;
    if !kinds.contains(&found.kind) {
        return Err(MissingReason::OtherType);
    }
    match body {
        // The files of a form may be anything.
        KnownBody::Whole(bytes)
            if found.kind != BodyKind::Multipart && !found.charset.holds(bytes) =>
        {
            Err(MissingReason::Malformed)
        }
        KnownBody::Whole(bytes) => Ok((bytes, found)),
        KnownBody::TooLarge => Err(MissingReason::TooLarge),
        KnownBody::OfOtherKind | KnownBody::Unread => Err(MissingReason::OtherType),
    }
}

/// Returns the parameter of a form with the wanted name.
pub(super) fn form<'a>(
    body: KnownBody<'a>,
    headers: &ReceivedFields,
    wanted: &WantedName<'_>,
) -> Result<Value<'a>, MissingReason> {
    let (bytes, found) = bytes(body, &[BodyKind::Form, BodyKind::Multipart], headers)?;
    let value = match (found.kind, found.boundary) {
        (BodyKind::Form, _) => value::parameters(bytes, wanted)?,
        (_, Some(boundary)) => multipart::find(bytes, boundary, wanted)?,
        (_, None) => return Err(MissingReason::Malformed),
    };
    // Decoders replace, drop or keep what is no text in this charset, and C ends a text at its first NUL.
    let is_text = std::str::from_utf8(&value).is_ok() && !value.contains(&0);
    if is_text && found.charset.holds(&value) {
        Ok(value)
    } else {
        Err(MissingReason::Malformed)
    }
}

/// Returns a value of the query that is the same in the charset by which Django decodes it.
pub(super) fn in_charset<'a>(
    value: Value<'a>,
    headers: &ReceivedFields,
) -> Result<Value<'a>, MissingReason> {
    let mut types = headers.get_all(CONTENT_TYPE);
    let holds = types.all(|field| {
        content_type::charset_of_query(field.as_bytes())
            .is_some_and(|charset| charset.holds(&value))
    });
    holds.then_some(value).ok_or(MissingReason::Malformed)
}

/// Returns the value of the wanted name for a framework that looks into the body beside the query.
///
/// # Errors
/// [`MissingReason::Absent`] where the framework finds nothing, another reason where it may find something.
pub(super) fn merged<'a>(
    body: KnownBody<'a>,
    method: &Method,
    headers: &ReceivedFields,
    wanted: &WantedName<'_>,
) -> Result<Value<'a>, MissingReason> {
    let mut types = headers.get_all(CONTENT_TYPE);
    if types.any(|field| content_type::charset_of_query(field.as_bytes()).is_none()) {
        // The query is decoded by it, with or without a body.
        return Err(MissingReason::Malformed);
    }
    if matches!(body, KnownBody::Unread | KnownBody::Whole([])) {
        return Err(MissingReason::Absent);
    }
    match (reading(headers), body) {
        (Ok(BodyKind::Json), KnownBody::Whole(_)) => {
            let (text, _) = bytes(body, &[BodyKind::Json], headers)?;
            value_at(text, &[Arc::from(wanted.name)])
        }
        // Its members are unknown where only its beginning is read.
        (Ok(BodyKind::Json), _) => Err(MissingReason::TooLarge),
        (Ok(_), _) => form(body, headers, wanted),
        (Err(MissingReason::OtherType), KnownBody::Whole(text))
            if is_untyped_form(method, headers) =>
        {
            value::parameters(text, wanted)
        }
        // A type that is not plain, and a form or JSON to some: of another charset, compressed, one of two, `text/json`. Rack reads
        // forms in multipart/mixed and multipart/related too.
        (Err(why), _) if may_be_merged(headers) || is_untyped_form(method, headers) => Err(why),
        (Err(_), _) => Err(MissingReason::Absent),
    }
}

/// Returns whether some framework reads parameters from a body of this type.
fn may_be_merged(headers: &ReceivedFields) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE);
    types.any(|field| content_type::may_have_parameters(field.as_bytes()))
}

/// Returns the value to which `pointer` leads in JSON.
pub(super) fn json<'a>(
    body: KnownBody<'a>,
    headers: &ReceivedFields,
    pointer: &Pointer,
) -> Result<Value<'a>, MissingReason> {
    let (bytes, _) = bytes(body, &[BodyKind::Json], headers)?;
    value_at(bytes, &pointer.0)
}
