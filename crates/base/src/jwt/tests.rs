//! Tokens are believed only when key, algorithm and time are right.

use jsonwebtoken::{EncodingKey, Header};
use serde_json::json;

use super::*;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const NOW: Timestamp = Timestamp::from_secs(1_795_245_038);
const RSA_PUBLIC: &str = include_str!("../../../../tests/tokens/rsa.pub.pem");
const RSA_PRIVATE: &str = include_str!("../../../../tests/tokens/rsa.pem");
const EC_PUBLIC: &str = include_str!("../../../../tests/tokens/ec.pub.pem");
const EC_PRIVATE: &str = include_str!("../../../../tests/tokens/ec.pem");
const ED_PUBLIC: &str = include_str!("../../../../tests/tokens/ed.pub.pem");
const ED_PRIVATE: &str = include_str!("../../../../tests/tokens/ed.pem");

fn settings(algorithms: &[Algorithm], keys: KeyText) -> TokenSettings {
    TokenSettings {
        algorithms: algorithms.to_vec(),
        keys,
        issuer: None,
        audience: None,
        leeway: Duration::from_secs(60),
    }
}

fn single(algorithm: Algorithm, text: &str) -> Result<TokenVerifier, KeyError> {
    TokenVerifier::new(settings(&[algorithm], KeyText::Single(text.to_owned())))
}

fn signed(header: &Header, claims: &Value, key: &EncodingKey) -> String {
    jsonwebtoken::encode(header, claims, key).expect("a token")
}

fn by_secret(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    signed(&Header::new(Algorithm::HS256), claims, &key)
}

fn in_an_hour() -> Value {
    json!({ "sub": "ann", "exp": NOW.as_secs() + 3600 })
}

fn is_believed(verifier: &TokenVerifier, token: &str) -> bool {
    verifier.verify(token.as_bytes(), NOW).is_some()
}

/// Goal: every family verifies its own tokens and no other's. Method: sign with each key, verify with each.
#[test]
fn each_key_verifies_its_own_tokens_only() {
    let pem = |text: &str, of: fn(&[u8]) -> jsonwebtoken::errors::Result<EncodingKey>| {
        of(text.as_bytes()).expect("a key")
    };
    let pairs = [
        (
            Algorithm::HS256,
            SECRET,
            EncodingKey::from_secret(SECRET.as_bytes()),
        ),
        (
            Algorithm::RS256,
            RSA_PUBLIC,
            pem(RSA_PRIVATE, EncodingKey::from_rsa_pem),
        ),
        (
            Algorithm::PS256,
            RSA_PUBLIC,
            pem(RSA_PRIVATE, EncodingKey::from_rsa_pem),
        ),
        (
            Algorithm::ES256,
            EC_PUBLIC,
            pem(EC_PRIVATE, EncodingKey::from_ec_pem),
        ),
        (
            Algorithm::EdDSA,
            ED_PUBLIC,
            pem(ED_PRIVATE, EncodingKey::from_ed_pem),
        ),
    ];
    for (signer, _, key) in &pairs {
        let token = signed(&Header::new(*signer), &in_an_hour(), key);
        for (algorithm, public, _) in &pairs {
            let verifier = single(*algorithm, public).expect("a verifier");
            assert_eq!(
                is_believed(&verifier, &token),
                signer == algorithm,
                "{signer:?} {algorithm:?}"
            );
        }
    }
}

/// Goal: no public key becomes a secret. Method: HMAC over a PEM block is refused when the keys are read, and a token that was signed
/// with the public key as a secret is not believed.
#[test]
fn algorithms_cannot_be_confused() {
    assert_eq!(
        single(Algorithm::HS256, RSA_PUBLIC).unwrap_err(),
        KeyError::PublicSecret
    );
    let both = [Algorithm::RS256, Algorithm::HS256];
    let mixed = TokenVerifier::new(settings(&both, KeyText::Single(RSA_PUBLIC.to_owned())));
    assert_eq!(mixed.unwrap_err(), KeyError::MixedAlgorithms);
    assert_eq!(
        single(Algorithm::ES256, RSA_PUBLIC).unwrap_err(),
        KeyError::NoKey
    );
    assert_eq!(
        single(Algorithm::HS512, SECRET).unwrap_err(),
        KeyError::ShortSecret { least: 64 }
    );
    let forged = EncodingKey::from_secret(RSA_PUBLIC.as_bytes());
    let token = signed(&Header::new(Algorithm::HS256), &in_an_hour(), &forged);
    assert!(!is_believed(
        &single(Algorithm::RS256, RSA_PUBLIC).expect("a verifier"),
        &token
    ));
    let parts: Vec<&str> = token.split('.').collect();
    // {"alg":"none"}
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", parts[1]);
    assert!(!is_believed(
        &single(Algorithm::RS256, RSA_PUBLIC).expect("a verifier"),
        &unsigned
    ));
}

