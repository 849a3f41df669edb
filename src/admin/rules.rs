//! Serves `/rules`: the temporary rules in force, and by POST another one; DELETE of `/rules/ID` removes one.
//!
//! A rule rejects or admits clients, so a change needs the token. It is in force when the answer is written. A rule that would cut off
//! the world, a proxy or the operator is refused unless the request forces it; the listener of this page is subject to no rule.

use std::time::Duration;

use http::header::ALLOW;
use http::request::Parts;
use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use sluicegate_base::bounds::{TEMPORARY_RULE_LENGTH, TEMPORARY_RULES};
use sluicegate_base::clock;
use sluicegate_limiter::Timestamp;
use sluicegate_telemetry::exposition::SampledFamily;

use super::audit::{self, AuditEntry};
use super::top::seconds;
use super::{AdminAction, AdminPage, AdminTask, Operator, is_reading};
use crate::admission::KeySeed;
use crate::config::read_duration;
use crate::history::MarkKind;
use crate::process::GatewayProcess;
use crate::rfc3339;
use crate::snapshot::Snapshot;
use crate::temporary_rules::{
    LimitKey, RuleEffect, RuleId, RuleLifetime, RuleTarget, RuleWords, TemporaryRule, WrittenRule,
};

/// A change of the rules.
#[derive(Debug)]
pub(super) enum RuleChange {
    /// A rule is added.
    Add(RuleOrder),
    /// The rule of this id is removed.
    Remove(RuleId),
}

/// The body of POST.
#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object with `action`, `target` and `for`"
)]
pub(super) struct RuleOrder {
    action: String,
    target: Option<String>,
    limit: Option<String>,
    #[serde(default)]
    key: Vec<String>,
    factor: Option<f64>,
    #[serde(rename = "for")]
    length: String,
    #[serde(default)]
    reason: String,
    scope: Option<String>,
    #[serde(default)]
    force: bool,
}

#[derive(Serialize)]
struct RulesPage {
    at: String,
    /// True if the rules outlive the process.
    kept: bool,
    why_not_kept: Option<String>,
    /// The fault of the file that keeps them.
    file_fault: Option<String>,
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
struct RuleRow {
    #[serde(flatten)]
    written: WrittenRule,
    /// To whom or what it does that, in words.
    object: String,
    /// Seconds until its end.
    left: f64,
    /// Requests of this gateway that it decided.
    hits: u64,
}

#[derive(Serialize)]
struct AddedPage {
    rule: RuleRow,
    /// The rules in whose place it stands.
    replaced: Vec<String>,
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
        "" => Err(not_allowed(
            "rules are read by GET and added by POST",
            "GET, HEAD, POST",
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
        Ok(change) => AdminTask::Walk(AdminAction::Rule(change)),
    })
}

fn page(process: &GatewayProcess) -> AdminPage {
    let snapshot = process.shared.snapshot();
    let why_not_kept = snapshot.temporary.why_not_kept();
    let now = clock::now();
    AdminPage::json(&RulesPage {
        at: rfc3339::format(now),
        kept: why_not_kept.is_none(),
        why_not_kept,
        file_fault: snapshot.temporary.file_fault(),
        shared: snapshot.store.is_some(),
        rules: rows(&snapshot, now),
    })
}

/// Returns the rules in force, those that end first at the front. Without a token, by which readers are known, they have neither the
/// values of keys nor reasons: another gateway of the fleet may have a token, and share its rules.
fn rows(snapshot: &Snapshot, now: Timestamp) -> Vec<RuleRow> {
    let is_open = snapshot.rules.admin.token_file.is_none();
    let rules = snapshot.temporary.list(now);
    let rows = rules.iter().map(|rule| match is_open {
        true => RuleRow::new(rule, now).without_values(),
        false => RuleRow::new(rule, now),
    });
    rows.collect()
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
    check_limit(RuleEffect::Ban, &target, &snapshot, &process.shared.seed)?;
    let now = clock::now();
    let lifetime = RuleLifetime {
        from: now,
        until: now.saturating_add(checked_length(length)?),
    };
    let rule = TemporaryRule::new(RuleId::random(), RuleEffect::Ban, target, lifetime);
    let added = snapshot
        .temporary
        .add(rule.said(reason, name(operator)), now);
    added.map_err(|_| full())?;
    process.follow_temporary_rules();
    Ok(())
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
        let figures = snapshot.temporary.figures(clock::now());
        Self {
            count: figures.block + figures.exempt + figures.ban + figures.scale,
            block: figures.block,
            exempt: figures.exempt,
            ban: figures.ban,
            scale: figures.scale,
            next_end: figures.next_end.map(rfc3339::format),
            revision: snapshot.temporary.revision(),
        }
    }
}

impl RuleRow {
    fn new(rule: &TemporaryRule, now: Timestamp) -> Self {
        Self {
            written: WrittenRule::new(rule),
            object: rule.target.to_string(),
            left: seconds(clock::between(now, rule.until)),
            hits: rule.hits(),
        }
    }

    /// Returns the row for readers who need no token.
    fn without_values(mut self) -> Self {
        if let Some(limit) = self
            .written
            .limit
            .as_ref()
            .filter(|_| !self.written.key.is_empty())
        {
            self.object = format!("a key of {limit}");
            self.written.key.clear();
        }
        self.written.reason.clear();
        self
    }
}

