//! Reads the properties of a load balancer that are about its servers: checks, affinity, host, and the transport to them.

use std::ops::RangeInclusive;

use super::account::TreeAccount;
use super::notations::TraefikConfig;
use super::tree::{is_on, member, millis, number, text, texts};
use crate::bounds;
use crate::ingress::yaml::YamlNode;
use crate::model::Origin;
use crate::toml::{duration, inline, origin_timeout, quoted};

/// The scheme of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ServerScheme {
    #[default]
    Http,
    Https,
    H2c,
}

/// Applies all members of a load balancer but its servers.
pub(super) fn apply(
    config: &TraefikConfig,
    name: &str,
    node: &YamlNode,
    scheme: ServerScheme,
    origin: &mut Origin,
    account: &mut TreeAccount<'_>,
) {
    let mut tls = Vec::new();
    let mut has_http2 = true;
    for (key, value) in node.members() {
        let place = format!("http.services.{name}.loadBalancer.{key}");
        match key.to_ascii_lowercase().as_str() {
            "servers" | "server" | "addresses" => {}
            "passhostheader" => {
                account.translated(value);
                if !is_on(node, key) {
                    host((origin, scheme), name, account);
                }
            }
            "healthcheck" => origin.health = Some(health(value, &place, account)),
            "sticky" => sticky(value, &place, origin, account),
            "serverstransport" => {
                let found = value.text().map(str::trim);
                let found = found.and_then(|it| config.named("http.serversTransports", it));
                match found {
                    Some((_, transport)) => {
                        account.translated(value);
                        has_http2 &= !is_on(transport, "disableHTTP2");
                        transport_keys(transport, &place, (origin, &mut tls), account);
                    }
                    None => account.lost(value, &place, "this transport is not in the input"),
                }
            }
            "strategy" => match value.text().map(str::trim) {
                Some("wrr" | "RoundRobin" | "") => account.translated(value),
                Some("p2c") => {
                    origin.balance = Some("power-of-two");
                    account.translated(value);
                }
                Some("hrw") => {
                    origin.balance = Some("hash");
                    origin.hash_key = Some("client.ip".to_owned());
                    account.translated(value);
                }
                Some("leasttime") => {
                    origin.balance = Some("least-requests");
                    account.differs(
                        value,
                        "the server with the fewest requests in flight is chosen",
                    );
                }
                _ => account.lost(value, &place, "see [origin.NAME] balance"),
            },
            "responseforwarding" | "nativelb" | "nodeportlb" => {
                account.idle(value, "answers are passed on as they come");
            }
            "passivehealthcheck" => {
                account.lost(value, &place, "see [origin.NAME.outlier_detection]");
            }
            _ => account.lost(value, &place, "it has no counterpart"),
        }
    }
    let usual = member(&config.root, "serversTransport");
    if let Some(usual) = usual.filter(|_| member(node, "serversTransport").is_none()) {
        has_http2 &= !is_on(usual, "disableHTTP2");
        transport_keys(usual, "serversTransport", (origin, &mut tls), account);
    }
    if scheme == ServerScheme::Https {
        // Traefik speaks HTTP/2 with servers that offer it.
        origin.protocol = has_http2.then_some("auto");
        origin.tls = Some(inline(&tls));
    }
}

/// Sends the host of the servers in place of the client's.
fn host((origin, scheme): (&mut Origin, ServerScheme), name: &str, account: &mut TreeAccount<'_>) {
    let first = origin.servers.first().map(|it| it.address.clone());
    let is_one = origin
        .servers
        .iter()
        .all(|it| Some(&it.address) == first.as_ref());
    match first.filter(|_| is_one) {
        Some(address) => {
            let usual = match scheme {
                ServerScheme::Https => ":443",
                ServerScheme::Http | ServerScheme::H2c => ":80",
            };
            let host = address.strip_suffix(usual).unwrap_or(&address);
            origin.host = Some(host.to_owned());
        }
        None => account.ledger.fill_in(format!(
            "[origin.{}] host: each server of Traefik gets its own name as Host; an origin has one",
            crate::names::plain(name)
        )),
    }
}

fn health(
    node: &YamlNode,
    place: &str,
    account: &mut TreeAccount<'_>,
) -> Vec<(&'static str, String)> {
    let mut keys = Vec::new();
    for (key, value) in node.members() {
        let plain = value.text().map(str::trim).unwrap_or_default();
        let found = match key.to_ascii_lowercase().as_str() {
            "path" if plain.starts_with('/') => Some(("path", quoted(plain))),
            "interval" => health_time("interval", plain, &bounds::HEALTH_INTERVAL_MILLIS),
            "timeout" => health_time("timeout", plain, &bounds::HEALTH_TIMEOUT_MILLIS),
            "hostname" => Some(("host", quoted(plain))),
            "status" if plain.parse::<u16>().is_ok() => {
                Some(("statuses", format!("[\"{plain}\"]")))
            }
            "followredirects" | "unhealthyinterval" => {
                account.idle(value, "it changes how soon a server is found again");
                continue;
            }
            "method" if plain.eq_ignore_ascii_case("GET") => {
                account.translated(value);
                continue;
            }
            "mode" if plain == "http" => {
                account.translated(value);
                continue;
            }
            _ => None,
        };
        match found {
            Some(pair) => {
                account.translated(value);
                keys.push(pair);
            }
            None => account.lost(value, &format!("{place}.{key}"), "see [origin.NAME.health]"),
        }
    }
    keys
}

