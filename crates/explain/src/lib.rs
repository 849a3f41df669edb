//! Explains a configuration in plain sentences: each limit, each route, and the treatment of one request.
//!
//! The explanation comes from the compiled rules and from the router, the lists and the key parts that requests use, so it
//! cannot say something that the gateway does not do. Only the tables have the minimum size: nothing is counted in them, and the
//! explanation of a limit of a million keys needs no memory for them.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod action;
mod activation;
mod effect;
mod key;
mod limit;
mod listener;
mod penalty;
mod request;
mod route;
mod rule_text;
mod shape;
mod shared;
mod text;
mod tier;

use serde::Serialize;
use sluicegate_limiter::{Capacity, Seed, Timestamp};

use sluicegate_config::rules::Rules;
use sluicegate_config::{Loaded, MemoryPlan};
use sluicegate_decide::admission::KeySeed;
use sluicegate_decide::compiled_rules::CompiledRules;

pub use effect::EnforcedKeys;
pub use limit::LimitExplained;
pub use listener::ListenerExplained;
pub use request::{BadRequest, RequestExplained, RequestQuestion};
pub use route::RouteExplained;
pub use text::{count, counted, counted_with, span};

/// The explanation of a configuration. Its `Display` is for a terminal, its `Serialize` for programs.
#[derive(Debug, Serialize)]
pub struct ConfigExplanation {
    /// Every limit, by name.
    pub limits: Vec<LimitExplained>,
    /// Every list, by name.
    pub lists: Vec<ListExplained>,
    /// Every route, in the order of the file.
    pub routes: Vec<RouteExplained>,
    /// The listeners at which other proxies ask for decisions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<ListenerExplained>,
    /// The maximum memory of all of it.
    pub memory: MemoryPlan,
    /// Probable mistakes: pointless rates, routes that others shadow, unused items.
    pub warnings: Vec<String>,
    /// The explanation of the request in question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestExplained>,
}

/// A list of clients.
#[derive(Debug, Serialize)]
pub struct ListExplained {
    /// Its name.
    pub name: String,
    /// Number of distinct blocks.
    pub blocks: usize,
    /// Returns its size in bytes.
    pub memory_bytes: usize,
}

impl ConfigExplanation {
    /// Explains a configuration, and the treatment of a request, if there is one.
    ///
    /// # Errors
    /// The request cannot be explained.
    pub fn new(loaded: &Loaded, question: Option<&RequestQuestion>) -> Result<Self, BadRequest> {
        let rules = &loaded.rules;
        let seed = KeySeed::from_seed(Seed::from_bytes([0; 16]));
        let request = question
            .map(|question| {
                let compiled = compiled(rules, &seed);
                RequestExplained::new(&compiled, &seed, EnforcedKeys::Unknown, question)
            })
            .transpose()?;
        let memory = MemoryPlan::new(rules);
        let limits = rules.limits.iter();
        let lists = rules.lists.iter().map(|(name, list)| ListExplained {
            name: name.to_string(),
            blocks: list.len(),
            memory_bytes: list.bytes(),
        });
        Ok(Self {
            limits: limits
                .map(|(name, limit)| LimitExplained::new(name, limit, rules))
                .collect(),
            lists: lists.collect(),
            routes: rules
                .routes
                .iter()
                .map(|route| RouteExplained::new(route, rules))
                .collect(),
            listeners: rules
                .listeners
                .iter()
                .filter_map(|listener| ListenerExplained::new(listener, rules))
                .collect(),
            warnings: loaded
                .warnings
                .iter()
                .map(ToString::to_string)
                .chain(memory.warning())
                .collect(),
            memory,
            request,
        })
    }
}

/// Returns the compiled rules of the gateway, with tables for one key; the seed is no secret.
fn compiled(rules: &Rules, seed: &KeySeed) -> CompiledRules {
    let mut rules = rules.clone();
    if let Ok(least) = Capacity::new(1) {
        for limit in rules.limits.values_mut() {
            limit.capacity = least;
        }
    }
    CompiledRules::alone(rules, seed, Timestamp::from_nanos(0))
}
