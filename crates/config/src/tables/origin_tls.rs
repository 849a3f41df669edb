//! Declares `[origin.NAME.tls]`, and reads `protocol` of `[origin.NAME]`: what is spoken with servers, and which certificates are trusted.
//!
//! Certificates and keys are read with the configuration and watched with it, so that one that cannot be used is reported with its place,
//! before a request meets it.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sluicegate_base::pki::crypto_provider;
use sluicegate_config_derive::Table;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::declaration::{PEM_FILE, ParsedText, ReadBy};
use crate::field::{KeyField, quoted, text_of};
use crate::form::ValueKind;
use crate::problem::ParseError;
use crate::rules::{Certificate, Identity, Protocol, Verify};
use crate::section::TableSection;

/// TLS to the servers; an empty table enables it, and so do protocol = "h2" and "auto". The files are read again when they change;
/// connections made with the old ones are not reused. Default: off.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Table)]
#[table(path = "origin.NAME.tls")]
pub struct OriginTls {
    /// The CA certificates of the servers. Default: the trust store of this machine.
    #[key(
        example = "\"/etc/sluicegate/origin-ca.pem\"",
        shown = "\"origin-ca.pem\"",
        reader = ReadBy(trust, &[ValueKind::String])
    )]
    pub ca_file: Option<Arc<[Certificate]>>,
    /// The certificate of the gateway; `None`: none is sent.
    #[part(read = identity, keys = IdentityTable::keys)]
    pub identity: Option<Identity>,
    /// The name for SNI and for the verification of certificates, whatever Host the client sent. Default: the name of each server, or its
    /// address.
    #[key(example = "\"app.internal\"", reader = ParsedText(server_name))]
    pub server_name: Option<Arc<str>>,
    /// The verification of certificates: "full"; "chain", which accepts any name; or "off", which accepts any certificate and does not
    /// protect against an attacker on the path.
    #[key(example = "\"full\"", default = Verify::Full, reader = ReadBy(verify, &[ValueKind::String]))]
    pub verify: Verify,
}

/// Declares the keys of [`Identity`].
#[derive(Table)]
#[table(check = check_pair)]
struct IdentityTable {
    /// The client certificate of the gateway and its chain, with key_file. Default: none.
    #[key(example = "\"/etc/sluicegate/gateway.pem\"", shown = "\"origin.pem\"", reader = PEM_FILE)]
    cert_file: Option<Arc<str>>,
    /// The key of that certificate.
    #[key(example = "\"/etc/sluicegate/gateway.key\"", shown = "\"origin.key\"", reader = PEM_FILE)]
    key_file: Option<Arc<str>>,
}

/// Reads `protocol` and `tls` of an origin.
pub(super) fn read(section: &TableSection<'_>) -> Option<(Protocol, Option<OriginTls>)> {
    let is_written = section.has("tls");
    let tls =
        OriginTls::read(section.section("tls", "{ ca_file = \"/etc/sluicegate/origin-ca.pem\" }"));
    let protocol = section.or("protocol", "\"h2\"", Protocol::Http1, protocol)?;
    if protocol == Protocol::H2c && is_written {
        return section.refuse(
            "tls",
            "\"h2c\" is HTTP/2 without TLS",
            "write protocol = \"h2\", or leave tls out",
        );
    }
    let is_used = is_written || protocol.implies_tls();
    Some((protocol, Some(tls?).filter(|_| is_used)))
}

fn protocol(field: &KeyField<'_>) -> Option<Protocol> {
    let words = [
        ("http/1.1", Protocol::Http1),
        ("h2", Protocol::H2),
        ("h2c", Protocol::H2c),
        ("auto", Protocol::Auto),
    ];
    field.choice(&words, |other| {
        ParseError::with_advice(
            format!("there is no protocol {}", quoted(other)),
            "write \"http/1.1\", \"h2\", \"auto\" for what the servers take of both by TLS, or \"h2c\" for HTTP/2 without TLS",
        )
    })
}

