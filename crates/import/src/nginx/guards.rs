//! Decides which directives guard: they limit, restrict, authenticate or encrypt. A guard that is not carried over is to be filled in.
//!
//! A guard that is left out and changes no answer in nginx either is not: no level below takes it, or nginx answers before it.

use super::encryption;
use super::tree::Directive;
use crate::ledger::Ledger;

/// Directives that translators take where a route, a listener or an origin needs them.
const KNOWN: [&str; 47] = [
    "allow",
    "client_max_body_size",
    "deny",
    "geo",
    "grpc_pass",
    "grpc_ssl_certificate",
    "grpc_ssl_certificate_key",
    "grpc_ssl_name",
    "grpc_ssl_trusted_certificate",
    "grpc_ssl_verify",
    "http",
    "internal",
    "limit_conn",
    "limit_conn_dry_run",
    "limit_conn_status",
    "limit_conn_zone",
    "limit_req",
    "limit_req_dry_run",
    "limit_req_status",
    "limit_req_zone",
    "listen",
    "location",
    "map",
    "proxy_connect_timeout",
    "proxy_pass",
    "proxy_read_timeout",
    "proxy_send_timeout",
    "proxy_set_header",
    "proxy_ssl_certificate",
    "proxy_ssl_certificate_key",
    "proxy_ssl_name",
    "proxy_ssl_trusted_certificate",
    "proxy_ssl_verify",
    "real_ip_header",
    "real_ip_recursive",
    "return",
    "server",
    "server_name",
    "set_real_ip_from",
    "ssl",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_client_certificate",
    "ssl_protocols",
    "ssl_reject_handshake",
    "ssl_verify_client",
    "upstream",
];

/// Guards by the beginnings of their names, those of other modules among them.
const BEGINNINGS: [&str; 26] = [
    "access_by",
    "app_protect",
    "auth_",
    "basicrule",
    "checkrule",
    "deniedurl",
    "fastcgi_limit_rate",
    "grpc_ssl_",
    "js_access",
    "limit_",
    "mainrule",
    "modsecurity",
    "oidc_",
    "proxy_cookie_flags",
    "proxy_limit_rate",
    "proxy_ssl_",
    "rewrite_by_lua",
    "scgi_limit_rate",
    "secrules",
    "secure_link",
    "secure_token",
    "server_rewrite_by_lua",
    "ssl_",
    "testcookie",
    "uwsgi_limit_rate",
    "uwsgi_ssl_",
];

/// Other guards. A directive without a counterpart that may hold guards is one too.
const NAMES: [&str; 15] = [
    "allow",
    "client_max_body_size",
    "deny",
    "if",
    "internal",
    "mail",
    "perl",
    "return",
    "satisfy",
    "server",
    "set_real_ip_from",
    "ssl",
    "stream",
    "valid_referers",
    "real_ip_header",
];

/// Directives with such a name that guard nothing: sessions, buffers, curves, words in logs, and statuses of guards.
const EXCEPTIONS: [&str; 28] = [
    "grpc_ssl_name",
    "grpc_ssl_server_name",
    "grpc_ssl_session_reuse",
    "limit_conn_dry_run",
    "limit_conn_log_level",
    "limit_conn_status",
    "limit_conn_zone",
    "limit_req_dry_run",
    "limit_req_log_level",
    "limit_req_status",
    "limit_req_zone",
    "proxy_ssl_name",
    "proxy_ssl_server_name",
    "proxy_ssl_session_reuse",
    "proxy_ssl_verify_depth",
    "ssl_buffer_size",
    "ssl_certificate_cache",
    "ssl_dhparam",
    "ssl_early_data",
    "ssl_ecdh_curve",
    "ssl_engine",
    "ssl_prefer_server_ciphers",
    "ssl_session_cache",
    "ssl_session_ticket_key",
    "ssl_session_tickets",
    "ssl_session_timeout",
    "ssl_stapling",
    "ssl_stapling_verify",
];

/// Fields of answers by which browsers restrict pages.
const SECURITY_FIELDS: [&str; 8] = [
    "content-security-policy",
    "cross-origin-embedder-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "permissions-policy",
    "referrer-policy",
    "strict-transport-security",
    "x-frame-options",
];

/// Files that distributions include, which hold no guards.
const PLAIN_FILES: [&str; 5] = [
    "mime.types",
    "modules-enabled",
    "fastcgi",
    "_params",
    "fastcgi-php",
];

/// Enters each guard that is not carried over among what is to be filled in, with its reason.
pub(super) fn require(directives: &[Directive], ledger: &mut Ledger) {
    let is_overridden = directives.iter().any(is_block) && has_all_routes(directives, ledger);
    for directive in directives {
        if KNOWN.contains(&directive.name.as_str()) {
            let reason = "no route that is imported takes it";
            match is_overridden && !is_block(directive) {
                true => ledger.without_effect(directive.id, "no level below takes it"),
                false => ledger.left_out_with(directive.id, reason),
            }
        }
        if guards(directive) && ledger.has_lost_effect(directive.id) {
            ledger.require(directive.id);
            if directive.name != "server" {
                continue;
            }
        }
        require(directive.children(), ledger);
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

/// Returns true if leaving a directive out lets requests pass, or in clear text, that nginx would not let pass.
fn guards(directive: &Directive) -> bool {
    let name = directive.name.to_ascii_lowercase();
    let value = directive.word(0).unwrap_or_default();
    match name.as_str() {
        "listen" => !value.starts_with("unix:") && !directive.arguments().any(|it| it == "quic"),
        "include" => !PLAIN_FILES.iter().any(|file| value.contains(file)),
        "satisfy" => value == "any",
        "add_header" => SECURITY_FIELDS.contains(&value.to_ascii_lowercase().as_str()),
        // Fields of clients and bodies are kept from origins.
        "proxy_pass_request_headers" | "proxy_pass_request_body" => value == "off",
        "ssl_protocols" | "proxy_ssl_protocols" | "grpc_ssl_protocols" => {
            encryption::least_version(directive) != Some("1.2")
        }
        "ssl_ciphers" | "proxy_ssl_ciphers" | "grpc_ssl_ciphers" => {
            !encryption::permits_all_suites(value)
        }
        // Requests that nginx sends elsewhere come to an origin.
        "rewrite" => super::jumps::is_redirect(directive),
        // A server of an upstream is no block.
        "server" => directive.block.is_some(),
        _ if matches!(value, "off" | "0") => false,
        name if EXCEPTIONS.contains(&name) => false,
        name => {
            NAMES.contains(&name)
                || BEGINNINGS
                    .iter()
                    .any(|beginning| name.starts_with(beginning))
        }
    }
}
