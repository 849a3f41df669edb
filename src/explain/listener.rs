//! Explains a listener at which other proxies ask for decisions.

use serde::Serialize;

use super::text::listed;
use crate::config::rules::{ListenerProtocol, ListenerRules, Rules};

/// A listener in plain words.
#[derive(Debug, Serialize)]
pub struct ListenerExplained {
    /// Its address.
    pub address: String,
    /// The proxies that may ask there.
    pub asked_by: String,
    /// The answers.
    pub answers: String,
}

impl ListenerExplained {
    /// Explains a listener; `None` for one whose requests are served, as the routes say.
    pub(super) fn of(listener: &ListenerRules, rules: &Rules) -> Option<Self> {
        let ListenerProtocol::ForwardAuth { rejection_status } = listener.protocol else {
            return None;
        };
        let proxies = rules.client.trusted_proxies.iter();
        let proxies: Vec<String> = proxies.map(ToString::to_string).collect();
        let answers = match rejection_status {
            None => "204 for a request that its route admits, else the rejection".to_owned(),
            Some(status) => format!(
                "204 for a request that its route admits, else the rejection as {}, with its own status in X-Sluicegate-Status",
                status.as_u16()
            ),
        };
        Some(Self {
            address: listener.address.to_string(),
            asked_by: listed(&proxies),
            answers,
        })
    }

    /// Returns a line for each property.
    pub(super) fn sentences(&self) -> Vec<String> {
        vec![
            format!(
                "Proxies of {} ask here about requests that they have received; nothing is forwarded.",
                self.asked_by
            ),
            format!("The answer is {}.", self.answers),
        ]
    }
}
