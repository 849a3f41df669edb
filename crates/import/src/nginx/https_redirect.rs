//! Recognizes server blocks that do nothing but send clients to HTTPS, which become `redirect_to_https` of their listener. Beside blocks
//! that do something else at its address they have routes as these do.
//!
//! They are written in four ways: with `return` in the block, with `return` in `location /` beside one for the questions of certificate
//! authorities, as certbot writes them, with an `if` for each host, and with a `rewrite` of all paths.

use std::collections::BTreeSet;

use super::address_groups::AddressGroups;
use super::listens::{ListenAddress, ServerBlock};
use super::tree::Directive;
use crate::ledger::{EntryId, Ledger};

/// The targets that mean the same host and path over HTTPS.
const TARGETS: [&str; 3] = [
    "https://$host$request_uri",
    "https://$server_name$request_uri",
    "https://$http_host$request_uri",
];

/// The same with the group of an expression over the path.
const GROUP_TARGETS: [&str; 6] = [
    "https://$host$1",
    "https://$host/$1",
    "https://$http_host$1",
    "https://$http_host/$1",
    "https://$server_name$1",
    "https://$server_name/$1",
];

/// Where certificate authorities ask (RFC 8555 §8.3).
const ACME: &str = "/.well-known/acme-challenge";

/// The listeners all of whose server blocks send clients to HTTPS, and the blocks that these listeners stand for.
pub(super) struct HttpsRedirects {
    listeners: BTreeSet<String>,
    blocks: BTreeSet<usize>,
}

impl HttpsRedirects {
    pub(super) fn new(servers: &[ServerBlock<'_>], addresses: &AddressGroups) -> Self {
        let redirecting = servers.iter().enumerate().filter(|(_, it)| is_all_of(it));
        let redirecting: BTreeSet<usize> = redirecting.map(|(number, _)| number).collect();
        let redirects = |bound: &str| {
            let mut blocks = addresses.behind(bound).flat_map(|group| &group.blocks);
            blocks.all(|number| redirecting.contains(number))
        };
        let listeners = addresses.groups().map(|group| &group.bound);
        let listeners: BTreeSet<&String> = listeners.collect();
        let listeners = listeners.into_iter().filter(|it| redirects(it));
        let listeners: BTreeSet<String> = listeners.cloned().collect();
        let is_at = |listen: &ListenAddress<'_>| {
            let bound = addresses.bound(&listen.address);
            bound.is_some_and(|it| listeners.contains(it))
        };
        let is_alone = |number: &usize| {
            let listens = &servers[*number].listens;
            !listens.is_empty() && listens.iter().all(is_at)
        };
        Self {
            blocks: redirecting.iter().copied().filter(is_alone).collect(),
            listeners,
        }
    }

    /// Returns true for the address of a listener that redirects all requests.
    pub(super) fn are_at(&self, listener: &str) -> bool {
        self.listeners.contains(listener)
    }

    /// Returns true for the number of a server block all of whose requests listeners redirect.
    pub(super) fn contains(&self, block: usize) -> bool {
        self.blocks.contains(&block)
    }
}

/// Returns true if a server block does nothing but send clients to HTTPS.
pub(super) fn is_all_of(server: &ServerBlock<'_>) -> bool {
    let children = server.directive.children();
    let is_about_paths = |it: &Directive| {
        matches!(it.name.as_str(), "location" | "if") || (it.name == "rewrite" && !is_return(it))
    };
    let is_harmless =
        |it: &Directive| is_in_condition(it) || is_for_authorities(it) || is_root_location(it);
    server.listens.iter().all(|listen| !listen.has_tls())
        && children
            .iter()
            .any(|it| is_return(it) || is_in_condition(it) || is_root_location(it))
        && children
            .iter()
            .all(|it| !is_about_paths(it) || is_harmless(it))
        && children
            .iter()
            .all(|it| it.name != "return" || is_return(it) || it.word(0) == Some("404"))
}

/// Returns true for the `if` of certbot: `if ($host = example.com) { return 301 https://$host$request_uri; }`.
pub(super) fn is_in_condition(directive: &Directive) -> bool {
    directive.name == "if"
        && directive.word(0) == Some("($host")
        && directive.word(1) == Some("=")
        && !directive.children().is_empty()
        && directive.children().iter().all(is_return)
}

/// Records what the redirect of a listener stands for, and returns the directives that it is made of.
pub(super) fn record(server: &Directive, ledger: &mut Ledger) -> Vec<EntryId> {
    let mut made_of = Vec::new();
    for child in server.children() {
        match child.name.as_str() {
            "if" | "location" if !is_for_authorities(child) => {
                ledger.translated(child.id);
                record_returns(child.children(), &mut made_of, ledger);
            }
            "location" => {
                let reason =
                    "the gateway answers certificate authorities for names in `acme` of a listener";
                ledger.left_out(child.id, reason);
                ledger.fill_in_for(
                    child.id,
                    "if another program orders certificates, a route with this path to a server that has its files",
                );
                for inner in child.children() {
                    ledger.left_out_with(inner.id, reason);
                }
            }
            _ => {}
        }
    }
    record_returns(server.children(), &mut made_of, ledger);
    made_of
}

fn record_returns(directives: &[Directive], made_of: &mut Vec<EntryId>, ledger: &mut Ledger) {
    let redirects = |it: &&Directive| it.name == "return" || is_return(it);
    for directive in directives.iter().filter(redirects) {
        let difference = match is_return(directive) {
            true => {
                "the redirect is 308 to port 443, except for what certificate authorities ask for"
            }
            false => "requests for other hosts are redirected too",
        };
        ledger.differs(directive.id, difference);
        made_of.push(directive.id);
    }
}

fn is_return(directive: &Directive) -> bool {
    let first = directive.word(0);
    let to = directive.word(1);
    match directive.name.as_str() {
        "return" => {
            matches!(first, Some("301" | "302" | "307" | "308"))
                && to.is_some_and(|to| TARGETS.contains(&to))
        }
        "rewrite" => to.is_some_and(|to| {
            let is_target = TARGETS.contains(&to.trim_end_matches('?'));
            match first {
                Some("^" | "^/" | "^.*" | "^.*$" | ".*") => is_target,
                Some("^(.*)" | "^(.*)$" | "(.*)" | "^/(.*)" | "^/(.*)$") => {
                    is_target || GROUP_TARGETS.contains(&to.trim_end_matches('?'))
                }
                _ => false,
            }
        }),
        _ => false,
    }
}

/// `location / { return 301 https://$host$request_uri; }`
fn is_root_location(directive: &Directive) -> bool {
    let returns = |it: &Directive| is_return(it);
    directive.name == "location"
        && directive.words == ["/"]
        && directive.children().len() == 1
        && directive.children().iter().all(returns)
}

fn is_for_authorities(directive: &Directive) -> bool {
    directive.name == "location"
        && directive
            .words
            .last()
            .is_some_and(|path| path.starts_with(ACME))
}
