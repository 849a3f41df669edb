//! `[origin.NAME]` `protocol` and `[origin.NAME.tls]`: what is spoken with servers, and whom to believe.
//!
//! Certificates and keys are read with the configuration and watched with it, so that one that cannot be used is told with its place,
//! before a request meets it.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::config::field::{Field, quoted, text_of};
use crate::config::problem::Mistake;
use crate::config::rules::{Certificate, Identity, OriginTls, Protocol, Verify};
use crate::config::section::Section;

const PEM: &str = "put it there as PEM, readable for the user that runs the gateway";

/// Reads what is spoken.
pub(super) fn read(section: &Section<'_>) -> Option<(Protocol, Option<OriginTls>)> {
    let written = section.field("protocol", "\"h2\"");
    let protocol = match &written {
        Some(field) => protocol(field).map(|protocol| Some((protocol, &field.place))),
        None => Some(None),
    };
    let (place, table) = section.table("tls", "{ ca_file = \"/etc/sluicegate/origin-ca.pem\" }");
    let by_protocol = protocol
        .flatten()
        .filter(|(protocol, _)| protocol.implies_tls())
        .map(|(_, place)| place.clone());
    let tls = match place.clone().or(by_protocol) {
        Some(_) => made(&table).map(Some),
        None => Some(None),
    };
    table.finish();
    let (protocol, tls) = (protocol?.map_or(Protocol::Http1, |(said, _)| said), tls?);
    if let (Protocol::H2c, Some(place)) = (protocol, place) {
        section.report.error(
            &place,
            "\"h2c\" is HTTP/2 without TLS",
            "write protocol = \"h2\", or leave tls out",
        );
        return None;
    }
    Some((protocol, tls))
}

fn protocol(field: &Field<'_>) -> Option<Protocol> {
    let words = [
        ("http/1.1", Protocol::Http1),
        ("h2", Protocol::H2),
        ("h2c", Protocol::H2c),
        ("auto", Protocol::Auto),
    ];
    field.choice(&words, |other| {
        Mistake::with_advice(
            format!("there is no protocol {}", quoted(other)),
            "write \"http/1.1\", \"h2\", \"auto\" for what the servers take of both by TLS, or \"h2c\" for HTTP/2 without TLS",
        )
    })
}

fn made(table: &Section<'_>) -> Option<OriginTls> {
    let trust = table.optional("ca_file", "\"/etc/sluicegate/origin-ca.pem\"", |field| {
        trust(field)
    });
    let chain = table.field("cert_file", "\"/etc/sluicegate/gateway.pem\"");
    let key = table.field("key_file", "\"/etc/sluicegate/gateway.key\"");
    let identity = match (&chain, &key) {
        (Some(chain), Some(key)) => identity(chain, key).map(Some),
        (Some(lone), None) | (None, Some(lone)) => lone.refuse(
            "a certificate and its key belong together",
            "write cert_file and key_file, or neither",
        ),
        (None, None) => Some(None),
    };
    let server_name = table.optional("server_name", "\"app.internal\"", server_name);
    let verify = table.or("verify", "\"full\"", Verify::Full, verify);
    Some(OriginTls {
        trust: trust?,
        identity: identity?,
        server_name: server_name?,
        verify: verify?,
    })
}

fn trust(field: &Field<'_>) -> Option<Arc<[Certificate]>> {
    let text = watched(field)?;
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

fn identity(chain: &Field<'_>, key: &Field<'_>) -> Option<Identity> {
    let (chain_text, key_text) = (watched(chain), watched(key));
    let (chain_text, key_text) = (chain_text?, key_text?);
    let Some(certificates) = certificates(&chain_text) else {
        return chain.refuse(
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
        return key.refuse(
            "this file holds no private key",
            "write the PEM file of the certificate's key, without a passphrase",
        );
    };
    let bytes = Arc::from(parsed.secret_der());
    if let Err(why) = fits(&certificates, parsed) {
        return key.refuse(
            format!("certificate and key cannot be used: {why}"),
            "write the key that the certificate was made for",
        );
    }
    Some(Identity {
        chain: certificates,
        key: bytes,
    })
}

/// Tries them out as a connection will.
fn fits(chain: &[Certificate], key: PrivateKeyDer<'static>) -> Result<(), rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = chain
        .iter()
        .map(|one| CertificateDer::from(one.0.to_vec()))
        .collect();
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_client_auth_cert(chain, key)
        .map(drop)
}

fn server_name(field: &Field<'_>) -> Option<Arc<str>> {
    let text = field.text()?;
    if ServerName::try_from(text).is_ok() {
        return Some(Arc::from(text));
    }
    field.refuse(
        "this is not a name that a certificate can have",
        "write the host name of the servers' certificates",
    )
}

fn verify(field: &Field<'_>) -> Option<Verify> {
    let words = [
        ("full", Verify::Full),
        ("chain", Verify::Chain),
        ("off", Verify::Off),
    ];
    let how = field.choice(&words, |other| {
        Mistake::with_advice(
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

/// All certificates of a text, at least one, all of them X.509.
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

/// The text of the file that a field names.
fn watched(field: &Field<'_>) -> Option<String> {
    text_of(field, PEM).map(|(_, text)| text)
}
