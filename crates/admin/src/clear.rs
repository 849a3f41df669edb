//! Serves `POST /limits/NAME/clear`, which clears the counters and the bans of all keys of a limit.
//!
//! The keys are those of the limit's table: counters that new keys share while it is full run out by themselves. The counters of a shared
//! limit are in the store, where only values name a key, so the request is refused for it.

use std::collections::HashSet;

use http::header::ALLOW;
use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;
use sluicegate_base::clock;
use sluicegate_decide::temporary_rules::check_reason;

use super::audit::{self, AuditEntry};
use super::limit::limit_named;
use super::operator::Operator;
use super::page::AdminPage;
use super::query::decoded;
use super::rule_view;
use super::task::{AdminAction, AdminTask};
use sluicegate_decide::admission::{ActiveLimit, NamedKey};
use sluicegate_explain::counted;
use sluicegate_history::MarkKind;
use sluicegate_process::GatewayProcess;

/// A request to clear a limit, or to count what it would clear.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClearOrder {
    limit: String,
    dry_run: bool,
    /// The reason that the operator gives; empty without one.
    reason: String,
}

#[derive(Serialize)]
struct ClearPage<'a> {
    limit: &'a str,
    dry_run: bool,
    /// The keys with counts.
    keys: usize,
    /// The keys that are banned, or whose former bans still count.
    bans: usize,
    /// The temporary rules that ban keys, which are removed.
    rules: Vec<String>,
}

/// Returns the task of clearing a limit; `None` where the path is another one.
pub(super) fn task(request: &Parts) -> Option<AdminTask> {
    let path = request.uri.path().strip_prefix("/limits/")?;
    let limit = path.strip_suffix("/clear")?;
    if limit.is_empty() || limit.contains('/') {
        return None;
    }
    if request.method != Method::POST {
        let error = "a limit is cleared by POST";
        let page = AdminPage::error(StatusCode::METHOD_NOT_ALLOWED, error);
        return Some(AdminTask::Show(page.with(ALLOW, "POST")));
    }
    let query = request.uri.query().unwrap_or_default();
    Some(match ClearOrder::parse(limit, query) {
        Err(error) => AdminTask::Show(AdminPage::error(StatusCode::BAD_REQUEST, &error)),
        Ok(order) => AdminTask::Walk(Box::new(order)),
    })
}

impl ClearOrder {
    /// Parses the query of a request to clear a limit.
    ///
    /// # Errors
    /// The mistake, and what to write instead.
    fn parse(limit: &str, query: &str) -> Result<Self, String> {
        const WRITE: &str =
            "what may follow the question mark is dry_run=true to count, or reason=TEXT";
        let mut order = Self {
            limit: limit.to_owned(),
            dry_run: false,
            reason: String::new(),
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(WRITE)?;
            match (name, decoded(value).ok_or(WRITE)?) {
                ("dry_run", value) if value == "true" => order.dry_run = true,
                ("reason", value) if order.reason.is_empty() => {
                    check_reason(&value)?;
                    order.reason = value;
                }
                _ => return Err(WRITE.to_owned()),
            }
        }
        Ok(order)
    }

    /// Clears or counts the keys with counts.
    fn counters(&self, active: &ActiveLimit) -> usize {
        let mut keys = 0;
        for usage in active.limit.active_keys(active.moment(clock::now())) {
            keys += 1;
            if !self.dry_run {
                let named = NamedKey::of_hash(usage.key);
                // The limit counts in no store.
                let _ = active.set_counts(&named, None, clock::now());
            }
        }
        keys
    }

    /// Lifts the bans of the table, those that are only remembered too, and returns their keys.
    fn bans(&self, active: &ActiveLimit) -> HashSet<u64> {
        let Some(active) = &active.bans else {
            return HashSet::new();
        };
        let mut bans = HashSet::new();
        for banned in active.bans.banned_keys(clock::now()) {
            bans.insert(banned.key.kept_bits());
            if !self.dry_run {
                active.bans.lift(banned.key, clock::now());
            }
        }
        bans
    }
}

impl AdminAction for ClearOrder {
    /// Clears or counts the keys and returns the page with their number.
    fn page(&self, operator: &Operator, process: &GatewayProcess) -> AdminPage {
        let Some(active) = limit_named(process, &self.limit) else {
            let error = "no such limit; /status names them";
            return AdminPage::error(StatusCode::NOT_FOUND, error);
        };
        if active.is_shared() {
            let error = "the counters of this limit are in the store, where only values name a key: clear keys by \
                         /limits/NAME/keys?value=VALUE, or end its bans by DELETE /bans?limit=NAME";
            return AdminPage::error(StatusCode::CONFLICT, error);
        }
        let keys = self.counters(&active);
        let rules = rule_view::rules_that_ban(process, &active, |_, _| true);
        let bans = self.bans(&active);
        let by_rules = active.keys_banned_by_rules();
        let by_rules_alone = by_rules.filter(|(key, _)| !bans.contains(&key.kept_bits()));
        let bans = bans.len() + by_rules_alone.count();
        if !self.dry_run {
            let ended = rule_view::end(process, &rules);
            let entry = AuditEntry {
                action: "clear",
                target: format!("limit {}", self.limit),
                change: format!(
                    "cleared the counters of {} and {}{}",
                    counted(keys as u64, "key"),
                    counted(bans as u64, "ban"),
                    rule_view::removed_words(&ended)
                ),
                reason: self.reason.clone(),
                ..AuditEntry::default()
            };
            match keys + bans {
                0 => audit::note(process, operator, &entry),
                _ => audit::note_and_mark(process, operator, MarkKind::Key, &self.limit, &entry),
            }
        }
        AdminPage::json(&ClearPage {
            limit: &self.limit,
            dry_run: self.dry_run,
            keys,
            bans,
            rules: rules.iter().map(|rule| rule.id.to_string()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a slip clears no limit. Method: queries around the right ones.
    #[test]
    fn a_query_counts_or_gives_a_reason() {
        for (query, dry_run, reason) in [
            ("", false, ""),
            ("dry_run=true", true, ""),
            ("reason=a%20case", false, "a case"),
            ("dry_run=true&reason=x", true, "x"),
        ] {
            let order = ClearOrder::parse("otp", query).expect("an order");
            assert_eq!(
                (order.dry_run, &*order.reason),
                (dry_run, reason),
                "{query}"
            );
        }
        let long = format!("reason={}", "x".repeat(201));
        for query in [
            "dry_run",
            "dry_run=1",
            "all=1",
            "reason=a&reason=b",
            "reason=%4",
            &long,
        ] {
            assert!(ClearOrder::parse("otp", query).is_err(), "{query}");
        }
    }
}
