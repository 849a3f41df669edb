//! Decides which value of a request a part of a key counts by.
//!
//! Two rules keep clients from choosing their counter. Whatever an origin may read as the same value is one value here: `%61` is
//! `a`, in queries, paths and cookies, and quotes around a cookie are none. And a value that is there more than once is one only if
//! all copies agree: origins differ in whether the first or the last counts, so neither may.
//!
//! # Limits
//! Of a value [`KEY_VALUE_BYTES`](bounds::KEY_VALUE_BYTES) count.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::COOKIE;

use serde_json::Value as Json;

use super::body;
use super::gap::Why;
use super::key::RequestFacts;
use crate::bounds;
use crate::client::ClientCertificate;
use crate::client::token::NoClaims;
use crate::config::rules::{Pointer, ValueSource};

/// The value, as far as it counts.
pub(super) type Value<'a> = Cow<'a, [u8]>;

/// The value at `source`.
pub(super) fn find<'a>(source: &ValueSource, facts: &RequestFacts<'a>) -> Result<Value<'a>, Why> {
    let value = match source {
        ValueSource::Header(name) => {
            let fields = facts.headers.get_all(name).into_iter();
            only(fields.map(|field| Cow::Borrowed(field.as_bytes().trim_ascii())))
        }
        ValueSource::Cookie(name) => only(cookies(facts.headers, name.as_bytes())),
        ValueSource::Query(name) => query(facts.query, name.as_bytes()),
        ValueSource::PathParameter(name) => parameter(facts, name).ok_or(Why::Absent),
        ValueSource::Claim(pointer) => claim(facts, pointer),
        ValueSource::Json(pointer) => body::json(facts.body, facts.headers, pointer),
        ValueSource::Form(name) => body::form(facts.body, facts.headers, name),
        ValueSource::CertificateSubject => certificate(facts)
            .and_then(|certificate| certificate.subject.as_deref())
            .map(|subject| Cow::Borrowed(subject.as_bytes()))
            .ok_or(Why::Absent),
        ValueSource::Ja4 => facts
            .secured
            .and_then(|secured| secured.ja4.as_deref())
            .map(|fingerprint| Cow::Borrowed(fingerprint.as_bytes()))
            .ok_or(Why::Absent),
        ValueSource::CertificateFingerprint => certificate(facts)
            .map(|certificate| Cow::Borrowed(certificate.fingerprint.as_bytes()))
            .ok_or(Why::Absent),
    };
    value.map(cut)
}

/// What the client has shown, and the handshake has believed.
fn certificate<'a>(facts: &RequestFacts<'a>) -> Option<&'a ClientCertificate> {
    facts.secured?.certificate.as_ref()
}

/// What all copies agree on.
fn only<'a>(values: impl Iterator<Item = Value<'a>>) -> Result<Value<'a>, Why> {
    values
        .map(Ok)
        .reduce(|one, other| {
            let one = one?;
            if other.is_ok_and(|other| other == one) {
                Ok(one)
            } else {
                Err(Why::Repeated)
            }
        })
        .unwrap_or(Err(Why::Absent))
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

/// Every cookie of this name. RFC 9113 §8.2.3: in HTTP/2 they may come in several fields.
fn cookies<'a>(headers: &'a HeaderMap, name: &[u8]) -> impl Iterator<Item = Value<'a>> {
    let pairs = headers
        .get_all(COOKIE)
        .into_iter()
        .flat_map(|field| field.as_bytes().split(|byte| *byte == b';'));
    pairs.filter_map(move |pair| {
        let (found, value) = cut_at(pair, b'=')?;
        // Common origins percent-decode values, and drop quotes around them.
        (found.trim_ascii() == name).then(|| decode(unquoted(value.trim_ascii()), Plus::Kept))
    })
}

fn unquoted(value: &[u8]) -> &[u8] {
    value
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""))
        .unwrap_or(value)
}

/// The value of a query parameter.
fn query<'a>(query: &'a str, name: &[u8]) -> Result<Value<'a>, Why> {
    if query.contains('#') {
        // RFC 3986 §3.4: a query has none. Some origins cut there, others do not.
        return Err(Why::Malformed);
    }
    parameters(query.as_bytes(), name)
}

/// The value of a parameter in `name=value&…`. Old origins take `;` for `&`, so both readings must agree.
pub(super) fn parameters<'a>(text: &'a [u8], name: &[u8]) -> Result<Value<'a>, Why> {
    let plainly = only(pairs(text, b"&", name));
    if !text.contains(&b';') {
        return plainly;
    }
    match (plainly, only(pairs(text, b"&;", name))) {
        (Ok(one), Ok(other)) if one == other => Ok(one),
        (Err(Why::Absent), Err(Why::Absent)) => Err(Why::Absent),
        _ => Err(Why::Repeated),
    }
}

