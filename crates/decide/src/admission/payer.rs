//! Determines the payer of a new key's slot: the address of the client that sent the key, where clients can invent keys.
//!
//! A client can invent whatever it sends: fields, cookies, parameters, bodies, hosts, paths. It cannot invent its address, a claim of a
//! verified token or a certificate that was accepted. A key with one invented part is as many keys as the client likes.

use std::net::IpAddr;

use sluicegate_base::address::PrefixBits;
use sluicegate_limiter::Payer;

use sluicegate_config::rules::{KeyPart, KeyTemplate};

/// Bits that distinguish IPv4 addresses from IPv6 networks: no global network has them.
const V4: u64 = 0xffff_ffff << 32;

/// Returns the prefixes of the networks that pay for keys of `template`; `None` where no client can invent one.
pub(super) fn payers(template: &KeyTemplate) -> Option<PrefixBits> {
    let own = template.0.iter().find_map(|part| match part {
        KeyPart::ClientIp { v4, v6 } => Some(PrefixBits { v4: *v4, v6: *v6 }),
        _ => None,
    });
    template.can_be_invented().then(|| own.unwrap_or_default())
}

/// Returns the payer for a client; of an IPv6 address at most the first 64 bits count, since a subscriber has at least the others.
pub(super) fn payer(client: IpAddr, bits: PrefixBits) -> Payer {
    let network = match client.to_canonical() {
        IpAddr::V4(address) => {
            let cut = 32 - u32::from(bits.v4.min(32));
            V4 | u64::from(address.to_bits().checked_shr(cut).unwrap_or(0))
        }
        IpAddr::V6(address) => {
            let subscriber = (address.to_bits() >> 64) as u64;
            subscriber
                & u64::MAX
                    .checked_shl(64 - u32::from(bits.v6.min(64)))
                    .unwrap_or(0)
        }
    };
    Payer::from_bits(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a subscriber pays as one, and for no other. Method: addresses of one network and of its neighbor, of both families and
    /// with the prefixes of keys.
    #[test]
    fn a_network_pays_as_one() {
        let payer = |client: &str, v4, v6| {
            let client = client.parse().expect("an address");
            super::payer(client, PrefixBits { v4, v6 })
        };
        let subscriber = payer("2001:db8::1", 32, 64);
        assert_eq!(payer("2001:db8::ffff:1", 32, 128), subscriber);
        assert_ne!(payer("2001:db8:0:1::1", 32, 64), subscriber);
        assert_eq!(
            payer("2001:db8:0:1::1", 24, 56),
            payer("2001:db8::1", 24, 56)
        );
        assert_eq!(
            payer("::ffff:192.0.2.1", 32, 64),
            payer("192.0.2.1", 32, 64)
        );
        assert_ne!(payer("192.0.2.1", 32, 64), payer("192.0.2.2", 32, 64));
        assert_eq!(payer("192.0.2.1", 24, 64), payer("192.0.2.2", 24, 64));
        assert_eq!(payer("192.0.2.1", 0, 0), payer("198.51.100.1", 0, 0));
        assert_ne!(payer("192.0.2.1", 0, 0), payer("2001:db8::1", 0, 0));
    }
}
