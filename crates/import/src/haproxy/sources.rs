//! Reads `set-src`: which proxies name the client, and in which field.
//!
//! HAProxy changes the address at that rule, so the rules before it judge the proxy, and those of a backend hold for its requests alone.
//! The gateway knows one client from the beginning, whom `[client]` names.

use super::rules::{self, RuleKind, SectionRule};
use crate::cells::ConditionTerm;
use crate::client_fields::{self, ProxyFieldUse};
use crate::ledger::Ledger;
use crate::model::{ClientRules, KeyPart};

/// The reason for a rule before the first `set-src`.
const PEER: &str = "it stands before `set-src`, where HAProxy judges the address of the connection, also that of a proxy; \
    the gateway judges the client that [client] trusted_proxies name";

/// The reason for `set-src` under a condition about anything but the address.
const CONDITIONAL: &str = "[client] trusted_proxies are the proxies of all requests, and this condition is about more than \
    their addresses";

/// The reason for `set-src` of proxies in a file.
const IN_FILE: &str = "[client] trusted_proxies are addresses; write those of the file";

/// The reason for `set-src` of a field that the file writes.
const WRITTEN: &str =
    "a rule before it writes the field, so no proxy does; the gateway reads what the proxy sent";

/// The reason for `set-src` of a backend.
const IN_BACKEND: &str = "[client] names the client of all requests, not of those of a backend";

/// The reason for `set-src` without a condition behind one with proxies.
const EVERYBODY: &str =
    "HAProxy believes every peer here; the gateway believes [client] trusted_proxies";

/// Fields with an address of each proxy.
const CHAINS: [&str; 2] = ["forwarded", "x-forwarded-for"];

/// The difference of such a field.
const PLACE: &str = "the client is the last address of the field that is none of trusted_proxies; HAProxy takes the one at a place of it";

/// Takes the rules that read the client's address from a field, and leaves out what judges the address before them.
pub(super) fn take(rules: &mut Vec<SectionRule>, client: &mut ClientRules, ledger: &mut Ledger) {
    let mut kept: Vec<SectionRule> = Vec::with_capacity(rules.len());
    let mut is_first = true;
    for rule in rules.drain(..) {
        let RuleKind::SetSource(field) = &rule.kind else {
            kept.push(rule);
            continue;
        };
        let is_written =
            |it: &SectionRule| matches!(&it.kind, RuleKind::Request(edit) if edit.name == *field);
        if kept.iter().any(is_written) {
            ledger.lose(rule.id, WRITTEN);
            continue;
        }
        let is_for_all = rule.alternatives().any(<[_]>::is_empty);
        let proxies = rules::clients(&rule.condition);
        if proxies.is_none() && !is_for_all {
            let mut terms = rule.alternatives().flatten();
            let reason = match terms.any(|it| matches!(it.term, ConditionTerm::ClientFile(_))) {
                true => IN_FILE,
                false => CONDITIONAL,
            };
            ledger.lose(rule.id, reason);
            continue;
        }
        if std::mem::take(&mut is_first) {
            for rule in kept.extract_if(.., |it| judges_address(it)) {
                ledger.lose(rule.id, PEER);
            }
        }
        identify(&rule, field, proxies.unwrap_or_default(), client, ledger);
    }
    *rules = kept;
}

/// Leaves out the rules of a backend that read the client's address from a field.
pub(super) fn leave_out(rules: &mut Vec<SectionRule>, ledger: &mut Ledger) {
    let is_source = |rule: &mut SectionRule| matches!(rule.kind, RuleKind::SetSource(_));
    for rule in rules.extract_if(.., is_source) {
        ledger.lose(rule.id, IN_BACKEND);
    }
}

fn identify(
    rule: &SectionRule,
    field: &str,
    proxies: Vec<String>,
    client: &mut ClientRules,
    ledger: &mut Ledger,
) {
    if proxies.is_empty() && !client.trusted_proxies.is_empty() {
        ledger.fill_in_for(rule.id, EVERYBODY);
    }
    client.header.get_or_insert_with(|| field.to_owned());
    client.remarks.sources.push(rule.id);
    client.trusted_proxies.extend(proxies);
    for id in [rule.id].iter().chain(&rule.condition.sources) {
        ledger.translated(*id);
    }
    if CHAINS.contains(&field) {
        ledger.differs(rule.id, PLACE);
    }
    let use_of_field = ProxyFieldUse {
        field: field.to_owned(),
        source: rule.id,
    };
    client_fields::identify_clients(client, &[use_of_field], ledger);
}

/// Returns true if a rule depends on the address of the client.
fn judges_address(rule: &SectionRule) -> bool {
    let is_address =
        |part: &KeyPart| matches!(part, KeyPart::ClientIp | KeyPart::ClientNetwork(..));
    let is_tracked = match &rule.kind {
        RuleKind::Track(_, track) => {
            track.proxy_field.is_none() && track.key.iter().any(is_address)
        }
        RuleKind::Request(edit) => edit.value.contains("{client_ip}"),
        _ => false,
    };
    let mut terms = rule.alternatives().flatten();
    is_tracked
        || terms.any(|it| {
            matches!(
                it.term,
                ConditionTerm::Client(_) | ConditionTerm::ClientFile(_)
            )
        })
}
