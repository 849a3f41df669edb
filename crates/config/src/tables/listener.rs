//! Declares `[[listener]]`: the addresses to accept on, and what is spoken there before HTTP.

use std::net::{Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::StatusCode;
use ipnet::IpNet;
use sluicegate_config_derive::Table;
use toml::de::DeValue;

use super::listener_tls::TlsRules;
use super::origin::HTTPS;
use crate::cidr;
use crate::declaration::{DurationIn, Flag, ListBy, ParsedText, ReadBy, StatusIn, TableOf, WordOf};
use crate::field::{KeyField, all, quoted};
use crate::form::ValueKind;
use crate::opened_paths;
use crate::problem::ParseError;
use crate::report::{KeyPlace, PlacedValue, ProblemReport};
use crate::rules::{ClientRules, Http2, Http3, ListenerProtocol, Name, ProxyProtocol};
use crate::section::{TableSection, is_name};

/// The least and the longest time of Alt-Svc, RFC 7838 §3.1.
const ADVERTISED: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(365 * 86_400);

pub(crate) const EXAMPLE: &str = "with address = \"0.0.0.0:8080\"";

/// An address to accept connections on. A change of the address needs a restart; a reload applies all other changes.
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "the reference has tables in brackets"
)]
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "listener[]", check = check_keys)]
pub struct ListenerRules {
    /// Required. An IP address with a port; "[::]:8080" takes IPv6 and IPv4. No two listeners may have the same.
    #[key(example = "\"0.0.0.0:8080\"", reader = ReadBy(address, &[ValueKind::String]))]
    pub address: SocketAddr,
    /// Its name for the `listeners` of routes, which must be unique. Default: none.
    #[key(example = "\"public\"", reader = ParsedText(listener_name))]
    pub name: Option<Name>,
    /// The meaning of the requests that come here.
    #[part(read = protocol, keys = ProtocolTable::keys)]
    pub protocol: ListenerProtocol,
    /// True accepts HTTP/2 beside HTTP/1.1: in clear text with prior knowledge, under TLS by ALPN.
    #[key(example = "true", default = Http2::Accepted, reader = Flag(Http2::Off, Http2::Accepted))]
    pub http2: Http2,
    /// True accepts HTTP/3 too, over UDP at the same address, with the certificates of `[listener.tls]`. A change needs a restart.
    #[key(example = "true", shown = "false", default = Http3::Off, reader = Flag(Http3::Off, Http3::Accepted))]
    pub http3: Http3,
    /// The time for which clients remember that HTTP/3 is here, 1s to 365d: adds Alt-Svc to every response over TLS. Write it once clients
    /// reach the UDP port from outside. Default: no Alt-Svc, so that only clients come that know already.
    #[key(example = "\"1d\"", reader = DurationIn(ADVERTISED))]
    pub advertise_http3: Option<Duration>,
    /// The announcement of clients by a proxy in front.
    #[part(read = proxy_protocol, keys = ProxyTable::keys)]
    pub proxy_protocol: ProxyProtocol,
    /// Redirects requests in clear text to https:// with 308: true for port 443, or a port number. Two kinds are not redirected: requests
    /// of certificate authorities under /.well-known/acme-challenge/, and requests that a trusted proxy received over TLS, as
    /// X-Forwarded-Proto says.
    #[key(
        example = "true",
        shown = "false",
        default = None,
        reader = ReadBy(https_port, &[ValueKind::Boolean, ValueKind::Integer])
    )]
    pub redirect_to_https: Option<NonZeroU16>,
    /// The keys of `[listener.tls]`; `None` where connections are in clear text.
    #[key(example = "{ certificates = [{ cert_file = \"site.pem\", key_file = \"site.key\" }] }", reader = TableOf(TlsRules::read))]
    pub tls: Option<TlsRules>,
}

impl ListenerRules {
    /// Returns whether other proxies ask here about their requests.
    #[must_use]
    pub fn decides_only(&self) -> bool {
        self.protocol != ListenerProtocol::Http
    }

