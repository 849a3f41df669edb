//! `[[listener]]`: the addresses to accept on, and what is spoken there before HTTP.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use toml::de::DeValue;

use super::listener_tls;
use crate::config::cidr;
use crate::config::field::{Field, all, quoted};
use crate::config::problem::Mistake;
use crate::config::report::{Placed, Report};
use crate::config::rules::{Http2, ListenerRules, ProxyProtocol};
use crate::config::section::Section;

pub(in crate::config) const EXAMPLE: &str = "with address = \"0.0.0.0:8080\"";

/// Every listener that could be read, with the place of its address.
pub(in crate::config) fn read(sections: Vec<Section<'_>>) -> Vec<Placed<ListenerRules>> {
    let read = sections.into_iter();
    read.filter_map(|section| read_one(section)).collect()
}

fn read_one(section: Section<'_>) -> Option<Placed<ListenerRules>> {
    let address = section
        .required("address", "\"0.0.0.0:8080\"")
        .and_then(|field| Some(field.placed(address(&field)?)));
    let http2 = section.or("http2", "true", Http2::Accepted, |field| {
        Some(if field.boolean()? {
            Http2::Accepted
        } else {
            Http2::Off
        })
    });
    let proxy_protocol = proxy_protocol(&section);
    let redirect = section.field("redirect_to_https", "true");
    let redirect_to_https = redirect.as_ref().map_or(Some(None), https_port);
    let tls = listener_tls::read(&section);
    section.finish();
    if let (Some(redirect), Some(Some(_)), Some(Some(_))) = (&redirect, &redirect_to_https, &tls) {
        return redirect.refuse(
            "who comes here speaks TLS already",
            "write it where clear text is spoken, in the [[listener]] of port 80",
        );
    }
    let Placed { value, place } = address?;
    Some(Placed {
        value: ListenerRules {
            address: value,
            http2: http2?,
            proxy_protocol: proxy_protocol?,
            redirect_to_https: redirect_to_https?,
            tls: tls?,
        },
        place,
    })
}

/// `true`, `false` or a port.
fn https_port(field: &Field<'_>) -> Option<Option<NonZeroU16>> {
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

/// What a proxy in front may announce, and which.
#[derive(Clone, Copy)]
enum Announced {
    Off,
    Optional,
    Required,
}

fn proxy_protocol(section: &Section<'_>) -> Option<ProxyProtocol> {
    let written = section.field("proxy_protocol", "\"required\"");
    let choice = written.as_ref().map_or(Some(Announced::Off), |field| {
        field.word(
            &[
                ("off", Announced::Off),
                ("optional", Announced::Optional),
                ("required", Announced::Required),
            ],
            |got| format!("{got} says nothing about the PROXY protocol"),
        )
    });
    let from = section.field("proxy_protocol_from", "[\"10.0.0.0/8\"]");
    let networks = from.as_ref().map(|field| {
        let elements = field.list()?;
        all(elements.iter().map(|element| {
            let network = cidr::read(element)?;
            if network.prefix_len() == 0 {
                element.report.warning(
                    &element.place,
                    "everybody who reaches this address can choose whose address a request counts under",
                    "write the addresses of the proxies that announce clients here",
                );
            }
            Some(network)
        }))
    });
    let choice = choice?;
    let of = match (choice, networks) {
        (Announced::Off, None) => return Some(ProxyProtocol::Off),
        (Announced::Off, Some(_)) => {
            return from?.refuse(
                "nobody announces clients here",
                "write proxy_protocol = \"required\" beside it, or leave it out",
            );
        }
        (Announced::Optional | Announced::Required, None) => {
            return written?.refuse(
                "nothing says who may announce clients, and whoever does chooses whose address a request counts under",
                "write proxy_protocol_from = [\"10.0.0.0/8\"] with the addresses of your proxies",
            );
        }
        (Announced::Optional | Announced::Required, Some(networks)) => networks?,
    };
    Some(match choice {
        Announced::Optional => ProxyProtocol::Optional(of),
        Announced::Off | Announced::Required => ProxyProtocol::Required(of),
    })
}

/// An address to bind.
pub(super) fn address(field: &Field<'_>) -> Option<SocketAddr> {
    field.parsed(|text| {
        text.parse().map_err(|_| {
            let message = format!("{} is not an address with a port", quoted(text));
            let port: Option<u16> = text.rsplit(':').next().and_then(|port| port.parse().ok());
            Mistake::with_advice(
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
    })
}

/// Reports every address that cannot be bound because an earlier one has it.
pub(in crate::config) fn check_distinct(listeners: &[Placed<ListenerRules>], report: &Report<'_>) {
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

/// Whether two addresses cannot both be bound. Port 0 is a new one each time; `[::]` takes IPv4 too.
pub(super) fn clash(a: SocketAddr, b: SocketAddr) -> bool {
    let takes = |all: SocketAddr, one: SocketAddr| {
        all.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4())
    };
    a.port() == b.port() && a.port() != 0 && (a.ip() == b.ip() || takes(a, b) || takes(b, a))
}
