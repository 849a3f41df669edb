//! Makes `tls` of listeners: certificates of files, certificates that are ordered, and the options of TLS.

use super::account::TreeAccount;
use super::notations::TraefikConfig;
use super::routers::TraefikRouter;
use super::transports::is_file;
use super::tree::{self, ITSELF, at, is_on, member, text, texts};
use crate::ingress::yaml::YamlNode;
use crate::model::{GatewayModel, Listener, placeholder_pair};
use crate::tls_suites::SUITES;
use crate::toml::{list, quoted};

/// The directory of ordered certificates.
const ACME_DIRECTORY: &str = "/var/lib/sluicegate/acme";

/// The difference of options that routers name.
const ALL_NAMES: &str = "it holds for all names of the listener; Traefik has the default options for names that no router has";

/// Gives a listener the TLS of its routers. `tables` are the `tls` of the routers and of the entry point.
pub(super) fn apply(
    config: &TraefikConfig,
    routers: &[&TraefikRouter<'_>],
    own: Option<&YamlNode>,
    (listener, gateway): (&mut Listener, &mut GatewayModel),
    account: &mut TreeAccount<'_>,
) {
    let mut options: Vec<String> = Vec::new();
    let mut ordered = Vec::new();
    let tables = routers.iter().map(|it| (it.tls.or(own), it.rule.hosts()));
    // The routers of an entry point can be in other files.
    let alone = routers.is_empty().then(|| (own, Vec::new()));
    let tables = tables.chain(alone);
    for (table, hosts) in tables.filter_map(|(table, hosts)| Some((table?, hosts))) {
        // Options are found by the name of the handshake, so a router without a host has the default ones.
        let has_name = hosts.iter().any(|it| !it.starts_with('*'));
        let named = text(table, "options").filter(|it| !it.is_empty() && has_name);
        let named = named.unwrap_or("default");
        if !options.iter().any(|it| it.eq_ignore_ascii_case(named)) {
            options.push(named.to_owned());
        }
        if let Some(resolver) = text(table, "certResolver").filter(|it| !it.is_empty()) {
            let domains = member(table, "domains")
                .map(YamlNode::elements)
                .unwrap_or_default();
            let named = domains.iter().flat_map(|it| {
                let main = text(it, "main").map(str::to_owned);
                main.into_iter().chain(texts(member(it, "sans")))
            });
            let named: Vec<String> = named.collect();
            let names = if named.is_empty() { hosts } else { named };
            ordered.push((table, resolver.to_owned(), names));
        }
        keys_of(table, account);
    }
    if options.is_empty() {
        options.push("default".to_owned());
    }
    order(config, &ordered, (listener, gateway), account);
    certificates(config, listener, account);
    if listener.certificates.is_empty() && listener.acme.is_empty() {
        account.ledger.fill_in(format!(
            "[[listener]] tls.certificates: the certificate and the key of {}; the input names none",
            listener.address
        ));
        listener.certificates.push(placeholder_pair());
    }
    match options.as_slice() {
        [one] => {
            let found = config.named("tls.options", one);
            if let Some((_, node)) = found {
                option_keys(node, one, listener, account);
                if one != "default" {
                    account.differs(node, ALL_NAMES);
                }
            } else if one != "default" {
                account.ledger.fill_in(format!("[listener.tls]: the options {one} are not in the input"));
            }
        }
        several => account.ledger.fill_in(format!(
            "[listener.tls]: hosts have the options {}; a listener has one min_version and one client_ca_file",
            several.join(", ")
        )),
    }
}

/// Accounts for the members of `tls` of a router.
fn keys_of(table: &YamlNode, account: &mut TreeAccount<'_>) {
    if table.text().is_some() {
        account.translated(table);
    }
    for (key, value) in table.members() {
        match key.to_ascii_lowercase().as_str() {
            // A secret of Kubernetes is no file.
            "secretname" => account.lost(
                value,
                key,
                "secrets are in the cluster; see [listener.tls] certificates",
            ),
            ITSELF | "certresolver" | "domains" | "options" | "passthrough" => {
                account.translated(value)
            }
            "store" => account.idle(value, "a listener has all certificates"),
            _ => account.lost(value, key, "see [listener.tls]"),
        }
    }
}

/// Adds the certificates of files.
fn certificates(config: &TraefikConfig, listener: &mut Listener, account: &mut TreeAccount<'_>) {
    let usual = at(&config.root, "tls.stores.default.defaultCertificate");
    let listed = at(&config.root, "tls.certificates").map(YamlNode::elements);
    for pair in usual.into_iter().chain(listed.unwrap_or_default()) {
        let file = |name: &str| text(pair, name).filter(|it| is_file(it)).map(str::to_owned);
        match (file("certFile"), file("keyFile")) {
            (Some(certificate), Some(key)) => {
                account.translated(pair);
                listener.remarks.sources.extend(tree::entry(pair));
                let pair = (certificate, key);
                if !listener.certificates.contains(&pair) {
                    listener.certificates.push(pair);
                }
            }
            _ => account.lost(
                pair,
                "tls.certificates",
                "a certificate and its key are files",
            ),
        }
    }
}

/// Orders certificates as the resolvers do.
fn order(
    config: &TraefikConfig,
    ordered: &[(&YamlNode, String, Vec<String>)],
    (listener, gateway): (&mut Listener, &mut GatewayModel),
    account: &mut TreeAccount<'_>,
) {
    let mut used: Option<&str> = None;
    for (table, resolver, names) in ordered {
        let known = *used.get_or_insert(resolver);
        if known != resolver {
            let reason = format!("[acme] is one account, and {known} has it");
            account.lost(table, "tls.certResolver", &reason);
            continue;
        }
        for name in names {
            let name = name.to_ascii_lowercase();
            let is_host = name.contains('.') && !name.contains(['*', ' ', ':']);
            if !is_host {
                account.ledger.fill_in(format!(
                    "[listener.tls] certificates: [acme] orders single names, not {name}"
                ));
            } else if !listener.acme.contains(&name) {
                listener.acme.push(name);
            }
        }
    }
    let Some(resolver) = used.filter(|_| gateway.acme.is_empty() && !listener.acme.is_empty())
    else {
        return;
    };
    gateway.acme = vec![
        ("accept_terms", "true".to_owned()),
        ("dir", quoted(ACME_DIRECTORY)),
    ];
    match config.named("certificatesResolvers", resolver) {
        Some((_, node)) => resolver_keys(node, gateway, account),
        None => account.ledger.fill_in(format!(
            "[acme]: the resolver {resolver} is not in the input; its keys are the defaults"
        )),
    }
}

fn resolver_keys(node: &YamlNode, gateway: &mut GatewayModel, account: &mut TreeAccount<'_>) {
    let Some(acme) = member(node, "acme") else {
        return account.lost(
            node,
            "certificatesResolvers",
            "certificates come from files or from [acme]",
        );
    };
    gateway.acme_sources.extend(tree::entry(acme));
    account.differs(
        member(acme, "email").unwrap_or(acme),
        "accept_terms = true is your agreement to the authority's terms, to which Traefik agrees for its operator",
    );
    for (key, value) in acme.members() {
        let plain = value.text().map(str::trim).unwrap_or_default();
        let place = format!("certificatesResolvers.acme.{key}");
        let pair = match key.to_ascii_lowercase().as_str() {
            "email" => ("contact", list(&[format!("mailto:{plain}")])),
            "caserver" => ("directory", quoted(plain)),
            "tlschallenge" => ("challenge", quoted("tls-alpn-01")),
            "httpchallenge" => ("challenge", quoted("http-01")),
            "cacertificates" if texts(Some(value)).len() == 1 => {
                ("ca_file", quoted(&texts(Some(value))[0]))
            }
            "dnschallenge" => {
                account.lost(value, &place, "names are proved by tls-alpn-01 or http-01");
                continue;
            }
            "eab" => {
                account.lost(value, &place, "write [acme] eab with the key in a file");
                continue;
            }
            "storage"
            | "keytype"
            | "preferredchain"
            | "certificatesduration"
            | "profile"
            | "emailaddresses"
            | "disablecommonname"
            | "clienttimeout"
            | "clientresponseheadertimeout"
            | "certificatetimeout" => {
                account.idle(
                    value,
                    "the gateway orders and stores certificates in its own way",
                );
                continue;
            }
            _ => {
                account.lost(value, &place, "see [acme]");
                continue;
            }
        };
        account.translated(value);
        if !gateway.acme.iter().any(|(known, _)| *known == pair.0) {
            gateway.acme.push(pair);
        }
    }
}

/// Applies options of TLS.
fn option_keys(
    node: &YamlNode,
    name: &str,
    listener: &mut Listener,
    account: &mut TreeAccount<'_>,
) {
    let least = text(node, "minVersion").unwrap_or_default();
    listener.remarks.sources.extend(tree::entry(node));
    for (key, value) in node.members() {
        let place = format!("tls.options.{name}.{key}");
        match key.to_ascii_lowercase().as_str() {
            "minversion" => match least {
                "VersionTLS13" => {
                    account.translated(value);
                    listener.tls.push(("min_version", "1.3"));
                }
                "VersionTLS12" => account.translated(value),
                _ => account.differs(value, "the oldest version is TLS 1.2"),
            },
            "maxversion" if value.text() == Some("VersionTLS13") => account.translated(value),
            "snistrict" => {
                account.translated(value);
                if is_on(node, key) {
                    listener.tls.push(("unknown_sni", "refuse"));
                }
            }
            "clientauth" => client_auth(value, &place, listener, account),
            "ciphersuites" if least == "VersionTLS13" || allows_all(&texts(Some(value))) => {
                account.differs(
                    value,
                    "the gateway has suites of its own, all of which are among these",
                );
            }
            "alpnprotocols" | "preferserverciphersuites" | "disablesessiontickets" => {
                account.idle(value, "it changes no answer");
            }
            _ => account.lost(value, &place, "see [listener.tls]"),
        }
    }
}

/// Returns true if all suites of the gateway for TLS 1.2 are among those of Go's names.
fn allows_all(names: &[String]) -> bool {
    let openssl: Vec<String> = names
        .iter()
        .map(|it| {
            let name = it
                .trim_start_matches("TLS_")
                .replace("_WITH_", "_")
                .replace("AES_", "AES");
            let name = match name.ends_with("POLY1305_SHA256") {
                true => name.trim_end_matches("_SHA256").to_owned(),
                false => name,
            };
            name.replace('_', "-")
        })
        .collect();
    SUITES.iter().all(|it| openssl.iter().any(|own| own == it))
}

fn client_auth(
    node: &YamlNode,
    place: &str,
    listener: &mut Listener,
    account: &mut TreeAccount<'_>,
) {
    let files = texts(member(node, "caFiles"));
    let kind = text(node, "clientAuthType").unwrap_or("NoClientCert");
    let is_optional = match kind {
        "NoClientCert" => return account.idle(node, "no certificate is asked for"),
        "RequireAndVerifyClientCert" => false,
        "VerifyClientCertIfGiven" => true,
        _ => return account.lost(node, place, "a certificate that is shown is verified"),
    };
    if let Some(secrets) = member(node, "secretNames") {
        let reason = "secrets are in the cluster; see [listener.tls] client_ca_file";
        return account.lost_with(node, secrets, reason);
    }
    let [file] = files.as_slice() else {
        return account.lost(node, place, "client_ca_file is one file");
    };
    if !is_file(file) {
        return account.lost(node, place, "client_ca_file is a file");
    }
    account.members(node, place, &["caFiles", "clientAuthType"]);
    listener.client_ca = Some(file.clone());
    if is_optional {
        listener.tls.push(("client_auth", "optional"));
    }
}
