//! Declares `[client]`: which peers are believed about the address of a client, and which clients are known.

use std::net::SocketAddr;

use http::{HeaderName, header};
use ipnet::IpNet;
use sluicegate_base::bounds::{DNS_SERVERS, SIGNED_HOSTS};
use sluicegate_base::crawler::SignedHosts;
use sluicegate_base::proxy_fields::{
    OVERRIDES, X_FORWARDED_FOR, X_FORWARDED_PROTO, dashed, is_proxy_field,
};
use sluicegate_config_derive::Table;
use toml::de::DeValue;

use super::list::{self, ListNames, ListUse};
use crate::cidr;
use crate::declaration::{ListBy, ParsedText, TEXT};
use crate::field::{KeyField, all, quoted};
use crate::host;
use crate::problem::ParseError;
use crate::report::PlacedValue;
use crate::rules::{HostMatch, OverrideFields, TrustedHeader};
use crate::section::TableSection;

/// Fields that frame a request.
const FRAMING: [HeaderName; 5] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The port of DNS servers, RFC 1035 §4.2.
const DNS_PORT: u16 = 53;

const PROXIES: &str = "[\"10.0.0.0/8\"]";

/// The proxies in front of the gateway, and the lists that apply to every route.
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "the reference has tables in brackets"
)]
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "client", check = warn_of_untrusted_fields)]
pub struct ClientRules {
    /// Proxies in front of this gateway, as CIDR blocks or addresses. Only their statements about the client are used. Default: none, the
    /// client is the peer.
    #[key(
        example = "[\"10.0.0.0/8\"]",
        shown = "[\"10.0.0.0/8\", \"fd00::/8\"]",
        default = Vec::new(),
        reader = ListBy(blocks, TEXT)
    )]
    pub trusted_proxies: Vec<IpNet>,
    /// The header in which trusted proxies name the client: "x-forwarded-for", "forwarded" (RFC 7239), or one that holds a single address,
    /// such as "cf-connecting-ip".
    #[key(
        example = "\"x-forwarded-for\"",
        default = ForwardedSource::XForwardedFor,
        reader = ParsedText(source)
    )]
    pub client_ip_header: ForwardedSource,
    /// Further headers that the trusted proxies set or replace in every request, so that no client can inject them: names, or "cf-*" for a
    /// prefix. All other fields that origins treat as set by a proxy (X-Forwarded-*, X-Real-IP, Forwarded, client certificates, …;
    /// docs/operations/forwarding.md lists them) are removed. From untrusted peers the fields listed here are removed too. Default:
    /// ["x-forwarded-proto"].
    #[key(
        example = "[\"x-forwarded-proto\"]",
        shown = "[\"x-forwarded-proto\", \"x-forwarded-host\"]",
        default = vec![TrustedHeader::Name(X_FORWARDED_PROTO)],
        reader = ListBy(trusted_headers, TEXT)
    )]
    pub trusted_headers: Vec<TrustedHeader>,
    /// The header in which trusted proxies send the request id: 1 to 64 of a-z A-Z 0-9 _ - . in one field. It is then the id in the log, in
    /// X-Request-Id to origin and client, and in rejections; any other value, and a value from an untrusted peer, is replaced. Default:
    /// none, the gateway makes an id for every request.
    #[key(example = "\"x-request-id\"", reader = ParsedText(id_field))]
    pub request_id: Option<HeaderName>,
    /// The hosts for which signatures of crawlers are accepted, or "*.example.com" for all names under one: a signature that a crawler made
    /// for another site is not accepted here. Required if a [crawler.NAME] has `jwks_file`. Default: none.
    #[key(
        example = "[\"www.example.com\"]",
        default = SignedHosts::default(),
        reader = ListBy(signed_hosts, TEXT)
    )]
    pub signed_hosts: SignedHosts,
    /// The DNS servers that are asked for the names of crawlers' addresses, at most 3, with a port or without. They are not asked for
    /// `servers` of origins. Used if a [crawler.NAME] has `domains`. Default: those of /etc/resolv.conf, which is read again every 30
    /// seconds.
    #[key(
        example = "[\"127.0.0.1\"]",
        shown = "[\"127.0.0.1\", \"[2001:db8::53]:5353\"]",
        default = Vec::new(),
        reader = ListBy(dns_servers, TEXT)
    )]
    pub dns_servers: Vec<SocketAddr>,
    /// The lists that apply to every route.
    #[part(read = list::uses, keys = ListNames::keys)]
    pub lists: ListUse,
}

