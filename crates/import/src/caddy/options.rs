//! Reads the global options.

use super::conditions;
use super::omissions::{leave, leave_quietly};
use super::order::DirectiveOrder;
use super::servers::ServerSettings;
use super::tree::CaddyDirective;
use super::units;
use crate::bounds;
use crate::ledger::Ledger;
use crate::model::{GatewayModel, set_key};
use crate::toml::{quoted, server_time};

/// The options that other modules need.
#[derive(Debug)]
pub(super) struct GlobalOptions {
    pub(super) http_port: u16,
    pub(super) https_port: u16,
    pub(super) bind: Vec<String>,
    /// False if certificates are not ordered.
    pub(super) orders_certificates: bool,
    /// False if requests in clear text are not redirected.
    pub(super) redirects: bool,
    /// True if Caddy makes all certificates itself.
    pub(super) local_certificates: bool,
    /// The blocks `servers`.
    pub(super) servers: Vec<ServerSettings>,
    pub(super) email: Option<String>,
    /// Further keys of `[acme]`, as TOML.
    pub(super) acme: Vec<(&'static str, String)>,
}

impl Default for GlobalOptions {
    fn default() -> Self {
        Self {
            http_port: 80,
            https_port: 443,
            bind: Vec::new(),
            orders_certificates: true,
            redirects: true,
            local_certificates: false,
            servers: Vec::new(),
            email: None,
            acme: Vec::new(),
        }
    }
}

/// Options, and settings of `servers`, that change no answer.
const WITHOUT_EFFECT: [&str; 29] = [
    "admin",
    "cert_lifetime",
    "debug",
    "default_sni",
    "ech",
    "enable_full_duplex",
    "events",
    "filesystem",
    "keepalive_count",
    "keepalive_idle",
    "keepalive_interval",
    "key_type",
    "log",
    "log_credentials",
    "metrics",
    "name",
    "ocsp_interval",
    "ocsp_stapling",
    "persist_config",
    "pki",
    "preferred_chains",
    "protocols",
    "renew_interval",
    "renewal_window_ratio",
    "skip_install_trust",
    "storage",
    "storage_check",
    "storage_clean_interval",
    "trace",
];

/// The directory for certificates that are ordered.
const ACME_DIR: &str = "/var/lib/sluicegate/acme";

impl GlobalOptions {
    /// Reads all options.
    pub(super) fn read(
        options: &[CaddyDirective],
        order: &mut DirectiveOrder,
        gateway: &mut GatewayModel,
        ledger: &mut Ledger,
    ) -> Self {
        let mut read = Self::default();
        for option in options {
            match read.take(option, order, gateway, ledger) {
                Ok(true) => ledger.translated(option.id),
                Ok(false) => leave_quietly(option, "it changes no answer", ledger),
                Err(reason) => leave(option, &reason, ledger),
            }
        }
        read
    }

    /// Takes an option. Returns false if it changes no answer.
    fn take(
        &mut self,
        option: &CaddyDirective,
        order: &mut DirectiveOrder,
        gateway: &mut GatewayModel,
        ledger: &mut Ledger,
    ) -> Result<bool, String> {
        let value = option.word(0);
        let port = || {
            value
                .parse::<u16>()
                .map_err(|_| format!("{value} is no port"))
        };
        match option.name.as_str() {
            "http_port" => self.http_port = port()?,
            "https_port" => self.https_port = port()?,
            "default_bind" => self.bind.clone_from(&option.words),
            "local_certs" => self.local_certificates = true,
            "email" => self.email = Some(value.to_owned()),
            "acme_ca" => set_key(&mut self.acme, "directory", quoted(value)),
            "acme_ca_root" => set_key(&mut self.acme, "ca_file", quoted(value)),
            "auto_https" => {
                for word in &option.words {
                    match word.as_str() {
                        "off" => {
                            self.orders_certificates = false;
                            self.redirects = false;
                        }
                        "disable_certs" => self.orders_certificates = false,
                        "disable_redirects" => self.redirects = false,
                        "ignore_loaded_certs" => {}
                        word => return Err(format!("no automatic HTTPS is {word}")),
                    }
                }
            }
            "order" => {
                if !order.change(option) {
                    return Err("the order names no place".to_owned());
                }
            }
            // No bound, as without the line.
            "grace_period" if units::millis(value)? == 0 => {}
            "grace_period" => {
                let time = server_time("shutdown_timeout", Some(units::millis(value)?))?;
                gateway.set_server("shutdown_timeout", time, [option.id])?;
            }
            "servers" => {
                if !value.is_empty() {
                    let difference = "keys of [server] hold for all listeners";
                    ledger.differs(option.id, difference);
                }
                let mut settings = ServerSettings {
                    address: value.to_owned(),
                    ..ServerSettings::default()
                };
                for line in option.children() {
                    match take_server(line, &mut settings, gateway, ledger) {
                        Ok(true) => ledger.translated(line.id),
                        Ok(false) => leave_quietly(line, "it changes no answer", ledger),
                        Err(reason) => leave(line, &reason, ledger),
                    }
                }
                self.servers.push(settings);
            }
            name if WITHOUT_EFFECT.contains(&name) => return Ok(false),
            name => return Err(format!("the gateway has no counterpart of {name}")),
        }
        Ok(true)
    }

