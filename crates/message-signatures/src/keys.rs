//! Owns public keys, by the thumbprints that name them in signatures.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::Value;

use crate::MOST_KEYS;
use crate::fault::SignatureFault;

/// Bytes of a public key of Ed25519, RFC 8032 §5.1.5.
const KEY_BYTES: usize = 32;

/// The public keys of one signer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet(Vec<VerifyingKey>);

/// A public key of Ed25519.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyingKey {
    /// Its thumbprint by SHA-256, RFC 7638 and RFC 8037 appendix A.3.
    id: String,
    public: [u8; KEY_BYTES],
    /// The first and the last second at which it is used, since 1970.
    valid: (Option<u64>, Option<u64>),
}

/// A fault of a set of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySetError {
    /// It is no JSON, or has no list `keys`.
    NoSet,
    /// It has no key of Ed25519.
    NoKey,
    /// A key of Ed25519 is not 32 bytes of base64url.
    BadKey,
    /// It has more keys than [`MOST_KEYS`].
    TooMany,
    /// A `kid` is not the thumbprint of its key.
    OtherId,
}

impl fmt::Display for KeySetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSet => f.write_str("is no set of keys (JWKS)"),
            Self::NoKey => f.write_str("has no key of Ed25519"),
            Self::BadKey => {
                f.write_str("has a key of Ed25519 whose x is not 32 bytes of base64url")
            }
            Self::TooMany => write!(f, "has more than {MOST_KEYS} keys"),
            Self::OtherId => f.write_str(
                "has a key whose kid looks like a thumbprint and is that of another key",
            ),
        }
    }
}

impl std::error::Error for KeySetError {}

impl KeySet {
    /// Reads the keys of Ed25519 of a JWKS (RFC 7517); others are left out.
    ///
    /// # Errors
    /// It has no such key, or one is not sound: no part of a half-written set counts.
    pub fn parse(text: &str) -> Result<Self, KeySetError> {
        let set: Value = serde_json::from_str(text).map_err(|_| KeySetError::NoSet)?;
        let keys = set.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or(KeySetError::NoSet)?;
        let is_ed25519 = |key: &&Value| key["kty"] == "OKP" && key["crv"] == "Ed25519";
        let keys = keys.iter().filter(is_ed25519).map(VerifyingKey::read);
        let keys: Vec<VerifyingKey> = keys.collect::<Result<_, _>>()?;
        match keys.len() {
            0 => Err(KeySetError::NoKey),
            count if count > MOST_KEYS => Err(KeySetError::TooMany),
            _ => Ok(Self(keys)),
        }
    }

    /// Returns the key with this thumbprint.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&VerifyingKey> {
        self.0.iter().find(|key| key.id == id)
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether it has no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl VerifyingKey {
    fn read(key: &Value) -> Result<Self, KeySetError> {
        let x = key["x"].as_str().ok_or(KeySetError::BadKey)?;
        let public = URL_SAFE_NO_PAD.decode(x).ok();
        let public = public.and_then(|bytes| <[u8; KEY_BYTES]>::try_from(bytes).ok());
        let public = public.ok_or(KeySetError::BadKey)?;
        // RFC 7638 §3.2, RFC 8037 §2: the required members in the order of their names, without blanks.
        let x = URL_SAFE_NO_PAD.encode(public);
        let members = format!("{{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"{x}\"}}");
        let id = digest::digest(&digest::SHA256, members.as_bytes());
        let id = URL_SAFE_NO_PAD.encode(id.as_ref());
        // A directory may name a key by its thumbprint alone; a label of the operator's own has another length.
        let is_thumbprint = |kid: &&str| kid.len() == id.len();
        if key["kid"]
            .as_str()
            .filter(is_thumbprint)
            .is_some_and(|kid| kid != id)
        {
            return Err(KeySetError::OtherId);
        }
        let valid = (seconds(&key["nbf"]), seconds(&key["exp"]));
        Ok(Self { id, public, valid })
    }

    /// Returns its thumbprint.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Verifies a signature over `message` at `now`, in seconds since 1970.
    ///
    /// # Errors
    /// The key is not in use at that time, or the signature is another one.
    pub(crate) fn verify(
        &self,
        message: &[u8],
        signature: &[u8],
        now: u64,
    ) -> Result<(), SignatureFault> {
        match self.valid {
            (Some(first), _) if now < first => return Err(SignatureFault::Early),
            (_, Some(last)) if now > last => return Err(SignatureFault::Expired),
            _ => {}
        }
        let key = UnparsedPublicKey::new(&ED25519, &self.public);
        key.verify(message, signature)
            .map_err(|_| SignatureFault::Mismatch)
    }
}

/// Returns a time in seconds since 1970. Directories of the draft's first versions have milliseconds.
fn seconds(value: &Value) -> Option<u64> {
    const YEAR_5138: u64 = 100_000_000_000;
    let number = value.as_u64()?;
    Some(if number > YEAR_5138 {
        number / 1000
    } else {
        number
    })
}
