//! Names the steps that middlewares are made of. No notation is known here.

use super::paths::PathEdit;
use crate::ledger::EntryId;
use crate::model::FieldEdits;

/// A step of a chain.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MiddlewareStep {
    /// A limit, by its name.
    Limit(String),
    Path(PathEdit),
    /// Only these clients pass, and others get the status.
    Allow(Vec<String>, u16),
    MaxBody(String),
    RequestFields(FieldEdits),
    ResponseFields(FieldEdits),
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
