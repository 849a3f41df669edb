//! Holds the treatment of each directive of nginx, with the reason where it has no counterpart.
//!
//! A directive that limits, restricts, hides, authenticates, encrypts or changes an answer is translated or is to be filled in. One is left
//! out if it changes no answer and no bound: the memory, files, logs and processes of nginx. A directive that is not in the table is to be
//! filled in, since it may do anything.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::tree::Directive;

/// The treatment of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectiveTreatment {
    /// A translator takes it, and it is to be filled in where none did.
    Guard,
    /// A translator takes it; another directive reports what is lost without it.
    Part,
    /// It is to be filled in.
    FillIn,
    /// It is to be filled in unless its first word is one of these.
    FillInUnless(&'static [&'static str]),
    /// It is left out.
    LeftOut,
}

use DirectiveTreatment::{FillIn, FillInUnless, Guard, LeftOut, Part};

/// Directives with one treatment and one reason.
pub(super) struct DirectiveRule {
    /// Their names; those with `*` at the end are beginnings.
    pub(super) names: &'static [&'static str],
    pub(super) treatment: DirectiveTreatment,
    pub(super) reason: &'static str,
}

const fn rule(
    names: &'static [&'static str],
    treatment: DirectiveTreatment,
    reason: &'static str,
) -> DirectiveRule {
    DirectiveRule {
        names,
        treatment,
        reason,
    }
}

/// Words that turn a directive off.
const OFF: &[&str] = &["off", "0"];

/// The reason for a directive that a translator takes.
pub(super) const NOT_TAKEN: &str = "no route that is imported takes it";

/// The reason for variables that `set` writes without a counterpart.
const SLOWED: &str = "the gateway does not slow answers down";

