//! Serves `/reload?dry_run=true`: the change that a reload would make, in words.
//!
//! GET asks for it, so a token with the role `read` may. POST does the same, since a reload is asked for by POST: no request with a query
//! ever reloads.

use http::header::ALLOW;
use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;
use sluicegate_base::clock;
use sluicegate_decide::rfc3339;

use super::operator::Operator;
use super::page::{AdminPage, is_reading};
use super::task::{AdminAction, AdminTask};
use sluicegate_process::GatewayProcess;

/// The question for the change that a reload would make.
#[derive(Debug)]
struct DryRunQuery;

#[derive(Serialize)]
struct DryRunPage<'a> {
    at: String,
    dry_run: bool,
    /// The configuration in force, and the time of the last accepted reload or of the start.
    generation: u64,
    loaded_at: String,
    result: &'static str,
    error: Option<&'a str>,
    changes: &'a [String],
    pending_restart: &'a [String],
    warnings: Option<&'a str>,
}

/// Returns the task of a dry run; `None` where the request is another one.
pub(super) fn task(request: &Parts) -> Option<AdminTask> {
    let query = request.uri.query()?;
    if request.uri.path() != "/reload" {
        return None;
    }
    Some(match query {
        "dry_run=true" if is_reading(&request.method) || request.method == Method::POST => {
            AdminTask::Walk(Box::new(DryRunQuery))
        }
        "dry_run=true" => {
            let error = "a dry run of a reload is asked for by GET or POST";
            let page = AdminPage::error(StatusCode::METHOD_NOT_ALLOWED, error);
            AdminTask::Show(page.with(ALLOW, "GET, HEAD, POST"))
        }
        _ => {
            let error = "what may follow the question mark is dry_run=true";
            AdminTask::Show(AdminPage::error(StatusCode::BAD_REQUEST, error))
        }
    })
}

impl AdminAction for DryRunQuery {
    /// Reads the files and returns the page with the change that they would make.
    fn page(&self, _: &Operator, process: &GatewayProcess) -> AdminPage {
        let snapshot = process.shared.snapshot();
        let preview = process.reloader.preview(&process.shared);
        let change = preview.as_ref().ok();
        let error = preview.as_ref().err().map(String::as_str);
        let mut page = AdminPage::json(&DryRunPage {
            at: rfc3339::format(clock::now()),
            dry_run: true,
            generation: snapshot.generation,
            loaded_at: rfc3339::format(process.reloader.loaded_at()),
            result: if error.is_some() { "failed" } else { "ok" },
            error,
            changes: change.map_or(&[], |change| &change.changes),
            pending_restart: change.map_or(&[], |change| &change.pending_restart),
            warnings: change
                .and_then(|change| (!change.warnings.is_empty()).then_some(&*change.warnings)),
        });
        if error.is_some() {
            page.status = StatusCode::UNPROCESSABLE_ENTITY;
        }
        page
    }

    fn needs_token(&self) -> bool {
        false
    }
}
