//! Enters each directive among what is to be filled in that limits, restricts, authenticates, encrypts or changes an answer and is not
//! carried over.
//!
//! One that is left out and changes no answer in nginx either is not: no level below takes it, or nginx answers before it.

use super::directives::{self, DirectiveTreatment, NOT_TAKEN};
use super::encryption;
use super::tree::Directive;
use crate::ledger::Ledger;

/// Files that distributions include, which hold no guards.
const PLAIN_FILES: [&str; 5] = [
    "mime.types",
    "modules-enabled",
    "fastcgi",
    "_params",
    "fastcgi-php",
];

/// Blocks whose lines are no directives.
const LISTS: [&str; 7] = [
    "charset_map",
    "geo",
    "geoip2",
    "map",
    "num_map",
    "split_clients",
    "types",
];

/// The proof of who a client is, as far as directives ask for one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientProof {
    Requested,
    Absent,
}

/// Enters each guard that is not carried over among what is to be filled in, with its reason.
pub(super) fn require(directives: &[Directive], ledger: &mut Ledger) {
    let proof = match authenticates(directives) {
        true => ClientProof::Requested,
        false => ClientProof::Absent,
    };
    require_level(directives, proof, ledger);
}

/// Returns true if a directive asks for a proof of who the client is.
fn authenticates(directives: &[Directive]) -> bool {
    directives.iter().any(|it| {
        let is_proof = it.name.starts_with("auth_") && it.word(0) != Some("off");
        is_proof || authenticates(it.children())
    })
}

fn require_level(directives: &[Directive], proof: ClientProof, ledger: &mut Ledger) {
    let is_overridden = directives.iter().any(is_block) && has_all_routes(directives, ledger);
    for directive in directives {
        let rule = directives::find(&directive.name);
        if rule.is_some_and(|rule| rule.reason == NOT_TAKEN) {
            match is_overridden && !is_block(directive) {
                true => ledger.without_effect(directive.id, "no level below takes it"),
                false => ledger.left_out_with(directive.id, NOT_TAKEN),
            }
        }
        if directive.name == "satisfy" && proof == ClientProof::Absent {
            ledger.left_out(
                directive.id,
                "nothing authenticates, so the lists of clients decide alone in nginx too",
            );
            continue;
        }
        if guards(directive) && ledger.has_lost_effect(directive.id) {
            ledger.require(directive.id);
            if directive.name != "server" {
                continue;
            }
        }
        if !LISTS.contains(&directive.name.as_str()) {
            require_level(directive.children(), proof, ledger);
        }
    }
}

/// Returns true if each server block and location below became routes, or has no requests.
fn has_all_routes(directives: &[Directive], ledger: &Ledger) -> bool {
    directives
        .iter()
        .filter(|it| is_block(it))
        .all(|block| !ledger.has_lost_effect(block.id) && has_all_routes(block.children(), ledger))
}

fn is_block(directive: &Directive) -> bool {
    matches!(directive.name.as_str(), "http" | "server" | "location") && directive.block.is_some()
}

/// Returns true if leaving a directive out changes an answer or a bound.
fn guards(directive: &Directive) -> bool {
    let value = directive.word(0).unwrap_or_default();
    match directive.name.as_str() {
        "listen" => !value.starts_with("unix:") && !directive.arguments().any(|it| it == "quic"),
        "include" => !PLAIN_FILES.iter().any(|file| value.contains(file)),
        "ssl_protocols" | "proxy_ssl_protocols" | "grpc_ssl_protocols" => {
            encryption::least_version(directive) != Some("1.2")
        }
        "ssl_ciphers" | "proxy_ssl_ciphers" | "grpc_ssl_ciphers" => {
            !encryption::permits_all_suites(value)
        }
        "proxy_ssl_verify" | "grpc_ssl_verify" | "ssl_reject_handshake" | "internal" => {
            value != "off"
        }
        "client_max_body_size" => value != "0",
        // A server of an upstream is no block.
        "server" => directive.block.is_some(),
        name => match directives::find(name).map(|rule| rule.treatment) {
            None | Some(DirectiveTreatment::Guard | DirectiveTreatment::FillIn) => true,
            Some(DirectiveTreatment::FillInUnless(words)) => !words.contains(&value),
            Some(DirectiveTreatment::Part) => directives::writes_rate(directive),
            Some(DirectiveTreatment::LeftOut) => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::directives::{DIRECTIVES, DirectiveTreatment};
    use crate::{Format, NoFiles, import};

    /// Goal: each directive of the table has its treatment and its reason. Method: a location with each directive, imported; names that are
    /// beginnings end with a letter.
    #[test]
    fn each_directive_has_the_treatment_of_the_table() {
        let mut known = std::collections::BTreeSet::new();
        for rule in DIRECTIVES {
            for name in rule.names {
                assert!(known.insert(name), "{name} stands twice");
                if !matches!(
                    rule.treatment,
                    DirectiveTreatment::Guard | DirectiveTreatment::Part
                ) {
                    check(&name.replace('*', "x"), rule.treatment, rule.reason);
                }
            }
        }
        check(
            "some_module",
            DirectiveTreatment::FillIn,
            crate::ledger::UNKNOWN,
        );
    }

    fn check(name: &str, treatment: DirectiveTreatment, reason: &str) {
        let body = if name.ends_with("_by_lua_block") {
            "{ }"
        } else {
            "on;"
        };
        let on = match treatment {
            DirectiveTreatment::FillInUnless(words) if words.contains(&"on") => "other;",
            _ => body,
        };
        let proof = if name == "satisfy" {
            "auth_basic x;"
        } else {
            ""
        };
        let text = format!(
            "server {{ listen 8080; location / {{ proxy_pass http://10.0.0.1:80; {name} {on} {proof} }} }}"
        );
        let imported = import(Format::Nginx, "n", &text, &NoFiles).unwrap();
        let is_it = |line: &String| line.starts_with(&format!("n:1: {name}"));
        let is_required = imported.ledger.to_fill_in().iter().any(is_it);
        assert_eq!(
            is_required,
            treatment != DirectiveTreatment::LeftOut,
            "{name}"
        );
        let mut omissions = imported.ledger.omissions();
        let omission = omissions.find(|(entry, _)| entry.text.split(' ').next() == Some(name));
        assert_eq!(omission.map(|(_, reason)| reason), Some(reason), "{name}");
    }
}
