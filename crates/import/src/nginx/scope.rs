//! The settings of a level of an nginx configuration: what it says itself, and what it inherits.

use super::tree::Directive;

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
    pub(super) connect_timeout: Option<&'d Directive>,
    pub(super) read_timeout: Option<&'d Directive>,
    pub(super) send_timeout: Option<&'d Directive>,
    pub(super) verify: Option<&'d Directive>,
    /// `allow` and `deny`: all of the innermost level that has some.
    pub(super) access: Vec<&'d Directive>,
    /// `ssl_certificate`, `ssl_certificate_key`.
    pub(super) certificates: Vec<&'d Directive>,
    pub(super) certificate_keys: Vec<&'d Directive>,
    pub(super) client_ca: Option<&'d Directive>,
    pub(super) verify_client: Option<&'d Directive>,
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
        let lists: [(&mut Vec<&'d Directive>, &[&str]); 6] = [
            (&mut scope.requests, &["limit_req"]),
            (&mut scope.connections, &["limit_conn"]),
            (&mut scope.set_headers, &["proxy_set_header"]),
            (&mut scope.access, &["allow", "deny"]),
            (&mut scope.certificates, &["ssl_certificate"]),
            (&mut scope.certificate_keys, &["ssl_certificate_key"]),
        ];
        for (list, names) in lists {
            let own = named(names);
            if !own.is_empty() {
                *list = own;
            }
        }
        let settings: [(&mut Option<&'d Directive>, &str); 11] = [
            (&mut scope.requests_status, "limit_req_status"),
            (&mut scope.connections_status, "limit_conn_status"),
            (&mut scope.requests_dry_run, "limit_req_dry_run"),
            (&mut scope.connections_dry_run, "limit_conn_dry_run"),
            (&mut scope.max_body, "client_max_body_size"),
            (&mut scope.connect_timeout, "proxy_connect_timeout"),
            (&mut scope.read_timeout, "proxy_read_timeout"),
            (&mut scope.send_timeout, "proxy_send_timeout"),
            (&mut scope.verify, "proxy_ssl_verify"),
            (&mut scope.client_ca, "ssl_client_certificate"),
            (&mut scope.verify_client, "ssl_verify_client"),
        ];
        for (setting, name) in settings {
            if let Some(own) = named(&[name]).last() {
                *setting = Some(own);
            }
        }
        scope
    }
}

/// Returns true if a directive is there and says `on`.
pub(super) fn is_on(directive: Option<&Directive>) -> bool {
    directive.and_then(|directive| directive.word(0)) == Some("on")
}
