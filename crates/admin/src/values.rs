//! Serves `/keys?value=…`: the status of one value, or of several that make one key, under every limit that can count by them.
//!
//! An operator who has an address or a number need not know which limits count by it. The limits with one counter for all requests are
//! shown too, since they reject this client as any other. A limit whose key has another number of parts, or whose parts cannot have these
//! values, is listed with the reason. Lists and temporary rules about the address decide ahead of all.

use http::StatusCode;
use http::request::Parts;
use ipnet::IpNet;
use serde::Serialize;
use sluicegate_base::{bounds, clock};
use sluicegate_decide::rfc3339;

use super::client_rules::{ClientRuleRow, ClientRules, network_of_text};
use super::key_edit::{self, KeyEdit, KeyRequestError, KeySelector};
use super::keys::{KeyPage, values};
use super::limit::limit_named;
use super::operator::Operator;
use super::page::{AdminPage, is_reading, only_reading};
use super::task::{AdminAction, AdminTask};
use sluicegate_config::rules::{KeyPart, Name};
use sluicegate_process::GatewayProcess;

/// The values to look up.
#[derive(Debug)]
struct ValuesQuery(Vec<String>);

#[derive(Serialize)]
struct ValuesPage {
    at: String,
    /// The lists and temporary rules about the address among the values.
    client_rules: Vec<ClientRuleRow>,
    limits: Vec<KeyPage>,
    /// Limits with one counter for all requests.
    global: Vec<KeyPage>,
    /// Limits that do not count by these values.
    others: Vec<OtherLimit>,
    /// Limits beyond [`bounds::LIMITS_OF_VALUES`].
    omitted: usize,
}

#[derive(Serialize)]
struct OtherLimit {
    limit: String,
    why: String,
    /// True if its key has further parts, so that it may reject a request with these values.
    further_parts: bool,
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
        Ok(values) => AdminTask::Walk(Box::new(ValuesQuery(values))),
        Err(page) => AdminTask::Show(page),
    })
}

impl ValuesQuery {
    /// Adds the state of the values at one limit to a page.
    fn look(
        &self,
        name: &Name,
        client: Option<IpNet>,
        process: &GatewayProcess,
        page: &mut ValuesPage,
    ) {
        let active = limit_named(process, name);
        let is_global = (active.as_ref()).is_some_and(|active| active.key.0 == [KeyPart::Global]);
        let values = if is_global { &[][..] } else { &self.0[..] };
        let which = KeySelector::Values(values.to_vec());
        match key_edit::edit(process, name, &which, KeyEdit::Look) {
            Ok(view) if is_global => {
                let snapshot = process.shared.snapshot();
                let rules = ClientRules::new(&snapshot, active.as_deref());
                let client = client.map(|client| rules.judge(client));
                let view = view.of_client(client.unwrap_or_default());
                page.global.push(KeyPage::new(name, &view));
            }
            Ok(view) => page.limits.push(KeyPage::new(name, &view)),
            Err(error) => page.others.push(OtherLimit {
                limit: name.to_string(),
                why: match error {
                    KeyRequestError::NoLimit => "a reload has removed it".to_owned(),
                    error => error.said().1,
                },
                further_parts: active.is_some_and(|active| active.has_further_parts(&self.0)),
            }),
        }
    }

    /// Returns the address among the values; `None` where there is none, or more than one.
    fn address(&self) -> Option<IpNet> {
        let mut addresses = self.0.iter().filter_map(|text| network_of_text(text));
        let address = addresses.next()?;
        addresses.next().is_none().then_some(address)
    }
}

impl AdminAction for ValuesQuery {
    /// Looks the values up at each limit. Waits for the store where a limit counts there.
    fn page(&self, _: &Operator, process: &GatewayProcess) -> AdminPage {
        let snapshot = process.shared.snapshot();
        let names: Vec<_> = snapshot.compiled.limits.keys().cloned().collect();
        let client = self.address();
        let judge = |network| ClientRules::new(&snapshot, None).judge(network);
        let mut page = ValuesPage {
            at: rfc3339::format(clock::now()),
            client_rules: client.map(judge).unwrap_or_default().rows,
            limits: Vec::new(),
            global: Vec::new(),
            others: Vec::new(),
            omitted: names.len().saturating_sub(bounds::LIMITS_OF_VALUES),
        };
        // A look at many limits may outlast a reload and must keep no snapshot alive.
        drop(snapshot);
        for name in names.iter().take(bounds::LIMITS_OF_VALUES) {
            self.look(name, client, process, &mut page);
        }
        AdminPage::json(&page)
    }
}
