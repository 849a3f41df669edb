//! Says of directives that are not about routes and limits where the gateway has what they are about.

/// Returns the reason for which a directive is left out; `None` where its name is not known.
pub(super) fn reason(name: &str) -> Option<&'static str> {
    let reason = match name {
        "worker_processes"
        | "worker_connections"
        | "worker_rlimit_nofile"
        | "events"
        | "multi_accept"
        | "use"
        | "daemon"
        | "master_process"
        | "pid"
        | "user"
        | "accept_mutex"
        | "worker_cpu_affinity"
        | "worker_priority"
        | "thread_pool"
        | "load_module"
        | "env"
        | "working_directory"
        | "lock_file"
        | "pcre_jit"
        | "timer_resolution"
        | "worker_shutdown_timeout" => "the process of nginx; see [server]",
        "access_log" | "log_format" | "log_subrequest" | "log_not_found" => "see [log]",
        "error_log" | "limit_req_log_level" | "limit_conn_log_level" | "rewrite_log" => {
            "the process log has its levels in SLUICEGATE_LOG"
        }
        "sendfile"
        | "tcp_nopush"
        | "tcp_nodelay"
        | "aio"
        | "directio"
        | "output_buffers"
        | "postpone_output"
        | "open_file_cache"
        | "open_file_cache_valid"
        | "open_file_cache_min_uses"
        | "open_file_cache_errors"
        | "server_names_hash_bucket_size"
        | "server_names_hash_max_size"
        | "types_hash_max_size"
        | "types_hash_bucket_size"
        | "variables_hash_max_size"
        | "variables_hash_bucket_size"
        | "map_hash_bucket_size"
        | "map_hash_max_size"
        | "reset_timedout_connection"
        | "client_body_buffer_size"
        | "client_body_temp_path"
        | "proxy_temp_path"
        | "fastcgi_temp_path"
        | "uwsgi_temp_path"
        | "scgi_temp_path"
        | "proxy_headers_hash_max_size"
        | "proxy_headers_hash_bucket_size" => "a setting of nginx's own buffers and tables",
        "root" | "alias" | "index" | "autoindex" | "try_files" | "types" | "default_type"
        | "charset" | "expires" | "etag" | "if_modified_since" | "gzip_static" => {
            "the gateway serves no files"
        }
        "gzip" | "gzip_types" | "gzip_min_length" | "gzip_comp_level" | "gzip_vary"
        | "gzip_proxied" | "gzip_disable" | "gzip_buffers" | "gzip_http_version" | "brotli"
        | "brotli_types" => "see [compress]",
        "add_header" | "more_set_headers" | "more_clear_headers" | "server_tokens"
        | "proxy_hide_header" | "proxy_pass_header" => "see [response_headers]",
        "error_page" | "proxy_intercept_errors" | "recursive_error_pages" => "see [error_pages]",
        "proxy_cache"
        | "proxy_cache_path"
        | "proxy_cache_valid"
        | "proxy_cache_key"
        | "proxy_cache_use_stale"
        | "proxy_cache_lock"
        | "proxy_cache_bypass"
        | "proxy_no_cache"
        | "proxy_ignore_headers"
        | "proxy_cache_revalidate"
        | "proxy_cache_methods"
        | "proxy_cache_min_uses"
        | "proxy_cache_background_update" => "see [cache] and [route.cache]",
        "proxy_buffering"
        | "proxy_buffers"
        | "proxy_buffer_size"
        | "proxy_busy_buffers_size"
        | "proxy_request_buffering"
        | "proxy_max_temp_file_size" => "the gateway passes bodies on as they come",
        "proxy_http_version" => "origins are asked by HTTP/1.1; see [origin.NAME] protocol",
        "proxy_next_upstream" | "proxy_next_upstream_tries" | "proxy_next_upstream_timeout" => {
            "see [origin.NAME.retry]"
        }
        "proxy_pass_request_headers"
        | "proxy_pass_request_body"
        | "proxy_set_body"
        | "proxy_method" => "origins get the method, the fields and the body of the client",
        "proxy_redirect"
        | "proxy_cookie_path"
        | "proxy_cookie_domain"
        | "proxy_cookie_flags"
        | "sub_filter" => "the gateway does not rewrite what origins write into answers",
        "proxy_ssl_server_name"
        | "proxy_ssl_protocols"
        | "proxy_ssl_ciphers"
        | "proxy_ssl_session_reuse"
        | "proxy_ssl_verify_depth" => "see [origin.NAME.tls]",
        "grpc_ssl_certificate_cache"
        | "grpc_ssl_conf_command"
        | "grpc_ssl_crl"
        | "grpc_ssl_password_file"
        | "proxy_ssl_certificate_cache"
        | "proxy_ssl_conf_command"
        | "proxy_ssl_crl"
        | "proxy_ssl_password_file" => "[origin.NAME.tls] has no key for it",
        "keepalive_timeout"
        | "keepalive_requests"
        | "client_header_timeout"
        | "client_body_timeout"
        | "send_timeout"
        | "client_header_buffer_size"
        | "large_client_header_buffers"
        | "underscores_in_headers"
        | "ignore_invalid_headers"
        | "merge_slashes"
        | "lingering_close"
        | "lingering_time"
        | "lingering_timeout" => "see [server], which has bounds and times for every client",
        "ssl_ciphers" => {
            "the gateway has ECDHE with AES-GCM and ChaCha20-Poly1305, and no key for ciphers"
        }
        "ssl_prefer_server_ciphers"
        | "ssl_session_cache"
        | "ssl_session_timeout"
        | "ssl_session_tickets"
        | "ssl_dhparam"
        | "ssl_ecdh_curve"
        | "ssl_stapling"
        | "ssl_stapling_verify"
        | "ssl_trusted_certificate"
        | "ssl_verify_depth"
        | "ssl_crl"
        | "ssl_buffer_size"
        | "ssl_early_data"
        | "ssl_password_file" => "[listener.tls] has no key for it",
        "limit_except" => {
            "write `methods` in the route, and a route without them that responds with 403"
        }
        "limit_rate" | "limit_rate_after" => "the gateway does not slow answers down",
        "satisfy"
        | "auth_basic"
        | "auth_basic_user_file"
        | "auth_request"
        | "auth_request_set"
        | "auth_jwt"
        | "auth_jwt_key_file"
        | "valid_referers"
        | "secure_link"
        | "secure_link_md5" => "the gateway does not authenticate requests",
        "if"
        | "set"
        | "rewrite"
        | "break"
        | "set_by_lua_block"
        | "access_by_lua_block"
        | "content_by_lua_block"
        | "rewrite_by_lua_block"
        | "split_clients"
        | "perl_set"
        | "js_set"
        | "js_content" => {
            "a program has no counterpart; write routes with conditions, or `rewrite` of a route"
        }
        "fastcgi_pass" | "uwsgi_pass" | "scgi_pass" | "memcached_pass" => {
            "origins speak HTTP; keep a server in front of this one"
        }
        "resolver" | "resolver_timeout" => "names of servers are resolved by the system",
        "stub_status" | "status" => "see the metrics of [admin]",
        "stream" | "mail" => "the gateway speaks HTTP",
        "mirror" | "dav_methods" | "empty_gif" | "ssi" | "ssi_last_modified" => {
            "the gateway has no counterpart"
        }
        name if name.starts_with("fastcgi_") || name.starts_with("uwsgi_") => "origins speak HTTP",
        _ => return None,
    };
    Some(reason)
}
