//! Writes a line for each change by an operator: the operator, the object, the change, its result and its reason.
//!
//! The lines are JSON in the stream of `[log] audit`; without one they are text in the process log.

use std::net::SocketAddr;

use http::StatusCode;
use http::request::Parts;
use serde::Serialize;
use sluicegate_base::clock;
use sluicegate_decide::rfc3339;
use tracing::{info, warn};

use super::operator::Operator;
use super::page::AdminPage;
use sluicegate_history::MarkKind;
use sluicegate_process::GatewayProcess;

/// A change by an operator, done or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AuditEntry {
    /// The kind of the change, a word: `ban`.
    pub action: &'static str,
    /// The object: `limit otp`.
    pub target: String,
    /// The hash of the key that is changed; empty where the change is not about one.
    pub key: String,
    /// The change in words, without its subject: `cleared key 8a3b0c55f1d2e97c`; of a change that failed in the infinitive.
    pub change: String,
    /// The reason that the operator gives; empty without one.
    pub reason: String,
}

impl AuditEntry {
    /// Returns the change and its reason, as the history and the process log have them.
    pub(super) fn words(&self) -> String {
        format!("{}{}", self.change, reason(self))
    }
}

#[derive(Serialize)]
struct AuditLine<'a> {
    time: String,
    name: Option<&'a str>,
    role: Option<&'static str>,
    client: Option<SocketAddr>,
    action: &'static str,
    target: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    key: &'a str,
    result: &'static str,
    change: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// The result of a change.
#[derive(Clone, Copy)]
enum AuditResult<'a> {
    Done,
    Failed(&'a str),
    Refused(&'a str),
}

/// Records a change.
pub(super) fn note(process: &GatewayProcess, operator: &Operator, entry: &AuditEntry) {
    if !write(process, operator, entry, AuditResult::Done) {
        info!("audit: {}: {operator} {}", entry.target, entry.words());
    }
}

/// Records a change, and marks it in the history as one of the object of this name.
pub(super) fn note_and_mark(
    process: &GatewayProcess,
    operator: &Operator,
    kind: MarkKind,
    name: &str,
    entry: &AuditEntry,
) {
    note(process, operator, entry);
    let mut text = format!("{}: {}.", entry.target, entry.words());
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    process.shared.mark(kind, name, &text);
}

/// Records a change that failed, with the cause.
pub(super) fn note_failed(
    process: &GatewayProcess,
    operator: &Operator,
    entry: &AuditEntry,
    cause: &str,
) {
    if !write(process, operator, entry, AuditResult::Failed(cause)) {
        let AuditEntry { target, change, .. } = entry;
        let reason = reason(entry);
        warn!("audit: {target}: {operator} could not {change}: {cause}{reason}");
    }
}

/// Returns the page that refuses a change to a token that may only read, and records the attempt.
pub(super) fn refuse(process: &GatewayProcess, operator: &Operator, request: &Parts) -> AdminPage {
    let entry = AuditEntry {
        action: "request",
        // A query may have the values of a key.
        target: request.uri.path().to_owned(),
        change: request.method.to_string(),
        ..AuditEntry::default()
    };
    let cause = "the role of the token is read";
    if !write(process, operator, &entry, AuditResult::Refused(cause)) {
        let AuditEntry { target, change, .. } = &entry;
        warn!("audit: {target}: {operator} may not {change}: {cause}");
    }
    AdminPage::error(
        StatusCode::FORBIDDEN,
        "this token has the role read in [admin] token_file, and a change needs the role act",
    )
}

/// Writes the line to the stream of audit lines. Returns whether there is one.
fn write(
    process: &GatewayProcess,
    operator: &Operator,
    entry: &AuditEntry,
    result: AuditResult<'_>,
) -> bool {
    let token = operator.token.as_ref();
    let (name, error) = match result {
        AuditResult::Done => ("ok", None),
        AuditResult::Failed(cause) => ("failed", Some(cause)),
        AuditResult::Refused(cause) => ("refused", Some(cause)),
    };
    let line = AuditLine {
        time: rfc3339::format(clock::now()),
        name: token.map(|token| &*token.name),
        role: token.map(|token| token.role.as_str()),
        client: operator.peer,
        action: entry.action,
        target: &entry.target,
        key: &entry.key,
        result: name,
        change: &entry.change,
        reason: &entry.reason,
        error,
    };
    // Text and numbers can always be written.
    let line = serde_json::to_vec(&line).unwrap_or_default();
    process.shared.recorder.audit.record(&line)
}

fn reason(entry: &AuditEntry) -> String {
    match entry.reason.as_str() {
        "" => String::new(),
        reason => format!(", reason {reason:?}"),
    }
}
