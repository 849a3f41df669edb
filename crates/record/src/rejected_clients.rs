//! Counts rejected requests by client: by address, network, country, autonomous system and user agent, for operators who ask who attacks.
//!
//! Each of them is a [`SpaceSaving`] of bounded size, so an attacker with many addresses or many user agents erases no other client that
//! has more than a share of 1/[`REJECTED_CLIENTS`] of all rejections. What is shown covers the present period and the one before.
//!
//! # Concurrency
//! A rejected request tries a lock once; one that does not get it is left out, and counted. Which requests those are does not depend on
//! their client, so the shares stay right. Other requests do nothing.
//!
//! # Limits
//! [`REJECTED_CLIENTS`] places for each of them in both periods, with [`REJECTED_USER_AGENT`] bytes of a user agent: at most half a
//! megabyte.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::header::USER_AGENT;
use sluicegate_base::address::{AddressPrefix, PrefixBits, prefix};
use sluicegate_base::bounds::{REJECTED_CLIENTS, REJECTED_PERIOD, REJECTED_USER_AGENT};
use sluicegate_base::clock;
use sluicegate_base::geo::{GeoField, GeoPlace};
use sluicegate_base::space_saving::{FrequentItem, SpaceSaving};
use sluicegate_limiter::Timestamp;

use super::outcome::Outcome;

/// The networks that clients are counted by beside their addresses: what an operator of a network usually assigns as a whole.
const NETWORK: PrefixBits = PrefixBits { v4: 24, v6: 48 };

/// The rejected requests of the last two periods by client.
#[derive(Debug, Default)]
pub struct RejectedClients {
    periods: Mutex<Option<Periods>>,
    left_out: AtomicU64,
}

#[derive(Debug)]
struct Periods {
    present: RejectionCounts,
    previous: Option<RejectionCounts>,
}

/// The counts of one period.
#[derive(Debug)]
struct RejectionCounts {
    begun: Timestamp,
    rejected: u64,
    left_out: u64,
    addresses: SpaceSaving<AddressPrefix>,
    networks: SpaceSaving<AddressPrefix>,
    countries: SpaceSaving<String>,
    asns: SpaceSaving<String>,
    user_agents: SpaceSaving<String>,
}

/// The groups by which a client is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientGroups {
    /// The address, of IPv6 a /64.
    pub address: AddressPrefix,
    /// The network.
    pub network: AddressPrefix,
    /// Country and autonomous system.
    pub place: GeoPlace,
    /// The user agent, printable; empty without one.
    pub user_agent: String,
}

/// The counts, those with most rejections first.
#[derive(Clone, Debug)]
pub struct RejectedClientsView {
    /// The time since which requests are counted.
    pub since: Timestamp,
    /// The rejected requests that were counted.
    pub rejected: u64,
    /// The rejected requests that were not counted, since the lock was held.
    pub left_out: u64,
    /// By address, of IPv6 by /64.
    pub addresses: Vec<FrequentItem<AddressPrefix>>,
    /// By network of /24 or /48.
    pub networks: Vec<FrequentItem<AddressPrefix>>,
    /// By the code of the country.
    pub countries: Vec<FrequentItem<String>>,
    /// By the number of the autonomous system.
    pub asns: Vec<FrequentItem<String>>,
    /// By user agent, printable; empty for requests without one.
    pub user_agents: Vec<FrequentItem<String>>,
}

impl RejectedClients {
    /// Counts the request, if it was rejected and operators are shown clients.
    #[inline]
    pub(super) fn record(&self, outcome: &Outcome<'_>) {
        if outcome.client_places.is_some() && outcome.disposition.is_rejection() {
            self.add(outcome);
        }
    }

