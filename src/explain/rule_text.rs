//! Says what lists and temporary rules make of a request.

use crate::client::{ListMatch, ListSource};
use crate::rfc3339;
use crate::temporary_rules::{RuleEffect, TemporaryRule};

/// Returns what the list or temporary rule that contains the client does; `None` where none does.
pub(super) fn list_text(list: &ListMatch) -> Option<String> {
    match list {
        ListMatch::Ordinary => None,
        ListMatch::Allowed(source) => Some(source_text(source, "exempts it from the limits")),
        ListMatch::Blocked(source) => Some(source_text(source, "blocks it")),
    }
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

/// Returns what a list or a temporary rule does, with the rule's end and reason.
fn source_text(source: &ListSource, does: &str) -> String {
    match source {
        ListSource::List(name) => format!("the list {name:?} {does}"),
        ListSource::Temporary(rule) => {
            let until = rfc3339::format(rule.until);
            let reason = match rule.reason.as_str() {
                "" => String::new(),
                reason => format!(": {reason}"),
            };
            let target = &rule.target;
            format!(
                "the temporary rule {} for {target} {does} until {until}{reason}",
                rule.id
            )
        }
    }
}
