//! Decides which server block takes which requests: those for a host, at some of the listeners.
//!
//! nginx chooses among the blocks of the address that a connection came to: the block that names the host, else the default of the address.
//! So no host leads to a block at an address that the block does not listen on, and one host may belong to a block at each address. A
//! listener of several addresses cannot keep their blocks apart: what it does otherwise is to be filled in.

use std::collections::{BTreeMap, BTreeSet};

use super::address_groups::{AddressGroup, AddressGroups};
use super::host_conditions;
use super::https_redirect::HttpsRedirects;
use super::listens::ServerBlock;
use super::tree::Directive;
use crate::bounds;
use crate::closed_hosts;
use crate::ledger::Ledger;
use crate::model::{Listener, Route};
use crate::names::NamePool;

/// Why a block of an address has no routes.
pub(super) const OF_ANOTHER_ADDRESS: &str =
    "a server block of another address has its hosts at the listener of both";

/// Why some names of a block have no routes.
const TOO_MANY_NAMES: &str = "the input has too many names of hosts at too many addresses; import server blocks in files of their own";

/// A host that a server block takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerHost {
    /// `None` for every host that no other block names.
    pub(super) name: Option<String>,
    /// The addresses of the listeners; empty for all listeners.
    pub(super) listeners: Vec<String>,
}

