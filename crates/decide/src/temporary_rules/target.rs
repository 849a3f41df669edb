//! Names what a temporary rule does, and to whom: to an address, a block of addresses or the network with a number (ASN), to a key of a
//! limit, or to a limit.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;

use ipnet::IpNet;
use sluicegate_base::address::folded_block;
use sluicegate_config::read_block;
use sluicegate_config::rules::Name;

/// The shortest prefix of IPv4 that is blocked without force: more addresses than any one network has.
const WIDEST_V4: u8 = 8;
/// The shortest prefix of IPv6 that is blocked without force.
const WIDEST_V6: u8 = 19;

/// The maximum of values of a key; no key has more parts.
const VALUES: usize = 16;
/// Bytes of a value of a key.
const VALUE_BYTES: usize = 1024;

/// The effect of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleEffect {
    /// The clients skip the limits, or the key skips its limit.
    Exempt,
    /// The clients, or the requests with the key, are rejected with 403.
    Block,
    /// The key is banned: its requests are rejected by its limit, as by a ban that the limit began.
    Ban,
    /// The rates of the limit are multiplied.
    Scale(RateFactor),
}

/// The factor of rates, in hundredths: 1 to 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RateFactor(NonZeroU32);

/// The object of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleTarget {
    /// Clients with an address in this block.
    Block(IpNet),
    /// Clients in the network with this number, by a database of `[geo]`.
    Asn(u32),
    /// Requests with this key.
    Key(LimitKey),
    /// The limit of this name.
    Limit(Name),
}

/// A key of a limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitKey {
    /// The limit.
    pub limit: Name,
    /// A value for each part of its key.
    pub values: Vec<String>,
}

/// The words of an operator for what a rule does and to whom.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleWords<'w> {
    /// `block`, `exempt`, `ban` or `scale`.
    pub action: &'w str,
    /// An address, a block of addresses or a network.
    pub target: Option<&'w str>,
    /// A limit.
    pub limit: Option<&'w str>,
    /// The values of a key of the limit.
    pub key: &'w [String],
    /// The factor of the limit's rates.
    pub factor: Option<f64>,
}

impl RuleWords<'_> {
    /// Parses the words.
    ///
    /// # Errors
    /// They do not belong together, or one is wrong; the message says what to write.
    pub fn read(&self) -> Result<(RuleEffect, RuleTarget), String> {
        let effect = match self.action {
            "block" => RuleEffect::Block,
            "exempt" => RuleEffect::Exempt,
            "ban" => RuleEffect::Ban,
            "scale" => {
                let factor = self.factor.ok_or("a factor is missing, such as 0.5")?;
                RuleEffect::Scale(RateFactor::new(factor)?)
            }
            other => {
                return Err(format!(
                    "{other:?} is no action; write \"block\", \"exempt\", \"ban\" or \"scale\""
                ));
            }
        };
        let is_long = |value: &String| value.len() > VALUE_BYTES;
        if self.key.len() > VALUES || self.key.iter().any(is_long) {
            return Err(format!(
                "a key has at most {VALUES} values of {VALUE_BYTES} bytes"
            ));
        }
        let is_scale = matches!(effect, RuleEffect::Scale(_));
        if self.factor.is_some() && !is_scale {
            return Err("a factor belongs to \"scale\"".to_owned());
        }
        let target = match (self.target, self.limit, self.key) {
            (Some(target), None, [])
                if matches!(effect, RuleEffect::Block | RuleEffect::Exempt) =>
            {
                RuleTarget::parse(target)?
            }
            (None, Some(limit), []) if is_scale => RuleTarget::Limit(limit.into()),
            (None, Some(limit), values) if !is_scale => RuleTarget::Key(LimitKey {
                limit: limit.into(),
                values: values.to_vec(),
            }),
            _ => {
                return Err(match effect {
                    RuleEffect::Block | RuleEffect::Exempt => {
                        "write a target, or a limit and its key".to_owned()
                    }
                    RuleEffect::Ban => "write a limit and its key".to_owned(),
                    RuleEffect::Scale(_) => "write a limit and a factor".to_owned(),
                });
            }
        };
        Ok((effect, target))
    }
}

