//! Translates `set_real_ip_from` and what belongs to it into `[client]`.

use super::listens::{self, ServerBlock};
use super::scope::is_on;
use super::tree::Directive;
use super::variables;
use crate::ledger::{EntryId, Ledger};
use crate::model::{ClientRules, TableRemarks};

/// Returns which proxies are believed, of every level: they are the same for all routes.
pub(super) fn client(
    http: &[&Directive],
    servers: &[ServerBlock<'_>],
    ledger: &mut Ledger,
) -> ClientRules {
    let all = listens::all_directives(http, servers);
    let named = |name: &'static str| all.iter().copied().filter(move |it| it.name == name);
    let mut client = ClientRules::default();
    for directive in named("set_real_ip_from") {
        let word = directive.word(0).unwrap_or_default();
        match variables::network(word) {
            Some(blocks) => {
                ledger.translated(directive.id);
                client.remarks.sources.push(directive.id);
                for block in blocks {
                    let block = block.to_string();
                    if !client.trusted_proxies.contains(&block) {
                        client.trusted_proxies.push(block);
                    }
                }
            }
            None => ledger.left_out(directive.id, "trusted_proxies are blocks of addresses"),
        }
    }
    if client.trusted_proxies.is_empty() {
        return client;
    }
    let has_own = |server: &ServerBlock<'_>| {
        let mut children = server.directive.children().iter();
        children.any(|it| it.name == "real_ip_header")
    };
    let is_overridden = servers.iter().all(has_own);
    let outer = http.iter().filter(|it| it.name == "real_ip_header");
    let unused: Vec<EntryId> = outer.filter(|_| is_overridden).map(|it| it.id).collect();
    let headers = named("real_ip_header").filter(|it| !unused.contains(&it.id));
    client.header = header(headers, &mut client.remarks, ledger);
    let recursive = named("real_ip_recursive").next_back();
    if let Some(directive) = recursive {
        ledger.translated(directive.id);
        client.remarks.sources.push(directive.id);
    }
    if client.header.as_deref() == Some("x-forwarded-for") && !is_on(recursive) {
        let difference = "the chain is read from the right past all trusted hops, as with `real_ip_recursive on`";
        client.remarks.differences.push(difference.to_owned());
        let by_chain = |it: &&Directive| {
            (it.word(0)).is_some_and(|word| word.eq_ignore_ascii_case("x-forwarded-for"))
        };
        if let Some(directive) = named("real_ip_header").rfind(by_chain) {
            ledger.differs(directive.id, difference);
        }
    }
    client
}

/// Returns the field that names the client, which is one for all routes; `None` where the PROXY protocol does.
fn header<'d>(
    directives: impl Iterator<Item = &'d Directive>,
    remarks: &mut TableRemarks,
    ledger: &mut Ledger,
) -> Option<String> {
    let mut found: Option<String> = None;
    let mut is_written = false;
    for directive in directives {
        is_written = true;
        let name = directive.word(0).unwrap_or_default().to_ascii_lowercase();
        match &found {
            // Listeners identify the client.
            _ if name == "proxy_protocol" => {}
            Some(known) if *known != name => {
                let what = format!(
                    "client_ip_header of [client] is {known} for all routes, so clients that {name} names count as their proxy"
                );
                ledger.lose(directive.id, &what);
                continue;
            }
            _ => found = Some(name),
        }
        ledger.translated(directive.id);
        remarks.sources.push(directive.id);
    }
    // nginx's default.
    found.or_else(|| (!is_written).then(|| "x-real-ip".to_owned()))
}
