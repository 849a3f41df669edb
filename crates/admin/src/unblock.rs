//! Serves `DELETE /rules?target=…` and `?limit=NAME&value=…`, which remove the rules that block or ban a client or a key, whatever text
//! they were set with, and say what blocks it still.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::StatusCode;
use ipnet::IpNet;
use serde::Serialize;
use sluicegate_base::clock;
use sluicegate_decide::rfc3339;
use sluicegate_decide::temporary_rules::{LimitKey, RuleEffect, RuleTarget, TemporaryRule};

use super::operator::Operator;
use super::page::AdminPage;
use super::query::decoded;
use super::rule_view::{self, RuleRow, RuleViewer};
use super::rules;
use sluicegate_config::rules::{ListRules, Name};
use sluicegate_process::GatewayProcess;
use sluicegate_process::snapshot::Snapshot;

#[derive(Serialize)]
struct UnblockedPage {
    removed: Vec<RuleRow>,
    /// A sentence for each thing that blocks the target still.
    still: Vec<String>,
}

/// Parses the target of a query.
///
/// # Errors
/// The mistake, and what to write instead.
pub(super) fn parse(query: &str) -> Result<RuleTarget, String> {
    const WRITE: &str = "write target=203.0.113.0/24, or limit=NAME and value=VALUE once for each part of the limit's key, percent-encoded";
    let mut target = None;
    let mut limit: Option<Name> = None;
    let mut values = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(WRITE)?;
        let value = decoded(value).ok_or(WRITE)?;
        match name {
            "target" if target.is_none() => target = Some(RuleTarget::parse(&value)?),
            "limit" if limit.is_none() => limit = Some(value.as_str().into()),
            "value" => values.push(value),
            _ => return Err(WRITE.to_owned()),
        }
    }
    match (target, limit) {
        (Some(target), None) if values.is_empty() => Ok(target),
        (None, Some(limit)) => Ok(RuleTarget::Key(LimitKey { limit, values })),
        _ => Err(WRITE.to_owned()),
    }
}

/// Removes the rules that block or ban a target, and returns the page about them.
pub(super) fn page(
    target: &RuleTarget,
    operator: &Operator,
    process: &GatewayProcess,
) -> AdminPage {
    let snapshot = process.shared.snapshot();
    let viewer = RuleViewer {
        snapshot: &snapshot,
        seed: &process.shared.seed,
    };
    if let Err(why) = check_key(target, viewer) {
        return AdminPage::error(StatusCode::BAD_REQUEST, &why);
    }
    let is_same = viewer.same_as(target);
    let mut found = process.shared.temporary.list(clock::now());
    found.retain(|rule| {
        matches!(rule.effect, RuleEffect::Block | RuleEffect::Ban) && is_same(&rule.target)
    });
    let removed = rule_view::end(process, &found);
    let now = clock::now();
    let rows: Vec<RuleRow> = removed.iter().map(|rule| viewer.row(rule, now)).collect();
    for (rule, row) in removed.iter().zip(&rows) {
        rules::note_removed(rule, row, operator, process);
    }
    let still = still_blocking(target, process);
    if rows.is_empty() {
        let mut sentences = vec!["no temporary rule blocks or bans exactly this".to_owned()];
        sentences.extend(still);
        sentences.extend(other_rules(target, viewer));
        sentences.push("/rules shows all".to_owned());
        return AdminPage::error(StatusCode::NOT_FOUND, &sentences.join("; "));
    }
    AdminPage::json(&UnblockedPage {
        removed: rows,
        still,
    })
}

/// Checks that the values make a key of the limit.
fn check_key(target: &RuleTarget, viewer: RuleViewer<'_>) -> Result<(), String> {
    let RuleTarget::Key(key) = target else {
        return Ok(());
    };
    // A rule may outlast its limit, and is found by its values then.
    match viewer.snapshot.compiled.limits.get(&key.limit) {
        Some(active) => active.name_key(&key.values, viewer.seed).map(drop),
        None => Ok(()),
    }
}

/// Returns a sentence for each rule about exactly this target that neither blocks nor bans it, and for the narrowest one that exempts it by
/// a wider block, with the command that ends it.
fn other_rules(target: &RuleTarget, viewer: RuleViewer<'_>) -> Vec<String> {
    let is_same = viewer.same_as(target);
    let is_about = |other: &RuleTarget| match (target, other) {
        // One counter has no values, and its rates may be multiplied.
        (RuleTarget::Key(key), RuleTarget::Limit(limit)) => key.limit == *limit,
        _ => is_same(other),
    };
    let mut rules = viewer.snapshot.compiled.temporary.list(clock::now());
    rules.retain(|rule| is_about(&rule.target));
    let wider = match target {
        RuleTarget::Block(block) if rules.is_empty() => narrowest(*block, viewer.snapshot),
        _ => None,
    };
    let exempts = |rule: &Arc<TemporaryRule>| rule.effect == RuleEffect::Exempt;
    rules.extend(wider.filter(exempts));
    rules.iter().map(|rule| rule_sentence(rule)).collect()
}

