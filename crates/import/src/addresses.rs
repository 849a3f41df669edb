//! Reads blocks of addresses.

use std::net::IpAddr;

use ipnet::IpNet;

/// Returns the block that an address or a block names, without the bits behind its prefix.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    match text.parse::<IpNet>() {
        Ok(block) => Some(block.trunc()),
        Err(_) => text.parse::<IpAddr>().ok().map(IpNet::from),
    }
}

/// Returns an address or a block as the configuration writes it, which takes no bits behind the prefix.
pub(crate) fn block(text: &str) -> Option<String> {
    match text.parse::<IpAddr>() {
        Ok(address) => Some(address.to_string()),
        Err(_) => network(text).map(|it| it.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each spelling of a block gives the one that the configuration takes. Method: addresses and blocks of both families, bits
    /// behind the prefix, and texts that are none.
    #[test]
    fn a_block_has_no_bits_behind_its_prefix() {
        for (text, expected) in [
            ("10.1.2.3", Some("10.1.2.3")),
            ("10.1.2.3/32", Some("10.1.2.3/32")),
            ("10.1.2.3/8", Some("10.0.0.0/8")),
            ("FD00::1", Some("fd00::1")),
            ("fd00:1::2/16", Some("fd00::/16")),
            ("10.1.2.3/33", None),
            ("localhost", None),
        ] {
            assert_eq!(block(text).as_deref(), expected, "{text}");
        }
    }
}
