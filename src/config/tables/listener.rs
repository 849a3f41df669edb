//! `[[listener]]`: the addresses to accept on.

use std::net::SocketAddr;

use crate::config::field::{Field, quoted};
use crate::config::problem::Mistake;
use crate::config::report::{Placed, Report};
use crate::config::rules::{Http2, ListenerRules};
use crate::config::section::Section;

pub(in crate::config) const EXAMPLE: &str = "with address = \"0.0.0.0:8080\"";

/// Every listener that could be read, with the place of its address.
pub(in crate::config) fn read(sections: Vec<Section<'_>>) -> Vec<Placed<ListenerRules>> {
    sections.into_iter().filter_map(read_one).collect()
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
    section.finish();
    let Placed { value, place } = address?;
    Some(Placed {
        value: ListenerRules {
            address: value,
            http2: http2?,
        },
        place,
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
