//! Fuzzes keys by what is in a body: what is found is what the origin's parser finds, and nothing is found twice.
//!
//! JSON is asked of `serde_json`'s own tree, forms of the URL standard's parser. Both keep one of several members of a name, so where the
//! gateway says that there are several, that is checked on the text.
//!
//! Multipart forms have no second parser here: what is found must stand in the body.
//!
//! A case is text: `json /pointer` or `form name` on the first line, the content type on the second, then the body.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::Value as Json;
use sluicegate_base::bounds::{BODY_KEY_BYTES, KEY_VALUE_BYTES, POINTER_STEPS};
use sluicegate_base::crawler::{ClientCrawler, CrawlerRegistry, CrawlerRequest};
use sluicegate_base::geo::{ClientPlace, GeoDatabases};
use sluicegate_base::jwt::PresentedToken;
use sluicegate_base::normal_form::trimmed;
use sluicegate_base::parameter_name::{OtherNames, is_canonical};
use sluicegate_base::received::ReceivedFields;
use sluicegate_config::rules::{Pointer, ValuePart, ValueSource};
use sluicegate_decide::admission::{BodyKind, KnownBody, RequestFacts, body_kind, normal_value};
use sluicegate_decide::client::PeerTrust;
use sluicegate_decide::rejection::MissingReason;
use sluicegate_limiter::Timestamp;

fuzz_target!(|bytes: &[u8]| -> Corpus { run(bytes).map_or(Corpus::Reject, |()| Corpus::Keep) });

fn run(bytes: &[u8]) -> Option<()> {
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let (kind, name) = std::str::from_utf8(lines.next()?).ok()?.split_once(' ')?;
    let content_type = HeaderValue::from_bytes(lines.next()?).ok()?;
    let body = lines.next()?;
    let steps: Vec<&str> = name.split('/').skip(1).collect();
    let in_bounds = name.starts_with('/') && steps.len() <= POINTER_STEPS;
    let (source, wanted) = match kind {
        "json" if in_bounds && !name.contains('~') => {
            let steps = steps.iter().map(|step| Arc::from(*step)).collect();
            (ValueSource::Json(Pointer(steps)), BodyKind::Json)
        }
        "form" => (ValueSource::Form(Arc::from(name)), BodyKind::Form),
        _ => return None,
    };
    let mut headers = ReceivedFields::new();
    headers.insert(CONTENT_TYPE, content_type);
    let found = find(&source, &headers, KnownBody::Whole(body));

    for unseen in [
        KnownBody::Unread,
        KnownBody::TooLarge,
        KnownBody::OfOtherKind,
    ] {
        assert!(
            find(&source, &headers, unseen).is_err(),
            "{unseen:?} has a value"
        );
    }
    if body.is_empty() {
        assert_eq!(found, Err(MissingReason::Absent));
    } else if wanted == BodyKind::Form && body_kind(&headers) == Ok(BodyKind::Multipart) {
        if let Ok(value) = &found {
            let is_there =
                value.is_empty() || body.windows(value.len()).any(|window| window == value);
            assert!(is_there, "{value:?} is not in the form");
        }
    } else if body_kind(&headers) != Ok(wanted) {
        let why = body_kind(&headers)
            .err()
            .unwrap_or(MissingReason::OtherType);
        assert_eq!(found, Err(why));
    } else if found == Err(MissingReason::Malformed) && !is_plain(body) {
        // No text in the charset, or one with NUL.
    } else if body.len() <= BODY_KEY_BYTES {
        match wanted {
            BodyKind::Json => json(&found, body, name, &steps),
            BodyKind::Form => form(&found, body, name),
            // No key names it.
            BodyKind::Multipart => {}
        }
    }
    Some(())
}

/// The client of all cases.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

type Found = Result<Vec<u8>, MissingReason>;

fn find(source: &ValueSource, headers: &ReceivedFields, body: KnownBody<'_>) -> Found {
    let part = ValuePart {
        source: source.clone(),
        normalizers: Vec::new(),
        other_names: OtherNames::Canonical,
    };
    let (databases, crawlers) = (GeoDatabases::default(), CrawlerRegistry::default());
    let facts = RequestFacts {
        segments: "/",
        secured: None,
        client: CLIENT,
        place: &ClientPlace::new(&databases, CLIENT),
        crawler: &ClientCrawler::new(&crawlers, CrawlerRequest::without_target(CLIENT, headers)),
        hop: PeerTrust::Stranger,
        host: "",
        path: "/",
        method: &Method::POST,
        headers,
        query: "",
        pattern: None,
        token: &PresentedToken::new(None, headers),
        body,
        hits: std::num::NonZeroU32::MIN,
        now: Timestamp::from_secs(1_800_000_000),
        recorded: &[],
        reserves: &[],
    };
    normal_value(&part, &facts).map(|value| value.into_owned())
}

