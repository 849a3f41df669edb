//! Decides which server block takes which requests: those for a host, at some of the listeners.
//!
//! nginx chooses among the blocks of the address that a connection came to: the block that names the host, else the default of the address.
//! So no host leads to a block at an address that the block does not listen on, and one host may belong to a block at each address.

use std::collections::BTreeSet;

use super::https_redirect;
use super::listens::{ServerBlock, bound_addresses, default_of};
use super::tree::Directive;
use crate::ledger::Ledger;
use crate::model::{Listener, Route};
use crate::names::NamePool;

/// A host that a server block takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerHost {
    /// `None` for every host that no other block names.
    pub(super) name: Option<String>,
    /// The addresses of the listeners; empty for all listeners.
    pub(super) listeners: Vec<String>,
}

/// Returns the hosts of each server block. A block without hosts has no routes.
pub(super) fn assign(servers: &[ServerBlock<'_>], ledger: &mut Ledger) -> Vec<Vec<ServerHost>> {
    let table = HostTable::new(servers);
    let blocks = servers.iter().zip(&table.blocks).enumerate();
    let hosts = blocks.map(|(number, (server, block))| {
        record_names(&table, server, number, ledger);
        match block.serves {
            true => table.hosts(number),
            false => Vec::new(),
        }
    });
    hosts.collect()
}

/// Gives names to the listeners that routes refer to by their addresses.
pub(super) fn name_listeners(listeners: &mut [Listener], routes: &mut [Route]) {
    let mut names = NamePool::default();
    for listener in listeners {
        let is_meant = |it: &&mut String| **it == listener.address;
        let all = routes.iter_mut().flat_map(|route| &mut route.listeners);
        let uses: Vec<&mut String> = all.filter(is_meant).collect();
        if uses.is_empty() {
            continue;
        }
        let wanted = listener.address.replace("0.0.0.0:", "port-");
        let name = names.unique(&wanted.replace("[::]:", "port-"));
        for place in uses {
            place.clone_from(&name);
        }
        listener.name = Some(name);
    }
}

/// The addresses and names of all server blocks.
struct HostTable {
    blocks: Vec<BlockNames>,
    /// The addresses at which some block has routes.
    served: BTreeSet<String>,
}

struct BlockNames {
    names: Vec<String>,
    addresses: BTreeSet<String>,
    /// The addresses whose other hosts are its own.
    default_at: BTreeSet<String>,
    /// True unless its requests are redirected to HTTPS or fail to connect.
    serves: bool,
}

impl HostTable {
    fn new(servers: &[ServerBlock<'_>]) -> Self {
        let addresses = bound_addresses(servers);
        let blocks: Vec<BlockNames> = servers
            .iter()
            .enumerate()
            .map(|(number, server)| BlockNames {
                names: names(server.directive),
                addresses: addresses[number].iter().cloned().collect(),
                default_at: addresses[number]
                    .iter()
                    .filter(|address| default_of(servers, &addresses, address) == Some(number))
                    .cloned()
                    .collect(),
                serves: !https_redirect::is_all_of(server) && !server.refuses_handshakes(),
            })
            .collect();
        let serving = blocks.iter().filter(|it| it.serves);
        let served = serving.flat_map(|it| it.addresses.iter().cloned());
        Self {
            served: served.collect(),
            blocks,
        }
    }

    fn hosts(&self, number: usize) -> Vec<ServerHost> {
        let block = &self.blocks[number];
        let all = |addresses: BTreeSet<String>| match addresses.is_superset(&self.served) {
            true => Vec::new(),
            false => addresses.into_iter().collect(),
        };
        let mut hosts = Vec::new();
        if !block.default_at.is_empty() {
            hosts.push(ServerHost {
                name: None,
                listeners: all(block.default_at.clone()),
            });
        }
        for name in &block.names {
            let addresses = self.addresses(number, name);
            let is_other = |address: &&String| {
                !block.default_at.contains(*address) || self.is_in_wildcard(number, name, address)
            };
            if addresses.iter().any(|it| is_other(&it)) {
                hosts.push(ServerHost {
                    name: Some(name.clone()),
                    listeners: all(addresses),
                });
            }
        }
        hosts
    }

    /// Returns the addresses at which a host belongs to a block: those where no block before names it.
    fn addresses(&self, number: usize, name: &str) -> BTreeSet<String> {
        let block = &self.blocks[number];
        let before = &self.blocks[..number];
        let is_free = |address: &&String| {
            let names = |it: &&BlockNames| it.names.iter().any(|known| known == name);
            let mut others = before.iter().filter(names);
            !others.any(|it| it.addresses.contains(*address))
        };
        block.addresses.iter().filter(is_free).cloned().collect()
    }

    /// Returns true if a wildcard of another block contains a host, and would go before the routes without a host.
    fn is_in_wildcard(&self, number: usize, name: &str, address: &str) -> bool {
        let contains = |wildcard: &String| {
            let parent = wildcard.strip_prefix('*');
            parent.is_some_and(|parent| name.ends_with(parent) && *wildcard != name)
        };
        let mut others = self.blocks.iter().enumerate();
        others.any(|(other, block)| {
            other != number && block.addresses.contains(address) && block.names.iter().any(contains)
        })
    }
}

/// Records what becomes of `server_name`.
fn record_names(table: &HostTable, server: &ServerBlock<'_>, number: usize, ledger: &mut Ledger) {
    let block = &table.blocks[number];
    let is_default = block.default_at == block.addresses;
    for directive in server.directive.children() {
        if directive.name != "server_name" {
            continue;
        }
        for name in directive.arguments().map(str::to_ascii_lowercase) {
            for host in forms(&name) {
                match host {
                    // Its requests are redirected, whichever block they are for, or end before a host is read.
                    _ if !block.serves || is_default => ledger.translated(directive.id),
                    Ok(host) if !table.addresses(number, &host).is_empty() => {
                        ledger.translated(directive.id);
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

/// Returns the hosts that a name of a server block stands for.
fn forms(name: &str) -> Vec<Result<String, String>> {
    if let Some(parent) = name.strip_prefix('.') {
        return vec![Ok(parent.to_owned()), Ok(format!("*.{parent}"))];
    }
    let inner = name.strip_prefix("*.").unwrap_or(name);
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if inner.is_empty() || !inner.chars().all(is_host) {
        return vec![Err(format!("{name:?} is no host, and no request has it"))];
    }
    vec![Ok(name.to_owned())]
}
