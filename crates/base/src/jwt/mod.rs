//! Verifies a client's token: a JWT in `Authorization: Bearer` whose signature and time are valid.
//!
//! A claim counts only out of such a token. The key, not the token, fixes the algorithms, when the key is read: an RSA key
//! verifies no HMAC, whatever a token's header says. A token is verified when the first key needs a claim, and once a request.
//!
//! # Limits
//! A token has at most [`TOKEN_BYTES`](bounds::TOKEN_BYTES) bytes, and one signature is verified for it: that of the key it
//! names, or of the only key that fits.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::AUTHORIZATION;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Validation};
use serde_json::{Map, Value};
use sluicegate_limiter::Timestamp;

use crate::bounds;
use crate::received::ReceivedFields;

/// The claims of a token.
pub type TokenClaims = Map<String, Value>;

/// A verifier of tokens. Two are equal if they were made of the same settings.
#[derive(Clone)]
pub struct TokenVerifier {
    settings: TokenSettings,
    keys: Vec<VerifyingKey>,
}

/// The operator's settings for tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSettings {
    /// At least one.
    pub algorithms: Vec<Algorithm>,
    /// The keys.
    pub keys: KeyText,
    /// `iss`, if it must be this.
    pub issuer: Option<String>,
    /// `aud`, if it must hold this.
    pub audience: Option<String>,
    /// Tolerance for the issuer's clock.
    pub leeway: Duration,
}

/// The content of a key file.
#[derive(Clone, PartialEq, Eq)]
pub enum KeyText {
    /// One key: a PEM block, or the secret of an HMAC.
    Single(String),
    /// A JWKS, RFC 7517.
    Set(String),
}

/// One key, and what it verifies.
#[derive(Clone)]
struct VerifyingKey {
    id: Option<String>,
    key: DecodingKey,
    validation: Validation,
}

/// The reason for which keys cannot verify these algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// An HMAC is configured, and the file contains a PEM block: anyone with the public key could sign.
    PublicSecret,
    /// The secret of an HMAC is shorter than its hash, RFC 7518 §3.2.
    ShortSecret {
        /// Bytes that it must have.
        least: usize,
    },
    /// The algorithms need keys of different kinds, and the file holds one.
    MixedAlgorithms,
    /// HMAC secrets are asked of a JWKS, which holds public keys.
    SecretInSet,
    /// It is no PEM block with a public key for the algorithm.
    NoKey,
    /// It is no JWKS.
    NoSet,
    /// None of its keys can verify one of the algorithms.
    NoFittingKey,
    /// More keys than are looked at.
    TooManyKeys,
}

/// A request has no claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoClaims {
    /// It has no bearer token.
    Absent,
    /// It has several.
    Repeated,
    /// It has one that origins read in different ways.
    Malformed,
    /// Its token is not verified: malformed, of another key, expired, for another audience.
    Unverified,
}

impl TokenVerifier {
    /// Reads the keys.
    ///
    /// # Errors
    /// When a key is none, or could verify what it must not.
    pub fn new(settings: TokenSettings) -> Result<Self, KeyError> {
        let keys = match &settings.keys {
            KeyText::Single(text) => vec![single(text, &settings)?],
            KeyText::Set(text) => set(text, &settings)?,
        };
        Ok(Self { settings, keys })
    }

    /// Returns a verifier without keys, which accepts no token.
    #[must_use]
    pub fn without_keys(settings: TokenSettings) -> Self {
        let keys = Vec::new();
        Self { settings, keys }
    }

    /// Returns the settings it was made of.
    #[must_use]
    pub fn settings(&self) -> &TokenSettings {
        &self.settings
    }

    /// Returns the claims of `token`, if it is valid at `now`.
    fn verify(&self, token: &[u8], now: Timestamp) -> Option<TokenClaims> {
        if token.len() > bounds::TOKEN_BYTES {
            return None;
        }
        let header = jsonwebtoken::decode_header(token).ok()?;
        // RFC 7515 §4.1.11: a recipient that does not understand a critical extension must reject the token. None is understood
        // here.
        if header.crit.is_some() {
            return None;
        }
        let fits = |key: &&VerifyingKey| {
            key.validation.algorithms.contains(&header.alg)
                && (header.kid.is_none() || key.id.is_none() || key.id == header.kid)
        };
        let mut fitting = self.keys.iter().filter(fits);
        let key = fitting.next()?;
        let other = fitting.next();
        // Trying one after the other would let a client choose how much work a request is.
        let named = header.kid.is_some() && key.id.is_some();
        if other.is_some() && !named {
            return None;
        }
        let claims = jsonwebtoken::decode::<TokenClaims>(token, &key.key, &key.validation)
            .ok()?
            .claims;
        self.is_timely(&claims, now).then_some(claims)
    }