/// All directives that are known.
#[rustfmt::skip]
pub(super) const DIRECTIVES: &[DirectiveRule] = &[
    // What translators take.
    rule(&[
        "allow", "client_body_timeout", "client_header_timeout", "client_max_body_size", "deny", "grpc_hide_header", "grpc_ssl_certificate",
        "grpc_ssl_certificate_key", "grpc_ssl_trusted_certificate", "grpc_ssl_verify", "http2_max_concurrent_streams", "internal",
        "keepalive_timeout", "large_client_header_buffers", "limit_conn", "limit_req", "max_headers", "proxy_connect_timeout",
        "proxy_hide_header", "proxy_read_timeout", "proxy_send_timeout", "proxy_ssl_certificate", "proxy_ssl_certificate_key",
        "proxy_ssl_trusted_certificate", "proxy_ssl_verify", "real_ip_header", "return", "send_timeout", "set_real_ip_from",
        "ssl_certificate", "ssl_certificate_key", "ssl_client_certificate", "ssl_protocols", "ssl_reject_handshake",
    ], Guard, NOT_TAKEN),
    rule(&["ssl", "ssl_verify_client"], FillInUnless(OFF), NOT_TAKEN),
    rule(&[
        "geo", "grpc_pass", "grpc_ssl_name", "hash", "http", "include", "ip_hash", "keepalive", "least_conn", "limit_conn_dry_run",
        "limit_conn_status", "limit_conn_zone", "limit_req_dry_run", "limit_req_status", "limit_req_zone", "listen", "location", "map",
        "proxy_pass", "proxy_set_header", "proxy_ssl_name", "random", "real_ip_recursive", "server", "server_name",
        "underscores_in_headers", "upstream", "zone",
    ], Part, NOT_TAKEN),
    rule(&["add_header", "more_clear_headers", "more_clear_input_headers", "more_set_headers", "more_set_input_headers"], Guard,
        "no response_headers or request_headers of a route is this"),

    // Bounds.
    rule(&["limit_rate", "limit_rate_after", "proxy_limit_rate", "fastcgi_limit_rate", "scgi_limit_rate", "uwsgi_limit_rate"],
        FillInUnless(OFF), SLOWED),
    rule(&["keepalive_requests", "keepalive_time"], LeftOut, "the gateway ends no connection by its age or its number of requests"),
    rule(&["keepalive_min_timeout"], LeftOut, "the gateway keeps idle connections as long as keepalive_timeout says"),
    rule(&["max_ranges"], FillIn, "origins answer requests for ranges; remove the field Range in [route.request_headers]"),
    rule(&["lingering_time", "lingering_timeout"], FillIn, "the bounds on bodies that nobody reads are the gateway's own"),
    rule(&["lingering_close"], FillInUnless(&["on", "always"]), "the bounds on bodies that nobody reads are the gateway's own"),
    rule(&["limit_zone"], FillIn, "nginx has replaced it by limit_conn_zone"),
    rule(&[
        "http2_idle_timeout", "http2_max_concurrent_pushes", "http2_max_field_size", "http2_max_header_size", "http2_max_requests",
        "http2_recv_timeout",
    ], FillIn, "[server] has the bounds on heads and times of all clients, also over HTTP/2"),
    rule(&["http3_max_concurrent_streams"], FillIn, "listeners speak HTTP/1.1 and HTTP/2"),
    rule(&["queue"], FillIn, "see max_connections and max_pending in circuit_breaker of [origin.NAME]"),
    rule(&["limit_except"], FillIn, "write `methods` in the route, and a route without them that responds with 403"),
    rule(&["merge_slashes"], FillInUnless(&["on"]), "the gateway matches paths without double slashes"),
    rule(&["disable_symlinks"], FillInUnless(OFF), "the gateway serves no files"),
    rule(&["dav_access", "min_delete_depth"], FillIn, "the gateway serves no files"),

    // Authentication and access.
    rule(&[
        "auth_basic", "auth_basic_user_file", "auth_delay", "auth_http*", "auth_jwt*", "auth_oidc*", "auth_request", "auth_request_set",
        "oidc_*",
    ], FillInUnless(OFF), "the gateway does not authenticate requests"),
    rule(&["satisfy"], FillInUnless(&["all"]), "the gateway does not authenticate requests, so the lists of clients decide alone"),
    rule(&["secure_link", "secure_link_md5", "secure_link_secret"], FillIn, "the gateway does not check signatures of links"),
    rule(&["valid_referers"], FillIn, "a route has no condition on a part of a field"),
    rule(&["referer_hash_*", "auth_jwt_claim_set", "auth_jwt_header_set"], LeftOut, "it guards nothing by itself"),
    rule(&["modsecurity*", "app_protect*"], FillInUnless(OFF), "the gateway does not inspect requests for attacks"),

    // TLS.
    rule(&["ssl_ciphers", "proxy_ssl_ciphers", "grpc_ssl_ciphers"], Guard,
        "the gateway has ECDHE with AES-GCM and ChaCha20-Poly1305, and no key for ciphers"),
    rule(&["proxy_ssl_protocols", "grpc_ssl_protocols"], Guard, "origins are asked by TLS 1.2 or 1.3, and there is no key for it"),
    rule(&[
        "grpc_ssl_conf_command", "grpc_ssl_crl", "grpc_ssl_password_file", "proxy_ssl_conf_command", "proxy_ssl_crl",
        "proxy_ssl_password_file",
    ], FillIn, "[origin.NAME.tls] has no key for it"),
    rule(&["proxy_ssl_verify_depth", "grpc_ssl_verify_depth"], FillIn, "chains of certificates have no bound of their own"),
    rule(&["ssl_ecdh_curve"], Guard, "the gateway has X25519, P-256 and P-384, and no key for curves"),
    rule(&[
        "ssl_certificate_compression", "ssl_client_hello", "ssl_conf_command", "ssl_crl", "ssl_ocsp*", "ssl_password_file",
    ], FillInUnless(OFF), "[listener.tls] has no key for it"),
    rule(&["ssl_trusted_certificate"], Guard, "[listener.tls] has one client_ca_file, whose names clients are sent"),
    rule(&["ssl_verify_depth"], FillIn, "chains of certificates have no bound of their own"),
    rule(&["uwsgi_ssl_*"], FillInUnless(OFF), "origins speak HTTP"),
    rule(&["proxy_ssl_server_name", "grpc_ssl_server_name"], LeftOut, "origins are sent the name that their certificate is verified by"),
    rule(&[
        "grpc_ssl_certificate_cache", "grpc_ssl_key_log", "grpc_ssl_session_reuse", "proxy_ssl_certificate_cache", "proxy_ssl_key_log",
        "proxy_ssl_session_reuse", "ssl_buffer_size", "ssl_certificate_cache", "ssl_engine", "ssl_handshake_timeout", "ssl_key_log",
        "ssl_object_cache*", "ssl_session_cache", "ssl_session_ticket_key", "ssl_session_tickets", "ssl_session_timeout",
        "ssl_stapling*",
    ], LeftOut, "memory and sessions of nginx's TLS"),
    rule(&["ssl_dhparam", "ssl_prefer_server_ciphers"], LeftOut, "the gateway has no suite with DHE, and an order of its own"),
    rule(&["ssl_early_data"], LeftOut, "the gateway takes no early data"),

    // What origins and clients get.
    rule(&["proxy_method", "grpc_method", "proxy_set_body"], FillIn, "origins get the method and the body of the client"),
    rule(&[
        "fastcgi_pass_request_body", "fastcgi_pass_request_headers", "proxy_pass_request_body", "proxy_pass_request_headers",
        "scgi_pass_request_body", "scgi_pass_request_headers", "uwsgi_pass_request_body", "uwsgi_pass_request_headers",
    ], FillInUnless(&["on"]), "origins get the fields and the body of the client"),
    rule(&["grpc_set_header"], FillIn, "write [route.request_headers]"),
    rule(&["proxy_cookie_domain", "proxy_cookie_flags", "proxy_cookie_path"], FillInUnless(OFF), "the gateway does not rewrite Set-Cookie"),
    rule(&["proxy_redirect"], FillInUnless(&["off", "default"]), "the gateway does not rewrite Location"),
    rule(&["proxy_bind", "grpc_bind"], FillInUnless(OFF), "connections to origins have the address that the system gives them"),
    rule(&["proxy_store", "proxy_store_access"], FillInUnless(OFF), "the gateway stores no files"),
    rule(&["proxy_force_ranges"], FillInUnless(OFF), "origins answer requests for ranges"),
    rule(&["add_trailer"], FillIn, "the gateway adds no trailers"),
    rule(&[
        "add_after_body", "add_before_body", "addition_types", "image_filter*", "ssi", "sub_filter", "xml_entities", "xslt_*",
    ], FillInUnless(OFF), "the gateway does not change bodies"),
    rule(&["ssi_*", "sub_filter_last_modified", "sub_filter_once", "sub_filter_types"], LeftOut,
        "it belongs to a directive that is listed by itself"),
    rule(&["expires"], FillInUnless(OFF), "write cache-control in [route.response_headers]"),
    rule(&["charset"], FillInUnless(OFF), "the gateway does not change Content-Type"),
    rule(&["userid"], FillInUnless(&["off", "log"]), "the gateway sets no cookie to tell users apart"),
    rule(&["userid_*"], LeftOut, "it belongs to `userid`"),
    rule(&["post_action"], FillIn, "the gateway asks nothing after an answer"),
    rule(&["proxy_next_upstream", "grpc_next_upstream"], FillIn, "see [origin.NAME.retry]"),
    rule(&[
        "grpc_next_upstream_timeout", "grpc_next_upstream_tries", "proxy_next_upstream_timeout", "proxy_next_upstream_tries",
    ], FillInUnless(OFF), "see deadline of [origin.NAME.retry]"),
    rule(&["grpc_connect_timeout", "grpc_read_timeout", "grpc_send_timeout"], FillIn, "see [origin.NAME.timeouts]"),
    rule(&["stream", "mail"], FillIn, "the gateway speaks HTTP"),
    rule(&["sticky*"], FillIn, "see [origin.NAME.sticky]"),

    // Programs.
    rule(&["if", "rewrite"], Guard, "a program has no counterpart; write routes with conditions, or `rewrite` of a route"),
    rule(&["set"], Part, "a variable is read where a directive uses it"),
    rule(&["break", "split_clients", "uninitialized_variable_warn", "rewrite_log"], LeftOut, "it changes no answer by itself"),
    rule(&[
        "access_by_lua*", "balancer_by_lua*", "body_filter_by_lua*", "content_by_lua*", "header_filter_by_lua*", "js_access",
        "js_body_filter",
        "js_content", "js_header_filter", "js_periodic", "perl", "rewrite_by_lua*", "server_rewrite_by_lua*", "set_by_lua*",
        "ssl_certificate_by_lua*", "ssl_client_hello_by_lua*",
    ], FillIn, "a program has no counterpart; write routes with conditions, or `rewrite` of a route"),
    rule(&[
        "exit_worker_by_lua*", "init_by_lua*", "init_worker_by_lua*", "js_*", "log_by_lua*", "lua_*", "perl_*",
    ], LeftOut, "settings of programs, each of which is listed by itself"),
    rule(&["geoip_*", "geoip2"], LeftOut, "it changes no answer by itself; see [geo]"),
    rule(&["keyval", "keyval_zone", "num_map"], LeftOut, "it changes no answer by itself"),

    // What changes no answer and no bound.
    rule(&[
        "accept_mutex", "accept_mutex_delay", "daemon", "debug_connection", "debug_points", "env", "epoll_events", "events", "load_module",
        "lock_file", "master_process", "multi_accept", "pcre_jit", "pid", "thread_pool", "timer_resolution", "use", "user",
        "worker_aio_requests", "worker_connections", "worker_cpu_affinity", "worker_priority", "worker_processes", "worker_rlimit_core",
        "worker_rlimit_nofile", "worker_shutdown_timeout", "working_directory",
    ], LeftOut, "the process of nginx; see [server]"),
    rule(&["access_log", "log_format", "log_not_found", "log_subrequest", "open_log_file_cache", "session_log*"], LeftOut, "see [log]"),
    rule(&["error_log", "limit_conn_log_level", "limit_req_log_level"], LeftOut, "the process log has its levels in SLUICEGATE_LOG"),
    rule(&[
        "client_body_buffer_size", "client_body_in_file_only", "client_body_in_single_buffer", "client_body_temp_path",
        "client_header_buffer_size", "connection_pool_size", "grpc_buffer_size", "http2_body_preread_size", "http2_chunk_size",
        "http2_pool_size", "http2_recv_buffer_size", "http2_streams_index_size", "http3_stream_buffer_size", "map_hash_*",
        "open_file_cache*",
        "output_buffers", "postpone_output", "proxy_headers_hash_*", "proxy_temp_file_write_size", "proxy_temp_path", "request_pool_size",
        "server_names_hash_*", "subrequest_output_buffer_size", "types_hash_*", "variables_hash_*",
    ], LeftOut, "memory and temporary files of nginx"),
    rule(&[
        "aio", "aio_write", "directio", "directio_alignment", "proxy_send_lowat", "proxy_socket_keepalive", "grpc_socket_keepalive",
        "read_ahead", "reset_timedout_connection", "send_lowat", "sendfile", "sendfile_max_chunk", "tcp_nodelay", "tcp_nopush",
    ], LeftOut, "the way in which nginx reads files and writes to sockets"),
    rule(&[
        "alias", "autoindex*", "dav_methods", "create_full_put_path", "etag", "f4f*", "flv", "gzip_static", "hls*",
        "if_modified_since", "index", "mp4*", "random_index", "root", "try_files", "types", "ancient_browser*", "modern_browser*",
        "brotli_static",
    ], LeftOut, "the gateway serves no files"),
    rule(&["default_type"], LeftOut, "see `content_type` of `respond`"),
    rule(&["brotli*", "gunzip*", "gzip*", "zstd*"], LeftOut, "the content stays the same; see [compress]"),
    rule(&["charset_map", "charset_types", "override_charset", "source_charset"], LeftOut, "it belongs to `charset`"),
    rule(&["absolute_redirect", "port_in_redirect", "server_name_in_redirect"], LeftOut,
        "redirects of the gateway have the target that is written"),
    rule(&["server_tokens"], LeftOut, "the gateway names no version"),
    rule(&["msie_padding", "msie_refresh", "keepalive_disable", "chunked_transfer_encoding"], LeftOut, "it is for clients of old"),
    rule(&["error_page"], Guard, "write what it answers with in [error_pages.STATUS]"),
    rule(&["grpc_intercept_errors", "proxy_intercept_errors"], FillInUnless(OFF), "write `intercept = true` in [error_pages.STATUS]"),
    rule(&["recursive_error_pages"], LeftOut, "it belongs to `error_page`"),
    rule(&["proxy_cache*", "proxy_no_cache", "proxy_no_cache*", "slice"], LeftOut,
        "the gateway caches nothing until [route.cache] is written"),
    rule(&["grpc_ignore_headers", "proxy_ignore_headers"], LeftOut,
        "the gateway follows no X-Accel field, and caches nothing until [route.cache] is written"),
    rule(&["grpc_pass_header", "proxy_pass_header", "proxy_pass_trailers"], LeftOut, "the gateway passes all fields of origins on"),
    rule(&[
        "proxy_allow_upstream", "proxy_buffer_size", "proxy_buffering", "proxy_buffers", "proxy_busy_buffers_size",
        "proxy_max_temp_file_size", "proxy_request_buffering", "proxy_ignore_client_abort",
    ], LeftOut, "the gateway passes bodies on as they come"),
    rule(&["proxy_http_version"], LeftOut, "origins are asked by HTTP/1.1; see [origin.NAME] protocol"),
    rule(&["ignore_invalid_headers"], LeftOut, "a field whose name is invalid goes no further; see [server] underscores"),
    rule(&["http2", "http2_push", "http2_push_preload"], LeftOut, "listeners accept HTTP/2 unless `http2 = false` is written"),
    rule(&["http3", "http3_hq", "quic_*"], LeftOut, "listeners speak HTTP/1.1 and HTTP/2"),
    rule(&["fastcgi_pass", "memcached_pass", "scgi_pass", "uwsgi_pass"], LeftOut, "origins speak HTTP; keep a server in front of this one"),
    rule(&["fastcgi_hide_header", "scgi_hide_header", "uwsgi_hide_header"], FillIn, "write `remove` in [route.response_headers]"),
    rule(&["fastcgi_*", "memcached_*", "scgi_*", "uwsgi_*"], LeftOut, "origins speak HTTP"),
    rule(&["resolver", "resolver_timeout"], LeftOut, "names of servers are resolved by the system"),
    rule(&["api", "status", "status_format", "status_zone", "stub_status", "vhost_traffic_status*"], LeftOut, "see the metrics of [admin]"),
    rule(&["mirror", "mirror_request_body"], LeftOut, "the gateway sends no copies of requests"),
    rule(&["empty_gif"], LeftOut, "write `respond` of a route"),
    rule(&["health_check*", "match", "ntlm", "state", "upstream_conf", "least_time"], LeftOut, "see [origin.NAME.health] and `balance`"),
    rule(&["google_perftools_profiles", "mgmt", "opentracing*", "otel_*", "zone_sync*"], LeftOut, "it is about nginx's own operation"),
];

