//! Makes listeners of entry points, and the keys of `[client]` and `[server]` that they have.

use std::net::SocketAddr;

use super::account::TreeAccount;
use super::notations::TraefikConfig;
use super::tree::{self, at, is_on, member, millis, number, text, texts};
use crate::bounds;
use crate::ingress::yaml::YamlNode;
use crate::model::{GatewayModel, Listener, TableRemarks};
use crate::toml::server_time;

/// An entry point.
pub(super) struct EntryPoint {
    pub(super) name: String,
    /// Middlewares of all of its routers.
    pub(super) middlewares: Vec<String>,
    /// `http.tls`, by which all of its routers have TLS.
    pub(super) tls: Option<YamlNode>,
    /// True if routers that name no entry point belong to it.
    pub(super) is_usual: bool,
    /// Proxies whose X-Forwarded-For it keeps; `None` where the input does not have it.
    pub(super) trusted: Option<Vec<String>>,
    pub(super) listener: Listener,
}

impl EntryPoint {
    /// Returns true if its port or its name is that of HTTPS.
    pub(super) fn is_for_https(&self) -> bool {
        self.listener.address.ends_with(":443")
            || ["websecure", "https"].contains(&self.name.to_ascii_lowercase().as_str())
    }

    /// Gives TLS to an entry point for HTTPS that the input does not have: its own file may say that its routers have TLS.
    pub(super) fn assume_tls(&mut self, account: &mut TreeAccount<'_>) {
        if self.trusted.is_none() && self.is_for_https() && self.tls.is_none() {
            account.ledger.fill_in(format!(
                "[[listener]] {}: tls; routers of the entry point {} have none of their own, and its file is not in the input: \
                 TLS is written",
                self.listener.address, self.name
            ));
            self.tls = Some(YamlNode::Map(Vec::new()));
        }
    }
}

/// The entry point of Traefik's own pages.
const INTERNAL: &str = "traefik";

/// Addresses of the usual entry points.
const USUAL: [(&str, &str); 4] = [
    ("web", "[::]:80"),
    ("http", "[::]:80"),
    ("websecure", "[::]:443"),
    ("https", "[::]:443"),
];

/// Returns the entry points of the input, or those that routers name. `named` are the names of entry points in routers.
pub(super) fn read(
    config: &TraefikConfig,
    named: &[String],
    gateway: &mut GatewayModel,
    account: &mut TreeAccount<'_>,
) -> Vec<EntryPoint> {
    let declared = config.members("entryPoints");
    if declared.is_empty() {
        return named
            .iter()
            .enumerate()
            .map(|(at, name)| assumed(name, at, account))
            .collect();
    }
    let any_default = declared.iter().any(|(_, node)| is_on(node, "asDefault"));
    let mut found: Vec<EntryPoint> = Vec::new();
    for (name, node) in declared {
        let is_named = named.iter().any(|it| it.eq_ignore_ascii_case(name));
        if name == INTERNAL && !is_named {
            account.idle(node, "Traefik's own pages; see [admin]");
            continue;
        }
        let entry_point = entry_point(name, node, gateway, account);
        found.extend(entry_point.map(|it| EntryPoint {
            is_usual: !any_default || is_on(node, "asDefault"),
            ..it
        }));
    }
    for name in named {
        if !found.iter().any(|it| it.name.eq_ignore_ascii_case(name)) {
            account.ledger.fill_in(format!(
                "[[listener]]: routers name the entry point {name}, which is not in the input"
            ));
        }
    }
    found
}

/// Returns the entry point of a name of which the input has no address.
fn assumed(name: &str, at: usize, account: &mut TreeAccount<'_>) -> EntryPoint {
    let usual = USUAL
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    let address = usual.map_or_else(
        || {
            let address = format!("[::]:{}", 8_000 + at);
            account.ledger.fill_in(format!(
                "[[listener]] address and tls: those of the entry point {name}; {address} is written"
            ));
            address
        },
        |(_, address)| (*address).to_owned(),
    );
    EntryPoint {
        name: name.to_owned(),
        middlewares: Vec::new(),
        tls: None,
        is_usual: true,
        trusted: None,
        listener: Listener {
            address,
            ..Listener::default()
        },
    }
}

