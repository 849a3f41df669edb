//! Translates `set_real_ip_from` and what belongs to it into `[client]`, and into the proxies of listeners with the PROXY protocol.
//!
//! nginx believes proxies in some server blocks, and the gateway on all routes. So it believes those that each server block believes, by
//! the one field that all of them name; the others are to be filled in.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::https_redirect;
use super::listens::{self, ListenAddress, ServerBlock};
use super::scope::{SettingScope, is_on};
use super::tree::Directive;
use super::variables;
use crate::addresses;
use crate::ledger::{EntryId, Ledger};
use crate::model::{ClientRules, TableRemarks};

/// The field of the chain of proxies.
const CHAIN: &str = "x-forwarded-for";

/// The word for the PROXY protocol in place of a field.
const ANNOUNCED: &str = "proxy_protocol";

/// Why a proxy is not believed that some server blocks believe.
const NOT_ALL: &str = "trusted_proxies hold for all routes, and not every server block believes these; until they are written, their \
    clients count as one";

/// Why a directive changes no answer.
const NOT_REGARDED: &str = "no server block that looks at its clients believes proxies by it";

/// Why blocks of everybody are not believed.
const ANYBODY: &str = "the gateway reads the field past all trusted proxies, so every client could name another one; write the blocks \
    of the proxies alone";

/// The difference between the readings of a chain.
const RECURSIVE: &str =
    "the chain is read from the right past all trusted hops, as with `real_ip_recursive on`";

/// The proxies that all server blocks believe, by one field.
struct SharedTrust {
    field: String,
    blocks: Vec<IpNet>,
    /// Why others are not believed.
    reason: String,
}

