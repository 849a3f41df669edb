//! Declares `[admin]`: the operator's listener.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use sluicegate_config_derive::Table;

use super::listener::{address, clash};
use crate::admin_tokens::{AdminTokens, MIN_BYTES};
use crate::declaration::{ListBy, ReadBy, TEXT};
use crate::field::{KeyField, all, quoted, text_of};
use crate::form::ValueKind;
use crate::host;
use crate::report::{KeyPlace, PlacedValue, ProblemReport};
use crate::rules::ListenerRules;
use crate::section::TableSection;

/// The address of the operator's listener unless the file says otherwise.
const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9180);

/// The operator's listener.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "admin", check = warn_of_open_address)]
pub struct AdminRules {
    /// The address of metrics, health and status; it must differ from those of the listeners. "off" disables it: no metrics, no probes, no
    /// `sluicegate reload`.
    #[key(
        example = "\"127.0.0.1:9180\"",
        default = Some(DEFAULT),
        reader = ReadBy(address_or_off, &[ValueKind::String])
    )]
    pub address: Option<SocketAddr>,
    /// A file, watched like this one, with bearer tokens, of which every request except /healthz and /readyz requires one: one token alone,
    /// or a line "NAME ROLE TOKEN" for each operator, with the role read (GET alone) or act. "sha256:" and the hash of a token may stand in
    /// its place. Default: no token is required.
    #[key(
        example = "\"/etc/sluicegate/admin-token\"",
        shown = "\"admin-token\"",
        reader = ReadBy(tokens, &[ValueKind::String])
    )]
    pub token_file: Option<AdminTokens>,
    /// Host names of this listener besides localhost, for requests without the token. Any other Host is answered with 421, which prevents
    /// DNS rebinding; /healthz, /readyz and /metrics accept every Host. Default: none.
    #[key(
        example = "[\"gateway.internal\"]",
        default = Vec::new(),
        reader = ListBy(names, TEXT)
    )]
    pub hosts: Vec<Arc<str>>,
}

fn warn_of_open_address(keys: &AdminRulesKeys, section: &TableSection<'_>) -> Option<()> {
    if let (true, Some(Some(address)), Some(None)) =
        (section.has("address"), keys.address, &keys.token_file)
        && !address.ip().is_loopback()
    {
        section.report.warning(
            &section.place_of("address"),
            "everybody who reaches this address may look into the gateway",
            "write token_file = \"/etc/sluicegate/admin-token\", or listen on 127.0.0.1",
        );
    }
    Some(())
}

/// Reads the table, with the place of its address; the default address has none in the file.
pub(crate) fn read(section: TableSection<'_>) -> Option<PlacedValue<AdminRules>> {
    let place = if section.has("address") {
        section.place_of("address")
    } else {
        KeyPlace {
            path: "admin.address".to_owned(),
            span: None,
        }
    };
    let value = AdminRules::read(section)?;
    Some(PlacedValue { value, place })
}

/// Reads an address, or `off`.
fn address_or_off(field: &KeyField<'_>) -> Option<Option<SocketAddr>> {
    match field.written_text() {
        Some("off") => Some(None),
        _ => address(field).map(Some),
    }
}

/// Reads the names of the listener.
fn names(field: &KeyField<'_>) -> Option<Vec<Arc<str>>> {
    let elements = field.elements()?;
    all(elements.iter().map(|element| element.parsed(host::exact)))
}

/// Reports when a listener has the operator's address.
pub(crate) fn check_apart(
    admin: &PlacedValue<AdminRules>,
    listeners: &[PlacedValue<ListenerRules>],
    report: &ProblemReport<'_>,
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

/// Reads the tokens in a file.
fn tokens(field: &KeyField<'_>) -> Option<AdminTokens> {
    let advice = "put the tokens there, readable for the user that runs the gateway";
    let (path, text) = text_of(field, advice)?;
    let shown = quoted(&path.display().to_string());
    match AdminTokens::parse(&text) {
        Ok(tokens) => {
            if tokens.has_short_token() {
                let message =
                    format!("{shown}: a token of fewer than {MIN_BYTES} characters can be guessed");
                field.warn(
                    message,
                    "write a longer one, for example with: openssl rand -hex 32",
                );
            }
            Some(tokens)
        }
        Err(mistake) => field.refuse(format!("{shown}: {}", mistake.message), mistake.advice),
    }
}
