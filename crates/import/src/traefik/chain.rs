//! Names the steps that middlewares are made of. No notation is known here.

use super::paths::PathEdit;
use crate::ledger::EntryId;
use crate::toml::{inline, key, list, quoted};

/// A step of a chain.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MiddlewareStep {
    /// A limit, by its name.
    Limit(String),
    Path(PathEdit),
    /// Only these clients pass, and others get the status.
    Allow(Vec<String>, u16),
    MaxBody(String),
    Headers(MiddlewareHeaders),
    /// A key of the route with its value in TOML.
    Further(&'static str, String),
    ToScheme(SchemeRedirect),
    /// An expression over the URL, with what takes its place and the status.
    ToUrl(String, String, u16),
    /// Attempts at servers.
    Retry(u64),
}

/// A redirect to a scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SchemeRedirect {
    pub(super) scheme: String,
    pub(super) port: Option<String>,
    pub(super) status: u16,
}

/// The chain of a router, each step with the entry that it is made of.
pub(super) type MiddlewareChain = Vec<(Option<EntryId>, MiddlewareStep)>;

/// Fields that are set and removed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MiddlewareHeaders {
    pub(super) request: MiddlewareFields,
    pub(super) response: MiddlewareFields,
}

/// The edits of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MiddlewareFields {
    pub(super) set: Vec<(String, String)>,
    pub(super) remove: Vec<String>,
}

impl MiddlewareFields {
    /// Adds edits that come later.
    pub(super) fn extend(&mut self, later: &Self) {
        for (name, value) in &later.set {
            self.set.retain(|(known, _)| known != name);
            self.remove.retain(|known| known != name);
            self.set.push((name.clone(), value.clone()));
        }
        for name in &later.remove {
            self.set.retain(|(known, _)| known != name);
            if !self.remove.contains(name) {
                self.remove.push(name.clone());
            }
        }
    }

    /// Returns the edits as TOML; `None` where there are none.
    pub(super) fn toml(&self) -> Option<String> {
        let mut keys = Vec::new();
        if !self.set.is_empty() {
            let pairs = self.set.iter();
            let pairs = pairs.map(|(name, value)| format!("{} = {}", key(name), quoted(value)));
            keys.push(format!("set = {}", inline(&pairs.collect::<Vec<_>>())));
        }
        if !self.remove.is_empty() {
            keys.push(format!("remove = {}", list(&self.remove)));
        }
        (!keys.is_empty()).then(|| inline(&keys))
    }
}
