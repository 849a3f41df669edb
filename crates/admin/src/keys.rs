//! Serves one key of a limit: `/limits/NAME/keys?value=…` and `/limits/NAME/keys/KEY`.
//!
//! GET turns a value into the key's hash, as the access log has it, and shows the key's state. DELETE clears its counters and its ban.
//! PUT sets what it used, or bans it by hand. A key of a shared limit can be found in the store by its values alone: its hash here is
//! under the secret of this process.

use std::time::Duration;

use http::header::ALLOW;
use http::request::Parts;
use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use sluicegate_decide::rfc3339;
use sluicegate_decide::temporary_rules::{LimitKey, RuleId, check_reason};
use sluicegate_limiter::{ActiveBan, KeyHash, KeyPlacement, NEVER, Timestamp};

use super::audit::{self, AuditEntry};
use super::client_rules::ClientRuleRow;
use super::duration::seconds;
use super::key_edit::{self, KeyEdit, KeyRequestError, KeyResult, KeySelector, KeyView};
use super::limit::limit_named;
use super::operator::Operator;
use super::page::AdminPage;
use super::query::decoded;
use super::task::{AdminAction, AdminTask};
use super::{rule_view, rules};
use sluicegate_config::read_duration;
use sluicegate_config::rules::KeyPart;
use sluicegate_decide::admission::{RateScaling, ScaledRates};
use sluicegate_history::MarkKind;
use sluicegate_process::GatewayProcess;

/// The maximum of values of a key; no key has more parts.
const VALUES: usize = 16;

/// A request about one key of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyRequest {
    limit: String,
    which: KeySelector,
    change: KeyEdit,
    reason: String,
}

/// The path does not end in the hash of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadKey;

/// The body of PUT.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `used` or `ban`")]
struct PutBody {
    used: Option<UsedUnits>,
    ban: Option<BanRequest>,
}

/// The units that a key has used. Errors of a bare `u32` would name that type.
#[derive(Deserialize)]
#[serde(try_from = "serde_json::Number")]
struct UsedUnits(u32);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `for`")]
struct BanRequest {
    #[serde(rename = "for")]
    length: String,
    #[serde(default)]
    reason: String,
}

impl TryFrom<serde_json::Number> for UsedUnits {
    type Error = String;

    fn try_from(number: serde_json::Number) -> Result<Self, String> {
        let units = number.as_u64().map(u32::try_from);
        match units {
            Some(Ok(units)) => Ok(Self(units)),
            _ => Err(format!("`used` is an integer from 0 to {}", u32::MAX)),
        }
    }
}

/// Returns the task of a request about a key; `None` where its path is another one.
pub(super) fn task(request: &Parts, body: &[u8]) -> Option<AdminTask> {
    Some(match KeyRequest::parse(request, body)? {
        Ok(asked) => AdminTask::Walk(Box::new(asked)),
        Err(page) => AdminTask::Show(page),
    })
}

impl KeyRequest {
    /// Parses a request about a key; `None` where its path is another one.
    fn parse(request: &Parts, body: &[u8]) -> Option<Result<Self, AdminPage>> {
        let (limit, rest) = request
            .uri
            .path()
            .strip_prefix("/limits/")?
            .split_once('/')?;
        let which = match rest.strip_prefix("keys")? {
            "" => values(request.uri.query().unwrap_or_default()).map(KeySelector::Values),
            path => hash(path.strip_prefix('/')?)
                .map(KeySelector::Hash)
                .map_err(BadKey::page),
        };
        if limit.is_empty() {
            return None;
        }
        let change = change(&request.method, body);
        Some(which.and_then(|which| {
            let (change, reason) = change?;
            Ok(Self {
                limit: limit.to_owned(),
                which,
                change,
                reason,
            })
        }))
    }

    /// Refuses a ban that would hit too many requests; `None` for every other change.
    fn refuse_wide_ban(&self, process: &GatewayProcess) -> Option<KeyRequestError> {
        let KeyEdit::Ban(_) = self.change else {
            return None;
        };
        let limit = limit_named(process, &self.limit)?;
        let values = match &self.which {
            KeySelector::Values(values) => values.clone(),
            KeySelector::Hash(_) if limit.key.0 == [KeyPart::Global] => Vec::new(),
            KeySelector::Hash(key) => limit.known_values(*key)?,
        };
        // What makes no key is refused as such.
        limit.name_key(&values, &process.shared.seed).ok()?;
        rules::danger_of_ban(&limit, &values).map(KeyRequestError::WideBan)
    }

