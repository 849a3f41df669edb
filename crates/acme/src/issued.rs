//! Decides whether a certificate from the server or from the disk can be used.

use std::sync::Arc;

use rustls::sign::CertifiedKey;
use sluicegate_base::pki::{CertificateError, CertificateTexts, ServerCertificate, Validity};
use sluicegate_base::secret::Secret;
use sluicegate_limiter::Timestamp;

use sluicegate_config::rules::{Name, NameSet};

/// A certificate with its key, both good for TLS.
pub(super) struct IssuedCertificate(ServerCertificate);

/// The reason for which a certificate is unusable.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CertificateProblem {
    /// The text contains no chain and key, or they do not match.
    Malformed(CertificateError),
    /// It does not cover this name.
    Lacks(Name),
    /// It has expired.
    Ended,
}

impl IssuedCertificate {
    /// Parses the chain and the key in `pem`.
    pub(super) fn read(pem: &str) -> Result<Self, CertificateProblem> {
        let texts = CertificateTexts {
            chain: pem.into(),
            key: Secret::new(pem),
            names: None,
        };
        ServerCertificate::new(texts)
            .map(Self)
            .map_err(CertificateProblem::Malformed)
    }

    /// Returns its validity.
    pub(super) fn validity(&self) -> Validity {
        self.0.validity()
    }

    /// Returns the chain and the key that sign handshakes.
    pub(super) fn certified(&self) -> &Arc<CertifiedKey> {
        self.0.certified()
    }

    /// Returns whether the certificate covers `name`.
    pub(super) fn is_for(&self, name: &Name) -> bool {
        self.0.names().iter().any(|own| **own == **name)
    }

    /// Checks that the certificate covers all of `names` and has not expired at `now`.
    pub(super) fn check(&self, names: &NameSet, now: Timestamp) -> Result<(), CertificateProblem> {
        if self.validity().ends <= now {
            return Err(CertificateProblem::Ended);
        }
        let lacking = names.names().iter().find(|name| !self.is_for(name));
        lacking.map_or(Ok(()), |name| {
            Err(CertificateProblem::Lacks(Name::clone(name)))
        })
    }
}

impl std::fmt::Display for CertificateProblem {
    fn fmt(&self, into: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why = match self {
            Self::Lacks(name) => return write!(into, "the certificate is not for {name}"),
            Self::Ended => "the certificate is over",
            Self::Malformed(error) => match error {
                CertificateError::NoCertificate => "there is no certificate in it",
                CertificateError::NoKey => "there is no private key in it",
                CertificateError::UnknownKey => "its key is of a kind that is not known",
                CertificateError::Mismatch => "its key belongs to another certificate",
                CertificateError::RsaBits(_) => "its RSA key cannot be used",
                CertificateError::Broken => "its certificate is broken",
                CertificateError::OldVersion => "its certificate has X.509 version 1",
                CertificateError::Unsupported(_) => "its certificate cannot be used",
            },
        };
        into.write_str(why)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    const FROM: u64 = 1_893_456_000; // 2030-01-01
    const DAY: u64 = 86_400;

    fn names(names: &[&str]) -> NameSet {
        NameSet::new(names.iter().map(|name| (*name).into()).collect()).unwrap()
    }

    fn pair() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params =
            CertificateParams::new(["A.test".to_owned(), "b.test".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2030, 1, 1);
        params.not_after = date_time_ymd(2030, 1, 11);
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    /// Goal: renewal follows the certificate. Method: one of ten days, checked before and after its end.
    #[test]
    fn validity_and_names_are_read_from_the_certificate() {
        let (chain, key) = pair();
        let issued = IssuedCertificate::read(&format!("{chain}{key}")).unwrap();
        assert_eq!(issued.validity().begins, Timestamp::from_secs(FROM));
        assert_eq!(
            issued.validity().ends,
            Timestamp::from_secs(FROM + 10 * DAY)
        );
        let at = |days| Timestamp::from_secs(FROM + days * DAY);
        let check = |of: &[&str], days| issued.check(&names(of), at(days));
        assert_eq!(check(&["a.test", "b.test"], 9), Ok(()));
        assert_eq!(check(&["b.test"], 9), Ok(()));
        assert_eq!(
            check(&["b.test", "c.test"], 9),
            Err(CertificateProblem::Lacks("c.test".into()))
        );
        assert_eq!(check(&["a.test"], 10), Err(CertificateProblem::Ended));
    }

    /// Goal: half a pair is never served. Method: a chain alone, a key alone, a chain with another's key, text that is neither.
    #[test]
    fn what_does_not_belong_together_is_refused() {
        let (chain, key) = pair();
        let (_, other) = pair();
        for text in [
            chain.clone(),
            key,
            format!("{chain}{other}"),
            "x".to_owned(),
            String::new(),
        ] {
            assert!(matches!(
                IssuedCertificate::read(&text),
                Err(CertificateProblem::Malformed(_))
            ));
        }
    }
}
