//! Makes listeners of `listen`, and decides which hosts each server block has.

use std::collections::BTreeSet;

use super::https_redirect;
use super::listener_tls;
use super::scope::{SettingScope, is_on};
use super::tree::Directive;
use crate::ledger::Ledger;
use crate::model::Listener;

/// A server block with its addresses and names.
pub(super) struct ServerBlock<'d> {
    pub(super) directive: &'d Directive,
    pub(super) scope: SettingScope<'d>,
    pub(super) listens: Vec<ListenAddress<'d>>,
}

impl ServerBlock<'_> {
    /// Returns true if no request comes to the block, since its clients fail to connect by TLS.
    pub(super) fn refuses_handshakes(&self) -> bool {
        is_on(self.scope.reject_handshake) && self.listens.iter().all(ListenAddress::has_tls)
    }
}

/// An address of a server block.
pub(super) struct ListenAddress<'d> {
    /// `None` where nothing is written, and nginx takes port 80.
    directive: Option<&'d Directive>,
    pub(super) address: String,
    is_default: bool,
    has_tls: bool,
    has_proxy_protocol: bool,
}

impl ListenAddress<'_> {
    /// Returns true if connections to it are encrypted.
    pub(super) fn has_tls(&self) -> bool {
        self.has_tls
    }
}

/// The hosts of a server block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerHosts {
    /// Every host that no other server block names.
    pub(super) any: bool,
    pub(super) names: Vec<String>,
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

