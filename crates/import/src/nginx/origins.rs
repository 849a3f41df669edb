//! Makes origins of `upstream` blocks and of the targets of `proxy_pass` and `grpc_pass`.

use std::collections::{BTreeMap, BTreeSet};

use sluicegate_base::host;

use super::keys::{TextPiece, pieces};
use super::origin_tls::OriginTls;
use super::passes::{self, PassPath};
use super::scope::SettingScope;
use super::tree::Directive;
use super::units;
use crate::bounds;
use crate::ledger::{EntryId, Ledger};
use crate::model::{Origin, Server};
use crate::names::NamePool;
use crate::toml::origin_timeout;

/// The name of the origin for locations that nginx serves from files.
pub(super) const FILES: &str = "files";

/// The beginning of a server that listens on a Unix socket, for nginx and here.
pub(super) const SOCKET: &str = "unix:";

/// Why a server at a socket is not carried over.
pub(super) const RELATIVE_SOCKET: &str = "the path of its socket is relative; write the whole path";

/// Why an `upstream` is left out.
const NO_ROUTE: &str = "no route leads there";

/// The difference of an origin that gets its own name as Host.
const LOCATION: &str = "a Location that begins with this URL reaches clients as it is; nginx writes the path of the location in its place";

/// An address that never resolves (RFC 2606), for servers that the operator has to name.
const TO_NAME: &str = "name-a-server.invalid:80";

/// All origins that were made.
#[derive(Default)]
pub(super) struct OriginMaker<'d> {
    pub(super) origins: Vec<Origin>,
    upstreams: BTreeMap<String, &'d Directive>,
    made: BTreeMap<OriginUse, String>,
    names: NamePool,
    /// The origins whose `Location` nginx rewrites.
    self_named: BTreeSet<String>,
}

/// The settings that tell origins apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OriginUse {
    scheme: String,
    /// `protocol`, where it is not HTTP/1.1.
    protocol: Option<&'static str>,
    authority: String,
    host: Option<String>,
    timeouts: Vec<(&'static str, String)>,
    /// `None` where servers are asked in clear text.
    tls: Option<OriginTls>,
}

/// The target of `proxy_pass`.
pub(super) struct PassTarget {
    pub(super) origin: String,
    pub(super) path: PassPath,
    /// The directives that assign variables in it.
    pub(super) assignments: Vec<EntryId>,
}

impl<'d> OriginMaker<'d> {
    /// Takes the `upstream` blocks of a level.
    pub(super) fn define(&mut self, directive: &'d Directive, ledger: &mut Ledger) {
        ledger.left_out(directive.id, NO_ROUTE);
        for child in directive.children() {
            ledger.left_out_with(child.id, NO_ROUTE);
        }
        if let Some(name) = directive.word(0) {
            self.upstreams.insert(name.to_owned(), directive);
        }
    }

    /// Returns the origin of a `proxy_pass` or `grpc_pass`, which is made if it is new.
    ///
    /// # Errors
    ///
    /// The reason for which there is none.
    pub(super) fn target(
        &mut self,
        pass: &'d Directive,
        scope: &SettingScope<'d>,
        ledger: &mut Ledger,
    ) -> Result<PassTarget, String> {
        let url = passes::read(pass, scope)?;
        let settings = match pass.name.as_str() {
            "grpc_pass" => scope.grpc_tls,
            _ => scope.proxy_tls,
        };
        let default_port = if url.scheme.ends_with('s') { 443 } else { 80 };
        let is_known = self.upstreams.contains_key(&url.authority);
        if !is_known && !is_server(&with_port(&url.authority, default_port)) {
            return Err(format!("{:?} is no server with a port", url.authority));
        }
        let is_encrypted = url.scheme.ends_with('s');
        let tls = is_encrypted.then(|| {
            let name = self.upstreams.get_key_value(&url.authority);
            settings.origin(name.map(|(name, _)| name.as_str()), ledger)
        });
        if !is_encrypted {
            settings.leave_unused(ledger);
        }
        let protocol = protocol(&url.scheme, scope);
        if let Some(version) = scope
            .http_version
            .filter(|it| protocol.is_some() && it.word(0) == Some("2"))
        {
            ledger.translated(version.id);
        }
        let wanted = OriginUse {
            protocol,
            host: host(&url.authority, scope, pass, ledger),
            scheme: url.scheme,
            authority: url.authority,
            timeouts: timeouts(scope, ledger),
            tls,
        };
        ledger.translated(pass.id);
        url.assignments.iter().for_each(|id| ledger.translated(*id));
        let name = match self.made.get(&wanted) {
            Some(name) => name.clone(),
            None => self.make(&wanted, pass, ledger),
        };
        // One line is enough for an origin.
        if rewrites_location(&wanted, scope, pass) && self.self_named.insert(name.clone()) {
            ledger.differs(pass.id, LOCATION);
        }
        Ok(PassTarget {
            origin: name,
            path: url.path,
            assignments: url.assignments,
        })
    }

