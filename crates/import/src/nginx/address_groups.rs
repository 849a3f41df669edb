//! Decides which addresses the gateway binds, and among which server blocks a connection chooses.
//!
//! nginx takes the blocks with the most specific address of a connection, and then the name among these; an address of IPv6 has no
//! connections over IPv4. The gateway has one listener for a port at all addresses, of both families. The blocks of several addresses then
//! stand behind it: those of all addresses go before those of one, since most connections come there.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::listens::{ListenAddress, ServerBlock};

/// The server blocks of each address.
pub(super) struct AddressGroups {
    /// Those that go before others at a listener come first.
    groups: Vec<AddressGroup>,
}

/// The server blocks among which nginx chooses at one address.
pub(super) struct AddressGroup {
    pub(super) address: String,
    /// The address of the listener that takes its connections.
    pub(super) bound: String,
    /// The blocks by their numbers, in the order of the file.
    pub(super) blocks: Vec<usize>,
    /// The block that takes the hosts that none names: the one that is marked, or else the first.
    pub(super) default: usize,
}

impl AddressGroup {
    /// Returns true for an address that stands for all of the machine.
    pub(super) fn is_wide(&self) -> bool {
        parsed(&self.address).is_some_and(|it| it.ip().is_unspecified())
    }

    fn rank(&self) -> u8 {
        match (self.is_wide(), self.address.starts_with('[')) {
            (true, false) => 0,
            (true, true) => 1,
            (false, _) => 2,
        }
    }
}

impl AddressGroups {
    pub(super) fn new(servers: &[ServerBlock<'_>]) -> Self {
        let all: Vec<(usize, &ListenAddress<'_>)> = (servers.iter().enumerate())
            .flat_map(|(number, server)| server.listens.iter().map(move |it| (number, it)))
            .collect();
        let mut known = BTreeSet::new();
        let addresses = (all.iter()).filter(|(_, it)| known.insert(it.address.as_str()));
        let mut groups: Vec<AddressGroup> = addresses
            .map(|(first, it)| {
                let of_address = || all.iter().filter(|(_, other)| other.address == it.address);
                let marked = of_address().find(|(_, other)| other.is_default);
                let mut blocks: Vec<usize> = of_address().map(|(number, _)| *number).collect();
                blocks.dedup();
                AddressGroup {
                    address: it.address.clone(),
                    bound: bound(&it.address, &all),
                    blocks,
                    default: marked.map_or(*first, |(number, _)| *number),
                }
            })
            .collect();
        groups.sort_by_key(AddressGroup::rank);
        Self { groups }
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &AddressGroup> {
        self.groups.iter()
    }

    /// Returns the groups behind a listener; each goes before the next.
    pub(super) fn behind(&self, bound: &str) -> impl Iterator<Item = &AddressGroup> {
        self.groups.iter().filter(move |it| it.bound == bound)
    }

    /// Returns the address of the listener that takes the connections of an address.
    pub(super) fn bound(&self, address: &str) -> Option<&str> {
        let group = self.groups.iter().find(|it| it.address == address)?;
        Some(&group.bound)
    }

    /// Returns the block that takes the hosts of a listener that none names.
    pub(super) fn default_at(&self, bound: &str) -> Option<usize> {
        self.behind(bound).next().map(|it| it.default)
    }
}

/// Returns the widest address that takes the connections of one.
fn bound(inner: &str, all: &[(usize, &ListenAddress<'_>)]) -> String {
    let outer = (all.iter()).filter(|(_, outer)| covers(&outer.address, inner));
    // An address of IPv6 takes those of IPv4 too.
    let widest = outer.max_by_key(|(_, outer)| outer.address.starts_with('['));
    widest.map_or_else(|| inner.to_owned(), |(_, outer)| outer.address.clone())
}

fn covers(outer: &str, inner: &str) -> bool {
    let (Some(outer), Some(inner)) = (parsed(outer), parsed(inner)) else {
        return false;
    };
    if outer.port() != inner.port() || outer == inner || !outer.ip().is_unspecified() {
        return false;
    }
    outer.is_ipv6() || (inner.is_ipv4() && !inner.ip().is_unspecified())
}

fn parsed(address: &str) -> Option<SocketAddr> {
    address.parse().ok()
}
