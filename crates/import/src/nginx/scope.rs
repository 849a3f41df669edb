//! The settings of a level of an nginx configuration: what it says itself, and what it inherits.

use super::origin_tls::TlsSettings;
use super::tree::Directive;
use crate::ledger::Ledger;

/// The settings at one level.
#[derive(Clone, Default)]
pub(super) struct SettingScope<'d> {
    /// `limit_req`: all of the innermost level that has some.
    pub(super) requests: Vec<&'d Directive>,
    /// `limit_conn`, likewise.
    pub(super) connections: Vec<&'d Directive>,
    pub(super) requests_status: Option<&'d Directive>,
    pub(super) connections_status: Option<&'d Directive>,
    pub(super) requests_dry_run: Option<&'d Directive>,
    pub(super) connections_dry_run: Option<&'d Directive>,
    pub(super) max_body: Option<&'d Directive>,
    /// `proxy_set_header`: all of the innermost level that has some.
    pub(super) set_headers: Vec<&'d Directive>,
    /// `add_header`: all of the innermost level that has some.
    pub(super) add_headers: Vec<&'d Directive>,
    /// `proxy_hide_header` and `grpc_hide_header`, likewise.
    pub(super) hidden: Vec<&'d Directive>,
    /// `proxy_redirect`, likewise.
    pub(super) redirects: Vec<&'d Directive>,
    /// Directives of headers-more, those of outer levels first.
    pub(super) more_headers: Vec<&'d Directive>,
    pub(super) connect_timeout: Option<&'d Directive>,
    pub(super) read_timeout: Option<&'d Directive>,
    pub(super) send_timeout: Option<&'d Directive>,
    pub(super) http_version: Option<&'d Directive>,
    /// `proxy_ssl_*`
    pub(super) proxy_tls: TlsSettings<'d>,
    /// `grpc_ssl_*`
    pub(super) grpc_tls: TlsSettings<'d>,
    /// `error_page`: all of the innermost level that has some.
    pub(super) error_pages: Vec<&'d Directive>,
    pub(super) index: Option<&'d Directive>,
    pub(super) default_type: Option<&'d Directive>,
    pub(super) internal: Option<&'d Directive>,
    /// `set` of the server block and of the location, in the order in which nginx assigns, and `if` with `set` in it.
    pub(super) assignments: Vec<&'d Directive>,
    /// The number of those of the server block.
    server_assignments: usize,
    /// The value of `$server_name`.
    pub(super) server_name: Option<&'d str>,
    /// `allow` and `deny`: all of the innermost level that has some.
    pub(super) access: Vec<&'d Directive>,
    /// `set_real_ip_from`: all of the innermost level that has some.
    pub(super) real_ip_from: Vec<&'d Directive>,
    pub(super) real_ip_header: Option<&'d Directive>,
    pub(super) real_ip_recursive: Option<&'d Directive>,
    /// `ssl_certificate`, `ssl_certificate_key`.
    pub(super) certificates: Vec<&'d Directive>,
    pub(super) certificate_keys: Vec<&'d Directive>,
    pub(super) client_ca: Option<&'d Directive>,
    pub(super) verify_client: Option<&'d Directive>,
    /// `ssl`, which nginx had up to 1.24.
    pub(super) ssl: Option<&'d Directive>,
    pub(super) protocols: Option<&'d Directive>,
    pub(super) reject_handshake: Option<&'d Directive>,
}

