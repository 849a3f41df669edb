//! Enters each directive among what is to be filled in that limits, restricts, authenticates, encrypts or changes an answer and is not
//! carried over.
//!
//! One that is left out and changes no answer in nginx either is not: no level below takes it, or nginx answers before it.

use super::directives::{self, DirectiveTreatment, NOT_TAKEN};
use super::encryption;
use super::tree::Directive;
use crate::ledger::Ledger;
use crate::tls_suites::permits_all_curves;

/// The names of files that nginx and its packages install, which hold no guards. `proxy_params` of Debian sets Host, so it is none of them.
const PLAIN_FILES: [&str; 9] = [
    "fastcgi-php.conf",
    "fastcgi.conf",
    "fastcgi_params",
    "koi-utf",
    "koi-win",
    "mime.types",
    "scgi_params",
    "uwsgi_params",
    "win-utf",
];

/// The ends of patterns whose files load modules.
const MODULE_FILES: [&str; 2] = ["/modules-enabled/*.conf", "/nginx/modules/*.conf"];

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

/// The facts about the whole input on which the meaning of some directives depends.
struct InputTraits {
    /// A directive asks for a proof of who the client is.
    authenticates: bool,
    /// A listener asks for a certificate of the client.
    asks_for_certificate: bool,
    /// Pages take the place of answers of origins.
    intercepts: bool,
}

impl InputTraits {
    fn new(directives: &[Directive]) -> Self {
        let is_on = |it: &Directive| it.word(0) != Some("off");
        Self {
            authenticates: has_any(directives, &|it| it.name.starts_with("auth_") && is_on(it)),
            asks_for_certificate: has_any(directives, &|it| {
                it.name == "ssl_verify_client" && is_on(it)
            }),
            intercepts: has_any(directives, &|it| {
                it.name.ends_with("_intercept_errors") && is_on(it)
            }),
        }
    }
}

/// Returns true if some directive of any level is one of these.
fn has_any(directives: &[Directive], is_meant: &dyn Fn(&Directive) -> bool) -> bool {
    directives
        .iter()
        .any(|it| is_meant(it) || has_any(it.children(), is_meant))
}

/// Enters each guard that is not carried over among what is to be filled in, with its reason.
pub(super) fn require(directives: &[Directive], ledger: &mut Ledger) {
    require_level(directives, &InputTraits::new(directives), ledger);
}

fn require_level(directives: &[Directive], traits: &InputTraits, ledger: &mut Ledger) {
    let is_overridden = directives.iter().any(is_block) && has_all_routes(directives, ledger);
    for directive in directives {
        let rule = directives::find(&directive.name);
        if rule.is_some_and(|rule| rule.reason == NOT_TAKEN) {
            match is_overridden && !is_block(directive) {
                true => ledger.without_effect(directive.id, "no level below takes it"),
                false => ledger.left_out_with(directive.id, NOT_TAKEN),
            }
        }
        if is_idle(directive, traits, ledger) {
            continue;
        }
        if guards(directive) && ledger.has_lost_effect(directive.id) {
            ledger.require(directive.id);
            if directive.name != "server" {
                continue;
            }
        }
        if !LISTS.contains(&directive.name.as_str()) {
            require_level(directive.children(), traits, ledger);
        }
    }
}

/// Records a directive that guards nothing in this input, and returns true for it.
fn is_idle(directive: &Directive, traits: &InputTraits, ledger: &mut Ledger) -> bool {
    match directive.name.as_str() {
        "satisfy" if !traits.authenticates => ledger.left_out(
            directive.id,
            "nothing authenticates, so the lists of clients decide alone in nginx too",
        ),
        "ssl_trusted_certificate" if !traits.asks_for_certificate => ledger.left_out(
            directive.id,
            "no client is asked for a certificate, and the gateway staples no answers of authorities",
        ),
        "error_page" if !traits.intercepts && is_page_of_failures(directive) => {
            ledger.differs(directive.id, "the gateway answers its own failures with a page of its own; [error_pages.STATUS] has others");
        }
        _ => return false,
    }
    true
}

/// Returns true for a file that takes the place of nginx's own page about a failure, whose status stays: `error_page 500 502 /50x.html`.
pub(super) fn is_page_of_failures(directive: &Directive) -> bool {
    let Some((target, statuses)) = directive.words.split_last() else {
        return false;
    };
    let is_failure = |status: &String| status.len() == 3 && status.starts_with('5');
    let is_file = target.ends_with(".html") || target.ends_with(".htm");
    target.starts_with('/') && is_file && !statuses.is_empty() && statuses.iter().all(is_failure)
}

/// Returns true for an included file, or a pattern of them, that a package installs and that holds no guards.
fn is_plain_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    PLAIN_FILES.contains(&name)
        || MODULE_FILES
            .iter()
            .any(|end| format!("/{path}").ends_with(end))
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
        "include" => !is_plain_file(value),
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
        "ssl_ecdh_curve" => !permits_all_curves(value),
        // Failed connections are repeated in any case.
        "proxy_next_upstream" | "grpc_next_upstream" => directive
            .arguments()
            .any(|it| !["error", "timeout", "off"].contains(&it)),
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
