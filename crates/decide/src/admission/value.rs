//! Decides which value of a request a part of a key counts by.
//!
//! Two rules keep clients from choosing their counter. A value that is there more than once is one only if all copies agree: origins
//! differ in whether the first or the last counts, so neither may. And a query or form is read only as far as all parsers read it alike:
//! a name that an origin may take for the key's ([`parameter_name`](sluicegate_base::parameter_name)) is a copy that does not agree, and
//! a name, a separator or an escape that parsers read in different ways makes the value malformed.
//!
//! # Limits
//! The first [`KEY_VALUE_BYTES`](bounds::KEY_VALUE_BYTES) of a value count. A query or form is read in one pass, and at most
//! [`PARAMETER_NAMES`](bounds::PARAMETER_NAMES) names of it.

use std::borrow::Cow;

use crate::client::ClientCertificate;
use crate::rejection::MissingReason;
use serde_json::Value as Json;
use sluicegate_base::bounds;
use sluicegate_base::form_encoding::{PlusMeaning, decode};
use sluicegate_base::jwt::NoClaims;
use sluicegate_base::parameter_name::{NameMatch, OtherNames, WantedName};

use super::body;
use super::cookie;
use super::facts::{RequestFacts, Value};
use super::json;
use sluicegate_config::rules::{Pointer, ValuePart, ValueSource};

/// Returns the value that `part` names.
pub(super) fn find<'a>(
    part: &ValuePart,
    facts: &RequestFacts<'a>,
) -> Result<Value<'a>, MissingReason> {
    let others = part.other_names;
    let value = match &part.source {
        ValueSource::Header(name) => {
            let fields = facts.headers.get_all(name);
            only(fields.map(|field| Cow::Borrowed(field.as_bytes().trim_ascii())))
        }
        ValueSource::Cookie(name) => cookie::find(facts.headers, &WantedName { name, others }),
        ValueSource::Query(name) => {
            let wanted = WantedName { name, others };
            let found = query(facts.query, &wanted)
                .and_then(|value| body::in_charset(value, facts.headers));
            let found = agreeing(found, || {
                body::merged(facts.body, facts.method, facts.headers, &wanted)
            });
            agreeing(found, || cookie::find(facts.headers, &wanted))
        }
        ValueSource::PathParameter(name) => parameter(facts, name),
        ValueSource::Claim(pointer) => claim(facts, pointer),
        ValueSource::Json(pointer) => {
            agreeing(body::json(facts.body, facts.headers, pointer), || {
                let name = &in_query(pointer);
                query(facts.query, &WantedName { name, others })
            })
        }
        ValueSource::Form(name) => {
            let wanted = WantedName { name, others };
            let found = agreeing(body::form(facts.body, facts.headers, &wanted), || {
                query(facts.query, &wanted)
            });
            agreeing(found, || cookie::find(facts.headers, &wanted))
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
/// Rails, Flask and Go read the query and the body's parameters as one, and differ in which comes first. `$_REQUEST` of PHP has cookies
/// too where no php.ini says otherwise, and they win; so has `Request` of ASP.
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
fn query<'a>(query: &'a str, wanted: &WantedName<'_>) -> Result<Value<'a>, MissingReason> {
    if query.contains('#') {
        // RFC 3986 §3.4: a query has none. Some origins cut there, others do not.
        return Err(MissingReason::Malformed);
    }
    parameters(query.as_bytes(), wanted)
}

/// Returns the value on which all parameters of a name agree in `name=value&…`.
pub(super) fn parameters<'a>(
    text: &'a [u8],
    wanted: &WantedName<'_>,
) -> Result<Value<'a>, MissingReason> {
    let is_separator = |byte: &&u8| matches!(**byte, b'&' | b';');
    let separators = text.iter().filter(is_separator).count();
    if separators >= bounds::PARAMETER_NAMES && wanted.others == OtherNames::Canonical {
        return Err(MissingReason::Malformed);
    }
    let mut found = Err(MissingReason::Absent);
    for pair in pieces(text, b'&') {
        let mut of_old_parsers = pieces(pair, b';');
        let first = of_old_parsers.next().unwrap_or(pair);
        // Old parsers find a name behind a `;` too, or one that may be the name.
        if of_old_parsers.any(|piece| likeness(piece, wanted) != NameMatch::Other) {
            return Err(MissingReason::Malformed);
        }
        match likeness(first, wanted) {
            NameMatch::Other => {}
            NameMatch::Outside => return Err(MissingReason::Malformed),
            NameMatch::Alias => return Err(MissingReason::Repeated),
            NameMatch::Same => found = Ok(agreed(found, value(pair)?)?),
        }
    }
    found
}

/// Splits a text at each `mark`.
fn pieces(text: &[u8], mark: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let cut = cut_at(text, mark);
        rest = cut.map(|(_, behind)| behind);
        Some(cut.map_or(text, |(piece, _)| piece))
    })
}

/// Compares the name of a pair. A name alone has no value, so it is of no interest unless some parser may make it the key's, which then
/// stands at its beginning.
fn likeness(pair: &[u8], wanted: &WantedName<'_>) -> NameMatch {
    match cut_at(pair, b'=') {
        Some((name, _)) => wanted.compare_encoded(name),
        None => match wanted.compare_encoded(pair) {
            NameMatch::Outside if !wanted.is_at_beginning(pair) => NameMatch::Other,
            likeness => likeness,
        },
    }
}

/// Returns the value of a pair; a name alone has an empty one. Old parsers end it at `;`, and a query at its second `?`.
fn value(pair: &[u8]) -> Result<Value<'_>, MissingReason> {
    if memchr::memchr2(b';', b'?', pair).is_some() {
        return Err(MissingReason::Malformed);
    }
    let value = cut_at(pair, b'=').map_or(&b""[..], |(_, value)| value);
    text(value)
}