/// Gives each address the properties that one block states for all: nginx takes TLS and the PROXY protocol of any `listen` of the address,
/// and `ssl on` of its default server.
pub(super) fn share_properties(servers: &mut [ServerBlock<'_>]) {
    let addresses: BTreeSet<String> = servers
        .iter()
        .flat_map(|server| server.listens.iter().map(|it| it.address.clone()))
        .collect();
    for address in addresses {
        let has = |property: fn(&ListenAddress<'_>) -> bool| {
            let mut all = servers.iter().flat_map(|server| &server.listens);
            all.any(|it| it.address == address && property(it))
        };
        let default = default_of(servers, &address).and_then(|number| servers.get(number));
        let has_tls = has(|it| it.has_tls) || default.is_some_and(|it| is_on(it.scope.ssl));
        let has_proxy_protocol = has(|it| it.has_proxy_protocol);
        for listen in servers.iter_mut().flat_map(|server| &mut server.listens) {
            if listen.address == address {
                listen.has_tls = has_tls;
                listen.has_proxy_protocol = has_proxy_protocol;
            }
        }
    }
}

/// Returns the block that takes the hosts of an address that none names: the one that is marked, or else the first.
fn default_of(servers: &[ServerBlock<'_>], address: &str) -> Option<usize> {
    let position = |is_meant: fn(&ListenAddress<'_>) -> bool| {
        servers.iter().position(|server| {
            let mut listens = server.listens.iter();
            listens.any(|it| it.address == address && is_meant(it))
        })
    };
    position(|it| it.is_default).or_else(|| position(|_| true))
}

/// Returns true if a block takes the hosts of one of its addresses that none names.
pub(super) fn is_default_somewhere(servers: &[ServerBlock<'_>], number: usize) -> bool {
    let mut listens = servers[number].listens.iter();
    listens.any(|it| default_of(servers, &it.address) == Some(number))
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
    if address.parse::<std::net::SocketAddr>().is_err() {
        return Err(format!(
            "{place:?} is no address; a listener has an IP address with a port"
        ));
    }
    let has = |name: &str| directive.arguments().any(|word| word == name);
    if has("quic") {
        return Err("listeners speak HTTP/1.1 and HTTP/2".to_owned());
    }
    Ok(ListenAddress {
        directive: Some(directive),
        address,
        is_default: has("default_server") || has("default"),
        has_tls: has("ssl"),
        has_proxy_protocol: has("proxy_protocol"),
    })
}

/// Makes one listener of each address of blocks that have routes or redirect. `proxies` are the addresses of those that may announce
/// clients.
pub(super) fn listeners(
    servers: &[&ServerBlock<'_>],
    proxies: &[String],
    ledger: &mut Ledger,
) -> Vec<Listener> {
    let all = || {
        servers
            .iter()
            .flat_map(|server| server.listens.iter().map(move |it| (server, it)))
    };
    let mut listeners: Vec<Listener> = Vec::new();
    for (_, listen) in all() {
        if listeners
            .iter()
            .any(|known| known.address == listen.address)
            || is_covered(listen, servers)
        {
            continue;
        }
        let mut of_address: Vec<_> = all()
            .filter(|(_, other)| {
                other.address == listen.address || covers(&listen.address, &other.address)
            })
            .collect();
        // The certificate of the default server is the default of the listener.
        of_address.sort_by_key(|(_, other)| !(other.is_default && other.address == listen.address));
        let mut listener = Listener {
            address: listen.address.clone(),
            ..Listener::default()
        };
        for (server, other) in &of_address {
            if other.has_tls != listen.has_tls {
                ledger.fill_in(format!(
                    "[[listener]] {}: {} is taken by it, and has TLS where it has none, or the other way round; write a listener for each \
                     address of this machine",
                    listen.address, other.address
                ));
            }
            if let Some(directive) = other.directive {
                ledger.translated(directive.id);
                listener.remarks.sources.push(directive.id);
            }
            if other.has_tls {
                listener_tls::add_certificates(&server.scope, &mut listener, ledger);
            }
        }
        if let Some((default, _)) = of_address.first().filter(|(_, it)| it.has_tls) {
            listener_tls::set_properties(&default.scope, &mut listener, ledger);
        }
        for (server, _) in &of_address {
            if server.listens.iter().all(|it| !it.has_tls) {
                listener_tls::leave_unused(&server.scope, ledger);
            }
            listener_tls::record_equal(&server.scope, &listener, ledger);
        }
        if of_address.iter().any(|(_, it)| it.has_proxy_protocol) {
            listener.proxy_protocol_from = Some(proxies.to_vec());
            if proxies.is_empty() {
                ledger.fill_in(format!(
                    "[[listener]] {}: proxy_protocol_from, the addresses of the proxies in front; nginx believes everybody",
                    listen.address
                ));
            }
        }
        if of_address
            .iter()
            .all(|(server, _)| https_redirect::is_all_of(server))
        {
            listener.redirect_to_https = Some("true".to_owned());
            for (server, _) in &of_address {
                let made_of = https_redirect::record(server.directive, ledger);
                listener.remarks.sources.extend(made_of);
            }
        }
        let has_ssl = of_address.iter().any(|(_, it)| it.has_tls);
        if has_ssl && listener.certificates.is_empty() {
            ledger.fill_in(format!(
                "[[listener]] {}: tls.certificates; nginx names none that can be imported",
                listen.address
            ));
        }
        listeners.push(listener);
    }
    listeners
}

/// Returns true if another address takes the connections of this one: nginx then binds that one only.
fn is_covered(listen: &ListenAddress<'_>, servers: &[&ServerBlock<'_>]) -> bool {
    let mut others = servers.iter().flat_map(|server| &server.listens);
    others.any(|other| covers(&other.address, &listen.address))
}

fn covers(outer: &str, inner: &str) -> bool {
    let parse = |text: &str| text.parse::<std::net::SocketAddr>().ok();
    let (Some(outer), Some(inner)) = (parse(outer), parse(inner)) else {
        return false;
    };
    if outer.port() != inner.port() || outer == inner || !outer.ip().is_unspecified() {
        return false;
    }
    outer.is_ipv6() || (inner.is_ipv4() && !inner.ip().is_unspecified())
}

/// Decides which server block takes which hosts. A host belongs to the first block that names it, on whichever address.
pub(super) fn hosts(servers: &[ServerBlock<'_>], ledger: &mut Ledger) -> Vec<ServerHosts> {
    let default = default_server(servers);
    let mut taken: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for (number, server) in servers.iter().enumerate() {
        let mut hosts = ServerHosts {
            any: default == Some(number),
            names: Vec::new(),
        };
        for directive in server
            .directive
            .children()
            .iter()
            .filter(|it| it.name == "server_name")
        {
            for name in directive.arguments() {
                let name = name.to_ascii_lowercase();
                for host in forms(&name) {
                    // Its requests are redirected, whichever block they are for.
                    if https_redirect::is_all_of(server) {
                        ledger.translated(directive.id);
                        continue;
                    }
                    match host {
                        Ok(host) if taken.contains(&host) => {
                            let reason = format!(
                                "{host} belongs to another server block, and routes hold on every listener; \
                                 import this block into its own file"
                            );
                            ledger.left_out(directive.id, reason.clone());
                            ledger.fill_in_for(server.directive.id, &reason);
                        }
                        Ok(host) => {
                            taken.push(host.clone());
                            hosts.names.push(host);
                            ledger.translated(directive.id);
                        }
                        Err(_) if hosts.any => ledger.translated(directive.id),
                        Err(reason) => {
                            // `_` and the like are names that nobody asks for.
                            if name.starts_with('~') || name.contains('*') {
                                let comment = ledger.comment(directive.id);
                                ledger.fill_in(format!(
                                    "{comment}: requests for these hosts have no route; write `host` in some"
                                ));
                            }
                            ledger.left_out(directive.id, reason);
                        }
                    }
                }
            }
        }
        found.push(hosts);
    }
    found
}

/// Returns the block that takes the hosts that none names: the default of the first address that has other content than a redirect.
fn default_server(servers: &[ServerBlock<'_>]) -> Option<usize> {
    let serving = |server: &&ServerBlock<'_>| {
        !https_redirect::is_all_of(server) && !server.refuses_handshakes()
    };
    let first = servers.iter().find(serving)?;
    let address = &first.listens.first()?.address;
    let of_address = |listen: &&ListenAddress<'_>| listen.address == *address;
    let marked = servers.iter().position(|server| {
        server
            .listens
            .iter()
            .filter(of_address)
            .any(|it| it.is_default)
    });
    let first = servers
        .iter()
        .position(|server| serving(&server) && server.listens.iter().any(|it| of_address(&it)));
    marked.or(first)
}

/// Returns the hosts that a name of a server block stands for.
fn forms(name: &str) -> Vec<Result<String, String>> {
    if let Some(parent) = name.strip_prefix('.') {
        return vec![Ok(parent.to_owned()), Ok(format!("*.{parent}"))];
    }
    let inner = name.strip_prefix("*.").unwrap_or(name);
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if inner.is_empty() || !inner.chars().all(is_host) {
        return vec![Err(format!("{name:?} is no host, and no request has it"))];
    }
    vec![Ok(name.to_owned())]
}
