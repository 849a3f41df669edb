//! Fuzzes the signatures of crawlers: what nobody signed is not verified, what was signed is, and one change makes it another request.
//!
//! A case is a line with the request as its signer saw it (method, scheme, authority, target, and the components that are signed, without
//! blanks in them), the fields of the request, an empty line, and a set of keys. The request is taken as it came, with whatever its
//! signature fields say; then the target signs it with a key of its own, by a base that it writes itself.
#![no_main]

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use ring::signature::{Ed25519KeyPair, KeyPair};
use sluicegate_message_signatures::{
    BotSignature, CLOCK_SKEW, KeySet, LONGEST_LIFE, MOST_COMPONENTS, MOST_KEYS, MOST_SIGNATURES,
    SignatureFault, SignedRequest,
};

/// A second within the life of the signatures of the seeds.
const NOW: u64 = 1_735_689_700;
const EXPIRES: u64 = NOW + 100;
/// The times at which a signature of a case is looked at.
const TIMES: [u64; 4] = [0, NOW, 1_618_884_500, u64::MAX];
/// Fields that the target writes itself.
const OWN: [&str; 2] = ["signature-input", "signature"];

/// A key that only the target has.
static KEY: LazyLock<(Ed25519KeyPair, KeySet)> = LazyLock::new(|| {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("32 bytes");
    let set = KeySet::parse(&format!("{{\"keys\":[{}]}}", jwk(&pair)));
    (pair, set.expect("one key"))
});

/// A request whose parts are texts.
struct Case<'a> {
    method: &'a str,
    scheme: &'a str,
    authority: &'a str,
    target: &'a str,
    headers: HeaderMap,
}

impl Case<'_> {
    fn request(&self) -> SignedRequest<'_> {
        SignedRequest {
            method: self.method,
            scheme: self.scheme,
            authority: self.authority,
            target: self.target,
            headers: &self.headers,
        }
    }
}

fuzz_target!(|text: &str| {
    let (head, set) = text.split_once("\n\n").unwrap_or((text, ""));
    let (line, lines) = head.split_once('\n').unwrap_or((head, ""));
    let set = read_set(set);
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let mut case = Case {
        method: word(),
        scheme: word(),
        authority: word(),
        target: word(),
        headers: fields(lines),
    };
    let covered: Vec<&str> = word()
        .split(',')
        .filter(|name| is_component(name))
        .collect();
    read(&case, set.as_ref());
    for name in OWN {
        case.headers.remove(name);
    }
    sign(&mut case, &covered);
});

/// Reads a set of keys: it has few, whose thumbprints find them, or a fault that a terminal can show.
fn read_set(text: &str) -> Option<KeySet> {
    match KeySet::parse(text) {
        Ok(set) => {
            assert!(!set.is_empty() && set.len() <= MOST_KEYS);
            assert_eq!(KeySet::parse(text).as_ref(), Ok(&set));
            Some(set)
        }
        Err(error) => {
            assert!(!error.to_string().contains(char::is_control), "{error}");
            None
        }
    }
}

/// Reads the signatures that came: few, none of which is of the target's key, and none of which is verified at two times that are further
/// apart than a signature may live.
fn read(case: &Case<'_>, set: Option<&KeySet>) {
    let Ok(signatures) = BotSignature::read(&case.headers) else {
        return;
    };
    assert!(signatures.len() <= MOST_SIGNATURES);
    let own = KEY.1.find(&thumbprint(&KEY.0)).expect("the key");
    for signature in &signatures {
        let key = set.and_then(|set| set.find(signature.key_id()));
        let verified = TIMES.map(|now| {
            assert!(signature.verify(own, &case.request(), now).is_err());
            key.is_some_and(|key| signature.verify(key, &case.request(), now).is_ok())
        });
        assert!(verified.iter().filter(|verified| **verified).count() <= 1);
    }
}

