//! Decides which addresses the gateway binds, and among which server blocks a connection chooses.
//!
//! nginx takes the blocks with the most specific address of a connection, and then the name among these; an address of IPv6 has no
//! connections over IPv4. The gateway has one listener for a port at all addresses, of both families. The blocks of several addresses then
//! stand behind it: those of all addresses go before those of one, since most connections come there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::listens::ServerBlock;

/// The server blocks of each address.
pub(super) struct AddressGroups {
    /// Those that go before others at a listener come first.
    groups: Vec<AddressGroup>,
    /// The places of groups by their addresses.
    places: BTreeMap<String, usize>,
    /// The places of the groups behind each listener.
    behind: BTreeMap<String, Vec<usize>>,
    /// The blocks that are the default of an address.
    defaults: BTreeSet<usize>,
}

/// The server blocks among which nginx chooses at one address.
pub(super) struct AddressGroup {
    pub(super) address: String,
    /// The address of the listener that takes its connections.
    pub(super) bound: String,
    /// The blocks by their numbers, in ascending order.
    pub(super) blocks: Vec<usize>,
    /// The block that takes the hosts that none names: the one that is marked, or else the first.
    pub(super) default: usize,
    /// True if connections to it are encrypted.
    pub(super) has_tls: bool,
    pub(super) has_proxy_protocol: bool,
    is_marked: bool,
    is_wide: bool,
}

impl AddressGroup {
    /// Returns true for an address that stands for all of the machine.
    pub(super) fn is_wide(&self) -> bool {
        self.is_wide
    }

    /// Returns true if a block listens on the address.
    pub(super) fn contains(&self, block: usize) -> bool {
        self.blocks.binary_search(&block).is_ok()
    }

    fn rank(&self) -> u8 {
        match (self.is_wide, self.address.starts_with('[')) {
            (true, false) => 0,
            (true, true) => 1,
            (false, _) => 2,
        }
    }
}

impl AddressGroups {
    pub(super) fn new(servers: &[ServerBlock<'_>]) -> Self {
        let mut groups = grouped(servers);
        groups.sort_by_key(AddressGroup::rank);
        let addresses = groups.iter().map(|it| it.address.clone());
        let places: BTreeMap<String, usize> = addresses.zip(0..).collect();
        let mut behind: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, group) in groups.iter_mut().enumerate() {
            group.bound = bound(&group.address, &places);
            behind.entry(group.bound.clone()).or_default().push(at);
        }
        Self {
            defaults: groups.iter().map(|it| it.default).collect(),
            groups,
            places,
            behind,
        }
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &AddressGroup> {
        self.groups.iter()
    }

    /// Returns the groups behind a listener; each goes before the next.
    pub(super) fn behind(&self, bound: &str) -> impl Iterator<Item = &AddressGroup> {
        let places = self.behind.get(bound).into_iter().flatten();
        places.map(move |at| &self.groups[*at])
    }

    /// Returns the group of an address.
    pub(super) fn at(&self, address: &str) -> Option<&AddressGroup> {
        self.places.get(address).map(|at| &self.groups[*at])
    }

    /// Returns the address of the listener that takes the connections of an address.
    pub(super) fn bound(&self, address: &str) -> Option<&str> {
        self.at(address).map(|it| it.bound.as_str())
    }

    /// Returns the block that takes the hosts of a listener that none names.
    pub(super) fn default_at(&self, bound: &str) -> Option<usize> {
        self.behind(bound).next().map(|it| it.default)
    }

    /// Returns true if a block is the default of an address.
    pub(super) fn is_default(&self, block: usize) -> bool {
        self.defaults.contains(&block)
    }
}

/// Returns the blocks of each address, in the order of the file.
fn grouped(servers: &[ServerBlock<'_>]) -> Vec<AddressGroup> {
    let mut groups: Vec<AddressGroup> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, server) in servers.iter().enumerate() {
        for listen in &server.listens {
            let at = *places.entry(&listen.address).or_insert(groups.len());
            if at == groups.len() {
                let socket = listen.address.parse::<SocketAddr>();
                groups.push(AddressGroup {
                    address: listen.address.clone(),
                    bound: String::new(),
                    blocks: Vec::new(),
                    default: number,
                    has_tls: false,
                    has_proxy_protocol: false,
                    is_marked: false,
                    is_wide: socket.is_ok_and(|it| it.ip().is_unspecified()),
                });
            }
            let group = &mut groups[at];
            if group.blocks.last() != Some(&number) {
                group.blocks.push(number);
            }
            if listen.is_default && !group.is_marked {
                group.is_marked = true;
                group.default = number;
            }
            group.has_tls |= listen.has_tls();
            group.has_proxy_protocol |= listen.has_proxy_protocol;
        }
    }
    groups
}

/// Returns the widest address that takes the connections of one.
fn bound(inner: &str, known: &BTreeMap<String, usize>) -> String {
    let (host, port) = inner.rsplit_once(':').unwrap_or((inner, ""));
    // An address of IPv6 takes those of IPv4 too.
    let wide = match host.starts_with('[') {
        true => [format!("[::]:{port}"), String::new()],
        false => [format!("[::]:{port}"), format!("0.0.0.0:{port}")],
    };
    let widest = wide.into_iter().find(|it| known.contains_key(it));
    widest.unwrap_or_else(|| inner.to_owned())
}
