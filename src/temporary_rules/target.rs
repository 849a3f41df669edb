//! Names the clients of a temporary rule: an address, a block of addresses, or the network with a number (ASN).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use sluicegate_base::address::folded_block;

use crate::config::read_block;

/// The shortest prefix of IPv4 that is blocked without force: more addresses than any one network has.
const WIDEST_V4: u8 = 8;
/// The shortest prefix of IPv6 that is blocked without force.
const WIDEST_V6: u8 = 19;

/// The effect of a rule on its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleEffect {
    /// They skip the limits.
    Exempt,
    /// They are rejected.
    Block,
}

/// The clients of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleTarget {
    /// Those with an address in this block.
    Block(IpNet),
    /// Those in the network with this number, by a database of `[geo]`.
    Asn(u32),
}

impl RuleEffect {
    /// Returns the name of the effect, which is that of the command too.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::Block => "block",
        }
    }
}

impl FromStr for RuleEffect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "block" => Ok(Self::Block),
            "exempt" => Ok(Self::Exempt),
            _ => Err(format!(
                "{text:?} is no action; write \"block\" or \"exempt\""
            )),
        }
    }
}

impl RuleTarget {
    /// Parses `203.0.113.7`, `203.0.113.0/24`, `2001:db8::/32` or `AS64496`.
    ///
    /// # Errors
    /// The text is none of them; the message says what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let number = text
            .get(..2)
            .filter(|start| start.eq_ignore_ascii_case("as"));
        if number.is_some() {
            let digits = &text[2..];
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = is_number.then(|| digits.parse().ok()).flatten();
            return number.map(Self::Asn).ok_or_else(|| {
                format!("{text:?} is no network; write AS and its number, \"AS64496\"")
            });
        }
        read_block(text)
            .map(|block| Self::Block(folded_block(block)))
            .map_err(|why| format!("{why}, or \"AS64496\" for a network"))
    }

    /// Returns why the rule would do more harm than good, with what it would hit; `None` where nothing is wrong. `proxies` are the trusted
    /// proxies, `caller` the address of the operator.
    #[must_use]
    pub fn danger(
        self,
        effect: RuleEffect,
        proxies: &[IpNet],
        caller: Option<IpAddr>,
    ) -> Option<String> {
        let Self::Block(block) = self else {
            return None;
        };
        let widest = match block {
            IpNet::V4(_) => WIDEST_V4,
            IpNet::V6(_) => WIDEST_V6,
        };
        let does = effect.as_str();
        if block.prefix_len() < widest {
            return Some(format!(
                "this would {does} {block}, which is wider than /{widest}"
            ));
        }
        if effect == RuleEffect::Exempt {
            return None;
        }
        let meets = |proxy: &&IpNet| {
            let proxy = folded_block(**proxy);
            proxy.contains(&block) || block.contains(&proxy)
        };
        if let Some(proxy) = proxies.iter().find(meets) {
            return Some(format!(
                "{block} and {proxy} of [client] trusted_proxies overlap, so requests through a proxy could be rejected"
            ));
        }
        let caller = caller.map(|address| address.to_canonical());
        let caller = caller.filter(|address| !address.is_loopback() && block.contains(address));
        caller.map(|address| format!("{block} contains {address}, from which you ask for it"))
    }
}

impl fmt::Display for RuleTarget {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(block) if block.prefix_len() == block.max_prefix_len() => {
                write!(into, "{}", block.addr())
            }
            Self::Block(block) => write!(into, "{block}"),
            Self::Asn(number) => write!(into, "AS{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each form is read and written again as the operator knows it. Method: every form, and texts beside each.
    #[test]
    fn a_target_is_an_address_a_block_or_a_network() {
        for (text, shown) in [
            ("203.0.113.7", "203.0.113.7"),
            (" 203.0.113.0/24 ", "203.0.113.0/24"),
            ("203.0.113.7/32", "203.0.113.7"),
            ("2001:DB8::/32", "2001:db8::/32"),
            ("::ffff:203.0.113.0/120", "203.0.113.0/24"),
            ("as64496", "AS64496"),
        ] {
            let target = RuleTarget::parse(text);
            assert_eq!(
                target.map(|target| target.to_string()),
                Ok(shown.to_owned())
            );
        }
        for (wrong, part) in [
            ("203.0.113.7/24", "has bits behind its prefix"),
            ("me", "not a block of addresses"),
            ("", "not a block of addresses"),
            ("AS", "is no network"),
            ("AS-1", "is no network"),
            ("AS4294967296", "is no network"),
            ("äs1", "not a block of addresses"),
        ] {
            let error = RuleTarget::parse(wrong).unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }

    /// Goal: a slip cuts off neither the world, nor a proxy, nor the operator. Method: blocks and exemptions on both sides of each bound.
    #[test]
    fn a_rule_that_would_hit_too_much_is_dangerous() {
        use RuleEffect::{Block, Exempt};
        let proxies: Vec<IpNet> = vec!["10.1.0.0/16".parse().unwrap()];
        let caller = Some("203.0.113.7".parse().unwrap());
        for (effect, target, part) in [
            (Block, "0.0.0.0/0", Some("wider than /8")),
            (Exempt, "::/0", Some("wider than /19")),
            (Block, "10.1.2.3", Some("trusted_proxies")),
            (Block, "10.0.0.0/8", Some("trusted_proxies")),
            (Exempt, "10.1.2.3", None),
            (Block, "10.2.0.0/16", None),
            (Block, "203.0.113.0/24", Some("from which you ask")),
            (Block, "203.0.114.0/24", None),
            (Block, "AS64496", None),
        ] {
            let target = RuleTarget::parse(target).unwrap();
            let danger = target.danger(effect, &proxies, caller);
            match (&danger, part) {
                (Some(danger), Some(part)) => assert!(danger.contains(part), "{danger}"),
                _ => assert_eq!(danger.as_deref(), part, "{target}"),
            }
        }
        let loopback = RuleTarget::parse("127.0.0.1").unwrap();
        let own = Some("::ffff:127.0.0.1".parse().unwrap());
        assert_eq!(loopback.danger(Block, &[], own), None);
    }
}