    /// Checks the times, RFC 7519 §4.1.4, §4.1.5. The library would read a clock of its own.
    fn is_timely(&self, claims: &TokenClaims, now: Timestamp) -> bool {
        let now = now.as_nanos() as f64 / 1e9;
        let leeway = self.settings.leeway.as_secs_f64();
        let expires = claims.get("exp").and_then(Value::as_f64);
        let begins = match claims.get("nbf") {
            None => Some(f64::NEG_INFINITY),
            Some(value) => value.as_f64(),
        };
        expires.is_some_and(|expires| now < expires + leeway)
            && begins.is_some_and(|begins| begins <= now + leeway)
    }
}

impl PartialEq for TokenVerifier {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

impl fmt::Debug for TokenVerifier {
    /// Omits the keys: one of them may be a secret.
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("Verifier")
            .field("algorithms", &self.settings.algorithms)
            .field("issuer", &self.settings.issuer)
            .field("audience", &self.settings.audience)
            .finish_non_exhaustive()
    }
}

/// The token of a request, verified when it is needed.
pub struct PresentedToken<'a> {
    verifier: Option<&'a TokenVerifier>,
    headers: &'a ReceivedFields,
    claims: OnceCell<Result<TokenClaims, NoClaims>>,
}

impl<'a> PresentedToken<'a> {
    /// Returns the token of a request with these fields.
    #[must_use]
    pub fn new(verifier: Option<&'a TokenVerifier>, headers: &'a ReceivedFields) -> Self {
        Self {
            verifier,
            headers,
            claims: OnceCell::new(),
        }
    }

    /// Returns its claims.
    ///
    /// # Errors
    /// There is no token that is valid at `now`.
    pub fn claims(&self, now: Timestamp) -> Result<&TokenClaims, NoClaims> {
        self.claims
            .get_or_init(|| {
                let verifier = self.verifier.ok_or(NoClaims::Unverified)?;
                let token = self.bearer()?;
                verifier.verify(token, now).ok_or(NoClaims::Unverified)
            })
            .as_ref()
            .map_err(|why| *why)
    }

    /// Parses the field. RFC 6750 §2.1: the scheme, which ignores case, blanks, then the token.
    ///
    /// Some origins accept any white space after the scheme, any scheme, or the first of several words; some decode more than
    /// RFC 7515 allows. A field in which one of them may find a token does not count as a field without one.
    fn bearer(&self) -> Result<&'a [u8], NoClaims> {
        let mut fields = self.headers.get_all(AUTHORIZATION);
        let field = fields.next().ok_or(NoClaims::Absent)?.as_bytes();
        if fields.next().is_some() {
            return Err(NoClaims::Repeated);
        }
        let field = field.trim_ascii();
        let mut words = field.split(|byte| !byte.is_ascii_graphic());
        let scheme = words.next().unwrap_or_default();
        let behind = field[scheme.len()..].trim_ascii();
        let is_bearer = scheme.eq_ignore_ascii_case(b"bearer");
        let blanks = &field[scheme.len()..field.len() - behind.len()];
        let is_plain = blanks.iter().all(|byte| *byte == b' ');
        if is_bearer && is_plain && !behind.is_empty() && is_compact(behind) {
            return Ok(behind);
        }
        let mut pieces = field.split(|byte| !byte.is_ascii_graphic() || b",=:;\"'".contains(byte));
        if is_bearer || pieces.any(is_token_like) {
            Err(NoClaims::Malformed)
        } else {
            Err(NoClaims::Absent)
        }
    }
}

/// Returns whether a token has the form of RFC 7515 §7.1, parts in base64url without padding, and is not too long to be
/// verified.
fn is_compact(token: &[u8]) -> bool {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let signature = token
        .rsplit(|byte| *byte == b'.')
        .next()
        .unwrap_or_default();
    token.len() <= bounds::TOKEN_BYTES
        && token.split(|byte| *byte == b'.').all(|part| part.iter().all(is_base64))
        // Lenient decoders drop bits at the end that strict ones refuse.
        && URL_SAFE_NO_PAD.decode(signature).is_ok()
}

/// Returns whether some parser may take it for a JWT: three parts, of which the first is an object in base64.
fn is_token_like(piece: &[u8]) -> bool {
    piece.iter().filter(|byte| **byte == b'.').count() >= 2 && piece.starts_with(b"ey")
}

