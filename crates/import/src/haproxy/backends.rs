//! Makes origins of backends.

use super::queues::{self, ServerBounds};
use super::sections::{ConfigSection, SectionLine};
use super::tables::millis;
use super::tls::{self, TlsDefaults, TlsWord};
use crate::bounds;
use crate::client_fields;
use crate::ledger::Ledger;
use crate::model::{Origin, Server};
use crate::toml::origin_timeout;

/// An address that never resolves (RFC 2606), for servers that the operator has to name.
const TO_NAME: &str = "name-a-server.invalid:80";

/// Returns the origin of a backend. `defaults` are the lines that it inherits.
pub(super) fn origin(
    backend: &ConfigSection,
    name: String,
    (defaults, tls): (&[&SectionLine], &TlsDefaults),
    ledger: &mut Ledger,
) -> Origin {
    let mut origin = Origin {
        name,
        ..Origin::default()
    };
    ledger.translated(backend.id);
    origin.remarks.sources.push(backend.id);
    let lines = || backend.lines.iter().chain(defaults.iter().copied());
    let mut servers = ServerReader {
        origin: &mut origin,
        tls,
        bounds: Vec::new(),
    };
    // The last word of a name holds.
    let shared = (defaults.iter().rev().copied()).chain(&backend.lines);
    let shared: Vec<&SectionLine> = shared.filter(|it| it.word(0) == "default-server").collect();
    for line in backend.named("server") {
        let words = shared.iter().flat_map(|line| &line.words[1..]);
        let words = words.chain(line.words.iter().skip(3));
        match servers.read(line, words.map(String::as_str)) {
            Ok(remarks) => {
                ledger.translated(line.id);
                shared.iter().for_each(|it| ledger.translated(it.id));
                servers.origin.remarks.sources.push(line.id);
                for difference in remarks.differences {
                    ledger.differs(line.id, difference);
                }
                for what in remarks.to_fill_in {
                    ledger.fill_in(format!("{}: {what}", ledger.comment(line.id)));
                }
            }
            Err(ServerOmission::Unused(reason)) => ledger.left_out(line.id, reason),
            Err(ServerOmission::Lost(reason)) => ledger.lose(line.id, &reason),
        }
    }
    let bounds = servers.bounds;
    let all: Vec<&SectionLine> = lines().collect();
    queues::bound(backend, &all, &bounds, &mut origin, ledger);
    if origin.servers.is_empty() {
        let what = format!(
            "{}: [origin.{}] servers",
            ledger.comment(backend.id),
            origin.name
        );
        ledger.fill_in(what);
        origin.servers.push(Server {
            address: TO_NAME.to_owned(),
            ..Server::default()
        });
    } else if origin.servers.iter().all(|server| server.backup) {
        origin.servers.iter_mut().for_each(|it| it.backup = false);
    }
    if let Some(line) = lines().find(|line| line.word(0) == "balance") {
        balance(line, &mut origin, ledger);
    }
    let timeouts = [
        ("connect", "connect"),
        ("server", "read"),
        ("tunnel", "tunnel"),
    ];
    for (name, key) in timeouts {
        let Some(line) = lines().find(|line| line.starts(&["timeout", name])) else {
            continue;
        };
        match origin_timeout(millis(line.word(2))) {
            Ok(time) => {
                ledger.translated(line.id);
                origin.timeouts.push((key, time));
            }
            Err(reason) => ledger.lose(line.id, reason),
        }
    }
    health(backend, defaults, &mut origin, ledger);
    origin
}

/// Returns an origin in place of a backend that is not there.
pub(super) fn missing(backend: &str, name: String, ledger: &mut Ledger) -> Origin {
    ledger.fill_in(format!(
        "[origin.{name}] servers: there is no backend {backend:?} in the input"
    ));
    Origin {
        name,
        servers: vec![Server {
            address: TO_NAME.to_owned(),
            ..Server::default()
        }],
        ..Origin::default()
    }
}

/// The reason for which a server is left out.
enum ServerOmission {
    /// It gets no requests in HAProxy either.
    Unused(String),
    /// It does in HAProxy.
    Lost(String),
}

/// The remarks about a server.
#[derive(Default)]
struct ServerRemarks {
    differences: Vec<String>,
    to_fill_in: Vec<String>,
}

/// Words of `server` without a value that need no key, or that the gateway has in any case.
const PLAIN_WORDS: [&str; 12] = [
    "allow-0rtt",
    "enabled",
    "no-backup",
    "no-check",
    "no-tls-tickets",
    "no-ssl-reuse",
    "no-verifyhost",
    "non-stick",
    "stick",
    "tfo",
    "agent-check",
    "check-ssl",
];

