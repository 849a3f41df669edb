//! Translates configurations of Traefik, version 3 and version 2.
//!
//! Files in YAML and TOML, labels of containers and objects of Kubernetes become one [`tree`], which the other modules read. Routers have
//! priorities, and the gateway takes the most specific route; so the requests of an entry point are divided into cases, as those of a
//! frontend of HAProxy, and each case has what the strongest router gives.

mod account;
mod addresses;
mod chain;
mod compose;
mod constraints;
mod entry_points;
mod headers;
mod kubernetes;
mod labels;
mod limits;
mod listener_tls;
mod middlewares;
mod notations;
mod paths;
mod publication;
mod routers;
mod routes;
mod rules;
mod services;
mod transports;
mod tree;

use std::collections::BTreeSet;

use self::account::TreeAccount;
use self::chain::MiddlewareStep;
use self::entry_points::EntryPoint;
use self::middlewares::MiddlewareTable;
use self::notations::TraefikConfig;
pub(crate) use self::notations::is_traefik;
use self::routers::TraefikRouter;
use self::routes::{ConnectionKind, RouterRoutes};
use self::services::TraefikOrigins;
use crate::ingress::yaml::YamlNode;
use crate::ledger::Ledger;
use crate::model::GatewayModel;
use crate::position::SyntaxError;
use crate::route_conditions;
use crate::source::IncludedFiles;

/// The entry points that routers belong to where the input names none.
const PLAIN: &str = "web";
const SECURE: &str = "websecure";

/// Translates a text.
pub(crate) fn read(
    name: &str,
    text: &str,
    files: &dyn IncludedFiles,
    ledger: &mut Ledger,
) -> Result<GatewayModel, SyntaxError> {
    let mut account = TreeAccount::new(ledger);
    let config = notations::read(name, text, files, &mut account)?;
    let mut gateway = GatewayModel::default();
    let mut routers = routers::read(&config, &mut account);
    let mut entry_points = placed(&config, &mut routers, &mut gateway, &mut account);
    let (mut routers, lists) = with_lists(routers, &entry_points);
    let mut table = MiddlewareTable::new(&config, lists.iter().cloned());
    for (router, names) in routers.iter_mut().zip(&lists) {
        router.chain = table.chain(router.name, names, &mut account);
    }
    let mut services = TraefikOrigins::new(&config);
    listeners(
        &config,
        &routers,
        &mut entry_points,
        &mut gateway,
        &mut account,
    );
    addresses::identify_clients(
        &routers,
        &entry_points,
        &table,
        &mut gateway.client,
        &mut account,
    );
    routes(
        &routers,
        &mut entry_points,
        &mut services,
        &mut gateway,
        &mut account,
    );
    gateway.listeners = entry_points.into_iter().map(|it| it.listener).collect();
    gateway.origins = std::mem::take(&mut services.origins);
    table.report_unused(&mut account);
    services.report_unused(&mut account);
    report_unrouted(&config, &mut account);
    gateway.limits = table.limits;
    route_conditions::remove_repeated(&mut gateway.routes);
    let GatewayModel { limits, routes, .. } = &mut gateway;
    let used: BTreeSet<&String> = routes.iter().flat_map(|it| &it.limits).collect();
    limits.retain(|limit| used.contains(&limit.name));
    account.finish(&config.entries);
    Ok(gateway)
}

