//! Keeps the routes of several frontends apart: by the names of their listeners, with lists of refused clients of their own.
//!
//! The client is identified alike at all listeners, so the frontends have to agree about the proxies that name it.

use super::binds::ConnectionBound;
use super::rules::{self, SectionRule};
use super::sections::ConfigSection;
use crate::ledger::{EntryId, Ledger};
use crate::model::{ClientList, ClientRules, GatewayModel, TableRemarks};
use crate::names::NamePool;
use crate::trust::{self, TrustScope};

/// The reason for a frontend whose addresses are those of no listener.
const UNREACHED: &str =
    "none of its addresses is one of a listener of its own, so it has no routes";

/// A frontend whose rules are read.
pub(super) struct ReadFrontend<'s> {
    pub(super) section: &'s ConfigSection,
    /// The addresses of its listeners.
    pub(super) listeners: Vec<String>,
    /// Lists of the clients that it refuses whatever they ask for.
    pub(super) refused: Vec<ClientList>,
    /// The proxies that name its clients.
    pub(super) client: ClientRules,
    /// Its own maximum of connections.
    pub(super) connections: Option<ConnectionBound>,
    /// True if the paths that several comparisons name together are cells.
    pub(super) has_intersections: bool,
    /// True if it redirects all requests to HTTPS but those of certificate authorities.
    pub(super) redirects: bool,
}

impl<'s> ReadFrontend<'s> {
    pub(super) fn new(section: &'s ConfigSection, listeners: Vec<String>) -> Self {
        Self {
            section,
            listeners,
            refused: Vec::new(),
            client: ClientRules::default(),
            connections: None,
            has_intersections: true,
            redirects: false,
        }
    }
}

/// The listeners and the refused clients of the routes of a frontend.
#[derive(Default)]
pub(super) struct FrontendPlace {
    /// Empty for all listeners.
    pub(super) listeners: Vec<String>,
    pub(super) block: Vec<String>,
}

/// Returns the places of the routes of each frontend, and who identifies clients. The routes of one frontend alone hold everywhere.
pub(super) fn separate(
    frontends: &[ReadFrontend<'_>],
    gateway: &mut GatewayModel,
    ledger: &mut Ledger,
) -> (Vec<FrontendPlace>, ClientRules) {
    let mut lists = NamePool::default();
    if let [only] = frontends {
        let mut client = only.client.clone();
        client.block = block(only, "refused", &mut lists, gateway);
        return (vec![FrontendPlace::default()], client);
    }
    let mut names = NamePool::default();
    let places = frontends.iter().map(|frontend| {
        let mut place = FrontendPlace::default();
        for address in &frontend.listeners {
            let name = names.unique(&frontend.section.name);
            let mut all = gateway.listeners.iter_mut();
            if let Some(listener) = all.find(|it| it.address == *address) {
                listener.name = Some(name.clone());
            }
            place.listeners.push(name);
        }
        if frontend.listeners.is_empty() {
            ledger.lose(frontend.section.id, UNREACHED);
        }
        let wanted = format!("refused-{}", frontend.section.name);
        place.block = block(frontend, &wanted, &mut lists, gateway);
        place
    });
    let places = places.collect();
    (places, common_client(frontends, ledger))
}

/// Takes rules that refuse some addresses whatever they ask for, and come before all others, into lists: one with the addresses, and one
/// for each further file.
pub(super) fn take_refused(rules: &mut Vec<SectionRule>, ledger: &mut Ledger) -> Vec<ClientList> {
    let first = rules
        .iter()
        .position(|rule| rules::blocked(rule).is_none())
        .unwrap_or(rules.len());
    let mut cidrs = Vec::new();
    let mut files = Vec::new();
    let mut sources = Vec::new();
    for rule in rules.drain(..first) {
        let named = rules::blocked(&rule).unwrap_or_default();
        cidrs.extend(named.blocks);
        files.extend(named.files.into_iter().map(|file| (file, rule.id)));
        sources.push(rule.id);
        for id in [rule.id].iter().chain(&rule.condition.sources) {
            ledger.translated(*id);
        }
        if let Some(difference) = rule.difference {
            ledger.differs(rule.id, difference);
        }
    }
    let mut files = files.into_iter();
    let file = files.next().map(|(file, _)| file);
    if cidrs.is_empty() && file.is_none() {
        return Vec::new();
    }
    let mut lists = vec![refused(sources, cidrs, file)];
    lists.extend(files.map(|(file, id)| refused(vec![id], Vec::new(), Some(file))));
    lists
}

fn refused(sources: Vec<EntryId>, cidrs: Vec<String>, file: Option<String>) -> ClientList {
    ClientList {
        name: "refused".to_owned(),
        remarks: TableRemarks {
            sources,
            differences: Vec::new(),
        },
        cidrs,
        file,
    }
}

/// Adds the lists of the clients that a frontend refuses, and returns their names.
fn block(
    frontend: &ReadFrontend<'_>,
    wanted: &str,
    names: &mut NamePool,
    gateway: &mut GatewayModel,
) -> Vec<String> {
    let mut added = Vec::new();
    for list in &frontend.refused {
        let name = names.unique(wanted);
        gateway.lists.push(ClientList {
            name: name.clone(),
            ..list.clone()
        });
        added.push(name);
    }
    added
}

/// Returns who identifies clients at all listeners.
fn common_client(frontends: &[ReadFrontend<'_>], ledger: &mut Ledger) -> ClientRules {
    let mut client = ClientRules::default();
    let is_reached = |it: &&ReadFrontend<'_>| !it.redirects && !it.listeners.is_empty();
    let own = frontends.iter().filter(is_reached);
    if own.clone().all(|it| it.client.header.is_none()) {
        return client;
    }
    for frontend in own.clone() {
        client
            .remarks
            .sources
            .extend(&frontend.client.remarks.sources);
        let Some(header) = &frontend.client.header else {
            continue;
        };
        if client.header.get_or_insert_with(|| header.clone()) != header {
            ledger.fill_in(format!(
                "{}: {header} names the client here; [client] client_ip_header is one field for all listeners",
                ledger.comment(frontend.section.id)
            ));
        }
    }
    let scopes = own.map(|it| TrustScope {
        name: format!("the frontend {}", it.section.name),
        proxies: it.client.trusted_proxies.clone(),
    });
    let scopes: Vec<TrustScope> = scopes.collect();
    trust::believe(&mut client, &scopes, ledger);
    client
}
