//! Decides whose word about the client is believed. In Traefik each entry point believes proxies of its own, and each middleware reads an
//! address of its own: that of the connection, or one of X-Forwarded-For. The gateway has one client for all listeners, limits and routes.

use super::account::TreeAccount;
use super::entry_points::EntryPoint;
use super::limits::SourceAddress;
use super::middlewares::MiddlewareTable;
use super::routers::TraefikRouter;
use super::{has, tree};
use crate::cells::ConditionTerm;
use crate::client_fields;
use crate::model::ClientRules;
use crate::trust::{self, TrustScope};

/// The reason for a source that is the address of the connection.
const PEER: &str = "Traefik judges the address of the connection, also that of a proxy; the gateway judges the client that [client] \
    trusted_proxies name";

/// Writes `[client]`: the proxies that all entry points with routes believe, and the field that names the client.
pub(super) fn identify_clients(
    routers: &[TraefikRouter<'_>],
    entry_points: &[EntryPoint],
    table: &MiddlewareTable<'_>,
    client: &mut ClientRules,
    account: &mut TreeAccount<'_>,
) {
    let serves = |it: &&EntryPoint| {
        it.listener.redirect_to_https.is_none() && routers.iter().any(|router| has(router, it))
    };
    let scopes = entry_points.iter().filter(serves).map(|it| {
        Some(TrustScope {
            name: format!("the entry point {}", it.name),
            proxies: it.trusted.clone()?,
        })
    });
    // An entry point that is not in the input may believe nobody.
    let mut scopes = scopes
        .collect::<Option<Vec<TrustScope>>>()
        .unwrap_or_default();
    if scopes.iter().any(|it| !it.proxies.is_empty()) {
        scopes.extend(excluded(table, account));
        trust::believe(client, &scopes, account.ledger);
    }
    if !client.trusted_proxies.is_empty() {
        report_other_addresses(routers, table, account);
    }
    client_fields::identify_clients(client, &table.fields, account.ledger);
}

/// Returns the proxies that middlewares skip in X-Forwarded-For.
fn excluded(table: &MiddlewareTable<'_>, account: &TreeAccount<'_>) -> Vec<TrustScope> {
    let lists = table
        .addresses
        .iter()
        .filter_map(|(id, address)| match address {
            SourceAddress::Excluded(proxies) => Some(TrustScope {
                name: account.ledger.comment(*id),
                proxies: proxies.clone(),
            }),
            _ => None,
        });
    lists.collect()
}

/// Records the middlewares and rules that judge another address than that of the gateway's client.
fn report_other_addresses(
    routers: &[TraefikRouter<'_>],
    table: &MiddlewareTable<'_>,
    account: &mut TreeAccount<'_>,
) {
    for (id, address) in &table.addresses {
        match address {
            SourceAddress::None | SourceAddress::Excluded(_) => {}
            SourceAddress::Peer => account.ledger.fill_in_for(*id, PEER),
            SourceAddress::Depth(depth) => account.ledger.fill_in_for(
                *id,
                &format!(
                    "Traefik takes the address at place {depth} from the end of X-Forwarded-For; the gateway takes the last one that is \
                     none of [client] trusted_proxies, which is the same where these are the proxies in front, {depth} in a row"
                ),
            ),
        }
    }
    for router in routers {
        let mut terms = router.rule.alternatives.iter().flatten();
        let rule = tree::member(router.node, "rule").and_then(tree::entry);
        if let Some(id) =
            rule.filter(|_| terms.any(|it| matches!(it.term, ConditionTerm::Client(_))))
        {
            account.ledger.fill_in_for(id, PEER);
        }
    }
}