fn signed_hosts(field: &KeyField<'_>) -> Option<SignedHosts> {
    let elements = field.elements()?;
    if elements.len() > SIGNED_HOSTS {
        let message = format!("{} hosts are too many", elements.len());
        return field.refuse(message, format!("keep at most {SIGNED_HOSTS}"));
    }
    let read = elements.iter().map(|element| element.parsed(host::matched));
    let mut hosts = SignedHosts::default();
    for host in all(read.collect::<Vec<_>>())? {
        match host {
            HostMatch::Exact(name) => hosts.exact.push(name),
            HostMatch::Under(parent) => hosts.under.push(parent),
        }
    }
    Some(hosts)
}

fn dns_servers(field: &KeyField<'_>) -> Option<Vec<SocketAddr>> {
    let elements = field.elements()?;
    if elements.len() > DNS_SERVERS {
        let message = format!("{} DNS servers are too many", elements.len());
        return field.refuse(message, format!("keep at most {DNS_SERVERS}"));
    }
    let mut seen = Vec::new();
    all(elements.iter().map(|element| {
        let server = element.parsed(dns_server)?;
        if seen.contains(&server) {
            return element.refuse("the server stands here already", "write it once");
        }
        seen.push(server);
        Some(server)
    }))
}

fn dns_server(text: &str) -> Result<SocketAddr, ParseError> {
    let with_port = text.parse::<SocketAddr>().ok();
    let server = with_port.or_else(|| Some(SocketAddr::new(text.parse().ok()?, DNS_PORT)));
    let is_reachable = |server: &SocketAddr| {
        let address = server.ip();
        server.port() != 0 && !address.is_unspecified() && !address.is_multicast()
    };
    server.filter(is_reachable).ok_or_else(|| {
        ParseError::with_advice(
            format!("{} is no address of a DNS server", quoted(text)),
            "write an address with a port or without, as \"127.0.0.1\" or \"[2001:db8::53]:53\"",
        )
    })
}

/// The header that trusted hops use to tell the client's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardedSource {
    /// `X-Forwarded-For`, the default.
    XForwardedFor,
    /// `Forwarded`, RFC 7239.
    Forwarded,
    /// A header with exactly one address, such as `CF-Connecting-IP`.
    SingleValue(HeaderName),
}

impl ForwardedSource {
    /// Returns the field that the address of the client is read from.
    #[must_use]
    pub fn field_name(&self) -> HeaderName {
        match self {
            Self::XForwardedFor => X_FORWARDED_FOR,
            Self::Forwarded => header::FORWARDED,
            Self::SingleValue(name) => name.clone(),
        }
    }
}

impl ClientRules {
    /// Returns whether the field `name` is removed from every request: a proxy field that no peer may write. No key or match sees it.
    #[must_use]
    pub fn never_receives(&self, name: &HeaderName, overrides: OverrideFields) -> bool {
        let name = dashed(name.as_str());
        let passed = overrides == OverrideFields::Pass && OVERRIDES.contains(&&*name);
        let is_source = self.client_ip_header.field_name() == *name;
        let is_listed = self
            .trusted_headers
            .iter()
            .any(|listed| listed.holds(&name));
        is_proxy_field(&name) && !passed && !is_source && !is_listed
    }
}

