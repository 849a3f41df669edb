//! Tests signatures: the cases of the standard, of the draft, and one mistake at a time.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use ring::signature::Ed25519KeyPair;
use serde_json::Value;

use super::*;
use crate::keys::{KeySet, KeySetError};

/// The private key of Ed25519 of RFC 9421 appendix B.1.4, which the vectors are signed with.
const PRIVATE: &str = "n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU";
const PUBLIC: &str = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs";
/// The thumbprint of that key.
const KEY_ID: &str = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";
const NOW: u64 = 1_735_689_700;

/// Names and values of fields.
type FieldPairs<'a> = &'a [(&'a str, &'a str)];

fn keys(more: &str) -> Result<KeySet, KeySetError> {
    KeySet::parse(&format!(
        "{{\"keys\":[{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"{PUBLIC}\"{more}}}]}}"
    ))
}

fn fields(fields: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::try_from(*name).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn request(headers: &HeaderMap) -> SignedRequest<'_> {
    SignedRequest {
        method: "GET",
        scheme: "https",
        authority: "example.com",
        target: "/path?a=b",
        headers,
    }
}

/// The result for a request with these fields: that of its only signature.
fn verified(request: &SignedRequest<'_>, now: u64) -> Result<(), SignatureFault> {
    let signatures = BotSignature::read(request.headers)?;
    let signature = signatures.first().ok_or(SignatureFault::Incomplete)?;
    let keys = keys("").unwrap();
    signature.verify(keys.find(signature.key_id()).unwrap(), request, now)
}

/// Fields with a signature over `covered` and `parameters`, made by the key of the vectors for [`request`].
fn signed(covered: &str, parameters: &str, more: &[(&str, &str)]) -> HeaderMap {
    let input = format!("sig1=({covered}){parameters}");
    let unsigned = [("signature-input", &*input), ("signature", "sig1=:AAAA:")];
    let headers = fields(&[&unsigned[..], more].concat());
    let key = URL_SAFE_NO_PAD.decode(PRIVATE).unwrap();
    let key = Ed25519KeyPair::from_seed_unchecked(&key).unwrap();
    let base = BotSignature::read(&headers).ok().and_then(|found| {
        let signature = found.into_iter().next()?;
        signature.base(&request(&headers)).ok()
    });
    // What has no base is malformed for another reason, and its signature does not matter.
    let signature = STANDARD.encode(key.sign(base.unwrap_or_default().as_bytes()));
    let signature = format!("sig1=:{signature}:");
    let signed = [("signature-input", &*input), ("signature", &*signature)];
    fields(&[&signed[..], more].concat())
}

fn parameters(created: u64, expires: u64) -> String {
    format!(";created={created};expires={expires};keyid=\"{KEY_ID}\";tag=\"web-bot-auth\"")
}

