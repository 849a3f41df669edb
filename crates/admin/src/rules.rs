//! Serves `/rules`: the temporary rules in force, and by POST another one; DELETE of `/rules/ID` removes one, of `/rules?target=…` those
//! that block a target.
//!
//! A rule rejects or admits clients, so a change needs the token. It is in force when the answer is written. A rule that would cut off
//! the world, a proxy or the operator is refused unless the request forces it; the listener of this page is subject to no rule.

use std::sync::Arc;
use std::time::Duration;

use http::header::ALLOW;
use http::request::Parts;
use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use sluicegate_base::bounds::{TEMPORARY_RULE_LENGTH, TEMPORARY_RULES};
use sluicegate_base::clock;
use sluicegate_decide::rfc3339;
use sluicegate_decide::temporary_rules::{
    LimitKey, RateFactor, RuleEffect, RuleId, RuleLifetime, RuleScope, RuleTarget, RuleWords,
    TemporaryRule, check_reason, key_danger,
};
use sluicegate_limiter::{MAX_COUNT, Timestamp};
use sluicegate_redis_link::ConnectionState;
use sluicegate_telemetry::exposition::SampledFamily;

use super::audit::{self, AuditEntry};
use super::key_texts::KeyValuesForm;
use super::operator::Operator;
use super::page::{AdminPage, is_reading};
use super::rule_view::{RuleRow, RuleViewer};
use super::task::{AdminAction, AdminTask};
use super::unblock;
use sluicegate_config::read_duration;
use sluicegate_config::rules::{LimitRules, Name, Tier};
use sluicegate_decide::admission::ActiveLimit;
use sluicegate_history::MarkKind;
use sluicegate_process::GatewayProcess;
use sluicegate_process::snapshot::Snapshot;

/// A change of the rules.
#[derive(Debug)]
enum RuleChange {
    /// A rule is added.
    Add(RuleOrder),
    /// The rule of this id is removed.
    Remove(RuleId),
    /// The rules that block or ban a target are removed.
    Unblock(RuleTarget),
}

/// The body of POST.
#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object with `action`, `target` and `for`"
)]
struct RuleOrder {
    action: String,
    target: Option<String>,
    limit: Option<String>,
    #[serde(default)]
    key: Vec<String>,
    factor: Option<WrittenFactor>,
    #[serde(rename = "for")]
    length: String,
    #[serde(default)]
    reason: String,
    scope: Option<String>,
    #[serde(default)]
    force: bool,
}

/// The factor of rates. Errors of a bare `f64` would name that type.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "serde_json::Value")]
struct WrittenFactor(f64);

impl TryFrom<serde_json::Value> for WrittenFactor {
    type Error = String;

    fn try_from(value: serde_json::Value) -> Result<Self, String> {
        let number = value.as_f64().map(Self);
        number.ok_or_else(|| "`factor` is a number from 0.01 to 100, such as 0.5".to_owned())
    }
}

#[derive(Serialize)]
struct RulesPage {
    at: String,
    /// True if the rules outlive the process.
    kept: bool,
    why_not_kept: Option<String>,
    /// The fault of the file that keeps them.
    file_fault: Option<String>,
    #[serde(flatten)]
    key_values: KeyValuesForm,
    /// True if other gateways share rules with this one.
    shared: bool,
    rules: Vec<RuleRow>,
}

/// The rules as `/status` and the events of a stream have them.
#[derive(Serialize)]
pub(super) struct RulesSection {
    /// Rules in force.
    count: usize,
    /// Those that block.
    block: usize,
    /// Those that exempt.
    exempt: usize,
    /// Those that ban.
    ban: usize,
    /// Those that multiply rates.
    scale: usize,
    /// The end of the one that ends first.
    next_end: Option<String>,
    /// Differs after each change.
    revision: u64,
}

#[derive(Serialize)]
struct AddedPage {
    rule: RuleRow,
    /// The rules in whose place it stands.
    replaced: Vec<String>,
    /// True if other gateways are to have it, and the store, by which they get it, cannot be reached now.
    store_away: bool,
}