/// The rules of whole names.
static WHOLE_NAMES: LazyLock<BTreeMap<&str, &DirectiveRule>> = LazyLock::new(|| {
    let names = names().filter(|(name, _)| !name.ends_with('*'));
    names.collect()
});

/// The rules of beginnings of names.
static BEGINNINGS: LazyLock<Vec<(&str, &DirectiveRule)>> = LazyLock::new(|| {
    let names = names().filter_map(|(name, rule)| Some((name.strip_suffix('*')?, rule)));
    names.collect()
});

fn names() -> impl Iterator<Item = (&'static str, &'static DirectiveRule)> {
    DIRECTIVES
        .iter()
        .flat_map(|rule| rule.names.iter().map(move |name| (*name, rule)))
}

/// Returns the rule of a name: the one that names it, or the one with the longest beginning.
pub(super) fn find(name: &str) -> Option<&'static DirectiveRule> {
    let by_beginning = || {
        let beginnings = BEGINNINGS.iter().filter(|(it, _)| name.starts_with(it));
        beginnings
            .max_by_key(|(it, _)| it.len())
            .map(|(_, rule)| *rule)
    };
    WHOLE_NAMES.get(name).copied().or_else(by_beginning)
}

/// Returns the reason for which a directive is left out unless a translator takes it; `None` where its name is not known.
pub(super) fn reason(directive: &Directive) -> Option<&'static str> {
    if writes_rate(directive) {
        return Some(SLOWED);
    }
    let rule = find(&directive.name)?;
    (rule.reason != NOT_TAKEN).then_some(rule.reason)
}

/// Returns true for `set` with a variable of nginx that has an effect of its own.
pub(super) fn writes_rate(directive: &Directive) -> bool {
    let variable = directive.word(0).unwrap_or_default();
    directive.name == "set" && matches!(variable, "$limit_rate" | "$limit_rate_after")
}
