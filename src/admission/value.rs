//! Decides which value of a request a part of a key counts by.
//!
//! Three rules keep clients from choosing their counter. Whatever an origin may read as the same value is one value here: `%61` is
//! `a`, in queries, paths and cookies, and quotes around a cookie are none. A value that is there more than once is one only if all
//! copies agree: origins differ in whether the first or the last counts, so neither may. And a name that an origin may take for the key's
//! ([`parameter_name`](sluicegate_base::parameter_name)) is a copy that does not agree.
//!
//! # Limits
//! The first [`KEY_VALUE_BYTES`](bounds::KEY_VALUE_BYTES) of a value count.

use std::borrow::Cow;

use serde_json::Value as Json;
use sluicegate_base::bounds;
use sluicegate_base::form_encoding::{PlusMeaning, decode};
use sluicegate_base::jwt::NoClaims;
use sluicegate_base::parameter_name::{NameMatch, WantedName};

use super::body;
use super::cookie;
use super::key::RequestFacts;
use crate::client::ClientCertificate;
use crate::config::rules::{Pointer, ValueSource};
use crate::rejection::MissingReason;

/// The value, as far as it counts.
pub(super) type Value<'a> = Cow<'a, [u8]>;

/// Returns the value at `source`.
pub(super) fn find<'a>(
    source: &ValueSource,
    facts: &RequestFacts<'a>,
) -> Result<Value<'a>, MissingReason> {
    let value = match source {
        ValueSource::Header(name) => {
            let fields = facts.headers.get_all(name);
            only(fields.map(|field| Cow::Borrowed(field.as_bytes().trim_ascii())))
        }
        ValueSource::Cookie(name) => cookie::find(facts.headers, name),
        ValueSource::Query(name) => {
            let found = agreeing(query(facts.query, name), || {
                body::merged(facts.body, facts.method, facts.headers, name)
            });
            agreeing(found, || cookie::merged(facts.headers, name))
        }
        ValueSource::PathParameter(name) => parameter(facts, name).ok_or(MissingReason::Absent),
        ValueSource::Claim(pointer) => claim(facts, pointer),
        ValueSource::Json(pointer) => {
            agreeing(body::json(facts.body, facts.headers, pointer), || {
                query(facts.query, &in_query(pointer))
            })
        }
        ValueSource::Form(name) => {
            let found = agreeing(body::form(facts.body, facts.headers, name), || {
                query(facts.query, name)
            });
            agreeing(found, || cookie::merged(facts.headers, name))
        }
        ValueSource::CertificateSubject => certificate(facts)
            .and_then(|certificate| certificate.subject.as_deref())
            .map(|subject| Cow::Borrowed(subject.as_bytes()))
            .ok_or(MissingReason::Absent),
        ValueSource::Ja4 => facts
            .secured
            .and_then(|secured| secured.ja4.as_deref())
            .map(|fingerprint| Cow::Borrowed(fingerprint.as_bytes()))
            .ok_or(MissingReason::Absent),
        ValueSource::CertificateFingerprint => certificate(facts)
            .map(|certificate| Cow::Borrowed(certificate.fingerprint.as_bytes()))
            .ok_or(MissingReason::Absent),
    };
    value.map(cut)
}

/// Returns the certificate that the client has shown and the handshake has verified.
fn certificate<'a>(facts: &RequestFacts<'a>) -> Option<&'a ClientCertificate> {
    facts.secured?.certificate.as_ref()
}

/// Returns the value on which the place that a key names and the place that some frameworks merge with it agree: Servlet, PHP,
/// Rails, Flask and Go read the query and the body's parameters as one, and differ in which comes first. `$_REQUEST` of PHP has cookies too
/// where no php.ini says otherwise, and they win; so has `Request` of ASP.
fn agreeing<'a>(
    found: Result<Value<'a>, MissingReason>,
    other: impl FnOnce() -> Result<Value<'a>, MissingReason>,
) -> Result<Value<'a>, MissingReason> {
    match other() {
        Err(MissingReason::Absent) => found,
        other if other.is_ok() && other == found => found,
        _ => Err(MissingReason::Repeated),
    }
}

