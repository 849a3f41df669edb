//! `[client]`: who is believed about the client's address, and which clients are known.

use http::{HeaderName, header};
use ipnet::IpNet;

use super::list;
use crate::config::cidr;
use crate::config::field::{all, quoted};
use crate::config::problem::Mistake;
use crate::config::report::Placed;
use crate::config::rules::{ClientRules, ForwardedSource, Name};
use crate::config::section::Section;

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
    let forwarded = section.field("forwarded", "\"x-forwarded-for\"");
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
    Some(Client {
        everyone: blocks
            .iter()
            .find(|block| block.value.prefix_len() == 0)
            .cloned(),
        rules: ClientRules {
            trusted_proxies: blocks.into_iter().map(|block| block.value).collect(),
            forwarded,
            request_id,
            lists: uses,
        },
        lists,
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