    /// Bans the key by a temporary rule where its limit has no `ban`; `None` for every other change, and where only the hash is known.
    fn ban_by_rule(&self, operator: &Operator, process: &GatewayProcess) -> Option<KeyResult> {
        let KeyEdit::Ban(length) = self.change else {
            return None;
        };
        let KeySelector::Values(values) = &self.which else {
            return None;
        };
        let limit = limit_named(process, &self.limit).filter(|limit| limit.bans.is_none())?;
        let key = LimitKey {
            limit: limit.name.clone(),
            values: values.clone(),
        };
        let banned = rules::ban_key(process, operator, key, length, &self.reason);
        let banned = banned.map_err(KeyRequestError::BadValues);
        Some(banned.and_then(|()| key_edit::edit(process, &self.limit, &self.which, KeyEdit::Look)))
    }

    fn entry(&self, action: &'static str, key: String, change: String) -> AuditEntry {
        AuditEntry {
            action,
            target: format!("limit {}", self.limit),
            key,
            change,
            reason: self.reason.clone(),
        }
    }

    /// Returns the change, for the audit line.
    fn act(&self, key: &str) -> String {
        match self.change {
            KeyEdit::Look => format!("looked at {key}"),
            KeyEdit::Clear => format!("cleared {key}"),
            KeyEdit::Use(used) => format!("set to {used} used {key}"),
            KeyEdit::Ban(length) => format!("banned for {} s {key}", length.as_secs()),
        }
    }

    /// Returns the change that failed, for the audit line.
    fn attempt(&self) -> String {
        let key = self.which.shown();
        match self.change {
            KeyEdit::Look => format!("look at {key}"),
            KeyEdit::Clear => format!("clear {key}"),
            KeyEdit::Use(used) => format!("set {key} to {used} used"),
            KeyEdit::Ban(length) => format!("ban {key} for {} s", length.as_secs()),
        }
    }
}

impl AdminAction for KeyRequest {
    /// Runs the request and returns the page with the key's state after it. A change leaves an audit line.
    fn page(&self, operator: &Operator, process: &GatewayProcess) -> AdminPage {
        let refused = self.refuse_wide_ban(process).map(Err);
        let shown = refused.or_else(|| self.ban_by_rule(operator, process));
        let shown =
            shown.unwrap_or_else(|| key_edit::edit(process, &self.limit, &self.which, self.change));
        let shown = match shown {
            Ok(shown) => shown,
            Err(error) => {
                let (status, why) = error.said();
                if let Some(action) = self.change.action() {
                    let entry = self.entry(action, self.which.hash(), self.attempt());
                    audit::note_failed(process, operator, &entry, &why);
                }
                return AdminPage::error(status, &why);
            }
        };
        let page = KeyPage::new(&self.limit, &shown);
        if let Some(action) = self.change.action() {
            let change = self.act(&format!("key {}", page.key));
            let change = change + &rule_view::removed_words(&shown.ended_rules);
            let entry = self.entry(action, page.key.clone(), change);
            let kind = match self.change {
                KeyEdit::Ban(_) => MarkKind::Ban,
                KeyEdit::Look | KeyEdit::Clear | KeyEdit::Use(_) => MarkKind::Key,
            };
            audit::note_and_mark(process, operator, kind, &self.limit, &entry);
        }
        AdminPage::json(&page)
    }
}

impl KeySelector {
    /// Returns the hash of the key; empty where only its values are known, which audit lines do not show.
    fn hash(&self) -> String {
        match self {
            Self::Hash(key) => format!("{:016x}", key.kept_bits()),
            Self::Values(_) => String::new(),
        }
    }

    /// Names the key for the audit line.
    fn shown(&self) -> String {
        match self {
            Self::Hash(_) => format!("key {}", self.hash()),
            Self::Values(_) => "a key by its values".to_owned(),
        }
    }
}

impl KeyRequestError {
    /// Returns the status and the text of the error.
    pub(super) fn said(&self) -> (StatusCode, String) {
        match self {
            Self::NoLimit => (StatusCode::NOT_FOUND, "no such limit; /status names them".to_owned()),
            Self::BadValues(why) | Self::WideBan(why) => (StatusCode::BAD_REQUEST, why.clone()),
            Self::NoBan => (
                StatusCode::CONFLICT,
                "this limit has no ban in the configuration, so only values name the key: write /limits/NAME/keys?value=VALUE".to_owned(),
            ),
            Self::LongBan(max) => (
                StatusCode::BAD_REQUEST,
                format!(
                    "a ban of this limit lasts at most {} s; set a temporary rule, which may last longer (`sluicegate ban`, POST /rules), \
                     or raise its ban.max",
                    max.as_secs()
                ),
            ),
            Self::NoRoom => (
                StatusCode::INSUFFICIENT_STORAGE,
                "there is no room to remember the ban; raise the limit's capacity".to_owned(),
            ),
            Self::NeedsValues => (
                StatusCode::CONFLICT,
                "the counters of this limit are in the store, where only values name a key: write /limits/NAME/keys?value=VALUE".to_owned(),
            ),
            Self::Store(why) => (
                StatusCode::BAD_GATEWAY,
                format!("the store was not told ({why}); this gateway has changed what it counts itself"),
            ),
        }
    }
}