fn trust(field: &KeyField<'_>) -> Option<Arc<[Certificate]>> {
    let (_, text) = text_of(field, PEM_FILE.0)?;
    let trusted = certificates(&text).filter(|all| {
        let mut roots = RootCertStore::empty();
        let mut each = all.iter();
        each.all(|one| roots.add(CertificateDer::from(&*one.0)).is_ok())
    });
    trusted.or_else(|| {
        field.refuse(
            "this file holds no certificate, or one that cannot be used",
            "write the PEM file of who signed the servers' certificates",
        )
    })
}

fn check_pair(_: &IdentityTableKeys, section: &TableSection<'_>) -> Option<()> {
    let lone = match (section.has("cert_file"), section.has("key_file")) {
        (true, false) => "cert_file",
        (false, true) => "key_file",
        _ => return Some(()),
    };
    section.refuse(
        lone,
        "a certificate and its key belong together",
        "write cert_file and key_file, or neither",
    )
}

fn identity(section: &TableSection<'_>) -> Option<Option<Identity>> {
    let table = IdentityTable::read_keys(section)?;
    let Some((chain_text, key_text)) = table.cert_file.zip(table.key_file) else {
        return Some(None);
    };
    let Some(certificates) = certificates(&chain_text) else {
        return section.refuse(
            "cert_file",
            "this file holds no certificate, or one that cannot be used",
            "write the PEM file of the gateway's certificate",
        );
    };
    // Pingora finds out of which kind a key is by its bytes, so that must succeed too.
    let parsed = PrivateKeyDer::from_pem_slice(key_text.as_bytes());
    let told_apart = |key: &PrivateKeyDer<'_>| {
        PrivateKeyDer::try_from(key.secret_der()).is_ok_and(|other| other == *key)
    };
    let Some(parsed) = parsed.ok().filter(told_apart) else {
        return section.refuse(
            "key_file",
            "this file holds no private key",
            "write the PEM file of the certificate's key, without a passphrase",
        );
    };
    let bytes = Arc::from(parsed.secret_der());
    if let Err(why) = fits(&certificates, parsed) {
        return section.refuse(
            "key_file",
            format!("certificate and key cannot be used: {why}"),
            "write the key that the certificate was made for",
        );
    }
    Some(Some(Identity {
        chain: certificates,
        key: bytes,
    }))
}

/// Tries certificate and key out as a connection will.
fn fits(chain: &[Certificate], key: PrivateKeyDer<'static>) -> Result<(), rustls::Error> {
    let chain = chain
        .iter()
        .map(|one| CertificateDer::from(one.0.to_vec()))
        .collect();
    ClientConfig::builder_with_provider(crypto_provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_client_auth_cert(chain, key)
        .map(drop)
}

/// Returns all certificates of a text, at least one, all of them X.509.
fn certificates(text: &str) -> Option<Arc<[Certificate]>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let read = read.ok().filter(|all| !all.is_empty())?;
    let sound = |der: &CertificateDer<'_>| {
        X509Certificate::from_der(der).is_ok_and(|(rest, _)| rest.is_empty())
    };
    read.iter().all(sound).then(|| {
        read.iter()
            .map(|der| Certificate(Arc::from(&**der)))
            .collect()
    })
}

fn server_name(text: &str) -> Result<Arc<str>, ParseError> {
    ServerName::try_from(text)
        .map(|_| Arc::from(text))
        .map_err(|_| {
            ParseError::with_advice(
                "this is not a name that a certificate can have",
                "write the host name of the servers' certificates",
            )
        })
}

fn verify(field: &KeyField<'_>) -> Option<Verify> {
    let words = [
        ("full", Verify::Full),
        ("chain", Verify::Chain),
        ("off", Verify::Off),
    ];
    let how = field.choice(&words, |other| {
        ParseError::with_advice(
            format!("there is no verification {}", quoted(other)),
            "write \"full\", or with care \"chain\" for any name, \"off\" for anybody",
        )
    })?;
    let risk = match how {
        Verify::Full => return Some(how),
        Verify::Chain => {
            "the names in certificates are not verified: whoever has any certificate of the same authority is believed"
        }
        Verify::Off => {
            "certificates are not verified: whoever answers at that address is believed, and reads and changes all that is sent"
        }
    };
    field.report.warning(
        &field.place,
        risk,
        "leave this out, and write in ca_file who signed the certificates, in server_name the name they have",
    );
    Some(how)
}