    #[cold]
    fn add(&self, outcome: &Outcome<'_>) {
        // Before the lock is tried: it takes a microsecond.
        let Some(groups) = ClientGroups::new(outcome) else {
            return;
        };
        let Ok(mut periods) = self.periods.try_lock() else {
            // Relaxed, here and below: a count that publishes nothing.
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let periods = self.at(&mut periods, outcome.arrived);
        periods.present.add(&groups);
    }

    /// Returns the counts at `now`.
    #[must_use]
    pub fn view(&self, now: Timestamp) -> RejectedClientsView {
        let mut periods = self.lock();
        let periods = self.at(&mut periods, now);
        periods.present.left_out += self.left_out.swap(0, Ordering::Relaxed);
        let none = RejectionCounts::new(periods.present.begun);
        let previous = periods.previous.as_ref().unwrap_or(&none);
        let present = &periods.present;
        RejectedClientsView {
            since: previous.begun,
            rejected: previous.rejected + present.rejected,
            left_out: previous.left_out + present.left_out,
            addresses: previous.addresses.joined(&present.addresses),
            networks: previous.networks.joined(&present.networks),
            countries: previous.countries.joined(&present.countries),
            asns: previous.asns.joined(&present.asns),
            user_agents: previous.user_agents.joined(&present.user_agents),
        }
    }

    /// Returns the periods at `now`: the present one is younger than [`REJECTED_PERIOD`], and the one before is adjacent to it.
    fn at<'p>(&self, periods: &'p mut Option<Periods>, now: Timestamp) -> &'p mut Periods {
        let periods = periods.get_or_insert_with(|| Periods {
            present: RejectionCounts::new(now),
            previous: None,
        });
        let age = clock::between(periods.present.begun, now);
        if age >= REJECTED_PERIOD {
            let left_out = self.left_out.swap(0, Ordering::Relaxed);
            let ended = std::mem::replace(&mut periods.present, RejectionCounts::new(now));
            periods.previous = (age < 2 * REJECTED_PERIOD).then_some(RejectionCounts {
                left_out: ended.left_out + left_out,
                ..ended
            });
        }
        periods
    }

    fn lock(&self) -> MutexGuard<'_, Option<Periods>> {
        // A thread that panicked has left out a count at most.
        self.periods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RejectionCounts {
    fn new(begun: Timestamp) -> Self {
        Self {
            begun,
            rejected: 0,
            left_out: 0,
            addresses: SpaceSaving::new(REJECTED_CLIENTS),
            networks: SpaceSaving::new(REJECTED_CLIENTS),
            countries: SpaceSaving::new(REJECTED_CLIENTS),
            asns: SpaceSaving::new(REJECTED_CLIENTS),
            user_agents: SpaceSaving::new(REJECTED_CLIENTS),
        }
    }

    fn add(&mut self, groups: &ClientGroups) {
        self.rejected += 1;
        self.addresses.add(&groups.address);
        self.networks.add(&groups.network);
        self.countries.add(&*groups.place.text(GeoField::Country));
        self.asns.add(&*groups.place.text(GeoField::Asn));
        self.user_agents.add(groups.user_agent.as_str());
    }
}

impl ClientGroups {
    /// Returns the groups of the client of a request; `None` where operators are not shown clients.
    pub(super) fn new(outcome: &Outcome<'_>) -> Option<Self> {
        let client = outcome.client?;
        Some(Self {
            address: prefix(client, PrefixBits::default()),
            network: prefix(client, NETWORK),
            place: outcome.client_places?.find(client),
            user_agent: user_agent(outcome),
        })
    }
}

