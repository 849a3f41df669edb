//! Reads the `tls` directives of a site.

use super::omissions::{leave, leave_quietly};
use super::tree::{CaddyDirective, SiteBlock};
use crate::ledger::Ledger;
use crate::model::set_key;

/// The settings of a site for TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SiteTls {
    /// True if a directive asks for TLS.
    pub(super) is_stated: bool,
    /// Files of certificate and key.
    pub(super) files: Vec<(String, String)>,
    /// True if Caddy makes the certificate itself.
    pub(super) is_internal: bool,
    pub(super) email: Option<String>,
    pub(super) listener: ListenerSettings,
}

/// Settings that a listener has for all of its sites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListenerSettings {
    /// The file of the authorities of client certificates.
    pub(super) client_ca: Option<String>,
    /// Keys of `tls` with texts.
    pub(super) keys: Vec<(&'static str, &'static str)>,
}

impl SiteTls {
    /// Reads the directives of a site.
    pub(super) fn read(site: &SiteBlock, ledger: &mut Ledger) -> Self {
        let mut tls = Self::default();
        for directive in site.directives.iter().filter(|it| it.name == "tls") {
            tls.is_stated = true;
            match directive.words.as_slice() {
                [cert, key] => tls.files.push((cert.clone(), key.clone())),
                [word] if word == "internal" => tls.is_internal = true,
                [email] if email.contains('@') => tls.email = Some(email.clone()),
                [] => {}
                _ => {
                    leave(directive, "it is no certificate and no address", ledger);
                    continue;
                }
            }
            ledger.translated(directive.id);
            for line in directive.children() {
                match tls.take(line, ledger) {
                    Ok(true) => ledger.translated(line.id),
                    Ok(false) => leave_quietly(line, "it changes no answer", ledger),
                    Err(reason) => leave(line, &reason, ledger),
                }
            }
        }
        tls
    }

    /// Takes a line of the block. Returns false if it changes no answer.
    fn take(&mut self, line: &CaddyDirective, ledger: &mut Ledger) -> Result<bool, String> {
        match (line.name.as_str(), line.word(0)) {
            ("protocols", least) => match (least, line.word(1)) {
                ("tls1.2", "" | "tls1.3") => {}
                ("tls1.3", "" | "tls1.3") => set_key(&mut self.listener.keys, "min_version", "1.3"),
                _ => return Err("the gateway allows TLS 1.2 and 1.3".to_owned()),
            },
            ("client_auth", _) => self.client_auth(line, ledger)?,
            ("issuer", "internal") => self.is_internal = true,
            ("issuer", "acme") if line.block.is_none() => {}
            ("dns" | "resolvers" | "propagation_delay" | "propagation_timeout" | "dns_ttl", _) => {
                ledger.differs(line.id, "names are proved by TLS-ALPN-01 at port 443");
            }
            (
                "key_type" | "reuse_private_keys" | "renewal_window_ratio" | "insecure_secrets_log",
                _,
            )
            | ("ca_root" | "force_automate", _) => return Ok(false),
            ("ciphers" | "curves", _) => {
                return Err("the gateway has suites and curves of its own".to_owned());
            }
            (name, _) => return Err(format!("[listener.tls] has no counterpart of {name}")),
        }
        Ok(true)
    }

    fn client_auth(&mut self, line: &CaddyDirective, ledger: &mut Ledger) -> Result<(), String> {
        let mut file = None;
        let mut mode = "require_and_verify";
        for line in line.children() {
            match (line.name.as_str(), line.word(0)) {
                ("mode", word) => mode = word,
                ("trusted_ca_cert_file", path) if file.is_none() => file = Some(path.to_owned()),
                ("trust_pool", "file") => {
                    let inner = || line.children().iter().find(|it| it.name == "pem_file");
                    let path = line.words.get(1).cloned();
                    file = path.or_else(|| Some(inner()?.word(0).to_owned()));
                    line.children()
                        .iter()
                        .for_each(|it| ledger.translated(it.id));
                }
                (name, _) => {
                    return Err(format!(
                        "client certificates are verified by one file, not by {name}"
                    ));
                }
            }
            ledger.translated(line.id);
        }
        let file = file.ok_or("it names no file of authorities")?;
        match mode {
            "require_and_verify" => {}
            "verify_if_given" => set_key(&mut self.listener.keys, "client_auth", "optional"),
            mode => {
                return Err(format!(
                    "the gateway verifies each client certificate; {mode} does not"
                ));
            }
        }
        self.listener.client_ca = Some(file);
        Ok(())
    }
}
