//! Owns how blocks of addresses are written: `10.0.0.0/8`, `2001:db8::/32`, `192.0.2.1`.

use std::net::IpAddr;

use ipnet::IpNet;

use super::field::{KeyField, quoted};
use super::form::ValueConstraint;
use super::problem::ParseError;

/// The block that a value is.
pub(super) fn read(field: &KeyField<'_>) -> Option<IpNet> {
    field.note(|| ValueConstraint::Block);
    field.parsed(block)
}

/// An expression that blocks match: digits, colons and dots as in an address, and a length.
pub(super) const EXPRESSION: &str = "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$";

/// Returns the entries of a file with one block a line, each with its line from 1; `#` and `;` begin a comment, as in the lists that are
/// published.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    lines.filter_map(|(at, line)| {
        let entry = line.split(['#', ';']).next().unwrap_or_default().trim();
        (!entry.is_empty()).then_some((at + 1, entry))
    })
}

/// Parses a block of addresses, or one address, as the configuration has them.
///
/// # Errors
/// The mistake in the text, and what to write instead.
pub fn read_block(text: &str) -> Result<IpNet, String> {
    block(text).map_err(|mistake| mistake.to_text())
}

/// A block of addresses, or one address.
pub(super) fn block(text: &str) -> Result<IpNet, ParseError> {
    if let Ok(address) = text.parse() {
        return Ok(IpNet::from(IpAddr::to_canonical(&address)));
    }
    let block: IpNet = text.parse().map_err(|_| {
        ParseError::with_advice(
            format!("{} is not a block of addresses", quoted(text)),
            "write one in CIDR form: \"10.0.0.0/8\", \"2001:db8::/32\", \"192.0.2.1\"",
        )
    })?;
    if block.trunc() != block {
        return Err(ParseError::with_advice(
            format!("{} has bits behind its prefix", quoted(text)),
            format!(
                "write \"{}\" for the block, or \"{}\" for the address",
                block.trunc(),
                block.addr()
            ),
        ));
    }
    Ok(block)
}