#[derive(Serialize)]
struct RemovedPage {
    removed: RuleRow,
}

/// Returns the task of a request about the rules; `None` where its path is another one.
pub(super) fn task(request: &Parts, body: &[u8]) -> Option<AdminTask> {
    let rest = request.uri.path().strip_prefix("/rules")?;
    let change = match rest {
        "" if is_reading(&request.method) => return Some(AdminTask::Sample(page)),
        "" if request.method == Method::POST => order(body).map(RuleChange::Add),
        "" if request.method == Method::DELETE => {
            let target = unblock::parse(request.uri.query().unwrap_or_default());
            target.map(RuleChange::Unblock).map_err(|why| bad(&why))
        }
        "" => Err(not_allowed(
            "rules are read by GET, added by POST, and removed by DELETE of /rules/ID",
            "GET, HEAD, POST, DELETE",
        )),
        _ => {
            let id = rest.strip_prefix('/')?;
            match request.method == Method::DELETE {
                true => id.parse().map(RuleChange::Remove).map_err(|why| bad(&why)),
                false => Err(not_allowed("a rule is removed by DELETE", "DELETE")),
            }
        }
    };
    Some(match change {
        Err(page) => AdminTask::Show(page),
        Ok(change) => AdminTask::Walk(Box::new(change)),
    })
}

fn page(process: &GatewayProcess) -> AdminPage {
    let snapshot = process.shared.snapshot();
    let why_not_kept = snapshot.compiled.temporary.why_not_kept();
    let now = clock::now();
    let viewer = viewer(&snapshot, process);
    let rules = snapshot.compiled.temporary.list(now);
    AdminPage::json(&RulesPage {
        at: rfc3339::format(now),
        kept: why_not_kept.is_none(),
        why_not_kept,
        file_fault: snapshot.compiled.temporary.file_fault(),
        key_values: KeyValuesForm::new(process),
        shared: snapshot.store.is_some(),
        rules: rules.iter().map(|rule| viewer.row(rule, now)).collect(),
    })
}

/// Returns whether a server of the store cannot be reached, so that other gateways get no rule now.
fn is_store_away(snapshot: &Snapshot) -> bool {
    let servers = (snapshot.store.iter()).flat_map(|store| store.status().servers);
    let mut states = servers.map(|server| server.state);
    states.any(|state| {
        matches!(
            state,
            ConnectionState::Unavailable | ConnectionState::Connecting
        )
    })
}

fn viewer<'s>(snapshot: &'s Snapshot, process: &'s GatewayProcess) -> RuleViewer<'s> {
    let seed = &process.shared.seed;
    RuleViewer { snapshot, seed }
}

/// Bans a key by a rule on this gateway and those that share its store.
///
/// # Errors
/// The key is none of the limit, the time is too long, or there are too many rules.
pub(super) fn ban_key(
    process: &GatewayProcess,
    operator: &Operator,
    key: LimitKey,
    length: Duration,
    reason: &str,
) -> Result<(), String> {
    let snapshot = process.shared.snapshot();
    let target = RuleTarget::Key(key);
    check_limit(RuleEffect::Ban, &target, viewer(&snapshot, process))?;
    let now = clock::now();
    let lifetime = RuleLifetime {
        from: now,
        until: now.saturating_add(checked_length(length)?),
    };
    let rule = TemporaryRule::new(RuleId::random(), RuleEffect::Ban, target, lifetime);
    set(rule.said(reason, name(operator)), process, now)?;
    Ok(())
}

/// Puts a rule in force in the place of those that do the same to the same clients, and returns these.
///
/// # Errors
/// There are too many rules.
fn set(
    rule: TemporaryRule,
    process: &GatewayProcess,
    now: Timestamp,
) -> Result<Vec<Arc<TemporaryRule>>, String> {
    let snapshot = process.shared.snapshot();
    let viewer = viewer(&snapshot, process);
    let target = rule.target.clone();
    let has_target = viewer.same_as(&target);
    let replaced = snapshot.compiled.temporary.add(rule, has_target, now);
    let replaced = replaced.map_err(|_| full())?;
    process.follow_temporary_rules();
    Ok(replaced)
}

