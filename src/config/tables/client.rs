//! `[client]`: who is believed about the client's address, and which clients are known.

use http::{HeaderName, header};
use ipnet::IpNet;

use super::list;
use crate::config::cidr;
use crate::config::field::{Field, all, quoted};
use crate::config::problem::Mistake;
use crate::config::report::Placed;
use crate::config::rules::{ClientRules, ForwardedSource, Name, TrustedHeader};
use crate::config::section::Section;
use crate::proxy_fields::X_FORWARDED_PROTO;

/// Fields without which a request is none.
const FRAMING: [HeaderName; 5] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The rules, the block of all addresses if one is trusted, and where lists are named.
pub(in crate::config) struct Client {
    pub(in crate::config) rules: ClientRules,
    pub(in crate::config) everyone: Option<Placed<IpNet>>,
    pub(in crate::config) lists: Vec<Placed<Name>>,
}

pub(in crate::config) fn read(section: Section<'_>) -> Option<Client> {
    let blocks = section.or("trusted_proxies", "[\"10.0.0.0/8\"]", Vec::new(), |field| {
        let elements = field.elements()?;
        all(elements.iter().map(|element| {
            let block = cidr::read(element)?;
            Some(element.placed(block))
        }))
    });
    let forwarded = section.field("client_ip_header", "\"x-forwarded-for\"");
    let source = forwarded
        .as_ref()
        .map_or(Some(ForwardedSource::XForwardedFor), |field| {
            field.parsed(source)
        });
    if let (Some(field), Some([])) = (&forwarded, blocks.as_deref()) {
        field.report.warning(
            &field.place,
            "no hop is trusted, so this header is never read",
            "write trusted_proxies = [\"10.0.0.0/8\"] with the addresses of your proxies",
        );
    }
    let trusted = section.field("trusted_headers", "[\"x-forwarded-proto\"]");
    let trusted_headers = match &trusted {
        Some(field) => trusted_headers(field),
        None => Some(vec![TrustedHeader::Name(X_FORWARDED_PROTO)]),
    };
    if let (Some(field), Some([])) = (&trusted, blocks.as_deref()) {
        field.report.warning(
            &field.place,
            "no hop is trusted, so these fields are always removed",
            "write trusted_proxies = [\"10.0.0.0/8\"] with the addresses of your proxies",
        );
    }
    let request_id = section.field("request_id", "\"x-request-id\"");
    let named_in = request_id
        .as_ref()
        .map_or(Some(None), |field| field.parsed(id_field).map(Some));
    if let (Some(field), Some([])) = (&request_id, blocks.as_deref()) {
        field.report.warning(
            &field.place,
            "no hop is trusted, so requests keep the ids that the gateway gives them",
            "write trusted_proxies = [\"10.0.0.0/8\"] with the addresses of your proxies",
        );
    }
    let (uses, lists) = list::uses(&section);
    section.finish();
    let (blocks, forwarded, request_id, uses) = (blocks?, source?, named_in?, uses?);
    let trusted_headers = trusted_headers?;
    Some(Client {
        everyone: blocks
            .iter()
            .find(|block| block.value.prefix_len() == 0)
            .cloned(),
        rules: ClientRules {
            trusted_proxies: blocks.into_iter().map(|block| block.value).collect(),
            forwarded,
            trusted_headers,
            request_id,
            lists: uses,
        },
        lists,
    })
}

/// The fields that trusted proxies write.
fn trusted_headers(field: &Field<'_>) -> Option<Vec<TrustedHeader>> {
    let elements = field.elements()?;
    all(elements
        .iter()
        .map(|element| element.parsed(trusted_header)))
}

fn trusted_header(text: &str) -> Result<TrustedHeader, Mistake> {
    let advice = "write the name of a header that your proxies write in every request, such as \"x-forwarded-host\", or \"cf-*\" for \
                  all that begin so";
    let named = text.strip_suffix('*').unwrap_or(text);
    let is_prefix = named.len() < text.len();
    let Ok(name) = HeaderName::try_from(named) else {
        let message = format!("{} is not the name of a header", quoted(text));
        return Err(Mistake::with_advice(message, advice));
    };
    if is_prefix && named.len() < 3 {
        let message = format!("{} is the beginning of too many names", quoted(text));
        return Err(Mistake::with_advice(message, advice));
    }
    if FRAMING.contains(&name) {
        let message = format!("{} is no field that only a proxy may write", quoted(text));
        return Err(Mistake::with_advice(message, advice));
    }
    Ok(if is_prefix {
        TrustedHeader::Prefix(name.as_str().into())
    } else {
        TrustedHeader::Name(name)
    })
}

/// The header that carries an id.
fn id_field(text: &str) -> Result<HeaderName, Mistake> {
    let named = HeaderName::try_from(text).map_err(|_| {
        Mistake::with_advice(
            format!("{} is not the name of a header", quoted(text)),
            "write \"x-request-id\", or where else your proxies write it",
        )
    });
    match named? {
        secret if [header::AUTHORIZATION, header::COOKIE].contains(&secret) => {
            Err(Mistake::with_advice(
                format!("{} is a secret, and ids are logged", quoted(text)),
                "write \"x-request-id\", or where else your proxies write it",
            ))
        }
        named => Ok(named),
    }
}

/// The header that carries the chain.
fn source(text: &str) -> Result<ForwardedSource, Mistake> {
    let name = HeaderName::try_from(text).map_err(|_| {
        Mistake::with_advice(
            format!("{} is not the name of a header", quoted(text)),
            "write \"x-forwarded-for\", \"forwarded\", or a header with one address such as \"cf-connecting-ip\"",
        )
    })?;
    match name.as_str() {
        "x-forwarded-for" => Ok(ForwardedSource::XForwardedFor),
        "forwarded" => Ok(ForwardedSource::Forwarded),
        _ if name == header::HOST || name == header::VIA => Err(Mistake::with_advice(
            format!("{} does not carry an address", quoted(text)),
            "write \"x-forwarded-for\", \"forwarded\", or a header with one address such as \"cf-connecting-ip\"",
        )),
        _ => Ok(ForwardedSource::SingleValue(name)),
    }
}
