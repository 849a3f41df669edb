//! Makes listeners of `listen`.

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
pub(super) fn share_properties(servers: &mut [ServerBlock<'_>]) {
    let texts = |server: &ServerBlock<'_>| -> Vec<String> {
        let listens = server.listens.iter();
        listens.map(|it| it.address.clone()).collect()
    };
    let written: Vec<Vec<String>> = servers.iter().map(texts).collect();
    let addresses: BTreeSet<&String> = written.iter().flatten().collect();
    for address in addresses {
        let has = |property: fn(&ListenAddress<'_>) -> bool| {
            let mut all = servers.iter().flat_map(|server| &server.listens);
            all.any(|it| it.address == *address && property(it))
        };
        let default = default_of(servers, &written, address).and_then(|it| servers.get(it));
        let has_tls = has(|it| it.has_tls) || default.is_some_and(|it| is_on(it.scope.ssl));
        let has_proxy_protocol = has(|it| it.has_proxy_protocol);
        for listen in servers.iter_mut().flat_map(|server| &mut server.listens) {
            if listen.address == *address {
                listen.has_tls = has_tls;
                listen.has_proxy_protocol = has_proxy_protocol;
            }
        }
    }
}

/// Returns the addresses that each block's connections come to: those that nginx binds.
pub(super) fn bound_addresses(servers: &[ServerBlock<'_>]) -> Vec<Vec<String>> {
    let all = || servers.iter().flat_map(|server| &server.listens);
    let bound = |inner: &ListenAddress<'_>| {
        let outer = all().filter(|outer| covers(&outer.address, &inner.address));
        // An address of IPv6 takes those of IPv4 too.
        let widest = outer.max_by_key(|outer| outer.address.starts_with('['));
        widest.map_or_else(|| inner.address.clone(), |outer| outer.address.clone())
    };
    let of_block = |server: &ServerBlock<'_>| server.listens.iter().map(bound).collect();
    servers.iter().map(of_block).collect()
}

/// Returns the block that takes the hosts of an address that none names: the one that is marked, or else the first. `addresses` are those
/// of each block.
pub(super) fn default_of(
    servers: &[ServerBlock<'_>],
    addresses: &[Vec<String>],
    address: &str,
) -> Option<usize> {
    let position = |is_meant: fn(&ListenAddress<'_>) -> bool| {
        servers.iter().zip(addresses).position(|(server, bound)| {
            let mut listens = server.listens.iter().zip(bound);
            listens.any(|(it, bound)| bound == address && is_meant(it))
        })
    };
    position(|it| it.is_default).or_else(|| position(|_| true))
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
                require_address(directive, server, other, &listen.address, ledger);
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

/// Records a `listen` for one address of the machine whose connections come to a listener for all of them, `bound`.
fn require_address(
    directive: &Directive,
    server: &ServerBlock<'_>,
    listen: &ListenAddress<'_>,
    bound: &str,
    ledger: &mut Ledger,
) {
    let address = listen.address.parse::<std::net::SocketAddr>();
    let is_of_one = address.is_ok_and(|address| !address.ip().is_unspecified());
    if is_of_one && !server.listens.iter().any(|it| it.address == bound) {
        let what = format!(
            "{bound} takes its connections, so clients reach this server block there too; write a listener for each address of this machine"
        );
        ledger.fill_in_for(directive.id, &what);
    }
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