/// Returns the beginning of the user agent: printable ASCII as it is, other bytes as `\xNN`.
fn user_agent(outcome: &Outcome<'_>) -> String {
    let field = outcome.fields.and_then(|fields| fields.get(&USER_AGENT));
    let bytes = field.as_ref().map_or(&[][..], |field| field.as_bytes());
    let mut text = String::with_capacity(bytes.len().min(REJECTED_USER_AGENT));
    for byte in bytes {
        if text.len() + r"\xNN".len() > REJECTED_USER_AGENT {
            text.push('…');
            break;
        }
        match byte {
            b' '..=b'~' => text.push(char::from(*byte)),
            // Writing to a string does not fail.
            _ => drop(write!(text, "\\x{byte:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;
    use sluicegate_base::geo::GeoDatabases;
    use sluicegate_base::received::ReceivedFields;

    use super::super::example::{Example, refused};
    use super::*;

    /// A rejected request of this client with this user agent, at this time.
    fn reject(clients: &RejectedClients, client: [u8; 4], agent: &[u8], at: Timestamp) {
        let (route, verdict) = refused();
        let mut fields = ReceivedFields::new();
        let agent = HeaderValue::from_bytes(agent).expect("a value");
        fields.append(USER_AGENT, agent);
        let example = Example {
            client: Some(client.into()),
            verdict: Some(&verdict),
            route: Some(&route),
            fields: Some(&fields),
            ..Example::default()
        };
        let places = GeoDatabases::default();
        clients.record(&Outcome {
            arrived: at,
            client_places: Some(&places),
            ..example.outcome()
        });
    }

    fn first<T: ToString>(items: &[FrequentItem<T>]) -> (String, u64) {
        let first = items.first().expect("an item");
        (first.item.to_string(), first.at_least())
    }

    /// Goal: an attacker with many addresses and user agents hides no heavy client. Method: three clients in a stream of 3,000 others, each
    /// with a user agent of its own; then the periods that follow.
    #[test]
    fn the_heaviest_clients_are_shown_for_two_periods() {
        let clients = RejectedClients::default();
        let begun = Timestamp::from_secs(1_800_000_000);
        let after = |seconds| begun.saturating_add(Duration::from_secs(seconds));
        for number in 0..3_000_u32 {
            let [_, high, middle, low] = number.to_be_bytes();
            let agent = format!("agent {number}");
            reject(&clients, [10, high, middle, low], agent.as_bytes(), begun);
            if number % 3 == 0 {
                reject(&clients, [203, 0, 113, 7], b"curl/8", begun);
            }
        }
        let view = clients.view(after(1));
        assert_eq!(
            (view.rejected, view.left_out, view.since),
            (4_000, 0, begun)
        );
        let (address, requests) = first(&view.addresses);
        assert!(address == "203.0.113.7/32" && requests > 980, "{requests}");
        assert_eq!(first(&view.networks).0, "203.0.113.0/24");
        let (agent, requests) = first(&view.user_agents);
        assert!(agent == "curl/8" && requests > 980, "{requests}");
        assert_eq!(first(&view.countries), ("unknown".to_owned(), 4_000));
        assert!(view.addresses.len() <= 2 * REJECTED_CLIENTS);

        let period = REJECTED_PERIOD.as_secs();
        reject(&clients, [203, 0, 113, 7], b"curl/8", after(period));
        let view = clients.view(after(period + 1));
        assert_eq!((view.rejected, view.since), (4_001, begun));
        assert!(first(&view.addresses).1 > 980);
        let view = clients.view(after(2 * period));
        assert_eq!((view.rejected, view.since), (1, after(period)));
        assert_eq!(clients.view(after(5 * period)).rejected, 0);
    }

    /// Goal: nothing that a client sends makes a line long or acts on a terminal. Method: a long user agent, and one with bytes that are no
    /// text.
    #[test]
    fn user_agents_are_short_and_printable() {
        let clients = RejectedClients::default();
        let now = Timestamp::from_secs(1_800_000_000);
        reject(&clients, [203, 0, 113, 7], &b"x".repeat(5_000), now);
        reject(&clients, [203, 0, 113, 7], b"\xff\tend", now);
        let agents = clients.view(now).user_agents;
        let long = agents.iter().find(|agent| agent.item.starts_with('x'));
        assert!(long.expect("it").item.len() <= REJECTED_USER_AGENT + '…'.len_utf8());
        assert!(agents.iter().any(|agent| agent.item == r"\xff\x09end"));
    }

    /// Goal: nothing is counted where nobody is shown clients, nor for other requests. Method: both.
    #[test]
    fn only_rejections_are_counted_and_only_where_they_are_shown() {
        let clients = RejectedClients::default();
        let (route, verdict) = refused();
        let rejected = Example {
            verdict: Some(&verdict),
            route: Some(&route),
            ..Example::default()
        };
        clients.record(&rejected.outcome());
        let places = GeoDatabases::default();
        clients.record(&Outcome {
            client_places: Some(&places),
            ..Example::default().outcome()
        });
        assert!(clients.lock().is_none());
    }
}
