//! Decides which value of a cookie a key counts by.
//!
//! Parsers of cookies agree on little: some split at `;` alone, others at blanks, commas, quotes, brackets or what is no ASCII, and some
//! trim, decode or fold names. So a cookie is read only where all of them find it: its name stands in front of a `=` exactly once, behind
//! the beginning of a field or a `;` with at most one blank, and its value has the characters of session ids and tokens. Other cookies
//! hold what they like, as long as the name, or an alias of it, is in none of them where a parser may begin a name.
//!
//! # Limits
//! Fields are read in one pass, and at most [`PARAMETER_NAMES`](bounds::PARAMETER_NAMES) names of them.

use std::borrow::Cow;

use crate::rejection::MissingReason;
use http::header::COOKIE;
use sluicegate_base::bounds;
use sluicegate_base::parameter_name::WantedName;
use sluicegate_base::received::ReceivedFields;

use super::facts::Value;
use super::value::{cut_at, text};

/// Returns the value of the cookie with the wanted name. RFC 9113 §8.2.3: in HTTP/2 cookies may come in several fields.
pub(super) fn find<'a>(
    headers: &'a ReceivedFields,
    wanted: &WantedName<'_>,
) -> Result<Value<'a>, MissingReason> {
    let mut found = Err(MissingReason::Absent);
    let mut names = 0;
    for field in headers.get_all(COOKIE) {
        for pair in field.as_bytes().split(|byte| *byte == b';') {
            // All parsers find a name here, after at most one blank.
            let plain = pair.strip_prefix(b" ").unwrap_or(pair);
            let is_plain = plain
                .strip_prefix(wanted.name.as_bytes())
                .and_then(|rest| rest.strip_prefix(b"="));
            let hits = each_name(pair)
                .filter(|name| wanted.is_within(name))
                .count();
            names += 1;
            match (hits, is_plain) {
                _ if names > bounds::PARAMETER_NAMES => return Err(MissingReason::Malformed),
                (0, _) => {}
                (1, Some(text)) if found.is_err() => found = Ok(value(text)?),
                _ => return Err(MissingReason::Malformed),
            }
        }
    }
    found
}

/// Returns the texts of a pair that some parser may take for names: what stands in front of the first `=`, or the whole pair where there
/// is none, which is a name without a value for some; and in front of each other `=` what begins behind a byte at which some parser ends
/// a value.
fn each_name(pair: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (first, value) = cut_at(pair, b'=').unwrap_or((pair, b""));
    let mut has_name = first.last().is_some_and(is_text);
    let may_begin = |byte: &u8| !is_text(byte) || matches!(byte, b'[' | b']');
    let value = match has_name && !value.iter().any(may_begin) {
        true => b"",
        false => value,
    };
    // The last text behind the last `=`, and whether a parser may begin a name in it.
    let mut start = 0;
    let mut end = 0;
    let mut is_name = !has_name;
    let others = value.iter().enumerate().filter_map(move |(at, byte)| {
        if *byte == b'=' {
            let name = (is_name && start < end).then(|| &value[start..end]);
            // Behind an empty name some find a pair of its own.
            has_name = end == at && (has_name || start < end);
            start = at + 1;
            end = start;
            is_name = !has_name;
            return name;
        }
        if is_text(byte) {
            if end < at {
                (start, is_name) = (at, true);
            }
            end = at + 1;
            is_name |= matches!(byte, b'[' | b']');
        }
        None
    });
    std::iter::once(first).chain(others)
}

/// Returns whether a byte is text to all parsers; some end a value at others.
fn is_text(byte: &u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b'\\')
}

