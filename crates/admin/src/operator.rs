//! Names the operator behind a request: the token, and the other end of the connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use sluicegate_config::rules::{AdminRole, AdminToken};

/// The sender of an admin request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operator {
    /// The other end of the connection.
    pub peer: Option<SocketAddr>,
    /// The token of the request; `None` where it has none, or before it is checked.
    pub token: Option<TokenHolder>,
}

/// The name and the role of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenHolder {
    /// The name.
    pub name: Arc<str>,
    /// The role.
    pub role: AdminRole,
}

impl TokenHolder {
    pub(super) fn new(token: &AdminToken) -> Self {
        Self {
            name: Arc::clone(&token.name),
            role: token.role,
        }
    }
}

impl fmt::Display for Operator {
    /// Writes the name of the token and the address, as far as they are known.
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.token, self.peer) {
            (Some(token), Some(peer)) => write!(into, "{} ({peer})", token.name),
            (Some(token), None) => into.write_str(&token.name),
            (None, Some(peer)) => write!(into, "{peer}"),
            (None, None) => into.write_str("somebody"),
        }
    }
}
