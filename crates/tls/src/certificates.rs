//! Decides which certificate a client gets, by the name that it asks for.
//!
//! A listener has the certificates of its rules, which a reload replaces as a whole; beside them, for all listeners, are those
//! that are installed at run time. An exact name precedes a wildcard, and a configured certificate an installed one.
//!
//! # Concurrency
//! The installed certificates are one map behind one pointer: handshakes read it without waiting, and a change replaces it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use sluicegate_base::pki::{ServerCertificate, Validity, served, validity};

use sluicegate_config::rules::{Name, UnknownName};

/// The protocol of a certificate authority that validates a name: RFC 8737 §6.2.
pub(super) const ACME_TLS: &[u8] = b"acme-tls/1";

type ByName = BTreeMap<Box<str>, Arc<CertifiedKey>>;

/// The certificates that are installed at run time, for all listeners.
#[derive(Debug, Default)]
pub struct Certificates {
    installed: ArcSwap<ByName>,
    /// Answers to certificate authorities, by the name that they validate.
    challenges: ArcSwap<ByName>,
}

impl Certificates {
    /// Serves `certified` for `name` from the next handshake on, instead of the one installed for it before. A first label `*`
    /// matches any one label; an invalid name is never requested.
    pub fn install(&self, name: Name, certified: Arc<CertifiedKey>) {
        put(&self.installed, &name, Some(certified));
    }

    /// Removes the certificate that was installed for `name`.
    pub fn remove(&self, name: &str) {
        put(&self.installed, name, None);
    }

    /// Serves `certified` to a client that validates `domain` by TLS-ALPN-01 (RFC 8737), and to no other.
    pub fn answer_challenge(&self, domain: &str, certified: Arc<CertifiedKey>) {
        put(&self.challenges, domain, Some(certified));
    }

    /// Removes the answer for `domain`.
    pub fn forget_challenge(&self, domain: &str) {
        put(&self.challenges, domain, None);
    }

    /// Returns the installed certificates, by name, with their validity.
    #[must_use]
    pub fn installed(&self) -> Vec<(Box<str>, Validity)> {
        let all = self.installed.load();
        let mut known = Vec::new();
        for (name, certified) in all.iter() {
            let first = certified.cert.first();
            known.extend(first.and_then(|der| Some((name.clone(), validity(der)?))));
        }
        known
    }

    /// Returns the answer to a certificate authority, where `hello` is a validation.
    pub(super) fn challenge(&self, hello: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut protocols = hello.alpn()?;
        // RFC 8737 §3: this protocol and no other.
        if protocols.next() != Some(ACME_TLS) || protocols.next().is_some() {
            return None;
        }
        let name = hello.server_name()?.to_ascii_lowercase();
        self.challenges.load().get(&*name).cloned()
    }
}

fn put(map: &ArcSwap<ByName>, name: &str, certified: Option<Arc<CertifiedKey>>) {
    let Some(name) = served(name) else { return };
    map.rcu(|before| {
        let mut after = ByName::clone(before);
        match &certified {
            Some(certified) => after.insert(name.clone(), Arc::clone(certified)),
            None => after.remove(&name),
        };
        after
    });
}

/// The certificates of one listener.
#[derive(Debug)]
pub(super) struct ServedCertificates {
    written: ByName,
    default: Option<Arc<CertifiedKey>>,
    installed: Arc<Certificates>,
}

impl ServedCertificates {
    /// Indexes `certificates`, the first of which is the default where unknown names have one. Of two for one name the first is
    /// served.
    pub(super) fn new(
        certificates: &[ServerCertificate],
        unknown: UnknownName,
        installed: &Arc<Certificates>,
    ) -> Self {
        let mut written = ByName::new();
        for certificate in certificates {
            for name in certificate.names() {
                written
                    .entry(name.clone())
                    .or_insert_with(|| Arc::clone(certificate.certified()));
            }
        }
        let first = certificates
            .first()
            .map(ServerCertificate::certified)
            .cloned();
        Self {
            written,
            default: first.filter(|_| unknown == UnknownName::Default),
            installed: Arc::clone(installed),
        }
    }

    /// Returns the certificate for a client that asks for `name`, or for none.
    pub(super) fn find(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let known = name.and_then(|name| {
            let name = lower(name);
            let installed = self.installed.installed.load();
            let exact = self.written.get(&*name).or_else(|| installed.get(&*name));
            // RFC 6125 §6.4.3: `*` matches one label, the first.
            let under = || {
                let (_, parent) = name.split_once('.')?;
                let any = format!("*.{parent}");
                self.written.get(&*any).or_else(|| installed.get(&*any))
            };
            exact.or_else(under).cloned()
        });
        known.or_else(|| self.default.clone())
    }
}

impl ResolvesServerCert for ServedCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.find(hello.server_name())
    }
}

/// A resolver with one certificate, the answer to a certificate authority.
#[derive(Debug)]
pub(super) struct SingleCertificate(pub(super) Arc<CertifiedKey>);

impl ResolvesServerCert for SingleCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

fn lower(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_base::pki::CertificateTexts;
    use sluicegate_base::secret::Secret;

    fn certificate(names: &[&str]) -> ServerCertificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        ServerCertificate::new(CertificateTexts {
            chain: made.cert.pem().into(),
            key: Secret::new(&made.signing_key.serialize_pem()),
            names: None,
        })
        .unwrap()
    }

    fn is(found: Option<Arc<CertifiedKey>>, certificate: Option<&ServerCertificate>) -> bool {
        match (found, certificate) {
            (Some(found), Some(certificate)) => Arc::ptr_eq(&found, certificate.certified()),
            (None, None) => true,
            _ => false,
        }
    }

    /// Goal: a client gets the certificate of its name. Method: exact names, wildcards, names under a wildcard's child, others,
    /// none.
    #[test]
    fn an_exact_name_precedes_a_wildcard_and_the_default_is_last() {
        let certificates = [
            certificate(&["default.test"]),
            certificate(&["*.example.test", "example.test"]),
            certificate(&["www.example.test"]),
        ];
        let [default, wild, exact] = &certificates;
        let shared = Arc::new(Certificates::default());
        let served = ServedCertificates::new(&certificates, UnknownName::Default, &shared);
        let strict = ServedCertificates::new(&certificates, UnknownName::Refuse, &shared);
        for (name, known) in [
            (Some("default.test"), Some(default)),
            (Some("example.test"), Some(wild)),
            (Some("a.example.test"), Some(wild)),
            (Some("WWW.Example.test"), Some(exact)),
            (Some("a.b.example.test"), None),
            (Some("test"), None),
            (None, None),
        ] {
            let found = served.find(name);
            assert!(is(found, known.or(Some(default))), "{name:?}");
            assert!(is(strict.find(name), known), "{name:?}");
        }
    }

    /// Goal: an installed certificate is served at once, and a configured one precedes it. Method: install beside both, remove.
    #[test]
    fn an_installed_certificate_is_served_where_none_is_written() {
        let written = [certificate(&["written.test"])];
        let shared = Arc::new(Certificates::default());
        let served = ServedCertificates::new(&written, UnknownName::Refuse, &shared);
        let came = certificate(&["came.test"]);
        for name in ["came.test", "Written.test"] {
            shared.install(Name::from(name), Arc::clone(came.certified()));
        }
        assert!(is(served.find(Some("came.test")), Some(&came)));
        assert!(is(served.find(Some("written.test")), Some(&written[0])));
        assert_eq!(shared.installed().len(), 2);
        shared.remove("came.test");
        assert!(is(served.find(Some("came.test")), None));
    }
}
