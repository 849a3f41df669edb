//! Serves `/limits/NAME/bans`, which lists the banned keys, and DELETE of `/limits/NAME/bans/KEY`, which lifts the ban of one.
//!
//! KEY is the hash that this page and the access log show. A client's address does not lead to it, but the access log has both: look for
//! the client's latest line with a `ban_key`.

use http::header::ALLOW;
use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;
use sluicegate_base::clock;
use sluicegate_limiter::{ActiveBan, BannedKey, KeyHash, Timestamp};
use tracing::warn;

use super::audit::{self, AuditEntry};
use super::key_edit::wait_for;
use super::keys::{BadKey, hash};
use super::limit_view::BansView;
use super::status::BansSection;
use super::top::seconds;
use super::{AdminAction, AdminPage, AdminTask, JSON, Operator, limit_named};
use crate::admission::{ActiveLimit, KeyNamer, NamedKey};
use crate::history::MarkKind;
use crate::process::GatewayProcess;
use crate::rfc3339;
use crate::store::KeyChange;

/// The page of `/limits/NAME/bans` with up to `most` keys, those with the longest ban first; `None` where the limit bans no key. Walks the
/// whole table. `hidden` is the reason for which no values of keys are shown.
pub(super) fn page(
    limit: &ActiveLimit,
    most: usize,
    hidden: Option<&'static str>,
) -> Option<AdminPage> {
    let active = limit.bans.as_ref()?;
    let now = clock::now();
    let keys = active.bans.top(most, now);
    limit.name_keys(KeyNamer::Bans, keys.iter().map(|banned| banned.key));
    let row = |banned: &BannedKey| BannedKeyRow::new(banned, limit.known_values(banned.key), now);
    Some(AdminPage::json(&BansPage {
        limit: &limit.name,
        at: rfc3339::format(now),
        ban: BansSection::of(&BansView::of(active, now)),
        key_values_hidden: hidden,
        keys: keys.iter().map(row).collect(),
    }))
}

#[derive(Serialize)]
struct BansPage<'a> {
    limit: &'a str,
    at: String,
    ban: BansSection,
    key_values_hidden: Option<&'static str>,
    keys: Vec<BannedKeyRow>,
}

#[derive(Serialize)]
struct BannedKeyRow {
    key: String,
    key_values: Option<Vec<String>>,
    level: u8,
    left: f64,
    until: Option<String>,
}

impl BannedKeyRow {
    fn new(offender: &BannedKey, key_values: Option<Vec<String>>, now: Timestamp) -> Self {
        let banned = offender.banned;
        Self {
            key: format!("{:016x}", offender.key.bits()),
            key_values,
            level: offender.level,
            left: banned.map_or(0.0, |banned| seconds(banned.left)),
            until: banned.map(|banned| rfc3339::format(banned.until(now))),
        }
    }
}

/// A key whose ban is to be lifted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BanLift {
    limit: String,
    key: KeyHash,
}

/// Returns the task of lifting a ban; `None` where the path is another one.
pub(super) fn task(request: &Parts) -> Option<AdminTask> {
    Some(match BanLift::of(request.uri.path())? {
        Ok(_) if request.method != Method::DELETE => AdminTask::Show(only_pardons()),
        Ok(pardon) => AdminTask::Walk(AdminAction::Lift(pardon)),
        Err(misasked) => AdminTask::Show(misasked.page()),
    })
}

impl BanLift {
    /// Parses the key of a path; `None` when it is another path.
    fn of(path: &str) -> Option<Result<Self, BadKey>> {
        let (limit, key) = path.strip_prefix("/limits/")?.split_once("/bans/")?;
        if limit.is_empty() || limit.contains('/') {
            return None;
        }
        Some(hash(key).map(|key| Self {
            limit: limit.to_owned(),
            key,
        }))
    }

    /// Lifts the ban. `None` where there is no such limit, or it has no `ban`; `Some(None)` where no ban was in force.
    fn lift(&self, process: &GatewayProcess) -> Option<Option<ActiveBan>> {
        let active = limit_named(process, &self.limit)?;
        let lifted = active.bans.as_ref()?.bans.lift(self.key, clock::now());
        // The used units would ban the key again with its next request.
        let named = NamedKey::of_hash(self.key);
        let clear = active.set_key(&named, None, KeyChange::Cleared, clock::now());
        if let Some(Err(why)) = wait_for(clear) {
            let limit = &self.limit;
            warn!(
                "limit {limit}: the counters of a key whose ban is lifted stay in the store: {why}"
            );
        }
        Some(lifted)
    }

    /// Lifts the ban and returns the page with the ban that was in force.
    pub(super) fn page(&self, operator: &Operator, process: &GatewayProcess) -> AdminPage {
        let Some(lifted) = self.lift(process) else {
            return no_bans();
        };
        let key = format!("{:016x}", self.key.bits());
        let change = match lifted {
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
            change,
            ..AuditEntry::default()
        };
        let kind = match lifted {
            Some(_) => MarkKind::Unban,
            None => MarkKind::Key,
        };
        audit::note_and_mark(process, operator, kind, &self.limit, &entry);
        AdminPage::json(&BanLiftPage {
            limit: &self.limit,
            key,
            lifted: lifted.is_some(),
            level: lifted.map_or(0, |banned| banned.level),
            left: lifted.map_or(0.0, |banned| seconds(banned.left)),
        })
    }
}

#[derive(Serialize)]
struct BanLiftPage<'a> {
    limit: &'a str,
    key: String,
    lifted: bool,
    level: u8,
    left: f64,
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
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    /// Goal: a key whose ban has ended is shown with the level of its next one. Method: the rows of a key with and without a ban in force.
    #[test]
    fn a_row_shows_the_rest_of_a_ban() {
        let left = Duration::from_secs(600);
        for (banned, left, until) in [
            (
                Some(ActiveBan { left, level: 2 }),
                600.0,
                json!("1970-01-01T00:10:07.000Z"),
            ),
            (None, 0.0, json!(null)),
        ] {
            let key = KeyHash::from_bits(0xabcc);
            let offender = BannedKey {
                key,
                level: 2,
                banned,
            };
            let values = vec!["203.0.113.7".to_owned()];
            let row = BannedKeyRow::new(&offender, Some(values), Timestamp::from_secs(7));
            assert_eq!(
                serde_json::to_value(row).expect("numbers and text"),
                json!({ "key": "000000000000abcc", "key_values": ["203.0.113.7"], "level": 2, "left": left, "until": until })
            );
        }
    }

    /// Goal: a slip pardons nobody. Method: paths around the right one.
    #[test]
    fn a_pardon_names_a_limit_and_a_whole_key() {
        let right = BanLift {
            limit: "otp".to_owned(),
            key: KeyHash::from_bits(0x0123_4567_89ab_cdee),
        };
        for key in ["0123456789abcdee", "0123456789ABCDEE"] {
            assert_eq!(
                BanLift::of(&format!("/limits/otp/bans/{key}")),
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
                BanLift::of(&format!("/limits/otp/bans/{key}")),
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
            assert_eq!(BanLift::of(path), None, "{path}");
        }
    }
}
