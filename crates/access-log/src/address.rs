//! Parses the addresses of clients.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Parses an address without a port; the zone of one that holds on a link only (`fe80::1%4`, RFC 4007 §11) is cut off.
pub(crate) fn address(text: &[u8]) -> Option<IpAddr> {
    if let Some(address) = v4(text) {
        return Some(IpAddr::V4(address));
    }
    let end = memchr::memchr(b'%', text).unwrap_or(text.len());
    std::str::from_utf8(text.get(..end)?).ok()?.parse().ok()
}

/// Parses an address with or without a port, where one of IPv6 with a port has brackets.
pub(crate) fn client_address(text: &[u8]) -> Option<IpAddr> {
    address(text).or_else(|| address_and_port(text))
}

/// Parses the last address of a chain as `X-Forwarded-For` has it, each with a port or without.
pub(crate) fn last_address(chain: &[u8]) -> Option<IpAddr> {
    let last = chain.rsplit(|byte| *byte == b',').next()?;
    client_address(last.trim_ascii())
}

/// Parses an address with or without a port: `192.0.2.1:39`, `[2001:db8::1]:39`, and `2001:db8::1:39` where no bracket says which part
/// is the port (HAProxy writes IPv6 so).
pub(crate) fn address_and_port(text: &[u8]) -> Option<IpAddr> {
    if text.first() == Some(&b'[') {
        let text = std::str::from_utf8(text).ok()?;
        let with_port = text.parse::<SocketAddr>().map(|address| address.ip());
        return with_port.ok().or_else(|| {
            let inside = text.strip_prefix('[')?.strip_suffix(']')?;
            inside.parse().ok()
        });
    }
    let colon = memchr::memrchr(b':', text);
    let before = colon.and_then(|at| address(text.get(..at)?));
    before.or_else(|| address(text))
}

/// Parses an IPv4 address of four numbers without leading zeros, as the standard library does, in a third of its time.
#[inline]
fn v4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut rest = text;
    for (index, octet) in octets.iter_mut().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix(b".")?;
        }
        (*octet, rest) = leading_octet(rest)?;
    }
    rest.is_empty().then_some(Ipv4Addr::from(octets))
}

/// Parses the number at the begin of `text`, and returns what follows its last digit.
#[inline(always)]
fn leading_octet(text: &[u8]) -> Option<(u8, &[u8])> {
    let (first, rest) = leading_digit(text)?;
    let Some((second, behind)) = leading_digit(rest) else {
        return Some((first, rest));
    };
    if first == 0 {
        return None;
    }
    let two = 10 * first + second;
    match leading_digit(behind) {
        Some((third, end)) => Some((two.checked_mul(10)?.checked_add(third)?, end)),
        None => Some((two, behind)),
    }
}

#[inline(always)]
fn leading_digit(text: &[u8]) -> Option<(u8, &[u8])> {
    let (first, rest) = text.split_first()?;
    let digit = first.wrapping_sub(b'0');
    (digit < 10).then_some((digit, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: an address is read with its port and without. Method: both families in the forms of servers.
    #[test]
    fn ports_are_cut_off() {
        for (text, read) in [
            ("192.0.2.1:39", Some("192.0.2.1")),
            ("192.0.2.1", Some("192.0.2.1")),
            ("[2001:db8::1]:39", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("2001:db8:0:0:0:0:0:1:39", Some("2001:db8::1")),
            ("unix:", None),
            ("-", None),
            ("", None),
        ] {
            let read = read.map(|read| read.parse().unwrap());
            assert_eq!(address_and_port(text.as_bytes()), read, "{text}");
        }
    }

    /// Goal: the last hop of a chain is read as servers write it. Method: one address and several, with ports, a zone, no address.
    #[test]
    fn the_last_address_of_a_chain_is_read() {
        for (text, read) in [
            ("192.0.2.1", Some("192.0.2.1")),
            ("198.51.100.7, 192.0.2.1", Some("192.0.2.1")),
            ("198.51.100.7:443,192.0.2.1:39", Some("192.0.2.1")),
            ("192.0.2.1, 2001:db8::1:39", Some("2001:db8::1:39")),
            ("[2001:db8::1]:39", Some("2001:db8::1")),
            ("fe80::1%4", Some("fe80::1")),
            ("192.0.2.1, unknown", None),
            ("", None),
        ] {
            let read = read.map(|read| read.parse().unwrap());
            assert_eq!(last_address(text.as_bytes()), read, "{text}");
        }
    }

    proptest! {
        /// Goal: the fast way reads what the standard library reads. Method: texts that are nearly addresses.
        #[test]
        fn addresses_are_those_of_the_standard_library(text in "[0-9.]{0,16}") {
            prop_assert_eq!(v4(text.as_bytes()), text.parse().ok());
        }

        /// Goal: the same for real ones. Method: any address.
        #[test]
        fn any_address_is_read(address: std::net::IpAddr) {
            prop_assert_eq!(super::address(address.to_string().as_bytes()), Some(address));
        }
    }
}
