//! Reads signed requests, RFC 8555 §6.2, and says whether the signature is that of the key.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use ring::{digest, hmac};
use serde_json::Value;

/// A request as it was signed; not verified yet.
pub(super) struct Signed {
    pub(super) header: Value,
    payload: Vec<u8>,
    signed: String,
    signature: Vec<u8>,
}

/// A key of an account: a point on P-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AccountKey {
    point: Vec<u8>,
    /// RFC 7638.
    pub(super) thumbprint: String,
}

pub(super) fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}

pub(super) fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, bytes).as_ref().to_vec()
}

impl Signed {
    /// Takes the flattened form apart.
    pub(super) fn read(body: &Value) -> Option<Self> {
        let part = |name: &str| body[name].as_str();
        let (protected, payload) = (part("protected")?, part("payload")?);
        Some(Self {
            header: serde_json::from_slice(&decode(protected)?).ok()?,
            payload: decode(payload)?,
            signed: format!("{protected}.{payload}"),
            signature: decode(part("signature")?)?,
        })
    }

    /// What it says; `Null` where it says nothing, as POST-as-GET does.
    pub(super) fn payload(&self) -> Option<Value> {
        match &*self.payload {
            [] => Some(Value::Null),
            bytes => serde_json::from_slice(bytes).ok(),
        }
    }

    /// Whether the account's key has signed it.
    pub(super) fn is_of(&self, key: &AccountKey) -> bool {
        self.header["alg"] == "ES256"
            && UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &key.point)
                .verify(self.signed.as_bytes(), &self.signature)
                .is_ok()
    }

    /// Whether who knows this secret has signed it.
    pub(super) fn is_of_secret(&self, secret: &[u8]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        self.header["alg"] == "HS256"
            && hmac::verify(&key, self.signed.as_bytes(), &self.signature).is_ok()
    }
}

impl AccountKey {
    /// Reads a JWK.
    pub(super) fn read(jwk: &Value) -> Option<Self> {
        if jwk["kty"] != "EC" || jwk["crv"] != "P-256" {
            return None;
        }
        let (x, y) = (jwk["x"].as_str()?, jwk["y"].as_str()?);
        // RFC 7638 §3.2: the required members alone, in this order.
        let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        Some(Self {
            point: [vec![4], decode(x)?, decode(y)?].concat(),
            thumbprint: encode(sha256(canonical.as_bytes())),
        })
    }
}