impl<'d> SettingScope<'d> {
    /// Returns the settings of a level below.
    pub(super) fn within(&self, directives: &'d [Directive]) -> Self {
        let mut scope = self.clone();
        let named = |names: &[&str]| -> Vec<&'d Directive> {
            directives
                .iter()
                .filter(|directive| names.contains(&directive.name.as_str()))
                .collect()
        };
        let lists: [(&mut Vec<&'d Directive>, &[&str]); 11] = [
            (&mut scope.add_headers, &["add_header"]),
            (
                &mut scope.hidden,
                &["proxy_hide_header", "grpc_hide_header"],
            ),
            (&mut scope.redirects, &["proxy_redirect"]),
            (&mut scope.requests, &["limit_req"]),
            (&mut scope.connections, &["limit_conn"]),
            (&mut scope.set_headers, &["proxy_set_header"]),
            (&mut scope.access, &["allow", "deny"]),
            (&mut scope.real_ip_from, &["set_real_ip_from"]),
            (&mut scope.error_pages, &["error_page"]),
            (&mut scope.certificates, &["ssl_certificate"]),
            (&mut scope.certificate_keys, &["ssl_certificate_key"]),
        ];
        for (list, names) in lists {
            let own = named(names);
            if !own.is_empty() {
                *list = own;
            }
        }
        let settings: [(&mut Option<&'d Directive>, &str); 19] = [
            (&mut scope.requests_status, "limit_req_status"),
            (&mut scope.connections_status, "limit_conn_status"),
            (&mut scope.requests_dry_run, "limit_req_dry_run"),
            (&mut scope.connections_dry_run, "limit_conn_dry_run"),
            (&mut scope.max_body, "client_max_body_size"),
            (&mut scope.connect_timeout, "proxy_connect_timeout"),
            (&mut scope.read_timeout, "proxy_read_timeout"),
            (&mut scope.send_timeout, "proxy_send_timeout"),
            (&mut scope.http_version, "proxy_http_version"),
            (&mut scope.index, "index"),
            (&mut scope.default_type, "default_type"),
            (&mut scope.internal, "internal"),
            (&mut scope.real_ip_header, "real_ip_header"),
            (&mut scope.real_ip_recursive, "real_ip_recursive"),
            (&mut scope.client_ca, "ssl_client_certificate"),
            (&mut scope.verify_client, "ssl_verify_client"),
            (&mut scope.ssl, "ssl"),
            (&mut scope.protocols, "ssl_protocols"),
            (&mut scope.reject_handshake, "ssl_reject_handshake"),
        ];
        for (setting, name) in settings {
            if let Some(own) = named(&[name]).last() {
                *setting = Some(own);
            }
        }
        scope.more_headers.extend(named(&[
            "more_clear_headers",
            "more_clear_input_headers",
            "more_set_headers",
            "more_set_input_headers",
        ]));
        scope.proxy_tls = scope.proxy_tls.within(directives, "proxy_ssl_");
        scope.grpc_tls = scope.grpc_tls.within(directives, "grpc_ssl_");
        // Assignments of an outer location are not made in one within it.
        scope.assignments.truncate(scope.server_assignments);
        scope.assignments.extend(named(&["set", "if"]));
        scope
    }

    /// Returns the settings of a server block, whose assignments hold in each location.
    pub(super) fn of_server(&self, directives: &'d [Directive]) -> Self {
        let mut scope = self.within(directives);
        scope.server_assignments = scope.assignments.len();
        let mut names = directives.iter().filter(|it| it.name == "server_name");
        let name = names.next().and_then(|it| it.word(0));
        scope.server_name = name.map(|it| it.strip_prefix('.').unwrap_or(it));
        scope
    }

    /// Takes the limits of a level unless limits of the same kind were counted: nginx counts a request once.
    pub(super) fn count_first(&mut self, scope: &Self) {
        if self.requests.is_empty() {
            self.requests.clone_from(&scope.requests);
            self.requests_status = scope.requests_status;
            self.requests_dry_run = scope.requests_dry_run;
        }
        if self.connections.is_empty() {
            self.connections.clone_from(&scope.connections);
            self.connections_status = scope.connections_status;
            self.connections_dry_run = scope.connections_dry_run;
        }
    }

    /// Takes the limits of two levels of which some requests meet one and some the other.
    pub(super) fn count_both(&mut self, first: &Self, second: &Self) {
        let mut both = second.clone();
        for (own, others) in [
            (&mut both.requests, &first.requests),
            (&mut both.connections, &first.connections),
        ] {
            let is_new = |it: &&Directive| {
                !second
                    .requests
                    .iter()
                    .chain(&second.connections)
                    .any(|known| known.id == it.id)
            };
            own.extend(others.iter().copied().filter(is_new));
        }
        self.count_first(&both);
    }

    /// Records that no request meets the limits and lists of a level.
    pub(super) fn meet_nothing(&self, reason: &str, ledger: &mut Ledger) {
        let lists = [&self.requests, &self.connections, &self.access];
        for directive in lists.into_iter().flatten() {
            ledger.without_effect(directive.id, reason);
        }
    }

    /// Returns true if no limit and no list holds.
    pub(super) fn has_no_guards(&self) -> bool {
        self.requests.is_empty() && self.connections.is_empty() && self.access.is_empty()
    }

    /// Returns true if the limits and lists of another level hold here too.
    pub(super) fn has_guards_of(&self, other: &Self) -> bool {
        let guards = |scope: &Self| {
            let lists = [&scope.requests, &scope.connections, &scope.access];
            lists
                .into_iter()
                .flatten()
                .map(|it| it.id)
                .collect::<Vec<_>>()
        };
        let own = guards(self);
        guards(other).iter().all(|id| own.contains(id))
    }

    /// Replaces the limits.
    pub(super) fn take_limits(&mut self, counted: Self) {
        self.requests = counted.requests;
        self.requests_status = counted.requests_status;
        self.requests_dry_run = counted.requests_dry_run;
        self.connections = counted.connections;
        self.connections_status = counted.connections_status;
        self.connections_dry_run = counted.connections_dry_run;
    }
}

/// Returns true if a directive is there and says `on`.
pub(super) fn is_on(directive: Option<&Directive>) -> bool {
    directive.and_then(|directive| directive.word(0)) == Some("on")
}