    /// Returns whether connections in HTTP/2 are served: a service of gRPC has no other.
    #[must_use]
    pub fn http2(&self) -> Http2 {
        match self.protocol {
            ListenerProtocol::RateLimitService => Http2::Accepted,
            ListenerProtocol::Http | ListenerProtocol::ForwardAuth { .. } => self.http2,
        }
    }
}

/// Declares the keys of [`ListenerProtocol`].
#[derive(Table)]
#[table(check = check_protocol)]
struct ProtocolTable {
    /// "http": requests are forwarded or answered as their route says. "forward-auth": a proxy that stays in front of its origins asks
    /// about each request before it forwards it, and gets 204, or the rejection. The request in question is that of X-Forwarded-Method,
    /// -Host and -Uri, its client that of client_ip_header in `[client]`; only trusted_proxies may ask. Routes need no origin if all
    /// listeners are such. docs/beside-another-proxy.md has complete files for nginx, Caddy, Traefik and HAProxy. "rls": the same for
    /// Envoy, which asks by its rate limit service, version 3; docs/envoy.md says how descriptors become requests.
    #[key(
        example = "\"forward-auth\"",
        shown = "\"http\"",
        default = SpokenProtocol::Http,
        reader = WordOf(&PROTOCOLS, "{} is no protocol of a listener")
    )]
    protocol: SpokenProtocol,
    /// With "forward-auth", the status of every rejection, 400 to 599; X-Sluicegate-Status has its own then. nginx takes any status but
    /// 2xx, 401 and 403 for a failure: 403. Default: the own status of each rejection, such as 429.
    #[key(example = "403", reader = StatusIn(400..=599))]
    rejection_status: Option<StatusCode>,
}

/// The protocol of a listener, without its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpokenProtocol {
    Http,
    ForwardAuth,
    RateLimitService,
}

const PROTOCOLS: [(&str, SpokenProtocol); 3] = [
    ("http", SpokenProtocol::Http),
    ("forward-auth", SpokenProtocol::ForwardAuth),
    ("rls", SpokenProtocol::RateLimitService),
];

/// Declares the keys of [`ProxyProtocol`].
#[derive(Table)]
#[table(check = check_proxies)]
struct ProxyTable {
    /// The PROXY protocol, version 1 or 2, before TLS and HTTP: "off", "optional" (a connection without the header is served under its own
    /// address) or "required" (a connection without the header, or from a peer that may not send it, is closed). The announced address is
    /// the peer for limits, for the log, and for `[client] trusted_proxies`. With "optional" every connection of a proxy must carry its own
    /// header: a proxy that passes client connections on without one lets clients announce an address themselves.
    #[key(
        example = "\"required\"",
        shown = "\"off\"",
        default = ProxyProtocolMode::Off,
        reader = WordOf(&ANNOUNCEMENTS, "{} says nothing about the PROXY protocol")
    )]
    proxy_protocol: ProxyProtocolMode,
    /// The networks of proxies that may send the PROXY protocol; required unless it is "off". From other peers "optional" treats the header
    /// as a malformed request.
    #[key(example = "[\"10.0.0.0/8\"]", reader = ListBy(proxies, &[ValueKind::String]))]
    proxy_protocol_from: Option<Vec<IpNet>>,
}

/// The announcement of clients that a listener accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProxyProtocolMode {
    Off,
    Optional,
    Required,
}

const ANNOUNCEMENTS: [(&str, ProxyProtocolMode); 3] = [
    ("off", ProxyProtocolMode::Off),
    ("optional", ProxyProtocolMode::Optional),
    ("required", ProxyProtocolMode::Required),
];

