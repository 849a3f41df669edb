//! Writes the sample of rejected requests as an event.

use bytes::Bytes;
use serde::Serialize;
use sluicegate_base::address::address_text;
use sluicegate_decide::rfc3339;

use super::event_of;
use crate::key_texts::KeyValuesForm;
use crate::rejected_clients::GroupNames;
use sluicegate_process::GatewayProcess;
use sluicegate_record::TailedRejection;

/// Returns the event of the rejections since the previous call; `None` without any.
pub(super) fn event(process: &GatewayProcess) -> Option<Bytes> {
    let sample = process.shared.recorder.rejections.take();
    if sample.is_empty() {
        return None;
    }
    let form = KeyValuesForm::new(process);
    let mut rows: Vec<RejectionRow<'_>> = sample.iter().map(RejectionRow::new).collect();
    for row in &mut rows {
        row.key_values_masked = form.is_masked();
        if form.is_hidden() {
            row.key_values = &[];
        }
    }
    event_of("rejections", &rows)
}

#[derive(Serialize)]
struct RejectionRow<'a> {
    at: String,
    client: Option<String>,
    groups: Option<GroupNames<'a>>,
    route: Option<&'a str>,
    limit: Option<&'a str>,
    key: Option<String>,
    /// Empty where they are not shown.
    key_values: &'a [String],
    /// True if most of each is hidden.
    key_values_masked: bool,
    outcome: &'static str,
    status: u16,
    /// Seconds.
    retry_after: Option<u64>,
    reason: Option<&'a str>,
}

impl<'a> RejectionRow<'a> {
    fn new(rejection: &'a TailedRejection) -> Self {
        Self {
            at: rfc3339::format(rejection.arrived),
            client: rejection
                .client
                .map(|client| address_text(client).to_string()),
            groups: rejection.groups.as_ref().map(GroupNames::new),
            route: rejection.route.as_deref(),
            limit: rejection.limit.as_deref(),
            // The form of the access log.
            key: rejection.key.map(|key| format!("{:016x}", key.kept_bits())),
            key_values: &rejection.key_values,
            key_values_masked: false,
            outcome: rejection.disposition.as_str(),
            status: rejection.status,
            retry_after: rejection.wait.map(|wait| wait.as_secs().max(1)),
            reason: rejection.reason.as_deref(),
        }
    }
}
