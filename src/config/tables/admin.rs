//! `[admin]`: the operator's listener.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use super::listener::{address, clash};
use crate::config::field::{Field, quoted, text_of};
use crate::config::report::{Place, Placed, Report};
use crate::config::rules::{AdminRules, ListenerRules};
use crate::config::section::Section;

/// Where the operator's listener is unless the file says otherwise.
const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9180);

/// Reads the table.
pub(in crate::config) fn read(section: Section<'_>) -> Option<Placed<AdminRules>> {
    let field = section.field("address", "\"127.0.0.1:9180\"");
    let place = field.as_ref().map(|field| field.place.clone());
    let address = field.as_ref().map_or(Some(Some(DEFAULT)), address_or_off);
    let token = section.optional("token_file", "\"/etc/sluicegate/admin-token\"", |field| {
        token(field)
    });
    if let (Some(place), Some(Some(address)), Some(None)) = (&place, address, &token)
        && !address.ip().is_loopback()
    {
        section.report.warning(
            place,
            "everybody who reaches this address may look into the gateway",
            "write token_file = \"/etc/sluicegate/admin-token\", or listen on 127.0.0.1",
        );
    }
    let place = place.unwrap_or_else(|| Place {
        path: "admin.address".to_owned(),
        span: None,
    });
    section.finish();
    let (token, token_file) = token?.unzip();
    Some(Placed {
        value: AdminRules {
            address: address?,
            token,
            token_file,
        },
        place,
    })
}

/// An address, or `off`.
fn address_or_off(field: &Field<'_>) -> Option<Option<SocketAddr>> {
    match field.written_text() {
        Some("off") => Some(None),
        _ => address(field).map(Some),
    }
}

/// Reports when a listener has the operator's address.
pub(in crate::config) fn check_apart(
    admin: &Placed<AdminRules>,
    listeners: &[Placed<ListenerRules>],
    report: &Report<'_>,
) {
    let Some(address) = admin.value.address else {
        return;
    };
    let taken = listeners
        .iter()
        .find(|listener| clash(listener.value.address, address));
    let Some(listener) = taken else { return };
    if admin.place.span.is_some() {
        let line = report.line_of(&listener.place);
        let message = format!("{address} is taken by the listener on line {line}");
        report.error(
            &admin.place,
            message,
            "choose another port for the operator",
        );
    } else {
        report.error(
            &listener.place,
            format!("{address} is the operator's address by default"),
            "choose another port, or write [admin] with an address of its own, or with \"off\"",
        );
    }
}

/// The token in a file, without the white space around it, and where the file is.
fn token(field: &Field<'_>) -> Option<(Arc<str>, PathBuf)> {
    let advice = "put the token there, readable for the user that runs the gateway";
    let (path, text) = text_of(field, advice)?;
    let token = text.trim();
    let visible = |byte: u8| byte.is_ascii_graphic();
    if token.is_empty() {
        return field.refuse(
            format!("{} is empty", quoted(&path.display().to_string())),
            "put a token there, for example with: openssl rand -hex 32",
        );
    }
    if !token.bytes().all(visible) {
        return field.refuse(
            format!(
                "{} holds more than one word of visible ASCII",
                quoted(&path.display().to_string())
            ),
            "put one token there, for example with: openssl rand -hex 32",
        );
    }
    Some((token.into(), path))
}
