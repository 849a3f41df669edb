//! Makes listeners of the addresses of server blocks.

use std::collections::{BTreeMap, BTreeSet};

use super::address_groups::AddressGroups;
use super::https_redirect::{self, HttpsRedirects};
use super::listener_tls;
use super::listens::{ListenAddress, ServerBlock};
use super::real_ip;
use crate::ledger::Ledger;
use crate::model::{Listener, placeholder_pair};

/// A server block at one of its addresses.
type BlockAddress<'s, 'd> = (&'s ServerBlock<'d>, &'s ListenAddress<'d>);

/// Makes one listener of each address that is bound, of the blocks that have routes or redirect.
pub(super) fn make(
    servers: &[ServerBlock<'_>],
    is_imported: impl Fn(usize) -> bool,
    addresses: &AddressGroups,
    redirects: &HttpsRedirects,
    ledger: &mut Ledger,
) -> Vec<Listener> {
    let imported = (servers.iter().enumerate()).filter(|(number, _)| is_imported(*number));
    let all = imported.flat_map(|(_, server)| server.listens.iter().map(move |it| (server, it)));
    let mut behind: BTreeMap<&str, Vec<BlockAddress<'_, '_>>> = BTreeMap::new();
    let mut order = Vec::new();
    for block in all {
        let Some(address) = addresses.bound(&block.1.address) else {
            continue;
        };
        let blocks = behind.entry(address).or_default();
        if blocks.is_empty() {
            order.push(address);
        }
        blocks.push(block);
    }
    let mut listeners = Vec::with_capacity(order.len());
    for address in order {
        let mut behind = behind.remove(address).unwrap_or_default();
        // The certificate of the default server is the default of the listener.
        let default = addresses.default_at(address).and_then(|it| servers.get(it));
        let default = default.map(|server| server.directive.id);
        behind.sort_by_key(|(server, _)| Some(server.directive.id) != default);
        let mut listener = listener(address, &behind, ledger);
        if redirects.are_at(address) {
            redirect(&mut listener, &behind, ledger);
        }
        listeners.push(listener);
    }
    listeners
}

/// Makes the listener of blocks, the default server first.
fn listener(address: &str, behind: &[BlockAddress<'_, '_>], ledger: &mut Ledger) -> Listener {
    let mut listener = Listener {
        address: address.to_owned(),
        ..Listener::default()
    };
    record_addresses(&mut listener, behind, ledger);
    set_tls(&mut listener, behind, ledger);
    if behind.iter().any(|(_, it)| it.has_proxy_protocol) {
        let blocks: Vec<&ServerBlock<'_>> = behind.iter().map(|(server, _)| *server).collect();
        let proxies = real_ip::announcers(&blocks, ledger);
        if proxies.is_empty() {
            ledger.fill_in(format!(
                "[[listener]] {address}: proxy_protocol_from, the addresses of the proxies in front; nginx believes everybody"
            ));
        }
        listener.proxy_protocol_from = Some(proxies);
    }
    listener
}

fn redirect(listener: &mut Listener, behind: &[BlockAddress<'_, '_>], ledger: &mut Ledger) {
    listener.redirect_to_https = Some("true".to_owned());
    for (server, _) in behind {
        let made_of = https_redirect::record(server.directive, ledger);
        listener.remarks.sources.extend(made_of);
    }
}

/// Records the directives that a listener is made of, and what it takes otherwise.
fn record_addresses(listener: &mut Listener, behind: &[BlockAddress<'_, '_>], ledger: &mut Ledger) {
    let address = &listener.address;
    let has_tls = behind.first().is_some_and(|(_, it)| it.has_tls());
    let is_open = |it: &ListenAddress<'_>| !it.address.starts_with('[') || it.takes_both;
    let takes_more = address.starts_with('[') && !behind.iter().any(|(_, it)| is_open(it));
    for (_, other) in behind {
        if other.has_tls() != has_tls {
            ledger.fill_in(format!(
                "[[listener]] {address}: {} is taken by it, and has TLS where it has none, or the other way round; write a listener for \
                 each address of this machine",
                other.address
            ));
        }
        let Some(directive) = other.directive else {
            continue;
        };
        ledger.translated(directive.id);
        listener.remarks.sources.push(directive.id);
        if takes_more && other.address.starts_with("[::]") {
            ledger.differs(directive.id, "the listener takes connections over IPv4 too");
        }
    }
}

fn set_tls(listener: &mut Listener, behind: &[BlockAddress<'_, '_>], ledger: &mut Ledger) {
    let mut known = BTreeSet::new();
    for (server, _) in behind.iter().filter(|(_, it)| it.has_tls()) {
        listener_tls::add_certificates(&server.scope, listener, &mut known, ledger);
    }
    if let Some((default, _)) = behind.first().filter(|(_, it)| it.has_tls()) {
        listener_tls::set_properties(&default.scope, listener, ledger);
    }
    for (server, _) in behind {
        if server.listens.iter().all(|it| !it.has_tls()) {
            listener_tls::leave_unused(&server.scope, ledger);
        }
    }
    let encrypted = behind.iter().filter(|(_, it)| it.has_tls());
    let encrypted: Vec<&ServerBlock<'_>> = encrypted.map(|(server, _)| *server).collect();
    listener_tls::compare_versions(&encrypted, listener, ledger);
    listener_tls::share_client_auth(&encrypted, listener, ledger);
    let has_tls = behind.iter().any(|(_, it)| it.has_tls());
    if has_tls && listener.certificates.is_empty() {
        ledger.fill_in(format!(
            "[[listener]] {}: tls.certificates; nginx names none that can be imported",
            listener.address
        ));
        // A listener without certificates would be one in clear text.
        listener.certificates.push(placeholder_pair());
    }
}