/// Goal: a token counts within its time only, and must have an end. Method: times at both ends, with the leeway and beyond it.
#[test]
fn a_token_has_its_time() {
    let verifier = single(Algorithm::HS256, SECRET).expect("a verifier");
    let now = NOW.as_secs();
    for (claims, believed) in [
        (in_an_hour(), true),
        (json!({ "exp": now - 59 }), true),
        (json!({ "exp": now - 60 }), false),
        (json!({ "sub": "ann" }), false),
        (json!({ "exp": "soon" }), false),
        (json!({ "exp": now + 9, "nbf": now + 60 }), true),
        (json!({ "exp": now + 99, "nbf": now + 62 }), false),
        (json!({ "exp": now + 9, "nbf": "now" }), false),
    ] {
        assert_eq!(
            is_believed(&verifier, &by_secret(&claims)),
            believed,
            "{claims}"
        );
    }
}

/// Goal: a token for somebody else is not believed. Method: issuer and audience right, wrong and absent.
#[test]
fn issuer_and_audience_must_be_those_written() {
    let mut settings = settings(&[Algorithm::HS256], KeyText::Single(SECRET.to_owned()));
    settings.issuer = Some("us".to_owned());
    settings.audience = Some("api".to_owned());
    let verifier = TokenVerifier::new(settings).expect("a verifier");
    let exp = NOW.as_secs() + 9;
    for (claims, believed) in [
        (json!({ "exp": exp, "iss": "us", "aud": "api" }), true),
        (
            json!({ "exp": exp, "iss": "us", "aud": ["web", "api"] }),
            true,
        ),
        (json!({ "exp": exp, "iss": "us", "aud": "web" }), false),
        (json!({ "exp": exp, "iss": "them", "aud": "api" }), false),
        (json!({ "exp": exp, "iss": "us" }), false),
        (json!({ "exp": exp, "aud": "api" }), false),
    ] {
        assert_eq!(
            is_believed(&verifier, &by_secret(&claims)),
            believed,
            "{claims}"
        );
    }
}

/// Goal: of several keys the one that is named verifies, and no token is tried against many. Method: a set of two keys with names, a
/// token with each name, an unknown one and none.
#[test]
fn the_key_that_a_token_names_verifies_it() {
    let private = EncodingKey::from_ed_pem(ED_PRIVATE.as_bytes()).expect("a key");
    let jwk = |id: &str| {
        let mut jwk = Jwk::from_encoding_key(&private, Algorithm::EdDSA).expect("a key");
        jwk.common.key_id = Some(id.to_owned());
        serde_json::to_value(jwk).expect("JSON")
    };
    let text = json!({ "keys": [jwk("a"), jwk("b")] }).to_string();
    let verifier = TokenVerifier::new(settings(
        &[Algorithm::EdDSA, Algorithm::RS256],
        KeyText::Set(text),
    ));
    let verifier = verifier.expect("a verifier");
    for (id, believed) in [
        (Some("a"), true),
        (Some("b"), true),
        (Some("c"), false),
        (None, false),
    ] {
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = id.map(str::to_owned);
        let token = signed(&header, &in_an_hour(), &private);
        assert_eq!(is_believed(&verifier, &token), believed, "{id:?}");
    }
    let read = |algorithm, text: &str| {
        TokenVerifier::new(settings(&[algorithm], KeyText::Set(text.to_owned()))).unwrap_err()
    };
    assert_eq!(
        read(Algorithm::HS256, "{\"keys\":[]}"),
        KeyError::SecretInSet
    );
    assert_eq!(
        read(Algorithm::RS256, "{\"keys\":[]}"),
        KeyError::NoFittingKey
    );
    assert_eq!(read(Algorithm::RS256, "-----BEGIN"), KeyError::NoSet);
}

/// Goal: nothing a client sends stops the process. Method: tokens with parts that are broken, missing, too many and too long.
#[test]
fn malformed_tokens_are_rejected() {
    let verifier = single(Algorithm::HS256, SECRET).expect("a verifier");
    let good = by_secret(&in_an_hour());
    let long = by_secret(&json!({ "exp": NOW.as_secs() + 9, "x": "a".repeat(9_000) }));
    assert!(is_believed(&verifier, &good));
    for token in [
        "",
        ".",
        "..",
        "a.b.c",
        "e30.e30.",
        &good[1..],
        &good[..good.len() - 2],
        &long,
    ] {
        assert!(!is_believed(&verifier, token), "{token}");
    }
}