/// Returns the name of a pointer's target in a query: `user[phone]`.
fn in_query(pointer: &Pointer) -> Cow<'_, str> {
    match &*pointer.0 {
        [name] => Cow::Borrowed(name),
        steps => {
            let (first, rest) = steps
                .split_first()
                .map_or(("", steps), |(first, rest)| (&**first, rest));
            let nested = rest.iter().map(|step| format!("[{step}]"));
            Cow::Owned(first.to_owned() + &nested.collect::<String>())
        }
    }
}

/// Returns the value on which all copies agree.
fn only<'a>(mut values: impl Iterator<Item = Value<'a>>) -> Result<Value<'a>, MissingReason> {
    let first = values.next().ok_or(MissingReason::Absent)?;
    values.try_fold(first, |found, other| agreed(Ok(found), other))
}

/// Returns the value on which the copies found so far and one more agree.
pub(super) fn agreed<'a>(
    found: Result<Value<'a>, MissingReason>,
    other: Value<'a>,
) -> Result<Value<'a>, MissingReason> {
    match found {
        Err(MissingReason::Absent) => Ok(other),
        Ok(value) if value == other => Ok(value),
        _ => Err(MissingReason::Repeated),
    }
}

fn cut(value: Value<'_>) -> Value<'_> {
    const MOST: usize = bounds::KEY_VALUE_BYTES;
    match value {
        Cow::Borrowed(bytes) => Cow::Borrowed(bytes.get(..MOST).unwrap_or(bytes)),
        Cow::Owned(mut bytes) => {
            bytes.truncate(MOST);
            Cow::Owned(bytes)
        }
    }
}

/// Returns the value of a query parameter.
fn query<'a>(query: &'a str, name: &str) -> Result<Value<'a>, MissingReason> {
    if query.contains('#') {
        // RFC 3986 §3.4: a query has none. Some origins cut there, others do not.
        return Err(MissingReason::Malformed);
    }
    let found = parameters(query.as_bytes(), name)?;
    match query.split_once('?') {
        // What splits the target at every `?` ends the query at the second.
        Some((before, _)) => match parameters(before.as_bytes(), name) {
            Ok(other) if other != found => Err(MissingReason::Repeated),
            _ => Ok(found),
        },
        None => Ok(found),
    }
}

/// Returns the value of a parameter in `name=value&…`. Old origins take `;` for `&`, so both readings must agree.
pub(super) fn parameters<'a>(text: &'a [u8], name: &str) -> Result<Value<'a>, MissingReason> {
    let wanted = WantedName::new(name);
    let plainly = among(text, b"&", &wanted);
    if !text.contains(&b';') {
        return plainly;
    }
    match (plainly, among(text, b"&;", &wanted)) {
        (Ok(one), Ok(other)) if one == other => Ok(one),
        (Err(MissingReason::Absent), Err(MissingReason::Absent)) => Err(MissingReason::Absent),
        _ => Err(MissingReason::Repeated),
    }
}

/// Returns the value on which all parameters of a name agree in `name=value&…`; a name alone has an empty value. A name that an origin may
/// take for it makes the value one of several.
fn among<'a>(
    text: &'a [u8],
    ends: &[u8],
    wanted: &WantedName<'_>,
) -> Result<Value<'a>, MissingReason> {
    let mut found = Err(MissingReason::Absent);
    for pair in text.split(|byte| ends.contains(byte)) {
        let (name, value) = cut_at(pair, b'=').unwrap_or((pair, b""));
        // An empty pair is none, as in `a=1&&b=2`.
        match wanted.compare(&decode(name, PlusMeaning::Space)) {
            _ if pair.is_empty() => {}
            NameMatch::Other => {}
            NameMatch::Alias => return Err(MissingReason::Repeated),
            NameMatch::Same => found = Ok(agreed(found, decode(value, PlusMeaning::Space))?),
        }
    }
    found
}