    /// Returns the origin for what nginx answers without a proxied server.
    pub(super) fn files(&mut self, what: &str, reason: &str, ledger: &mut Ledger) -> String {
        ledger.fill_in(format!(
            "[origin.{FILES}] servers: the address of a server for {what}, since {reason}"
        ));
        self.unnamed()
    }

    /// Returns the origin for a directive whose answer or server no route has.
    pub(super) fn in_place_of(&mut self, id: EntryId, reason: &str, ledger: &mut Ledger) -> String {
        ledger.left_out(id, reason);
        let what = format!(
            "{reason}; its route leads to [origin.{FILES}] until its answer or its server is written"
        );
        ledger.fill_in_for(id, &what);
        self.unnamed()
    }

    /// Returns the origin whose server the operator has to name, which is made if it is new.
    fn unnamed(&mut self) -> String {
        if !self.origins.iter().any(|origin| origin.name == FILES) {
            let name = self.names.unique(FILES);
            self.origins.push(Origin {
                name,
                servers: vec![Server {
                    address: TO_NAME.to_owned(),
                    ..Server::default()
                }],
                ..Origin::default()
            });
        }
        FILES.to_owned()
    }

    fn make(&mut self, wanted: &OriginUse, pass: &Directive, ledger: &mut Ledger) -> String {
        let mut origin = Origin {
            host: wanted.host.clone(),
            timeouts: wanted.timeouts.clone(),
            ..Origin::default()
        };
        if let Some(tls) = &wanted.tls {
            if !tls.is_verified {
                let difference = "the certificate is not verified, as in nginx; leave `tls.verify` out to verify it";
                origin.remarks.differences.push(difference.to_owned());
            }
            origin.tls = Some(tls.table());
            origin.remarks.sources.extend(&tls.sources);
        }
        origin.protocol = wanted.protocol;
        if let Some(upstream) = self.upstreams.get(&wanted.authority).copied() {
            self.take_upstream(upstream, &mut origin, ledger);
        } else {
            let port = if wanted.scheme.ends_with('s') {
                443
            } else {
                80
            };
            origin.servers.push(Server {
                address: with_port(&wanted.authority, port),
                ..Server::default()
            });
            origin.remarks.sources.push(pass.id);
        }
        let wanted_name = match wanted.authority.strip_prefix(SOCKET) {
            Some(path) => path.rsplit('/').next().unwrap_or(path).to_owned(),
            None => wanted.authority.replace(':', "-"),
        };
        origin.name = self.names.unique(&wanted_name);
        self.made.insert(wanted.clone(), origin.name.clone());
        let name = origin.name.clone();
        self.origins.push(origin);
        name
    }