/// Parses the method and the body into a change and its reason.
fn change(method: &Method, body: &[u8]) -> Result<(KeyEdit, String), AdminPage> {
    match *method {
        Method::GET | Method::HEAD => Ok((KeyEdit::Look, String::new())),
        Method::DELETE => Ok((KeyEdit::Clear, String::new())),
        Method::PUT => put(body).map_err(|why| AdminPage::error(StatusCode::BAD_REQUEST, &why)),
        _ => {
            let error = "a key is read by GET, cleared by DELETE, and set by PUT";
            let page = AdminPage::error(StatusCode::METHOD_NOT_ALLOWED, error);
            Err(page.with(ALLOW, "GET, HEAD, DELETE, PUT"))
        }
    }
}

fn put(body: &[u8]) -> Result<(KeyEdit, String), String> {
    const WRITE: &str = r#"write {"used": 0} or {"ban": {"for": "1h", "reason": "…"}}"#;
    let body: PutBody =
        serde_json::from_slice(body).map_err(|error| format!("{error}; {WRITE}"))?;
    match body {
        PutBody {
            used: Some(UsedUnits(used)),
            ban: None,
        } => Ok((KeyEdit::Use(used), String::new())),
        PutBody {
            used: None,
            ban: Some(ban),
        } => {
            let length = read_duration(&ban.length).map_err(|why| format!("{why}; {WRITE}"))?;
            if length < Duration::from_secs(1) {
                return Err("a ban lasts at least 1s".to_owned());
            }
            check_reason(&ban.reason)?;
            Ok((KeyEdit::Ban(length), ban.reason))
        }
        _ => Err(WRITE.to_owned()),
    }
}

/// Parses the hash of a key.
pub(super) fn hash(text: &str) -> Result<KeyHash, BadKey> {
    let hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bits = hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
    bits.map(KeyHash::from_bits).ok_or(BadKey)
}

impl BadKey {
    /// Returns the page that explains the hash.
    pub(super) fn page(self) -> AdminPage {
        let error = "a key is written as 16 hex digits, as /limits/NAME/bans and the access log show it; \
                     or write /limits/NAME/keys?value=VALUE";
        AdminPage::error(StatusCode::BAD_REQUEST, error)
    }
}

/// Parses the values of a query: `value=…`, once for each part of the key, percent-encoded.
pub(super) fn values(query: &str) -> Result<Vec<String>, AdminPage> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let values: Option<Vec<String>> = pairs
        .map(|pair| decoded(pair.strip_prefix("value=")?))
        .collect();
    let values = values.filter(|values| values.len() <= VALUES);
    values.ok_or_else(|| {
        let error = "what may follow the question mark is value=VALUE, once for each part of the key, percent-encoded";
        AdminPage::error(StatusCode::BAD_REQUEST, error)
    })
}

/// The state of a key at a limit, as the answers to requests about keys have it.
#[derive(Serialize)]
pub(super) struct KeyPage {
    limit: String,
    key: String,
    key_values: Option<Vec<String>>,
    at: String,
    decided_by: &'static str,
    next: &'static str,
    admits: bool,
    exempt: Option<&'static str>,
    client_rules: Vec<ClientRuleRow>,
    in_overflow: bool,
    rates: Vec<KeyRate>,
    scaled: Option<ScaledRates>,
    ban: Option<KeyBan>,
    ban_level: u8,
    was_banned: bool,
    /// The temporary rules that banned the key and were removed.
    removed_rules: Vec<String>,
    in_flight: Option<u32>,
}

#[derive(Serialize)]
struct KeyRate {
    rate: String,
    limit: u32,
    used: u32,
    remaining: u32,
    next: Option<f64>,
    reset: f64,
}

/// The ban in force of a key.
#[derive(Serialize)]
pub(super) struct KeyBan {
    left: f64,
    until: String,
    level: u8,
    /// The id of the temporary rule that bans the key.
    rule: Option<String>,
}

impl KeyBan {
    pub(super) fn new(banned: ActiveBan, rule: Option<RuleId>, now: Timestamp) -> Self {
        Self {
            left: seconds(banned.left),
            until: rfc3339::format(banned.until(now)),
            level: banned.level,
            rule: rule.map(|id| id.to_string()),
        }
    }
}