/// Returns which proxies are believed by a field: they are the same for all routes.
pub(super) fn client(
    http: &[&Directive],
    servers: &[ServerBlock<'_>],
    ledger: &mut Ledger,
) -> ClientRules {
    let scopes = servers.iter().filter(|it| regards_clients(it));
    let scopes: Vec<&SettingScope<'_>> = scopes.map(|it| &it.scope).collect();
    let mut trust = shared_trust(&scopes);
    let mut client = ClientRules::default();
    let all = listens::all_directives(http, servers);
    let named = |name: &'static str| all.iter().copied().filter(move |it| it.name == name);
    let is_recursive = scopes.iter().all(|it| is_on(it.real_ip_recursive));
    if trust.field == CHAIN && !is_recursive {
        trust.blocks.retain(|block| !is_anybody(*block));
    }
    let read = DirectiveReader {
        servers,
        scopes: &scopes,
        inner: inner_directives(http, servers, &all),
        believed: addresses::set(&trust.blocks),
        trust: &trust,
    };
    for directive in named("set_real_ip_from") {
        read.proxies(directive, &mut client.remarks, ledger);
    }
    for directive in named("real_ip_header") {
        read.header(directive, &mut client.remarks, ledger);
    }
    for directive in named("real_ip_recursive") {
        match trust.blocks.is_empty() {
            true => ledger.left_out(directive.id, "no proxy is believed"),
            false => {
                ledger.translated(directive.id);
                client.remarks.sources.push(directive.id);
            }
        }
    }
    if trust.blocks.is_empty() {
        client.remarks.sources.clear();
        return client;
    }
    if trust.field == CHAIN && !is_recursive {
        let chain = named("real_ip_header").rfind(|it| field_of(Some(it)) == CHAIN);
        record_recursion(&trust, chain, &mut client.remarks, ledger);
    }
    client.trusted_proxies = trust.blocks.iter().map(IpNet::to_string).collect();
    client.header = Some(trust.field);
    client
}

/// Returns the proxies that announce clients to a listener by the PROXY protocol: those that each of its server blocks believes.
pub(super) fn announcers(servers: &[&ServerBlock<'_>], ledger: &mut Ledger) -> Vec<String> {
    let regards_any = servers.iter().any(|it| regards_clients(it));
    let regarding = servers
        .iter()
        .filter(|it| !regards_any || regards_clients(it));
    let scopes = regarding.map(|it| &it.scope);
    let scopes: Vec<&SettingScope<'_>> = scopes.collect();
    let believed = common_blocks(&scopes, ANNOUNCED);
    let known = addresses::set(&believed);
    for directive in scopes.iter().flat_map(|it| &it.real_ip_from) {
        if directive.word(0) == Some("unix:") {
            ledger.without_effect(directive.id, "listeners have no Unix sockets");
            continue;
        }
        let Some(blocks) = directive.word(0).and_then(variables::network) else {
            continue;
        };
        match addresses::are_within(&blocks, &known) {
            true => ledger.translated(directive.id),
            false => ledger.left_out(
                directive.id,
                "proxy_protocol_from holds for all hosts of a listener, and not each of its server blocks believes these",
            ),
        }
    }
    believed.iter().map(IpNet::to_string).collect()
}

/// Returns false for a block that answers before it looks at the client.
fn regards_clients(server: &ServerBlock<'_>) -> bool {
    let has = |name: &str| server.directive.children().iter().any(|it| it.name == name);
    let answers = has("return") && !has("if");
    !answers && !https_redirect::is_all_of(server) && !server.refuses_handshakes()
}

/// Returns what all server blocks believe.
fn shared_trust(scopes: &[&SettingScope<'_>]) -> SharedTrust {
    let believing = scopes.iter().filter(|it| !it.real_ip_from.is_empty());
    let fields: BTreeSet<String> = believing
        .map(|it| field_of(it.real_ip_header))
        .filter(|it| it != ANNOUNCED)
        .collect();
    let reason = match fields.len() {
        0 | 1 => NOT_ALL.to_owned(),
        _ => format!(
            "client_ip_header is one field for all routes, and the server blocks name {}; until one is chosen, no proxy is believed",
            fields.iter().cloned().collect::<Vec<_>>().join(" and ")
        ),
    };
    let field = match fields.len() {
        1 => fields.first().cloned().unwrap_or_default(),
        _ => String::new(),
    };
    SharedTrust {
        blocks: common_blocks(scopes, &field),
        field,
        reason,
    }
}

/// Returns the blocks of addresses that each level believes by a field.
fn common_blocks(scopes: &[&SettingScope<'_>], field: &str) -> Vec<IpNet> {
    let mut common: Option<Vec<IpNet>> = None;
    for scope in scopes {
        let own = match field_of(scope.real_ip_header) == field {
            true => blocks(scope),
            false => Vec::new(),
        };
        common = Some(match common {
            None => own,
            Some(known) if known == own => known,
            Some(known) => addresses::shared(&known, &own),
        });
    }
    common.unwrap_or_default()
}

fn blocks(scope: &SettingScope<'_>) -> Vec<IpNet> {
    let mut known = BTreeSet::new();
    let words = scope.real_ip_from.iter().filter_map(|it| it.word(0));
    let blocks = words.filter_map(variables::network).flatten();
    blocks.filter(|block| known.insert(*block)).collect()
}

/// Returns true for a block that is no network of proxies.
fn is_anybody(block: IpNet) -> bool {
    match block {
        IpNet::V4(block) => block.prefix_len() < 8,
        IpNet::V6(block) => block.prefix_len() < 16,
    }
}

/// Returns the field that names the client, or the word for the PROXY protocol.
fn field_of(header: Option<&Directive>) -> String {
    let written = header.and_then(|it| it.word(0));
    written.unwrap_or("x-real-ip").to_ascii_lowercase()
}

/// Returns the directives that stand in locations.
fn inner_directives(
    http: &[&Directive],
    servers: &[ServerBlock<'_>],
    all: &[&Directive],
) -> BTreeSet<EntryId> {
    let of_servers = servers.iter().flat_map(|it| it.directive.children());
    let outer = http.iter().copied().chain(of_servers);
    let outer: BTreeSet<EntryId> = outer.map(|it| it.id).collect();
    let all = all.iter().map(|it| it.id);
    all.filter(|id| !outer.contains(id)).collect()
}

/// Records that the gateway reads a chain past trusted hops where nginx takes its last address.
fn record_recursion(
    trust: &SharedTrust,
    chain: Option<&Directive>,
    remarks: &mut TableRemarks,
    ledger: &mut Ledger,
) {
    remarks.differences.push(RECURSIVE.to_owned());
    let Some(chain) = chain else { return };
    ledger.differs(chain.id, RECURSIVE);
    let is_single = |block: &IpNet| block.prefix_len() == block.max_prefix_len();
    if !trust.blocks.iter().all(is_single) {
        let what = "trusted_proxies with the addresses of the proxies alone: nginx takes the last address of the field, and the gateway \
             the last one outside these blocks, which a client within them chooses";
        ledger.fill_in_for(chain.id, what);
    }
}

/// Returns true if a directive is one of a level, which are in the order of the input.
fn believes(scope: &SettingScope<'_>, directive: &Directive) -> bool {
    let from = &scope.real_ip_from;
    from.binary_search_by_key(&directive.id, |it| it.id).is_ok()
}

/// Accounts for the directives of all levels.
struct DirectiveReader<'r, 'd> {
    servers: &'r [ServerBlock<'d>],
    /// The levels of server blocks that regard clients.
    scopes: &'r [&'r SettingScope<'d>],
    /// The directives that stand in locations.
    inner: BTreeSet<EntryId>,
    trust: &'r SharedTrust,
    /// Its blocks.
    believed: BTreeSet<IpNet>,
}

impl DirectiveReader<'_, '_> {
    /// Accounts for `set_real_ip_from`.
    fn proxies(&self, directive: &Directive, remarks: &mut TableRemarks, ledger: &mut Ledger) {
        if directive.word(0) == Some("unix:") {
            return ledger.without_effect(directive.id, "listeners have no Unix sockets");
        }
        let Some(blocks) = directive.word(0).and_then(variables::network) else {
            ledger.left_out(directive.id, "trusted_proxies are blocks of addresses");
            return;
        };
        let is_own = |scope: &&&SettingScope<'_>| believes(scope, directive);
        let users: Vec<_> = self.scopes.iter().filter(is_own).collect();
        let is_inner = self.inner.contains(&directive.id);
        if !is_inner && users.is_empty() {
            ledger.without_effect(directive.id, NOT_REGARDED);
        } else if addresses::are_within(&blocks, &self.believed) {
            ledger.translated(directive.id);
            remarks.sources.push(directive.id);
        } else if !users.is_empty()
            && users
                .iter()
                .all(|it| field_of(it.real_ip_header) == ANNOUNCED)
        {
            // Those of listeners with the PROXY protocol are announcers.
            if !self.is_announcer(directive) {
                let reason = "no `listen` of its server block has proxy_protocol";
                ledger.without_effect(directive.id, reason);
            }
        } else {
            let is_wide = blocks.iter().any(|it| is_anybody(*it)) && self.trust.field == CHAIN;
            let reason = if is_wide { ANYBODY } else { &self.trust.reason };
            ledger.lose(directive.id, reason);
        }
    }

    /// Returns true for an address that a block with the PROXY protocol believes.
    fn is_announcer(&self, directive: &Directive) -> bool {
        let has_protocol = |it: &&ServerBlock<'_>| {
            let is_announced = |it: &ListenAddress<'_>| it.has_proxy_protocol;
            it.listens.iter().any(is_announced)
        };
        let mut servers = self.servers.iter().filter(has_protocol);
        servers.any(|it| believes(&it.scope, directive))
    }

    /// Accounts for `real_ip_header`.
    fn header(&self, directive: &Directive, remarks: &mut TableRemarks, ledger: &mut Ledger) {
        let field = field_of(Some(directive));
        let is_own = |scope: &&SettingScope<'_>| {
            scope.real_ip_header.is_some_and(|it| it.id == directive.id)
                && !scope.real_ip_from.is_empty()
        };
        let is_inner = self.inner.contains(&directive.id);
        if !is_inner && !self.scopes.iter().any(is_own) {
            ledger.without_effect(directive.id, NOT_REGARDED);
        } else if field == ANNOUNCED {
            // Listeners identify the client.
            ledger.translated(directive.id);
        } else if field == self.trust.field && !self.trust.blocks.is_empty() {
            ledger.translated(directive.id);
            remarks.sources.push(directive.id);
        } else if self.trust.blocks.is_empty() {
            ledger.lose(directive.id, &self.trust.reason);
        } else {
            let field = &self.trust.field;
            let reason = format!("client_ip_header is {field} for all routes");
            ledger.lose(directive.id, &reason);
        }
    }
}