/// Decodes a value. Decoders replace, drop or keep what is not UTF-8.
pub(super) fn text(written: &[u8]) -> Result<Value<'_>, MissingReason> {
    decode(written, PlusMeaning::Space)
        .filter(|value| std::str::from_utf8(value).is_ok())
        .ok_or(MissingReason::Malformed)
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
            Some(Json::Array(elements)) => json::index(step).and_then(|index| elements.get(index)),
            _ => None,
        };
    }
    let text = match found {
        None | Some(Json::Null) => return Err(MissingReason::Absent),
        Some(Json::String(text)) => text.clone(),
        Some(Json::Bool(value)) => value.to_string(),
        Some(Json::Number(number)) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (None, None, Some(value)) => json::number(value),
            _ => number.to_string(),
        },
        Some(Json::Array(_) | Json::Object(_)) => return Err(MissingReason::Malformed),
    };
    Ok(Cow::Owned(text.into_bytes()))
}

/// Returns the segment of the path that the route calls `name`. A route whose limits count by it takes no path in which another reading
/// has another one.
fn parameter<'a>(facts: &RequestFacts<'a>, name: &str) -> Result<Value<'a>, MissingReason> {
    let segment = facts
        .pattern
        .and_then(|pattern| pattern.parameter(facts.segments, name))
        .ok_or(MissingReason::Absent)?;
    decode(segment.as_bytes(), PlusMeaning::Kept).ok_or(MissingReason::Malformed)
}

pub(super) fn cut_at(bytes: &[u8], mark: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(mark, bytes)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, others: OtherNames) -> Result<String, MissingReason> {
        let name = "phone";
        query(text, &WantedName { name, others })
            .map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    fn asked(text: &str) -> Result<String, MissingReason> {
        read(text, OtherNames::Canonical)
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
            ("phone=a=b", "a=b"),
            ("phone", ""),
            ("phone=&x", ""),
            ("phone=1&phone=%31", "1"),
            ("a=?b&phone=1", "1"),
            ("/a/path&phone=1", "1"),
            ("a=b;c&phone=1", "1"),
            ("a=b;c=%25&phone=1", "1"),
            ("phone=1&amp;page=2", "1"),
        ] {
            assert_eq!(asked(text).as_deref(), Ok(value), "{text}");
        }
    }

    /// Goal: no copy gives a fresh counter, and no name within the grammar that an origin takes for the parameter does. Method: a name of
    /// each kind, beside the plain one and alone; `parameter_name` has the others. What is really absent.
    #[test]
    fn copies_that_differ_are_no_value() {
        for text in ["phone=1&phone=2", "phone&phone=1", "phone=1&phone=1&phone="] {
            assert_eq!(asked(text), Err(MissingReason::Repeated), "{text}");
        }
        for trick in [
            "phone[]=2",
            "[phone]=2",
            "phone]=2",
            "phone.x=2",
            "Phone=2",
            "%5Bphone%5D=2",
            "!phone=2",
            "PHONE",
        ] {
            for text in [
                trick.to_owned(),
                format!("phone=1&{trick}"),
                format!("{trick}&phone=1"),
            ] {
                assert_eq!(asked(&text), Err(MissingReason::Repeated), "{text}");
            }
        }
        for text in [
            "",
            "&&",
            "phones=1",
            "a=1;b=2",
            "xphone=1",
            "a=phone",
            "%70%",
            "/index/phone",
        ] {
            assert_eq!(asked(text), Err(MissingReason::Absent), "{text}");
        }
    }

    /// Goal: what parsers read in different ways is no value. Method: names outside of the grammar alone and beside the plain name,
    /// separators of old origins, escapes that are none, more names than parsers read; what `any` makes of the names.
    #[test]
    fn what_parsers_read_in_different_ways_is_malformed() {
        for trick in [
            "+phone=2",
            "phone%00=2",
            "%EF%BD%90hone=2",
            "ph%u0151ne=2",
            "?phone=2",
            "=phone=2",
            "=2",
            "%u0070hone=2",
            "a;phone=2",
            "a=1;phone%00=2",
            "a=1;PHONE",
            "%20phone",
            "phone%00",
            "phone[0]%3D",
        ] {
            for text in [
                trick.to_owned(),
                format!("phone=1&{trick}"),
                format!("{trick}&phone=1"),
            ] {
                assert_eq!(asked(&text), Err(MissingReason::Malformed), "{text}");
            }
        }
        for text in [
            "phone=1;x",
            "phone=1;phone=2",
            "phone=1?phone=2",
            "phone=1?",
            "phone=1#&x",
            "phone=%zz",
            "phone=%u0031",
            "phone=%FE",
            "phone=1%",
        ] {
            assert_eq!(asked(text), Err(MissingReason::Malformed), "{text}");
        }
        let many = "a=1&".repeat(bounds::PARAMETER_NAMES - 1) + "phone=1";
        assert_eq!(asked(&many).as_deref(), Ok("1"));
        assert_eq!(asked(&format!("{many}&a")), Err(MissingReason::Malformed));
        for text in [
            "+phone=2&phone=1",
            "%u0070hone=2&phone=1",
            "=2&phone=1",
            &(many + "&a"),
        ] {
            assert_eq!(read(text, OtherNames::Any).as_deref(), Ok("1"), "{text}");
        }
        assert_eq!(
            read("phone[]=1", OtherNames::Any),
            Err(MissingReason::Repeated)
        );
    }

    proptest! {
        /// Goal: nothing a client sends stops the process. Method: arbitrary queries.
        #[test]
        fn every_text_is_read(text in "[a%+0-9;&=#]{0,24}") {
            let _ = read(&text, OtherNames::Canonical);
        }
    }
}