/// Every value of `name` in `name=value&…`; a name alone has an empty value.
fn pairs<'a>(text: &'a [u8], ends: &[u8], name: &[u8]) -> impl Iterator<Item = Value<'a>> {
    let pairs = text.split(|byte| ends.contains(byte));
    pairs.filter_map(move |pair| {
        let (found, value) = cut_at(pair, b'=').unwrap_or((pair, b""));
        // An empty pair is none, as in `a=1&&b=2`.
        let is_named = !pair.is_empty() && *decode(found, Plus::Space) == *name;
        is_named.then(|| decode(value, Plus::Space))
    })
}

/// The value of a claim: what a token has as text, number or boolean.
fn claim(facts: &RequestFacts<'_>, pointer: &Pointer) -> Result<Value<'static>, Why> {
    let claims = facts.token.claims(facts.now).map_err(|why| match why {
        NoClaims::Absent => Why::Absent,
        NoClaims::Repeated => Why::Repeated,
        NoClaims::Unverified => Why::Unverified,
    })?;
    let (first, rest) = pointer.0.split_first().ok_or(Why::Absent)?;
    let mut found = claims.get(&**first);
    for step in rest {
        found = match found {
            Some(Json::Object(members)) => members.get(&**step),
            Some(Json::Array(elements)) => body::index(step).and_then(|index| elements.get(index)),
            _ => None,
        };
    }
    let text = match found {
        None | Some(Json::Null) => return Err(Why::Absent),
        Some(Json::String(text)) => text.clone(),
        Some(Json::Bool(value)) => value.to_string(),
        Some(Json::Number(number)) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (None, None, Some(value)) => body::number(value),
            _ => number.to_string(),
        },
        Some(Json::Array(_) | Json::Object(_)) => return Err(Why::Malformed),
    };
    Ok(Cow::Owned(text.into_bytes()))
}

/// The segment of the path that the route calls `name`. A route whose limits count by it takes no path with two readings.
fn parameter<'a>(facts: &RequestFacts<'a>, name: &str) -> Option<Value<'a>> {
    let position = facts.pattern?.parameter_position(name)?;
    let segment = facts.path.split('/').nth(position + 1)?;
    Some(decode(segment.as_bytes(), Plus::Kept))
}

/// What `+` means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plus {
    /// A plus.
    Kept,
    /// A space, as forms write it.
    Space,
}

/// Decodes `%61`; what is no escape stays as it is, as the URL standard has it (WHATWG URL §1.3).
fn decode(text: &[u8], plus: Plus) -> Value<'_> {
    let plain = |byte: &u8| *byte != b'%' && (*byte != b'+' || plus == Plus::Kept);
    if text.iter().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        rest = behind;
        match (first, escaped(behind)) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                rest = &behind[2..];
            }
            (b'+', _) if plus == Plus::Space => decoded.push(b' '),
            _ => decoded.push(*first),
        }
    }
    Cow::Owned(decoded)
}

/// The byte that two hexadecimal digits spell.
fn escaped(digits: &[u8]) -> Option<u8> {
    let [high, low, ..] = digits else { return None };
    let digit = |digit: &u8| char::from(*digit).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

fn cut_at(bytes: &[u8], mark: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == mark)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn asked(text: &str) -> Result<String, Why> {
        query(text, b"phone").map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    fn cookie(fields: &[&'static str]) -> Result<String, Why> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(COOKIE, HeaderValue::from_static(field));
        }
        only(cookies(&headers, b"sid")).map(|value| String::from_utf8_lossy(&value).into_owned())
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
            assert_eq!(asked(text), Err(Why::Repeated), "{text}");
        }
        assert_eq!(asked("phone=1#&phone=2"), Err(Why::Malformed));
        for text in ["", "&&", "phones=1", "a=1;b=2", "xphone=1"] {
            assert_eq!(asked(text), Err(Why::Absent), "{text}");
        }
    }

    /// Goal: cookies follow the same rules. Method: one field and several, quotes, escapes, copies.
    #[test]
    fn a_cookie_is_one_value_or_none() {
        assert_eq!(cookie(&["a=1; sid=x"]).as_deref(), Ok("x"));
        assert_eq!(cookie(&["a=1", "sid=\"x\""]).as_deref(), Ok("x"));
        assert_eq!(cookie(&["sid=%78;sid=x"]).as_deref(), Ok("x"));
        assert_eq!(cookie(&["sid="]).as_deref(), Ok(""));
        assert_eq!(cookie(&["sid=a=b+c"]).as_deref(), Ok("a=b+c"));
        assert_eq!(cookie(&["sid=x; sid=y"]), Err(Why::Repeated));
        assert_eq!(cookie(&["sid=x", "sid=y"]), Err(Why::Repeated));
        assert_eq!(cookie(&["SID=x; sid"]), Err(Why::Absent));
        assert_eq!(cookie(&[]), Err(Why::Absent));
    }

    proptest! {
        /// Goal: nothing a client sends stops the process, and decoding only shortens. Method: arbitrary bytes.
        #[test]
        fn every_text_decodes(text in "[a%+0-9;&=#]{0,24}") {
            prop_assert!(decode(text.as_bytes(), Plus::Space).len() <= text.len());
            let _ = query(&text, b"a");
        }
    }
}
