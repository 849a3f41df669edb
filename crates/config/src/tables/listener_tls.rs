//! Declares `[listener.tls]`: the certificates of a listener, and what its clients must bring.
//!
//! Files are read whole with the configuration and are watched with it. A pair that is broken is an error like any other: the
//! configuration in force, with the certificates that it has, stays.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use sluicegate_base::clock;
use sluicegate_base::pki::ClientAuth;
use sluicegate_base::pki::{
    CertificateError, CertificateTexts, ChainDefect, ClientTrust, ServerCertificate, served,
};
use sluicegate_base::secret::Secret;
use sluicegate_config_derive::Table;

use super::acme;
use crate::declaration::{ListBy, PEM_FILE, TableOf, WordOf};
use crate::field::{KeyField, all, quoted, text_of};
use crate::form::ValueKind;
use crate::rules::{MinVersion, NameSet, UnknownName};
use crate::section::TableSection;

const PAIRS: &str = "[{ cert_file = \"site.pem\", key_file = \"site.key\" }]";

/// A year, which is what lists of preloaded hosts ask for.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// TLS at this listener. Default: connections are in clear text. Files are watched, and a changed pair applies from the next handshake on;
/// a broken one changes nothing and is reported in log, metrics and /status.
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "the reference has tables in brackets"
)]
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "listener[].tls", check = check_certificates)]
pub struct TlsRules {
    /// Certificates with their keys in PEM, each followed by its chain. Each is used for the names in it, `*.example.com` for one label, or
    /// for `names`; the first is the default.
    #[key(
        example = "[{ cert_file = \"site.pem\", key_file = \"site.key\" }]",
        shown = "[{ cert_file = \"site.pem\", key_file = \"site.key\", names = [\"www.example.com\", \"*.example.com\"] }]",
        default = Vec::new(),
        reader = ListBy(certificates_of, &[ValueKind::Object])
    )]
    pub certificates: Vec<ServerCertificate>,
    /// Names for which one certificate is ordered, at most 100; [acme] configures the authority. Either these, or `certificates`, or both
    /// are required.
    #[key(
        example = "[\"www.example.com\"]",
        shown = "[\"www.example.com\", \"example.com\"]",
        reader = ListBy(acme::names, &[ValueKind::String])
    )]
    pub acme: Option<NameSet>,
    /// "1.2" or "1.3".
    #[key(
        example = "\"1.2\"",
        default = MinVersion::Tls12,
        reader = WordOf(&VERSIONS, "{} is no version of TLS that is spoken here")
    )]
    pub min_version: MinVersion,
    /// The trust in certificates of clients; `None` where no client is asked.
    #[part(read = clients, keys = ClientTable::keys)]
    pub clients: Option<ClientTrust>,
    /// The certificate for clients whose SNI matches none, or that send no SNI: "default", the first one, or "refuse", which ends the
    /// handshake.
    #[key(
        example = "\"default\"",
        default = UnknownName::Default,
        reader = WordOf(&UNKNOWN_NAMES, "{} says nothing about unknown names")
    )]
    pub unknown_sni: UnknownName,
    /// Adds Strict-Transport-Security to every response over TLS, so that browsers use TLS from then on. `preload` needs a max_age of a
    /// year and include_subdomains.
    #[key(
        example = "{ max_age = \"365d\" }",
        shown = "{ max_age = \"365d\", include_subdomains = true, preload = true }",
        reader = TableOf(hsts)
    )]
    pub hsts: Option<HeaderValue>,
}

/// Declares the keys of [`ClientTrust`].
#[derive(Table)]
#[table(check = check_authority)]
struct ClientTable {
    /// The CA certificates that client certificates are verified with. Default: no client certificate is requested. Keys can use
    /// "tls.client.subject" and "tls.client.fingerprint"; a request for a host other than that of the handshake is answered with 421.
    #[key(example = "\"clients.pem\"", reader = PEM_FILE)]
    client_ca_file: Option<Arc<str>>,
    /// "required", or "optional": who has none may come, and one that is shown must be right.
    #[key(
        example = "\"required\"",
        default = ClientAuth::Required,
        reader = WordOf(&CLIENT_AUTHS, "{} says nothing about certificates of clients")
    )]
    client_auth: ClientAuth,
}

const VERSIONS: [(&str, MinVersion); 2] = [("1.2", MinVersion::Tls12), ("1.3", MinVersion::Tls13)];

const UNKNOWN_NAMES: [(&str, UnknownName); 2] = [
    ("default", UnknownName::Default),
    ("refuse", UnknownName::Refuse),
];

const CLIENT_AUTHS: [(&str, ClientAuth); 2] = [
    ("optional", ClientAuth::Optional),
    ("required", ClientAuth::Required),
];

/// Requires certificates, unless names are written that they are ordered for.
fn check_certificates(keys: &TlsRulesKeys, section: &TableSection<'_>) -> Option<()> {
    match keys.acme {
        Some(None) => section.required("certificates", PAIRS).map(drop),
        _ => Some(()),
    }
}

fn check_authority(_: &ClientTableKeys, section: &TableSection<'_>) -> Option<()> {
    if section.has("client_auth") && !section.has("client_ca_file") {
        return section.refuse(
            "client_auth",
            "nothing says whose certificates of clients are believed",
            "write client_ca_file = \"clients.pem\" beside it, or leave it out",
        );
    }
    Some(())
}

