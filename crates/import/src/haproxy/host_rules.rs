//! Finds the rules that can be about the requests for a host, so that no request is compared with the rules of all other hosts.

use std::collections::BTreeMap;

use super::rules::SectionRule;
use crate::cells::ConditionTerm;
use crate::closed_hosts;

/// The rules of a section, in their order.
pub(super) struct HostRules {
    rules: Vec<SectionRule>,
    /// The places of the rules that require no host.
    of_all: Vec<usize>,
    /// The places of the others, by each host that they require.
    of_host: BTreeMap<String, Vec<usize>>,
}

impl HostRules {
    pub(super) fn new(rules: Vec<SectionRule>) -> Self {
        let mut of_all = Vec::new();
        let mut of_host: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, rule) in rules.iter().enumerate() {
            match required_hosts(rule) {
                None => of_all.push(place),
                Some(hosts) => {
                    for host in hosts {
                        of_host.entry(host.clone()).or_default().push(place);
                    }
                }
            }
        }
        Self {
            rules,
            of_all,
            of_host,
        }
    }

    /// Returns all rules.
    pub(super) fn all(&self) -> &[SectionRule] {
        &self.rules
    }

    /// Returns the rules that can be about the requests for a host; `None` stands for all hosts that no rule names.
    pub(super) fn about(&self, host: Option<&str>) -> Vec<&SectionRule> {
        let hosts = closed_hosts::around(host).flatten();
        let named = hosts.filter_map(|it| self.of_host.get(&it)).flatten();
        let mut places: Vec<usize> = named.chain(&self.of_all).copied().collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|at| &self.rules[at]).collect()
    }
}

/// Returns the hosts of which a rule requires one; `None` for a rule that can be about other hosts too, or that fills a counter: for other
/// requests it says that the counter is not filled.
fn required_hosts(rule: &SectionRule) -> Option<Vec<&String>> {
    if rule.tracked().is_some() {
        return None;
    }
    let mut hosts = Vec::new();
    for alternative in rule.alternatives() {
        let mut required = alternative.iter().filter(|it| !it.is_negated);
        hosts.extend(required.find_map(|it| match &it.term {
            ConditionTerm::Host(names) => Some(names),
            _ => None,
        })?);
    }
    (!hosts.is_empty()).then_some(hosts)
}