/// Returns the hosts of each server block. A block without hosts has no routes.
pub(super) fn assign(
    servers: &[ServerBlock<'_>],
    addresses: &AddressGroups,
    redirects: &HttpsRedirects,
    ledger: &mut Ledger,
) -> Vec<Vec<ServerHost>> {
    let table = HostTable::new(servers, addresses, redirects, ledger);
    let blocks = servers.iter().zip(&table.blocks).enumerate();
    let hosts = blocks.map(|(number, (server, block))| {
        record_names(&table, server, number, ledger);
        table.record_apart(server, number, ledger);
        match block.serves {
            true => table.hosts(number),
            false => Vec::new(),
        }
    });
    hosts.collect()
}

/// Gives names to the listeners that routes refer to by their addresses.
pub(super) fn name_listeners(listeners: &mut [Listener], routes: &mut [Route]) {
    let used = routes.iter().flat_map(|route| &route.listeners);
    let used: BTreeSet<String> = used.cloned().collect();
    let mut names = NamePool::default();
    let mut of_address: BTreeMap<String, String> = BTreeMap::new();
    for listener in listeners.iter_mut().filter(|it| used.contains(&it.address)) {
        let wanted = listener.address.replace("0.0.0.0:", "port-");
        let name = names.unique(&wanted.replace("[::]:", "port-"));
        of_address.insert(listener.address.clone(), name.clone());
        listener.name = Some(name);
    }
    for place in routes.iter_mut().flat_map(|route| &mut route.listeners) {
        if let Some(name) = of_address.get(place) {
            place.clone_from(name);
        }
    }
}

/// The addresses and names of all server blocks.
struct HostTable<'t> {
    addresses: &'t AddressGroups,
    blocks: Vec<BlockNames>,
    /// The block that has a host at an address, in nginx.
    of_address: BTreeMap<(&'t str, String), usize>,
    /// The block that has a host at a listener.
    of_listener: BTreeMap<(&'t str, String), usize>,
    /// The listeners at which some block has routes.
    served: BTreeSet<String>,
}

#[derive(Default)]
struct BlockNames {
    names: Vec<String>,
    /// Hosts that an `if` is about.
    conditions: Vec<String>,
    /// The addresses that it listens on.
    addresses: BTreeSet<String>,
    /// The addresses of its listeners.
    listeners: BTreeSet<String>,
    /// The listeners whose other hosts are its own.
    default_at: BTreeSet<String>,
    /// True unless its requests are redirected to HTTPS or fail to connect.
    serves: bool,
}

impl<'t> HostTable<'t> {
    fn new(
        servers: &[ServerBlock<'_>],
        addresses: &'t AddressGroups,
        redirects: &HttpsRedirects,
        ledger: &mut Ledger,
    ) -> Self {
        let mut left = bounds::NAMES_AT_ADDRESSES;
        let mut blocks: Vec<BlockNames> = Vec::with_capacity(servers.len());
        for (number, server) in servers.iter().enumerate() {
            let mut block = BlockNames {
                names: names(server.directive),
                conditions: conditions(server.directive),
                serves: !redirects.contains(number) && !server.refuses_handshakes(),
                ..BlockNames::default()
            };
            for group in server
                .listens
                .iter()
                .filter_map(|it| addresses.at(&it.address))
            {
                block.addresses.insert(group.address.clone());
                block.listeners.insert(group.bound.clone());
                if addresses.default_at(&group.bound) == Some(number) {
                    block.default_at.insert(group.bound.clone());
                }
            }
            let most = left / block.addresses.len().max(1);
            if block.names.len() > most {
                block.names.truncate(most);
                ledger.fill_in_for(server.directive.id, TOO_MANY_NAMES);
            }
            left -= block.names.len() * block.addresses.len();
            blocks.push(block);
        }
        let serving = blocks.iter().filter(|it| it.serves);
        let served = serving.flat_map(|it| it.listeners.iter().cloned());
        let mut of_address = BTreeMap::new();
        let mut of_listener = BTreeMap::new();
        for group in addresses.groups() {
            for number in &group.blocks {
                for name in blocks.get(*number).iter().flat_map(|it| &it.names) {
                    let address = (group.address.as_str(), name.clone());
                    of_address.entry(address).or_insert(*number);
                    let listener = (group.bound.as_str(), name.clone());
                    of_listener.entry(listener).or_insert(*number);
                }
            }
        }
        Self {
            served: served.collect(),
            addresses,
            blocks,
            of_address,
            of_listener,
        }
    }

    fn hosts(&self, number: usize) -> Vec<ServerHost> {
        let block = &self.blocks[number];
        let all = |listeners: BTreeSet<String>| match listeners.is_superset(&self.served) {
            true => Vec::new(),
            false => listeners.into_iter().collect(),
        };
        let names: BTreeSet<&String> = block.names.iter().collect();
        let conditions: BTreeSet<&String> = block.conditions.iter().collect();
        let mut hosts = Vec::new();
        if !block.default_at.is_empty() {
            hosts.push(ServerHost {
                name: None,
                listeners: all(block.default_at.clone()),
            });
        }
        for name in &block.names {
            let listeners = self.listeners(number, name);
            let is_other = |bound: &&String| {
                !block.default_at.contains(*bound) || self.is_in_wildcard(number, name, bound)
            };
            let is_conditional = conditions.contains(name) && !listeners.is_empty();
            if is_conditional || listeners.iter().any(|it| is_other(&it)) {
                hosts.push(ServerHost {
                    name: Some(name.clone()),
                    listeners: all(listeners),
                });
            }
        }
        // Hosts that no block names belong to the default of their address.
        let unnamed = block.conditions.iter().filter(|it| !names.contains(it));
        for name in unnamed {
            let listeners = block.default_at.iter();
            let own = listeners
                .filter(|bound| !self.is_named_at(bound, name))
                .cloned();
            let own: BTreeSet<String> = own.collect();
            if !own.is_empty() {
                hosts.push(ServerHost {
                    name: Some(name.clone()),
                    listeners: all(own),
                });
            }
        }
        hosts
    }

    /// Returns the listeners at which a host belongs to a block.
    fn listeners(&self, number: usize, name: &str) -> BTreeSet<String> {
        let listeners = self.blocks[number].listeners.iter();
        let own = listeners.filter(|bound| self.has_at_listener(bound, number, name));
        own.cloned().collect()
    }

    /// Returns true if a host belongs to a block at one of its listeners.
    fn has_listener(&self, number: usize, name: &str) -> bool {
        let mut listeners = self.blocks[number].listeners.iter();
        listeners.any(|bound| self.has_at_listener(bound, number, name))
    }

    fn has_at_listener(&self, bound: &str, number: usize, name: &str) -> bool {
        self.of_listener.get(&(bound, name.to_owned())) == Some(&number)
    }

    /// Returns true if a block names a host at a listener.
    fn is_named_at(&self, bound: &str, name: &str) -> bool {
        let is_own = self.of_listener.contains_key(&(bound, name.to_owned()));
        is_own || self.is_in_wildcard(usize::MAX, name, bound)
    }

    /// Returns true if a host belongs to a block at one of its addresses in nginx.
    fn has_in_nginx(&self, number: usize, name: &str) -> bool {
        let addresses = self.blocks[number].addresses.iter();
        let mut groups = addresses.filter_map(|it| self.addresses.at(it));
        groups.any(|group| self.has_at(group, number, name))
    }

    fn has_at(&self, group: &AddressGroup, number: usize, name: &str) -> bool {
        let key = (group.address.as_str(), name.to_owned());
        self.of_address.get(&key) == Some(&number)
    }

    /// Returns true if a wildcard of another block contains a host, and would go before the routes without a host.
    fn is_in_wildcard(&self, number: usize, name: &str, bound: &str) -> bool {
        let mut wildcards = closed_hosts::around(Some(name)).skip(1).flatten();
        wildcards.any(|wildcard| {
            let owner = self.of_listener.get(&(bound, wildcard));
            owner.is_some_and(|it| *it != number)
        })
    }

    /// Records that a listener of several addresses takes hosts of a block that nginx takes at some of them alone, or the other way round.
    fn record_apart(&self, server: &ServerBlock<'_>, number: usize, ledger: &mut Ledger) {
        let block = &self.blocks[number];
        for bound in &block.listeners {
            let groups: Vec<&AddressGroup> = self.addresses.behind(bound).collect();
            let lost = self.lost_hosts(&groups, number, bound);
            let Some(own) = groups.iter().find(|it| it.contains(number)) else {
                continue;
            };
            let wide = groups.iter().filter(|it| it.is_wide());
            let added: Vec<&&AddressGroup> = wide.filter(|it| !it.contains(number)).collect();
            if lost.is_empty() && (added.is_empty() || !block.serves) {
                continue;
            }
            let mut listens = server.listens.iter().filter(|it| it.address == own.address);
            let id = listens.find_map(|it| it.directive);
            let id = id.map_or(server.directive.id, |it| it.id);
            let is_over_ipv6 = own.is_wide() && added.iter().all(|it| it.address.starts_with('['));
            match lost.is_empty() && is_over_ipv6 {
                true => ledger.differs(id, OVER_IPV6),
                false => ledger.fill_in_for(id, &apart(bound, &groups, &lost)),
            }
        }
    }

    /// Returns the hosts of a block that another one has at a listener.
    fn lost_hosts(&self, groups: &[&AddressGroup], number: usize, bound: &str) -> Vec<&str> {
        let block = &self.blocks[number];
        let is_lost = |name: &&String| {
            let mut groups = groups.iter();
            groups.any(|it| self.has_at(it, number, name))
                && !self.has_at_listener(bound, number, name)
        };
        let is_default = groups.iter().any(|it| it.default == number);
        let mut lost: Vec<&str> = Vec::new();
        if is_default && !block.default_at.contains(bound) {
            lost.push("all other hosts");
        }
        lost.extend(block.names.iter().filter(is_lost).map(String::as_str));
        lost
    }
}

/// The difference of a block whose listener takes connections over IPv6 for other blocks.
const OVER_IPV6: &str =
    "its hosts are reached over IPv6 too, where nginx takes another block of the port";

/// Returns what to write for a block whose listener has several addresses. `lost` are the hosts that another block has there.
fn apart(bound: &str, groups: &[&AddressGroup], lost: &[&str]) -> String {
    let mut addresses = groups.iter().map(|it| it.address.as_str());
    let last = addresses.next_back().unwrap_or_default();
    let others: Vec<&str> = addresses.collect();
    let mut what = format!(
        "{bound} is one listener for {} and {last}, at which nginx chooses among different server blocks; write a listener for each \
         address of this machine",
        others.join(", ")
    );
    if !lost.is_empty() {
        what += &format!(", and routes of this block for {}", lost.join(", "));
    }
    what
}

/// Records what becomes of `server_name`.
fn record_names(
    table: &HostTable<'_>,
    server: &ServerBlock<'_>,
    number: usize,
    ledger: &mut Ledger,
) {
    let block = &table.blocks[number];
    let is_default = block.default_at == block.listeners;
    for directive in server.directive.children() {
        if directive.name != "server_name" {
            continue;
        }
        for name in directive.arguments().map(str::to_ascii_lowercase) {
            for host in forms(&name) {
                match host {
                    // Its requests are redirected, whichever block they are for, or end before a host is read.
                    _ if !block.serves || is_default => ledger.translated(directive.id),
                    Ok(host) if table.has_listener(number, &host) => {
                        ledger.translated(directive.id);
                    }
                    Ok(host) if table.has_in_nginx(number, &host) => {
                        ledger.left_out(directive.id, OF_ANOTHER_ADDRESS);
                    }
                    Ok(_) => {
                        let reason = "nginx ignores a name that another block of the address has";
                        ledger.without_effect(directive.id, reason);
                    }
                    Err(reason) => {
                        // `_` and the like are names that nobody asks for.
                        if name.is_empty() || name.contains(['~', '*']) {
                            let what =
                                "requests for these hosts have no route; write `host` in some";
                            ledger.left_out(directive.id, reason);
                            ledger.fill_in_for(directive.id, what);
                        } else {
                            ledger.without_effect(directive.id, &reason);
                        }
                    }
                }
            }
        }
    }
}

/// Returns the hosts that a server block names, each once.
fn names(server: &Directive) -> Vec<String> {
    let directives = server.children().iter();
    let written = directives.filter(|it| it.name == "server_name");
    let words = written.flat_map(Directive::arguments);
    let mut known = BTreeSet::new();
    let hosts = words.flat_map(|name| forms(&name.to_ascii_lowercase()));
    hosts
        .flatten()
        .filter(|host| known.insert(host.clone()))
        .collect()
}

/// Returns the hosts that conditions of a server block are about.
fn conditions(server: &Directive) -> Vec<String> {
    let written = host_conditions::read(server).into_iter();
    let hosts = written.flat_map(|it| forms(it.host));
    hosts
        .flatten()
        .filter(|host| !host.starts_with("*."))
        .collect()
}

/// Returns the hosts that a name of a server block stands for.
fn forms(name: &str) -> Vec<Result<String, String>> {
    if let Some(parent) = name.strip_prefix('.') {
        return vec![Ok(parent.to_owned()), Ok(format!("*.{parent}"))];
    }
    let inner = name.strip_prefix("*.").unwrap_or(name);
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if inner.is_empty() || !inner.chars().all(is_host) {
        let reason = match name.contains(['~', '*']) {
            true => "no `host` of a route is this; it is a name or has `*` for its first labels",
            false => "it is no host, and no request has it",
        };
        return vec![Err(reason.to_owned())];
    }
    vec![Ok(name.to_owned())]
}