/// Signs the case by the target's key, and changes one thing at a time.
fn sign(case: &mut Case<'_>, covered: &[&str]) {
    let names: Vec<String> = covered.iter().map(|name| format!("\"{name}\"")).collect();
    let id = thumbprint(&KEY.0);
    let parameters = format!(
        "({});created={NOW};expires={EXPIRES};keyid=\"{id}\";tag=\"web-bot-auth\"",
        names.join(" ")
    );
    let values: Option<Vec<String>> = covered.iter().map(|name| value(case, name)).collect();
    let lines = values.as_ref().map(|values| {
        let lines = names
            .iter()
            .zip(values)
            .map(|(name, value)| format!("{name}: {value}\n"));
        lines.collect::<String>()
    });
    let base = format!(
        "{}\"@signature-params\": {parameters}",
        lines.unwrap_or_default()
    );
    let signed = KEY.0.sign(base.as_bytes());
    insert(
        &mut case.headers,
        "signature-input",
        &format!("fuzz={parameters}"),
    );
    insert(
        &mut case.headers,
        "signature",
        &format!("fuzz=:{}:", STANDARD.encode(signed.as_ref())),
    );
    let found = BotSignature::read(&case.headers);
    let Ok([signature]) = found.as_deref() else {
        // The one fault that sound fields can have here.
        assert_eq!(found.err(), Some(SignatureFault::Malformed), "{parameters}");
        assert!(parameters.len() > 3_000, "{parameters}");
        return;
    };
    assert_eq!(signature.key_id(), id);
    let own = KEY.1.find(&id).expect("the key");
    let verify = |request: &SignedRequest<'_>, now| signature.verify(own, request, now);
    let request = case.request();
    let expected = expected(case, covered, values.is_some());
    assert_eq!(verify(&request, NOW), expected, "{base}");
    if expected.is_err() {
        return;
    }
    assert_eq!(verify(&request, EXPIRES), Err(SignatureFault::Expired));
    assert_eq!(
        verify(&request, NOW - CLOCK_SKEW - 1),
        Err(SignatureFault::Early)
    );
    assert!(verify(&request, NOW + LONGEST_LIFE).is_err());
    let elsewhere = format!("x{}", case.authority);
    let moved = SignedRequest {
        authority: &elsewhere,
        ..request
    };
    assert_eq!(
        verify(&moved, NOW),
        Err(SignatureFault::Mismatch),
        "another site"
    );
    let method = format!("{}X", case.method);
    let other = SignedRequest {
        method: &method,
        ..request
    };
    assert_eq!(verify(&other, NOW).is_err(), covered.contains(&"@method"));
    if let Some(field) = covered.iter().find(|name| !name.starts_with('@')) {
        let mut headers = case.headers.clone();
        headers.append(
            name_of(field).expect("it has a value"),
            HeaderValue::from_static("x"),
        );
        let more = SignedRequest {
            headers: &headers,
            ..request
        };
        assert_eq!(
            verify(&more, NOW),
            Err(SignatureFault::Mismatch),
            "{field} again"
        );
    }
    if !case.headers.contains_key("signature-agent") {
        let mut headers = case.headers.clone();
        insert(&mut headers, "signature-agent", "\"https://a.test\"");
        let more = SignedRequest {
            headers: &headers,
            ..request
        };
        assert_eq!(verify(&more, NOW), Err(SignatureFault::Uncovered));
    }
}

/// Returns the result for a sound signature over these components, which have values or not.
fn expected(case: &Case<'_>, covered: &[&str], has_values: bool) -> Result<(), SignatureFault> {
    let is_repeated = (0..covered.len()).any(|at| covered[..at].contains(&covered[at]));
    if covered.len() > MOST_COMPONENTS || is_repeated {
        return Err(SignatureFault::Malformed);
    }
    let has_agent = case.headers.contains_key("signature-agent");
    let has_authority = covered
        .iter()
        .any(|name| matches!(*name, "@authority" | "@target-uri"));
    if !has_authority || has_agent && !covered.contains(&"signature-agent") {
        return Err(SignatureFault::Uncovered);
    }
    has_values.then_some(()).ok_or(SignatureFault::Component)
}

/// Returns the value of a component, RFC 9421 §2; `None` where there is none.
fn value(case: &Case<'_>, name: &str) -> Option<String> {
    let authority = case.authority.to_ascii_lowercase();
    let port = if case.scheme == "http" { ":80" } else { ":443" };
    let authority = authority.strip_suffix(port).unwrap_or(&authority);
    let (path, query) = match case.target.find('?') {
        Some(at) => (&case.target[..at], &case.target[at..]),
        None => (case.target, "?"),
    };
    match name {
        "@method" => Some(case.method.to_owned()),
        "@scheme" => Some(case.scheme.to_owned()),
        "@authority" => Some(authority.to_owned()),
        "@path" => Some(path.to_owned()),
        "@query" => Some(query.to_owned()),
        "@request-target" => Some(case.target.to_owned()),
        "@target-uri" => Some(format!("{}://{authority}{}", case.scheme, case.target)),
        _ if name.starts_with('@') => None,
        _ => {
            let name = name_of(name)?;
            let lines = case.headers.get_all(name).iter();
            let lines = lines.map(|line| line.to_str().map(str::trim));
            let lines = lines.collect::<Result<Vec<_>, _>>().ok()?;
            (!lines.is_empty()).then(|| lines.join(", "))
        }
    }
}

/// Returns the name of a field that is written in lower case.
fn name_of(name: &str) -> Option<HeaderName> {
    let found = HeaderName::from_bytes(name.as_bytes()).ok()?;
    (found.as_str() == name).then_some(found)
}

/// Returns whether a text can stand between quotes as it is, and names none of the fields that the target writes.
fn is_component(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    !name.is_empty() && name.bytes().all(is_plain) && !OWN.contains(&name)
}

fn fields(lines: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    }
    headers
}

fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    headers.insert(name, HeaderValue::from_str(value).expect("plain text"));
}

fn jwk(pair: &Ed25519KeyPair) -> String {
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    format!("{{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"{x}\"}}")
}

/// Returns the thumbprint of a key, RFC 7638.
fn thumbprint(pair: &Ed25519KeyPair) -> String {
    URL_SAFE_NO_PAD.encode(ring::digest::digest(
        &ring::digest::SHA256,
        jwk(pair).as_bytes(),
    ))
}
