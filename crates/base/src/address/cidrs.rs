//! Finds the longest of many address blocks that contains an address.
//!
//! Blocks nest and never overlap otherwise, so a set of them divides the addresses into runs within which the answer is the
//! same. The set stores the sorted beginnings of the runs and one byte for each: a look-up is a binary search, whatever the
//! blocks are like, and a million of single IPv4 addresses takes at most 10 MB, of IPv6 at most 34 MB.

use std::net::IpAddr;

use ipnet::IpNet;

/// A set of address blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CidrSet {
    v4: AddressRuns<u32>,
    v6: AddressRuns<u128>,
    blocks: usize,
}

/// Number of leading bits of an address that a block fixes; the longer the more specific. Only compared within one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrefixLength(pub u8);

/// The addresses of one family, cut where the answer changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AddressRuns<W> {
    /// The beginning of each run, ascending; addresses before the first are in no block.
    starts: Vec<W>,
    /// The longest block of each run, or [`NONE`].
    lengths: Vec<u8>,
}

/// In no block; no family has prefixes this long.
const NONE: u8 = u8::MAX;

impl CidrSet {
    /// Returns the set of `blocks`; bits after a prefix are ignored, IPv4 in IPv6 is folded, and duplicates count once.
    #[must_use]
    pub fn new(blocks: impl IntoIterator<Item = IpNet>) -> Self {
        let mut v4 = Vec::new();
        let mut v6 = Vec::new();
        for block in blocks {
            match folded_block(block) {
                IpNet::V4(block) => v4.push((block.network().to_bits(), block.prefix_len())),
                IpNet::V6(block) => v6.push((block.network().to_bits(), block.prefix_len())),
            }
        }
        let v4 = sorted(v4);
        let v6 = sorted(v6);
        Self {
            blocks: v4.len() + v6.len(),
            v4: AddressRuns::new(&v4),
            v6: AddressRuns::new(&v6),
        }
    }

    /// Returns the longest block that contains `address`, if one does.
    #[must_use]
    pub fn longest(&self, address: IpAddr) -> Option<PrefixLength> {
        match address.to_canonical() {
            IpAddr::V4(address) => self.v4.at(address.to_bits()),
            IpAddr::V6(address) => self.v6.at(address.to_bits()),
        }
    }

    /// Returns the longest block that contains all of `network`, if one does. Where blocks within `network` leave no address of it over, no
    /// block around them is found.
    #[must_use]
    pub fn longest_around(&self, network: IpNet) -> Option<PrefixLength> {
        match folded_block(network) {
            IpNet::V4(network) => {
                let first = network.network().to_bits();
                self.v4.around(first, network.prefix_len())
            }
            IpNet::V6(network) => {
                let first = network.network().to_bits();
                self.v6.around(first, network.prefix_len())
            }
        }
    }

    /// Returns the number of distinct blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Returns the heap size of the set in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.v4.starts.capacity() * 4
            + self.v6.starts.capacity() * 16
            + self.v4.lengths.capacity()
            + self.v6.lengths.capacity()
    }
}

/// Folds a mapped block: `::ffff:10.0.0.0/104` means 10.0.0.0/8; a shorter prefix such as `::/0` covers IPv6 only.
#[must_use]
pub fn folded_block(block: IpNet) -> IpNet {
    let IpNet::V6(v6) = block else { return block };
    let folded = v6.addr().to_ipv4_mapped().and_then(|address| {
        let length = v6.prefix_len().checked_sub(96)?;
        IpNet::new(IpAddr::V4(address), length).ok()
    });
    folded.unwrap_or(block)
}

