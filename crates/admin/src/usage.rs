//! Serves `/limits/NAME/usage`: how many keys of a limit used how much of it, from which its number is chosen.
//!
//! The uses are those of the sample that is kept in the background (`sluicegate_usage`). A request for the page walks the limit's table
//! first where the last walk is long enough ago, so that the page is as fresh as the bound on walks allows.

use http::StatusCode;
use http::request::Parts;
use sluicegate_base::clock;

use super::limit::limit_named;
use super::operator::Operator;
use super::page::{AdminPage, JSON, is_reading, only_reading};
use super::task::{AdminAction, AdminTask};
use sluicegate_process::GatewayProcess;
use sluicegate_usage::UsagePage;

/// A parsed query: the limit's name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UsageQuery {
    limit: String,
}

/// Returns the task of a query; `None` where the path is another one.
pub(super) fn task(request: &Parts) -> Option<AdminTask> {
    let path = request.uri.path().strip_prefix("/limits/")?;
    let limit = match path.split_once('/')? {
        ("", _) => return None,
        (limit, "usage") => limit.to_owned(),
        _ => return None,
    };
    Some(if is_reading(&request.method) {
        AdminTask::Walk(Box::new(UsageQuery { limit }))
    } else {
        AdminTask::Show(only_reading())
    })
}

impl AdminAction for UsageQuery {
    /// Walks the table, where that is due, and returns the page.
    fn page(&self, _: &Operator, process: &GatewayProcess) -> AdminPage {
        let Some(active) = limit_named(process, &self.limit) else {
            let error = &br#"{"error":"no such limit; /status names them"}"#[..];
            return AdminPage::new(StatusCode::NOT_FOUND, JSON, error);
        };
        let shared = &process.shared;
        let events = shared.recorder.metrics.events_by_limit();
        let events = events.get(&active.name).copied().unwrap_or(0);
        let view = shared.usage.view(&active, events, clock::now());
        AdminPage::json(&UsagePage::new(&active, &view))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::{gateway, used_limit};
    use super::*;

    /// Goal: the page has the documented shape. Method: two clients that used two and one; the whole of the object.
    #[test]
    fn the_page_counts_keys_by_their_largest_use() {
        let process = gateway(None);
        let now = clock::now();
        let active = used_limit(&process, now);
        let view = process.shared.usage.view(&active, 3, now);
        let mut page = serde_json::to_value(UsagePage::new(&active, &view)).expect("JSON");
        for (name, member) in page.as_object_mut().into_iter().flatten() {
            if matches!(&**name, "at" | "since" | "note") {
                assert_ne!(member.take(), Value::Null);
            }
        }
        let peaks = json!([{ "used": 1, "keys": 1 }, { "used": 2, "keys": 1 }]);
        let rate = |rate, limit, seconds| {
            json!({
                "rate": rate, "limit": limit, "window_seconds": seconds, "keys": 2, "keys_error": 0, "sampled": false,
                "sample_keys": 2, "complete_above": 0, "keys_at_limit": 0, "keys_at_limit_error": 0, "shared_keys": 0,
                "unseen": 0, "peaks": peaks,
            })
        };
        assert_eq!(
            page,
            json!({
                "limit": "otp", "at": null, "since": null, "seconds": 0, "key": "client.ip/32,/64", "algorithm": "sliding-window",
                "action": "reject", "banned_keys": 0, "note": null, "scaled": null, "overflow": null,
                "rates": [rate("5 per 3s", 5, 3), rate("20 per 1m", 20, 60)],
                "shadow_rates": [],
            })
        );
    }

    /// Goal: the path is that of one limit. Method: paths around it.
    #[test]
    fn the_path_names_a_limit() {
        let found = |method: &str, path: &str| {
            let request = http::Request::builder().method(method).uri(path).body(());
            let (parts, ()) = request.expect("a request").into_parts();
            task(&parts)
        };
        let walks = |task| matches!(task, Some(AdminTask::Walk(_)));
        assert!(walks(found("GET", "/limits/otp/usage")));
        assert!(matches!(
            found("POST", "/limits/otp/usage"),
            Some(AdminTask::Show(_))
        ));
        for path in [
            "/limits/usage",
            "/limits//usage",
            "/limits/a/b/usage",
            "/limits/otp/top",
        ] {
            assert!(found("GET", path).is_none(), "{path}");
        }
    }
}
