//! Reads the ConfigMap of the controller, whose settings hold for all of its Ingresses.

use super::annotations;
use super::yaml::YamlNode;
use crate::client_fields::{self, ProxyFieldUse};
use crate::ledger::{EntryId, Ledger};
use crate::model::{GatewayModel, set_key};
use crate::trust::{self, TrustScope};

/// The settings that limits need.
#[derive(Default)]
pub(super) struct ControllerSettings {
    /// The statuses at limits on requests and on connections.
    pub(super) status: Option<u16>,
    pub(super) connections_status: Option<u16>,
    /// The field that names the client, and the setting by which any proxy is believed.
    field: Option<String>,
    trusts_all: Option<EntryId>,
    /// The proxies that each ConfigMap believes.
    scopes: Vec<TrustScope>,
    /// Timeouts of the origins whose Ingress has none.
    pub(super) timeouts: Vec<(&'static str, String)>,
    /// False if Ingresses with a certificate are not redirected, true if all others are redirected too.
    pub(super) ssl_redirect: Option<bool>,
}

/// The settings by which the field of a proxy is read. Without one of them the addresses of proxies are not used.
const READING: [&str; 3] = [
    "enable-real-ip",
    "use-forwarded-headers",
    "use-proxy-protocol",
];

/// The setting that has the addresses of proxies.
const PROXIES: &str = "proxy-real-ip-cidr";

/// Beginnings of the names of settings that neither limit, restrict, authenticate nor encrypt. Any other one is to be filled in.
const HARMLESS: [&str; 45] = [
    "access-log",
    "allow-snippet-annotations",
    "annotations-risk-level",
    "bind-address",
    "brotli-",
    "client-body-buffer-size",
    "compute-full-forwarded-for",
    "datadog-",
    "debug-connections",
    "disable-access-log",
    "disable-ipv6",
    "enable-access-log",
    "enable-brotli",
    "enable-multi-accept",
    "enable-open",
    "error-log",
    "generate-request-id",
    "grpc-buffer-size",
    "gzip-",
    "http-access-log",
    "jaeger-",
    "keep-alive",
    "load-balance",
    "log-format",
    "lua-shared-dicts",
    "map-hash-",
    "max-worker-",
    "nginx-status",
    "open",
    "otel-",
    "otlp-",
    "plugins",
    "proxy-buffer",
    "proxy-headers-hash-",
    "proxy-next-upstream",
    "reuse-port",
    "server-name-hash-",
    "skip-access-log",
    "ssl-session-",
    "strict-validate-path-type",
    "upstream-keepalive-",
    "use-gzip",
    "use-http2",
    "variables-hash-",
    "worker-",
];

/// Further settings by which a ConfigMap is known as that of the controller, whatever its name is.
const KNOWN: [&str; 10] = [
    "block-cidrs",
    "denylist-source-range",
    "forwarded-for-header",
    "global-auth-url",
    "hide-headers",
    "http-snippet",
    "limit-conn-status-code",
    "limit-req-status-code",
    "proxy-body-size",
    "whitelist-source-range",
];

/// Returns true if a ConfigMap is that of the controller, by its name or by its settings.
pub(super) fn is_of_controller(map: &YamlNode) -> bool {
    let name = map.at(&["metadata", "name"]).and_then(YamlNode::text);
    let is_named = name.is_some_and(|it| it.contains("nginx") || it.contains("ingress"));
    let data = map.get("data").map(YamlNode::members).unwrap_or_default();
    let is_setting =
        |name: &str| name == PROXIES || READING.contains(&name) || KNOWN.contains(&name);
    // No setting has a dot; files of a ConfigMap have.
    let has_files = data.iter().any(|(name, _)| name.contains('.'));
    !has_files && (is_named || data.iter().any(|(name, _)| is_setting(name)))
}

impl ControllerSettings {
    /// Takes the settings of a ConfigMap.
    pub(super) fn read(&mut self, map: &YamlNode, gateway: &mut GatewayModel, ledger: &mut Ledger) {
        let data = map.get("data").map(YamlNode::members).unwrap_or_default();
        self.believe(map, data, ledger);
        for (name, value) in data {
            let YamlNode::Scalar { id, text } = value else {
                continue;
            };
            match self.take((name, text.trim()), *id, gateway) {
                Ok(true) => ledger.translated(*id),
                Ok(false) => {}
                Err(reason) => ledger.lose(*id, &reason),
            }
        }
    }

    /// Takes the proxies that a ConfigMap believes.
    fn believe(&mut self, map: &YamlNode, data: &[(String, YamlNode)], ledger: &mut Ledger) {
        let is_read = |(name, value): &(String, YamlNode)| {
            READING.contains(&name.as_str()) && value.text().is_some_and(|it| it.trim() == "true")
        };
        let Some((_, value)) = data.iter().find(|(name, _)| name == PROXIES) else {
            if data.iter().any(is_read) {
                self.scopes.push(scope(map, Vec::new()));
            }
            return;
        };
        let Some(id) = value.entries().first().copied() else {
            return;
        };
        if !data.iter().any(is_read) {
            ledger.left_out(id, "without use-forwarded-headers, enable-real-ip or use-proxy-protocol it is not used");
            return;
        }
        match annotations::blocks(value.text().unwrap_or_default()) {
            Ok(blocks) => {
                ledger.translated(id);
                self.scopes.push(scope(map, blocks));
            }
            Err(reason) => {
                ledger.lose(id, &reason);
            }
        }
    }

    /// Identifies clients by the field of the proxies in front.
    pub(super) fn identify_clients(&self, gateway: &mut GatewayModel, ledger: &mut Ledger) {
        let client = &mut gateway.client;
        trust::believe(client, &self.scopes, ledger);
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
            PROXIES => return Ok(false),
            "forwarded-for-header" => self.field = Some(text.to_ascii_lowercase()),
            "use-forwarded-headers" => self.trusts_all = (text == "true").then_some(id),
            "proxy-body-size" => {
                let size = crate::toml::quoted(&annotations::size(text)?);
                set_key(&mut gateway.server, "max_body_bytes", size);
                gateway.server_sources.push(id);
            }
            "proxy-connect-timeout" | "proxy-read-timeout" | "proxy-send-timeout" => {
                if let Some((key, value)) = annotations::timeout(name, text)? {
                    set_key(&mut self.timeouts, key, value);
                }
            }
            "ssl-redirect" if text == "false" => {
                self.ssl_redirect.get_or_insert(false);
            }
            // The default.
            "ssl-redirect" => {}
            "force-ssl-redirect" if text == "true" => self.ssl_redirect = Some(true),
            "ssl-protocols" if text.contains("TLSv1.2") => {}
            _ if matches!(text, "" | "false" | "0") => return Ok(false),
            name if HARMLESS.iter().any(|it| name.starts_with(it)) => return Ok(false),
            _ => {
                return Err(
                    "it holds for all Ingresses; see [server], [client], [listener.tls] and [response_headers]"
                        .to_owned(),
                );
            }
        }
        Ok(true)
    }
}

fn scope(map: &YamlNode, proxies: Vec<String>) -> TrustScope {
    let name = map.at(&["metadata", "name"]).and_then(YamlNode::text);
    TrustScope {
        name: format!("the ConfigMap {}", name.unwrap_or_default()),
        proxies,
    }
}
