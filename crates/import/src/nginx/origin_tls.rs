//! Makes `tls` of an origin of `proxy_ssl_*` and `grpc_ssl_*`.

use super::scope::is_on;
use super::tree::Directive;
use crate::ledger::{EntryId, Ledger};
use crate::toml::{inline, quoted};

/// The directives of a level about TLS to servers.
#[derive(Clone, Copy, Default)]
pub(super) struct TlsSettings<'d> {
    verify: Option<&'d Directive>,
    authorities: Option<&'d Directive>,
    certificate: Option<&'d Directive>,
    certificate_key: Option<&'d Directive>,
    name: Option<&'d Directive>,
}

/// The TLS of an origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OriginTls {
    pub(super) is_verified: bool,
    /// Keys of `tls` as TOML.
    keys: Vec<String>,
    pub(super) sources: Vec<EntryId>,
}

impl<'d> TlsSettings<'d> {
    /// Returns the settings of a level below; `prefix` is `proxy_ssl_` or `grpc_ssl_`.
    pub(super) fn within(mut self, directives: &'d [Directive], prefix: &str) -> Self {
        for directive in directives {
            let setting = match directive.name.strip_prefix(prefix) {
                Some("verify") => &mut self.verify,
                Some("trusted_certificate") => &mut self.authorities,
                Some("certificate") => &mut self.certificate,
                Some("certificate_key") => &mut self.certificate_key,
                Some("name") => &mut self.name,
                _ => continue,
            };
            *setting = Some(directive);
        }
        self
    }

    /// Returns the TLS of an origin. `upstream` is the name of its `upstream` block, by which nginx verifies the certificates of all
    /// servers.
    pub(super) fn origin(&self, upstream: Option<&str>, ledger: &mut Ledger) -> OriginTls {
        let mut tls = OriginTls {
            is_verified: is_on(self.verify),
            ..OriginTls::default()
        };
        if let Some(verify) = self.verify {
            ledger.translated(verify.id);
            tls.sources.push(verify.id);
        }
        match self.authorities {
            Some(directive) if tls.is_verified => tls.set("ca_file", directive, ledger),
            Some(directive) => ledger.without_effect(directive.id, "certificates are not verified"),
            None => {}
        }
        let pair = [self.certificate, self.certificate_key];
        if pair.iter().all(|it| it.is_some_and(is_text)) {
            for (key, directive) in ["cert_file", "key_file"].into_iter().zip(pair) {
                directive
                    .into_iter()
                    .for_each(|it| tls.set(key, it, ledger));
            }
        } else {
            for directive in pair.into_iter().flatten() {
                ledger.left_out(
                    directive.id,
                    "the files of a certificate are two, without variables",
                );
            }
        }
        match (self.name, upstream) {
            (Some(directive), _) if is_text(directive) => tls.set("server_name", directive, ledger),
            (Some(directive), _) => {
                let reason =
                    "a name with variables has no counterpart; that of each server is used";
                ledger.left_out(directive.id, reason);
            }
            (None, Some(name)) if tls.is_verified => {
                tls.keys.push(format!("server_name = {}", quoted(name)));
            }
            (None, _) => {}
        }
        tls
    }

    /// Records that a server is asked in clear text.
    pub(super) fn leave_unused(&self, ledger: &mut Ledger) {
        let all = [
            self.verify,
            self.authorities,
            self.certificate,
            self.certificate_key,
            self.name,
        ];
        for directive in all.into_iter().flatten() {
            ledger.without_effect(directive.id, "servers are asked in clear text");
        }
    }
}

impl OriginTls {
    fn set(&mut self, key: &str, directive: &Directive, ledger: &mut Ledger) {
        let value = directive.word(0).unwrap_or_default();
        self.keys.push(format!("{key} = {}", quoted(value)));
        self.sources.push(directive.id);
        ledger.translated(directive.id);
    }

    /// Returns the inline table.
    pub(super) fn table(&self) -> String {
        let off = (!self.is_verified).then(|| "verify = \"off\"".to_owned());
        let keys: Vec<String> = self.keys.iter().cloned().chain(off).collect();
        inline(&keys)
    }
}

fn is_text(directive: &Directive) -> bool {
    directive.word(0).is_some_and(|word| !word.contains('$'))
}