/// Outer blocks before the blocks within them, each once.
fn sorted<W: AddressBits>(mut blocks: Vec<(W, u8)>) -> Vec<(W, u8)> {
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

/// The bits of an address of one family.
trait AddressBits: Copy + Ord {
    /// The last address of the block that begins here.
    fn last(self, length: u8) -> Self;
    fn next(self) -> Option<Self>;
}

impl AddressBits for u32 {
    fn last(self, length: u8) -> Self {
        self | Self::MAX.checked_shr(u32::from(length)).unwrap_or(0)
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl AddressBits for u128 {
    fn last(self, length: u8) -> Self {
        self | Self::MAX.checked_shr(u32::from(length)).unwrap_or(0)
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl<W> Default for AddressRuns<W> {
    fn default() -> Self {
        Self {
            starts: Vec::new(),
            lengths: Vec::new(),
        }
    }
}

impl<W: AddressBits> AddressRuns<W> {
    /// Returns the runs of sorted, distinct blocks.
    fn new(blocks: &[(W, u8)]) -> Self {
        let mut runs = Self::default();
        // The blocks that the sweep is in, the outermost first: as many as a family has bits at most.
        let mut open: Vec<(W, u8)> = Vec::new();
        for &(start, length) in blocks {
            while let Some(&(last, _)) = open.last()
                && last < start
            {
                open.pop();
                runs.resume(last, &open);
            }
            runs.begin(start, length);
            open.push((start.last(length), length));
        }
        while let Some((last, _)) = open.pop() {
            runs.resume(last, &open);
        }
        runs.starts.shrink_to_fit();
        runs.lengths.shrink_to_fit();
        runs
    }

    /// Begins a run after the `last` address of a block, in the enclosing block.
    fn resume(&mut self, last: W, open: &[(W, u8)]) {
        if let Some(next) = last.next() {
            self.begin(next, open.last().map_or(NONE, |(_, length)| *length));
        }
    }

    fn begin(&mut self, start: W, length: u8) {
        if self.starts.last() == Some(&start) {
            // An empty run: the block before ended where this one begins.
            self.starts.pop();
            self.lengths.pop();
        }
        if self.lengths.last().copied().unwrap_or(NONE) != length {
            self.starts.push(start);
            self.lengths.push(length);
        }
    }

    fn at(&self, address: W) -> Option<PrefixLength> {
        let run = self.starts.partition_point(|start| *start <= address);
        let length = *self.lengths.get(run.checked_sub(1)?)?;
        (length != NONE).then_some(PrefixLength(length))
    }

    /// Returns the block around the addresses that begin with these bits: that of the first run in no narrower block.
    fn around(&self, first: W, length: u8) -> Option<PrefixLength> {
        let last = first.last(length);
        let begin = self.starts.partition_point(|start| *start <= first);
        let end = self.starts.partition_point(|start| *start <= last);
        let runs = self.lengths.get(begin.checked_sub(1)?..end)?;
        let around = runs.iter().find(|run| **run == NONE || **run <= length)?;
        (*around != NONE).then_some(PrefixLength(*around))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(blocks: &[&str]) -> CidrSet {
        CidrSet::new(blocks.iter().map(|block| block.parse::<IpNet>().unwrap()))
    }

    fn longest(set: &CidrSet, address: &str) -> Option<u8> {
        set.longest(address.parse().unwrap())
            .map(|PrefixLength(bits)| bits)
    }

    /// Goal: the block around a network is found, whatever lies within the network. Method: networks around, within and beside blocks.
    #[test]
    fn the_longest_block_around_a_network_is_found() {
        let set = set(&[
            "10.0.0.0/8",
            "10.1.0.0/24",
            "10.1.0.0/32",
            "2001:db8::/32",
            "2001:db8::1/128",
        ]);
        for (network, bits) in [
            ("9.0.0.0/8", None),
            ("10.0.0.0/7", None),
            ("10.0.0.0/8", Some(8)),
            ("10.1.0.0/16", Some(8)),
            ("10.1.0.0/24", Some(24)),
            ("10.1.0.0/32", Some(32)),
            ("10.1.0.1/32", Some(24)),
            ("::ffff:10.1.0.0/120", Some(24)),
            ("2001:db8::/64", Some(32)),
            ("2001:db8::1/128", Some(128)),
            ("0.0.0.0/0", None),
            ("::/0", None),
        ] {
            let found = set.longest_around(network.parse().unwrap());
            assert_eq!(found.map(|length| length.0), bits, "{network}");
        }
    }

    /// Goal: nested blocks, neighbours and both ends of a family. Method: addresses at the edges of each block.
    #[test]
    fn the_longest_block_that_holds_an_address_is_found() {
        let set = set(&[
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.0.0/24",
            "10.2.0.1/32",
            "255.255.255.255/32",
            "0.0.0.0/32",
            "2001:db8::/32",
            "2001:db8::1/128",
            "ffff::/16",
        ]);
        for (address, bits) in [
            ("9.255.255.255", None),
            ("10.0.0.0", Some(8)),
            ("10.1.0.255", Some(24)),
            ("10.1.1.0", Some(16)),
            ("10.2.0.0", Some(8)),
            ("10.2.0.1", Some(32)),
            ("10.2.0.2", Some(8)),
            ("11.0.0.0", None),
            ("255.255.255.255", Some(32)),
            ("0.0.0.0", Some(32)),
            ("0.0.0.1", None),
            ("2001:db8::1", Some(128)),
            ("2001:db8::2", Some(32)),
            ("2001:db9::", None),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some(16)),
            ("::ffff:10.1.0.1", Some(24)),
        ] {
            assert_eq!(longest(&set, address), bits, "{address}");
        }
        assert_eq!(set.len(), 9);
    }

    /// Goal: everybody can be named, and an address is one however it is written. Method: /0 of both families, mapped blocks.
    #[test]
    fn a_family_is_named_by_itself_and_mapped_blocks_are_folded() {
        let all = set(&["0.0.0.0/0"]);
        assert_eq!(longest(&all, "1.2.3.4"), Some(0));
        assert_eq!(longest(&all, "::1"), None);
        assert_eq!(longest(&set(&["::/0"]), "1.2.3.4"), None);
        let mapped = set(&["::ffff:10.0.0.0/104"]);
        assert_eq!(longest(&mapped, "10.9.9.9"), Some(8));
        assert_eq!(longest(&CidrSet::default(), "::1"), None);
    }

    /// Goal: a list of a million addresses is bounded and quick. Method: a million blocks; the bytes, and every look-up's answer.
    #[test]
    fn a_million_addresses_take_ten_megabytes() {
        let address = |n: u32| std::net::Ipv4Addr::from_bits(n.wrapping_mul(2_654_435_761));
        let set = CidrSet::new((0..1_000_000).map(|n| IpNet::from(IpAddr::V4(address(n)))));
        assert_eq!(set.len(), 1_000_000);
        assert!(set.bytes() <= 10_000_000, "{} bytes", set.bytes());
        for n in (0..1_000_000).step_by(7) {
            assert_eq!(set.longest(address(n).into()), Some(PrefixLength(32)));
        }
        assert_eq!(set.longest(address(1_000_000).into()), None);
    }

    fn block() -> impl Strategy<Value = IpNet> {
        // Few different addresses, so that blocks nest and touch.
        let v4 = (0u32..64, 0u8..=32).prop_map(|(bits, length)| {
            let address = std::net::Ipv4Addr::from_bits(bits.rotate_right(3));
            IpNet::new(address.into(), length).unwrap()
        });
        let v6 = (0u128..64, 0u8..=128).prop_map(|(bits, length)| {
            let address = std::net::Ipv6Addr::from_bits(bits.rotate_right(3));
            IpNet::new(address.into(), length).unwrap()
        });
        prop_oneof![v4, v6]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Goal: the runs answer as the blocks do. Method: every block is asked, for addresses in, at and beside them.
        #[test]
        fn a_look_up_finds_what_asking_every_block_finds(
            blocks in prop::collection::vec(block(), 0..40),
            others: [u32; 4],
        ) {
            let set = CidrSet::new(blocks.iter().copied());
            let edges = blocks.iter().flat_map(|block| [block.network(), block.broadcast()]);
            let beside = edges.clone().map(|edge| match edge {
                IpAddr::V4(edge) => IpAddr::V4(edge.to_bits().wrapping_add(1).into()),
                IpAddr::V6(edge) => IpAddr::V6(edge.to_bits().wrapping_sub(1).into()),
            });
            let others = others.map(|bits| IpAddr::V4(bits.into()));
            for address in edges.chain(beside).chain(others).filter(|address| address.to_canonical() == *address) {
                let asked = blocks.iter().filter(|block| block.contains(&address)).map(IpNet::prefix_len).max();
                prop_assert_eq!(set.longest(address), asked.map(PrefixLength), "{}", address);
            }
        }
    }
}
