//! Reads one hop's name into an address.
//!
//! Hops write addresses bare, with a port, or in brackets. The port does not identify the client and is checked only so that
//! garbage is not taken for a port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluicegate_base::bounds;

/// Reads `1.2.3.4`, `1.2.3.4:567`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:567`, with blanks around it.
///
/// Returns `None` for everything else: `unknown`, `_hidden`, zone identifiers, names, garbage. Folds a mapped address to IPv4.
pub(super) fn parse(element: &[u8]) -> Option<IpAddr> {
    let text = trim_blanks(element);
    if text.len() > bounds::FORWARDED_NODE_BYTES {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let address = if let Some(inner) = text.strip_prefix('[') {
        let (address, port) = inner.split_once(']')?;
        if !port.is_empty() && !is_port(port.strip_prefix(':')?) {
            return None;
        }
        IpAddr::V6(address.parse::<Ipv6Addr>().ok()?)
    } else if let Ok(address) = text.parse::<IpAddr>() {
        address
    } else {
        let (address, port) = text.split_once(':')?;
        if !is_port(port) {
            return None;
        }
        IpAddr::V4(address.parse::<Ipv4Addr>().ok()?)
    };
    Some(address.to_canonical())
}

/// Trims blanks from both ends. RFC 9110 §5.6.3: optional whitespace is spaces and tabs.
pub(super) fn trim_blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// Returns whether the text is a port, RFC 7239 §6: 1–5 digits, or `_` and a name that hides it.
fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some(hidden) => {
            !hidden.is_empty()
                && hidden
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        }
        None => matches!(text.len(), 1..=5) && text.bytes().all(|b| b.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_in_every_form_that_hops_write() {
        for (text, address) in [
            ("1.2.3.4", "1.2.3.4"),
            (" \t1.2.3.4 ", "1.2.3.4"),
            ("1.2.3.4:567", "1.2.3.4"),
            ("1.2.3.4:_hidden", "1.2.3.4"),
            ("2001:db8::1", "2001:db8::1"),
            ("2001:DB8:0::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:80", "2001:db8::1"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("[::ffff:102:304]:80", "1.2.3.4"),
        ] {
            assert_eq!(
                parse(text.as_bytes()),
                Some(address.parse().unwrap()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_an_address_is_not_guessed() {
        for text in [
            "",
            " ",
            "unknown",
            "_hidden",
            "localhost",
            "1.2.3",
            "1.2.3.4.5",
            "01.2.3.4",
            "1.2.3.4:",
            "1.2.3.4:x",
            "1.2.3.4:123456",
            "1.2.3.4:80:80",
            "1.2.3.4 5.6.7.8",
            "[1.2.3.4]",
            "[::1",
            "[::1]80",
            "[::1]:",
            "::1]",
            "fe80::1%eth0",
            "\"1.2.3.4\"",
            "for=1.2.3.4",
            "\u{ff11}.2.3.4",
            "1.2.3.4:0000000000000000000000000000000000000000000000000000000000",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"\xff\xfe"), None);
    }
}
