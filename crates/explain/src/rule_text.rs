//! Says what lists and temporary rules make of a request.

use sluicegate_decide::client::{ListMatch, ListSource};
use sluicegate_decide::rfc3339;
use sluicegate_decide::temporary_rules::{RuleEffect, TemporaryRule};

use sluicegate_decide::compiled_rules::CompiledRules;

/// Returns what the list or temporary rule that contains the client does; `None` where none does.
pub(super) fn list_text(list: &ListMatch, compiled: &CompiledRules) -> Option<String> {
    let (source, does) = match list {
        ListMatch::Ordinary => return None,
        ListMatch::Allowed(source) => (source, "exempts it from the limits"),
        ListMatch::Blocked(source) => (source, "blocks it"),
    };
    Some(match source {
        ListSource::List(name) => format!("the list {name:?} {does}"),
        ListSource::Temporary(rule) => clients_rule_text(rule, does, compiled),
    })
}

/// Returns what a temporary rule makes of the key of a request.
pub(super) fn key_rule_text(rule: &TemporaryRule) -> String {
    let does = match rule.effect {
        RuleEffect::Exempt | RuleEffect::Scale(_) => "exempts",
        RuleEffect::Block => "blocks",
        RuleEffect::Ban => "bans",
    };
    let until = rfc3339::format(rule.until);
    format!(
        "; the temporary rule {} {does} the key until {until}",
        rule.id
    )
}

/// Returns what a temporary rule does with its clients, with its end, and with its reason where readers see it.
fn clients_rule_text(rule: &TemporaryRule, does: &str, compiled: &CompiledRules) -> String {
    let until = rfc3339::format(rule.until);
    let reason = match rule.reason_for_readers(&compiled.rules.admin) {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    let target = &rule.target;
    format!(
        "the temporary rule {} for {target} {does} until {until}{reason}",
        rule.id
    )
}
