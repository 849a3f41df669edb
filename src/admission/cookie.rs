//! Decides which value of a cookie a key counts by.
//!
//! RFC 6265 §5.4 joins cookies with `;`, and most origins split there and nowhere else. Python's `http.cookies` splits at white space
//! too, old parsers of Java and Ruby at commas, and some read a quoted text as one value, whatever its content. So a name counts only where
//! every parser finds it; a value counts up to the first mark at which one of them would end it.

use std::borrow::Cow;

use http::header::COOKIE;
use serde_json::Value as Json;
use sluicegate_base::form_encoding::{PlusMeaning, decode};
use sluicegate_base::parameter_name::{NameMatch, WantedName};
use sluicegate_base::received::ReceivedFields;

use super::value::{Value, agreed, cut_at};
use crate::rejection::MissingReason;

/// Returns the value of the cookie `name`. RFC 9113 §8.2.3: in HTTP/2 cookies may come in several fields.
pub(super) fn find<'a>(
    headers: &'a ReceivedFields,
    name: &str,
) -> Result<Value<'a>, MissingReason> {
    let wanted = WantedName::new(name);
    let mut found = Err(MissingReason::Absent);
    for field in headers.get_all(COOKIE) {
        for pair in field.as_bytes().split(|byte| *byte == b';') {
            let Some((before, behind)) = cut_at(pair, b'=') else {
                if likeness(&wanted, pair) != NameMatch::Other {
                    // An empty value for some, none for others.
                    return Err(MissingReason::Repeated);
                }
                continue;
            };
            if hides(&wanted, pair) {
                return Err(MissingReason::Repeated);
            }
            if before.trim_ascii() == name.as_bytes() {
                found = agreed(found, value(behind)?);
            } else if likeness(&wanted, before) != NameMatch::Other {
                return Err(MissingReason::Repeated);
            }
            if found == Err(MissingReason::Repeated) {
                return found;
            }
        }
    }
    found
}

/// Returns the value for an origin that looks for a parameter among the cookies too. Such origins split at `;` alone.
pub(super) fn merged<'a>(
    headers: &'a ReceivedFields,
    name: &str,
) -> Result<Value<'a>, MissingReason> {
    let wanted = WantedName::new(name);
    let mut found = Err(MissingReason::Absent);
    for field in headers.get_all(COOKIE) {
        for pair in field.as_bytes().split(|byte| *byte == b';') {
            let (before, behind) = cut_at(pair, b'=').unwrap_or((pair, b""));
            match likeness(&wanted, before) {
                NameMatch::Other => {}
                NameMatch::Alias => return Err(MissingReason::Repeated),
                NameMatch::Same => found = Ok(agreed(found, value(behind)?)?),
            }
        }
    }
    found
}

fn likeness(wanted: &WantedName<'_>, name: &[u8]) -> NameMatch {
    wanted.compare(&decode(name.trim_ascii(), PlusMeaning::Space))
}

/// Returns whether a parser that splits at more than `;` finds the name inside a pair: behind a blank, a comma or a quote, in front of
/// a `=`.
fn hides(wanted: &WantedName<'_>, pair: &[u8]) -> bool {
    let pair = pair.trim_ascii();
    // Some take what follows the `=` of an empty name for a pair of its own.
    let lead = pair.iter().take_while(|byte| **byte == b'=').count();
    let mut before = 0;
    for (at, _) in pair.iter().enumerate().filter(|(_, byte)| **byte == b'=') {
        let text = trimmed_end(&pair[before..at]);
        let is_end = |byte: &u8| is_blank(*byte) || matches!(byte, b',' | b'"');
        let token = match text.iter().rposition(is_end) {
            Some(end) => &text[end + 1..],
            // The name of the pair itself, and what is between two `=`.
            None if before == lead && lead > 0 => text,
            None => b"",
        };
        if likeness(wanted, token) != NameMatch::Other {
            return true;
        }
        before = at + 1;
    }
    false
}

/// Returns whether a byte is white space in ASCII or in Latin-1, which some servers use for fields.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, 0x0b | 0x1c..=0x1f | 0x85 | 0xa0)
}

fn trimmed(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_blank(*first)
    {
        bytes = rest;
    }
    trimmed_end(bytes)
}

fn trimmed_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., last] = bytes
        && is_blank(*last)
    {
        bytes = rest;
    }
    bytes
}

/// Returns a value as it is written: up to the place where the first parser would end it, decoded, without the quotes around it.
fn value(written: &[u8]) -> Result<Value<'_>, MissingReason> {
    let written = trimmed(written);
    let plain = match written {
        [b'"', inner @ .., b'"'] => inner,
        _ => written,
    };
    let is_odd = |at: usize| plain.get(at) == Some(&b'"');
    let is_json = plain.starts_with(b"j:");
    if !is_json && (is_odd(0) || (!plain.is_empty() && is_odd(plain.len() - 1))) {
        return Err(MissingReason::Malformed);
    }
    if plain.len() < written.len() && plain.iter().any(|byte| matches!(byte, b'"' | b'\\')) {
        // Python reads `\106` as `F` in a quoted text, others do not.
        return Err(MissingReason::Malformed);
    }
    // A merged value makes a limit stricter, so the shortest reading counts for all.
    let end = plain
        .iter()
        .position(|byte| byte.is_ascii_whitespace() || *byte == b',');
    let value = decode(&plain[..end.unwrap_or(plain.len())], PlusMeaning::Space);
    // Some origins decode `+` to a space and others do not: both are one value, however they are written.
    let value = if value.contains(&b'+') {
        let spaced = value
            .iter()
            .map(|byte| if *byte == b'+' { b' ' } else { *byte });
        Cow::Owned(spaced.collect())
    } else {
        value
    };
    in_json(value)
}

