//! Writes `/config` and `/routes`, and runs `POST /reload`.
//!
//! A reload needs no token where none is set: it gives no access, since the file decides the result.

use std::path::PathBuf;

use http::header::ALLOW;
use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;
use sluicegate_base::bounds::RELOAD_PATIENCE;
use sluicegate_decide::rfc3339;
use sluicegate_limiter::Timestamp;

use super::audit::{self, AuditEntry};
use super::operator::Operator;
use super::page::{AdminPage, JSON};
use super::task::{AdminAction, AdminTask};
use sluicegate_config::rules::BrokenFile;
use sluicegate_explain::{RouteExplained, counted};
use sluicegate_process::snapshot::Snapshot;
use sluicegate_process::{GatewayProcess, ReloadReport, Reloader};

/// The configuration in use.
#[derive(Clone, Debug)]
pub(super) struct ConfigurationView {
    /// Its file.
    pub file: PathBuf,
    /// 1 for the first, one more for each that replaced it.
    pub generation: u64,
    /// The time since which it is in use.
    pub loaded_at: Timestamp,
    /// The last attempt to replace it; `None` when there was none.
    pub last_reload: Option<ReloadReport>,
    /// Files that are broken.
    pub broken_files: Vec<BrokenFile>,
    /// The databases of `[geo]`.
    pub databases: Vec<DatabaseView>,
}

/// A database of `[geo]`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DatabaseView {
    /// Its file.
    pub file: String,
    /// The type that its publisher gives it.
    #[serde(rename = "type")]
    pub kind: String,
    /// The time at which it was built, in seconds since 1970.
    pub built_at: u64,
    /// Its size in memory.
    pub bytes: u64,
}

#[derive(Serialize)]
struct ConfigurationPage<'a> {
    file: String,
    generation: u64,
    configuration: &'a serde_json::Value,
    files: Vec<FileSection<'a>>,
}

/// A file of the configuration: its text as written, without secrets.
#[derive(Serialize)]
struct FileSection<'a> {
    file: &'a str,
    text: &'a str,
}

#[derive(Serialize)]
struct RoutesPage {
    routes: Vec<serde_json::Value>,
}

/// The order to read the files again.
#[derive(Debug)]
struct ReloadOrder;

/// A reload, as `/reload` and `/status` write it.
#[derive(Serialize)]
pub(super) struct ReloadSection {
    at: String,
    by: String,
    result: &'static str,
    error: Option<String>,
    changes: Vec<String>,
    changes_omitted: usize,
}

impl ConfigurationView {
    /// Samples the configuration of `snapshot`, which `reloader` put in force.
    pub(super) fn new(reloader: &Reloader, snapshot: &Snapshot) -> Self {
        Self {
            file: reloader.file().to_owned(),
            generation: snapshot.generation,
            loaded_at: reloader.loaded_at(),
            last_reload: reloader.last_reload(),
            broken_files: snapshot.compiled.rules.broken_files(),
            databases: databases(snapshot),
        }
    }
}

fn databases(snapshot: &Snapshot) -> Vec<DatabaseView> {
    let files = snapshot.compiled.rules.geo.databases.iter();
    let view = files.map(|file| DatabaseView {
        file: file.path.display().to_string(),
        kind: file.database.kind(),
        built_at: file.database.built_at(),
        bytes: file.database.len() as u64,
    });
    view.collect()
}

impl ReloadSection {
    pub(super) fn new(report: ReloadReport) -> Self {
        let failed = report.error.is_some();
        Self {
            at: rfc3339::format(report.at),
            by: report.trigger.to_string(),
            result: if failed { "failed" } else { "ok" },
            error: report.error,
            changes: report.changes,
            changes_omitted: report.changes_omitted,
        }
    }
}

/// Returns the page of `/config`: the configuration as written, without secrets.
pub(super) fn page(process: &GatewayProcess) -> AdminPage {
    let snapshot = process.shared.snapshot();
    let written = &snapshot.compiled.rules.written;
    let files = written.files().iter().map(|file| FileSection {
        file: &file.file,
        text: &file.text,
    });
    AdminPage::json(&ConfigurationPage {
        file: process.reloader.file().display().to_string(),
        generation: snapshot.generation,
        configuration: &written.for_readers(),
        files: files.collect(),
    })
}

/// Returns the page of `/routes`.
pub(super) fn routes(process: &GatewayProcess) -> AdminPage {
    let snapshot = process.shared.snapshot();
    let rules = &snapshot.compiled.rules;
    let explained = (rules.routes.iter())
        .map(|route| serde_json::to_value(RouteExplained::without_secrets(route, rules)));
    AdminPage::json(&RoutesPage {
        routes: explained.filter_map(Result::ok).collect(),
    })
}

/// Returns the task of a reload; `None` where the path is another one.
pub(super) fn task(request: &Parts) -> Option<AdminTask> {
    let is_reload = request.uri.path() == "/reload" && request.uri.query().is_none();
    is_reload.then(|| {
        if request.method == Method::POST {
            return AdminTask::Walk(Box::new(ReloadOrder));
        }
        let error = &br#"{"error":"a reload is asked for by POST"}"#[..];
        let page = AdminPage::new(StatusCode::METHOD_NOT_ALLOWED, JSON, error);
        AdminTask::Show(page.with(ALLOW, "POST"))
    })
}

impl AdminAction for ReloadOrder {
    /// Reloads and returns the page with the result.
    fn page(&self, operator: &Operator, process: &GatewayProcess) -> AdminPage {
        let reloader = &process.reloader;
        let ended = reloader
            .requests
            .request_and_wait(Some(operator.to_string()), RELOAD_PATIENCE);
        let Some(report) = reloader.last_reload().filter(|_| ended) else {
            let error = &br#"{"error":"the reload has not ended yet; look at /status"}"#[..];
            return AdminPage::new(StatusCode::SERVICE_UNAVAILABLE, JSON, error);
        };
        let failed = report.error.is_some();
        note(&report, operator, process);
        let mut page = AdminPage::json(&ReloadSection::new(report));
        if failed {
            page.status = StatusCode::UNPROCESSABLE_ENTITY;
        }
        page
    }

    fn needs_token(&self) -> bool {
        false
    }
}

/// Records the reload.
fn note(report: &ReloadReport, operator: &Operator, process: &GatewayProcess) {
    let entry = |change: String| AuditEntry {
        action: "reload",
        target: "configuration".to_owned(),
        change,
        ..AuditEntry::default()
    };
    match &report.error {
        Some(error) => {
            let entry = entry("reload the configuration".to_owned());
            audit::note_failed(process, operator, &entry, error);
        }
        None => {
            let changes = counted(report.changes.len() as u64, "change");
            let entry = entry(format!("reloaded the configuration, {changes}"));
            audit::note(process, operator, &entry);
        }
    }
}
