//! Makes listeners of `bind`, and times of `[server]` of the defaults.

use std::net::SocketAddr;

use super::sections::{ConfigSection, SectionLine};
use super::tables::millis;
use crate::ledger::Ledger;
use crate::model::{GatewayModel, Listener};

/// Adds the listeners of a frontend.
pub(super) fn listeners(
    frontend: &ConfigSection,
    redirect: Option<&str>,
    gateway: &mut GatewayModel,
    ledger: &mut Ledger,
) {
    ledger.translated(frontend.id);
    for line in frontend.named("bind") {
        let mut is_good = false;
        for place in line.word(1).split(',') {
            match address(place) {
                Ok(address) if gateway.listeners.iter().any(|it| it.address == address) => {}
                Ok(address) => {
                    is_good = true;
                    gateway
                        .listeners
                        .push(listener(line, address, redirect, ledger));
                }
                Err(reason) => ledger.left_out(line.id, reason),
            }
        }
        if is_good {
            ledger.translated(line.id);
        }
    }
    for rule in frontend
        .lines
        .iter()
        .filter(|line| redirect.is_some() && line.words.iter().any(|it| it == "https"))
    {
        ledger.differs(
            rule.id,
            "the redirect is 308 to port 443, except for what certificate authorities ask for",
        );
    }
}

fn listener(
    line: &SectionLine,
    address: String,
    redirect: Option<&str>,
    ledger: &mut Ledger,
) -> Listener {
    let has = |name: &str| line.words.iter().any(|word| word == name);
    let has_tls = has("ssl");
    let mut listener = Listener {
        address,
        ..Listener::default()
    };
    listener.remarks.sources.push(line.id);
    if !has_tls {
        listener.redirect_to_https = redirect.map(str::to_owned);
    }
    if has("accept-proxy") {
        listener.proxy_protocol_from = Some(Vec::new());
        ledger.fill_in(format!(
            "[[listener]] {}: proxy_protocol_from, the addresses of the proxies in front; HAProxy believes everybody",
            listener.address
        ));
    }
    if has_tls {
        match line.behind("crt") {
            // One file has the certificate and its key.
            Some(file) if !file.ends_with('/') => {
                listener
                    .certificates
                    .push((file.to_owned(), file.to_owned()));
            }
            _ => ledger.fill_in(format!(
                "[[listener]] {}: tls.certificates, a file for each",
                listener.address
            )),
        }
        if line.behind("verify").is_some_and(|it| it == "required") {
            listener.client_ca = line.behind("ca-file").map(str::to_owned);
        }
    }
    listener
}

/// Returns the address of a listener.
fn address(place: &str) -> Result<String, String> {
    let wrong = || format!("{place:?} is no address; a listener has an IP address with a port");
    let place = place
        .trim_start_matches("ipv4@")
        .trim_start_matches("ipv6@");
    let (host, port) = place.rsplit_once(':').ok_or_else(wrong)?;
    let host = match host {
        "" | "*" => "0.0.0.0".to_owned(),
        "::" => "[::]".to_owned(),
        host if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
        host => host.to_owned(),
    };
    let address = format!("{host}:{port}");
    address.parse::<SocketAddr>().map_err(|_| wrong())?;
    Ok(address)
}

/// Sets the times that hold for clients.
pub(super) fn times(defaults: &[&SectionLine], gateway: &mut GatewayModel, ledger: &mut Ledger) {
    let times = [
        ("client", "client_read_timeout", 1..=86_400_000),
        ("http-request", "client_header_timeout", 1..=3_600_000),
        ("http-keep-alive", "keepalive_timeout", 1_000..=86_400_000),
    ];
    for (name, key, range) in times {
        let Some(line) = defaults.iter().find(|line| line.starts(&["timeout", name])) else {
            continue;
        };
        match millis(line.word(2)).filter(|millis| range.contains(millis)) {
            Some(millis) => {
                ledger.translated(line.id);
                gateway.server_sources.push(line.id);
                gateway.server.push((key, crate::toml::duration(millis)));
            }
            None => ledger.left_out(line.id, format!("see [server] {key}")),
        }
    }
}