/// Returns the name under which a rule is set.
fn name(operator: &Operator) -> &str {
    let token = operator.token.as_ref();
    token.map_or("admin", |token| &token.name)
}

fn full() -> String {
    format!(
        "there are {TEMPORARY_RULES} temporary rules, the most that there may be; remove some, or write a list of the configuration"
    )
}

impl RulesSection {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let figures = snapshot.compiled.temporary.figures(clock::now());
        Self {
            count: figures.block + figures.exempt + figures.ban + figures.scale,
            block: figures.block,
            exempt: figures.exempt,
            ban: figures.ban,
            scale: figures.scale,
            next_end: figures.next_end.map(rfc3339::format),
            revision: snapshot.compiled.temporary.revision(),
        }
    }
}

impl AdminAction for RuleChange {
    /// Makes the change, which leaves an audit line, and returns the page about it.
    fn page(&self, operator: &Operator, process: &GatewayProcess) -> AdminPage {
        match self {
            Self::Add(order) => order.add(operator, process),
            Self::Remove(id) => remove(*id, operator, process),
            Self::Unblock(target) => unblock::page(target, operator, process),
        }
    }
}

impl RuleOrder {
    fn add(&self, operator: &Operator, process: &GatewayProcess) -> AdminPage {
        let snapshot = process.shared.snapshot();
        let now = clock::now();
        let viewer = viewer(&snapshot, process);
        let rule = match self.rule(viewer, operator, now) {
            Ok(rule) => rule,
            Err(why) => return bad(&why),
        };
        let row = viewer.row(&rule, now);
        let length = clock::between(rule.from, rule.until).as_secs();
        let summary = process.shared.rule_summary(&rule);
        let scope = rule.scope;
        let mut entry = AuditEntry {
            action: rule.effect.as_str(),
            target: format!("temporary rule {}", rule.id),
            key: row.key.clone().unwrap_or_default(),
            change: format!("added {summary} for {length} s"),
            reason: rule.reason.to_string(),
        };
        let replaced = match set(rule, process, now) {
            Ok(replaced) => replaced,
            Err(why) => {
                entry.change = format!("add {summary}");
                audit::note_failed(process, operator, &entry, &why);
                return AdminPage::error(StatusCode::INSUFFICIENT_STORAGE, &why);
            }
        };
        audit::note_and_mark(process, operator, MarkKind::Rule, &entry.target, &entry);
        AdminPage::json(&AddedPage {
            rule: row,
            replaced: replaced.iter().map(|rule| rule.id.to_string()).collect(),
            store_away: scope == RuleScope::Fleet && is_store_away(&snapshot),
        })
    }

    /// Returns the rule that is ordered at `now`.
    ///
    /// # Errors
    /// The mistake in the order, and what to write instead.
    fn rule(
        &self,
        viewer: RuleViewer<'_>,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<TemporaryRule, String> {
        let snapshot = viewer.snapshot;
        let words = RuleWords {
            action: &self.action,
            target: self.target.as_deref(),
            limit: self.limit.as_deref(),
            key: &self.key,
            factor: self.factor.map(|factor| factor.0),
        };
        let (effect, target) = words.read()?;
        check_limit(effect, &target, viewer)?;
        check_reason(&self.reason)?;
        let length = length(&self.length)?;
        let scope = self.scope.as_deref().unwrap_or("fleet").parse()?;
        if matches!(target, RuleTarget::Asn(_)) && !snapshot.compiled.has_networks() {
            return Err(
                "no database of [geo] knows networks, so the rule would hit nobody; write one with ASNs into the configuration"
                    .to_owned(),
            );
        }
        let proxies = &snapshot.compiled.rules.client.trusted_proxies;
        let caller = operator.peer.map(|peer| peer.ip());
        let danger = target.danger(effect, proxies, caller);
        let danger = danger.or_else(|| danger_to_keys(effect, &target, snapshot));
        if let Some(danger) = danger.filter(|_| !self.force) {
            return Err(format!("{danger}, or add \"force\": true (--force)"));
        }
        let lifetime = RuleLifetime {
            from: now,
            until: now.saturating_add(length),
        };
        let rule = TemporaryRule::new(RuleId::random(), effect, target, lifetime);
        Ok(rule.said(&self.reason, name(operator)).in_scope(scope))
    }
}

