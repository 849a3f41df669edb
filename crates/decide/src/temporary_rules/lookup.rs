//! Finds the temporary rules for a client: by the longest block that contains its address, or by the number of its network.

use std::net::IpAddr;
use std::sync::Arc;

use ahash::HashMap;
use ipnet::IpNet;
use sluicegate_base::address::{CidrSet, PrefixLength, folded_block};

use super::rule::TemporaryRule;
use super::target::{RuleEffect, RuleTarget};

/// The rules in force, by what they are looked up with.
#[derive(Debug, Default)]
pub struct RuleLookup {
    blocks: CidrSet,
    of_blocks: HashMap<IpNet, Arc<TemporaryRule>>,
    of_networks: HashMap<u32, Arc<TemporaryRule>>,
}

impl RuleLookup {
    /// Returns the look-up of `rules`. Of two for the same clients the one that blocks is found, else the one that ends last.
    #[must_use]
    pub fn new<'r>(rules: impl Iterator<Item = &'r Arc<TemporaryRule>>) -> Self {
        let mut lookup = Self::default();
        for rule in rules {
            match rule.target {
                RuleTarget::Block(block) => insert(&mut lookup.of_blocks, block, rule),
                RuleTarget::Asn(number) => insert(&mut lookup.of_networks, number, rule),
                RuleTarget::Key(_) | RuleTarget::Limit(_) => {}
            }
        }
        lookup.blocks = CidrSet::new(lookup.of_blocks.keys().copied());
        lookup
    }

    /// Returns whether some rule names a network, so that the client's is to be looked up.
    #[must_use]
    pub fn has_networks(&self) -> bool {
        !self.of_networks.is_empty()
    }

    /// Returns the rule of the longest block that contains `address`, with the length of the block, by a binary search and one look-up.
    #[must_use]
    pub fn rule_for_address(&self, address: IpAddr) -> Option<(PrefixLength, &Arc<TemporaryRule>)> {
        let length = self.blocks.longest(address)?;
        let block = IpNet::new(address.to_canonical(), length.0).ok()?;
        let rule = self.of_blocks.get(&block.trunc())?;
        Some((length, rule))
    }

    /// Returns the rule of the longest block that contains all of a network, with the length of the block.
    #[must_use]
    pub fn rule_around(&self, network: IpNet) -> Option<(PrefixLength, &Arc<TemporaryRule>)> {
        let network = folded_block(network);
        // Longer blocks within the network may stand beside the one around it.
        (0..=network.prefix_len()).rev().find_map(|bits| {
            let block = IpNet::new(network.addr(), bits).ok()?;
            let rule = self.of_blocks.get(&block.trunc())?;
            Some((PrefixLength(bits), rule))
        })
    }

    /// Returns the blocks that rules are about.
    pub fn blocks(&self) -> impl Iterator<Item = IpNet> {
        self.of_blocks.keys().copied()
    }

    /// Returns the rule of the network with this number.
    #[must_use]
    pub fn rule_for_network(&self, asn: u32) -> Option<&Arc<TemporaryRule>> {
        self.of_networks.get(&asn)
    }
}

fn insert<K: std::hash::Hash + Eq>(
    rules: &mut HashMap<K, Arc<TemporaryRule>>,
    key: K,
    rule: &Arc<TemporaryRule>,
) {
    let rank = |rule: &TemporaryRule| (rule.effect == RuleEffect::Block, rule.until);
    let known = rules.entry(key).or_insert_with(|| Arc::clone(rule));
    if rank(rule) > rank(known) {
        *known = Arc::clone(rule);
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_limiter::Timestamp;

    use super::super::rule::{RuleId, RuleLifetime};
    use super::*;

    fn lookup(rules: &[(RuleEffect, &str, u64)]) -> RuleLookup {
        let rules: Vec<_> = (0..)
            .zip(rules)
            .map(|(id, (effect, target, until))| {
                let target = RuleTarget::parse(target).unwrap();
                let lifetime = RuleLifetime {
                    from: Timestamp::default(),
                    until: Timestamp::from_secs(*until),
                };
                let id = RuleId::from_bits(id);
                Arc::new(TemporaryRule::new(id, *effect, target, lifetime))
            })
            .collect();
        RuleLookup::new(rules.iter())
    }

    /// Goal: the rule around a network is found though rules about parts of it stand in between. Method: networks of several lengths.
    #[test]
    fn the_rule_around_a_network_is_found() {
        use RuleEffect::Block;
        let rules = ["203.0.113.0/24", "203.0.113.0/25", "203.0.113.128/25"];
        let lookup = lookup(&rules.map(|block| (Block, block, 9)));
        for (network, id) in [
            ("203.0.113.0/24", Some(0)),
            ("203.0.113.64/26", Some(1)),
            ("203.0.113.200/32", Some(2)),
            ("203.0.0.0/16", None),
        ] {
            let found = lookup.rule_around(network.parse().unwrap());
            let id = id.map(RuleId::from_bits);
            assert_eq!(found.map(|(_, rule)| rule.id), id, "{network}");
        }
    }

    /// Goal: the narrowest rule decides; of equal ones a block, then the later end. Method: nested blocks of both families, and networks.
    #[test]
    fn the_narrowest_rule_is_found() {
        use RuleEffect::{Block, Exempt};
        let rules = [
            (Block, "203.0.113.0/24", 9),
            (Exempt, "203.0.113.7", 9),
            (Exempt, "198.51.100.0/24", 99),
            (Block, "198.51.100.0/24", 9),
            (Block, "2001:db8::/32", 9),
            (Block, "2001:db8::/32", 10),
            (Exempt, "AS64496", 9),
        ];
        let lookup = lookup(&rules);
        for (address, id) in [
            ("203.0.113.1", Some(0)),
            ("::ffff:203.0.113.1", Some(0)),
            ("203.0.113.7", Some(1)),
            ("198.51.100.1", Some(3)),
            ("2001:db8::1", Some(5)),
            ("192.0.2.1", None),
        ] {
            let found = lookup.rule_for_address(address.parse().unwrap());
            let found = found.map(|(_, rule)| rule.id);
            assert_eq!(found, id.map(RuleId::from_bits), "{address}");
        }
        assert!(lookup.has_networks());
        assert!(lookup.rule_for_network(64496).is_some());
        assert!(lookup.rule_for_network(64497).is_none());
        assert!(!RuleLookup::default().has_networks());
    }
}