fn clients(section: &TableSection<'_>) -> Option<Option<ClientTrust>> {
    let table = ClientTable::read_keys(section)?;
    let Some(authorities) = table.client_ca_file else {
        return Some(None);
    };
    let trust = ClientTrust::new(&authorities, table.client_auth);
    if trust.is_none() {
        return section.refuse(
            "client_ca_file",
            "this file holds no certificate of an authority",
            "write the PEM file of who signs the certificates of your clients",
        );
    }
    Some(trust)
}

fn certificates_of(field: &KeyField<'_>) -> Option<Vec<ServerCertificate>> {
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

fn certificate(element: &KeyField<'_>) -> Option<ServerCertificate> {
    let section = element.section()?;
    let chain = section.required("cert_file", "\"site.pem\"");
    let key = section.required("key_file", "\"site.key\"");
    let names = section.optional("names", "[\"www.example.com\"]", served_names);
    section.finish();
    let text = |field: &KeyField<'_>| text_of(field, PEM_FILE.0);
    let chain_text = chain.as_ref().and_then(text);
    let key_text = key.as_ref().and_then(text);
    let (chain, key, (key_path, key_text)) = (chain?, key?, key_text?);
    warn_of_open_key(&key, &key_path);
    let texts = CertificateTexts {
        chain: chain_text?.1.into(),
        key: Secret::new(&key_text),
        names: names?,
    };
    match ServerCertificate::new(texts) {
        Ok(certificate) => {
            check_time(&chain, &certificate);
            check_chain(&chain, &certificate);
            Some(certificate)
        }
        Err(error) => refuse_pair(error, &chain, &key),
    }
}

/// Reads `names` of a certificate.
fn served_names(field: &KeyField<'_>) -> Option<Vec<Box<str>>> {
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
}

/// Warns of a private key that is not private.
fn warn_of_open_key(key: &KeyField<'_>, path: &Path) {
    if key.report.environment.is_open_to_all(path) {
        let path = path.display();
        key.warn(
            format!("every user of this machine can read the key {path}"),
            format!("write chmod 600 {path}, and give it to the user that runs the gateway"),
        );
    }
}

/// Reports why the two files are no certificate with its key, at the one that is wrong.
fn refuse_pair<T>(error: CertificateError, chain: &KeyField<'_>, key: &KeyField<'_>) -> Option<T> {
    const KEYS: &str =
        "make an ECDSA key (P-256 or P-384), an Ed25519 key, or an RSA key of 2048 bits or more";
    let text: String;
    let (field, message, advice) = match error {
        CertificateError::NoCertificate => (
            chain,
            "this file holds no certificate",
            "write the PEM file of the certificate, with those that lead to its root behind it",
        ),
        CertificateError::Broken => (
            chain,
            "this certificate is broken",
            "write the PEM file of the certificate as its authority gave it",
        ),
        CertificateError::NoKey => (
            key,
            "this file holds no private key",
            "write the PEM file of the certificate's key, without a passphrase",
        ),
        CertificateError::UnknownKey => (key, "this key is of a kind that cannot be used", KEYS),
        CertificateError::RsaBits(bits) => {
            text = format!("this RSA key has {bits} bits, and 2048 to 8192 can be used");
            (key, &*text, KEYS)
        }
        CertificateError::OldVersion => (
            chain,
            "this certificate has X.509 version 1 or 2, which clients refuse: it has no names of hosts",
            "make one of version 3: openssl req -x509 or -CA with -addext subjectAltName=DNS:www.example.com",
        ),
        CertificateError::Unsupported(reason) => {
            text = format!("this certificate cannot be used: {reason}");
            (chain, &*text, "let its authority issue another one")
        }
        CertificateError::Mismatch => (
            key,
            "this key belongs to another certificate",
            "write the key that the certificate was made for, and the certificate itself first in its file",
        ),
    };
    field.refuse(message, advice)
}

/// Warns of a certificate that no client would be shown.
fn check_names(
    element: &KeyField<'_>,
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

/// Warns of a chain by which some clients find no way to a root.
fn check_chain(chain: &KeyField<'_>, certificate: &ServerCertificate) {
    match certificate.chain_defect() {
        None => {}
        Some(ChainDefect::Order(place)) => chain.report.warning(
            &chain.place,
            format!("certificate {place} of this file did not issue the one before it, so some clients refuse the first one"),
            "write the certificate of the site first, then that of its issuer, and so on",
        ),
        Some(ChainDefect::MissingIssuer(issuer)) => chain.report.warning(
            &chain.place,
            format!("the certificate of the issuer ({issuer}) is not in this file, so some clients refuse this one"),
            "write the file with the whole chain, which authorities call fullchain.pem",
        ),
    }
}

fn check_time(chain: &KeyField<'_>, certificate: &ServerCertificate) {
    let now = clock::wall();
    let validity = certificate.validity();
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

/// Reads `hsts`, RFC 6797 §6.1.
fn hsts(section: TableSection<'_>) -> Option<HeaderValue> {
    let age = section.required("max_age", "\"365d\"");
    let max_age = age
        .as_ref()
        .and_then(|field| field.duration(Duration::ZERO..=YEAR * 10));
    let subdomains = section.or("include_subdomains", "true", false, KeyField::boolean);
    let preload = section.field("preload", "true");
    let preloaded = preload.as_ref().map_or(Some(false), KeyField::boolean);
    section.finish();
    let max_age = max_age?;
    let subdomains = subdomains?;
    let preloaded = preloaded?;
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