impl RuleEffect {
    /// Returns the name of the effect, which is that of the command too.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::Block => "block",
            Self::Ban => "ban",
            Self::Scale(_) => "scale",
        }
    }

    /// Returns the factor of a rule that scales.
    #[must_use]
    pub fn factor(self) -> Option<RateFactor> {
        match self {
            Self::Scale(factor) => Some(factor),
            Self::Exempt | Self::Block | Self::Ban => None,
        }
    }
}

impl RateFactor {
    /// Returns the factor, which is rounded to hundredths.
    ///
    /// # Errors
    /// It is less than 0.01 or more than 100.
    pub fn new(factor: f64) -> Result<Self, String> {
        let is_factor = (0.01..=100.0).contains(&factor);
        let mut all = (1..=10_000).filter(|_| is_factor);
        let hundredths = all.find(|hundredths| f64::from(*hundredths) / 100.0 >= factor - 0.005);
        let hundredths = hundredths.and_then(NonZeroU32::new);
        let wrong = || format!("{factor} is no factor; write one from 0.01 to 100, such as 0.5");
        hundredths.map(Self).ok_or_else(wrong)
    }

    /// Returns it in hundredths.
    #[must_use]
    pub const fn hundredths(self) -> NonZeroU32 {
        self.0
    }

    /// Returns it as a number.
    #[must_use]
    pub fn number(self) -> f64 {
        f64::from(self.0.get()) / 100.0
    }
}

impl RuleTarget {
    /// Returns the limit that the rule changes; `None` for one about clients.
    #[must_use]
    pub fn limit(&self) -> Option<&Name> {
        match self {
            Self::Block(_) | Self::Asn(_) => None,
            Self::Key(key) => Some(&key.limit),
            Self::Limit(name) => Some(name),
        }
    }

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

