//! Selects bans in force by limit, network and time, and ends them: here, and by the store's change feed at the other gateways.
//!
//! A table of bans holds hashes. A network can be told only of limits whose key is an address alone: the hashes of its addresses are made
//! and looked up, as many as a bound allows. A ban has no time of its begin: it is computed from its end and the length of its level. A ban
//! by a temporary rule begins with the rule, and ends with it.
//!
//! # Concurrency
//! Nothing is locked for the whole. A ban that begins meanwhile is seen or not.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde::{Serialize, Serializer};
use sluicegate_base::bounds::UNBANNED_ADDRESSES;
use sluicegate_base::clock;
use sluicegate_decide::temporary_rules::{RuleScope, TemporaryRule, check_reason};
use sluicegate_limiter::{ActiveBan, Bans, KeyHash, Timestamp};

use super::key_edit::wait_for;
use super::query::decoded;
use super::rule_view;
use super::shared_keys::SharedKeys;
use sluicegate_config::read_duration;
use sluicegate_config::rules::KeyPart;
use sluicegate_decide::admission::{ActiveLimit, NamedKey};
use sluicegate_decide::store::KeyChange;
use sluicegate_process::GatewayProcess;

/// The bans that an operator means; every condition that is set holds for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BanSelection {
    /// The limit.
    pub limit: Option<String>,
    /// The time after which they began.
    pub since: Option<Timestamp>,
    /// The network of their clients.
    pub network: Option<IpNet>,
}

/// The use of a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectionUse {
    /// The bans are counted and go on.
    Count,
    /// The bans end.
    End,
    /// The bans end as those of another gateway did, which has ended the temporary rules of the fleet already.
    Follow,
}

/// A request to end bans, or to count them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnbanOrder {
    pub selection: BanSelection,
    pub use_of: SelectionUse,
    /// The reason that the operator gives; empty without one.
    pub reason: String,
}

/// The bans that were found.
#[derive(Debug, Default, Serialize)]
pub(super) struct SelectedBans {
    /// The number in all.
    pub bans: usize,
    /// The number of limits that were searched.
    pub searched: usize,
    /// The number of each limit that has some.
    pub limits: Vec<SelectedOfLimit>,
    /// The limits whose bans cannot be told by the network.
    pub skipped: Vec<SkippedLimit>,
    /// The temporary rules that are removed.
    #[serde(rename = "rules", serialize_with = "write_ids")]
    pub ended: Vec<Arc<TemporaryRule>>,
    /// The first error of the store; its counters of some keys then stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_error: Option<String>,
}

/// The bans of one limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SelectedOfLimit {
    limit: String,
    bans: usize,
}

/// A limit that is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SkippedLimit {
    limit: String,
    reason: String,
}

fn write_ids<S: Serializer>(rules: &[Arc<TemporaryRule>], into: S) -> Result<S::Ok, S::Error> {
    into.collect_seq(rules.iter().map(|rule| rule.id.to_string()))
}

impl UnbanOrder {
    /// Parses the conditions of a query, their use and the reason; `now` is the time to count a duration back from.
    ///
    /// # Errors
    /// The mistake, and what to write instead.
    pub(super) fn parse(query: &str, now: Timestamp) -> Result<Self, String> {
        const WRITE: &str = "write limit=NAME, since=20m or cidr=203.0.113.0/24, or several of them, and dry_run=true to count, \
                             or reason=TEXT";
        let mut selection = BanSelection::default();
        let mut use_of = SelectionUse::End;
        let mut reason = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(WRITE)?;
            let value = decoded(value).ok_or(WRITE)?;
            match name {
                "limit" if selection.limit.is_none() => selection.limit = Some(value),
                "since" if selection.since.is_none() => {
                    let ago = read_duration(&value)?;
                    selection.since = Some(now.saturating_sub(ago));
                }
                "cidr" if selection.network.is_none() => {
                    let address = || value.parse::<IpAddr>().map(IpNet::from);
                    let network = value.parse::<IpNet>().or_else(|_| address());
                    let network: IpNet =
                        network.map_err(|_| format!("cidr is no network; {WRITE}"))?;
                    selection.network = Some(network.trunc());
                }
                "dry_run" if value == "true" => use_of = SelectionUse::Count,
                "reason" if reason.is_none() => {
                    check_reason(&value)?;
                    reason = Some(value);
                }
                _ => return Err(WRITE.to_owned()),
            }
        }
        if selection == BanSelection::default() {
            return Err(WRITE.to_owned());
        }
        Ok(Self {
            selection,
            use_of,
            reason: reason.unwrap_or_default(),
        })
    }
}

impl BanSelection {
    /// Returns the selection as other gateways read it, with the time as such.
    pub(super) fn to_message(&self) -> String {
        let since = self.since.map(|since| since.as_nanos().to_string());
        let network = self.network.map(|network| network.to_string());
        let shown = |part: Option<String>| part.unwrap_or_else(|| "*".to_owned());
        let parts = [self.limit.clone(), since, network].map(shown);
        parts.join(" ")
    }