/// Goal: this reads signatures as their standard means them. Method: the test case of RFC 9421 appendix B.2.6, whose base is that text.
#[test]
fn the_case_of_the_standard_is_verified() {
    let covered =
        "(\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" \"content-length\")";
    let parameters = format!("{covered};created=1618884473;keyid=\"test-key-ed25519\"");
    let headers = fields(&[
        ("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
        ("content-type", "application/json"),
        ("content-length", "18"),
        (
            "signature-input",
            &format!("sig-b26={parameters};tag=\"web-bot-auth\""),
        ),
        (
            "signature",
            "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:",
        ),
    ]);
    let request = SignedRequest {
        method: "POST",
        target: "/foo?param=Value&Pet=dog",
        ..request(&headers)
    };
    let mut signatures = BotSignature::read(&headers).unwrap();
    let signature = &mut signatures[0];
    // The case has no tag, without which nothing is read here.
    signature.covered.params.swap_remove("tag");
    let base = signature.base(&request).unwrap();
    let last = format!("\"content-length\": 18\n\"@signature-params\": {parameters}");
    assert!(base.ends_with(&last), "{base}");
    let keys = keys("").unwrap();
    let key = keys.find(KEY_ID).unwrap();
    assert_eq!(key.verify(base.as_bytes(), &signature.bytes, NOW), Ok(()));
}

/// Goal: what real signers sign is verified. Method: the vectors of Cloudflare's `web-bot-auth` for both forms of `Signature-Agent`. Those
/// of the second form are valid for a hundred years, which is refused; their signatures are right all the same.
#[test]
fn the_vectors_of_the_draft_are_verified() {
    let vectors: Vec<Value> =
        serde_json::from_str(include_str!("../tests/web_bot_auth.json")).unwrap();
    assert_eq!(vectors.len(), 4);
    for vector in vectors {
        let text = |name: &str| vector[name].as_str().unwrap_or_default();
        let mut all = vec![
            ("signature-input", text("signature_input")),
            ("signature", text("signature")),
        ];
        if vector.get("signature_agent").is_some() {
            all.push(("signature-agent", text("signature_agent")));
        }
        let headers = fields(&all);
        let request = SignedRequest {
            target: "/path/to/resource",
            ..request(&headers)
        };
        let expected = match text("version") {
            "v1" => Ok(()),
            _ => Err(SignatureFault::LongLived),
        };
        assert_eq!(verified(&request, NOW), expected, "{vector}");
        let signature = &BotSignature::read(&headers).unwrap()[0];
        let base = signature.base(&request).unwrap();
        let keys = keys("").unwrap();
        let key = keys.find(signature.key_id()).unwrap();
        assert_eq!(
            key.verify(base.as_bytes(), &signature.bytes, NOW),
            Ok(()),
            "{vector}"
        );
    }
}

/// Goal: each rule of the profile holds. Method: a sound signature, and one mistake at a time.
#[test]
fn what_does_not_keep_to_the_profile_is_no_proof() {
    let sound = parameters(NOW - 10, NOW + 50);
    let agent = [("signature-agent", "sig1=\"https://bot.test\"")];
    let cases: [(&str, &str, FieldPairs<'_>, Result<(), SignatureFault>); 17] = [
        ("\"@authority\"", &sound, &[], Ok(())),
        ("\"@target-uri\"", &sound, &[], Ok(())),
        (
            "\"@authority\" \"signature-agent\";key=\"sig1\"",
            &sound,
            &agent,
            Ok(()),
        ),
        (
            "\"@authority\" \"@method\" \"@path\" \"@query\" \"@scheme\"",
            &sound,
            &[],
            Ok(()),
        ),
        (
            "\"@authority\"",
            &sound,
            &agent,
            Err(SignatureFault::Uncovered),
        ),
        ("", &sound, &[], Err(SignatureFault::Uncovered)),
        (
            "\"@path\" \"@method\"",
            &sound,
            &[],
            Err(SignatureFault::Uncovered),
        ),
        (
            "\"@authority\" \"@authority\"",
            &sound,
            &[],
            Err(SignatureFault::Malformed),
        ),
        (
            "\"@authority\";req",
            &sound,
            &[],
            Err(SignatureFault::Component),
        ),
        (
            "\"@authority\" \"@status\"",
            &sound,
            &[],
            Err(SignatureFault::Component),
        ),
        (
            "\"@authority\" \"X-Mark\"",
            &sound,
            &[("x-mark", "1")],
            Err(SignatureFault::Component),
        ),
        (
            "\"@authority\" \"x-absent\"",
            &sound,
            &[],
            Err(SignatureFault::Component),
        ),
        (
            "\"@authority\"",
            &parameters(NOW + CLOCK_SKEW + 1, NOW + 200),
            &[],
            Err(SignatureFault::Early),
        ),
        (
            "\"@authority\"",
            &parameters(NOW - 10, NOW),
            &[],
            Err(SignatureFault::Expired),
        ),
        (
            "\"@authority\"",
            &parameters(NOW - 10, NOW + LONGEST_LIFE),
            &[],
            Err(SignatureFault::LongLived),
        ),
        (
            "\"@authority\"",
            &format!("{sound};alg=\"hmac-sha256\""),
            &[],
            Err(SignatureFault::Algorithm),
        ),
        (
            "\"@authority\"",
            &format!(";created={NOW};keyid=\"{KEY_ID}\";tag=\"web-bot-auth\""),
            &[],
            Err(SignatureFault::Incomplete),
        ),
    ];
    for (covered, parameters, more, expected) in cases {
        let headers = signed(covered, parameters, more);
        let found = verified(&request(&headers), NOW);
        assert_eq!(found, expected, "({covered}){parameters}");
    }
}

/// Goal: a signature holds for what it covers alone. Method: a signature that covers everything, on requests that differ in one part.
#[test]
fn a_signature_is_for_one_authority_and_for_what_it_covers() {
    let sound = parameters(NOW - 10, NOW + 50);
    let covered = "\"@authority\" \"@method\" \"@path\" \"@query\" \"accept\"";
    let headers = signed(covered, &sound, &[("accept", "text/html")]);
    let same = request(&headers);
    let mut other = headers.clone();
    other.insert("accept", HeaderValue::from_static("*/*"));
    for (request, expected) in [
        (same, Ok(())),
        (
            SignedRequest {
                authority: "EXAMPLE.com:443",
                ..same
            },
            Ok(()),
        ),
        (
            SignedRequest {
                authority: "example.org",
                ..same
            },
            Err(SignatureFault::Mismatch),
        ),
        (
            SignedRequest {
                authority: "example.com:8443",
                ..same
            },
            Err(SignatureFault::Mismatch),
        ),
        (
            SignedRequest {
                authority: "example.com:80",
                ..same
            },
            Err(SignatureFault::Mismatch),
        ),
        (
            SignedRequest {
                method: "POST",
                ..same
            },
            Err(SignatureFault::Mismatch),
        ),
        (
            SignedRequest {
                target: "/path",
                ..same
            },
            Err(SignatureFault::Mismatch),
        ),
        (
            SignedRequest {
                target: "/other?a=b",
                ..same
            },
            Err(SignatureFault::Mismatch),
        ),
        (
            SignedRequest {
                headers: &other,
                ..same
            },
            Err(SignatureFault::Mismatch),
        ),
    ] {
        assert_eq!(verified(&request, NOW), expected, "{request:?}");
    }
}

/// Goal: the work for a request is bounded, and the fields are read as structured fields. Method: fields without the tag, with several
/// labels, over the caps, in two lines, and malformed.
#[test]
fn few_signatures_are_read() {
    let count = |all: &[(&str, &str)]| BotSignature::read(&fields(all)).map(|found| found.len());
    let input =
        |label: &str, tag: &str| format!("{label}=(\"@authority\");keyid=\"k\";tag=\"{tag}\"");
    let one = input("a", "web-bot-auth");
    let two = input("b", "web-bot-auth");
    let three = input("c", "web-bot-auth");
    let all = format!("{one}, {two}, {three}");
    let bytes = "a=:AAAA:, b=:AAAA:, c=:AAAA:";
    let long = format!("{one}, x=(\"{}\")", "y".repeat(MOST_BYTES));
    for (fields, expected) in [
        (vec![], Ok(0)),
        (vec![("signature-input", &*one)], Ok(0)),
        (
            vec![("signature-input", &*one), ("signature", bytes)],
            Ok(1),
        ),
        (
            vec![
                ("signature-input", &*one),
                ("signature-input", &*two),
                ("signature", bytes),
            ],
            Ok(2),
        ),
        (
            vec![("signature-input", &*all), ("signature", bytes)],
            Ok(MOST_SIGNATURES),
        ),
        (
            vec![
                ("signature-input", &*input("a", "other")),
                ("signature", bytes),
            ],
            Ok(0),
        ),
        (
            vec![
                ("signature-input", "a=(\"@authority\");keyid=\"k\""),
                ("signature", bytes),
            ],
            Ok(0),
        ),
        (
            vec![
                ("signature-input", "a=(\"@authority\");tag=\"web-bot-auth\""),
                ("signature", bytes),
            ],
            Err(SignatureFault::Incomplete),
        ),
        (
            vec![("signature-input", &*one), ("signature", "b=:AAAA:")],
            Err(SignatureFault::Malformed),
        ),
        (
            vec![("signature-input", &*one), ("signature", "a=AAAA")],
            Err(SignatureFault::Malformed),
        ),
        (
            vec![("signature-input", "a=("), ("signature", bytes)],
            Err(SignatureFault::Malformed),
        ),
        (
            vec![("signature-input", &*long), ("signature", bytes)],
            Err(SignatureFault::Malformed),
        ),
    ] {
        assert_eq!(count(&fields), expected, "{fields:?}");
    }
}

/// Goal: keys are named by their thumbprint, whatever the set says. Method: the key of the standard's appendix with and without `kid`, out
/// of its time, and sets that are broken.
#[test]
fn a_key_is_known_by_its_thumbprint() {
    let id = format!(",\"kid\":\"{KEY_ID}\"");
    let other = format!(",\"kid\":\"{}\"", KEY_ID.replace('p', "q"));
    for (more, is_read) in [
        ("", true),
        (&*id, true),
        (",\"kid\":\"test-key\"", true),
        (&*other, false),
    ] {
        assert_eq!(keys(more).is_ok(), is_read, "{more}");
    }
    let sound = keys("").unwrap();
    assert_eq!(sound.find(KEY_ID).map(VerifyingKey::id), Some(KEY_ID));
    assert_eq!(sound.find("test-key"), None);
    for (text, error) in [
        ("", KeySetError::NoSet),
        ("{}", KeySetError::NoSet),
        ("{\"keys\":[]}", KeySetError::NoKey),
        ("{\"keys\":[{\"kty\":\"RSA\"}]}", KeySetError::NoKey),
        (
            "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}]}",
            KeySetError::BadKey,
        ),
    ] {
        assert_eq!(KeySet::parse(text), Err(error), "{text}");
    }
    let headers = signed("\"@authority\"", &parameters(NOW - 10, NOW + 50), &[]);
    let signature = &BotSignature::read(&headers).unwrap()[0];
    for (more, expected) in [
        (format!(",\"nbf\":{NOW},\"exp\":{NOW}"), Ok(())),
        (
            format!(",\"nbf\":{}000", NOW + 1),
            Err(SignatureFault::Early),
        ),
        (
            format!(",\"exp\":{}", NOW - 1),
            Err(SignatureFault::Expired),
        ),
    ] {
        let keys = keys(&more).unwrap();
        let key = keys.find(KEY_ID).unwrap();
        assert_eq!(
            signature.verify(key, &request(&headers), NOW),
            expected,
            "{more}"
        );
    }
}

proptest! {
    /// Goal: nothing that a client sends ends the process, and a changed signature is no proof. Method: any fields; then the sound ones
    /// with one byte changed.
    #[test]
    fn hostile_fields_are_harmless(
        input in "[ -~]{0,200}",
        signature in "[ -~]{0,100}",
        at in any::<prop::sample::Index>(),
        byte in b' '..=b'~',
    ) {
        let headers = fields(&[("signature-input", &*input), ("signature", &*signature)]);
        prop_assert_ne!(verified(&request(&headers), NOW), Ok(()));
        let sound = signed("\"@authority\"", &parameters(NOW - 10, NOW + 50), &[]);
        let text = sound["signature-input"].to_str().unwrap();
        let mut changed = text.as_bytes().to_vec();
        let at = at.index(changed.len());
        prop_assume!(changed[at] != byte);
        changed[at] = byte;
        let mut headers = sound.clone();
        headers.insert("signature-input", HeaderValue::from_bytes(&changed).unwrap());
        let found = BotSignature::read(&headers).unwrap_or_default();
        // Another label or key is not found; a blank more may be the same text for its signer.
        if let Some(signature) = found.first().filter(|found| found.key_id() == KEY_ID) {
            let keys = keys("").unwrap();
            let key = keys.find(KEY_ID).unwrap();
            let same = signature.base(&request(&headers)) == BotSignature::read(&sound).unwrap()[0].base(&request(&sound));
            prop_assert_eq!(signature.verify(key, &request(&headers), NOW).is_ok(), same);
        }
    }
}

/// Goal: RFC 9651, dates and display strings are items like any other: beside a signature they change nothing, and among its parameters
/// they are signed as they were sent. Method: both kinds in each place; the base ends with the text that was sent.
#[test]
fn dates_and_display_strings_are_items() {
    let newer = format!(
        "{};made=@1735689690;note=%\"f%c3%bc\"",
        parameters(NOW - 10, NOW + 50)
    );
    let headers = signed("\"@authority\"", &newer, &[]);
    assert_eq!(verified(&request(&headers), NOW), Ok(()));
    let base = BotSignature::read(&headers).unwrap()[0]
        .base(&request(&headers))
        .unwrap();
    let last = format!("\"@signature-params\": (\"@authority\"){newer}");
    assert!(base.ends_with(&last), "{base}");
    let sound = parameters(NOW - 10, NOW + 50);
    for beside in [
        "a=@1735689690",
        "a=(\"@path\");made=@-1",
        "a=%\"f%c3%bc, (\"",
        "a=(%\"\" @0);b=%\"\"",
    ] {
        let headers = signed("\"@authority\"", &sound, &[("signature-input", beside)]);
        assert_eq!(verified(&request(&headers), NOW), Ok(()), "{beside}");
    }
    for malformed in [
        "a=@",
        "a=@1.5",
        "a=%\"%C3%BC\"",
        "a=%\"%ff\"",
        "a=%\"",
        "a=%x",
    ] {
        let headers = signed("\"@authority\"", &sound, &[("signature-input", malformed)]);
        let found = verified(&request(&headers), NOW);
        assert_eq!(found, Err(SignatureFault::Malformed), "{malformed}");
    }
}

proptest! {
    /// Goal: whatever text and time a signer writes, its signature is verified. Method: any display string and date among the parameters,
    /// written as RFC 9651 §4.1.11 has it.
    #[test]
    fn any_display_string_is_signed_as_it_was_sent(text in ".{0,60}", seconds in -999_999_999_999_999_i64..=999_999_999_999_999) {
        let mut written = String::new();
        for byte in text.bytes() {
            match byte {
                b' '..=b'~' if byte != b'%' && byte != b'"' => written.push(char::from(byte)),
                _ => written.push_str(&format!("%{byte:02x}")),
            }
        }
        let more = format!("{};a=@{seconds};b=%\"{written}\"", parameters(NOW - 10, NOW + 50));
        let headers = signed("\"@authority\"", &more, &[]);
        prop_assert_eq!(verified(&request(&headers), NOW), Ok(()));
        let base = BotSignature::read(&headers).unwrap()[0].base(&request(&headers)).unwrap();
        let last = format!("\"@signature-params\": (\"@authority\"){more}");
        prop_assert!(base.ends_with(&last), "{}", base);
    }
}
