//! Owns what the admin listener says of the clients that are rejected most, `/clients/rejected`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use sluicegate_telemetry::terminal_text::printable;

/// Clients of each group that are shown.
pub(super) const SHOWN_CLIENTS: usize = 5;

/// The clients that are rejected most, in groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RejectedClientList {
    /// The time that it covers, in seconds.
    pub seconds: u64,
    /// The rejected requests of that time.
    pub rejected: u64,
    /// By address, of IPv6 by /64.
    pub addresses: Vec<RejectedClientRow>,
    /// By network.
    pub networks: Vec<RejectedClientRow>,
    /// By country; `None` without a database.
    pub countries: Option<Vec<RejectedClientRow>>,
    /// By autonomous system; `None` without a database.
    pub asns: Option<Vec<RejectedClientRow>>,
    /// By user agent.
    pub user_agents: Vec<RejectedClientRow>,
}

/// A client, or a group of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RejectedClientRow {
    /// Its address, network, country, number or user agent; empty for requests without a user agent.
    pub name: String,
    /// Its rejected requests that are certain.
    pub requests: u64,
    /// Rejected requests beside these that it may have.
    pub error: u64,
    /// Its share of all rejected requests.
    pub share: f64,
}

impl RejectedClientList {
    /// Returns each group with its name; one without a database is empty.
    fn groups(&self) -> impl Iterator<Item = (&'static str, &[RejectedClientRow])> {
        [
            ("address", &*self.addresses),
            ("network", &*self.networks),
            ("country", self.countries.as_deref().unwrap_or_default()),
            ("AS", self.asns.as_deref().unwrap_or_default()),
            ("agent", &*self.user_agents),
        ]
        .into_iter()
    }

    /// Returns the client of each group that is rejected most, on one line; `None` where nothing was rejected.
    pub(super) fn line(&self) -> Option<String> {
        let first = self.groups().filter_map(|(group, rows)| {
            let row = rows.first().filter(|row| row.stands_out())?;
            Some(format!("{group} {} ({})", row.shown_name(), row.percent()))
        });
        let first: Vec<String> = first.collect();
        (self.rejected > 0 && !first.is_empty())
            .then(|| format!("most rejected: {}", first.join(", ")))
    }

    /// Returns every group, a client a line, at most so many of each.
    pub(super) fn lines(&self, most: usize) -> Vec<String> {
        let mut lines = vec![format!(
            "{} rejected requests in {} s",
            self.rejected, self.seconds
        )];
        for (group, rows) in self.groups() {
            for row in rows.iter().filter(|row| row.stands_out()).take(most) {
                let error = match row.error {
                    0 => String::new(),
                    error => format!(" to {}", row.requests + error),
                };
                lines.push(format!(
                    "{group:<8} {:>6}  {}{error}  {}",
                    row.percent(),
                    row.requests,
                    row.shown_name()
                ));
            }
        }
        lines
    }
}

impl RejectedClientRow {
    /// Returns whether it is there for its own rejections, rather than for those of the clients whose place it took.
    fn stands_out(&self) -> bool {
        self.requests > self.error
    }

    fn shown_name(&self) -> Cow<'_, str> {
        match &*self.name {
            "" => "none".into(),
            name => printable(name),
        }
    }

    fn percent(&self) -> String {
        format!("{:.1} %", self.share * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an operator reads who is rejected, in one line and in full. Method: the answer of a gateway without databases, whose heaviest
    /// client sends no user agent, with a client that only took the place of others.
    #[test]
    fn the_most_rejected_clients_are_named() {
        let answer = r#"{ "seconds": 312, "rejected": 4000, "left_out": 0,
            "addresses": [ { "name": "203.0.113.7", "requests": 1000, "error": 0, "share": 0.25 },
                           { "name": "10.0.0.1", "requests": 20, "error": 11, "share": 0.005 },
                           { "name": "10.0.0.2", "requests": 1, "error": 11, "share": 0.0 } ],
            "networks": [ { "name": "203.0.113.0/24", "requests": 1000, "error": 0, "share": 0.25 } ],
            "countries": null, "asns": null,
            "user_agents": [ { "name": "", "requests": 3999, "error": 0, "share": 0.9998 } ] }"#;
        let list: RejectedClientList = serde_json::from_str(answer).unwrap();
        let line = "most rejected: address 203.0.113.7 (25.0 %), network 203.0.113.0/24 (25.0 %), agent none (100.0 %)";
        assert_eq!(list.line().as_deref(), Some(line));
        assert_eq!(
            list.lines(3),
            [
                "4000 rejected requests in 312 s",
                "address  25.0 %  1000  203.0.113.7",
                "address   0.5 %  20 to 31  10.0.0.1",
                "network  25.0 %  1000  203.0.113.0/24",
                "agent    100.0 %  3999  none",
            ]
        );
        assert_eq!(RejectedClientList::default().line(), None);
    }
}
