//! Owns the pending proofs, by which an ACME server checks that a name is the gateway's.
//!
//! A proof is served only between the moment that the server may request it and the end of the order: the code that publishes
//! one holds a [`PresentedProof`], and the proof is withdrawn when that is dropped, however the order ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use sluicegate_base::bounds;
use sluicegate_base::pki::crypto_provider;
use tracing::warn;

/// The path of proofs by HTTP, RFC 8555 §8.3.
const WELL_KNOWN: &str = "/.well-known/acme-challenge/";

/// The pending answers of HTTP-01, by token.
#[derive(Clone, Debug, Default)]
pub struct ChallengeResponses(Arc<Mutex<BTreeMap<String, Arc<str>>>>);

/// A proof that is served as long as this value lives.
#[must_use = "what is shown goes with it"]
pub(super) struct PresentedProof(Option<Box<dyn FnOnce() + Send>>);

impl ChallengeResponses {
    /// Returns the response body for this path; `None` where no proof is pending there, and the request is an ordinary one.
    #[must_use]
    pub fn answer(&self, path: &str) -> Option<Arc<str>> {
        // Nearly every request ends here.
        let token = path.strip_prefix(WELL_KNOWN)?;
        self.lock().get(token).cloned()
    }

    /// Returns whether this path is below the path of HTTP-01 proofs.
    #[must_use]
    pub fn are_below(&self, target: &str) -> bool {
        target.starts_with(WELL_KNOWN)
    }

    /// Serves `key_authorization` for `token`; `None` where there is no room, or the token is invalid.
    pub(super) fn show(&self, token: &str, key_authorization: &str) -> Option<PresentedProof> {
        // RFC 8555 §8.3: a token is base64url.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if token.is_empty() || !token.bytes().all(plain) {
            return None;
        }
        let mut answers = self.lock();
        if answers.len() >= bounds::ACME_ANSWERS {
            warn!("acme: too many pending challenges ({})", answers.len());
            return None;
        }
        answers.insert(token.to_owned(), key_authorization.into());
        let all = self.clone();
        let token = token.to_owned();
        Some(PresentedProof::until(move || {
            all.lock().remove(&token);
        }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<str>>> {
        // An insertion or a removal is complete, even where the thread that made it panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PresentedProof {
    /// Returns a proof that runs `withdraw` at its end.
    pub(super) fn until(withdraw: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(withdraw)))
    }
}

impl Drop for PresentedProof {
    fn drop(&mut self) {
        if let Some(withdraw) = self.0.take() {
            withdraw();
        }
    }
}

/// Returns the certificate that proves `domain` by TLS-ALPN-01: self-signed, for that name alone, with the digest of the key
/// authorization in the extension acmeIdentifier. RFC 8737 §3.
///
/// # Errors
/// The name is invalid in a certificate, or there is no random source.
pub(super) fn certificate(domain: &str, digest: &[u8]) -> Result<CertifiedKey, String> {
    let failed = |error: rcgen::Error| error.to_string();
    // The extension takes 32 bytes and panics at others.
    let digest: [u8; 32] = digest.try_into().map_err(|_| "this is no SHA-256 digest")?;
    let mut params = CertificateParams::new([domain.to_owned()]).map_err(failed)?;
    params.distinguished_name = DistinguishedName::new();
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(&digest)];
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = crypto_provider();
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|error| error.to_string())?;
    // The constructor that compares the two is not used: it rejects the certificate for its critical extension.
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}

#[cfg(test)]
mod tests {
    use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

    use super::*;

    /// Goal: a proof is served as long as it is pending, and only for its token. Method: show, request, drop, request.
    #[test]
    fn a_proof_is_shown_until_its_order_ends() {
        let answers = ChallengeResponses::default();
        let shown = answers.show("tok-en_1", "tok-en_1.thumb").unwrap();
        let answer = |path| answers.answer(path);
        assert_eq!(
            answer("/.well-known/acme-challenge/tok-en_1").as_deref(),
            Some("tok-en_1.thumb")
        );
        for other in [
            "/.well-known/acme-challenge/",
            "/.well-known/acme-challenge/tok-en_",
            "/.well-known/acme-challenge/tok-en_1/",
            "/.WELL-KNOWN/acme-challenge/tok-en_1",
            "/tok-en_1",
        ] {
            assert_eq!(answer(other), None, "{other}");
        }
        drop(shown);
        assert_eq!(answer("/.well-known/acme-challenge/tok-en_1"), None);
    }

    /// Goal: no server fills the memory, nor chooses a path. Method: one proof too many; invalid tokens.
    #[test]
    fn proofs_are_bounded_and_tokens_are_tokens() {
        let answers = ChallengeResponses::default();
        for token in ["", "a/b", "..", "a b", "é"] {
            assert!(answers.show(token, "x").is_none(), "{token}");
        }
        let all: Vec<_> = (0..bounds::ACME_ANSWERS)
            .map(|token| answers.show(&token.to_string(), "x").unwrap())
            .collect();
        assert!(answers.show("more", "x").is_none());
        drop(all);
        assert!(answers.show("more", "x").is_some());
    }

    /// Goal: the certificate follows RFC 8737 §3. Method: the certificate, read by another library.
    #[test]
    fn the_certificate_of_a_proof_holds_the_name_and_the_digest() {
        let digest = [7; 32];
        let made = certificate("example.com", &digest).unwrap();
        let der = made.end_entity_cert().unwrap();
        let (_, read) = X509Certificate::from_der(der).unwrap();
        let names = read.subject_alternative_name().unwrap().unwrap();
        assert_eq!(
            names.value.general_names,
            [GeneralName::DNSName("example.com")]
        );
        let identifier = read
            .extensions()
            .iter()
            .find(|extension| extension.oid.to_id_string() == "1.3.6.1.5.5.7.1.31")
            .unwrap();
        assert!(identifier.critical);
        assert_eq!(identifier.value, [&[4, 32], &digest[..]].concat());
        assert!(certificate("example.com", &[7; 31]).is_err());
    }
}
