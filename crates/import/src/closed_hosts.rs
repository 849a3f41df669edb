//! Decides which hosts need a route for the paths that no other route of them takes.
//!
//! The gateway looks for a route among those of a host, then among those of wider hosts. nginx chooses a server block for a host, and never
//! another one for a path. So a host is closed by a route for all paths where a wider host has routes.

use std::collections::BTreeSet;

use crate::model::{Route, RouteAction};

/// The path of a route for all paths.
pub(crate) const ALL_PATHS: &str = "/*";

/// Returns a host and all that contain it, the narrower ones first. `None` is every host.
pub(crate) fn around(host: Option<&str>) -> impl Iterator<Item = Option<String>> {
    let own = host.unwrap_or_default();
    let ends = own.match_indices('.').map(|(at, _)| &own[at..]);
    let wider = ends.map(|it| format!("*{it}")).filter(move |it| it != own);
    let named = host.map(str::to_owned).into_iter().chain(wider);
    named.map(Some).chain([None])
}

/// Returns true if a host is among those of a wider one.
pub(crate) fn has_wider(host: &str, all: &BTreeSet<Option<String>>) -> bool {
    around(Some(host)).skip(1).any(|it| all.contains(&it))
}

/// Returns the route that closes a host.
pub(crate) fn closing_route(host: &str) -> Route {
    Route {
        host: Some(host.to_owned()),
        ..Route::new(ALL_PATHS.to_owned(), RouteAction::empty_answer(404))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a host is closed where the gateway would go on to another one. Method: every host, a wildcard, the host itself, others.
    #[test]
    fn wider_hosts_are_known() {
        let has_wider = |host: &str, all: &[Option<&str>]| {
            has_wider(host, &all.iter().map(|it| it.map(str::to_owned)).collect())
        };
        assert!(has_wider("a.test", &[Some("a.test"), None]));
        assert!(has_wider("a.test", &[Some("*.test")]));
        assert!(has_wider("*.a.test", &[Some("*.test")]));
        assert!(!has_wider("*.test", &[Some("*.test"), Some("a.test")]));
        assert!(!has_wider("a.test", &[Some("b.test"), Some("*.a.test")]));
    }
}