    /// Reads a selection of another gateway; `None` where no gateway writes it so.
    pub(super) fn from_message(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split(' ').collect();
        let [limit, since, network] = parts[..] else {
            return None;
        };
        let written = |text: &str| (text != "*").then(|| text.to_owned());
        let since = match written(since) {
            Some(nanos) => Some(Timestamp::from_nanos(nanos.parse().ok()?)),
            None => None,
        };
        let network = match written(network) {
            Some(network) => Some(network.parse().ok()?),
            None => None,
        };
        let selection = Self {
            limit: written(limit),
            since,
            network,
        };
        (selection != Self::default()).then_some(selection)
    }

    /// Returns the conditions in words.
    pub(super) fn to_words(&self) -> String {
        let limit = self
            .limit
            .as_ref()
            .map(|limit| format!(" of limit {limit}"));
        let network = self
            .network
            .map(|network| format!(" of clients in {network}"));
        let since = self
            .since
            .map(|since| format!(" since {}", sluicegate_decide::rfc3339::format(since)));
        [limit, network, since].into_iter().flatten().collect()
    }

    /// Counts or ends the bans at this gateway, those by temporary rules too. Walks the table of each limit that is meant.
    pub(super) fn apply(&self, process: &GatewayProcess, use_of: SelectionUse) -> SelectedBans {
        let mut found = SelectedBans::default();
        for limit in self.limits(process) {
            let networks = match self.network {
                Some(network) => NetworkKeys::new(&limit, network, process).map(Some),
                None => Ok(None),
            };
            let name = limit.name.to_string();
            let networks = match networks {
                Ok(networks) => networks,
                Err(reason) => {
                    found.skipped.push(SkippedLimit {
                        limit: name,
                        reason,
                    });
                    continue;
                }
            };
            found.searched += 1;
            let mut keys = limit
                .bans
                .as_ref()
                .map_or_else(Vec::new, |active| match &networks {
                    Some(networks) => self.among(&active.bans, &networks.0),
                    None => self.in_table(&active.bans),
                });
            let mut rules = self.rules(&limit, networks.as_ref(), process);
            let seed = &process.shared.seed;
            keys.extend((rules.iter()).filter_map(|rule| limit.key_of_rule(&rule.target, seed)));
            let mut known = HashSet::new();
            keys.retain(|named| known.insert(named.key.kept_bits()));
            let bans = keys.len();
            if bans == 0 {
                continue;
            }
            found.bans += bans;
            found.limits.push(SelectedOfLimit { limit: name, bans });
            match use_of {
                SelectionUse::Count => {
                    found.ended.extend(rules);
                    continue;
                }
                SelectionUse::End => {}
                SelectionUse::Follow => rules.retain(|rule| rule.scope == RuleScope::Here),
            }
            found.ended.extend(rule_view::end(process, &rules));
            let shared = SharedKeys::new(&process.shared.snapshot());
            end(&limit, &keys, &shared, &mut found.store_error);
        }
        found
    }

    /// Returns the limits that are meant, which ban keys or may have keys that rules ban: handles of the limits alone, since a walk may
    /// outlast a reload.
    fn limits(&self, process: &GatewayProcess) -> Vec<Arc<ActiveLimit>> {
        let snapshot = process.shared.snapshot();
        let limits = snapshot.compiled.limits.values();
        let is_meant = |limit: &&Arc<ActiveLimit>| {
            let is_named = (self.limit.as_deref()).is_none_or(|name| name == &*limit.name);
            is_named && (limit.bans.is_some() || limit.keys_banned_by_rules().next().is_some())
        };
        limits.filter(is_meant).map(Arc::clone).collect()
    }

    /// Returns the rules whose bans are meant.
    fn rules(
        &self,
        limit: &ActiveLimit,
        networks: Option<&NetworkKeys>,
        process: &GatewayProcess,
    ) -> Vec<Arc<TemporaryRule>> {
        let is_meant = |key: KeyHash, rule: &TemporaryRule| {
            let is_recent = self.since.is_none_or(|since| rule.from >= since);
            is_recent && networks.is_none_or(|networks| networks.contains(key))
        };
        rule_view::rules_that_ban(process, limit, is_meant)
    }

    /// Returns the keys of the table whose bans are meant.
    fn in_table(&self, bans: &Bans) -> Vec<NamedKey> {
        let now = clock::now();
        let banned = bans.banned_keys(now).filter(|key| {
            let banned = key.banned.as_ref();
            banned.is_some_and(|banned| self.includes(bans, banned, now))
        });
        banned.map(|key| NamedKey::of_hash(key.key)).collect()
    }