fn warn_of_untrusted_fields(keys: &ClientRulesKeys, section: &TableSection<'_>) -> Option<()> {
    for (key, message) in [
        (
            "client_ip_header",
            "no hop is trusted, so this header is never read",
        ),
        (
            "trusted_headers",
            "no hop is trusted, so these fields are always removed",
        ),
        (
            "request_id",
            "no hop is trusted, so requests keep the ids that the gateway gives them",
        ),
    ] {
        if section.has(key) && keys.trusted_proxies.as_deref() == Some(&[]) {
            let advice =
                format!("write trusted_proxies = {PROXIES} with the addresses of your proxies");
            section
                .report
                .warning(&section.place_of(key), message, advice);
        }
    }
    Some(())
}

/// The trusted block of all addresses, if there is one; other mistakes are reported when the table is read.
pub(crate) fn everyone(section: &TableSection<'_>) -> Option<PlacedValue<IpNet>> {
    let field = section.field("trusted_proxies", PROXIES)?;
    if !matches!(field.value, DeValue::Array(_)) {
        return None;
    }
    let blocks = field.elements()?.into_iter().filter_map(|element| {
        let block = cidr::block(element.written_text()?).ok()?;
        Some(element.placed(block))
    });
    let mut blocks = blocks.filter(|block| block.value.prefix_len() == 0);
    blocks.next()
}

fn blocks(field: &KeyField<'_>) -> Option<Vec<IpNet>> {
    all(field.elements()?.iter().map(cidr::read))
}

fn trusted_headers(field: &KeyField<'_>) -> Option<Vec<TrustedHeader>> {
    let elements = field.elements()?;
    all(elements
        .iter()
        .map(|element| element.parsed(trusted_header)))
}

fn trusted_header(text: &str) -> Result<TrustedHeader, ParseError> {
    let advice = "write the name of a header that your proxies write in every request, such as \"x-forwarded-host\", or \"cf-*\" for \
                  all that begin so";
    let named = text.strip_suffix('*').unwrap_or(text);
    let is_prefix = named.len() < text.len();
    let Ok(name) = HeaderName::try_from(named) else {
        let message = format!("{} is not the name of a header", quoted(text));
        return Err(ParseError::with_advice(message, advice));
    };
    if is_prefix && named.len() < 3 {
        let message = format!("{} is the beginning of too many names", quoted(text));
        return Err(ParseError::with_advice(message, advice));
    }
    if FRAMING.contains(&name) {
        let message = format!("{} is no field that only a proxy may write", quoted(text));
        return Err(ParseError::with_advice(message, advice));
    }
    Ok(if is_prefix {
        TrustedHeader::Prefix(name.as_str().into())
    } else {
        TrustedHeader::Name(name)
    })
}

/// Parses the name of the header that carries an id.
fn id_field(text: &str) -> Result<HeaderName, ParseError> {
    let named = HeaderName::try_from(text).map_err(|_| {
        ParseError::with_advice(
            format!("{} is not the name of a header", quoted(text)),
            "write \"x-request-id\", or where else your proxies write it",
        )
    });
    match named? {
        secret if [header::AUTHORIZATION, header::COOKIE].contains(&secret) => {
            Err(ParseError::with_advice(
                format!("{} is a secret, and ids are logged", quoted(text)),
                "write \"x-request-id\", or where else your proxies write it",
            ))
        }
        named => Ok(named),
    }
}

/// Parses the name of the header that carries the chain.
fn source(text: &str) -> Result<ForwardedSource, ParseError> {
    let name = HeaderName::try_from(text).map_err(|_| {
        ParseError::with_advice(
            format!("{} is not the name of a header", quoted(text)),
            "write \"x-forwarded-for\", \"forwarded\", or a header with one address such as \"cf-connecting-ip\"",
        )
    })?;
    match name.as_str() {
        "x-forwarded-for" => Ok(ForwardedSource::XForwardedFor),
        "forwarded" => Ok(ForwardedSource::Forwarded),
        _ if name == header::HOST || name == header::VIA => Err(ParseError::with_advice(
            format!("{} does not carry an address", quoted(text)),
            "write \"x-forwarded-for\", \"forwarded\", or a header with one address such as \"cf-connecting-ip\"",
        )),
        _ => Ok(ForwardedSource::SingleValue(name)),
    }
}