/// Reads every listener, with the place of its address; those that are wrong are left out.
pub(crate) fn read(sections: Vec<TableSection<'_>>) -> Vec<PlacedValue<ListenerRules>> {
    let read = sections.into_iter().filter_map(|section| {
        let place = section.place_of("address");
        let value = ListenerRules::read(section)?;
        Some(PlacedValue { value, place })
    });
    read.collect()
}

/// Returns the places at which listeners redirect to HTTPS.
pub(crate) fn redirect_places(sections: &[TableSection<'_>]) -> Vec<KeyPlace> {
    let written = sections
        .iter()
        .filter_map(|section| section.field("redirect_to_https", "true"));
    let redirects = written.filter(|field| !matches!(field.value, DeValue::Boolean(false)));
    redirects.map(|field| field.place).collect()
}

/// Warns of listeners whose clients are sent to HTTPS where nobody speaks it, and of one that speaks clear text at the port of HTTPS.
///
/// A trusted proxy may speak TLS with the clients.
pub(crate) fn check_https(
    listeners: &[PlacedValue<ListenerRules>],
    redirects: &[KeyPlace],
    client: &ClientRules,
    report: &ProblemReport<'_>,
) {
    let speaks_tls = listeners
        .iter()
        .any(|listener| listener.value.tls.is_some());
    let nobody_does = !speaks_tls && client.trusted_proxies.is_empty();
    for place in redirects.iter().filter(|_| nobody_does) {
        report.warning(
            place,
            "clients are sent to https://, and no listener speaks TLS",
            "write a [[listener]] with tls; or where a proxy in front speaks TLS, write its addresses in [client] trusted_proxies",
        );
    }
    for PlacedValue { value, place } in listeners {
        let is_clear = value.protocol == ListenerProtocol::Http && value.tls.is_none();
        if is_clear && value.address.port() == HTTPS {
            report.warning(
                place,
                "this listener speaks clear text, and port 443 is that of HTTPS",
                "write [listener.tls] with its certificates, or another port such as 80",
            );
        }
    }
}

/// Returns whether every listener is asked by other proxies, so that nothing is forwarded.
pub(crate) fn only_decide(listeners: &[PlacedValue<ListenerRules>]) -> bool {
    !listeners.is_empty() && listeners.iter().all(|each| each.value.decides_only())
}

fn check_keys(keys: &ListenerRulesKeys, section: &TableSection<'_>) -> Option<()> {
    if keys
        .protocol
        .is_some_and(|protocol| protocol != ListenerProtocol::Http)
    {
        if let Some(Some(_)) = keys.redirect_to_https {
            return section.refuse(
                "redirect_to_https",
                "a proxy that asks about a request cannot follow a redirect",
                "leave it out, and let that proxy redirect its clients",
            );
        }
        if keys
            .proxy_protocol
            .as_ref()
            .is_some_and(|announced| *announced != ProxyProtocol::Off)
        {
            return section.refuse(
                "proxy_protocol",
                "the proxy that asks must be the other end of the connection, since it is trusted by its address",
                "leave it out: the client comes in X-Forwarded-For",
            );
        }
    }
    check_http3(keys, section)?;
    if let (Some(Some(_)), Some(Some(_))) = (keys.redirect_to_https, &keys.tls) {
        return section.refuse(
            "redirect_to_https",
            "who comes here speaks TLS already",
            "write it where clear text is spoken, in the [[listener]] of port 80",
        );
    }
    Some(())
}

/// Refuses HTTP/3 where it cannot be spoken: it has TLS in itself, and no PROXY protocol.
fn check_http3(keys: &ListenerRulesKeys, section: &TableSection<'_>) -> Option<()> {
    if keys.http3 != Some(Http3::Accepted) {
        return match section.has("advertise_http3") {
            true => section.refuse(
                "advertise_http3",
                "nobody speaks HTTP/3 here",
                "write http3 = true beside it, or leave it out",
            ),
            false => Some(()),
        };
    }
    if keys
        .protocol
        .is_some_and(|protocol| protocol != ListenerProtocol::Http)
    {
        return section.refuse("http3", "proxies ask over TCP", "leave it out");
    }
    let announced = keys.proxy_protocol.as_ref();
    if announced.is_some_and(|announced| *announced != ProxyProtocol::Off) {
        return section.refuse(
            "http3",
            "the PROXY protocol announces connections of TCP alone, and its proxy passes no UDP on",
            "leave it out, or let clients reach this address without that proxy, by a [[listener]] of its own",
        );
    }
    match section.has("tls") {
        true => Some(()),
        false => section.refuse(
            "http3",
            "HTTP/3 has no clear text",
            "write [listener.tls] with its certificates, or leave it out",
        ),
    }
}

fn check_protocol(keys: &ProtocolTableKeys, section: &TableSection<'_>) -> Option<()> {
    let message = match keys.protocol? {
        SpokenProtocol::ForwardAuth => return Some(()),
        SpokenProtocol::Http => {
            "rejections of requests that are forwarded have a status of their own"
        }
        SpokenProtocol::RateLimitService => {
            "Envoy chooses the status of what is over a limit: rate_limited_status"
        }
    };
    if section.has("rejection_status") {
        return section.refuse(
            "rejection_status",
            message,
            "write protocol = \"forward-auth\" beside it, or status = 403 in the `refusal` of a limit or route",
        );
    }
    Some(())
}

fn check_proxies(keys: &ProxyTableKeys, section: &TableSection<'_>) -> Option<()> {
    let is_off = keys.proxy_protocol? == ProxyProtocolMode::Off;
    match (is_off, section.has("proxy_protocol_from")) {
        (true, true) => section.refuse(
            "proxy_protocol_from",
            "nobody announces clients here",
            "write proxy_protocol = \"required\" beside it, or leave it out",
        ),
        (false, false) => section.refuse(
            "proxy_protocol",
            "nothing says who may announce clients, and whoever does chooses whose address a request counts under",
            "write proxy_protocol_from = [\"10.0.0.0/8\"] with the addresses of your proxies",
        ),
        _ => Some(()),
    }
}

fn protocol(section: &TableSection<'_>) -> Option<ListenerProtocol> {
    let table = ProtocolTable::read_keys(section)?;
    Some(match table.protocol {
        SpokenProtocol::Http => ListenerProtocol::Http,
        SpokenProtocol::ForwardAuth => ListenerProtocol::ForwardAuth {
            rejection_status: table.rejection_status,
        },
        SpokenProtocol::RateLimitService => ListenerProtocol::RateLimitService,
    })
}

fn proxy_protocol(section: &TableSection<'_>) -> Option<ProxyProtocol> {
    let table = ProxyTable::read_keys(section)?;
    let proxies = table.proxy_protocol_from.unwrap_or_default();
    Some(match table.proxy_protocol {
        ProxyProtocolMode::Off => ProxyProtocol::Off,
        ProxyProtocolMode::Optional => ProxyProtocol::Optional(proxies),
        ProxyProtocolMode::Required => ProxyProtocol::Required(proxies),
    })
}

/// Reads the networks of proxies.
fn proxies(field: &KeyField<'_>) -> Option<Vec<IpNet>> {
    let elements = field.list()?;
    all(elements.iter().map(|element| {
        let network = cidr::read(element)?;
        if network.prefix_len() == 0 {
            element.warn(
                "everybody who reaches this address can choose whose address a request counts under",
                "write the addresses of the proxies that announce clients here",
            );
        }
        Some(network)
    }))
}

/// Reads `true`, `false` or a port.
fn https_port(field: &KeyField<'_>) -> Option<Option<NonZeroU16>> {
    const HTTPS: NonZeroU16 = NonZeroU16::new(443).expect("443 is not zero");
    match field.value {
        DeValue::Boolean(asked) => Some(asked.then_some(HTTPS)),
        DeValue::Integer(_) => {
            let port = field.integer(1..=u64::from(u16::MAX))?;
            Some(u16::try_from(port).ok().and_then(NonZeroU16::new))
        }
        _ => field.unexpected("true, false or the port of the listener with TLS"),
    }
}

/// Reads an address to bind.
pub(super) fn address(field: &KeyField<'_>) -> Option<SocketAddr> {
    let address = field.parsed(|text| {
        text.parse().map_err(|_| {
            let message = format!("{} is not an address with a port", quoted(text));
            let port: Option<u16> = text.rsplit(':').next().and_then(|port| port.parse().ok());
            let bare_v6 = text
                .rsplit_once(':')
                .filter(|(address, _)| address.parse::<Ipv6Addr>().is_ok());
            if let (Some((address, _)), Some(port)) = (bare_v6, port) {
                return ParseError::with_advice(
                    format!("{} has an IPv6 address without brackets", quoted(text)),
                    format!("write \"[{address}]:{port}\""),
                );
            }
            let port_text = text.rsplit_once(':').map(|(_, port)| port);
            if let Some(port) = port_text
                .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
                && port.parse::<u16>().is_err()
            {
                return ParseError::with_advice(
                    format!("{} is not a port", quoted(port)),
                    "write a number from 1 to 65535",
                );
            }
            ParseError::with_advice(
                message,
                match port {
                    Some(port)
                        if text.trim_start_matches("localhost") == format!(":{port}")
                            && text.len() > 9 =>
                    {
                        format!("write \"127.0.0.1:{port}\" for this machine alone")
                    }
                    Some(port) => format!(
                        "write \"0.0.0.0:{port}\" for IPv4, or \"[::]:{port}\" for all addresses"
                    ),
                    None => format!("write an IP address, a colon and a port: {}", field.example),
                },
            )
        })
    })?;
    opened_paths::own_address(field, address)
}

fn listener_name(text: &str) -> Result<Name, ParseError> {
    if is_name(text) {
        return Ok(text.into());
    }
    Err(ParseError::with_advice(
        format!("{} cannot be a name", quoted(text)),
        "write 1 to 64 of the characters a-z A-Z 0-9 _ - . as in name = \"public\"",
    ))
}

/// Reports every name that an earlier listener has.
pub(crate) fn check_names(listeners: &[PlacedValue<ListenerRules>], report: &ProblemReport<'_>) {
    for (at, listener) in listeners.iter().enumerate() {
        let Some(name) = &listener.value.name else {
            continue;
        };
        let mut earlier = listeners[..at].iter();
        if let Some(other) = earlier.find(|other| other.value.name.as_ref() == Some(name)) {
            let line = report.line_of(&other.place);
            report.error(
                &listener.place,
                format!(
                    "{} is the name of the listener on line {line}",
                    quoted(name)
                ),
                "give each listener a name of its own: routes know it by that",
            );
        }
    }
}

/// Reports every address that cannot be bound because an earlier one has it.
pub(crate) fn check_distinct(listeners: &[PlacedValue<ListenerRules>], report: &ProblemReport<'_>) {
    for (at, listener) in listeners.iter().enumerate() {
        let address = listener.value.address;
        let clash = listeners[..at]
            .iter()
            .find(|earlier| clash(earlier.value.address, address));
        if let Some(earlier) = clash {
            let line = report.line_of(&earlier.place);
            report.error(
                &listener.place,
                format!(
                    "{address} is taken by {} on line {line}",
                    earlier.value.address
                ),
                "choose another port, or leave this listener out",
            );
        }
    }
}

/// Returns whether two addresses cannot both be bound. Port 0 is a new one each time; `[::]` takes IPv4 too.
pub(super) fn clash(a: SocketAddr, b: SocketAddr) -> bool {
    let takes = |all: SocketAddr, one: SocketAddr| {
        all.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4())
    };
    a.port() == b.port() && a.port() != 0 && (a.ip() == b.ip() || takes(a, b) || takes(b, a))
}
