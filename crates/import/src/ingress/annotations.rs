//! Reads the annotations of an Ingress that ingress-nginx knows.

use super::yaml::YamlNode;
use crate::addresses;
use crate::ledger::{EntryId, Ledger};
use crate::model::set_key;
use crate::shapes::LARGEST_COUNT;
use crate::toml::origin_timeout;

/// The beginning of the names of annotations.
const PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// The burst that a rate has by default, as a multiple of its count.
const BURST_MULTIPLIER: u64 = 5;

/// The annotations of an Ingress that have a counterpart.
#[derive(Default)]
pub(super) struct IngressAnnotations {
    pub(super) per_second: Option<(EntryId, u64)>,
    pub(super) per_minute: Option<(EntryId, u64)>,
    pub(super) connections: Option<(EntryId, u64)>,
    pub(super) multiplier: Option<(EntryId, u64)>,
    /// Clients that are not limited.
    pub(super) exempt: Option<(EntryId, Vec<String>)>,
    /// Clients that may come.
    pub(super) only: Option<(EntryId, Vec<String>)>,
    /// Clients that may not.
    pub(super) denied: Option<(EntryId, Vec<String>)>,
    pub(super) max_body: Option<String>,
    pub(super) timeouts: Vec<(&'static str, String)>,
    pub(super) protocol: ServiceProtocol,
    pub(super) rewrite: Option<(EntryId, String)>,
    /// Paths are expressions.
    pub(super) use_regex: Option<EntryId>,
    /// True if requests in clear text are redirected to HTTPS whether there is a certificate or not; `None` where no annotation says so.
    pub(super) ssl_redirect: Option<bool>,
}

/// The protocol of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ServiceProtocol {
    #[default]
    Http,
    Https,
    Grpc,
    Grpcs,
}

impl IngressAnnotations {
    /// Returns the burst of a rate.
    pub(super) fn burst(&self, count: u64) -> u64 {
        let multiplier = self.multiplier.map_or(BURST_MULTIPLIER, |(_, it)| it);
        count.saturating_mul(multiplier)
    }

    /// Returns the target that a path is rewritten to; one that is the path rewrites nothing.
    pub(super) fn rewrite_of(&self, path: &str) -> Option<&(EntryId, String)> {
        let target = self.rewrite.as_ref();
        target.filter(|(_, it)| !it.is_empty() && it != path)
    }

