//! Makes listeners of `bind`, and times of `[server]` of the defaults.

use std::net::SocketAddr;

use super::rules::ListenerTls;
use super::sections::{ConfigSection, SectionLine};
use super::tables::millis;
use super::tls::{self, TlsDefaults, TlsWord};
use crate::bounds;
use crate::ledger::{EntryId, Ledger};
use crate::model::{GatewayModel, Listener, placeholder_pair};
use crate::toml::server_time;

/// Words of `bind` without a value that the gateway needs not.
const PLAIN_WORDS: [&str; 12] = [
    "allow-0rtt",
    "defer-accept",
    "expose-fd",
    "generate-certificates",
    "no-alpn",
    "no-ca-names",
    "quic-force-retry",
    "tfo",
    "transparent",
    "v4v6",
    "v6only",
    "no-tls-tickets",
];

/// Words of `bind` with a value that change no answer.
const WORDS_WITH_VALUE: [&str; 26] = [
    "alpn",
    "backlog",
    "ca-verify-file",
    "ca-sign-file",
    "ca-sign-pass",
    "gid",
    "group",
    "guid",
    "id",
    "level",
    "mode",
    "mss",
    "name",
    "namespace",
    "nbconn",
    "nice",
    "npn",
    "process",
    "proto",
    "severity-output",
    "shards",
    "tcp-ut",
    "thread",
    "tls-ticket-keys",
    "uid",
    "user",
];

/// Words of `bind` with a value whose omission opens what HAProxy closes.
const GUARDS: [&str; 4] = ["accept-netscaler-cip", "crl-file", "interface", "maxconn"];

/// Words of `bind` whose value is a list of errors of client certificates that are no reason to refuse.
const IGNORED_ERRORS: [&str; 2] = ["ca-ignore-err", "crt-ignore-err"];

/// Words of `bind` that are read where the certificate is.
const CERTIFICATE_WORDS: [&str; 4] = ["crt", "crt-list", "ca-file", "verify"];

/// Returns the listeners of a frontend that have TLS.
pub(super) fn listener_tls(frontend: &ConfigSection) -> ListenerTls {
    let has_tls = |line: &SectionLine| line.words.iter().any(|word| word == "ssl");
    let with = frontend.named("bind").filter(|line| has_tls(line)).count();
    match (with, frontend.named("bind").count()) {
        (0, _) => ListenerTls::None,
        (with, all) if with == all => ListenerTls::All,
        _ => ListenerTls::Some,
    }
}

/// Adds the listeners of a frontend. `redirect` is `redirect_to_https` of those in clear text.
pub(super) fn listeners(
    frontend: &ConfigSection,
    (redirect, tls): (Option<&str>, &TlsDefaults),
    gateway: &mut GatewayModel,
    ledger: &mut Ledger,
) {
    ledger.translated(frontend.id);
    for line in frontend.named("bind") {
        let mut is_good = false;
        for place in line.word(1).split(',') {
            match address(place) {
                Ok(address) if gateway.listeners.iter().any(|it| it.address == address) => {
                    ledger.left_out(line.id, "another listener has this address");
                }
                Ok(address) => {
                    is_good = true;
                    let mut listener = listener(line, address, tls, ledger);
                    if !has_certificates(line) {
                        listener.redirect_to_https = redirect.map(str::to_owned);
                    }
                    gateway.listeners.push(listener);
                }
                Err(reason) => {
                    ledger.lose(line.id, &reason);
                }
            }
        }
        if is_good {
            ledger.translated(line.id);
        }
    }
}

fn has_certificates(line: &SectionLine) -> bool {
    line.words.iter().any(|word| word == "ssl")
}