fn health_time(
    key: &'static str,
    text: &str,
    range: &RangeInclusive<u64>,
) -> Option<(&'static str, String)> {
    let millis = millis(text).filter(|it| range.contains(it))?;
    Some((key, duration(millis)))
}

fn sticky(node: &YamlNode, place: &str, origin: &mut Origin, account: &mut TreeAccount<'_>) {
    let Some(cookie) = member(node, "cookie") else {
        account.lost(node, place, "see [origin.NAME.sticky]");
        return;
    };
    let mut keys = Vec::new();
    let is_name = |it: &&str| {
        it.chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    if let Some(name) = text(cookie, "name")
        .filter(|it| !it.is_empty())
        .filter(is_name)
    {
        keys.push(format!("cookie = {}", quoted(name)));
    }
    let age = number(cookie, "maxAge").filter(|it| (1..=34_560_000).contains(it));
    if let Some(age) = age {
        keys.push(format!("ttl = {}", duration(age * 1_000)));
    }
    account.translated(node);
    if cookie
        .members()
        .iter()
        .any(|(it, _)| !it.eq_ignore_ascii_case("name"))
    {
        account.differs(node, "the attributes of the cookie are the gateway's own");
    }
    origin.keys.push(("sticky", inline(&keys)));
}

/// Returns true for the name of a file; Traefik takes the text of a certificate too.
pub(super) fn is_file(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_control) && !text.contains("-----BEGIN")
}

/// Applies a transport.
fn transport_keys(
    node: &YamlNode,
    place: &str,
    (origin, tls): (&mut Origin, &mut Vec<String>),
    account: &mut TreeAccount<'_>,
) {
    for (key, value) in node.members() {
        let files = texts(Some(value));
        match key.to_ascii_lowercase().as_str() {
            "servername" => {
                account.translated(value);
                tls.push(format!(
                    "server_name = {}",
                    quoted(value.text().unwrap_or_default().trim())
                ));
            }
            "insecureskipverify" => {
                account.translated(value);
                if is_on(node, key) {
                    tls.push("verify = \"off\"".to_owned());
                }
            }
            "rootcas" if files.len() == 1 && is_file(&files[0]) => {
                account.translated(value);
                tls.push(format!("ca_file = {}", quoted(&files[0])));
            }
            "certificates" if value.elements().len() == 1 => {
                let pair = &value.elements()[0];
                for (name, to) in [("certFile", "cert_file"), ("keyFile", "key_file")] {
                    if let Some(file) = text(pair, name) {
                        tls.push(format!("{to} = {}", quoted(file)));
                    }
                }
                account.members(pair, place, &["certFile", "keyFile"]);
            }
            "disablehttp2" => account.translated(value),
            "maxidleconnsperhost" => {
                account.idle(value, "the gateway keeps connections by a bound of its own")
            }
            "forwardingtimeouts" => timeouts(value, place, origin, account),
            _ => account.lost(value, &format!("{place}.{key}"), "see [origin.NAME.tls]"),
        }
    }
}

fn timeouts(node: &YamlNode, place: &str, origin: &mut Origin, account: &mut TreeAccount<'_>) {
    for (key, value) in node.members() {
        let to = match key.to_ascii_lowercase().as_str() {
            "dialtimeout" => "connect",
            "responseheadertimeout" => "read",
            "idleconntimeout" => "idle",
            "readidletimeout" | "pingtimeout" => {
                account.idle(value, "it finds dead connections; see [origin.NAME.health]");
                continue;
            }
            _ => {
                account.lost(
                    value,
                    &format!("{place}.{key}"),
                    "see [origin.NAME.timeouts]",
                );
                continue;
            }
        };
        let millis = value.text().and_then(|it| millis(it.trim()));
        match origin_timeout(millis) {
            Ok(time) => {
                match to {
                    "read" => account.differs(
                        value,
                        "`read` of `timeouts` bounds each pause in a body too",
                    ),
                    _ => account.translated(value),
                }
                origin.timeouts.push((to, time));
            }
            Err(_) if millis == Some(0) => {
                account.idle(value, "without a bound the gateway has its own")
            }
            Err(reason) => account.lost(value, place, reason),
        }
    }
}