fn entry_point(
    name: &str,
    node: &YamlNode,
    gateway: &mut GatewayModel,
    account: &mut TreeAccount<'_>,
) -> Option<EntryPoint> {
    let place = format!("entryPoints.{name}");
    let written = text(node, "address").unwrap_or_default();
    if written.ends_with("/udp") {
        account.lost(node, &place, "the gateway does not forward UDP");
        return None;
    }
    let mut listener = Listener {
        remarks: TableRemarks {
            sources: member(node, "address")
                .map(YamlNode::entries)
                .unwrap_or_default(),
            differences: Vec::new(),
        },
        ..Listener::default()
    };
    listener.address = address(written).unwrap_or_else(|| {
        account.ledger.fill_in(format!(
            "[[listener]] address: an address and a port for {written:?} of {name}"
        ));
        "[::]:80".to_owned()
    });
    let mut trusted = Vec::new();
    for (key, value) in node.members() {
        let place = format!("{place}.{key}");
        match key.to_ascii_lowercase().as_str() {
            "address" | "asdefault" => account.translated(value),
            "http" => http(value, &place, (&mut listener, gateway), account),
            "forwardedheaders" => trusted = forwarded(value, &place, gateway, account),
            "proxyprotocol" => announced(value, &place, &mut listener, account),
            "transport" => times(value, gateway, account),
            "http2" => match number(value, "maxConcurrentStreams") {
                Some(most) if bounds::HTTP2_STREAMS.contains(&most) => {
                    account.members(value, &place, &["maxConcurrentStreams"]);
                    let bound = ("http2.max_streams", most.to_string());
                    set(gateway, bound, value, account);
                }
                _ => account.lost(value, &place, "max_streams of [server.http2] is 1 to 1024"),
            },
            "http3" => account.idle(value, "clients use HTTP/2 where there is no HTTP/3"),
            "udp" | "observability" | "reuseport" | "allowacmebypass" => {
                account.idle(value, "it changes no answer of a route");
            }
            _ => account.lost(value, &place, "it has no counterpart"),
        }
    }
    Some(EntryPoint {
        name: name.to_owned(),
        middlewares: texts(at(node, "http.middlewares")),
        tls: at(node, "http.tls").cloned(),
        is_usual: true,
        trusted: Some(trusted),
        listener,
    })
}

/// Returns the address of a listener.
fn address(written: &str) -> Option<String> {
    let written = written.trim_end_matches("/tcp");
    let full = match written.strip_prefix(':') {
        Some(port) => format!("[::]:{port}"),
        None => written.to_owned(),
    };
    full.parse::<SocketAddr>().ok().map(|it| it.to_string())
}

/// Sets a key of `[server]`, which holds for all listeners. Returns false where another entry point has another value; that is to be
/// filled in.
fn set(
    gateway: &mut GatewayModel,
    (key, value): (&'static str, String),
    node: &YamlNode,
    account: &mut TreeAccount<'_>,
) -> bool {
    let result = gateway.set_server(key, value, tree::entry(node));
    match &result {
        Ok(()) => account.translated(node),
        Err(reason) => account.lost(node, key, reason),
    }
    result.is_ok()
}

fn http(
    node: &YamlNode,
    place: &str,
    (listener, gateway): (&mut Listener, &mut GatewayModel),
    account: &mut TreeAccount<'_>,
) {
    for (key, value) in node.members() {
        match key.to_ascii_lowercase().as_str() {
            "redirections" => redirection(value, place, listener, account),
            "middlewares" => account.translated(value),
            // Routers have it.
            "tls" => {}
            "maxheaderbytes" => match value.text().and_then(|it| it.trim().parse::<u64>().ok()) {
                Some(most) if bounds::HEADER_BYTES.contains(&most) => {
                    let bound = ("max_header_bytes", format!("\"{most}B\""));
                    set(gateway, bound, value, account);
                }
                _ => account.lost(value, place, "a head has 1KiB to 1MiB"),
            },
            "encodequerysemicolons" | "sanitizepath" => {
                account.idle(
                    value,
                    "paths are compared in one form, and the query is passed as it came",
                );
            }
            "encodedcharacters" if value.members().iter().any(|(it, _)| !is_on(value, it)) => {
                let reason = "the gateway rejects such paths where they would bypass a route, and passes others on";
                account.lost(value, place, reason);
            }
            "encodedcharacters" => {
                account.differs(
                    value,
                    "paths with several readings are rejected where that would bypass a route",
                );
            }
            _ => account.lost(value, &format!("{place}.{key}"), "it has no counterpart"),
        }
    }
}

/// Reads the redirect of all requests to another entry point.
fn redirection(
    node: &YamlNode,
    place: &str,
    listener: &mut Listener,
    account: &mut TreeAccount<'_>,
) {
    let Some(target) = member(node, "entryPoint") else {
        return account.lost(node, place, "it has no target");
    };
    let scheme = text(target, "scheme").unwrap_or("https");
    let to = text(target, "to").unwrap_or_default();
    if scheme != "https" || to.is_empty() {
        return account.lost(node, place, "a listener redirects to HTTPS");
    }
    account.members(target, place, &["to", "scheme", "permanent", "priority"]);
    account.differs(
        node,
        "the redirect is 308, except for what certificate authorities ask for",
    );
    listener.remarks.sources.extend(node.entries());
    // The port is known when all entry points are.
    listener.redirect_to_https = Some(to.to_owned());
}

/// Writes the ports of redirects in place of the names of their targets.
pub(super) fn resolve_redirects(entry_points: &mut [EntryPoint]) {
    let port = |address: &str| address.rsplit(':').next().unwrap_or_default().to_owned();
    let ports: Vec<(String, String)> = entry_points
        .iter()
        .map(|it| (it.name.clone(), port(&it.listener.address)))
        .collect();
    for entry_point in entry_points {
        let Some(to) = entry_point.listener.redirect_to_https.take() else {
            continue;
        };
        let named = ports
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(&to));
        let port = named.map_or_else(
            || to.trim_start_matches(':').to_owned(),
            |(_, port)| port.clone(),
        );
        entry_point.listener.redirect_to_https = Some(match port.parse::<u16>() {
            Ok(443) | Err(_) => "true".to_owned(),
            Ok(port) => port.to_string(),
        });
    }
}