/// Words of `server` with a value that change how servers are found, checked and chosen, and no answer beside that.
const WORDS_WITH_VALUE: [&str; 46] = [
    "addr",
    "agent-addr",
    "agent-inter",
    "agent-port",
    "agent-send",
    "alpn",
    "check-alpn",
    "check-proto",
    "check-sni",
    "cookie",
    "downinter",
    "error-limit",
    "fall",
    "fastinter",
    "guid",
    "hash-key",
    "id",
    "init-addr",
    "init-state",
    "inter",
    "log-bufsize",
    "log-proto",
    "max-reuse",
    "namespace",
    "npn",
    "observe",
    "on-error",
    "on-marked-down",
    "on-marked-up",
    "pool-conn-name",
    "pool-low-conn",
    "pool-max-conn",
    "pool-purge-delay",
    "port",
    "proto",
    "resolve-net",
    "resolve-opts",
    "resolve-prefer",
    "resolvers",
    "rise",
    "shard",
    "slowstart",
    "source",
    "tcp-ut",
    "track",
    "ws",
];

/// Words of `server` whose omission opens what HAProxy closes, or changes what the server gets.
const GUARDS: [&str; 8] = [
    "crl-file",
    "redir",
    "send-proxy",
    "send-proxy-v2",
    "send-proxy-v2-ssl",
    "send-proxy-v2-ssl-cn",
    "socks4",
    "verifyhost",
];

/// Reads the servers of one origin.
struct ServerReader<'r> {
    origin: &'r mut Origin,
    tls: &'r TlsDefaults,
    /// The bounds of each server.
    bounds: Vec<ServerBounds>,
}

impl ServerReader<'_> {
    /// Adds a server. `words` are those of `default-server`, then its own behind the address.
    fn read<'w>(
        &mut self,
        line: &SectionLine,
        mut words: impl Iterator<Item = &'w str>,
    ) -> Result<ServerRemarks, ServerOmission> {
        let mut server = Server {
            address: address(line.word(2)).map_err(ServerOmission::Lost)?,
            ..Server::default()
        };
        let mut remarks = ServerRemarks::default();
        let mut keys = ServerTls {
            is_verified: !self.tls.trusts_servers,
            ..ServerTls::default()
        };
        let mut own_bounds = ServerBounds::default();
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap_or_default();
            match word {
                "check" => {
                    self.origin.health.get_or_insert_default();
                }
                "backup" => server.backup = true,
                "disabled" => {
                    return Err(ServerOmission::Unused("the server is disabled".to_owned()));
                }
                "weight" => match value().parse() {
                    Ok(0) => {
                        let reason = "a server of weight 0 gets no requests";
                        return Err(ServerOmission::Unused(reason.to_owned()));
                    }
                    weight => server.weight = weight.ok().map(|it: u64| it.min(bounds::SERVER_WEIGHT)),
                },
                "maxconn" => own_bounds.connections = value().parse().ok().filter(|most| *most > 0),
                "maxqueue" => own_bounds.queue = value().parse().ok().filter(|most| *most > 0),
                "minconn" => remarks.to_fill_in.push(format!(
                    "`minconn {}` is left out: below fullconn HAProxy opens fewer connections than maxconn",
                    value()
                )),
                "ssl" => keys.is_used = true,
                "no-ssl" => keys.is_used = false,
                "verify" => keys.is_verified = value() != "none",
                "ca-file" => keys.authorities = Some(self.tls.authority(value())),
                "crt" => keys.certificate = Some(self.tls.certificate(value())),
                "sni" => match value() {
                    name if name.starts_with("str(") => {
                        let name = name.trim_start_matches("str(").trim_end_matches(')');
                        keys.name = Some(name.to_owned());
                    }
                    other => remarks.differences.push(format!(
                        "`sni {other}` is left out; see server_name in [origin.NAME.tls]"
                    )),
                },
                word if PLAIN_WORDS.contains(&word) => {}
                word if GUARDS.contains(&word) => {
                    let what = match word {
                        "redir" | "socks4" | "crl-file" | "verifyhost" => {
                            format!("`{word} {}` is left out", value())
                        }
                        word => format!("`{word}` is left out: origins get no PROXY protocol"),
                    };
                    remarks.to_fill_in.push(what);
                }
                word if tls::word(word, "").is_some() => {
                    let value = if tls::has_value(word) { value() } else { "" };
                    if tls::word(word, value) != Some(TlsWord::Implied) {
                        remarks
                            .to_fill_in
                            .push(format!("`{word} {value}` is left out"));
                    }
                }
                word => {
                    let what = format!("`{word} {}` is left out; see [origin.NAME]", value());
                    match WORDS_WITH_VALUE.contains(&word) {
                        true => remarks.differences.push(what),
                        false => remarks.to_fill_in.push(what),
                    }
                }
            }
        }
        server.weight = server.weight.filter(|weight| *weight != 1);
        if keys.is_used {
            self.origin.tls = Some(keys.table());
        }
        self.bounds.push(own_bounds);
        self.origin.servers.push(server);
        Ok(remarks)
    }
}

