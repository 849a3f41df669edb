//! `[listener.tls]`: the certificates of a listener, and what its clients must bring.
//!
//! Files are read whole with the configuration and are watched with it. A pair that is broken is an error like any other: the
//! configuration in force, with the certificates that it has, stays.

use std::collections::BTreeMap;
use std::time::Duration;

use http::HeaderValue;

use super::acme;
use crate::clock;
use crate::config::field::{Field, all, quoted, text_of};
use crate::config::references::Defined;
use crate::config::report::{Placed, Report};
use crate::config::rules::{
    LimitRules, ListenerRules, MinVersion, Name, TlsRules, UnknownName, ValueSource,
};
use crate::config::section::Section;
use crate::pki::ClientAuth;
use crate::pki::{CertificateError, CertificateTexts, ClientTrust, ServerCertificate, served};
use crate::secret::Secret;

const EXAMPLE: &str = "{ certificates = [{ cert_file = \"site.pem\", key_file = \"site.key\" }] }";
const PAIRS: &str = "[{ cert_file = \"site.pem\", key_file = \"site.key\" }]";
const READABLE: &str = "put it there as PEM, readable for the user that runs the gateway";

/// A year, which is what lists of preloaded hosts ask for.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Reads the table; `None` inside where it is not written.
pub(super) fn read(listener: &Section<'_>) -> Option<Option<TlsRules>> {
    let (written, section) = listener.table("tls", EXAMPLE);
    let ordered = section.optional("acme", "[\"www.example.com\"]", acme::names);
    // Who orders certificates need not have any.
    let certificates = if section.is_there() && matches!(ordered, Some(None)) {
        section.required("certificates", PAIRS)
    } else {
        section.field("certificates", PAIRS)
    };
    let certificates = match (certificates, &ordered) {
        (Some(field), _) => certificates_of(&field),
        (None, Some(None)) => None,
        (None, _) => Some(Vec::new()),
    };
    let min_version = section.or("min_version", "\"1.2\"", MinVersion::Tls12, |field| {
        field.word(
            &[("1.2", MinVersion::Tls12), ("1.3", MinVersion::Tls13)],
            |got| format!("{got} is no version of TLS that is spoken here"),
        )
    });
    let clients = clients(&section);
    let unknown_name = section.or(
        "unknown_sni",
        "\"default\"",
        UnknownName::Default,
        |field| {
            field.word(
                &[
                    ("default", UnknownName::Default),
                    ("refuse", UnknownName::Refuse),
                ],
                |got| format!("{got} says nothing about unknown names"),
            )
        },
    );
    let strict_transport = section.optional("hsts", "{ max_age = \"365d\" }", hsts);
    section.finish();
    if written.is_none() {
        return Some(None);
    }
    Some(Some(TlsRules {
        certificates: certificates?,
        ordered: ordered?,
        min_version: min_version?,
        clients: clients?,
        unknown_name: unknown_name?,
        strict_transport: strict_transport?,
    }))
}

fn certificates_of(field: &Field<'_>) -> Option<Vec<ServerCertificate>> {
    let elements = field.list()?;
    let mut read = Vec::new();
    for (at, element) in elements.iter().enumerate() {
        let certificate = certificate(element);
        if let Some(certificate) = &certificate {
            check_names(element, at, certificate, &read);
        }
        read.push(certificate);
    }
    all(read)
}

fn certificate(element: &Field<'_>) -> Option<ServerCertificate> {
    let section = element.section()?;
    let chain = section.required("cert_file", "\"site.pem\"");
    let key = section.required("key_file", "\"site.key\"");
    let names = section.optional("names", "[\"www.example.com\"]", |field| {
        let elements = field.list()?;
        all(elements.iter().map(|element| {
            let text = element.text()?;
            let message = format!("{} is no name that a client asks for", quoted(text));
            served(text).or_else(|| {
                element.refuse(
                    message,
                    "write a host without port: \"www.example.com\", or \"*.example.com\" for one label under it",
                )
            })
        }))
    });
    section.finish();
    let text = |field: &Field<'_>| text_of(field, READABLE);
    let chain_text = chain.as_ref().and_then(text);
    let key_text = key.as_ref().and_then(text);
    let (chain, key, (key_path, key_text)) = (chain?, key?, key_text?);
    if key.report.environment.is_open_to_all(&key_path) {
        let path = key_path.display();
        key.report.warning(
            &key.place,
            format!("every user of this machine can read the key {path}"),
            format!("write chmod 600 {path}, and give it to the user that runs the gateway"),
        );
    }
    let texts = CertificateTexts {
        chain: chain_text?.1.into(),
        key: Secret::new(&key_text),
        names: names?,
    };
    let error = match ServerCertificate::new(texts) {
        Ok(certificate) => {
            check_time(&chain, &certificate);
            return Some(certificate);
        }
        Err(error) => error,
    };
    let (field, message, advice) = match error {
        CertificateError::NoCertificate => (
            &chain,
            "this file holds no certificate",
            "write the PEM file of the certificate, with those that lead to its root behind it",
        ),
        CertificateError::Broken => (
            &chain,
            "this certificate is broken",
            "write the PEM file of the certificate as its authority gave it",
        ),
        CertificateError::NoKey => (
            &key,
            "this file holds no private key",
            "write the PEM file of the certificate's key, without a passphrase",
        ),
        CertificateError::UnknownKey => (
            &key,
            "this key is of a kind that cannot be used",
            "make an ECDSA key (P-256 or P-384), an Ed25519 key, or an RSA key of 2048 bits or more",
        ),
        CertificateError::Mismatch => (
            &key,
            "this key belongs to another certificate",
            "write the key that the certificate was made for, and the certificate itself first in its file",
        ),
    };
    field.refuse(message, advice)
}