    /// Returns why the rule would do more harm than good, with what it would hit and what to do instead; `None` where nothing is wrong.
    /// `proxies` are the trusted proxies, `caller` the address of the operator. [`key_danger`] does the same for a rule about a key.
    #[must_use]
    pub fn danger(
        &self,
        effect: RuleEffect,
        proxies: &[IpNet],
        caller: Option<IpAddr>,
    ) -> Option<String> {
        let &Self::Block(block) = self else {
            return None;
        };
        let does = effect.as_str();
        if is_wide(block) {
            let widest = widest(block);
            return Some(format!(
                "this would {does} {block}, which is wider than /{widest}; name a narrower block"
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
            let proxy = Self::Block(folded_block(*proxy));
            return Some(match is_one_address(block) {
                true => format!(
                    "{self} is a trusted proxy, by {proxy} of [client] trusted_proxies, so requests through it could be rejected; \
                     name a client behind it"
                ),
                false => format!(
                    "{self} and {proxy} of [client] trusted_proxies overlap, so requests through a proxy could be rejected; \
                     name a narrower block"
                ),
            });
        }
        let caller = caller.map(|address| address.to_canonical());
        let caller = caller.filter(|address| !address.is_loopback() && block.contains(address));
        caller.map(|address| match is_one_address(block) {
            true => {
                format!("{self} is the address from which you ask for it; ask from another one")
            }
            false => format!(
                "{self} contains {address}, from which you ask for it; name a narrower block"
            ),
        })
    }
}

/// Returns why a rule about a key would do more harm than good, as [`RuleTarget::danger`] does. `network` are the addresses by which the
/// requests with the key are counted; `None` where another part of the key tells them apart.
#[must_use]
pub fn key_danger(effect: RuleEffect, key: &LimitKey, network: Option<IpNet>) -> Option<String> {
    let does = effect.as_str();
    let limit = &key.limit;
    if key.values.is_empty() {
        return Some(format!(
            "this would {does} all requests of {limit}, which has one counter; block or exempt their clients, or scale the limit"
        ));
    }
    let network = network.filter(|network| is_wide(*network))?;
    Some(format!(
        "this would {does} {network} at {limit}, whose key is so wide; block or exempt an address or a narrower block"
    ))
}

/// Returns whether a block is a single address.
fn is_one_address(block: IpNet) -> bool {
    block.prefix_len() == block.max_prefix_len()
}

/// Returns the values of a key in a line; an empty one is seen too.
#[must_use]
pub fn written_key(values: &[String]) -> String {
    let written = values.iter().map(|value| match value.as_str() {
        "" => "\"\" (empty)",
        value => value,
    });
    written.collect::<Vec<_>>().join(", ")
}

/// Returns whether a block has more addresses than any one network.
fn is_wide(block: IpNet) -> bool {
    block.prefix_len() < widest(block)
}

/// Returns the shortest prefix that needs no force.
fn widest(block: IpNet) -> u8 {
    match block {
        IpNet::V4(_) => WIDEST_V4,
        IpNet::V6(_) => WIDEST_V6,
    }
}

impl fmt::Display for RuleTarget {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(block) if is_one_address(*block) => {
                write!(into, "{}", block.addr())
            }
            Self::Block(block) => write!(into, "{block}"),
            Self::Asn(number) => write!(into, "AS{number}"),
            Self::Key(key) => write!(into, "{} of {}", written_key(&key.values), key.limit),
            Self::Limit(name) => write!(into, "{name}"),
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
        let values = vec!["a".to_owned(), String::new()];
        let key = LimitKey {
            limit: "otp".into(),
            values,
        };
        assert_eq!(RuleTarget::Key(key).to_string(), "a, \"\" (empty) of otp");
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

    /// Goal: what does not belong together is no rule. Method: words of each kind, complete and in the wrong company.
    #[test]
    fn words_of_a_rule_belong_together() {
        let key = ["a".to_owned()];
        let words = RuleWords {
            action: "block",
            ..RuleWords::default()
        };
        let clients = RuleWords {
            target: Some("192.0.2.1"),
            ..words
        };
        let of_key = RuleWords {
            limit: Some("otp"),
            key: &key,
            ..words
        };
        let scale = RuleWords {
            action: "scale",
            limit: Some("otp"),
            factor: Some(0.5),
            ..RuleWords::default()
        };
        for right in [
            clients,
            of_key,
            RuleWords {
                action: "ban",
                ..of_key
            },
            scale,
        ] {
            assert!(right.read().is_ok(), "{right:?}");
        }
        for wrong in [
            words,
            RuleWords {
                action: "ban",
                ..clients
            },
            RuleWords {
                action: "eat",
                ..clients
            },
            RuleWords {
                limit: Some("otp"),
                ..clients
            },
            RuleWords {
                factor: Some(0.5),
                ..clients
            },
            RuleWords { key: &key, ..scale },
            RuleWords {
                factor: None,
                ..scale
            },
            RuleWords {
                factor: Some(0.001),
                ..scale
            },
            RuleWords {
                factor: Some(f64::NAN),
                ..scale
            },
            RuleWords {
                target: Some("192.0.2.1"),
                ..scale
            },
        ] {
            assert!(wrong.read().is_err(), "{wrong:?}");
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
            (
                Block,
                "10.1.2.3",
                Some("10.1.2.3 is a trusted proxy, by 10.1.0.0/16"),
            ),
            (Block, "10.0.0.0/8", Some("trusted_proxies")),
            (Exempt, "10.1.2.3", None),
            (Block, "10.2.0.0/16", None),
            (Block, "203.0.113.0/24", Some("name a narrower block")),
            (Block, "203.0.113.7", Some("ask from another one")),
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
        for (values, network, part) in [
            (&[][..], None, Some("would ban all requests of otp")),
            (&["203.0.113.7"], Some("203.0.113.7/32"), None),
            (
                &["203.0.113.7"],
                Some("0.0.0.0/0"),
                Some("whose key is so wide"),
            ),
            (&["::1"], Some("::/16"), Some("whose key is so wide")),
            (&["a"], None, None),
        ] {
            let key = LimitKey {
                limit: "otp".into(),
                values: values.iter().map(ToString::to_string).collect(),
            };
            let network = network.map(|network| network.parse().unwrap());
            let danger = key_danger(RuleEffect::Ban, &key, network);
            let is_right = match (&danger, part) {
                (Some(danger), Some(part)) => danger.contains(part),
                (danger, part) => danger.is_none() && part.is_none(),
            };
            assert!(is_right, "{values:?} {network:?}: {danger:?}");
        }
        let loopback = RuleTarget::parse("127.0.0.1").unwrap();
        let own = Some("::ffff:127.0.0.1".parse().unwrap());
        assert_eq!(loopback.danger(Block, &[], own), None);
    }
}
