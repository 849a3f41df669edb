//! Decides which answers are compressed, and by which coding (RFC 9110 §8.4, §12.5.3).
//!
//! A response that may be compressed has `Vary` for every client, since a cache in between would serve the one form to a client
//! that accepts only the other. A compressed response consists of other bytes: its strong validator becomes a weak one, also in a
//! 304 to a client that has it, and fields about bytes (length, ranges, digests) are removed. Not compressed are responses that have a
//! coding already, parts of a representation, those with `no-transform` (RFC 9111 §5.2.2.6), and those that would hardly become shorter.
//!
//! # Limits
//! At most [`ACCEPT_RANGES`](bounds::ACCEPT_RANGES) codings of `Accept-Encoding` are read.

use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, ETAG, IF_NONE_MATCH, TRANSFER_ENCODING, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use sluicegate_base::bounds;
use sluicegate_base::received::{FieldValue, ReceivedFields};
use sluicegate_config::rules::{CompressRules, ContentCoding};

use super::negotiate::thousandths;

/// The treatment of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodingPlan {
    /// The response is of a kind that is never compressed.
    LeaveAlone,
    /// It could be compressed, but this client accepts no coding: only `Vary` is added.
    Vary,
    /// It is compressed.
    Compress(ContentCoding),
}

/// The parts of a request that decide about compression.
#[derive(Clone, Copy, Debug)]
pub struct EncodingRequest<'a> {
    /// Its version.
    pub version: http::Version,
    /// Its fields.
    pub headers: &'a ReceivedFields,
}

/// Decides about an answer to any method with this status and these fields, whose body has so many bytes, if that is known.
#[must_use]
pub fn plan(
    rules: &CompressRules,
    asked: &EncodingRequest<'_>,
    (status, length): (StatusCode, Option<u64>),
    headers: &HeaderMap,
) -> EncodingPlan {
    // The coding of no bytes has some.
    let is_short = length.is_some_and(|length| length < rules.min_bytes.max(1));
    if rules.encodings.is_empty() || is_short || !is_compressible(rules, status, headers) {
        return EncodingPlan::LeaveAlone;
    }
    // HTTP/1.0 has no chunks, and a body of unknown length would cost its connection.
    let directives = asked.headers.get_all(CACHE_CONTROL);
    let takes_any =
        asked.version >= http::Version::HTTP_11 && !has_token(directives, "no-transform");
    match choose(asked.headers, &rules.encodings).filter(|_| takes_any) {
        Some(coding) => EncodingPlan::Compress(coding),
        None => EncodingPlan::Vary,
    }
}

fn is_compressible(rules: &CompressRules, status: StatusCode, headers: &HeaderMap) -> bool {
    let bodiless = status.is_informational()
        || [
            StatusCode::NO_CONTENT,
            StatusCode::RESET_CONTENT,
            StatusCode::NOT_MODIFIED,
        ]
        .contains(&status);
    let is_part = status == StatusCode::PARTIAL_CONTENT || headers.contains_key(CONTENT_RANGE);
    let is_encoded = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
    !bodiless
        && !is_part
        && !is_encoded
        && is_of_type(rules, headers)
        && !has_token(values(headers, &CACHE_CONTROL), "no-transform")
}

fn is_of_type(rules: &CompressRules, headers: &HeaderMap) -> bool {
    let Some(text) = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
    else {
        return false;
    };
    let essence = text
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_listed = rules.types.iter().any(|of| match of.strip_suffix('*') {
        Some(kind) => essence.starts_with(kind),
        None => essence == **of,
    });
    // gRPC compresses its messages itself, and its clients read the status in trailers.
    is_listed && !essence.starts_with("application/grpc")
}

fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = FieldValue<'a>> {
    headers.get_all(name).iter().map(FieldValue::from)
}

fn has_token<'a>(lines: impl Iterator<Item = FieldValue<'a>>, token: &str) -> bool {
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .any(|directive| directive.trim().eq_ignore_ascii_case(token))
}

