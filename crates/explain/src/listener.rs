//! Explains a listener at which other proxies ask for decisions.

use serde::Serialize;

use super::text::listed;
use sluicegate_config::rules::{ListenerProtocol, ListenerRules, Rules};

/// A listener in plain words.
#[derive(Debug, Serialize)]
pub struct ListenerExplained {
    /// Its address.
    pub address: String,
    /// The proxies that may ask there.
    pub asked_by: String,
    /// The subject of their questions.
    pub asked_about: &'static str,
    /// The answers.
    pub answers: String,
}

impl ListenerExplained {
    /// Explains a listener; `None` for one whose requests are served, as the routes say.
    pub(super) fn new(listener: &ListenerRules, rules: &Rules) -> Option<Self> {
        let answers = match listener.protocol {
            ListenerProtocol::Http => return None,
            ListenerProtocol::ForwardAuth {
                rejection_status: None,
            } => "204 for a request that its route admits, else the rejection".to_owned(),
            ListenerProtocol::ForwardAuth {
                rejection_status: Some(status),
            } => format!(
                "204 for a request that its route admits, else the rejection as {}, with its own status in X-Sluicegate-Status",
                status.as_u16()
            ),
            ListenerProtocol::RateLimitService => {
                "OK for a descriptor that its route admits, else OVER_LIMIT; where one is over its limit, none is charged".to_owned()
            }
        };
        let asked_about = match listener.protocol {
            ListenerProtocol::RateLimitService => {
                "by Envoy's rate limit service about descriptors; the domain is the path, entries are parameters of the query"
            }
            ListenerProtocol::Http | ListenerProtocol::ForwardAuth { .. } => {
                "about requests that they have received"
            }
        };
        let proxies = rules.client.trusted_proxies.iter();
        let proxies: Vec<String> = proxies.map(ToString::to_string).collect();
        Some(Self {
            address: listener.address.to_string(),
            asked_by: listed(&proxies),
            asked_about,
            answers,
        })
    }

    /// Returns a line for each property.
    pub(super) fn sentences(&self) -> Vec<String> {
        vec![
            format!(
                "Proxies of {} ask {}; nothing is forwarded.",
                self.asked_by, self.asked_about
            ),
            format!("The answer is {}.", self.answers),
        ]
    }
}