/// Returns the value of a claim that is text, number or boolean.
fn claim(facts: &RequestFacts<'_>, pointer: &Pointer) -> Result<Value<'static>, MissingReason> {
    let claims = facts.token.claims(facts.now).map_err(|why| match why {
        NoClaims::Absent => MissingReason::Absent,
        NoClaims::Repeated => MissingReason::Repeated,
        NoClaims::Malformed => MissingReason::Malformed,
        NoClaims::Unverified => MissingReason::Unverified,
    })?;
    let (first, rest) = pointer.0.split_first().ok_or(MissingReason::Absent)?;
    let mut found = claims.get(&**first);
    for step in rest {
        found = match found {
            Some(Json::Object(members)) => members.get(&**step),
            Some(Json::Array(elements)) => body::index(step).and_then(|index| elements.get(index)),
            _ => None,
        };
    }
    let text = match found {
        None | Some(Json::Null) => return Err(MissingReason::Absent),
        Some(Json::String(text)) => text.clone(),
        Some(Json::Bool(value)) => value.to_string(),
        Some(Json::Number(number)) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (None, None, Some(value)) => body::number(value),
            _ => number.to_string(),
        },
        Some(Json::Array(_) | Json::Object(_)) => return Err(MissingReason::Malformed),
    };
    Ok(Cow::Owned(text.into_bytes()))
}

/// Returns the segment of the path that the route calls `name`. A route whose limits count by it takes no path in which another reading has
/// another one.
fn parameter<'a>(facts: &RequestFacts<'a>, name: &str) -> Option<Value<'a>> {
    let segment = facts.pattern?.parameter(facts.segments, name)?;
    Some(decode(segment.as_bytes(), PlusMeaning::Kept))
}

pub(super) fn cut_at(bytes: &[u8], mark: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == mark)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked(text: &str) -> Result<String, MissingReason> {
        query(text, "phone").map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    /// Goal: spellings of one query value share a counter. Method: each with the value that it means.
    #[test]
    fn a_query_value_is_what_it_decodes_to() {
        for (text, value) in [
            ("phone=1", "1"),
            ("a=2&phone=1&b", "1"),
            ("ph%6Fne=%31", "1"),
            ("phone=a+b", "a b"),
            ("phone=a%2Bb", "a+b"),
            ("phone=%zz%4", "%zz%4"),
            ("phone=a=b", "a=b"),
            ("phone", ""),
            ("phone=&x", ""),
            ("phone=1&phone=%31", "1"),
        ] {
            assert_eq!(asked(text).as_deref(), Ok(value), "{text}");
        }
    }

    /// Goal: no copy, and no separator of old origins, gives a fresh counter. Method: the tricks, and what is really absent.
    #[test]
    fn copies_that_differ_are_no_value() {
        for text in [
            "phone=1&phone=2",
            "phone=1;phone=2",
            "phone=1;x",
            "a=1;phone=2",
            "phone&phone=1",
        ] {
            assert_eq!(asked(text), Err(MissingReason::Repeated), "{text}");
        }
        assert_eq!(asked("phone=1#&phone=2"), Err(MissingReason::Malformed));
        for text in ["", "&&", "phones=1", "a=1;b=2", "xphone=1"] {
            assert_eq!(asked(text), Err(MissingReason::Absent), "{text}");
        }
    }

    /// Goal: no name that an origin takes for the parameter gives it another value. Method: a name of each kind, beside the plain one and
    /// alone; `parameter_name` has the others.
    #[test]
    fn a_name_that_becomes_the_name_is_a_copy() {
        for trick in [
            "+phone=2",
            "phone%00=2",
            "phone[]=2",
            "[phone]=2",
            "phone]=2",
            "phone.x=2",
            "Phone=2",
            "%EF%BD%90hone=2",
            "?phone=2",
            "ph%u0151ne=2",
            "a;phone%00=2",
        ] {
            for text in [
                trick.to_owned(),
                format!("phone=1&{trick}"),
                format!("{trick}&phone=1"),
            ] {
                assert_eq!(asked(&text), Err(MissingReason::Repeated), "{text}");
            }
        }
        assert_eq!(asked("%u0070hone=%u0031").as_deref(), Ok("1"));
        assert_eq!(asked("phone=1?phone=2"), Err(MissingReason::Repeated));
        assert_eq!(asked("a=?b&phone=1").as_deref(), Ok("1"));
    }

    proptest! {
        /// Goal: nothing a client sends stops the process. Method: arbitrary queries.
        #[test]
        fn every_text_is_read(text in "[a%+0-9;&=#]{0,24}") {
            let _ = query(&text, "a");
        }
    }
}
