//! Identifies a client's certificate by its subject, as text, and its fingerprint.
//!
//! The handshake has verified the chain; this module only reads it. The subject is written as RFC 4514 has it, the same text
//! that `openssl x509 -nameopt RFC2253` prints, so that an operator can copy it into a file of overrides.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate, X509Name};

/// The short names of RFC 4514 §3.
const SHORT: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.6", "C"),
    ("2.5.4.9", "STREET"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

/// The verified identity of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Its subject; `None` where it is empty, as in certificates that have alternative names only.
    pub subject: Option<Box<str>>,
    /// SHA-256 of the certificate, in 64 hexadecimal digits, lower case.
    pub fingerprint: Box<str>,
}

impl ClientCertificate {
    /// Reads a certificate; a malformed one gets a fingerprint alone.
    #[must_use]
    pub fn from_der(der: &[u8]) -> Self {
        let subject = X509Certificate::from_der(der)
            .ok()
            .map(|(_, certificate)| subject(certificate.subject()))
            .filter(|subject| !subject.is_empty());
        Self {
            subject: subject.map(Into::into),
            fingerprint: hex(&sha256(der)).into(),
        }
    }
}

/// The hash of certificates for fingerprints.
pub(super) fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}

/// Returns the subject as text. RFC 4514 §2.1: the last part first.
fn subject(name: &X509Name<'_>) -> String {
    let parts: Vec<_> = name.iter_rdn().collect();
    let mut text = String::new();
    for part in parts.into_iter().rev() {
        for (at, attribute) in part.iter().enumerate() {
            match (at, text.is_empty()) {
                (0, true) => {}
                (0, false) => text.push(','),
                // §2.2
                _ => text.push('+'),
            }
            push_attribute(&mut text, attribute);
        }
    }
    text
}

/// Appends an attribute. RFC 4514 §2.3, §2.4: text under a standard name, the encoding of all others.
fn push_attribute(into: &mut String, attribute: &AttributeTypeAndValue<'_>) {
    let kind = attribute.attr_type().to_id_string();
    let short = SHORT.iter().find(|(id, _)| *id == kind);
    if let (Some((_, short)), Ok(value)) = (short, attribute.as_str()) {
        into.push_str(short);
        into.push('=');
        push_escaped(into, value);
        return;
    }
    let value = attribute.attr_value();
    let tag = value.header.tag().0;
    let bytes = value.data;
    into.push_str(&kind);
    into.push_str("=#");
    // Tags of strings fit a byte.
    let _ = write!(into, "{:02x}", tag & 0xff);
    match bytes.len() {
        length @ 0..=0x7f => drop(write!(into, "{length:02x}")),
        length @ 0x80..=0xff => drop(write!(into, "81{length:02x}")),
        length => drop(write!(into, "82{:04x}", length & 0xffff)),
    }
    into.push_str(&hex(bytes));
}

fn push_escaped(into: &mut String, value: &str) {
    let last = value.chars().count().saturating_sub(1);
    for (at, character) in value.chars().enumerate() {
        match character {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => into.extend(['\\', character]),
            '#' if at == 0 => into.push_str("\\#"),
            ' ' if at == 0 || at == last => into.push_str("\\ "),
            // §2.4 requires it for NUL, and other control characters must not get into a log either.
            control if control.is_control() => {
                let mut bytes = [0; 4];
                for byte in control.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(into, "\\{byte:02x}");
                }
            }
            plain => into.push(plain),
        }
    }
}

/// Returns bytes as hexadecimal digits, lower case.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn certificate(attributes: &[(DnType, &str)]) -> Vec<u8> {
        let mut name = DistinguishedName::new();
        for (kind, value) in attributes {
            name.push(kind.clone(), *value);
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = name;
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    /// Goal: a subject is the text that other tools print. Method: certificates with the parts of RFC 4514's examples in §4.
    #[test]
    fn a_subject_is_written_as_rfc_4514_has_it() {
        for (attributes, text) in [
            (
                vec![
                    (DnType::CountryName, "GB"),
                    (DnType::OrganizationName, "Sue, Grabbit and Runn"),
                    (DnType::CommonName, "L. Eagle"),
                ],
                "CN=L. Eagle,O=Sue\\, Grabbit and Runn,C=GB",
            ),
            (
                vec![(DnType::CommonName, " #a+b\"c ")],
                "CN=\\ #a\\+b\\\"c\\ ",
            ),
            (vec![(DnType::CommonName, "#x")], "CN=\\#x"),
            (vec![(DnType::CommonName, "Lučić")], "CN=Lučić"),
            (vec![(DnType::CommonName, "a\r\nb")], "CN=a\\0d\\0ab"),
            (
                vec![(
                    DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]),
                    "a@b",
                )],
                "1.2.840.113549.1.9.1=#0c03614062",
            ),
        ] {
            let found = ClientCertificate::from_der(&certificate(&attributes));
            assert_eq!(found.subject.as_deref(), Some(text));
        }
        let nameless = ClientCertificate::from_der(&certificate(&[]));
        assert_eq!(nameless.subject, None);
    }

    /// Goal: a fingerprint is the one of every other tool. Method: the hash of RFC 6234's "abc", which is no certificate either.
    #[test]
    fn a_fingerprint_is_the_sha_256_of_the_bytes() {
        let found = ClientCertificate::from_der(b"abc");
        assert_eq!(
            &*found.fingerprint,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(found.subject, None);
    }

    proptest! {
        /// Goal: no certificate stops the process. Method: one with bytes of it replaced.
        #[test]
        fn every_certificate_can_be_read(at in 0_usize..400, byte: u8) {
            let mut der = certificate(&[(DnType::CommonName, "x")]);
            if let Some(place) = der.get_mut(at) {
                *place = byte;
            }
            prop_assert_eq!(ClientCertificate::from_der(&der).fingerprint.len(), 64);
        }
    }
}
