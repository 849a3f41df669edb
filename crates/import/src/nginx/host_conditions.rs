//! Reads `if ($host = NAME) { return … }` of server blocks, as certbot writes it: the host then has a route of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::hosts::ServerHost;
use super::tree::Directive;

/// A condition on the host, and the `return` for it.
pub(super) struct HostCondition<'d> {
    pub(super) directive: &'d Directive,
    pub(super) host: &'d str,
}

/// Returns the conditions of a server block that nginx evaluates before another directive answers or changes the path.
pub(super) fn read(server: &Directive) -> Vec<HostCondition<'_>> {
    let goes_on = |it: &&Directive| !matches!(it.name.as_str(), "break" | "return" | "rewrite");
    let directives = server.children().iter().take_while(goes_on);
    let mut known = BTreeSet::new();
    let found = directives.filter_map(condition);
    found.filter(|it| known.insert(it.host)).collect()
}

fn condition(directive: &Directive) -> Option<HostCondition<'_>> {
    let [variable, operator, host] = directive.words.as_slice() else {
        return None;
    };
    let is_host = matches!(variable.as_str(), "($host" | "($http_host") && operator == "=";
    let returns = matches!(directive.children(), [answer] if answer.name == "return");
    let host = host.strip_suffix(')')?;
    // nginx compares with the host in lower case.
    let is_met = !host.bytes().any(|byte| byte.is_ascii_uppercase());
    (directive.name == "if" && is_host && returns && is_met)
        .then_some(HostCondition { directive, host })
}

/// The hosts of a server block, by its conditions.
pub(super) struct DividedHosts<'d> {
    pub(super) conditional: Vec<(HostCondition<'d>, Vec<ServerHost>)>,
    /// Those that no condition is about.
    pub(super) rest: Vec<ServerHost>,
}

/// Divides the hosts of a server block by its conditions, each of which has the routes of its host.
pub(super) fn divide<'d>(server: &'d Directive, hosts: &[ServerHost]) -> DividedHosts<'d> {
    let read = read(server).into_iter();
    let mut conditional: Vec<_> = read.map(|it| (it, Vec::new())).collect();
    let places = conditional.iter().map(|(condition, _)| condition.host);
    let places: BTreeMap<&str, usize> = places.zip(0..).collect();
    let mut rest = Vec::new();
    for host in hosts {
        let place = host.name.as_deref().and_then(|it| places.get(it));
        let own = place.map_or(&mut rest, |at| &mut conditional[*at].1);
        own.push(host.clone());
    }
    DividedHosts { conditional, rest }
}