    /// Returns the keys among these whose bans are meant.
    fn among(&self, bans: &Bans, keys: &[NamedKey]) -> Vec<NamedKey> {
        let now = clock::now();
        let is_meant = |named: &&NamedKey| {
            let banned = bans.active(named.key, now);
            banned.is_some_and(|banned| self.includes(bans, &banned, now))
        };
        keys.iter().filter(is_meant).cloned().collect()
    }

    /// Returns whether a ban began after the time.
    fn includes(&self, bans: &Bans, banned: &ActiveBan, now: Timestamp) -> bool {
        let length = bans.rules().length(banned.level);
        let elapsed = length.saturating_sub(banned.left);
        let begun = now.saturating_sub(elapsed);
        self.since.is_none_or(|since| begun >= since)
    }
}

/// Ends the bans of these keys, and clears their counters, which would ban them again with their next request.
fn end(
    limit: &ActiveLimit,
    keys: &[NamedKey],
    shared: &SharedKeys,
    store_error: &mut Option<String>,
) {
    for named in keys {
        if let Some(active) = &limit.bans {
            active.bans.lift(named.key, clock::now());
        }
        let cleared = wait_for(shared.set(limit, named, None, KeyChange::Cleared, clock::now()));
        if let Some(Err(error)) = cleared {
            *store_error = store_error.take().or(Some(error));
        }
    }
}

/// The keys of the addresses in a network.
struct NetworkKeys(Vec<NamedKey>);

impl NetworkKeys {
    /// Returns the keys of a limit.
    ///
    /// # Errors
    /// The reason for which the limit has none, or too many.
    fn new(limit: &ActiveLimit, network: IpNet, process: &GatewayProcess) -> Result<Self, String> {
        let [KeyPart::ClientIp { v4, v6 }] = limit.key.0[..] else {
            return Err(format!(
                "its key is {}, and only the hashes of keys are known; name keys by their values, or the limit without a network",
                limit.key
            ));
        };
        let step = match network {
            IpNet::V4(_) => v4,
            IpNet::V6(_) => v6,
        };
        let networks: Vec<IpAddr> = match network {
            // The key has the network around it.
            _ if network.prefix_len() >= step => vec![network.network()],
            _ if u32::from(step - network.prefix_len()) > UNBANNED_ADDRESSES.ilog2() => {
                return Err(format!(
                    "{network} has more than {UNBANNED_ADDRESSES} networks of /{step}, by which it counts; name a smaller one"
                ));
            }
            _ => {
                let subnets = network.subnets(step).into_iter().flatten();
                subnets.map(|subnet| subnet.network()).collect()
            }
        };
        let seed = &process.shared.seed;
        let name = |address: IpAddr| limit.name_key(&[address.to_string()], seed);
        networks
            .into_iter()
            .map(name)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn contains(&self, key: KeyHash) -> bool {
        self.0
            .iter()
            .any(|named| named.key.kept_bits() == key.kept_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    /// Goal: a slip ends no ban, and other gateways read what is meant. Method: queries around the right ones, and each as a message.
    #[test]
    fn a_selection_is_written_in_full() {
        for (query, words) in [
            ("limit=otp", " of limit otp"),
            ("since=20m", " since 2027-01-15T07:40:00.000Z"),
            ("cidr=203.0.113.9/24", " of clients in 203.0.113.0/24"),
            ("cidr=2001%3adb8::1", " of clients in 2001:db8::1/128"),
            (
                "limit=otp&since=1h&cidr=10.0.0.0/8",
                " of limit otp of clients in 10.0.0.0/8 since 2027-01-15T07:00:00.000Z",
            ),
        ] {
            let order = UnbanOrder::parse(query, NOW).expect("an order");
            assert_eq!(
                (&*order.selection.to_words(), order.use_of, &*order.reason),
                (words, SelectionUse::End, ""),
                "{query}"
            );
            let read = BanSelection::from_message(&order.selection.to_message());
            assert_eq!(read, Some(order.selection), "{query}");
            let dry = UnbanOrder::parse(&format!("{query}&dry_run=true"), NOW);
            assert_eq!(dry.map(|order| order.use_of), Ok(SelectionUse::Count));
            let said = UnbanOrder::parse(&format!("{query}&reason=a%20case"), NOW);
            assert_eq!(said.map(|order| order.reason), Ok("a case".to_owned()));
        }
        for query in [
            "",
            "dry_run=true",
            "limit",
            "limit=a&limit=b",
            "since=yesterday",
            "since=20",
            "cidr=10.0.0.0/33",
            "cidr=office",
            "all=true",
            "limit=a&dry_run=1",
            "reason=a",
            "limit=a&reason=a&reason=b",
        ] {
            assert!(UnbanOrder::parse(query, NOW).is_err(), "{query}");
        }
        let long = format!("limit=a&reason={}", "x".repeat(201));
        assert!(UnbanOrder::parse(&long, NOW).is_err());
        for message in ["", "* * *", "a b c", "a 1", "a * 10.0.0.0/33"] {
            assert_eq!(BanSelection::from_message(message), None, "{message}");
        }
    }
}