fn listener(
    line: &SectionLine,
    address: String,
    tls: &TlsDefaults,
    ledger: &mut Ledger,
) -> Listener {
    let mut listener = Listener {
        address,
        ..Listener::default()
    };
    listener.remarks.sources.push(line.id);
    let mut only_tls13 = tls.only_tls13;
    let mut unsayable: Vec<String> = Vec::new();
    let mut ignored: Vec<String> = Vec::new();
    let mut words = line.words.iter().skip(2).map(String::as_str);
    while let Some(name) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match name {
            "ssl" => {}
            "accept-proxy" => {
                listener.proxy_protocol_from = Some(Vec::new());
                ledger.fill_in(format!(
                    "[[listener]] {}: proxy_protocol_from, the addresses of the proxies in front; HAProxy believes everybody",
                    listener.address
                ));
            }
            "strict-sni" => listener.tls.push(("unknown_sni", "refuse")),
            name if PLAIN_WORDS.contains(&name) => {}
            name if CERTIFICATE_WORDS.contains(&name) || WORDS_WITH_VALUE.contains(&name) => {
                value();
            }
            name if IGNORED_ERRORS.contains(&name) => ignored.push(format!("{name} {}", value())),
            name if GUARDS.contains(&name) => unsayable.push(format!("{name} {}", value())),
            name if tls::has_value(name) => {
                let value = value();
                match tls::word(name, value) {
                    Some(TlsWord::OnlyTls13) => only_tls13 = true,
                    Some(TlsWord::Implied) | None => {}
                    Some(TlsWord::Unsayable) => unsayable.push(format!("{name} {value}")),
                }
            }
            name => match tls::word(name, "") {
                Some(TlsWord::OnlyTls13) => only_tls13 = true,
                Some(TlsWord::Implied) => {}
                Some(TlsWord::Unsayable) | None => unsayable.push(name.to_owned()),
            },
        }
    }
    for what in unsayable {
        let comment = ledger.comment(line.id);
        ledger.fill_in(format!("{comment}: `{what}` is left out; see [[listener]]"));
    }
    if has_certificates(line) {
        certificates(line, &mut listener, tls, ledger);
        if only_tls13 {
            listener.tls.push(("min_version", "1.3"));
        }
        for what in ignored.iter().filter(|_| listener.client_ca.is_some()) {
            let refused = "the gateway refuses clients whose certificate has an error";
            let comment = ledger.comment(line.id);
            ledger.fill_in(format!("{comment}: `{what}` is left out: {refused}"));
        }
    } else {
        listener.tls.clear();
    }
    listener
}

/// Adds the certificates of a listener, and the authorities of those of its clients.
fn certificates(
    line: &SectionLine,
    listener: &mut Listener,
    tls: &TlsDefaults,
    ledger: &mut Ledger,
) {
    let values = |name: &'static str| {
        let pairs = line.words.iter().zip(line.words.iter().skip(1));
        pairs
            .filter(move |(word, _)| *word == name)
            .map(|(_, it)| it)
    };
    let mut unnamed: Vec<String> = Vec::new();
    for file in values("crt") {
        // A path without an extension is mostly that of a directory.
        let is_file = file
            .rsplit('/')
            .next()
            .is_some_and(|name| name.contains('.'));
        if !is_file || file.starts_with('@') {
            unnamed.push(format!("the files of {file}"));
            continue;
        }
        // One file has the certificate and its key.
        let file = tls.certificate(file);
        listener.certificates.push((file.clone(), file));
    }
    unnamed.extend(values("crt-list").map(|file| format!("those of the list {file}")));
    if listener.certificates.is_empty() {
        // A listener without certificates would be one in clear text.
        listener.certificates.push(placeholder_pair());
        if unnamed.is_empty() {
            unnamed.push("a file for each".to_owned());
        }
    }
    for what in unnamed {
        ledger.fill_in(format!(
            "[[listener]] {}: tls.certificates, {what}",
            listener.address
        ));
    }
    let verify = values("verify").next_back().map_or("none", String::as_str);
    if verify == "none" {
        return;
    }
    listener.client_ca = values("ca-file")
        .next_back()
        .map(|file| tls.authority(file));
    if listener.client_ca.is_none() {
        ledger.fill_in(format!(
            "[[listener]] {}: tls.client_ca_file, for `verify {verify}`",
            listener.address
        ));
    } else if verify == "optional" {
        listener.tls.push(("client_auth", "optional"));
    }
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

/// Sets the times that hold for clients. `lines` are those of the frontend and of its defaults, the strongest first.
pub(super) fn times(lines: &[&SectionLine], gateway: &mut GatewayModel, ledger: &mut Ledger) {
    let times = [
        ("client", "client_read_timeout"),
        ("http-request", "client_header_timeout"),
        ("http-keep-alive", "keepalive_timeout"),
    ];
    for (name, key) in times {
        let Some(line) = lines.iter().find(|line| line.starts(&["timeout", name])) else {
            continue;
        };
        let time = server_time(key, millis(line.word(2)));
        match time.and_then(|time| gateway.set_server(key, time, [line.id])) {
            Ok(()) => ledger.translated(line.id),
            Err(reason) => ledger.lose(line.id, &reason),
        }
    }
}