/// Returns the proxies whose X-Forwarded-For is kept.
fn forwarded(
    node: &YamlNode,
    place: &str,
    gateway: &mut GatewayModel,
    account: &mut TreeAccount<'_>,
) -> Vec<String> {
    let mut trusted = Vec::new();
    for (key, value) in node.members() {
        match key.to_ascii_lowercase().as_str() {
            "trustedips" => {
                match crate::ingress::annotations::blocks(&texts(Some(value)).join(",")) {
                    Ok(blocks) => {
                        account.translated(value);
                        gateway.client.remarks.sources.extend(tree::entry(value));
                        trusted = blocks;
                    }
                    Err(reason) => account.lost(value, place, &reason),
                }
            }
            "insecure" if is_on(node, key) => {
                account.lost(
                    value,
                    place,
                    "the proxies in front are to be named in [client] trusted_proxies",
                );
            }
            "insecure" | "connection" | "notappendxforwardedfor" => {
                account.idle(value, "the gateway writes these fields itself");
            }
            _ => account.lost(value, place, "it has no counterpart"),
        }
    }
    trusted
}

fn announced(node: &YamlNode, place: &str, listener: &mut Listener, account: &mut TreeAccount<'_>) {
    if is_on(node, "insecure") {
        return account.lost(node, place, "proxy_protocol_from names the proxies");
    }
    let ranges = texts(member(node, "trustedIPs")).join(",");
    match crate::ingress::annotations::blocks(&ranges) {
        Ok(blocks) if !blocks.is_empty() => {
            account.members(node, place, &["trustedIPs", "insecure"]);
            account.differs(
                node,
                "connections of other peers and without the header are closed",
            );
            listener.remarks.sources.extend(tree::entry(node));
            listener.proxy_protocol_from = Some(blocks);
        }
        Ok(_) => account.idle(node, "nobody is believed"),
        Err(reason) => account.lost(node, place, &reason),
    }
}

/// Times of `transport` with their keys of `[server]`.
const TIMES: [(&str, &str); 4] = [
    ("respondingTimeouts.readTimeout", "client_read_timeout"),
    ("respondingTimeouts.writeTimeout", "client_write_timeout"),
    ("respondingTimeouts.idleTimeout", "keepalive_timeout"),
    ("lifeCycle.graceTimeOut", "shutdown_timeout"),
];

/// Members of `transport` that change how long a connection is kept, and no answer.
const KEPT: [&str; 3] = [
    "keepAliveMaxRequests",
    "keepAliveMaxTime",
    "lifeCycle.requestAcceptGraceTimeout",
];

/// Reads `transport`. A time of 0 is none, and the gateway has its own.
fn times(node: &YamlNode, gateway: &mut GatewayModel, account: &mut TreeAccount<'_>) {
    for (path, key) in TIMES {
        let Some(value) = at(node, path) else {
            continue;
        };
        let millis = value.text().and_then(|it| millis(it.trim()));
        if millis == Some(0) {
            account.idle(value, "it is no bound, and the gateway has its own");
            continue;
        }
        match server_time(key, millis) {
            Ok(time) => {
                let is_set = set(gateway, (key, time), value, account);
                if let (true, Some(id)) = (is_set && key.starts_with("client"), tree::entry(value))
                {
                    let what = format!(
                        "{key} of [server] bounds each read or write, and Traefik bounds a whole request or answer"
                    );
                    account.ledger.fill_in_for(id, &what);
                }
            }
            Err(reason) => account.lost(value, path, &reason),
        }
    }
    for kept in KEPT.iter().filter_map(|it| at(node, it)) {
        account.idle(kept, "it changes how long connections are kept");
    }
}
