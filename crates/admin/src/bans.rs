//! Serves `/limits/NAME/bans`, which lists the banned keys, and DELETE of `/limits/NAME/bans/KEY`, which lifts the ban of one.
//!
//! A key may be banned by the limit, by temporary rules, or by both. The list has the end of the longer ban, and a lift ends all of them.
//!
//! KEY is the hash that this page and the access log show. A client's address does not lead to it, but the access log has both: look for
//! the client's latest line with a `ban_key`.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use http::header::ALLOW;
use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;
use sluicegate_base::clock;
use sluicegate_decide::rfc3339;
use sluicegate_decide::temporary_rules::TemporaryRule;
use sluicegate_limiter::{ActiveBan, KeyHash, Timestamp};
use tracing::warn;

use super::audit::{self, AuditEntry};
use super::duration::seconds;
use super::key_edit::wait_for;
use super::key_texts::KeyValuesForm;
use super::keys::{BadKey, hash};
use super::limit::limit_named;
use super::limit_view::BansView;
use super::operator::Operator;
use super::page::{AdminPage, JSON};
use super::rule_view;
use super::shared_keys::SharedKeys;
use super::status::BansSection;
use super::task::{AdminAction, AdminTask};
use sluicegate_decide::admission::{ActiveLimit, KeyNamer, NamedKey};
use sluicegate_decide::store::KeyChange;
use sluicegate_history::MarkKind;
use sluicegate_process::GatewayProcess;

/// The page of `/limits/NAME/bans` with up to `most` keys, those with the longest ban first, and their values in this form. Walks the whole
/// table.
pub(super) fn page(limit: &ActiveLimit, most: usize, key_values: KeyValuesForm) -> AdminPage {
    let now = clock::now();
    let keys = listed(limit, most, now);
    limit.name_keys(KeyNamer::Bans, keys.iter().map(|listed| listed.key));
    let rows = keys
        .iter()
        .map(|listed| BannedKeyRow::new(listed, limit, now));
    AdminPage::json(&BansPage {
        limit: &limit.name,
        at: rfc3339::format(now),
        ban: BansView::sample(limit, now).as_ref().map(BansSection::new),
        key_values,
        keys: rows.collect(),
    })
}

/// A banned key, or one whose former bans still count.
struct ListedBan {
    key: KeyHash,
    level: u8,
    banned: Option<ActiveBan>,
}

/// Returns the keys of the limit's table and of temporary rules, those with the longest ban first.
fn listed(limit: &ActiveLimit, most: usize, now: Timestamp) -> Vec<ListedBan> {
    let bans = limit.bans.as_ref().map(|active| &active.bans);
    let kept = bans.map_or_else(Vec::new, |bans| bans.top(most, now));
    let known: HashSet<u64> = kept.iter().map(|kept| kept.key.kept_bits()).collect();
    let kept = kept.iter().map(|kept| ListedBan {
        key: kept.key,
        level: kept.level,
        banned: limit.ban_in_force(kept.key, now),
    });
    let rules = limit.keys_banned_by_rules();
    let others = rules.filter(|(key, _)| !known.contains(&key.kept_bits()));
    let others = others.map(|(key, _)| {
        let banned = limit.ban_in_force(key, now);
        let level = banned.map_or(0, |banned| banned.level);
        ListedBan { key, level, banned }
    });
    let mut all: Vec<ListedBan> = kept.chain(others).collect();
    all.sort_by_key(|listed| Reverse(listed.banned.map(|banned| banned.left)));
    all.truncate(most);
    all
}

#[derive(Serialize)]
struct BansPage<'a> {
    limit: &'a str,
    at: String,
    ban: Option<BansSection>,
    #[serde(flatten)]
    key_values: KeyValuesForm,
    keys: Vec<BannedKeyRow>,
}

#[derive(Serialize)]
struct BannedKeyRow {
    key: String,
    key_values: Option<Vec<String>>,
    level: u8,
    left: f64,
    until: Option<String>,
    /// The id of the temporary rule that bans the key.
    rule: Option<String>,
}

impl BannedKeyRow {
    fn new(listed: &ListedBan, limit: &ActiveLimit, now: Timestamp) -> Self {
        let banned = listed.banned;
        Self {
            key: format!("{:016x}", listed.key.kept_bits()),
            key_values: limit.known_values(listed.key),
            level: listed.level,
            left: banned.map_or(0.0, |banned| seconds(banned.left)),
            until: banned.map(|banned| rfc3339::format(banned.until(now))),
            rule: limit
                .rule_that_bans(listed.key)
                .map(|rule| rule.id.to_string()),
        }
    }
}

/// A key whose ban is to be lifted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BanLift {
    limit: String,
    key: KeyHash,
}

/// Returns the task of lifting a ban; `None` where the path is another one.
pub(super) fn task(request: &Parts) -> Option<AdminTask> {
    Some(match BanLift::from_path(request.uri.path())? {
        Ok(_) if request.method != Method::DELETE => AdminTask::Show(only_pardons()),
        Ok(pardon) => AdminTask::Walk(Box::new(pardon)),
        Err(misasked) => AdminTask::Show(misasked.page()),
    })
}

