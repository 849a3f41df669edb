//! Matches clients by blocks of addresses.
//!
//! The longest block that contains the address decides, so that an exception may stand within a block and a block within an
//! exception. The address is the identified client's, which no field of an untrusted peer can change.

use std::net::IpAddr;

use sluicegate_base::address::{CidrSet, PrefixLength};
use sluicegate_config::rules::ClientCondition;

/// The clients that a route accepts.
#[derive(Debug)]
pub(super) struct ClientMatch(Option<NetworkSet>);

#[derive(Debug)]
struct NetworkSet {
    of: CidrSet,
    except: CidrSet,
    rank: ClientRank,
}

/// The specificity of a condition on the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClientRank {
    /// It matches every client.
    Any,
    /// The shortest prefix of its blocks, in bits of an IPv6 address: the widest block determines how much the condition
    /// matches.
    Named(u8),
}

impl ClientMatch {
    pub(super) fn compile(condition: &ClientCondition) -> Self {
        if condition.is_any() {
            return Self(None);
        }
        let bits = condition.of.iter().map(|block| match block {
            ipnet::IpNet::V4(block) => block.prefix_len() + 96,
            ipnet::IpNet::V6(block) => block.prefix_len(),
        });
        Self(Some(NetworkSet {
            rank: ClientRank::Named(bits.min().unwrap_or(0)),
            of: CidrSet::new(condition.of.iter().copied()),
            except: CidrSet::new(condition.except.iter().copied()),
        }))
    }

    pub(super) fn takes(&self, client: IpAddr) -> bool {
        let Some(blocks) = &self.0 else { return true };
        let of = if blocks.of.is_empty() {
            // Exceptions alone match all other clients.
            Some(PrefixLength(0))
        } else {
            blocks.of.longest(client)
        };
        of.is_some_and(|of| {
            blocks
                .except
                .longest(client)
                .is_none_or(|except| except < of)
        })
    }

    pub(super) fn rank(&self) -> ClientRank {
        self.0
            .as_ref()
            .map_or(ClientRank::Any, |blocks| blocks.rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(of: &[&str], except: &[&str], client: &str) -> bool {
        let blocks = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        ClientMatch::compile(&ClientCondition {
            of: blocks(of),
            except: blocks(except),
        })
        .takes(client.parse().unwrap())
    }

    /// Goal: the longest block decides. Method: exceptions in blocks, a block in an exception, exceptions alone, none.
    #[test]
    fn the_longest_block_decides_whether_a_client_is_taken() {
        assert!(takes(&[], &[], "192.0.2.1"));
        let (of, except) = (
            ["10.0.0.0/8", "10.1.1.0/24", "2001:db8::/32"],
            ["10.1.0.0/16"],
        );
        for (client, taken) in [
            ("10.0.0.1", true),
            ("10.1.0.1", false),
            ("10.1.1.1", true),
            ("11.0.0.1", false),
            ("2001:db8::1", true),
            ("::ffff:10.0.0.1", true),
        ] {
            assert_eq!(takes(&of, &except, client), taken, "{client}");
        }
        assert!(takes(&[], &["10.0.0.0/8"], "192.0.2.1"));
        assert!(!takes(&[], &["10.0.0.0/8"], "10.0.0.1"));
    }

    /// Goal: of two conditions the narrower is the more specific. Method: ranks of widest blocks.
    #[test]
    fn a_narrower_condition_ranks_higher() {
        let rank = |of: &[&str]| {
            let of = of.iter().map(|text| text.parse().unwrap()).collect();
            let except = Vec::new();
            ClientMatch::compile(&ClientCondition { of, except }).rank()
        };
        assert!(rank(&["10.1.0.0/16"]) > rank(&["10.0.0.0/8"]));
        assert!(rank(&["10.1.0.0/16", "10.0.0.0/8"]) == rank(&["10.0.0.0/8"]));
        assert!(rank(&["0.0.0.0/0"]) > rank(&[]));
    }
}
