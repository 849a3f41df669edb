//! Decides which hosts need a route for the paths that no other route of them takes.
//!
//! The gateway looks for a route among those of a host, then among those of wider hosts. nginx chooses a server block for a host, and never
//! another one for a path. So a host is closed by a route for all paths where a wider host has routes.

use crate::cells::covers_host;
use crate::model::{Route, RouteAction};

/// The path of a route for all paths.
pub(crate) const ALL_PATHS: &str = "/*";

/// Returns true if a host is among those of a wider one. `None` is every host.
pub(crate) fn has_wider<'h>(host: &str, all: impl IntoIterator<Item = Option<&'h str>>) -> bool {
    let is_wider =
        |other: Option<&str>| other.is_none_or(|other| other != host && covers_host(other, host));
    all.into_iter().any(is_wider)
}

/// Returns the route that closes a host.
pub(crate) fn closing_route(host: &str) -> Route {
    let action = RouteAction::Respond {
        status: 404,
        body: String::new(),
    };
    Route {
        host: Some(host.to_owned()),
        ..Route::new(ALL_PATHS.to_owned(), action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a host is closed where the gateway would go on to another one. Method: every host, a wildcard, the host itself, others.
    #[test]
    fn wider_hosts_are_known() {
        assert!(has_wider("a.test", [Some("a.test"), None]));
        assert!(has_wider("a.test", [Some("*.test")]));
        assert!(has_wider("*.a.test", [Some("*.test")]));
        assert!(!has_wider("*.test", [Some("*.test"), Some("a.test")]));
        assert!(!has_wider("a.test", [Some("b.test"), Some("*.a.test")]));
    }
}