/// Returns the entry points of the input, and gives each router its own.
fn placed(
    config: &TraefikConfig,
    routers: &mut [TraefikRouter<'_>],
    gateway: &mut GatewayModel,
    account: &mut TreeAccount<'_>,
) -> Vec<EntryPoint> {
    let is_declared = !config.members("entryPoints").is_empty();
    // Certificates and options that no router names are those of an entry point.
    let any_tls = routers.iter().any(|it| it.tls.is_some());
    let is_all_tls = !any_tls && tree::at(&config.root, "tls").is_some();
    let mut named: Vec<String> = Vec::new();
    for router in routers.iter_mut() {
        if router.entry_points.is_empty() && !is_declared {
            let has_tls = router.tls.is_some() || is_all_tls;
            let name = if has_tls { SECURE } else { PLAIN };
            router.entry_points.push(name.to_owned());
        }
        for name in &router.entry_points {
            if !named.contains(name) {
                named.push(name.clone());
            }
        }
    }
    let mut entry_points = entry_points::read(config, &named, gateway, account);
    let usual = entry_points.iter().filter(|it| it.is_usual);
    let usual: Vec<String> = usual.map(|it| it.name.clone()).collect();
    for router in routers.iter_mut().filter(|it| it.entry_points.is_empty()) {
        router.entry_points.clone_from(&usual);
    }
    entry_points::resolve_redirects(&mut entry_points);
    for entry_point in &mut entry_points {
        let own = routers.iter().filter(|it| has(it, entry_point));
        if own.map(|it| it.tls).any(|it| it.is_none()) {
            entry_point.assume_tls(account);
        }
    }
    entry_points
}

/// Returns the routers, each with the names of its middlewares: those of its entry points, then its own. A router is returned once for
/// each list, since one entry point has middlewares that another one lacks.
fn with_lists<'c>(
    routers: Vec<TraefikRouter<'c>>,
    entry_points: &[EntryPoint],
) -> (Vec<TraefikRouter<'c>>, Vec<Vec<String>>) {
    let mut found: Vec<TraefikRouter<'c>> = Vec::new();
    let mut lists: Vec<Vec<String>> = Vec::new();
    for router in routers {
        let first = found.len();
        for name in &router.entry_points {
            let is_own = |it: &&EntryPoint| it.name.eq_ignore_ascii_case(name);
            let outer = entry_points.iter().find(is_own).map(|it| &it.middlewares);
            let list: Vec<String> = outer.into_iter().flatten().cloned().collect();
            match lists[first..].iter().position(|it| *it == list) {
                Some(at) => found[first + at].entry_points.push(name.clone()),
                None => {
                    let mut own = router.clone();
                    own.entry_points = vec![name.clone()];
                    found.push(own);
                    lists.push(list);
                }
            }
        }
        if found.len() == first {
            found.push(router.clone());
            lists.push(Vec::new());
        }
        for list in &mut lists[first..] {
            list.extend(router.middlewares.iter().cloned());
        }
    }
    (found, lists)
}

fn has(router: &TraefikRouter<'_>, entry_point: &EntryPoint) -> bool {
    let mut names = router.entry_points.iter();
    names.any(|it| it.eq_ignore_ascii_case(&entry_point.name))
}

/// Returns the routers of an entry point that clients of this kind reach.
fn reached<'r, 'c>(
    routers: &'r [TraefikRouter<'c>],
    entry_point: &EntryPoint,
    connection: ConnectionKind,
) -> Vec<&'r TraefikRouter<'c>> {
    let is_reached = |router: &&TraefikRouter<'_>| {
        let has_tls = router.tls.is_some() || entry_point.tls.is_some();
        has(router, entry_point) && has_tls == (connection == ConnectionKind::Tls)
    };
    routers.iter().filter(is_reached).collect()
}

