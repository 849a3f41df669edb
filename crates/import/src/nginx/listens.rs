//! Reads the addresses of server blocks.

use std::collections::BTreeSet;

use super::address_groups::{AddressGroup, AddressGroups};
use super::scope::{SettingScope, is_on};
use super::tree::Directive;
use crate::bounds;
use crate::ledger::Ledger;

/// A server block with its addresses and names.
pub(super) struct ServerBlock<'d> {
    pub(super) directive: &'d Directive,
    pub(super) scope: SettingScope<'d>,
    pub(super) listens: Vec<ListenAddress<'d>>,
}

impl ServerBlock<'_> {
    /// Returns the names that are written, or the place, as reports name a block.
    pub(super) fn shown(&self, ledger: &Ledger) -> String {
        let children = self.directive.children().iter();
        let names = children.filter(|it| it.name == "server_name");
        let names: Vec<&str> = names.flat_map(Directive::arguments).collect();
        match names.is_empty() {
            true => ledger.comment(self.directive.id),
            false => names.join(" "),
        }
    }

    /// Returns true if no request comes to the block, since its clients fail to connect by TLS.
    pub(super) fn refuses_handshakes(&self) -> bool {
        is_on(self.scope.reject_handshake) && self.listens.iter().all(ListenAddress::has_tls)
    }

    /// Returns the scheme of its requests; `None` where some of its addresses have TLS and some have not.
    pub(super) fn scheme(&self) -> Option<&'static str> {
        let mut listens = self.listens.iter();
        match listens.clone().any(ListenAddress::has_tls) {
            false => Some("http"),
            true => listens.all(ListenAddress::has_tls).then_some("https"),
        }
    }
}

/// An address of a server block.
pub(super) struct ListenAddress<'d> {
    /// `None` where nothing is written, and nginx takes port 80.
    pub(super) directive: Option<&'d Directive>,
    pub(super) address: String,
    pub(super) is_default: bool,
    /// True for an address of IPv6 that takes connections over IPv4 too.
    pub(super) takes_both: bool,
    has_tls: bool,
    pub(super) has_proxy_protocol: bool,
}

impl ListenAddress<'_> {
    /// Returns true if connections to it are encrypted.
    pub(super) fn has_tls(&self) -> bool {
        self.has_tls
    }
}

/// Reads the addresses of a server block.
pub(super) fn server_block<'d>(
    directive: &'d Directive,
    outer: &SettingScope<'d>,
    ledger: &mut Ledger,
) -> ServerBlock<'d> {
    let children = directive.children();
    let mut listens = Vec::new();
    for child in children.iter().filter(|it| it.name == "listen") {
        if listens.len() == bounds::LISTENS_OF_SERVER {
            ledger.lose(
                child.id,
                "its server block has too many addresses for an import",
            );
            continue;
        }
        match listen(child) {
            Ok(found) => listens.push(found),
            Err(reason) => ledger.left_out(child.id, reason),
        }
    }
    if !children.iter().any(|it| it.name == "listen") {
        listens.push(ListenAddress {
            directive: None,
            address: "0.0.0.0:80".to_owned(),
            is_default: false,
            takes_both: false,
            has_tls: false,
            has_proxy_protocol: false,
        });
    }
    ServerBlock {
        directive,
        scope: outer.of_server(children),
        listens,
    }
}

/// Returns the directives of all levels.
pub(super) fn all_directives<'d>(
    http: &[&'d Directive],
    servers: &[ServerBlock<'d>],
) -> Vec<&'d Directive> {
    let mut all = http.to_vec();
    for server in servers {
        collect(server.directive.children(), &mut all);
    }
    all
}

/// Collects the directives of a level and of the locations below it.
fn collect<'d>(directives: &'d [Directive], found: &mut Vec<&'d Directive>) {
    for directive in directives {
        found.push(directive);
        if directive.name == "location" {
            collect(directive.children(), found);
        }
    }
}

/// Gives each address the properties that one block states for all: nginx takes TLS and the PROXY protocol of any `listen` of the address,
/// and `ssl on` of its default server.
pub(super) fn share_properties(servers: &mut [ServerBlock<'_>], addresses: &AddressGroups) {
    let is_on_at = |group: &AddressGroup| {
        let default = servers.get(group.default);
        group.has_tls || default.is_some_and(|it| is_on(it.scope.ssl))
    };
    let encrypted = addresses.groups().filter(|it| is_on_at(it));
    let encrypted: BTreeSet<&str> = encrypted.map(|it| it.address.as_str()).collect();
    for listen in servers.iter_mut().flat_map(|server| &mut server.listens) {
        let group = addresses.at(&listen.address);
        listen.has_tls = encrypted.contains(listen.address.as_str());
        listen.has_proxy_protocol = group.is_some_and(|it| it.has_proxy_protocol);
    }
}

fn listen(directive: &Directive) -> Result<ListenAddress<'_>, String> {
    let place = directive.word(0).unwrap_or_default();
    if place.starts_with("unix:") {
        return Err("listeners have IP addresses".to_owned());
    }
    let (host, port) = match place.rsplit_once(':') {
        _ if place.bytes().all(|byte| byte.is_ascii_digit()) => ("*", place),
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port),
        _ => (place, "80"),
    };
    let host = match host {
        "*" => "0.0.0.0",
        "localhost" => "127.0.0.1",
        host => host,
    };
    let address = format!("{host}:{port}");
    let Ok(address) = address.parse::<std::net::SocketAddr>() else {
        return Err(format!(
            "{place:?} is no address; a listener has an IP address with a port"
        ));
    };
    let has = |name: &str| directive.arguments().any(|word| word == name);
    if has("quic") {
        return Err("listeners speak HTTP/1.1 and HTTP/2".to_owned());
    }
    Ok(ListenAddress {
        directive: Some(directive),
        address: address.to_string(),
        is_default: has("default_server") || has("default"),
        takes_both: has("ipv6only=off"),
        has_tls: has("ssl"),
        has_proxy_protocol: has("proxy_protocol"),
    })
}
