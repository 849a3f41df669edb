//! Recognizes server blocks that do nothing but send clients to HTTPS, which become `redirect_to_https` of their listener.
//!
//! They are written in four ways: with `return` in the block, with `return` in `location /` beside one for the questions of certificate
//! authorities, as certbot writes them, with an `if` for each host, and with a `rewrite` of all paths.

use super::listens::ServerBlock;
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

/// Records that a block's redirect is left out, where its address also has blocks that do something else.
pub(super) fn say_if_left_out(server: &Directive, ledger: &mut Ledger) {
    let nested = server.children().iter().flat_map(Directive::children);
    let returns = server.children().iter().chain(nested);
    let lost = returns.filter(|it| is_return(it) && !ledger.is_translated(it.id));
    let lost: Vec<EntryId> = lost.map(|it| it.id).collect();
    for id in lost {
        let reason =
            "its address has other server blocks too, which a redirect of the listener would hide";
        ledger.lose(id, reason);
    }
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
