//! Reads the ConfigMap of the controller, whose settings hold for all of its Ingresses.

use super::annotations;
use super::yaml::YamlNode;
use crate::client_fields::{self, ProxyFieldUse};
use crate::ledger::{EntryId, Ledger};
use crate::model::GatewayModel;

/// The settings that limits need.
#[derive(Default)]
pub(super) struct ControllerSettings {
    /// The statuses at limits on requests and on connections.
    pub(super) status: Option<u16>,
    pub(super) connections_status: Option<u16>,
    /// The field that names the client, and the setting by which any proxy is believed.
    field: Option<String>,
    trusts_all: Option<EntryId>,
}

/// Beginnings of the names of settings that limit, restrict, authenticate or encrypt.
const GUARDS: [&str; 20] = [
    "allowlist-source-range",
    "block-",
    "denylist-source-range",
    "enable-modsecurity",
    "enable-owasp-modsecurity-crs",
    "force-ssl-redirect",
    "global-auth-",
    "global-rate-limit-",
    "hsts",
    "http-snippet",
    "limit-rate",
    "location-snippet",
    "main-snippet",
    "modsecurity-snippet",
    "proxy-ssl-",
    "server-snippet",
    "ssl-ciphers",
    "ssl-protocols",
    "use-proxy-protocol",
    "whitelist-source-range",
];

impl ControllerSettings {
    /// Takes the settings of a ConfigMap.
    pub(super) fn read(&mut self, map: &YamlNode, gateway: &mut GatewayModel, ledger: &mut Ledger) {
        let data = map.get("data").map(YamlNode::members).unwrap_or_default();
        for (name, value) in data {
            let YamlNode::Scalar { id, text } = value else {
                continue;
            };
            match self.take((name, text.trim()), *id, gateway) {
                Ok(true) => ledger.translated(*id),
                Ok(false) => {}
                Err(reason) => {
                    ledger.left_out(*id, reason.clone());
                    ledger.fill_in(format!("{}: it is left out: {reason}", ledger.comment(*id)));
                }
            }
        }
    }

    /// Identifies clients by the field of the proxies in front.
    pub(super) fn identify_clients(&self, gateway: &mut GatewayModel, ledger: &mut Ledger) {
        let client = &mut gateway.client;
        if !client.trusted_proxies.is_empty() {
            client.header = self.field.clone();
        } else if let Some(source) = self.trusts_all {
            let field = self.field.clone();
            let field = field.unwrap_or_else(|| "x-forwarded-for".to_owned());
            client_fields::identify_clients(client, &[ProxyFieldUse { field, source }], ledger);
        }
    }

    /// Takes a setting. Returns false if it has no counterpart and need not have one.
    fn take(
        &mut self,
        (name, text): (&str, &str),
        id: EntryId,
        gateway: &mut GatewayModel,
    ) -> Result<bool, String> {
        let status = || {
            let status: Option<u16> = text.parse().ok();
            status.filter(|it| (400..=599).contains(it))
        };
        match name {
            "limit-req-status-code" => self.status = status(),
            "limit-conn-status-code" => self.connections_status = status(),
            "proxy-real-ip-cidr" => gateway.client.trusted_proxies = annotations::blocks(text)?,
            "forwarded-for-header" => self.field = Some(text.to_ascii_lowercase()),
            "use-forwarded-headers" => self.trusts_all = (text == "true").then_some(id),
            "proxy-body-size" => {
                let size = crate::toml::quoted(&annotations::size(text)?);
                gateway.server.push(("max_body_bytes", size));
                gateway.server_sources.push(id);
            }
            "ssl-protocols" if text.contains("TLSv1.2") => {}
            name if GUARDS.iter().any(|it| name.starts_with(it)) => {
                let is_off = matches!(text, "" | "false" | "0");
                return match is_off {
                    true => Ok(false),
                    false => Err(
                        "it holds for all Ingresses; see [server], [client] and [listener.tls]"
                            .to_owned(),
                    ),
                };
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