/// Returns how clients connect to an entry point. Traefik tells both kinds apart on one port; a listener has one.
fn connection(routers: &[TraefikRouter<'_>], entry_point: &EntryPoint) -> ConnectionKind {
    let has_clear = !reached(routers, entry_point, ConnectionKind::ClearText).is_empty();
    // Where the input has no router of an entry point for HTTPS, other files have them, with TLS.
    let has_tls = match entry_point.is_for_https() {
        true => !has_clear || !reached(routers, entry_point, ConnectionKind::Tls).is_empty(),
        false => {
            entry_point.tls.is_some()
                || !reached(routers, entry_point, ConnectionKind::Tls).is_empty()
        }
    };
    let is_redirected = entry_point.listener.redirect_to_https.is_some();
    match has_tls && !is_redirected && (!has_clear || entry_point.is_for_https()) {
        true => ConnectionKind::Tls,
        false => ConnectionKind::ClearText,
    }
}

/// Gives listeners their TLS, and the redirect to HTTPS where all routers of one redirect.
fn listeners(
    config: &TraefikConfig,
    routers: &[TraefikRouter<'_>],
    entry_points: &mut [EntryPoint],
    gateway: &mut GatewayModel,
    account: &mut TreeAccount<'_>,
) {
    let kinds: Vec<ConnectionKind> = entry_points
        .iter()
        .map(|it| connection(routers, it))
        .collect();
    let is_tls = |at: usize| kinds[at] == ConnectionKind::Tls;
    let reachable = |router: &TraefikRouter<'_>, entry_points: &[EntryPoint]| {
        (0..entry_points.len()).any(|at| {
            let own = reached(routers, &entry_points[at], kinds[at]);
            own.iter().any(|it| it.name == router.name)
        })
    };
    for router in routers {
        if !router.entry_points.is_empty() && !reachable(router, entry_points) {
            account.ledger.fill_in(format!(
                "[[route]] of the router {}: no listener has its kind of connection; with TLS and without are two listeners",
                router.name
            ));
        }
    }
    for at in 0..entry_points.len() {
        let own = reached(routers, &entry_points[at], kinds[at]);
        let entry_point = &mut entry_points[at];
        if is_tls(at) {
            let tls = entry_point.tls.clone();
            listener_tls::apply(
                config,
                &own,
                tls.as_ref(),
                (&mut entry_point.listener, gateway),
                account,
            );
        } else if let Some(to) = redirect_of_all(&own) {
            entry_point.listener.redirect_to_https.get_or_insert(to);
            for router in own {
                account.differs(
                    router.node,
                    "the listener redirects every host with 308, except for what certificate authorities ask for",
                );
            }
        }
    }
}

/// Returns `redirect_to_https` where all routers redirect to it.
fn redirect_of_all(routers: &[&TraefikRouter<'_>]) -> Option<String> {
    let port = |router: &&TraefikRouter<'_>| match router.chain.first() {
        Some((_, MiddlewareStep::ToScheme(redirect))) if redirect.scheme == "https" => {
            Some(match redirect.port.as_deref() {
                None | Some("443") => "true".to_owned(),
                Some(port) => port.to_owned(),
            })
        }
        _ => None,
    };
    let ports: Option<Vec<String>> = routers.iter().map(port).collect();
    let ports = ports?;
    let first = ports.first()?.clone();
    ports.iter().all(|it| *it == first).then_some(first)
}

/// Makes the routes of all entry points. Those of entry points with the same routers are the same.
fn routes<'c>(
    routers: &[TraefikRouter<'c>],
    entry_points: &mut [EntryPoint],
    services: &mut TraefikOrigins<'c>,
    gateway: &mut GatewayModel,
    account: &mut TreeAccount<'_>,
) {
    let mut groups: Vec<(Vec<String>, ConnectionKind, Vec<&TraefikRouter<'c>>)> = Vec::new();
    for entry_point in entry_points
        .iter()
        .filter(|it| it.listener.redirect_to_https.is_none())
    {
        let connection = connection(routers, entry_point);
        let own = reached(routers, entry_point, connection);
        let is_same = |one: &&TraefikRouter<'_>, other: &&TraefikRouter<'_>| {
            one.name == other.name && one.chain == other.chain
        };
        let same = |known: &&mut (Vec<String>, ConnectionKind, Vec<&TraefikRouter<'_>>)| {
            let mut pairs = known.2.iter().zip(&own);
            known.1 == connection
                && known.2.len() == own.len()
                && pairs.all(|(one, other)| is_same(one, other))
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.0.push(entry_point.name.clone()),
            None => groups.push((vec![entry_point.name.clone()], connection, own)),
        }
    }
    // A route without `listeners` is one of all listeners, also of those that no router belongs to.
    let is_one = groups.len() == 1;
    for (names, connection, own) in groups.into_iter().filter(|it| !it.2.is_empty()) {
        let mut listeners: Vec<String> = Vec::new();
        let named = entry_points
            .iter_mut()
            .filter(|it| names.contains(&it.name));
        for entry_point in named.filter(|_| !is_one) {
            let name = crate::names::plain(&entry_point.name);
            entry_point.listener.name = Some(name.clone());
            listeners.push(name);
        }
        let mut maker = RouterRoutes {
            routers: &own,
            connection,
            listeners: &listeners,
            services,
        };
        gateway.routes.extend(maker.routes(account));
    }
}

/// Accounts for what no router reaches: routers of connections, options of TLS and transports that nobody names, resolvers.
fn report_unrouted(config: &TraefikConfig, account: &mut TreeAccount<'_>) {
    for (section, reason) in [
        ("tcp", "the gateway forwards no connections"),
        ("udp", "the gateway forwards no datagrams"),
    ] {
        if let Some(node) = tree::member(&config.root, section) {
            account.lost(node, section, reason);
        }
    }
    for (_, node) in config.members("entryPoints") {
        if let Some(tls) = tree::at(node, "http.tls") {
            account.idle(tls, "no router without a `tls` of its own needs it");
        }
    }
    for (name, node) in config.members("tls.options") {
        account.lost_if_unknown(
            node,
            &format!("tls.options.{name}"),
            "no listener has these options; see [listener.tls]",
        );
    }
    for section in ["tls.certificates", "tls.stores.default"] {
        let node = tree::at(&config.root, section);
        let parts = node.map(YamlNode::elements).filter(|it| !it.is_empty());
        let parts = parts.or(node.map(std::slice::from_ref));
        for part in parts.unwrap_or_default() {
            let reason = "no listener has this certificate; see [listener.tls] certificates";
            account.lost_if_unknown(part, section, reason);
        }
    }
    let sections = [
        "tls.stores",
        "http.serversTransports",
        "certificatesResolvers",
    ];
    for section in sections {
        if let Some(node) = tree::at(&config.root, section) {
            account.idle(node, "no listener or origin needs it");
        }
    }
}