    /// Adds the timeouts of the controller of which the Ingress has none of its own.
    pub(super) fn inherit(&mut self, timeouts: &[(&'static str, String)]) {
        for (key, value) in timeouts {
            if !self.timeouts.iter().any(|(known, _)| known == key) {
                self.timeouts.push((key, value.clone()));
            }
        }
    }

    /// Reads the annotations of an Ingress.
    pub(super) fn new(ingress: &YamlNode, ledger: &mut Ledger) -> Self {
        let mut read = Self::default();
        let Some(annotations) = ingress.at(&["metadata", "annotations"]) else {
            return read;
        };
        for (name, value) in annotations.members() {
            let YamlNode::Scalar { id, text } = value else {
                continue;
            };
            let Some(name) = name.strip_prefix(PREFIX) else {
                leave_foreign(name, *id, ledger);
                continue;
            };
            match read.take(name, *id, text.trim()) {
                Ok(()) => ledger.translated(*id),
                Err(reason) => {
                    if changes_no_answer(name, text) {
                        ledger.left_out(*id, reason);
                    } else {
                        ledger.lose(*id, &reason);
                    }
                }
            }
        }
        read
    }

    fn take(&mut self, name: &str, id: EntryId, text: &str) -> Result<(), String> {
        match name {
            "limit-rps" => self.per_second = count(id, text)?,
            "limit-rpm" => self.per_minute = count(id, text)?,
            "limit-connections" => self.connections = count(id, text)?,
            "limit-burst-multiplier" => self.multiplier = count(id, text)?,
            "limit-whitelist" | "limit-allowlist" => self.exempt = Some((id, blocks(text)?)),
            "whitelist-source-range" | "allowlist-source-range" => {
                self.only = Some((id, blocks(text)?))
            }
            "denylist-source-range" => self.denied = Some((id, blocks(text)?)),
            "proxy-body-size" => self.max_body = Some(size(text)?),
            "proxy-connect-timeout" | "proxy-read-timeout" | "proxy-send-timeout" => {
                if let Some((key, value)) = timeout(name, text)? {
                    set_key(&mut self.timeouts, key, value);
                }
            }
            "backend-protocol" => {
                self.protocol = match text.to_ascii_uppercase().as_str() {
                    "HTTP" | "AUTO_HTTP" => ServiceProtocol::Http,
                    "HTTPS" => ServiceProtocol::Https,
                    "GRPC" => ServiceProtocol::Grpc,
                    "GRPCS" => ServiceProtocol::Grpcs,
                    other => return Err(format!("origins do not speak {other}")),
                }
            }
            "use-regex" => self.use_regex = (text == "true").then_some(id),
            "rewrite-target" => self.rewrite = Some((id, text.to_owned())),
            "ssl-redirect" if text == "false" => {
                self.ssl_redirect.get_or_insert(false);
            }
            // The default where there is a certificate.
            "ssl-redirect" => {}
            "force-ssl-redirect" if text == "true" => self.ssl_redirect = Some(true),
            "force-ssl-redirect" => {}
            other => return Err(elsewhere(other).to_owned()),
        }
        Ok(())
    }
}

/// The owners of annotations that no controller of Ingresses reads, or that say which one does. The end of a name is enough.
const HARMLESS_OWNERS: [&str; 17] = [
    "argocd.argoproj.io",
    "argoproj.io",
    "cattle.io",
    "cert-manager.io",
    "external-dns.alpha.kubernetes.io",
    "fluxcd.io",
    "forecastle.stakater.com",
    "gethomepage.dev",
    "hajimari.io",
    "helm.sh",
    "k8s.io",
    "kubectl.kubernetes.io",
    "kustomize.toolkit.fluxcd.io",
    "meta.helm.sh",
    "prometheus.io",
    "reloader.stakater.com",
    "uptimerobot.monitoring.stakater.com",
];

/// Records an annotation of another program. One that a controller reads may limit, restrict, authenticate or encrypt, so it is to be
/// filled in.
fn leave_foreign(name: &str, id: EntryId, ledger: &mut Ledger) {
    let is_owner = |owner: &str, known: &&str| {
        let rest = owner.strip_suffix(*known);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_harmless = match name.split_once('/') {
        None => true,
        Some(("kubernetes.io" | "app.kubernetes.io" | "checksum", _)) => true,
        Some((owner, _)) => HARMLESS_OWNERS.iter().any(|known| is_owner(owner, known)),
    };
    if is_harmless {
        ledger.left_out(id, "no controller of Ingresses limits or restricts by it");
        return;
    }
    let reason = match name.starts_with("traefik.ingress.kubernetes.io/") {
        true => {
            "Traefik reads it; where Traefik is the controller, write what its middlewares do into the routes"
        }
        false => {
            "only annotations of ingress-nginx are read; another controller may limit, restrict or authenticate by this one"
        }
    };
    ledger.lose(id, reason);
}

/// Returns a number above 0; with 0 the annotation is off.
fn count(id: EntryId, text: &str) -> Result<Option<(EntryId, u64)>, String> {
    let number: u64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if number > LARGEST_COUNT {
        return Err(format!("a count is at most {LARGEST_COUNT}"));
    }
    Ok((number > 0).then_some((id, number)))
}

/// Returns the blocks of a list.
pub(crate) fn blocks(text: &str) -> Result<Vec<String>, String> {
    let parse = |block: &str| {
        addresses::block(block).ok_or_else(|| format!("{block:?} is no block of addresses"))
    };
    text.split(',')
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .map(parse)
        .collect()
}

/// Returns a size as the configuration writes it.
pub(super) fn size(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| format!("{text:?} is no size"))?;
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        _ if number == 0 => return Ok("1TiB".to_owned()),
        "" => "B",
        "k" => "KiB",
        "m" => "MiB",
        "g" => "GiB",
        _ => return Err(format!("{text:?} is no size")),
    };
    Ok(format!("{number}{unit}"))
}

/// Returns the timeout of an origin that an annotation or a setting of this name is.
pub(super) fn timeout(name: &str, text: &str) -> Result<Option<(&'static str, String)>, String> {
    let key = match name {
        "proxy-connect-timeout" => "connect",
        "proxy-read-timeout" => "read",
        "proxy-send-timeout" => "write",
        _ => return Ok(None),
    };
    let number = text.trim_end_matches('s').parse::<u64>();
    let number = number.map_err(|_| format!("{text:?} is no number of seconds"))?;
    let time = origin_timeout(number.checked_mul(1_000))?;
    Ok(Some((key, time)))
}

/// Returns where the gateway has what an annotation is about.
fn elsewhere(name: &str) -> &'static str {
    let begins = |beginning: &str| name.starts_with(beginning);
    if begins("auth-tls-") {
        return "see [listener.tls] client_ca_file and client_auth";
    }
    if begins("auth-") || name == "satisfy" || begins("enable-global-auth") {
        return "the gateway does not authenticate requests";
    }
    if begins("canary") {
        return "a route has one origin; see `weight` of its servers";
    }
    if begins("global-rate-limit") {
        return "see limits with store = \"shared\"";
    }
    if begins("modsecurity") || matches!(name, "enable-modsecurity" | "enable-owasp-core-rules") {
        return "the gateway has no web application firewall";
    }
    if begins("proxy-ssl-") {
        return "see [origin.NAME.tls]";
    }
    if begins("mirror-") {
        return "the gateway sends a request to one origin";
    }
    if begins("session-cookie-") || begins("affinity") {
        return "see [origin.NAME.sticky]";
    }
    if begins("enable-cors") || begins("cors-") {
        return "see [route.cors]";
    }
    if begins("opent") || begins("enable-open") {
        return "see [tracing]";
    }
    if begins("influxdb") || name == "enable-influxdb" {
        return "see the metrics of [admin]";
    }
    match name {
        "configuration-snippet" | "server-snippet" | "stream-snippet" => {
            "it is nginx's own; import it by itself with --format nginx"
        }
        "upstream-hash-by" | "load-balance" | "service-upstream" => "see [origin.NAME] balance",
        "upstream-hash-by-subset" | "upstream-hash-by-subset-size" => "see [origin.NAME] balance",
        "permanent-redirect" | "permanent-redirect-code" => "see [route.redirect]",
        "temporal-redirect" | "temporal-redirect-code" => "see [route.redirect]",
        "app-root" | "from-to-www-redirect" | "relative-redirects" => "see [route.redirect]",
        "server-alias" => "write a route for each host",
        "upstream-vhost" => "see [origin.NAME] host",
        "custom-headers" => "see [route.response_headers]",
        "connection-proxy-header" | "x-forwarded-prefix" => "see [route.request_headers]",
        "custom-http-errors" | "default-backend" | "disable-proxy-intercept-errors" => {
            "see [error_pages]"
        }
        "ssl-passthrough" => "a listener ends TLS",
        "ssl-ciphers" | "ssl-prefer-server-ciphers" => {
            "the gateway allows TLS 1.2 and 1.3, with suites of its own"
        }
        "enable-access-log" | "enable-rewrite-log" => "see [log]",
        "http2-push-preload" | "preserve-trailing-slash" | "use-port-in-redirects" => {
            "the gateway has no counterpart"
        }
        "limit-rate" | "limit-rate-after" => "the gateway does not slow answers down",
        name if name.starts_with("proxy-") || name == "client-body-buffer-size" => {
            "see [origin.NAME] and [server]"
        }
        _ => "`sluicegate import` does not know it",
    }
}

