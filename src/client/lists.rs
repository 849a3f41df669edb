//! Decides whether a client is exempt from the limits or blocked ahead of them, by the operator's lists of address blocks.
//!
//! Of all blocks that contain the address the longest decides, whichever list and table it is from; of two equally long ones the
//! one that blocks. So a block list of networks and an allow list of single addresses in them combine as expected, and a mistake
//! errs towards rejecting.

use std::net::IpAddr;
use std::sync::Arc;

use sluicegate_base::address::CidrSet;

use crate::config::rules::Name;

/// The lists that apply to the requests of one route.
#[derive(Clone, Debug, Default)]
pub struct ClientLists(Vec<(Name, ListEffect, Arc<CidrSet>)>);

/// The effect of a list on its clients, the stronger last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListEffect {
    /// The clients skip the limits.
    Allow,
    /// The clients are rejected.
    Block,
}

/// The result of matching a client with the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMatch<'l> {
    /// No list contains it.
    Ordinary,
    /// This list exempts it from the limits.
    Allowed(&'l Name),
    /// This list blocks it.
    Blocked(&'l Name),
}

impl ClientLists {
    /// Adds a list.
    pub fn add(&mut self, name: &Name, effect: ListEffect, blocks: &Arc<CidrSet>) {
        self.0.push((Arc::clone(name), effect, Arc::clone(blocks)));
    }

    /// Matches `client` with the lists. Costs a binary search a list, and nothing where there is none.
    #[must_use]
    pub fn standing(&self, client: IpAddr) -> ListMatch<'_> {
        let hits = self.0.iter().filter_map(|(name, effect, blocks)| {
            let length = blocks.longest(client)?;
            Some((length, *effect, name))
        });
        match hits.max_by_key(|(length, effect, _)| (*length, *effect)) {
            None => ListMatch::Ordinary,
            Some((_, ListEffect::Allow, name)) => ListMatch::Allowed(name),
            Some((_, ListEffect::Block, name)) => ListMatch::Blocked(name),
        }
    }
}

impl<'l> ListMatch<'l> {
    /// Returns the list that decided.
    #[must_use]
    pub fn list(self) -> Option<&'l Name> {
        match self {
            Self::Ordinary => None,
            Self::Allowed(name) | Self::Blocked(name) => Some(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the longest block decides, equal ones block. Method: an allow list and a block list that nest both ways.
    #[test]
    fn the_longest_block_of_all_lists_decides_and_a_tie_blocks() {
        let set = |blocks: &[&str]| {
            Arc::new(CidrSet::new(
                blocks.iter().map(|block| block.parse().unwrap()),
            ))
        };
        let (office, bad) = (Name::from("office"), Name::from("bad"));
        let mut lists = ClientLists::default();
        lists.add(
            &bad,
            ListEffect::Block,
            &set(&["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/48"]),
        );
        lists.add(
            &office,
            ListEffect::Allow,
            &set(&["10.1.0.0/16", "192.0.2.0/24", "2001:db8::/48"]),
        );
        for (client, standing) in [
            ("10.2.0.1", ListMatch::Blocked(&bad)),
            ("10.1.0.1", ListMatch::Allowed(&office)),
            ("192.0.2.1", ListMatch::Allowed(&office)),
            ("192.0.2.7", ListMatch::Blocked(&bad)),
            ("2001:db8::1", ListMatch::Blocked(&bad)),
            ("198.51.100.1", ListMatch::Ordinary),
        ] {
            assert_eq!(
                lists.standing(client.parse().unwrap()),
                standing,
                "{client}"
            );
        }
    }
}
