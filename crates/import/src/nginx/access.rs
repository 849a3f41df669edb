//! Decides which clients may come by `allow` and `deny`, of which nginx takes the first that matches.

use ipnet::IpNet;

use super::tree::Directive;
use super::variables;
use crate::addresses;
use crate::ledger::{EntryId, Ledger};

/// The clients that may come: all, unless they are excepted or others alone may.
#[derive(Default)]
pub(super) struct ClientAccess {
    /// These alone.
    pub(super) only: Option<ClientBlocks>,
    /// All but these.
    pub(super) except: Vec<ClientBlocks>,
}

/// Blocks of clients, and the directives that name them.
#[derive(Clone)]
pub(super) struct ClientBlocks {
    pub(super) sources: Vec<EntryId>,
    pub(super) blocks: Vec<String>,
}

impl ClientAccess {
    /// Returns the clients that may come by both.
    fn and(mut self, other: Self) -> Self {
        self.except.extend(other.except);
        self.only = match (self.only, other.only) {
            (Some(one), Some(other)) => Some(ClientBlocks {
                blocks: intersection(&one.blocks, &other.blocks),
                sources: [one.sources, other.sources].concat(),
            }),
            (one, other) => one.or(other),
        };
        self
    }
}

/// Reads the directives of all levels that a request passes.
pub(super) fn read_all(levels: &[Vec<&Directive>], ledger: &mut Ledger) -> ClientAccess {
    let ids = |level: &[&Directive]| level.iter().map(|it| it.id).collect::<Vec<_>>();
    let mut known = Vec::new();
    let mut access = ClientAccess::default();
    for level in levels {
        if !known.contains(&ids(level)) {
            known.push(ids(level));
            access = access.and(read(level, ledger));
        }
    }
    access
}

/// Returns true if some level lets nobody come.
pub(super) fn is_closed(levels: &[Vec<&Directive>]) -> bool {
    let first = |level: &Vec<&Directive>| {
        let mut words = level.iter().filter(|it| it.word(0) != Some("unix:"));
        words
            .next()
            .is_some_and(|it| it.name == "deny" && it.word(0) == Some("all"))
    };
    levels.iter().any(first)
}

/// Reads the directives of a level. Those of clients at Unix sockets hold for nobody, since listeners have IP addresses.
fn read(directives: &[&Directive], ledger: &mut Ledger) -> ClientAccess {
    let mut blocks = Vec::new();
    let mut verdict: Option<bool> = None;
    let mut last = None;
    for directive in directives {
        let word = directive.word(0).unwrap_or_default();
        if word == "unix:" {
            continue;
        }
        let allows = directive.name == "allow";
        if word == "all" {
            last = Some(allows);
            break;
        }
        let found = variables::network(word);
        if verdict.is_some_and(|known| known != allows) || found.is_none() {
            return unsayable(directives, ledger);
        }
        verdict = Some(allows);
        blocks.extend(found.into_iter().flatten().map(|block| block.to_string()));
    }
    let sources = directives.iter().map(|directive| directive.id).collect();
    let named = ClientBlocks { sources, blocks };
    directives.iter().for_each(|it| ledger.translated(it.id));
    match (verdict, last.unwrap_or(true)) {
        // What is allowed one by one is allowed anyway.
        (None | Some(true), true) => ClientAccess::default(),
        (None | Some(false), false) => ClientAccess {
            only: Some(ClientBlocks {
                blocks: Vec::new(),
                ..named
            }),
            ..ClientAccess::default()
        },
        (Some(false), true) => ClientAccess {
            except: vec![named],
            ..ClientAccess::default()
        },
        (Some(true), false) => ClientAccess {
            only: Some(named),
            ..ClientAccess::default()
        },
    }
}

/// Returns the blocks that are in both lists.
fn intersection(one: &[String], other: &[String]) -> Vec<String> {
    let mut blocks = addresses::shared(&addresses::networks(one), &addresses::networks(other));
    blocks.sort();
    blocks.iter().map(IpNet::to_string).collect()
}

fn unsayable(directives: &[&Directive], ledger: &mut Ledger) -> ClientAccess {
    let reason =
        "lists and conditions on clients know no order; write `client` or `block` of the route";
    for directive in directives {
        ledger.left_out(directive.id, reason);
    }
    ClientAccess::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: who may come at two levels may come. Method: an address without a prefix at both, and one within a block.
    #[test]
    fn single_addresses_are_in_an_intersection() {
        let blocks = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let both = |one, other| intersection(&blocks(one), &blocks(other)).join(" ");
        assert_eq!(both("10.0.0.1 ::1", "10.0.0.1"), "10.0.0.1/32");
        assert_eq!(both("10.0.0.0/8", "10.0.0.1 192.0.2.1"), "10.0.0.1/32");
        assert_eq!(both("10.0.0.1", "10.0.0.2"), "");
    }
}
