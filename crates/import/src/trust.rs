//! Decides which proxies are believed where an input believes them in some places only. The gateway has one list for all listeners and
//! routes, so it has what every place believes, and anything else is to be filled in.

use crate::addresses::{self, networks};
use crate::ledger::Ledger;
use crate::model::ClientRules;

/// A place of the input, such as a listener, with the proxies whose word about the client it takes.
#[derive(Clone, Debug)]
pub(crate) struct TrustScope {
    /// Its name in reports.
    pub(crate) name: String,
    /// Blocks of addresses.
    pub(crate) proxies: Vec<String>,
}

/// Sets `trusted_proxies` to those of all places.
pub(crate) fn believe(client: &mut ClientRules, scopes: &[TrustScope], ledger: &mut Ledger) {
    let Some((first, others)) = scopes.split_first() else {
        return;
    };
    let mut common = first.proxies.clone();
    for scope in others {
        if !is_same(&scope.proxies, &common) {
            let shared = addresses::shared(&networks(&common), &networks(&scope.proxies));
            common = shared.iter().map(addresses::written).collect();
        }
    }
    if scopes.iter().any(|it| !is_same(&it.proxies, &common)) {
        let lists = scopes.iter().map(|it| match it.proxies.is_empty() {
            true => format!("{} none", it.name),
            false => format!("{} {}", it.name, it.proxies.join(", ")),
        });
        let lists: Vec<String> = lists.collect();
        ledger.fill_in(format!(
            "[client] trusted_proxies: the gateway believes the same proxies everywhere, the input does not: {}; those of all are written",
            lists.join("; ")
        ));
    }
    client.trusted_proxies = common;
}

/// Returns true if every address of a list of blocks is in a block of another list.
pub(crate) fn is_within(inner: &[String], outer: &[String]) -> bool {
    addresses::are_within(&networks(inner), &addresses::set(&networks(outer)))
}

fn is_same(one: &[String], other: &[String]) -> bool {
    is_within(one, other) && is_within(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no proxy is believed where the input does not believe it. Method: equal lists, lists that contain each other in part, and a
    /// place that believes nobody.
    #[test]
    fn the_proxies_of_all_places_are_believed() {
        let believed = |lists: &[&str]| {
            let scopes = lists.iter().map(|list| TrustScope {
                name: "x".to_owned(),
                proxies: list.split_whitespace().map(str::to_owned).collect(),
            });
            let scopes: Vec<TrustScope> = scopes.collect();
            let mut client = ClientRules::default();
            let mut ledger = Ledger::default();
            believe(&mut client, &scopes, &mut ledger);
            (client.trusted_proxies.join(" "), ledger.to_fill_in().len())
        };
        let pair = |text: &str, count| (text.to_owned(), count);
        assert_eq!(believed(&[]), pair("", 0));
        assert_eq!(believed(&["10.0.0.0/8 ::1"]), pair("10.0.0.0/8 ::1", 0));
        assert_eq!(
            believed(&["10.0.0.0/8 ::1", "::1/128 10.0.0.1/8"]),
            pair("10.0.0.0/8 ::1", 0)
        );
        assert_eq!(
            believed(&["10.0.0.0/8 192.0.2.1", "10.1.0.0/16 192.0.2.0/24"]),
            pair("192.0.2.1 10.1.0.0/16", 1)
        );
        assert_eq!(believed(&["10.0.0.0/8", ""]), pair("", 1));
        assert_eq!(believed(&["", ""]), pair("", 0));
    }
}