/// Records that an operator has removed a rule.
pub(super) fn note_removed(
    rule: &TemporaryRule,
    row: &RuleRow,
    operator: &Operator,
    process: &GatewayProcess,
) {
    let entry = AuditEntry {
        action: "remove",
        target: format!("temporary rule {}", rule.id),
        key: row.key.clone().unwrap_or_default(),
        change: format!("removed {}", process.shared.rule_summary(rule)),
        ..AuditEntry::default()
    };
    audit::note_and_mark(process, operator, MarkKind::Rule, &entry.target, &entry);
}

fn remove(id: RuleId, operator: &Operator, process: &GatewayProcess) -> AdminPage {
    let now = clock::now();
    let snapshot = process.shared.snapshot();
    let removed = process.shared.temporary.remove(&[id], now);
    let Some(rule) = removed.first() else {
        let why = "no temporary rule with this id is in force; /rules shows them";
        return AdminPage::error(StatusCode::NOT_FOUND, why);
    };
    process.follow_temporary_rules();
    let removed = viewer(&snapshot, process).row(rule, now);
    note_removed(rule, &removed, operator, process);
    AdminPage::json(&RemovedPage { removed })
}

/// Returns the metric of the rules.
pub(super) fn family(rules: &RulesSection) -> SampledFamily {
    let mut family = SampledFamily::gauge(
        "sluicegate_temporary_rules",
        "Temporary rules in force, by what they do.",
    );
    for (action, number) in [
        ("block", rules.block),
        ("exempt", rules.exempt),
        ("ban", rules.ban),
        ("scale", rules.scale),
    ] {
        family.push(&[("action", action)], number as u64);
    }
    family
}

/// Returns why a rule about a key would hit too many requests; `None` where nothing is wrong.
fn danger_to_keys(effect: RuleEffect, target: &RuleTarget, snapshot: &Snapshot) -> Option<String> {
    let RuleTarget::Key(key) = target else {
        return None;
    };
    let active = snapshot.compiled.limits.get(&key.limit)?;
    key_danger(effect, key, active.counted_network(&key.values))
}

/// Returns why a ban by hand would hit too many requests; `None` where nothing is wrong. A ban by hand knows no force.
pub(super) fn danger_of_ban(active: &ActiveLimit, values: &[String]) -> Option<String> {
    let key = LimitKey {
        limit: active.name.clone(),
        values: values.to_vec(),
    };
    let danger = key_danger(RuleEffect::Ban, &key, active.counted_network(values))?;
    Some(format!(
        "{danger}, or set a temporary rule with \"force\": true (`sluicegate ban --limit {} --force`)",
        active.name
    ))
}

/// Checks that the limit of a rule is there, and can be changed so.
fn check_limit(
    effect: RuleEffect,
    target: &RuleTarget,
    viewer: RuleViewer<'_>,
) -> Result<(), String> {
    let Some(name) = target.limit() else {
        return Ok(());
    };
    let snapshot = viewer.snapshot;
    let limit = snapshot
        .compiled
        .limits
        .get(name)
        .zip(snapshot.compiled.rules.limits.get(name));
    let (active, rules) =
        limit.ok_or_else(|| format!("there is no limit {name:?}; /status names them"))?;
    if let RuleTarget::Key(key) = target {
        active.name_key(&key.values, viewer.seed)?;
    }
    let Some(factor) = effect.factor() else {
        return Ok(());
    };
    let scaled = rules.scaled(factor.hundredths()).map(drop);
    scaled.map_err(|error| format!("the rates of {name} cannot be multiplied so: {error}"))?;
    check_counts(name, rules, factor)
}

