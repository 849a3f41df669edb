//! Fuzzes who asks: whatever chain arrives, the client is whom a slow and obvious reading names.
//!
//! The model reads whole chains from the left and decides by position; it shares no code with the crate. So a client found is the
//! connection's address, or one that the chain holds, reached from the right through trusted hops only.
//!
//! A case is text: which field is believed, the connection's address and the trusted blocks on the first line, then one field a line.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderName, HeaderValue};
use ipnet::IpNet;
use libfuzzer_sys::{Corpus, fuzz_target};
use sluicegate_base::bounds::{FORWARDED_BYTES, FORWARDED_ELEMENTS, FORWARDED_NODE_BYTES};
use sluicegate_base::crawler::SignedHosts;
use sluicegate_base::received::{FieldValue, ReceivedFields};
use sluicegate_config::rules::{ClientRules, ForwardedSource, ListUse};
use sluicegate_decide::client::{AddressSource, ClientAddress, identify};

fuzz_target!(|bytes: &[u8]| -> Corpus { run(bytes).map_or(Corpus::Reject, |()| Corpus::Keep) });

fn run(bytes: &[u8]) -> Option<()> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let mut said = std::str::from_utf8(lines.next()?).ok()?.split(' ');
    let (name, forwarded) = match said.next()? {
        "forwarded" => ("forwarded", ForwardedSource::Forwarded),
        "x-forwarded-for" => ("x-forwarded-for", ForwardedSource::XForwardedFor),
        _ => {
            let name = HeaderName::from_static("x-real-ip");
            ("x-real-ip", ForwardedSource::SingleValue(name))
        }
    };
    let peer: IpAddr = said.next()?.parse().ok()?;
    let trusted: Vec<IpNet> = said.map_while(|block| block.parse().ok()).collect();
    let mut headers = ReceivedFields::new();
    for line in lines {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    let rules = ClientRules {
        trusted_proxies: trusted,
        client_ip_header: forwarded,
        trusted_headers: Vec::new(),
        request_id: None,
        lists: ListUse::default(),
        signed_hosts: SignedHosts::default(),
        dns_servers: Vec::new(),
    };
    let found = identify(peer, &headers, &rules);
    let fields: Vec<&[u8]> = headers
        .get_all(HeaderName::from_static(name))
        .map(FieldValue::as_bytes)
        .collect();
    assert_eq!(found, model(peer, &fields, &rules));
    Some(())
}

/// Who asks, found the long way.
fn model(peer: IpAddr, fields: &[&[u8]], rules: &ClientRules) -> ClientAddress {
    let peer = peer.to_canonical();
    let told = match rules.client_ip_header {
        _ if !trusts(&rules.trusted_proxies, peer) => None,
        ForwardedSource::SingleValue(_) => match fields {
            [only] => node(only),
            _ => None,
        },
        ForwardedSource::XForwardedFor => nearest(fields, &rules.trusted_proxies, false),
        ForwardedSource::Forwarded => nearest(fields, &rules.trusted_proxies, true),
    };
    match told {
        Some(address) => ClientAddress {
            address,
            source: AddressSource::Forwarded,
        },
        None => ClientAddress {
            address: peer,
            source: AddressSource::Connection,
        },
    }
}

/// The first hop from the right that is not trusted, or the last that can be read.
fn nearest(fields: &[&[u8]], trusted: &[IpNet], quotes: bool) -> Option<IpAddr> {
    let mut left = FORWARDED_BYTES;
    let mut seen = 0;
    let mut reached = None;
    for field in fields.iter().rev() {
        let elements = elements(field, quotes);
        for (at, element) in elements.iter().enumerate().rev() {
            // The first of a field has no comma before it that would have to be seen.
            let needed = element.len() + usize::from(at > 0);
            if seen == FORWARDED_ELEMENTS || needed > left {
                return reached;
            }
            seen += 1;
            left = left.saturating_sub(element.len() + 1);
            if quotes && trim(element).is_empty() {
                // RFC 9110 §5.6.1.2.
                continue;
            }
            let hop = if quotes {
                forwarded_for(element)
            } else {
                node(element)
            };
            let Some(address) = hop else { return reached };
            reached = Some(address);
            if !trusts(trusted, address) {
                return reached;
            }
        }
    }
    reached
}