/// Returns what blocks a target now, a sentence each, with the command that ends it.
fn still_blocking(target: &RuleTarget, process: &GatewayProcess) -> Vec<String> {
    // The removal of a rule about a key has made another one.
    let snapshot = process.shared.snapshot();
    match target {
        RuleTarget::Key(_) => key_bans(target, &snapshot, process).into_iter().collect(),
        RuleTarget::Block(block) => {
            let rule = narrowest(*block, &snapshot);
            let rule = rule.filter(|rule| rule.effect == RuleEffect::Block);
            let rule = rule.map(|rule| rule_sentence(&rule));
            rule.into_iter()
                .chain(list_sentence(*block, &snapshot))
                .collect()
        }
        RuleTarget::Asn(_) | RuleTarget::Limit(_) => Vec::new(),
    }
}

/// Returns the rule that decides about the whole of a block: of those with a wider one the narrowest, as for a request, else that of its
/// network.
fn narrowest(block: IpNet, snapshot: &Snapshot) -> Option<Arc<TemporaryRule>> {
    let rules = snapshot.compiled.temporary.in_force();
    let around = rules.rule_around(block).map(|(_, rule)| rule);
    let of_network = || rules.rule_for_network(snapshot.compiled.networks.find(block.addr()).asn?);
    around.or_else(of_network).map(Arc::clone)
}

/// Names the lists of the configuration that block all of these addresses, for every route or some.
fn list_sentence(block: IpNet, snapshot: &Snapshot) -> Option<String> {
    let rules = &snapshot.compiled.rules;
    let of_routes = rules.routes.iter().flat_map(|route| &route.lists.block);
    let names: BTreeSet<&Name> = rules.client.lists.block.iter().chain(of_routes).collect();
    let contains = |name: &&&Name| {
        let list = rules.lists.get(&***name);
        let mut sets = list.into_iter().flat_map(ListRules::sets);
        sets.any(|blocks| blocks.longest_around(block).is_some())
    };
    let names: Vec<&str> = names.iter().filter(contains).map(|name| &***name).collect();
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!("the configuration blocks it by the list {names}")
    })
}

fn rule_sentence(rule: &TemporaryRule) -> String {
    let does = match rule.effect {
        RuleEffect::Exempt => "exempts it",
        RuleEffect::Block => "blocks it",
        RuleEffect::Ban => "bans it",
        RuleEffect::Scale(_) => "multiplies its rates",
    };
    // The values of a key are hidden where its limit hides them.
    let about = match rule.target {
        RuleTarget::Key(_) | RuleTarget::Limit(_) => String::new(),
        RuleTarget::Block(_) | RuleTarget::Asn(_) => format!(" for {}", rule.target),
    };
    format!(
        "rule {}{about} {does} until {}: `sluicegate rules remove {}` ends it",
        rule.id,
        rfc3339::format(rule.until),
        rule.id
    )
}

/// Returns what rejects a key still: its ban by the limit, or a row of the overrides.
fn key_bans(target: &RuleTarget, snapshot: &Snapshot, process: &GatewayProcess) -> Option<String> {
    let limit = target.limit()?;
    let active = snapshot.compiled.limits.get(limit)?;
    let named = active.key_of_rule(target, &process.shared.seed)?;
    let now = clock::now();
    if let Some(ban) = active.ban_in_force(named.key, now) {
        let until = rfc3339::format(ban.until(now));
        let key = named.key.kept_bits();
        return Some(format!(
            "the limit {limit} itself bans it until {until}: DELETE /limits/{limit}/bans/{key:016x} lifts that"
        ));
    }
    active
        .is_blocked(named.key)
        .then(|| format!("a row of the overrides of {limit} blocks it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a slip removes no rule. Method: queries around the right ones.
    #[test]
    fn a_target_is_a_client_or_a_key() {
        let shown = |query| parse(query).map(|target| target.to_string());
        for (query, target) in [
            ("target=203.0.113.0/24", "203.0.113.0/24"),
            ("target=%3A%3Affff:203.0.113.7", "203.0.113.7"),
            ("limit=otp&value=%2B49&value=b", "+49, b of otp"),
            ("limit=all", " of all"),
        ] {
            assert_eq!(shown(query).as_deref(), Ok(target), "{query}");
        }
        for query in [
            "",
            "target=",
            "target=me",
            "target=192.0.2.1&target=192.0.2.2",
            "target=192.0.2.1&limit=otp",
            "target=192.0.2.1&value=b",
            "value=b",
            "limit=a&limit=b",
            "id=1",
            "limit=a&value=%4",
        ] {
            assert!(parse(query).is_err(), "{query}");
        }
    }
}
