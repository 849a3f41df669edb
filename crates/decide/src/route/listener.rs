//! Matches the listener by which a request came.
//!
//! The client chooses it by its connection, and no field of a request contradicts it.

use std::cmp::Reverse;

use sluicegate_config::rules::Name;

/// The listener by which a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestListener<'a> {
    /// It is not known, as in a log: the request stands for those of all listeners that a route takes.
    Unknown,
    /// The one with this name; `None` for one without.
    Known(Option<&'a str>),
}

/// The specificity of a condition on the listener: fewer names are more specific.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ListenerRank {
    Any,
    Named(Reverse<usize>),
}

impl RequestListener<'_> {
    /// Returns whether it is one of these; any is where none is named.
    pub(super) fn is_of(self, names: &[Name]) -> bool {
        match self {
            Self::Unknown => true,
            Self::Known(Some(name)) => names.is_empty() || names.iter().any(|one| **one == *name),
            Self::Known(None) => names.is_empty(),
        }
    }
}

impl ListenerRank {
    pub(super) fn new(names: &[Name]) -> Self {
        match names.len() {
            0 => Self::Any,
            count => Self::Named(Reverse(count)),
        }
    }
}