/// The elements of a field: a comma parts two when the quotes to its right are even.
fn elements(field: &[u8], quotes: bool) -> Vec<&[u8]> {
    let parts = |at: usize| {
        let right = (at + 1..field.len()).filter(|&at| field[at] == b'"' && !is_escaped(field, at));
        field[at] == b',' && (!quotes || right.count() % 2 == 0)
    };
    let commas: Vec<usize> = (0..field.len()).filter(|&at| parts(at)).collect();
    let starts = std::iter::once(0).chain(commas.iter().map(|comma| comma + 1));
    let ends = commas.iter().copied().chain([field.len()]);
    starts
        .zip(ends)
        .map(|(start, end)| &field[start..end])
        .collect()
}

/// Whether an odd run of backslashes stands before `at`.
fn is_escaped(text: &[u8], at: usize) -> bool {
    at > 0 && text[at - 1] == b'\\' && !is_escaped(text, at - 1)
}

/// RFC 7239 §4: the one `for` of an element.
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut pairs = vec![Vec::new()];
    let (mut quoted, mut escaped) = (false, false);
    for &byte in element {
        if byte == b';' && !quoted {
            pairs.push(Vec::new());
            continue;
        }
        quoted ^= byte == b'"' && !escaped;
        escaped = quoted && byte == b'\\' && !escaped;
        pairs.last_mut()?.push(byte);
    }
    let mut told = Vec::new();
    for pair in pairs
        .iter()
        .map(|pair| trim(pair))
        .filter(|pair| !pair.is_empty())
    {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&pair[..equals], &pair[equals + 1..]);
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
            return None;
        }
        let value = plain(value)?;
        if name.eq_ignore_ascii_case(b"for") {
            told.push(value);
        }
    }
    match &*told {
        [only] if only.len() <= FORWARDED_NODE_BYTES => node(only),
        _ => None,
    }
}

/// A value without its quotes.
fn plain(value: &[u8]) -> Option<Vec<u8>> {
    let Some(inner) = value.strip_prefix(b"\"") else {
        let is_bare = |byte: &u8| is_token(*byte) || b":[]".contains(byte);
        return (!value.is_empty() && value.iter().all(is_bare)).then(|| value.to_vec());
    };
    let mut text = Vec::new();
    let mut rest = inner.iter();
    loop {
        match rest.next()? {
            b'\\' => text.push(*rest.next()?),
            b'"' => return rest.as_slice().is_empty().then_some(text),
            byte => text.push(*byte),
        }
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn trim(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let start = text
        .iter()
        .position(|byte| !blank(byte))
        .unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(|byte| !blank(byte))
        .map_or(start, |at| at + 1);
    &text[start..end]
}

/// An address in the forms that hops write.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(trim(text)).ok()?;
    if text.len() > FORWARDED_NODE_BYTES {
        return None;
    }
    let in_brackets = |text: &str| {
        text.strip_prefix('[')?
            .strip_suffix(']')?
            .parse::<Ipv6Addr>()
            .ok()
    };
    let bare = text
        .parse::<IpAddr>()
        .ok()
        .or_else(|| in_brackets(text).map(IpAddr::V6));
    let with_port = || {
        let (address, port) = text.rsplit_once(':')?;
        let hidden = |name: &str| {
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        };
        let digits = (1..=5).contains(&port.len()) && port.chars().all(|c| c.is_ascii_digit());
        if !digits && !port.strip_prefix('_').is_some_and(hidden) {
            return None;
        }
        let v4 = address.parse::<Ipv4Addr>().ok().map(IpAddr::V4);
        v4.or_else(|| in_brackets(address).map(IpAddr::V6))
    };
    bare.or_else(with_port)
        .map(|address| address.to_canonical())
}

/// Whether one of the blocks holds the address, all compared as IPv6.
fn trusts(blocks: &[IpNet], address: IpAddr) -> bool {
    let wide = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
        IpAddr::V6(address) => u128::from(address),
    };
    blocks.iter().any(|block| {
        let bits = match block {
            IpNet::V4(block) => 96 + u32::from(block.prefix_len()),
            IpNet::V6(block) => u32::from(block.prefix_len()),
        };
        // A block of all kinds of addresses speaks of IPv6 only.
        let speaks = bits >= 96 || address.is_ipv6();
        speaks
            && (wide(block.addr()) ^ wide(address))
                .checked_shr(128 - bits)
                .unwrap_or(0)
                == 0
    })
}