/// Whether a body has neither other bytes than ASCII nor a NUL in an escape.
fn is_plain(body: &[u8]) -> bool {
    let escapes = [&b"\\u0000"[..], b"%"];
    body.is_ascii()
        && !body.contains(&0)
        && escapes
            .iter()
            .all(|escape| body.windows(escape.len()).all(|window| window != *escape))
}

/// What `serde_json` has at the pointer.
fn json(found: &Found, body: &[u8], pointer: &str, steps: &[&str]) {
    // It refuses more than the gateway reads past: numbers too large, brackets too deep, halves of surrogates.
    let Ok(tree) = serde_json::from_slice::<Json>(body) else {
        return;
    };
    let there = tree.pointer(pointer);
    match found {
        Ok(value) => {
            let text = there
                .and_then(scalar)
                .expect("what is found is a scalar that is there");
            assert_eq!(value, &text.as_bytes()[..text.len().min(KEY_VALUE_BYTES)]);
        }
        Err(MissingReason::Absent) => assert!(
            matches!(there, None | Some(Json::Null)),
            "{there:?} is absent"
        ),
        Err(MissingReason::Malformed) => {
            assert!(
                matches!(there, Some(Json::Array(_) | Json::Object(_))),
                "{there:?} is malformed"
            );
        }
        Err(MissingReason::Repeated) => assert!(
            members(&tree) < colons(body) || has_alike(&tree, steps),
            "nothing stands twice in {tree}"
        ),
        Err(why) => panic!("a whole body of JSON is {why:?}"),
    }
}

fn scalar(value: &Json) -> Option<String> {
    Some(match value {
        Json::String(text) => text.clone(),
        Json::Bool(value) => value.to_string(),
        // 1.0 and 1e0 are 1, and -0 is 0.
        Json::Number(number) if number.is_f64() => format!("{}", number.as_f64()? + 0.0),
        Json::Number(number) => number.to_string(),
        Json::Null | Json::Array(_) | Json::Object(_) => return None,
    })
}

/// Members of all objects, one of each name.
fn members(value: &Json) -> usize {
    match value {
        Json::Object(object) => object.len() + object.values().map(members).sum::<usize>(),
        Json::Array(elements) => elements.iter().map(members).sum(),
        _ => 0,
    }
}

/// Members as they are written: each has one colon outside of text.
fn colons(body: &[u8]) -> usize {
    let (mut quoted, mut escaped, mut colons) = (false, false, 0);
    for byte in body {
        quoted ^= *byte == b'"' && !escaped;
        escaped = quoted && *byte == b'\\' && !escaped;
        colons += usize::from(*byte == b':' && !quoted);
    }
    colons
}

/// Whether an object has a name that is a step in other letters: upper or lower, or those that fold to them.
fn has_alike(value: &Json, steps: &[&str]) -> bool {
    let folded = |text: &str| text.to_uppercase().to_lowercase();
    match value {
        Json::Object(object) => object.iter().any(|(name, value)| {
            let alike = |step: &&str| *step != name.as_str() && folded(step) == folded(name);
            steps.iter().any(alike) || has_alike(value, steps)
        }),
        Json::Array(elements) => elements.iter().any(|element| has_alike(element, steps)),
        _ => false,
    }
}

/// What the URL standard has under the name.
fn form(found: &Found, body: &[u8], name: &str) {
    if !is_canonical(name.as_bytes()) {
        // The configuration refuses it.
        return;
    }
    let values: Vec<String> = form_urlencoded::parse(body)
        .filter(|(found, _)| found == name)
        .map(|(_, value)| value.into_owned())
        .collect();
    // It has U+FFFD for what is no UTF-8, of which the gateway tells one from another, and the gateway trims.
    let is_text = !values.iter().any(|value| value.contains('\u{fffd}'));
    match found {
        Ok(value) => {
            assert!(!values.is_empty(), "{value:?} is not there");
            for other in values.iter().filter(|_| is_text) {
                let other = &other.as_bytes()[..other.len().min(KEY_VALUE_BYTES)];
                assert_eq!(value, &*trimmed(other.into()));
            }
        }
        Err(MissingReason::Absent) => assert!(values.is_empty(), "{values:?} are absent"),
        // A name, an escape or a separator that parsers read in different ways, an alias, or copies that differ.
        Err(MissingReason::Malformed | MissingReason::Repeated) => {}
        Err(why) => panic!("a whole form is {why:?}"),
    }
}
