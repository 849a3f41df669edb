//! Reads blocks of addresses, and compares lists of them.

use std::collections::BTreeSet;
use std::iter;
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

/// Returns the blocks that texts name.
pub(crate) fn networks(texts: &[String]) -> Vec<IpNet> {
    texts.iter().filter_map(|it| network(it)).collect()
}

/// Returns a block as the configuration writes it: a single address without a prefix.
pub(crate) fn written(block: &IpNet) -> String {
    match block.prefix_len() == block.max_prefix_len() {
        true => block.addr().to_string(),
        false => block.to_string(),
    }
}

/// Yields a block and all blocks that contain it, the longest first.
pub(crate) fn around(block: &IpNet) -> impl Iterator<Item = IpNet> {
    iter::successors(Some(block.trunc()), IpNet::supernet)
}

/// Returns true if every block of a list is within a block of a set.
pub(crate) fn are_within(inner: &[IpNet], outer: &BTreeSet<IpNet>) -> bool {
    inner.iter().all(|block| is_in(block, outer))
}

/// Returns the blocks that two lists have in common, each once: of two that contain each other the smaller one.
pub(crate) fn shared(one: &[IpNet], other: &[IpNet]) -> Vec<IpNet> {
    let blocks_of_one = set(one);
    let blocks_of_other = set(other);
    let own = one.iter().filter(|it| is_in(it, &blocks_of_other));
    let further = other.iter().filter(|it| is_in(it, &blocks_of_one));
    let mut known = BTreeSet::new();
    let both = own.chain(further).copied();
    both.filter(|it| known.insert(*it)).collect()
}

/// Returns the blocks of a list, without the bits behind their prefix.
pub(crate) fn set(blocks: &[IpNet]) -> BTreeSet<IpNet> {
    blocks.iter().map(IpNet::trunc).collect()
}

/// Returns true if a block is within one of a set, whose blocks have no bits behind their prefix.
pub(crate) fn is_in(block: &IpNet, blocks: &BTreeSet<IpNet>) -> bool {
    around(block).any(|it| blocks.contains(&it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: of two lists the narrower blocks remain. Method: blocks within each other, equal ones, and ones apart.
    #[test]
    fn lists_share_the_narrower_blocks() {
        let blocks = |text: &str| -> Vec<IpNet> { text.split(' ').filter_map(network).collect() };
        let one = blocks("10.0.0.0/8 192.0.2.1 ::1 203.0.113.0/24");
        let other = blocks("10.1.0.0/16 192.0.2.0/24 ::1 198.51.100.0/24");
        let common = blocks("192.0.2.1 ::1 10.1.0.0/16");
        assert_eq!(shared(&one, &other), common);
        assert!(are_within(&common, &set(&one)) && are_within(&common, &set(&other)));
        assert!(!are_within(&one, &set(&other)));
    }

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
