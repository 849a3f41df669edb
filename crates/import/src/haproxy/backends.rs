//! Makes origins of backends.

use super::sections::{ConfigSection, SectionLine};
use super::tables::millis;
use crate::ledger::Ledger;
use crate::model::{Origin, Server};

/// An address that never resolves (RFC 2606), for servers that the operator has to name.
const TO_NAME: &str = "name-a-server.invalid:80";

/// Returns the origin of a backend. `defaults` are the lines that it inherits.
pub(super) fn origin(
    backend: &ConfigSection,
    name: String,
    defaults: &[&SectionLine],
    ledger: &mut Ledger,
) -> Origin {
    let mut origin = Origin {
        name,
        ..Origin::default()
    };
    ledger.translated(backend.id);
    origin.remarks.sources.push(backend.id);
    let lines = || backend.lines.iter().chain(defaults.iter().copied());
    for line in backend.named("server") {
        match server(line, &mut origin) {
            Ok(differences) => {
                ledger.translated(line.id);
                origin.remarks.sources.push(line.id);
                for difference in differences {
                    ledger.differs(line.id, difference);
                }
            }
            Err(reason) => ledger.left_out(line.id, reason),
        }
    }
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
    for (name, key) in [("connect", "connect"), ("server", "read")] {
        let Some(line) = lines().find(|line| line.starts(&["timeout", name])) else {
            continue;
        };
        match millis(line.word(2)).filter(|it| (1..=86_400_000).contains(it)) {
            Some(millis) => {
                ledger.translated(line.id);
                origin.timeouts.push((key, crate::toml::duration(millis)));
            }
            None => ledger.left_out(line.id, "a timeout is 1ms to 1d"),
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

fn server(line: &SectionLine, origin: &mut Origin) -> Result<Vec<String>, String> {
    let address = line.word(2);
    if address.starts_with(['/', '@']) || address.contains("@/") {
        return Err("origins are reached by TCP, not by Unix sockets".to_owned());
    }
    let address = address
        .trim_start_matches("ipv4@")
        .trim_start_matches("ipv6@");
    let has_port = address
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0));
    if !has_port {
        return Err("a server has an address and a port".to_owned());
    }
    let mut server = Server {
        address: address.to_owned(),
        ..Server::default()
    };
    let mut differences = Vec::new();
    let mut words = line.words.iter().skip(3).map(String::as_str);
    let mut verify = None;
    while let Some(word) = words.next() {
        match word {
            "check" => {
                origin.health.get_or_insert_default();
            }
            "backup" => server.backup = true,
            "disabled" => return Err("the server is disabled".to_owned()),
            "weight" => {
                let weight: Option<u64> = words.next().and_then(|it| it.parse().ok());
                match weight {
                    Some(0) => return Err("a server of weight 0 gets no requests".to_owned()),
                    weight => server.weight = weight.map(|it| it.min(256)).filter(|it| *it != 1),
                }
            }
            "maxconn" => {
                let most: Option<u64> = words.next().and_then(|it| it.parse().ok());
                origin.max_connections = most.filter(|it| (1..=10_000).contains(it));
            }
            "ssl" => {
                origin.tls.get_or_insert("{}".to_owned());
            }
            "verify" => verify = words.next(),
            "ca-file" => {
                let file = crate::toml::quoted(words.next().unwrap_or_default());
                origin.tls = Some(format!("{{ ca_file = {file} }}"));
            }
            "inter" | "fall" | "rise" | "port" | "addr" | "cookie" | "sni" | "alpn"
            | "maxqueue" | "slowstart" | "init-addr" | "resolvers" | "resolve-prefer"
            | "check-sni" | "observe" | "on-error" | "on-marked-down" | "error-limit"
            | "pool-max-conn" | "minconn" | "crt" | "proto" | "source" | "id" => {
                let value = words.next().unwrap_or_default();
                differences.push(format!("`{word} {value}` is left out; see [origin.NAME]"));
            }
            other => differences.push(format!("`{other}` is left out; see [origin.NAME]")),
        }
    }
    if verify == Some("none") && origin.tls.is_some() {
        origin.tls = Some("{ verify = \"off\" }".to_owned());
    }
    origin.servers.push(server);
    Ok(differences)
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
