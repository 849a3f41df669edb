//! Makes `tls` of a listener: the certificates of all blocks of its address, and the properties that nginx takes of the default server.

use std::collections::BTreeSet;

use super::address_groups::AddressGroups;
use super::encryption;
use super::listens::{ListenAddress, ServerBlock};
use super::scope::{SettingScope, is_on};
use crate::ledger::Ledger;
use crate::model::Listener;

/// The key of a listener that asks for a certificate which nobody has to show.
const OPTIONAL: (&str, &str) = ("client_auth", "optional");

const OLD_VERSIONS: [&str; 4] = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1"];

/// Adds the certificates of a block, and the authorities that it verifies clients with. `known` are the certificates of the listener.
pub(super) fn add_certificates(
    scope: &SettingScope<'_>,
    listener: &mut Listener,
    known: &mut BTreeSet<(String, String)>,
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
        if known.insert(pair.clone()) {
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
    if is_optional && is_first {
        listener.tls.push(OPTIONAL);
    } else if !is_optional {
        listener.tls.retain(|key| *key != OPTIONAL);
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

/// Records what the versions of blocks are at their listener, the default server first. nginx, too, takes them of the default server.
pub(super) fn compare_versions(
    servers: &[&ServerBlock<'_>],
    listener: &Listener,
    ledger: &mut Ledger,
) {
    let least = match listener.tls.contains(&("min_version", "1.3")) {
        true => "1.3",
        false => "1.2",
    };
    let default = servers.first().and_then(|it| it.scope.protocols);
    for server in servers {
        let stated = server.scope.protocols.map(encryption::least_version);
        let Some(protocols) = server.scope.protocols.or(default) else {
            continue;
        };
        match stated {
            Some(Some(own)) if own == least => {
                ledger.translated(protocols.id);
                let mut words = protocols.arguments();
                if words.any(|word| OLD_VERSIONS.contains(&word)) {
                    ledger.differs(protocols.id, "versions before TLS 1.2 are refused");
                }
            }
            Some(Some("1.3")) => {
                let reason =
                    "a listener has one min_version, and that of its default server is 1.2";
                ledger.lose(protocols.id, reason);
            }
            Some(None) => {}
            // One that is looser, or none.
            _ if least == "1.3" => {
                let difference = format!(
                    "{} is reached by TLS 1.3 alone: a listener has the versions of its default server, as in nginx",
                    server.shown(ledger)
                );
                ledger.differs(protocols.id, difference);
            }
            _ => {}
        }
    }
}

/// Lets a listener ask what some of its blocks require: `require` of their routes refuses the others.
pub(super) fn share_client_auth(
    servers: &[&ServerBlock<'_>],
    listener: &mut Listener,
    ledger: &mut Ledger,
) {
    let is_optional = listener.tls.contains(&OPTIONAL);
    let asked = match &listener.client_ca {
        None => return,
        Some(_) if is_optional => ClientAuth::Optional,
        Some(_) => ClientAuth::Required,
    };
    let others: Vec<String> = (servers.iter())
        .filter(|it| client_auth(it) < Some(asked))
        .map(|it| it.shown(ledger))
        .collect();
    let asking = servers.iter().filter(|it| client_auth(it) == Some(asked));
    let asking: Vec<&ServerBlock<'_>> = asking.copied().collect();
    if others.is_empty() {
        return;
    }
    let has_plain = |it: &&ServerBlock<'_>| !it.listens.iter().all(ListenAddress::has_tls);
    let is_exact = !asking.iter().any(has_plain);
    if asked == ClientAuth::Required && is_exact {
        listener.tls.push(OPTIONAL);
    }
    let others = others.join(", ");
    for verify in asking.iter().filter_map(|it| it.scope.verify_client) {
        if asked == ClientAuth::Required && !is_exact {
            let what = format!(
                "client_auth holds for all hosts of a listener, so {others} needs a certificate too; give it another address"
            );
            ledger.fill_in_for(verify.id, &what);
            continue;
        }
        if asked == ClientAuth::Required {
            let difference = "who has no certificate gets 403; nginx answers 400";
            ledger.differs(verify.id, difference);
        }
        let difference =
            format!("the listener asks for one for {others} too, where nobody needs it");
        ledger.differs(verify.id, difference);
    }
}

/// Returns the addresses of the listeners that take clients without a certificate beside others.
pub(super) fn optional_addresses(listeners: &[Listener]) -> BTreeSet<String> {
    let is_optional = |it: &&Listener| it.client_ca.is_some() && it.tls.contains(&OPTIONAL);
    let found = listeners.iter().filter(is_optional);
    found.map(|it| it.address.clone()).collect()
}

/// Returns true if the routes of a block refuse who has no certificate, since its listener does not. `optional` are the addresses of such
/// listeners.
pub(super) fn requires_certificate(
    server: &ServerBlock<'_>,
    optional: &BTreeSet<String>,
    addresses: &AddressGroups,
) -> bool {
    let mut bound = (server.listens.iter()).filter_map(|it| addresses.bound(&it.address));
    client_auth(server) == Some(ClientAuth::Required) && bound.any(|it| optional.contains(it))
}

fn client_auth(server: &ServerBlock<'_>) -> Option<ClientAuth> {
    match server.scope.verify_client?.word(0)? {
        "on" => Some(ClientAuth::Required),
        "optional" => Some(ClientAuth::Optional),
        _ => None,
    }
}

/// The certificate that a client has to show.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ClientAuth {
    Optional,
    Required,
}