/// Bytes of a buffer that a request head cannot use, unless `tune.maxrewrite` says otherwise.
const USUAL_REWRITE_BYTES: u64 = 1_024;

/// A bound on the head of a request, with its value in TOML.
struct HeadBound {
    id: EntryId,
    key: &'static str,
    most: u64,
    range: std::ops::RangeInclusive<u64>,
    value: String,
}

/// Sets the bounds on the head of a request. `lines` are those of the process.
pub(super) fn head_bounds(lines: &[&SectionLine], gateway: &mut GatewayModel, ledger: &mut Ledger) {
    let number = |name: &str| {
        let line = lines.iter().rfind(|line| line.word(0) == name)?;
        Some((line.id, line.word(1).parse::<u64>().ok()?))
    };
    let rewrite = number("tune.maxrewrite");
    let bytes = number("tune.bufsize").map(|(id, size)| {
        let reserved = rewrite.map_or(USUAL_REWRITE_BYTES.min(size / 2), |(_, bytes)| bytes);
        let most = size.saturating_sub(reserved);
        HeadBound {
            id,
            key: "max_header_bytes",
            most,
            range: bounds::HEADER_BYTES,
            value: crate::toml::quoted(&format!("{most}B")),
        }
    });
    let fields = number("tune.http.maxhdr").map(|(id, most)| HeadBound {
        id,
        key: "max_headers",
        most,
        range: bounds::HEADER_FIELDS,
        value: most.to_string(),
    });
    let sources = rewrite.filter(|_| bytes.is_some()).map(|(id, _)| id);
    sources.into_iter().for_each(|id| ledger.translated(id));
    for bound in bytes.into_iter().chain(fields) {
        set_head_bound(bound, gateway, ledger);
    }
}

fn set_head_bound(bound: HeadBound, gateway: &mut GatewayModel, ledger: &mut Ledger) {
    let HeadBound { id, key, most, .. } = bound;
    if bound.range.contains(&most) {
        let difference = "a larger head is answered with 431; in HAProxy with 400";
        ledger.differs(id, difference);
        gateway.server_sources.push(id);
        gateway.server.push((key, bound.value));
        return;
    }
    let range = &bound.range;
    let reason = format!(
        "[server] {key} is {} to {}, not {most}",
        range.start(),
        range.end()
    );
    ledger.lose(id, &reason);
}

/// Sets the maximum number of connections: the smaller one of the process and of the frontend. Of several frontends, the bounds are to be
/// filled in.
pub(super) fn connections(
    global: Vec<ConnectionBound>,
    own: Vec<ConnectionBound>,
    gateway: &mut GatewayModel,
    ledger: &mut Ledger,
) {
    let (bounds, others) = match own.len() {
        0 | 1 => ([global, own].concat(), Vec::new()),
        _ => (global, own),
    };
    for (_, id) in others {
        ledger.lose(
            id,
            "max_connections of [server] is that of all listeners together",
        );
    }
    let Some(most) = bounds.iter().map(|(most, _)| *most).min() else {
        return;
    };
    for (own, id) in bounds {
        ledger.differs(
            id,
            "a further connection is closed; in HAProxy it waits until another one ends",
        );
        if own == most {
            gateway.server_sources.push(id);
        }
    }
    gateway.server.push(("max_connections", most.to_string()));
}

/// A maximum number of connections, and its line.
pub(super) type ConnectionBound = (u64, EntryId);

/// Returns the maximum number of connections of a line.
pub(super) fn connection_bound(line: &SectionLine) -> Option<ConnectionBound> {
    let most: u64 = line.word(1).parse().ok()?;
    let is_bound = line.word(0) == "maxconn" && (1..=MOST_CONNECTIONS).contains(&most);
    is_bound.then_some((most, line.id))
}

/// Largest value of `max_connections`.
const MOST_CONNECTIONS: u64 = 1_048_575;