/// Returns the coding that the client prefers; of equally preferred ones the first of `ours`. `None` if it prefers the plain
/// answer to all of them.
fn choose(headers: &ReceivedFields, ours: &[ContentCoding]) -> Option<ContentCoding> {
    let asked = || {
        let lines = headers.get_all(ACCEPT_ENCODING);
        let lines = lines.filter_map(|line| line.to_str().ok());
        lines
            .flat_map(|line| line.split(','))
            .take(bounds::ACCEPT_RANGES)
            .filter_map(weighed)
    };
    let named = |name: &str| {
        let own = asked().find(|(coding, _)| coding.eq_ignore_ascii_case(name));
        own.map(|(_, weight)| weight)
    };
    let others = named("*");
    // RFC 9110 §12.5.3: `*` covers codings that are not listed; the plain answer is acceptable unless it is ruled out.
    let plain = named("identity").unwrap_or(0);
    let weight = |coding: ContentCoding| {
        let own = match coding {
            ContentCoding::Gzip => named("gzip").or_else(|| named("x-gzip")),
            ContentCoding::Zstd | ContentCoding::Brotli => named(coding.name()),
        };
        own.or(others).unwrap_or(0)
    };
    let liked = ours.iter().map(|coding| (weight(*coding), *coding));
    // The first of the best: `max_by_key` would take the last.
    let best = liked.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
    (best.0 > 0 && best.0 >= plain).then_some(best.1)
}

/// Returns a coding with its weight in thousandths; `None` for an invalid one.
fn weighed(text: &str) -> Option<(&str, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let coding = parts.next().filter(|coding| !coding.is_empty())?;
    let weight = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("q")
            .then_some(value.trim())
    });
    Some((coding, weight.map_or(Some(1_000), thousandths)?))
}

/// The changes to the head of a compressed response.
#[derive(Debug)]
pub struct EncodedHead {
    /// Fields to insert.
    pub insert: Vec<(HeaderName, HeaderValue)>,
    /// Fields to remove.
    pub remove: &'static [HeaderName],
}

/// Fields that describe the uncompressed bytes.
static OF_BYTES: [HeaderName; 6] = [
    CONTENT_LENGTH,
    ACCEPT_RANGES,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
];

/// Returns the changes to the head of a response that is compressed with `coding`; `Vary` comes from [`vary`].
#[must_use]
pub fn rewrite(coding: ContentCoding, headers: &HeaderMap) -> EncodedHead {
    let mut insert = vec![
        (CONTENT_ENCODING, HeaderValue::from_static(coding.name())),
        // Removed again for HTTP/2.
        (TRANSFER_ENCODING, HeaderValue::from_static("chunked")),
    ];
    insert.extend(weak_form(headers).map(|weak| (ETAG, weak)));
    EncodedHead {
        insert,
        remove: &OF_BYTES,
    }
}

/// Returns the validator of a 304 for a client that has the compressed form, which is the one of the origin made weak; `None` where the
/// origin's stays. RFC 9110 §15.4.5: it is that of the 200 that the client has, and `If-None-Match` names the one that the client got.
#[must_use]
pub fn validator_of_compressed(
    rules: &CompressRules,
    asked: &ReceivedFields,
    headers: &HeaderMap,
) -> Option<HeaderValue> {
    if rules.encodings.is_empty() || !asked.contains_key(IF_NONE_MATCH) {
        return None;
    }
    let strong = headers.get(ETAG)?;
    let weak = weak_form(headers)?;
    let names = |tag: &HeaderValue| {
        let mut lines = asked.get_all(IF_NONE_MATCH);
        lines.any(|line| entity_tags(line.as_bytes()).any(|named| named == tag.as_bytes()))
    };
    (names(&weak) && !names(strong)).then_some(weak)
}

/// Returns the weak form of a strong validator, RFC 9110 §8.8.3; `None` without one.
fn weak_form(headers: &HeaderMap) -> Option<HeaderValue> {
    let strong = headers.get(ETAG)?.as_bytes();
    if !strong.starts_with(b"\"") {
        return None;
    }
    HeaderValue::from_bytes(&[b"W/", strong].concat()).ok()
}

/// Returns the entity tags of a list, which may have commas in them but no quotes, RFC 9110 §8.8.3.
fn entity_tags(mut list: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let start = list.iter().position(|byte| b"W\"".contains(byte))?;
        let open = start + list[start..].iter().position(|byte| *byte == b'"')?;
        let close = open + 1 + list[open + 1..].iter().position(|byte| *byte == b'"')?;
        let tag = &list[start..=close];
        list = &list[close + 1..];
        Some(tag)
    })
}

