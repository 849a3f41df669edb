//! Makes `tls` of a listener: the certificates of all blocks of its address, and the properties that nginx takes of the default server.

use super::encryption;
use super::scope::{SettingScope, is_on};
use crate::ledger::Ledger;
use crate::model::Listener;

const OLD_VERSIONS: [&str; 4] = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1"];

/// Adds the certificates of a block, and the authorities that it verifies clients with.
pub(super) fn add_certificates(
    scope: &SettingScope<'_>,
    listener: &mut Listener,
    ledger: &mut Ledger,
) {
    if let Some(ssl) = scope.ssl {
        ledger.translated(ssl.id);
    }
    for (certificate, key) in scope.certificates.iter().zip(&scope.certificate_keys) {
        let (Some(cert_file), Some(key_file)) = (certificate.word(0), key.word(0)) else {
            continue;
        };
        let is_file = |text: &str| !text.contains(['$', ':']);
        if !is_file(cert_file) || !is_file(key_file) {
            let reason = "certificates are files whose names depend on nothing";
            ledger.left_out(certificate.id, reason);
            ledger.left_out(key.id, reason);
            continue;
        }
        ledger.translated(certificate.id);
        ledger.translated(key.id);
        let pair = (cert_file.to_owned(), key_file.to_owned());
        if !listener.certificates.contains(&pair) {
            listener.certificates.push(pair);
            listener.remarks.sources.push(certificate.id);
        }
    }
    add_authorities(scope, listener, ledger);
}

fn add_authorities(scope: &SettingScope<'_>, listener: &mut Listener, ledger: &mut Ledger) {
    let Some(verify) = scope.verify_client else {
        return;
    };
    let is_optional = match verify.word(0) {
        Some("on") => false,
        Some("optional") => true,
        Some("off") => {
            let reason = "a listener requests no certificate without client_ca_file";
            ledger.left_out(verify.id, reason);
            return;
        }
        _ => {
            let reason = "a listener verifies each certificate that it requests; nginx leaves that to what reads $ssl_client_verify";
            ledger.left_out(verify.id, reason);
            return;
        }
    };
    let Some(ca) = scope.client_ca else {
        let reason = "no ssl_client_certificate names the authorities; write client_ca_file";
        ledger.left_out(verify.id, reason);
        return;
    };
    let file = ca.word(0).unwrap_or_default();
    if listener
        .client_ca
        .as_deref()
        .is_some_and(|known| known != file)
    {
        let known = listener.client_ca.as_deref().unwrap_or_default();
        let what =
            format!("a listener has one file of authorities, and {known} is of another block");
        ledger.fill_in_for(ca.id, &what);
        return;
    }
    ledger.translated(ca.id);
    ledger.translated(verify.id);
    let is_first = listener.client_ca.is_none();
    listener.client_ca = Some(file.to_owned());
    let optional = ("client_auth", "optional");
    if is_optional && is_first {
        listener.tls.push(optional);
    } else if !is_optional {
        listener.tls.retain(|key| *key != optional);
    }
}

/// Sets what nginx takes of the default server before it knows which name a client asks for.
pub(super) fn set_properties(
    scope: &SettingScope<'_>,
    listener: &mut Listener,
    ledger: &mut Ledger,
) {
    if let Some(protocols) = scope.protocols {
        match encryption::least_version(protocols) {
            Some("1.3") => listener.tls.push(("min_version", "1.3")),
            Some(_) => {}
            None => ledger.left_out(protocols.id, "listeners speak TLS 1.2 and 1.3"),
        }
    }
    if let Some(reject) = scope.reject_handshake
        && is_on(Some(reject))
    {
        ledger.translated(reject.id);
        listener.remarks.sources.push(reject.id);
        listener.tls.push(("unknown_sni", "refuse"));
    }
}

/// Leaves out the certificates of a block whose addresses are all in clear text in nginx too.
pub(super) fn leave_unused(scope: &SettingScope<'_>, ledger: &mut Ledger) {
    for directive in scope.certificates.iter().chain(&scope.certificate_keys) {
        let reason = "no `listen` of its addresses has `ssl`, so nginx speaks clear text there";
        ledger.without_effect(directive.id, reason);
    }
}

/// Records the versions of a block that are those of its listener.
pub(super) fn record_equal(scope: &SettingScope<'_>, listener: &Listener, ledger: &mut Ledger) {
    let least = match listener.tls.contains(&("min_version", "1.3")) {
        true => "1.3",
        false => "1.2",
    };
    if let Some(protocols) = scope.protocols
        && encryption::least_version(protocols) == Some(least)
    {
        ledger.translated(protocols.id);
        if protocols
            .arguments()
            .any(|word| OLD_VERSIONS.contains(&word))
        {
            ledger.differs(protocols.id, "versions before TLS 1.2 are refused");
        }
    }
}
