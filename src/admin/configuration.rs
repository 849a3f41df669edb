//! Writes `/config` and `/routes`, and runs `POST /reload`.
//!
//! A reload needs no token where none is set: it gives no access, since the file decides the result.

use http::{Method, StatusCode};
use serde::Serialize;

use super::view::{AdminView, ReloadView};
use super::{AdminPage, JSON};
use crate::rfc3339;

/// A `POST /reload`.
#[derive(Debug)]
pub(super) struct ReloadOrder;

#[derive(Serialize)]
struct ConfigurationPage<'a> {
    file: Option<String>,
    generation: u64,
    configuration: &'a serde_json::Value,
}

#[derive(Serialize)]
struct RoutesPage {
    routes: Vec<serde_json::Value>,
}

/// A reload, as `/reload` and `/status` write it.
#[derive(Serialize)]
pub(super) struct ReloadSection {
    at: String,
    result: &'static str,
    error: Option<String>,
    changes: Vec<String>,
}

impl ReloadSection {
    pub(super) fn of(view: ReloadView) -> Self {
        let result = if view.result.is_ok() { "ok" } else { "failed" };
        Self {
            at: rfc3339::format(view.at),
            result,
            error: view.result.err(),
            changes: view.changes,
        }
    }
}

/// Returns the page of `/config`: the configuration as written, without secrets.
pub(super) fn page(view: &dyn AdminView) -> AdminPage {
    let configuration = view.configuration();
    AdminPage::json(&ConfigurationPage {
        file: configuration.file.map(|file| file.display().to_string()),
        generation: configuration.generation,
        configuration: &view.written(),
    })
}

/// Returns the page of `/routes`.
pub(super) fn routes(view: &dyn AdminView) -> AdminPage {
    let routes = view.routes_explained();
    AdminPage::json(&RoutesPage { routes })
}

impl ReloadOrder {
    /// Parses a reload; an error page where the method is another one.
    pub(super) fn of(path: &str, method: &Method) -> Option<Result<Self, AdminPage>> {
        (path == "/reload").then(|| {
            if method == Method::POST {
                return Ok(Self);
            }
            let error = &br#"{"error":"a reload is asked for by POST"}"#[..];
            let page = AdminPage::new(StatusCode::METHOD_NOT_ALLOWED, JSON, error);
            Err(page.with(http::header::ALLOW, "POST"))
        })
    }

    /// Reloads and returns the page with the result.
    pub(super) fn page(&self, view: &dyn AdminView) -> AdminPage {
        let Some(report) = view.reload() else {
            let error = &br#"{"error":"the reload has not ended yet; look at /status"}"#[..];
            return AdminPage::new(StatusCode::SERVICE_UNAVAILABLE, JSON, error);
        };
        let failed = report.result.is_err();
        let mut page = AdminPage::json(&ReloadSection::of(report));
        if failed {
            page.status = StatusCode::UNPROCESSABLE_ENTITY;
        }
        page
    }
}
