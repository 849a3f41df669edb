//! Decides which `servers` of the global options hold for a listener, and whose word about the client is believed.
//!
//! A listener has the block with its address, or else the block without one. The gateway believes the same proxies at all listeners.

use super::tree::{CaddyDirective, CaddyTree};
use crate::ledger::{EntryId, Ledger};
use crate::model::{ClientRules, GatewayModel, KeyPart};
use crate::trust::{self, TrustScope};

/// The settings of a block `servers` that hold for its listeners.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerSettings {
    /// The address of its listeners; empty for all that no other block names.
    pub(super) address: String,
    pub(super) trusted: Vec<String>,
    /// The field that names the client.
    pub(super) field: Option<String>,
    /// Blocks of the proxies that announce clients by the PROXY protocol.
    pub(super) proxy_protocol_from: Option<Vec<String>>,
}

/// Returns the block that holds for the listener of an address.
pub(super) fn find<'s>(blocks: &'s [ServerSettings], address: &str) -> Option<&'s ServerSettings> {
    let own = blocks.iter().find(|it| listened(&it.address) == address);
    own.or_else(|| blocks.iter().find(|it| it.address.is_empty()))
}

/// Returns the address of a listener for one of Caddy.
fn listened(address: &str) -> String {
    let plain = address.rsplit('/').next().unwrap_or(address);
    match plain.strip_prefix(':') {
        Some(port) => format!("[::]:{port}"),
        None => plain.to_owned(),
    }
}

/// Sets `[client]` to what the blocks of all listeners with sites believe; `addresses` are those of the listeners.
pub(super) fn believe(
    blocks: &[ServerSettings],
    addresses: &[String],
    client: &mut ClientRules,
    ledger: &mut Ledger,
) {
    let of_listeners = addresses
        .iter()
        .map(|address| (address, find(blocks, address)));
    let scopes: Vec<TrustScope> = of_listeners
        .clone()
        .map(|(address, block)| TrustScope {
            name: format!("the listener {address}"),
            proxies: block.map(|it| it.trusted.clone()).unwrap_or_default(),
        })
        .collect();
    trust::believe(client, &scopes, ledger);
    let fields = of_listeners.filter_map(|(_, block)| block.filter(|it| !it.trusted.is_empty()));
    let mut fields = fields.map(|it| it.field.clone());
    let Some(first) = fields.next() else { return };
    if fields.any(|it| it != first) {
        ledger.fill_in(
            "[client] client_ip_header: listeners have other client_ip_headers, and one field names the client for all of them",
        );
    }
    client.header = first;
}

/// Records the proxies that some `reverse_proxy` believes and no listener does. In Caddy they name the client for one origin; where no
/// limit and no condition is about the client and all origins believe the same, they are believed.
pub(super) fn believe_for_origins(
    lists: &[(EntryId, Vec<String>)],
    gateway: &mut GatewayModel,
    ledger: &mut Ledger,
) {
    let is_client = |part: &KeyPart| matches!(part, KeyPart::ClientIp | KeyPart::ClientNetwork(..));
    let mut limits = gateway.limits.iter();
    let judges_client = limits.any(|it| it.key.iter().any(is_client))
        || gateway.routes.iter().any(|it| !it.client.is_empty());
    let client = &mut gateway.client;
    if !judges_client && client.trusted_proxies.is_empty() {
        let scopes = lists.iter().map(|(id, proxies)| TrustScope {
            name: ledger.comment(*id),
            proxies: proxies.clone(),
        });
        let scopes: Vec<TrustScope> = scopes.collect();
        client
            .remarks
            .sources
            .extend(lists.iter().filter(|it| !it.1.is_empty()).map(|it| it.0));
        return trust::believe(client, &scopes, ledger);
    }
    for (id, proxies) in lists {
        if !trust::is_within(proxies, &client.trusted_proxies) {
            ledger.fill_in_for(
                *id,
                "Caddy believes these proxies for this origin alone; in [client] trusted_proxies they name the client for the limits and \
                 conditions of all routes",
            );
        }
    }
}

/// Records the conditions, keys and fields that are about the peer, where proxies are believed.
pub(super) fn report_peers(tree: &CaddyTree, client: &ClientRules, ledger: &mut Ledger) {
    if client.trusted_proxies.is_empty() {
        return;
    }
    let sites = tree.sites.iter().map(|it| it.directives.as_slice());
    let blocks = sites.chain(tree.routes.values().map(Vec::as_slice));
    for directive in blocks.flatten() {
        report_peer(directive, ledger);
    }
}

/// Placeholders of the address of the connection.
const PEER_PLACEHOLDERS: [&str; 3] = ["{remote_host}", "{http.request.remote.host}", "{remote}"];

/// Directives that write fields, or whose blocks do.
const FIELD_DIRECTIVES: [&str; 4] = ["header", "header_down", "header_up", "request_header"];

fn report_peer(directive: &CaddyDirective, ledger: &mut Ledger) {
    let name = directive.name.as_str();
    let is_matcher = name.starts_with('@') || matches!(name, "not" | "match" | "remote_ip");
    let mut words = [name]
        .into_iter()
        .chain(directive.words.iter().map(String::as_str));
    if FIELD_DIRECTIVES.contains(&name) {
        let lines = [directive].into_iter().chain(directive.children());
        for line in lines.filter(|it| it.words.iter().any(|word| is_peer(word))) {
            ledger.fill_in_for(
                line.id,
                "Caddy writes the address of the connection, also that of a proxy; the gateway writes that of the client that [client] \
                 trusted_proxies name",
            );
        }
        return;
    }
    let judges_peer = match name {
        "key" => is_peer(directive.word(0)),
        _ => is_matcher && words.any(|it| it == "remote_ip"),
    };
    if judges_peer {
        ledger.fill_in_for(
            directive.id,
            "Caddy judges the address of the connection, also that of a proxy; the gateway judges the client that [client] trusted_proxies \
             name",
        );
    }
    directive
        .children()
        .iter()
        .for_each(|it| report_peer(it, ledger));
}

fn is_peer(text: &str) -> bool {
    PEER_PLACEHOLDERS.iter().any(|it| text.contains(it))
}