/// Returns the line of `Vary` to append for an answer that differs by the field `on`; `None` where it is there already.
#[must_use]
pub fn vary(headers: &HeaderMap, on: &'static str) -> Option<(HeaderName, HeaderValue)> {
    let said = has_token(values(headers, &VARY), on) || has_token(values(headers, &VARY), "*");
    (!said).then(|| (VARY, HeaderValue::from_static(on)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rules() -> CompressRules {
        CompressRules {
            encodings: ContentCoding::ALL.to_vec(),
            level: None,
            min_bytes: 1024,
            types: vec!["text/*".into(), "application/*".into()],
        }
    }

    fn chosen(accept: &str) -> Option<ContentCoding> {
        let value = HeaderValue::from_str(accept).expect("a value");
        choose(
            &ReceivedFields::from_iter([(ACCEPT_ENCODING, value)]),
            &ContentCoding::ALL,
        )
    }

    /// Goal: weights decide as the RFC says, and our order among equals. Method: values of browsers and libraries, and the
    /// corner cases.
    #[test]
    fn the_client_weighs_and_the_rules_decide_between_equals() {
        assert_eq!(chosen("gzip, deflate, br, zstd"), Some(ContentCoding::Zstd));
        assert_eq!(chosen("gzip, deflate, br"), Some(ContentCoding::Brotli));
        assert_eq!(chosen("gzip;q=1.0, br;q=0.9"), Some(ContentCoding::Gzip));
        assert_eq!(chosen("GZIP"), Some(ContentCoding::Gzip));
        assert_eq!(chosen("x-gzip"), Some(ContentCoding::Gzip));
        assert_eq!(chosen("*"), Some(ContentCoding::Zstd));
        assert_eq!(chosen("*;q=0.5, zstd;q=0"), Some(ContentCoding::Brotli));
        assert_eq!(chosen("gzip;q=0"), None);
        assert_eq!(chosen("identity"), None);
        assert_eq!(chosen("identity;q=1, gzip;q=0.5"), None);
        assert_eq!(
            chosen("identity;q=0.5, gzip;q=0.5"),
            Some(ContentCoding::Gzip)
        );
        assert_eq!(chosen("deflate"), None);
        assert_eq!(chosen("gzip;q=2"), None);
        assert_eq!(chosen(""), None);
        assert_eq!(choose(&ReceivedFields::new(), &ContentCoding::ALL), None);
    }

    fn of(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        let fields = fields.iter().cloned();
        HeaderMap::from_iter(fields.map(|(name, value)| (name, HeaderValue::from_static(value))))
    }

    fn planned(
        (status, length): (u16, Option<u64>),
        fields: &[(HeaderName, &'static str)],
    ) -> EncodingPlan {
        let headers = of(&[(ACCEPT_ENCODING, "gzip")]).into();
        let asked = EncodingRequest {
            version: http::Version::HTTP_11,
            headers: &headers,
        };
        let status = StatusCode::from_u16(status).expect("a status");
        plan(&rules(), &asked, (status, length), &of(fields))
    }

    /// Goal: only responses that gain by it are compressed. Method: one that is, and one difference at a time.
    #[test]
    fn what_is_encoded_short_or_a_part_is_left_alone() {
        let html = (CONTENT_TYPE, "Text/HTML; charset=utf-8");
        let get = |status, fields: &[_]| planned((status, None), fields);
        assert_eq!(
            get(200, std::slice::from_ref(&html)),
            EncodingPlan::Compress(ContentCoding::Gzip)
        );
        for (length, expected) in [
            (1024, EncodingPlan::Compress(ContentCoding::Gzip)),
            (1023, EncodingPlan::LeaveAlone),
        ] {
            let of = std::slice::from_ref(&html);
            let plan = planned((404, Some(length)), of);
            assert_eq!(plan, expected, "{length}");
        }
        assert_eq!(
            get(200, &[html.clone(), (CONTENT_ENCODING, "identity")]),
            EncodingPlan::Compress(ContentCoding::Gzip)
        );
        for (status, field) in [
            (200, (CONTENT_ENCODING, "br")),
            (200, (CONTENT_ENCODING, "unknown")),
            (200, (CACHE_CONTROL, "public, No-Transform")),
            (200, (CONTENT_RANGE, "bytes 0-1/2")),
            (206, (VARY, "a")),
            (304, (VARY, "a")),
            (204, (VARY, "a")),
            (101, (VARY, "a")),
        ] {
            assert_eq!(
                get(status, &[html.clone(), field.clone()]),
                EncodingPlan::LeaveAlone,
                "{status} {field:?}"
            );
        }
        for kind in [
            "image/png",
            "application/grpc",
            "Application/gRPC+proto",
            "application/grpc-web-text",
        ] {
            let plan = get(200, &[(CONTENT_TYPE, kind)]);
            assert_eq!(plan, EncodingPlan::LeaveAlone, "{kind}");
        }
        assert_eq!(get(200, &[]), EncodingPlan::LeaveAlone);
    }

    /// Goal: a body without bytes has no coding, whatever the shortest body that is compressed. Method: lengths of none and of one byte
    /// where every body is compressed.
    #[test]
    fn nothing_is_never_compressed() {
        let rules = CompressRules {
            min_bytes: 0,
            ..rules()
        };
        let headers = of(&[(ACCEPT_ENCODING, "gzip")]).into();
        let asked = EncodingRequest {
            version: http::Version::HTTP_11,
            headers: &headers,
        };
        let html = of(&[(CONTENT_TYPE, "text/html")]);
        let planned = |length| plan(&rules, &asked, (StatusCode::OK, Some(length)), &html);
        assert_eq!(planned(0), EncodingPlan::LeaveAlone);
        assert_eq!(planned(1), EncodingPlan::Compress(ContentCoding::Gzip));
    }

    /// Goal: fields about bytes stay correct. Method: a strong validator, a weak one, and a Vary that has the field already.
    #[test]
    fn validators_become_weak_and_vary_is_said_once() {
        let etag = |value| {
            let headers = of(&[(ETAG, value)]);
            let rewritten = rewrite(ContentCoding::Gzip, &headers);
            let found = rewritten.insert.into_iter().find(|(name, _)| name == ETAG);
            found.map(|(_, value)| value.to_str().expect("text").to_owned())
        };
        assert_eq!(etag("\"a\"").as_deref(), Some("W/\"a\""));
        assert_eq!(etag("W/\"a\""), None);
        assert!(vary(&of(&[(VARY, "origin, Accept-Encoding")]), "accept-encoding").is_none());
        assert!(vary(&of(&[(VARY, "*")]), "accept-encoding").is_none());
        assert!(vary(&of(&[(VARY, "origin")]), "accept-encoding").is_some());
    }

    /// Goal: a 304 has the validator of the form that its client has. Method: what the client names, beside the origin's validators.
    #[test]
    fn a_304_has_the_validator_that_the_client_got() {
        let validator = |named: &[&'static str], etag, rules: &CompressRules| {
            let named = (named.iter()).map(|line| (IF_NONE_MATCH, HeaderValue::from_static(line)));
            let asked = ReceivedFields::from_iter(named);
            validator_of_compressed(rules, &asked, &of(&[(ETAG, etag)]))
        };
        for (named, is_weak) in [
            (&["W/\"a\""][..], true),
            (&["\"b\", W/\"a\""], true),
            (&["\"b\"", " W/\"a\" ,\"c\""], true),
            (&["\"a\""], false),
            (&["W/\"a\", \"a\""], false),
            (&["\"a\"", "W/\"a\""], false),
            (&["\"x,W/\"a\""], false),
            (&["W/\"a"], false),
            (&["*"], false),
            (&[], false),
        ] {
            let found = validator(named, "\"a\"", &rules());
            assert_eq!(
                found,
                is_weak.then(|| HeaderValue::from_static("W/\"a\"")),
                "{named:?}"
            );
        }
        assert_eq!(validator(&["W/\"a\""], "W/\"a\"", &rules()), None);
        let mut none = rules();
        none.encodings.clear();
        assert_eq!(validator(&["W/\"a\""], "\"a\"", &none), None);
    }

    proptest! {
        /// Goal: no client causes a panic, or gets a coding that it rules out. Method: any text, and a `q=0` for each coding.
        #[test]
        fn any_accept_encoding_has_an_answer(text in "[ -~]{0,80}", weights in prop::collection::vec(0_u16..=1, 3)) {
            let _ = chosen(&text);
            let line: Vec<String> = ContentCoding::ALL.iter().zip(&weights)
                .map(|(coding, weight)| format!("{};q={weight}", coding.name())).collect();
            let all = ContentCoding::ALL.iter();
            let allowed = |coding: &ContentCoding| weights[all.clone().position(|one| one == coding).expect("one of all")] > 0;
            prop_assert_eq!(chosen(&line.join(",")), ContentCoding::ALL.into_iter().find(allowed));
        }
    }
}