/// Returns true if an annotation that is left out neither limits, restricts, authenticates nor encrypts, and leads no request elsewhere.
fn changes_no_answer(name: &str, text: &str) -> bool {
    let begins = |beginning: &str| name.starts_with(beginning);
    let is_off = matches!(text, "false" | "off" | "");
    let is_switch = matches!(
        name,
        "enable-cors"
            | "enable-modsecurity"
            | "enable-owasp-core-rules"
            | "from-to-www-redirect"
            | "service-upstream"
            | "ssl-passthrough"
    );
    (is_switch && is_off)
        || begins("affinity")
        || begins("session-cookie-")
        || begins("mirror-")
        || begins("canary")
        || begins("opent")
        || begins("enable-open")
        || begins("influxdb")
        || name == "enable-influxdb"
        || matches!(
            name,
            "client-body-buffer-size"
                | "connection-proxy-header"
                | "disable-proxy-intercept-errors"
                | "enable-access-log"
                | "enable-rewrite-log"
                | "http2-push-preload"
                | "load-balance"
                | "preserve-trailing-slash"
                | "relative-redirects"
                | "service-upstream"
                | "ssl-prefer-server-ciphers"
                | "upstream-hash-by"
                | "upstream-hash-by-subset"
                | "upstream-hash-by-subset-size"
                | "use-port-in-redirects"
        )
        || begins("proxy-buffer")
        || begins("proxy-busy-buffers")
        || begins("proxy-max-temp-file")
        || begins("proxy-next-upstream")
        || matches!(name, "proxy-http-version" | "proxy-request-buffering")
}