/// The words of a server about TLS.
#[derive(Default)]
struct ServerTls {
    is_used: bool,
    is_verified: bool,
    authorities: Option<String>,
    certificate: Option<String>,
    name: Option<String>,
}

impl ServerTls {
    /// Returns the inline table.
    fn table(&self) -> String {
        let certificate = self.certificate.as_ref();
        let keys = [
            (
                "ca_file",
                self.authorities.as_ref().filter(|_| self.is_verified),
            ),
            ("cert_file", certificate),
            // One file has the certificate and its key.
            ("key_file", certificate),
            ("server_name", self.name.as_ref()),
        ];
        let pairs = keys
            .into_iter()
            .filter_map(|(key, value)| Some(format!("{key} = {}", crate::toml::quoted(value?))));
        let mut pairs: Vec<String> = pairs.collect();
        if !self.is_verified {
            pairs.push("verify = \"off\"".to_owned());
        }
        match pairs.as_slice() {
            [] => "{}".to_owned(),
            pairs => format!("{{ {} }}", pairs.join(", ")),
        }
    }
}

/// Returns the address of a server.
fn address(text: &str) -> Result<String, String> {
    let path = text.strip_prefix("unix@").unwrap_or(text);
    if path.starts_with('/') {
        return Ok(format!("unix:{path}"));
    }
    let address = text.trim_start_matches("ipv4@").trim_start_matches("ipv6@");
    let has_port = address
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0));
    if !has_port {
        return Err("a server has an address and a port".to_owned());
    }
    Ok(address.to_owned())
}

fn balance(line: &SectionLine, origin: &mut Origin, ledger: &mut Ledger) {
    let algorithm = line.word(1);
    let (name, argument) = algorithm.split_once('(').unwrap_or((algorithm, ""));
    let argument = argument.split([',', ')']).next().unwrap_or_default();
    let hash_key = match (name, argument) {
        ("roundrobin" | "static-rr", _) => {
            ledger.translated(line.id);
            return;
        }
        ("leastconn", _) => {
            origin.balance = Some("least-requests");
            ledger.translated(line.id);
            return;
        }
        ("random", _) => {
            origin.balance = Some("power-of-two");
            ledger.translated(line.id);
            return;
        }
        ("source", _) => "client.ip".to_owned(),
        ("uri", _) => "path".to_owned(),
        ("url_param", _) if !line.word(2).is_empty() => format!("query.{}", line.word(2)),
        ("hdr", name) if client_fields::names_client(&name.to_ascii_lowercase()) => {
            "client.ip".to_owned()
        }
        ("hdr", name) if !name.is_empty() && !name.eq_ignore_ascii_case("host") => {
            format!("header.{}", name.to_ascii_lowercase())
        }
        ("hdr", _) => "host".to_owned(),
        _ => {
            ledger.left_out(line.id, "see [origin.NAME] balance");
            return;
        }
    };
    origin.balance = Some("hash");
    origin.hash_key = Some(hash_key);
    ledger.translated(line.id);
}

fn health(
    backend: &ConfigSection,
    defaults: &[&SectionLine],
    origin: &mut Origin,
    ledger: &mut Ledger,
) {
    let lines = backend.lines.iter().chain(defaults.iter().copied());
    for line in lines.filter(|line| line.starts(&["option", "httpchk"])) {
        let Some(health) = &mut origin.health else {
            ledger.left_out(line.id, "no server is checked");
            continue;
        };
        let path = line.words.iter().skip(2).find(|word| word.starts_with('/'));
        ledger.translated(line.id);
        if health.is_empty() {
            let path = path.map_or("/", String::as_str);
            health.push(("path", crate::toml::quoted(path)));
        }
    }
}