    fn take_upstream(&self, upstream: &Directive, origin: &mut Origin, ledger: &mut Ledger) {
        ledger.translated(upstream.id);
        origin.remarks.sources.push(upstream.id);
        for child in upstream.children() {
            match (child.name.as_str(), child.word(0)) {
                ("server", Some(address)) => match server(child, address, ledger) {
                    Ok(found) => {
                        let both = [origin.max_connections, found.max_connections];
                        origin.max_connections = both.into_iter().flatten().min();
                        origin.servers.push(found.server);
                    }
                    Err(reason) => {
                        ledger.left_out(child.id, reason);
                        continue;
                    }
                },
                ("least_conn", _) => origin.balance = Some("least-requests"),
                ("random", Some("two")) => origin.balance = Some("power-of-two"),
                ("ip_hash", _) => {
                    origin.balance = Some("hash");
                    origin.hash_key = Some("client.ip".to_owned());
                }
                ("hash", Some(key)) => match hash_key(key) {
                    Some(key) => {
                        origin.balance = Some("hash");
                        origin.hash_key = Some(key);
                    }
                    None => {
                        ledger.left_out(child.id, format!("no hash_key is {key}"));
                        continue;
                    }
                },
                // The reason of these is known.
                ("include" | "keepalive_requests" | "keepalive_time", _) => continue,
                ("keepalive_timeout", Some(time)) if set_idle(time, origin) => {}
                // A connection that is idle is kept in any case.
                ("zone" | "keepalive", _) => {}
                _ => {
                    if ledger.reason(child.id) == Some(NO_ROUTE) {
                        ledger.left_out(child.id, "an origin has no key for it");
                    }
                    continue;
                }
            }
            ledger.translated(child.id);
        }
        if origin.servers.iter().all(|server| server.backup) {
            for server in &mut origin.servers {
                server.backup = false;
            }
        }
        if origin.servers.is_empty() {
            origin.servers.push(Server {
                address: TO_NAME.to_owned(),
                ..Server::default()
            });
            ledger.fill_in_for(upstream.id, "none of its servers can be reached");
        }
    }
}

/// Sets the time for which an idle connection is kept; returns false for one that no origin has.
fn set_idle(time: &str, origin: &mut Origin) -> bool {
    let time = origin_timeout(units::millis(time));
    let is_set = time.is_ok();
    origin.timeouts.extend(time.map(|time| ("idle", time)));
    is_set
}

/// Returns true for the origin of what nginx serves without a proxied server.
pub(super) fn is_files(name: &str) -> bool {
    name == FILES
}

/// A server of an `upstream`, and the bound on connections that is written with it.
struct UpstreamServer {
    server: Server,
    max_connections: Option<u64>,
}

fn server(
    directive: &Directive,
    address: &str,
    ledger: &mut Ledger,
) -> Result<UpstreamServer, &'static str> {
    if is_relative_socket(address) {
        return Err(RELATIVE_SOCKET);
    }
    let mut server = Server {
        address: with_port(address, 80),
        ..Server::default()
    };
    if !is_server(&server.address) {
        return Err("it is no server with a port");
    }
    let mut max_connections = None;
    for word in directive.arguments().skip(1) {
        match word.split_once('=') {
            Some(("weight", weight)) => {
                let weight: Option<u64> = weight.parse().ok();
                server.weight = weight.map(|weight| weight.min(bounds::SERVER_WEIGHT));
            }
            Some(("max_conns", most)) => {
                // 0 is no bound; the gateway has one of its own.
                let most: Option<u64> = most.parse().ok().filter(|most| *most > 0);
                max_connections = most.map(|most| most.min(bounds::ORIGIN_CONNECTIONS));
            }
            None if word == "backup" => server.backup = true,
            None if word == "down" => return Err("the server is marked as down"),
            None if word == "resolve" => {}
            _ => ledger.differs(
                directive.id,
                format!("{word} is left out; see {}", counterpart(word)),
            ),
        }
    }
    Ok(UpstreamServer {
        server,
        max_connections,
    })
}

/// Returns what the gateway has in place of a word of a server.
fn counterpart(word: &str) -> &'static str {
    match word.split('=').next() {
        Some("slow_start") => "slow_start of the origin",
        Some("route" | "drain") => "[origin.NAME.sticky]",
        _ => "[origin.NAME.outlier_detection], which takes failing servers out of use",
    }
}

