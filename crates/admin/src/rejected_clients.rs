//! Serves `/clients/rejected`: the clients that are rejected most, by address, network, country, autonomous system and user agent.

use std::borrow::Cow;

use http::StatusCode;
use http::request::Parts;
use serde::Serialize;
use sluicegate_base::address::AddressPrefix;
use sluicegate_base::bounds::REJECTED_CLIENTS;
use sluicegate_base::clock;
use sluicegate_base::geo::GeoField;
use sluicegate_base::space_saving::FrequentItem;
use sluicegate_decide::rfc3339;
use sluicegate_limiter::Timestamp;

use super::page::{AdminPage, is_reading, only_reading};
use super::task::AdminTask;
use sluicegate_process::GatewayProcess;
use sluicegate_record::{ClientGroups, RejectedClientsView};

/// The number of clients that are shown by default.
const USUAL: usize = 20;

/// Returns the task of a query; `None` where the path is another one.
pub(super) fn task(request: &Parts, process: &GatewayProcess) -> Option<AdminTask> {
    if request.uri.path() != "/clients/rejected" {
        return None;
    }
    if !is_reading(&request.method) {
        return Some(AdminTask::Show(only_reading()));
    }
    Some(AdminTask::Show(match most(request.uri.query()) {
        Some(most) => page(process, most),
        None => {
            let error = format!(
                "what may follow the question mark is n= and a number from 1 to {REJECTED_CLIENTS}"
            );
            AdminPage::error(StatusCode::BAD_REQUEST, &error)
        }
    }))
}

/// Returns the number of clients of a query; `None` where it has another form.
fn most(query: Option<&str>) -> Option<usize> {
    match query.unwrap_or_default() {
        "" => Some(USUAL),
        query => (query.strip_prefix("n=")?.parse().ok())
            .filter(|most| (1..=REJECTED_CLIENTS).contains(most)),
    }
}

fn page(process: &GatewayProcess, most: usize) -> AdminPage {
    let snapshot = process.shared.snapshot();
    let Some(places) = &snapshot.client_places else {
        let error = "only who has a token is shown clients; set [admin] token_file";
        return AdminPage::error(StatusCode::FORBIDDEN, error);
    };
    let now = clock::now();
    let view = process.shared.recorder.rejected_clients.view(now);
    AdminPage::json(&RejectedPage::new(&view, places.fields(), most, now))
}

#[derive(Serialize)]
struct RejectedPage {
    at: String,
    since: String,
    seconds: u64,
    rejected: u64,
    left_out: u64,
    addresses: Vec<RejectedClient>,
    networks: Vec<RejectedClient>,
    countries: Option<Vec<RejectedClient>>,
    asns: Option<Vec<RejectedClient>>,
    user_agents: Vec<RejectedClient>,
}

/// A client, or a group of clients.
#[derive(Serialize)]
struct RejectedClient {
    name: String,
    /// Certain rejections.
    requests: u64,
    /// Rejections beside these that it may have.
    error: u64,
    share: f64,
}

impl RejectedPage {
    fn new(view: &RejectedClientsView, fields: &[GeoField], most: usize, now: Timestamp) -> Self {
        let all = view.rejected;
        let places = |field, places| {
            let is_known = fields.contains(&field);
            is_known.then(|| RejectedClient::list(places, all, most, String::clone))
        };
        Self {
            at: rfc3339::format(now),
            since: rfc3339::format(view.since),
            seconds: clock::between(view.since, now).as_secs(),
            rejected: all,
            left_out: view.left_out,
            addresses: RejectedClient::list(&view.addresses, all, most, address),
            networks: RejectedClient::list(&view.networks, all, most, ToString::to_string),
            countries: places(GeoField::Country, &view.countries),
            asns: places(GeoField::Asn, &view.asns),
            user_agents: RejectedClient::list(&view.user_agents, all, most, String::clone),
        }
    }
}

impl RejectedClient {
    fn list<T>(
        items: &[FrequentItem<T>],
        all: u64,
        most: usize,
        name: impl Fn(&T) -> String,
    ) -> Vec<Self> {
        let clients = items.iter().take(most).map(|item| Self {
            name: name(&item.item),
            requests: item.at_least(),
            error: item.error,
            // To the tenth of a percent.
            share: (item.at_least() as f64 * 1_000.0 / all.max(1) as f64).round() / 1_000.0,
        });
        clients.collect()
    }
}

/// The names of the groups in which a client is, as the page has them.
#[derive(Serialize)]
pub(super) struct GroupNames<'a> {
    address: String,
    network: String,
    country: Cow<'a, str>,
    asn: Cow<'a, str>,
    user_agent: &'a str,
}

impl<'a> GroupNames<'a> {
    pub(super) fn new(groups: &'a ClientGroups) -> Self {
        Self {
            address: address(&groups.address),
            network: groups.network.to_string(),
            country: groups.place.text(GeoField::Country),
            asn: groups.place.text(GeoField::Asn),
            user_agent: &groups.user_agent,
        }
    }
}

/// Returns an IPv4 address as one, and of IPv6 the network that counts as one client.
fn address(prefix: &AddressPrefix) -> String {
    match prefix.network().is_ipv4() {
        true => prefix.network().to_string(),
        false => prefix.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a query names a number of clients or none. Method: queries around the right ones.
    #[test]
    fn a_query_is_a_number() {
        assert_eq!(most(None), Some(USUAL));
        assert_eq!(most(Some("n=256")), Some(256));
        for wrong in ["n=0", "n=257", "n=", "n", "m=1", "n=1&n=2"] {
            assert_eq!(most(Some(wrong)), None, "{wrong}");
        }
    }
}