impl KeyPage {
    pub(super) fn new(limit: &str, view: &KeyView) -> Self {
        let KeyView { state, now, .. } = view;
        let statuses = state.decision.statuses();
        Self {
            limit: limit.to_owned(),
            key: format!("{:016x}", view.key.kept_bits()),
            key_values: view.key_values.clone(),
            at: rfc3339::format(*now),
            decided_by: state.by,
            next: state.next.name(),
            admits: !state.next.is_rejection(),
            exempt: state.exempt,
            client_rules: view.client.rows.clone(),
            in_overflow: state.decision.placement() == KeyPlacement::Overflow,
            rates: statuses
                .iter()
                .map(|status| KeyRate {
                    rate: status.rate.to_string(),
                    limit: status.rate.count(),
                    used: status.rate.count().saturating_sub(status.remaining),
                    remaining: status.remaining,
                    next: (status.next_free < NEVER).then(|| seconds(status.next_free)),
                    reset: seconds(status.reset),
                })
                .collect(),
            scaled: view.scaling.as_ref().map(RateScaling::shown),
            ban: (state.banned).map(|banned| KeyBan::new(banned, state.ban_rule, *now)),
            ban_level: state.ban_level,
            was_banned: view.was_banned,
            removed_rules: (view.ended_rules.iter())
                .map(|rule| rule.id.to_string())
                .collect(),
            in_flight: state.in_flight.map(|in_flight| in_flight.permits),
        }
    }
}

impl KeyEdit {
    /// Returns the word of the change in audit lines; `None` for no change.
    fn action(self) -> Option<&'static str> {
        match self {
            Self::Look => None,
            Self::Clear => Some("clear"),
            Self::Use(_) => Some("set"),
            Self::Ban(_) => Some("ban"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a slip changes nobody's key. Method: bodies, values and hashes around the right ones.
    #[test]
    fn a_change_is_written_in_full() {
        let hour = KeyEdit::Ban(Duration::from_secs(3600));
        assert_eq!(put(br#"{"used":0}"#), Ok((KeyEdit::Use(0), String::new())));
        let banned = put(br#"{"ban":{"for":"1h","reason":"spam"}}"#);
        assert_eq!(banned, Ok((hour, "spam".to_owned())));
        let reason = |length| {
            let reason = "ä".repeat(length);
            put(format!(r#"{{"ban":{{"for":"1h","reason":"{reason}"}}}}"#).as_bytes())
        };
        assert!(reason(200).is_ok());
        let long = "a reason has at most 200 characters, and this one has 201";
        assert_eq!(reason(201), Err(long.to_owned()));
        for wrong in [
            &b""[..],
            b"{}",
            b"[]",
            br#"{"used":-1}"#,
            br#"{"used":1,"ban":{"for":"1h"}}"#,
            br#"{"ban":{"for":"1x"}}"#,
            br#"{"ban":{"for":"0s"}}"#,
            br#"{"ban":{"for":"1h","why":"x"}}"#,
        ] {
            assert!(put(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
        assert_eq!(
            values("value=%2B49&value=a+b").ok(),
            Some(vec!["+49".to_owned(), "a+b".to_owned()])
        );
        assert_eq!(values("").ok(), Some(Vec::new()));
        assert!(
            values("n=1").is_err() && values("value=%4").is_err() && values("value=%ff").is_err()
        );
        assert!(hash("0123456789abcdee").is_ok() && hash("0123").is_err());
    }

    /// Goal: an error speaks of JSON, and names no type of this program. Method: values of a wrong type in each place.
    #[test]
    fn errors_of_a_body_name_no_type_of_the_program() {
        for (body, error) in [
            (
                "5",
                "invalid type: integer `5`, expected an object with `used` or `ban`",
            ),
            (
                "[]",
                "invalid length 0, expected an object with `used` or `ban`",
            ),
            (
                "{\"ban\":5}",
                "invalid type: integer `5`, expected an object with `for`",
            ),
            (
                "{\"ban\":{\"for\":5}}",
                "invalid type: integer `5`, expected a string",
            ),
            (
                "{\"used\":\"all\"}",
                "invalid type: string \"all\", expected a JSON number",
            ),
            ("{\"used\":-1}", "`used` is an integer from 0 to 4294967295"),
            (
                "{\"used\":4294967296}",
                "`used` is an integer from 0 to 4294967295",
            ),
        ] {
            let found = put(body.as_bytes()).unwrap_err();
            assert!(found.starts_with(error), "{body}: {found}");
        }
    }
}