fn single(text: &str, settings: &TokenSettings) -> Result<VerifyingKey, KeyError> {
    let first = *settings.algorithms.first().ok_or(KeyError::NoFittingKey)?;
    if !settings
        .algorithms
        .iter()
        .all(|other| is_same_key(first, *other))
    {
        return Err(KeyError::MixedAlgorithms);
    }
    let text = text.trim();
    let pem = text.as_bytes();
    let key = match first.family() {
        AlgorithmFamily::Hmac => {
            if text.contains("-----BEGIN") {
                return Err(KeyError::PublicSecret);
            }
            let least = settings
                .algorithms
                .iter()
                .map(|algorithm| hash_bytes(*algorithm));
            let least = least.max().unwrap_or_default();
            if pem.len() < least {
                return Err(KeyError::ShortSecret { least });
            }
            Ok(DecodingKey::from_secret(pem))
        }
        AlgorithmFamily::Rsa => DecodingKey::from_rsa_pem(pem),
        AlgorithmFamily::Ec => DecodingKey::from_ec_pem(pem),
        AlgorithmFamily::Ed => DecodingKey::from_ed_pem(pem),
    };
    Ok(VerifyingKey {
        id: None,
        key: key.map_err(|_| KeyError::NoKey)?,
        validation: validation(settings.algorithms.clone(), settings),
    })
}

fn set(text: &str, settings: &TokenSettings) -> Result<Vec<VerifyingKey>, KeyError> {
    let is_hmac = |algorithm: &Algorithm| algorithm.family() == AlgorithmFamily::Hmac;
    if settings.algorithms.iter().any(is_hmac) {
        return Err(KeyError::SecretInSet);
    }
    let set: JwkSet = serde_json::from_str(text).map_err(|_| KeyError::NoSet)?;
    if set.keys.len() > bounds::TOKEN_KEYS {
        return Err(KeyError::TooManyKeys);
    }
    let fitting = set.keys.iter().filter_map(|jwk| {
        let verifies = |algorithm: &Algorithm| verifies(jwk, *algorithm);
        let algorithms: Vec<_> = settings
            .algorithms
            .iter()
            .copied()
            .filter(verifies)
            .collect();
        (!algorithms.is_empty()).then(|| {
            Ok(VerifyingKey {
                id: jwk.common.key_id.clone(),
                key: DecodingKey::from_jwk(jwk).map_err(|_| KeyError::NoKey)?,
                validation: validation(algorithms, settings),
            })
        })
    });
    let keys = fitting.collect::<Result<Vec<_>, _>>()?;
    if keys.is_empty() {
        return Err(KeyError::NoFittingKey);
    }
    Ok(keys)
}

/// Returns whether a key of a set may verify `algorithm`: its kind and curve must, and what it says of itself.
fn verifies(jwk: &Jwk, algorithm: Algorithm) -> bool {
    let of_kind = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => algorithm.family() == AlgorithmFamily::Rsa,
        AlgorithmParameters::EllipticCurve(key) => match algorithm {
            Algorithm::ES256 => key.curve == EllipticCurve::P256,
            Algorithm::ES384 => key.curve == EllipticCurve::P384,
            _ => false,
        },
        AlgorithmParameters::OctetKeyPair(key) => {
            algorithm == Algorithm::EdDSA && key.curve == EllipticCurve::Ed25519
        }
        _ => false,
    };
    let said = jwk.common.key_algorithm.map(|said| said.to_string());
    let purpose = jwk.common.public_key_use.as_ref();
    of_kind
        && said.is_none_or(|said| said == format!("{algorithm:?}"))
        && purpose.is_none_or(|purpose| *purpose == PublicKeyUse::Signature)
}

fn validation(algorithms: Vec<Algorithm>, settings: &TokenSettings) -> Validation {
    let mut validation = Validation {
        algorithms,
        // See `is_timely`.
        validate_exp: false,
        validate_nbf: false,
        ..Validation::default()
    };
    let mut required = vec!["exp"];
    if let Some(issuer) = &settings.issuer {
        validation.iss = Some(HashSet::from([issuer.clone()]));
        required.push("iss");
    }
    match &settings.audience {
        Some(audience) => {
            validation.aud = Some(HashSet::from([audience.clone()]));
            required.push("aud");
        }
        None => validation.validate_aud = false,
    }
    validation.set_required_spec_claims(&required);
    validation
}

/// Returns whether one key can serve both algorithms.
fn is_same_key(one: Algorithm, other: Algorithm) -> bool {
    one.family() == other.family() && (one.family() != AlgorithmFamily::Ec || one == other)
}

/// Bytes of the hash behind an HMAC.
fn hash_bytes(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::HS384 => 48,
        Algorithm::HS512 => 64,
        _ => 32,
    }
}

#[cfg(test)]
mod tests;