/// Checks that no count of a limit would be cut at the largest that there may be.
fn check_counts(name: &Name, rules: &LimitRules, factor: RateFactor) -> Result<(), String> {
    let of_tiers = rules.all_tiers().filter_map(|tier| match tier {
        Tier::Rates(policy) => Some(policy),
        Tier::Unlimited | Tier::Blocked => None,
    });
    let policies = std::iter::once(&rules.policy).chain(of_tiers);
    let counts = policies.flat_map(|policy| policy.rates().iter().map(|rate| rate.count()));
    let largest = counts.max().unwrap_or(1);
    let most = u64::from(MAX_COUNT) * 100 / u64::from(largest);
    if u64::from(factor.hundredths().get()) <= most {
        return Ok(());
    }
    Err(format!(
        "a count of {name} is {largest}, and {} times that is more than {MAX_COUNT}, the largest count of a rate; \
         the largest factor is {}.{:02}",
        factor.number(),
        most / 100,
        most % 100
    ))
}

/// Parses the time for which a rule is set.
fn length(text: &str) -> Result<Duration, String> {
    checked_length(read_duration(text)?)
}

fn checked_length(length: Duration) -> Result<Duration, String> {
    let longest = TEMPORARY_RULE_LENGTH;
    if length < Duration::from_secs(1) || length > longest {
        let days = longest.as_secs() / (24 * 3600);
        return Err(format!(
            "a temporary rule lasts from 1s to {days}d; what is to last belongs into the configuration"
        ));
    }
    Ok(length)
}

fn order(body: &[u8]) -> Result<RuleOrder, AdminPage> {
    const WRITE: &str =
        r#"write {"action": "block", "target": "203.0.113.0/24", "for": "30m", "reason": "…"}"#;
    serde_json::from_slice(body).map_err(|error| bad(&format!("{error}; {WRITE}")))
}

fn bad(why: &str) -> AdminPage {
    AdminPage::error(StatusCode::BAD_REQUEST, why)
}

fn not_allowed(why: &str, methods: &'static str) -> AdminPage {
    AdminPage::error(StatusCode::METHOD_NOT_ALLOWED, why).with(ALLOW, methods)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a slip sets no rule. Method: bodies and lengths around the right ones.
    #[test]
    fn an_order_is_written_in_full() {
        let right = br#"{"action":"block","target":"192.0.2.1","for":"30m"}"#;
        assert!(order(right).is_ok_and(|order| !order.force && order.scope.is_none()));
        for wrong in [
            &b""[..],
            b"[]",
            b"{}",
            br#"{"action":"block","target":"192.0.2.1"}"#,
            br#"{"action":"block","target":"192.0.2.1","for":30}"#,
            br#"{"action":"block","target":"192.0.2.1","for":"30m","force":1}"#,
            br#"{"action":"block","target":"192.0.2.1","for":"30m","why":"x"}"#,
        ] {
            assert!(order(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
        for factor in ["\"2\"", "[]", "true", "null"] {
            let body = format!(r#"{{"action":"scale","limit":"a","factor":{factor},"for":"1m"}}"#);
            let refused = order(body.as_bytes()).err();
            let page = refused.map(|page| String::from_utf8_lossy(&page.body).into_owned());
            let is_plain = |text: String| text.contains("`factor` is a number from 0.01 to 100");
            assert_eq!(
                page.map(is_plain),
                (factor != "null").then_some(true),
                "{factor}"
            );
        }
        for right in ["1s", "30m", "1h30m", "30d"] {
            assert!(length(right).is_ok(), "{right}");
        }
        for wrong in ["", "30", "0s", "999ms", "31d", "30d1s", "1x", "-1m"] {
            assert!(length(wrong).is_err(), "{wrong}");
        }
    }
}
