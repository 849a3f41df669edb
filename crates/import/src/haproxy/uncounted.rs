//! Finds limits that count less than HAProxy: a request that HAProxy tracks counts whichever rules refuse it, and in the gateway a limit
//! counts the requests of the routes that name it.

use std::collections::BTreeSet;

use super::evaluation::{CellLimit, EvaluatedCell};
use crate::cells::RequestCell;
use crate::model::KeyPart;
use crate::route_conditions::share_clients;

/// The line under "To fill in".
const UNCOUNTED: &str = "HAProxy counts all requests that it tracks, also those that this rule is not about; here only the routes with \
                         this limit count: write a lower rate, or `limits` of further routes";

/// Requires what limits do not count, if the same client can make a request that counts in HAProxy alone.
pub(super) fn require(cells: &mut [EvaluatedCell]) {
    let mut limits: Vec<CellLimit> = Vec::new();
    for limit in cells.iter().flat_map(|it| &it.effect.limits) {
        if !limits.contains(limit) {
            limits.push(limit.clone());
        }
    }
    limits.retain(|limit| is_weaker(limit, cells));
    let all = cells.iter_mut().flat_map(|it| &mut it.effect.limits);
    for limit in all.filter(|limit| limits.contains(limit)) {
        limit.to_fill_in.push(UNCOUNTED.to_owned());
    }
}

/// Returns true if a key of a limit can have both requests that count in it, and requests that count in HAProxy alone.
fn is_weaker(limit: &CellLimit, cells: &[EvaluatedCell]) -> bool {
    if !cells.iter().any(|it| counts_elsewhere(it, limit)) {
        return false;
    }
    if !limit.key.contains(&KeyPart::ClientIp) {
        return shares_a_key(limit, &cells.iter().collect::<Vec<_>>());
    }
    // Different clients have different keys: each kind of clients by itself.
    let kinds: BTreeSet<Option<&[String]>> =
        cells.iter().map(|it| it.cell.client.as_deref()).collect();
    let mut kinds = kinds.into_iter();
    kinds.any(|clients| shares_a_key(limit, &reached(cells, clients)))
}

/// Returns true if a cell raises the counter of a limit in HAProxy, and does not name the limit.
fn counts_elsewhere(it: &EvaluatedCell, limit: &CellLimit) -> bool {
    let is_entry =
        |(table, key): &(String, Vec<KeyPart>)| *table == limit.table && *key == limit.key;
    it.tracked.iter().any(is_entry) && !it.effect.limits.contains(limit)
}

/// Returns the cells that some clients reach; `None` are those that no condition names.
fn reached<'c>(cells: &'c [EvaluatedCell], clients: Option<&[String]>) -> Vec<&'c EvaluatedCell> {
    let is_same = |one: &EvaluatedCell, other: &EvaluatedCell| {
        one.section == other.section
            && one.cell.host == other.cell.host
            && one.cell.path == other.cell.path
    };
    let mut found = Vec::new();
    for group in cells.chunk_by(is_same) {
        let is_named = group.iter().any(|it| it.cell.client.as_deref() == clients);
        let is_reached = |it: &&EvaluatedCell| match (is_named, it.cell.client.as_deref(), clients)
        {
            (true, own, _) => own == clients,
            (false, Some(own), Some(clients)) => share_clients(own, clients),
            (false, None, _) | (false, _, None) => true,
        };
        found.extend(group.iter().filter(is_reached));
    }
    found
}

/// Returns true if cells of both kinds have a key in common, as far as the parts of the key tell.
fn shares_a_key(limit: &CellLimit, cells: &[&EvaluatedCell]) -> bool {
    let holders = cells.iter().filter(|it| it.effect.limits.contains(limit));
    let counted: BTreeSet<String> = holders.map(|it| common_key(&it.cell, &limit.key)).collect();
    let mut others = cells.iter().filter(|it| counts_elsewhere(it, limit));
    others.any(|it| counted.contains(&common_key(&it.cell, &limit.key)))
}

/// Returns what the key of a limit has in common for the requests of a cell.
fn common_key(cell: &RequestCell, key: &[KeyPart]) -> String {
    let parts = key.iter().map(|part| match part {
        KeyPart::Host => format!("{:?}", cell.host),
        KeyPart::Path => format!("{:?}", cell.path),
        KeyPart::Method => format!("{:?}", cell.method),
        _ => String::new(),
    });
    parts.collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use crate::{Format, NoFiles, import};

    /// Goal: a limit is to be filled in where a client can make requests that count in HAProxy alone, and nowhere else. Method: rules
    /// about all requests, about some paths, hosts and clients, with counters of clients and of hosts.
    #[test]
    fn what_counts_in_haproxy_alone_is_to_be_filled_in() {
        let is_listed = |rules: &str| {
            let text = format!(
                "frontend f\n bind :80\n stick-table type ip size 1k expire 30s store http_req_rate(10s)\n \
                 {rules}\n default_backend b\nbackend b\n server s 10.0.0.1:80\n"
            );
            let imported = import(Format::Haproxy, "h", &text, &NoFiles).unwrap();
            assert!(
                imported.toml.contains("sliding-window"),
                "{}",
                imported.toml
            );
            let mut lines = imported.ledger.to_fill_in().iter();
            lines.any(|it| it.ends_with(super::UNCOUNTED))
        };
        let above = "{ sc_http_req_rate(0) gt 5 }";
        let track = |key: &str| format!("http-request track-sc0 {key}\n http-request");
        for (rules, expected) in [
            // Rules about all requests together.
            (
                format!(
                    "{} deny if {{ path_beg /a/ }} {above}\n http-request deny if !{{ path_beg /a/ }} {above}",
                    track("src")
                ),
                false,
            ),
            (format!("{} deny if {above}", track("src")), false),
            (
                format!("{} deny if {{ path_beg /a/ }} {above}", track("src")),
                true,
            ),
            (
                format!("{} deny if !{{ path_end .css }} {above}", track("src")),
                true,
            ),
            (
                format!("{} deny if {{ method POST }} {above}", track("src")),
                true,
            ),
            // Other clients have other counters.
            (
                format!("{} deny if !{{ src 10.0.0.0/8 }} {above}", track("src")),
                false,
            ),
            (
                format!("{} deny if {{ src 10.0.0.0/8 }} {above}", track("src")),
                false,
            ),
            (
                format!(
                    "{} allow if {{ src 10.0.0.0/8 }}\n http-request deny if {above}",
                    track("src")
                ),
                false,
            ),
            (
                format!(
                    "{} allow if {{ src 10.0.0.0/8 }} {{ path_beg /a/ }}\n http-request deny if {above}",
                    track("src")
                ),
                true,
            ),
            // Other hosts have other counters.
            (
                format!(
                    "{} deny if {{ hdr(host) a.test }} {above}",
                    track("hdr(host)")
                ),
                false,
            ),
            (
                format!("{} deny if {{ path_beg /a/ }} {above}", track("hdr(host)")),
                true,
            ),
            // A request that is refused has the limit too.
            (
                format!(
                    "{} deny if {{ path_beg /a/ }}\n http-request deny if {above}",
                    track("src")
                ),
                false,
            ),
        ] {
            assert_eq!(is_listed(&rules), expected, "{rules}");
        }
    }
}