/// Says what of a certificate nobody would be shown.
fn check_names(
    element: &Field<'_>,
    at: usize,
    certificate: &ServerCertificate,
    earlier: &[Option<ServerCertificate>],
) {
    if certificate.names().is_empty() && at > 0 {
        element.report.warning(
            &element.place,
            "this certificate has no name of a host, so nobody is shown it",
            "write names = [\"www.example.com\"], or put it first, where it is the default",
        );
    }
    let taken = certificate.names().iter().find(|name| {
        let mut earlier = earlier.iter().flatten();
        earlier.any(|other| other.names().contains(name))
    });
    if let Some(name) = taken {
        element.report.warning(
            &element.place,
            format!(
                "an earlier certificate is served for {} already",
                quoted(name)
            ),
            "leave one of the two out, or write its names = [\"www.example.com\"]",
        );
    }
}

fn check_time(chain: &Field<'_>, certificate: &ServerCertificate) {
    let (now, validity) = (clock::wall(), certificate.validity());
    let wrong = if now > validity.ends {
        "this certificate has expired, so browsers refuse it"
    } else if now < validity.begins {
        "this certificate does not hold yet, so browsers refuse it"
    } else {
        return;
    };
    chain.report.warning(
        &chain.place,
        wrong,
        "put a certificate there that holds now, and look at the clock of this machine",
    );
}

/// `client_ca_file` and `client_auth`: `None` inside where clients are not asked.
fn clients(section: &Section<'_>) -> Option<Option<ClientTrust>> {
    let authorities = section.field("client_ca_file", "\"clients.pem\"");
    let auth = section.field("client_auth", "\"required\"");
    let choice = match &auth {
        None => Some(ClientAuth::Required),
        Some(field) => field.word(
            &[
                ("optional", ClientAuth::Optional),
                ("required", ClientAuth::Required),
            ],
            |got| format!("{got} says nothing about certificates of clients"),
        ),
    };
    let Some(authorities) = authorities else {
        return match auth {
            None => Some(None),
            Some(auth) => auth.refuse(
                "nothing says whose certificates of clients are believed",
                "write client_ca_file = \"clients.pem\" beside it, or leave it out",
            ),
        };
    };
    let (_, text) = text_of(&authorities, READABLE)?;
    let trust = ClientTrust::new(&text, choice?);
    if trust.is_none() {
        return authorities.refuse(
            "this file holds no certificate of an authority",
            "write the PEM file of who signs the certificates of your clients",
        );
    }
    Some(trust)
}

/// `hsts`, RFC 6797 §6.1.
fn hsts(field: &Field<'_>) -> Option<HeaderValue> {
    let section = field.section()?;
    let age = section.required("max_age", "\"365d\"");
    let max_age = age
        .as_ref()
        .and_then(|field| field.duration(Duration::ZERO..=YEAR * 10));
    let subdomains = section.or("include_subdomains", "true", false, Field::boolean);
    let preload = section.field("preload", "true");
    let preloaded = preload.as_ref().map_or(Some(false), Field::boolean);
    section.finish();
    let (max_age, subdomains, preloaded) = (max_age?, subdomains?, preloaded?);
    if let Some(preload) = preload
        && preloaded
        && (max_age < YEAR || !subdomains)
    {
        return preload.refuse(
            "browsers preload only what holds for a year and for all names below",
            "write max_age = \"365d\" and include_subdomains = true beside it, or leave it out",
        );
    }
    let mut text = format!("max-age={}", max_age.as_secs());
    if subdomains {
        text.push_str("; includeSubDomains");
    }
    if preloaded {
        text.push_str("; preload");
    }
    HeaderValue::try_from(text).ok()
}

/// Reports limits that count by what no handshake tells: a client's certificate where no listener asks for one, or anything of TLS where
/// none speaks it.
pub(in crate::config) fn check_told(
    listeners: &[Placed<ListenerRules>],
    limits: &BTreeMap<Name, LimitRules>,
    defined: &Defined,
    report: &Report<'_>,
) {
    let tls = || listeners.iter().filter_map(|each| each.value.tls.as_ref());
    let (spoken, asked) = (tls().count() > 0, tls().any(|tls| tls.clients.is_some()));
    for (name, limit) in limits {
        let mut values = limit.key.values();
        let untold = values.find(|value| match value.source {
            ValueSource::CertificateSubject | ValueSource::CertificateFingerprint => !asked,
            ValueSource::Ja4 => !spoken,
            _ => false,
        });
        let (Some(value), Some(place)) = (untold, defined.limits.get(name)) else {
            continue;
        };
        let (why, advice) = match value.source {
            ValueSource::Ja4 => (
                "no listener speaks TLS",
                "write [listener.tls] with certificates = [{ cert_file = \"site.pem\", key_file = \"site.key\" }]",
            ),
            _ => (
                "no listener asks clients for certificates",
                "write client_ca_file = \"clients.pem\" in [listener.tls]",
            ),
        };
        let message = format!("the key has \"{}\", and {why}", value.source);
        report.absent(place, message, advice);
    }
}