impl BanLift {
    /// Parses the key of a path; `None` when it is another path.
    fn from_path(path: &str) -> Option<Result<Self, BadKey>> {
        let (limit, key) = path.strip_prefix("/limits/")?.split_once("/bans/")?;
        if limit.is_empty() || limit.contains('/') {
            return None;
        }
        Some(hash(key).map(|key| Self {
            limit: limit.to_owned(),
            key,
        }))
    }

    /// Lifts the ban. `None` where there is no such limit, or neither it nor a rule bans keys.
    fn lift(&self, process: &GatewayProcess) -> Option<LiftedBan> {
        let active = limit_named(process, &self.limit)?;
        let ban = active.ban_in_force(self.key, clock::now());
        let rules = rule_view::end_bans(process, &active, self.key);
        if active.bans.is_none() && rules.is_empty() {
            return None;
        }
        if let Some(bans) = &active.bans {
            bans.bans.lift(self.key, clock::now());
        }
        // The used units would ban the key again with its next request.
        let named = NamedKey::of_hash(self.key);
        let shared = SharedKeys::new(&process.shared.snapshot());
        let clear = shared.set(&active, &named, None, KeyChange::Cleared, clock::now());
        if let Some(Err(why)) = wait_for(clear) {
            let limit = &self.limit;
            warn!(
                "limit {limit}: the counters of a key whose ban is lifted stay in the store: {why}"
            );
        }
        Some(LiftedBan { ban, rules })
    }
}

impl AdminAction for BanLift {
    /// Lifts the ban and returns the page with the ban that was in force.
    fn page(&self, operator: &Operator, process: &GatewayProcess) -> AdminPage {
        let Some(LiftedBan { ban, rules }) = self.lift(process) else {
            return no_bans();
        };
        let key = format!("{:016x}", self.key.kept_bits());
        let change = match ban {
            Some(banned) => {
                let left = banned.left.as_secs();
                format!("lifted the ban of key {key}, {left} s before its end")
            }
            None => format!("cleared key {key}, which had no ban"),
        };
        let entry = AuditEntry {
            action: "lift",
            target: format!("limit {}", self.limit),
            key: key.clone(),
            change: change + &rule_view::removed_words(&rules),
            ..AuditEntry::default()
        };
        match ban {
            Some(_) => {
                let kind = MarkKind::Unban;
                audit::note_and_mark(process, operator, kind, &self.limit, &entry);
            }
            None => audit::note(process, operator, &entry),
        }
        AdminPage::json(&BanLiftPage {
            limit: &self.limit,
            key,
            lifted: ban.is_some(),
            level: ban.map_or(0, |banned| banned.level),
            left: ban.map_or(0.0, |banned| seconds(banned.left)),
            rules: rules.iter().map(|rule| rule.id.to_string()).collect(),
        })
    }
}

/// The bans that a lift has ended.
struct LiftedBan {
    /// The ban that was in force.
    ban: Option<ActiveBan>,
    /// The temporary rules that banned the key.
    rules: Vec<Arc<TemporaryRule>>,
}

#[derive(Serialize)]
struct BanLiftPage<'a> {
    limit: &'a str,
    key: String,
    lifted: bool,
    level: u8,
    left: f64,
    /// The temporary rules that are removed.
    rules: Vec<String>,
}

/// Returns the page for a limit without bans.
pub(super) fn no_bans() -> AdminPage {
    let error = &br#"{"error":"no such limit, or one that bans nobody; /status names them"}"#[..];
    AdminPage::new(StatusCode::NOT_FOUND, JSON, error)
}

/// Returns the page for a ban that is read instead of lifted.
fn only_pardons() -> AdminPage {
    let error =
        &br#"{"error":"a ban can only be lifted: DELETE; /limits/NAME/bans shows them"}"#[..];
    AdminPage::new(StatusCode::METHOD_NOT_ALLOWED, JSON, error).with(ALLOW, "DELETE")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a slip pardons nobody. Method: paths around the right one.
    #[test]
    fn a_pardon_names_a_limit_and_a_whole_key() {
        let right = BanLift {
            limit: "otp".to_owned(),
            key: KeyHash::from_bits(0x0123_4567_89ab_cdee),
        };
        for key in ["0123456789abcdee", "0123456789ABCDEE"] {
            assert_eq!(
                BanLift::from_path(&format!("/limits/otp/bans/{key}")),
                Some(Ok(right.clone()))
            );
        }
        for key in [
            "",
            "0",
            "0123456789abcdeg",
            "+123456789abcdee",
            "00123456789abcdee",
            "a/b",
        ] {
            assert_eq!(
                BanLift::from_path(&format!("/limits/otp/bans/{key}")),
                Some(Err(BadKey)),
                "{key}"
            );
        }
        for path in [
            "/limits/otp/bans",
            "/limits//bans/0",
            "/limits/a/b/bans/0",
            "/bans/0",
        ] {
            assert_eq!(BanLift::from_path(path), None, "{path}");
        }
    }
}