/// Returns the Host that the origin gets; `None` for that of the client. nginx sends the name of the target by default.
fn host(
    authority: &str,
    scope: &SettingScope<'_>,
    pass: &Directive,
    ledger: &mut Ledger,
) -> Option<String> {
    let is_host = |it: &&&Directive| {
        it.word(0)
            .is_some_and(|name| name.eq_ignore_ascii_case("host"))
    };
    let written = scope.set_headers.iter().find(is_host);
    match written.and_then(|it| it.word(1)) {
        Some("$host" | "$http_host" | "$http_host:$server_port" | "$host:$server_port") => None,
        // nginx calls what listens on a socket localhost.
        None | Some("$proxy_host") if authority.starts_with(SOCKET) => Some("localhost".to_owned()),
        None | Some("$proxy_host") if is_authority(authority) => Some(authority.to_owned()),
        Some(text) if is_authority(text) => Some(text.to_owned()),
        _ => {
            let id = written.copied().unwrap_or(pass).id;
            let what =
                "`host` of the origin is that of the client, or a host with or without a port";
            ledger.fill_in_for(id, what);
            None
        }
    }
}

/// Returns true where nginx rewrites a Location with the URL of a `proxy_pass`, which an origin writes that gets its own name as Host.
fn rewrites_location(origin: &OriginUse, scope: &SettingScope<'_>, pass: &Directive) -> bool {
    let is_default = |it: &&Directive| it.word(0) == Some("default");
    let is_constant = pass.word(0).is_some_and(|it| !it.contains('$'));
    pass.name == "proxy_pass"
        && is_constant
        && origin.host.as_ref() == Some(&origin.authority)
        && (scope.redirects.is_empty() || scope.redirects.iter().any(is_default))
}

/// Returns true for a host with or without a port.
fn is_authority(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
    !text.is_empty() && text.chars().all(is_plain) && host::normalize(text).is_ok()
}

/// Returns true for a server that can be connected to: a socket, or a name or an address with a port.
fn is_server(address: &str) -> bool {
    let port = address
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok());
    address.starts_with(SOCKET) || (is_authority(address) && port.is_some_and(|port: u16| port > 0))
}

/// Returns `protocol` of an origin: HTTP/2 for gRPC and `proxy_http_version 2`.
fn protocol(scheme: &str, scope: &SettingScope<'_>) -> Option<&'static str> {
    let is_http2 = || scope.http_version.and_then(|it| it.word(0)) == Some("2");
    match scheme {
        "grpcs" => Some("h2"),
        "grpc" => Some("h2c"),
        "https" if is_http2() => Some("h2"),
        "http" if is_http2() => Some("h2c"),
        _ => None,
    }
}

/// Returns the timeouts of a level; those of nginx are a minute by default.
fn timeouts(scope: &SettingScope<'_>, ledger: &mut Ledger) -> Vec<(&'static str, String)> {
    let settings = [
        ("connect", scope.connect_timeout),
        ("read", scope.read_timeout),
        ("write", scope.send_timeout),
    ];
    let mut found = Vec::new();
    for (key, directive) in settings {
        let Some(directive) = directive else { continue };
        let millis = directive.word(0).and_then(super::units::millis);
        match origin_timeout(millis) {
            Ok(time) => {
                ledger.translated(directive.id);
                found.push((key, time));
            }
            Err(reason) => ledger.left_out(directive.id, reason),
        }
    }
    found
}

fn hash_key(text: &str) -> Option<String> {
    let key = match pieces(text).as_slice() {
        [TextPiece::Variable(name)] => match name.as_str() {
            name if super::keys::is_client(name) => "client.ip".to_owned(),
            "host" | "http_host" => "host".to_owned(),
            "uri" | "request_uri" | "document_uri" => "path".to_owned(),
            name => super::keys::value(name)?.text(),
        },
        _ => return None,
    };
    Some(key)
}

/// Returns whether this is a socket whose path depends on where nginx was started.
pub(super) fn is_relative_socket(address: &str) -> bool {
    (address.strip_prefix(SOCKET)).is_some_and(|path| !path.starts_with('/'))
}

/// Returns an address with its port, or with the usual one; a socket has none.
fn with_port(address: &str, port: u16) -> String {
    if address.starts_with(SOCKET) {
        return address.to_owned();
    }
    // A connection to no address in particular reaches this machine.
    let address = match address.strip_prefix("0.0.0.0") {
        Some(port) => format!("127.0.0.1{port}"),
        None => address.replacen("[::]", "[::1]", 1),
    };
    let has_port = address
        .rsplit_once(':')
        .is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    if has_port {
        address
    } else {
        format!("{address}:{port}")
    }
}
