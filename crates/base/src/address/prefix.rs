//! Cuts an address down to the network that a limit counts by.
//!
//! One subscriber owns a whole IPv6 /64 and can use a new address for each request, so single IPv6 addresses are no key.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Number of leading bits of an address that count, for each family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefixBits {
    /// Bits of an IPv4 address, 0–32; more means 32.
    pub v4: u8,
    /// Bits of an IPv6 address, 0–128; more means 128.
    pub v6: u8,
}

impl Default for PrefixBits {
    /// One IPv4 address; one IPv6 subscriber.
    fn default() -> Self {
        Self { v4: 32, v6: 64 }
    }
}

/// A network in a compact form to hash: family, length, masked octets.
///
/// The family is part of it, so IPv4 and IPv6 never share a key; the length too, so a network and its first address do not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressPrefix {
    /// `4` or `6`, the bits, then 4 or 16 octets; the rest is zero.
    bytes: [u8; 18],
}

/// Returns the network of `address`, which is folded to IPv4 where it is a mapped one.
#[must_use]
pub fn prefix(address: IpAddr, bits: PrefixBits) -> AddressPrefix {
    let mut bytes = [0; 18];
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let length = bits.v4.min(32);
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            bytes[..2].copy_from_slice(&[4, length]);
            bytes[2..6].copy_from_slice(&(address.to_bits() & mask).to_be_bytes());
        }
        IpAddr::V6(address) => {
            let length = bits.v6.min(128);
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            bytes[..2].copy_from_slice(&[6, length]);
            bytes[2..].copy_from_slice(&(address.to_bits() & mask).to_be_bytes());
        }
    }
    AddressPrefix { bytes }
}

impl AddressPrefix {
    /// Returns the bytes to count by: 6 for IPv4, 18 for IPv6.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        if self.bytes[0] == 4 {
            &self.bytes[..6]
        } else {
            &self.bytes
        }
    }

    /// Returns the first address of the network.
    #[must_use]
    pub fn network(&self) -> IpAddr {
        match self.as_bytes() {
            &[_, _, a, b, c, d] => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            _ => {
                let mut octets = [0; 16];
                octets.copy_from_slice(&self.bytes[2..]);
                IpAddr::V6(Ipv6Addr::from(octets))
            }
        }
    }

    /// Returns the number of leading bits that count.
    #[must_use]
    pub fn length(&self) -> u8 {
        self.bytes[1]
    }
}

/// `203.0.113.0/24`.
impl fmt::Display for AddressPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network(), self.length())
    }
}

impl fmt::Debug for AddressPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use ipnet::IpNet;
    use proptest::prelude::*;

    use super::*;

    fn cut(address: &str, v4: u8, v6: u8) -> String {
        prefix(address.parse().unwrap(), PrefixBits { v4, v6 }).to_string()
    }

    #[test]
    fn an_address_is_cut_to_its_network() {
        assert_eq!(cut("203.0.113.77", 24, 56), "203.0.113.0/24");
        assert_eq!(cut("2001:db8:1:2:3::4", 32, 64), "2001:db8:1:2::/64");
        assert_eq!(cut("2001:db8:1:2ff:3::4", 32, 56), "2001:db8:1:200::/56");
        assert_eq!(cut("::ffff:203.0.113.77", 32, 64), "203.0.113.77/32");
        assert_eq!(cut("203.0.113.77", 0, 0), "0.0.0.0/0");
        assert_eq!(cut("2001:db8::1", 0, 0), "::/0");
        assert_eq!(cut("2001:db8::1", 0, 128), "2001:db8::1/128");
        assert_eq!(cut("203.0.113.77", 200, 200), "203.0.113.77/32");
        assert_eq!(
            prefix("2001:db8::1".parse().unwrap(), PrefixBits::default()).length(),
            64
        );
    }

    #[test]
    fn families_never_share_a_key() {
        let bits = PrefixBits { v4: 0, v6: 0 };
        let v4 = prefix("1.2.3.4".parse().unwrap(), bits);
        let v6 = prefix("2001:db8::1".parse().unwrap(), bits);
        assert_ne!(v4.as_bytes(), v6.as_bytes());
    }

    proptest! {
        #[test]
        fn two_addresses_share_a_key_exactly_when_they_share_the_network(a: u128, flip in 0u32..128, v4 in 0u8..=32, v6 in 0u8..=128) {
            let bits = PrefixBits { v4, v6 };
            for (a, b) in [
                (IpAddr::V6(a.into()), IpAddr::V6((a ^ (1 << flip)).into())),
                (IpAddr::V4((a as u32).into()), IpAddr::V4((a as u32 ^ (1 << (flip % 32))).into())),
            ] {
                let (a, b) = (a.to_canonical(), b.to_canonical());
                let network = IpNet::new(a, if a.is_ipv4() { v4 } else { v6 }).unwrap();
                let same = prefix(a, bits).as_bytes() == prefix(b, bits).as_bytes();
                prop_assert_eq!(same, network.contains(&b));
            }
        }
    }
}