/// Returns a value: characters of session ids and tokens, in quotes or not.
fn value(written: &[u8]) -> Result<Value<'_>, MissingReason> {
    let plain = match written {
        [b'"', inner @ .., b'"'] => inner,
        _ => written,
    };
    // The ranges are `-./0-9:` and `@A-Z`.
    let is_sound = |byte: &u8| {
        matches!(byte, b'!' | b'$'..=b'%' | b'*'..=b'+' | b'-'..=b':' | b'=')
            || matches!(byte, b'@'..=b'Z' | b'_' | b'a'..=b'z' | b'|' | b'~')
    };
    if !plain.iter().all(is_sound) {
        return Err(MissingReason::Malformed);
    }
    let value = text(plain)?;
    if value.starts_with(b"j:") {
        // Express reads JSON behind it, in which one text has many spellings.
        return Err(MissingReason::Malformed);
    }
    // Some origins decode `+` to a space and others do not: both are one value, however they are written.
    if !value.contains(&b'+') {
        return Ok(value);
    }
    let spaced = value
        .iter()
        .map(|byte| if *byte == b'+' { b' ' } else { *byte });
    Ok(Cow::Owned(spaced.collect()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;
    use sluicegate_base::parameter_name::OtherNames;

    use super::*;

    fn cookie_named(name: &str, fields: &[&[u8]]) -> Result<String, MissingReason> {
        let mut headers = ReceivedFields::new();
        for field in fields {
            let field = HeaderValue::from_bytes(field).expect("a field");
            headers.append(COOKIE, field);
        }
        let others = OtherNames::Canonical;
        let wanted = WantedName { name, others };
        find(&headers, &wanted).map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    fn cookie(fields: &[&[u8]]) -> Result<String, MissingReason> {
        cookie_named("sid", fields)
    }

    /// Goal: spellings of one cookie share a counter. Method: one field and several, quotes, escapes, and what stands in other cookies.
    #[test]
    fn a_cookie_is_one_value() {
        for (text, value) in [
            ("a=1; sid=x", "x"),
            ("a=1;sid=x;b", "x"),
            ("sid=\"x\"", "x"),
            ("sid=%78", "x"),
            ("sid=", ""),
            ("sid=a=b", "a=b"),
            ("sid=a+b", "a b"),
            ("sid=a%2Bb", "a b"),
            ("sid=a%20b", "a b"),
            ("sid=s%3Aab.c/d+==", "s:ab.c/d =="),
            ("a=b:sid=y; sid=x; c=sidx=1&sid=z", "x"),
            ("sids=1; xsid=2; sid=x; a=sid; my.sid=1; x[sid2]=3", "x"),
            ("sid=x; sid.sig=y; sid.0=z", "x"),
            (
                "a={\"sid\": \"y\", \"b\": [1, 2]}; sid=x; b=a, b c; sid_2=1",
                "x",
            ),
            ("a==sid=y; sid=x", "x"),
        ] {
            assert_eq!(cookie(&[text.as_bytes()]).as_deref(), Ok(value), "{text}");
        }
        assert_eq!(cookie(&[b"a=1", b"sid=\"x\""]).as_deref(), Ok("x"));
        assert_eq!(
            cookie_named(".ASPXAUTH", &[b"a=1; .ASPXAUTH=x"]).as_deref(),
            Ok("x")
        );
        assert_eq!(
            cookie_named("__Host-id", &[b"__Host-id=x; id=y"]).as_deref(),
            Ok("x")
        );
    }

    /// Goal: where parsers find different values there is none. Method: the tricks against `http.cookies`, WebOb, PHP, Rack, Django,
    /// Werkzeug, and old Java, each alone and beside the plain cookie.
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
            "a=b[sid=y",
            "a=b]sid=y",
            "xx[sid=y",
            "a=b\\sid=y",
            "a=b\u{e9}sid=y",
            "a sid=y",
            "x,sid=y",
            "(sid=y",
            "{@sid=y",
            "=sid=y",
            "a= =sid=y",
            "a==b sid=y",
            "a=b sid=y=z",
            "sid",
            "\"sid\"=y",
            "\"sid\"",
            "SID=y",
            "sid[]=y",
            "sid[x]=y",
            "sid[a/b]=y",
            "sid[a b]=y",
            "sid[\"b\"]=y",
            "sid[\u{e9}]=y",
            "__Host-sid=y",
            "__Secure-sid=y",
            "a=Mon, 01-Jan-2024 00:00:00 GMTsid=y",
            "sid =y",
            "sid,=y",
            "  sid=y",
            "a=b;\tsid=y",
            "%73id=y",
            "sid%00=y",
            "sid%20=y",
            "+sid=y",
            "a=b %73id=y",
            "a=b, Sid=y",
            "\u{a0}sid=y",
            "sid\u{a0}=y",
            "sid=x",
        ] {
            // As Latin-1.
            let trick: Vec<u8> = trick.chars().map(|letter| letter as u8).collect();
            let beside = [b"sid=x; ", &trick[..]].concat();
            let before = [&trick[..], b"; sid=x"].concat();
            for field in [&beside, &before] {
                let shown = String::from_utf8_lossy(field).into_owned();
                assert_eq!(cookie(&[field]), Err(MissingReason::Malformed), "{shown}");
            }
            assert_eq!(cookie(&[b"sid=x", &trick]), Err(MissingReason::Malformed));
            if trick != b"sid=x" {
                assert_eq!(cookie(&[&trick]), Err(MissingReason::Malformed));
            }
        }
        for text in [
            "sid=\"x",
            "sid=x\"",
            "sid=\"\\106\"",
            "sid=\"a\"b\"",
            "sid=\"",
            "sid=\"x;y\"",
            "sid=x y",
            "sid=x ; a=b",
            "sid=x, y",
            "sid=x,y",
            "sid= x",
            "sid=R[1",
            "sid=R]",
            "sid=x&y",
            "sid=x%ff",
            "sid={x}",
            "sid=x\ty",
            "sid=%zz",
            "sid=%u0078",
            "sid=j:\"x\"",
            "sid=j%3A%22x%22",
            "sid=j:x",
        ] {
            assert_eq!(
                cookie(&[text.as_bytes()]),
                Err(MissingReason::Malformed),
                "{text}"
            );
        }
        assert_eq!(cookie(&[b"sid=x\xa0y"]), Err(MissingReason::Malformed));
        for text in [
            "",
            ";",
            "a=1",
            "sids=1; b=sid",
            "a=sid=1",
            "a=b&sid=1",
            "a=(b)&sid=1",
            "a=b|sid=1",
        ] {
            assert_eq!(
                cookie(&[text.as_bytes()]),
                Err(MissingReason::Absent),
                "{text}"
            );
        }
        assert_eq!(cookie(&[]), Err(MissingReason::Absent));
    }

    proptest! {
        /// Goal: nothing a client sends stops the process. Method: texts of what cookies are made of.
        #[test]
        fn every_field_is_read(text in "[sid=; ,\\[\\]\"%0\\\\]{0,24}") {
            let _ = cookie(&[text.as_bytes()]);
        }
    }
}
