//! Translates `set_real_ip_from` and what belongs to it into `[client]`.

use super::listens::ServerBlock;
use super::scope::is_on;
use super::tree::Directive;
use super::variables;
use crate::ledger::Ledger;
use crate::model::ClientRules;

/// Returns which proxies are believed, of every level: they are the same for all routes.
pub(super) fn client(
    http: &[&Directive],
    servers: &[ServerBlock<'_>],
    ledger: &mut Ledger,
) -> ClientRules {
    let of_servers = servers
        .iter()
        .flat_map(|server| server.directive.children());
    let all: Vec<&Directive> = http.iter().copied().chain(of_servers).collect();
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
    // nginx's default.
    let mut header = "x-real-ip".to_owned();
    for directive in named("real_ip_header") {
        ledger.translated(directive.id);
        client.remarks.sources.push(directive.id);
        header = directive.word(0).unwrap_or_default().to_ascii_lowercase();
    }
    // By the PROXY protocol listeners identify the client; no field does.
    if header != "proxy_protocol" {
        client.header = Some(header.clone());
    }
    let recursive = named("real_ip_recursive").next_back();
    if let Some(directive) = recursive {
        ledger.translated(directive.id);
        client.remarks.sources.push(directive.id);
    }
    if header == "x-forwarded-for" && !is_on(recursive) {
        let difference = "the chain is read from the right past all trusted hops, as with `real_ip_recursive on`";
        client.remarks.differences.push(difference.to_owned());
        if let Some(directive) = named("real_ip_header").next_back() {
            ledger.differs(directive.id, difference);
        }
    }
    client
}
