//! Serves `/keys?value=…`: the status of one value, or of several that make one key, under every limit that can count by them.
//!
//! An operator who has an address or a number need not know which limits count by it. A limit whose key has another number of parts, or
//! whose parts cannot have these values, is listed with the reason.

use http::StatusCode;
use http::request::Parts;
use serde::Serialize;
use sluicegate_base::{bounds, clock};

use super::key_edit;
use super::keys::{KeyEdit, KeyPage, KeyRequestError, KeySelector, values};
use super::{AdminAction, AdminPage, AdminTask, is_reading, only_reading};
use crate::process::GatewayProcess;
use crate::rfc3339;

/// The values to look up.
#[derive(Debug)]
pub(super) struct ValuesQuery(Vec<String>);

#[derive(Serialize)]
struct ValuesPage {
    at: String,
    limits: Vec<KeyPage>,
    /// Limits that do not count by these values.
    others: Vec<OtherLimit>,
    /// Limits beyond [`bounds::LIMITS_OF_VALUES`].
    omitted: usize,
}

#[derive(Serialize)]
struct OtherLimit {
    limit: String,
    why: String,
}

/// Returns the task of a look-up; `None` where the path is another one.
pub(super) fn task(request: &Parts) -> Option<AdminTask> {
    if request.uri.path() != "/keys" {
        return None;
    }
    if !is_reading(&request.method) {
        return Some(AdminTask::Show(only_reading()));
    }
    Some(match values(request.uri.query().unwrap_or_default()) {
        Ok(values) if values.is_empty() => AdminTask::Show(AdminPage::error(
            StatusCode::BAD_REQUEST,
            "write /keys?value=VALUE, once for each part of the key, percent-encoded",
        )),
        Ok(values) => AdminTask::Walk(AdminAction::Values(ValuesQuery(values))),
        Err(page) => AdminTask::Show(page),
    })
}

impl ValuesQuery {
    /// Looks the values up at each limit. Waits for the store where a limit counts there.
    pub(super) fn page(&self, process: &GatewayProcess) -> AdminPage {
        let snapshot = process.shared.snapshot();
        let names: Vec<_> = snapshot.limits.keys().cloned().collect();
        // A look at many limits may outlast a reload and must keep no snapshot alive.
        drop(snapshot);
        let which = KeySelector::Values(self.0.clone());
        let (mut limits, mut others) = (Vec::new(), Vec::new());
        for name in names.iter().take(bounds::LIMITS_OF_VALUES) {
            match key_edit::edit(process, name, &which, KeyEdit::Look) {
                Ok(view) => limits.push(KeyPage::of(name, &view)),
                Err(error) => others.push(OtherLimit {
                    limit: name.to_string(),
                    why: match error {
                        KeyRequestError::NoLimit => "a reload has removed it".to_owned(),
                        error => error.said().1,
                    },
                }),
            }
        }
        AdminPage::json(&ValuesPage {
            at: rfc3339::format(clock::now()),
            limits,
            others,
            omitted: names.len().saturating_sub(bounds::LIMITS_OF_VALUES),
        })
    }
}