    /// Writes `[acme]`.
    pub(super) fn write_acme(
        &self,
        email: Option<&str>,
        gateway: &mut GatewayModel,
        ledger: &mut Ledger,
    ) {
        gateway.acme.push(("accept_terms", "true".to_owned()));
        gateway.acme.push(("dir", quoted(ACME_DIR)));
        if let Some(email) = email {
            let contact = crate::toml::list(&[format!("mailto:{email}")]);
            gateway.acme.push(("contact", contact));
        }
        gateway.acme.extend(self.acme.iter().cloned());
        ledger.fill_in(
            "[acme] accept_terms: Caddy agrees to the terms of the authority for you; read them at \
             https://letsencrypt.org/repository/, and keep the line if you agree",
        );
    }
}

/// Takes a line of `servers`.
fn take_server(
    line: &CaddyDirective,
    settings: &mut ServerSettings,
    gateway: &mut GatewayModel,
    ledger: &mut Ledger,
) -> Result<bool, String> {
    match line.name.as_str() {
        "trusted_proxies" => {
            let Some(("static", ranges)) = line
                .words
                .split_first()
                .map(|(kind, ranges)| (kind.as_str(), ranges))
            else {
                return Err("trusted_proxies of [client] are blocks of addresses".to_owned());
            };
            settings.trusted.extend(conditions::blocks(ranges)?);
            gateway.client.remarks.sources.push(line.id);
        }
        // The chain is read from the right in any case.
        "trusted_proxies_strict" => {}
        "client_ip_headers" => {
            let first = line.word(0).to_ascii_lowercase();
            if line.words.len() > 1 {
                let difference = "one field names the client, the first of these";
                ledger.differs(line.id, difference);
            }
            settings.field = Some(first);
            gateway.client.remarks.sources.push(line.id);
        }
        "timeouts" => timeouts(line, gateway, ledger)?,
        "max_header_size" => {
            let text = line.word(0);
            if !bounds::HEADER_BYTES.contains(&units::bytes(text)?) {
                return Err(format!(
                    "max_header_bytes of [server] is 1KiB to 1MiB, not {text}"
                ));
            }
            let size = quoted(&units::size(text)?);
            gateway.set_server("max_header_bytes", size, [line.id])?;
        }
        "listener_wrappers" => wrappers(line, settings, ledger)?,
        // A request for another host than that of the handshake is answered with 421 where certificates of clients are asked for.
        "strict_sni_host" if line.word(0) != "insecure_off" => {}
        name if WITHOUT_EFFECT.contains(&name) => return Ok(false),
        name => return Err(format!("the gateway has no counterpart of {name}")),
    }
    Ok(true)
}

fn wrappers(
    line: &CaddyDirective,
    settings: &mut ServerSettings,
    ledger: &mut Ledger,
) -> Result<(), String> {
    for wrapper in line.children() {
        match wrapper.name.as_str() {
            "proxy_protocol" => {
                let lines = wrapper.children().iter();
                let allowed = lines.filter(|it| it.name == "allow");
                let words: Vec<String> = allowed.flat_map(|it| it.words.clone()).collect();
                if words.is_empty() {
                    return Err(
                        "proxy_protocol_from names the proxies, and it names none".to_owned()
                    );
                }
                settings.proxy_protocol_from = Some(conditions::blocks(&words)?);
                ledger.differs(wrapper.id, "connections without it are closed");
                wrapper
                    .children()
                    .iter()
                    .for_each(|it| ledger.translated(it.id));
            }
            "tls" | "http_redirect" => ledger.translated(wrapper.id),
            name => return Err(format!("a listener has no counterpart of {name}")),
        }
    }
    Ok(())
}

/// Takes the lines of `timeouts`.
fn timeouts(
    line: &CaddyDirective,
    gateway: &mut GatewayModel,
    ledger: &mut Ledger,
) -> Result<(), String> {
    for time in line.children() {
        let key = match time.name.as_str() {
            "read_header" => "client_header_timeout",
            "read_body" | "read_body_idle" => "client_read_timeout",
            "write" | "write_idle" => "client_write_timeout",
            "idle" => "keepalive_timeout",
            _ => {
                leave_quietly(time, "it changes no answer", ledger);
                continue;
            }
        };
        let millis = units::millis(time.word(0))?;
        if millis == 0 {
            leave_quietly(time, "it is no bound, and the gateway has its own", ledger);
            continue;
        }
        let value = server_time(key, Some(millis));
        let result = value.and_then(|value| gateway.set_server(key, value, [time.id]));
        if let Err(reason) = result {
            leave(time, &reason, ledger);
            continue;
        }
        match time.name.as_str() {
            name @ ("read_body" | "write") => {
                ledger.translated(time.id);
                let whole = if name == "write" { "response" } else { "body" };
                let what = format!(
                    "{key} of [server] bounds the silence of a client, and Caddy bounds the whole {whole}"
                );
                ledger.fill_in_for(time.id, &what);
            }
            _ => ledger.translated(time.id),
        }
    }
    Ok(())
}