impl RuleChange {
    /// Makes the change, which leaves an audit line, and returns the page about it.
    pub(super) fn page(&self, operator: &Operator, process: &GatewayProcess) -> AdminPage {
        match self {
            Self::Add(order) => order.add(operator, process),
            Self::Remove(id) => remove(*id, operator, process),
        }
    }
}

impl RuleOrder {
    fn add(&self, operator: &Operator, process: &GatewayProcess) -> AdminPage {
        let snapshot = process.shared.snapshot();
        let now = clock::now();
        let rule = match self.rule(&snapshot, &process.shared.seed, operator, now) {
            Ok(rule) => rule,
            Err(why) => return bad(&why),
        };
        let row = RuleRow::new(&rule, now);
        let length = clock::between(rule.from, rule.until).as_secs();
        let summary = rule.summary();
        let mut entry = AuditEntry {
            action: rule.effect.as_str(),
            target: format!("temporary rule {}", rule.id),
            change: format!("added {summary} for {length} s"),
            reason: rule.reason.to_string(),
            ..AuditEntry::default()
        };
        let Ok(replaced) = snapshot.temporary.add(rule, now) else {
            let why = full();
            entry.change = format!("add {summary}");
            audit::note_failed(process, operator, &entry, &why);
            return AdminPage::error(StatusCode::INSUFFICIENT_STORAGE, &why);
        };
        process.follow_temporary_rules();
        audit::note_and_mark(process, operator, MarkKind::Rule, &entry.target, &entry);
        AdminPage::json(&AddedPage {
            rule: row,
            replaced: replaced.iter().map(|rule| rule.id.to_string()).collect(),
        })
    }

    /// Returns the rule that is ordered at `now`.
    ///
    /// # Errors
    /// The mistake in the order, and what to write instead.
    fn rule(
        &self,
        snapshot: &Snapshot,
        seed: &KeySeed,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<TemporaryRule, String> {
        let words = RuleWords {
            action: &self.action,
            target: self.target.as_deref(),
            limit: self.limit.as_deref(),
            key: &self.key,
            factor: self.factor,
        };
        let (effect, target) = words.read()?;
        check_limit(effect, &target, snapshot, seed)?;
        let length = length(&self.length)?;
        let scope = self.scope.as_deref().unwrap_or("fleet").parse()?;
        if matches!(target, RuleTarget::Asn(_)) && !snapshot.has_networks() {
            return Err(
                "no database of [geo] knows networks, so the rule would hit nobody; write one with ASNs into the configuration"
                    .to_owned(),
            );
        }
        let proxies = &snapshot.rules.client.trusted_proxies;
        let caller = operator.peer.map(|peer| peer.ip());
        let danger = target.danger(effect, proxies, caller);
        if let Some(danger) = danger.filter(|_| !self.force) {
            return Err(format!(
                "{danger}; name a narrower target, or add \"force\": true (--force)"
            ));
        }
        let lifetime = RuleLifetime {
            from: now,
            until: now.saturating_add(length),
        };
        let rule = TemporaryRule::new(RuleId::random(), effect, target, lifetime);
        Ok(rule.said(&self.reason, name(operator)).in_scope(scope))
    }
}

fn remove(id: RuleId, operator: &Operator, process: &GatewayProcess) -> AdminPage {
    let now = clock::now();
    let Some(rule) = process.shared.temporary.remove(id, now) else {
        let why = "no temporary rule with this id is in force; /rules shows them";
        return AdminPage::error(StatusCode::NOT_FOUND, why);
    };
    process.follow_temporary_rules();
    let entry = AuditEntry {
        action: "remove",
        target: format!("temporary rule {id}"),
        change: format!("removed {}", rule.summary()),
        ..AuditEntry::default()
    };
    audit::note_and_mark(process, operator, MarkKind::Rule, &entry.target, &entry);
    AdminPage::json(&RemovedPage {
        removed: RuleRow::new(&rule, now),
    })
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

/// Checks that the limit of a rule is there, and can be changed so.
fn check_limit(
    effect: RuleEffect,
    target: &RuleTarget,
    snapshot: &Snapshot,
    seed: &KeySeed,
) -> Result<(), String> {
    let Some(name) = target.limit() else {
        return Ok(());
    };
    let limit = snapshot
        .limits
        .get(name)
        .zip(snapshot.rules.limits.get(name));
    let (active, rules) =
        limit.ok_or_else(|| format!("there is no limit {name:?}; /status names them"))?;
    if let RuleTarget::Key(key) = target {
        active.name_key(&key.values, seed)?;
    }
    match effect.factor() {
        Some(factor) => {
            let scaled = rules.scaled(factor.hundredths()).map(drop);
            scaled.map_err(|error| format!("the rates of {name} cannot be multiplied so: {error}"))
        }
        None => Ok(()),
    }
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
        for right in ["1s", "30m", "1h30m", "30d"] {
            assert!(length(right).is_ok(), "{right}");
        }
        for wrong in ["", "30", "0s", "999ms", "31d", "30d1s", "1x", "-1m"] {
            assert!(length(wrong).is_err(), "{wrong}");
        }
    }
}