/// Express reads what follows `j:` as JSON, in which one text has many spellings.
fn in_json(value: Value<'_>) -> Result<Value<'_>, MissingReason> {
    let Some(text) = value.strip_prefix(b"j:") else {
        return Ok(value);
    };
    match serde_json::from_slice(text) {
        Ok(Json::String(text)) => Ok(Cow::Owned(text.into_bytes())),
        Ok(_) => Err(MissingReason::Malformed),
        Err(_) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn cookie(fields: &[&[u8]]) -> Result<String, MissingReason> {
        let mut headers = ReceivedFields::new();
        for field in fields {
            let field = HeaderValue::from_bytes(field).expect("a field");
            headers.append(COOKIE, field);
        }
        find(&headers, "sid").map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    /// Goal: spellings of one cookie share a counter. Method: one field and several, quotes, escapes, equal copies, what some parsers cut.
    #[test]
    fn a_cookie_is_one_value() {
        for (text, value) in [
            ("a=1; sid=x", "x"),
            ("sid=\"x\"", "x"),
            ("sid=%78;sid=x", "x"),
            ("sid=", ""),
            ("sid=a=b", "a=b"),
            ("sid = x ", "x"),
            ("sid=x\t y", "x"),
            ("sid=x, y", "x"),
            ("sid=\"x y\"", "x"),
            ("sid=a+b", "a b"),
            ("sid=a%2Bb", "a b"),
            ("sid=a%20b", "a b"),
            ("sid=j:\"x\"", "x"),
            ("sid=j%3A%22%5Cu0078%22", "x"),
            ("sid=j:x", "j:x"),
            ("sid=%u0078", "x"),
            ("a=b:sid=y; sid=x; c=sidx=1&sid=z", "x"),
            ("sids=1; xsid=2; sid=x; a=sid", "x"),
        ] {
            assert_eq!(cookie(&[text.as_bytes()]).as_deref(), Ok(value), "{text}");
        }
        assert_eq!(cookie(&[b"a=1", b"sid=\"x\""]).as_deref(), Ok("x"));
        assert_eq!(cookie(&[b"sid=x\xa0"]).as_deref(), Ok("x"));
    }

    /// Goal: where parsers find different values there is none. Method: the tricks against `http.cookies`, PHP, Rack, Django, Werkzeug, and
    /// old Java, each alone and beside the plain cookie.
    #[test]
    fn what_parsers_read_in_different_ways_is_no_value() {
        for trick in [
            "a=b sid=y",
            "a=b\tsid=y",
            "a=b, sid=y",
            "a=b,sid=y",
            "a=b sid =y",
            "a=\"b sid=y",
            "a=\"sid=y\"",
            "a=\"b\"sid=y",
            "a sid=y",
            "x,sid=y",
            "=sid=y",
            "a==b sid=y",
            "a=b sid=y=z",
            "sid",
            "\"sid\"=y",
            "SID=y",
            "sid[]=y",
            "sid[x]=y",
            "%73id=y",
            "sid%00=y",
            "+sid=y",
            "a=b %73id=y",
            "a=b, Sid=y",
            "\u{a0}sid=y",
            "sid\u{a0}=y",
        ] {
            // As Latin-1.
            let trick: Vec<u8> = trick.chars().map(|letter| letter as u8).collect();
            let beside = [b"sid=x; ", &trick[..]].concat();
            for field in [&trick, &beside] {
                let shown = String::from_utf8_lossy(field).into_owned();
                assert_eq!(cookie(&[field]), Err(MissingReason::Repeated), "{shown}");
            }
            assert_eq!(cookie(&[b"sid=x", &trick]), Err(MissingReason::Repeated));
        }
        assert_eq!(cookie(&[b"sid=x; sid=y"]), Err(MissingReason::Repeated));
        assert_eq!(cookie(&[b"sid=x", b"sid=y"]), Err(MissingReason::Repeated));
        for text in [
            "sid=\"x",
            "sid=x\"",
            "sid=\"\\106\"",
            "sid=\"a\"b\"",
            "sid=\"",
            "sid=j:{}",
            "sid=\"x;y\"",
        ] {
            assert_eq!(
                cookie(&[text.as_bytes()]),
                Err(MissingReason::Malformed),
                "{text}"
            );
        }
        for text in ["", ";", "a=1", "sids=1; b=sid", "a=sid=1", "a=b&sid=1"] {
            assert_eq!(
                cookie(&[text.as_bytes()]),
                Err(MissingReason::Absent),
                "{text}"
            );
        }
        assert_eq!(cookie(&[]), Err(MissingReason::Absent));
    }
}
