//! Serves `/history`, the gateway's own figures of the last hour by step and its marks, and `/reloads`, the last reloads with their
//! changes.
//!
//! Each figure is one array over all steps, so that an hour of a usual gateway is some tens of kilobytes. The event stream has the same
//! value: whole at first, then what is new.

mod page;
mod watch;

use http::StatusCode;
use http::request::Parts;
use serde::Serialize;

use super::configuration::ReloadSection;
use super::page::{AdminPage, is_reading, only_reading};
use super::query::decoded;
use super::task::AdminTask;
use sluicegate_process::GatewayProcess;

pub(super) use page::HistoryPage;
pub use watch::HistoryWatch;

/// The `/reloads`, the latest first.
#[derive(Serialize)]
struct ReloadsPage {
    reloads: Vec<ReloadSection>,
}

/// Returns the task of `/history`; `None` where the path is another one.
pub(super) fn task(request: &Parts, process: &GatewayProcess) -> Option<AdminTask> {
    (request.uri.path() == "/history").then(|| {
        AdminTask::Show(if is_reading(&request.method) {
            history(request.uri.query(), process)
        } else {
            only_reading()
        })
    })
}

/// Returns the page of `/reloads`.
pub(super) fn reloads(process: &GatewayProcess) -> AdminPage {
    let reports = process.reloader.reloads().into_iter();
    AdminPage::json(&ReloadsPage {
        reloads: reports.map(ReloadSection::new).collect(),
    })
}

fn history(query: Option<&str>, process: &GatewayProcess) -> AdminPage {
    let Some(since) = parse_since(query.unwrap_or_default()) else {
        let error = "write /history or /history?since=TIME, in milliseconds since 1970 or as 2026-11-21T07:10:38Z";
        return AdminPage::error(StatusCode::BAD_REQUEST, error);
    };
    AdminPage::json_line(&HistoryPage::since(since, process))
}

/// Parses `since=TIME` into milliseconds since 1970; 0 where there is none.
fn parse_since(query: &str) -> Option<u64> {
    if query.is_empty() {
        return Some(0);
    }
    let value = decoded(query.strip_prefix("since=")?)?;
    if let Ok(millis) = value.parse() {
        return Some(millis);
    }
    let at: jiff::Timestamp = value.parse().ok()?;
    u64::try_from(at.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::tests::gateway;
    use super::*;
    use sluicegate_history::MarkKind;

    /// Returns the status and the value of an answer.
    fn answered(target: &str, process: &GatewayProcess) -> (u16, Value) {
        let request = http::Request::get(target).body(()).expect("a request");
        let (parts, ()) = request.into_parts();
        let Some(AdminTask::Show(page)) = task(&parts, process) else {
            panic!("{target} is no page of the history");
        };
        let value = serde_json::from_slice(&page.body).expect("JSON");
        (page.status.as_u16(), value)
    }

    /// Goal: a page gets each figure as one array, and only what is new where it says since when. Method: two steps and a mark; the whole
    /// history, and the part since the first step.
    #[test]
    fn the_history_is_arrays_by_step() {
        let process = gateway(None);
        process.shared.close_history_step();
        (process.shared).mark(MarkKind::ServerDrain, "app", "drained");
        let (status, whole) = answered("/history", &process);
        assert_eq!((status, &whole["first"]), (200, &0.into()));
        let steps = &whole["steps"];
        for figure in ["ended", "seconds", "all", "rejected", "p99", "connections"] {
            assert_eq!(
                steps[figure].as_array().map(Vec::len),
                Some(2),
                "{figure}: {whole}"
            );
        }
        assert_eq!(whole["limits"], serde_json::json!({}));
        let mark = &whole["marks"][0];
        assert_eq!(
            (&mark["kind"], &mark["name"]),
            (&"server-drain".into(), &"app".into())
        );
        let first = steps["ended"][0].as_u64().expect("a time");
        let (_, part) = answered(&format!("/history?since={first}"), &process);
        assert_eq!(
            (
                &part["first"],
                part["steps"]["all"].as_array().map(Vec::len)
            ),
            (&1.into(), Some(1))
        );
        let (_, none) = answered("/history?since=2100-01-01T00%3A00:00Z", &process);
        assert_eq!(none["marks"], serde_json::json!([]));
        for wrong in ["since=", "since=yesterday", "since=-1", "from=1"] {
            let (status, error) = answered(&format!("/history?{wrong}"), &process);
            assert_eq!(status, 400, "{wrong}: {error}");
        }
    }
}
