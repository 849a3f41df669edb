//! Writes addresses as text, for fields and log lines: on the stack, and without `core::fmt` where it costs ten times as much.

use std::fmt::Write as _;
use std::net::IpAddr;

use arrayvec::ArrayString;

/// Bytes of the longest address: an IPv6 address that ends in an IPv4 one.
const LONGEST: usize = 45;

/// The usual form of an address, RFC 5952 for IPv6.
#[must_use]
pub fn address_text(address: IpAddr) -> ArrayString<LONGEST> {
    let mut text = ArrayString::new();
    match address {
        IpAddr::V4(address) => {
            for (place, octet) in address.octets().into_iter().enumerate() {
                if place > 0 {
                    text.push('.');
                }
                push_octet(&mut text, octet);
            }
        }
        // Through `Display`, for its rules on which zeroes to leave out; what it writes fits.
        IpAddr::V6(address) => drop(write!(text, "{address}")),
    }
    text
}

fn push_octet(text: &mut ArrayString<LONGEST>, octet: u8) {
    let digit = |number: u8| char::from(b'0' + number % 10);
    if octet >= 100 {
        text.push(digit(octet / 100));
    }
    if octet >= 10 {
        text.push(digit(octet / 10));
    }
    text.push(digit(octet));
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    proptest! {
        /// Goal: the short cut writes what everybody writes. Method: any address against `Display`.
        #[test]
        fn addresses_read_as_usual(address: IpAddr) {
            prop_assert_eq!(address_text(address).to_string(), address.to_string());
        }
    }

    /// Goal: nothing is cut off. Method: the longest form that `Display` knows.
    #[test]
    fn the_longest_address_fits() {
        let address: IpAddr = "::ffff:255.255.255.255".parse().expect("an address");
        assert_eq!(address_text(address).as_str(), "::ffff:255.255.255.255");
    }
}
