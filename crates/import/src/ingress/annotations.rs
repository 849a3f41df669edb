//! Reads the annotations of an Ingress that ingress-nginx knows.

use ipnet::IpNet;

use super::yaml::YamlNode;
use crate::ledger::{EntryId, Ledger};
use crate::shapes::LARGEST_COUNT;

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
    pub(super) rewrite: Option<String>,
    /// Paths are expressions.
    pub(super) use_regex: Option<EntryId>,
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

    /// Reads the annotations of an Ingress.
    pub(super) fn of(ingress: &YamlNode, ledger: &mut Ledger) -> Self {
        let mut read = Self::default();
        let Some(annotations) = ingress.at(&["metadata", "annotations"]) else {
            return read;
        };
        for (name, value) in annotations.members() {
            let YamlNode::Scalar { id, text } = value else {
                continue;
            };
            let Some(name) = name.strip_prefix(PREFIX) else {
                ledger.left_out(*id, "no annotation of ingress-nginx");
                continue;
            };
            match read.take(name, *id, text.trim()) {
                Ok(AnnotationResult::Translated) => ledger.translated(*id),
                Ok(AnnotationResult::Differs(difference)) => ledger.differs(*id, difference),
                Err(reason) => {
                    ledger.left_out(*id, reason);
                    if guards(name) {
                        let what = format!(
                            "{}: it may keep requests out, and is left out",
                            ledger.comment(*id)
                        );
                        ledger.fill_in(what);
                    }
                }
            }
        }
        read
    }

    fn take(&mut self, name: &str, id: EntryId, text: &str) -> Result<AnnotationResult, String> {
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
            "proxy-connect-timeout" => self.timeouts.push(("connect", seconds(text)?)),
            "proxy-read-timeout" => self.timeouts.push(("read", seconds(text)?)),
            "proxy-send-timeout" => self.timeouts.push(("write", seconds(text)?)),
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
            "rewrite-target" => self.rewrite = Some(text.to_owned()),
            "ssl-redirect" | "force-ssl-redirect" => {
                return Ok(AnnotationResult::Differs(
                    "listeners redirect, with redirect_to_https, and all routes alike".to_owned(),
                ));
            }
            "limit-rate" | "limit-rate-after" => {
                return Err("the gateway does not slow answers down".to_owned());
            }
            other => return Err(elsewhere(other).to_owned()),
        }
        Ok(AnnotationResult::Translated)
    }
}

/// The result for an annotation.
enum AnnotationResult {
    Translated,
    Differs(String),
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
pub(super) fn blocks(text: &str) -> Result<Vec<String>, String> {
    let parse = |block: &str| {
        let network = block.parse::<IpNet>().map(|it| it.trunc().to_string());
        let address = || block.parse::<std::net::IpAddr>().map(|it| it.to_string());
        network
            .or_else(|_| address())
            .map_err(|_| format!("{block:?} is no block of addresses"))
    };
    text.split(',')
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .map(parse)
        .collect()
}

fn size(text: &str) -> Result<String, String> {
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

fn seconds(text: &str) -> Result<String, String> {
    let number = text.trim_end_matches('s');
    let number: u64 = number
        .parse()
        .map_err(|_| format!("{text:?} is no number of seconds"))?;
    if (1..=86_400).contains(&number) {
        Ok(crate::toml::quoted(&format!("{number}s")))
    } else {
        Err("a timeout is 1ms to 1d".to_owned())
    }
}

fn elsewhere(name: &str) -> &'static str {
    if name.starts_with("auth-") || name == "satisfy" {
        return "the gateway does not authenticate requests";
    }
    if name.starts_with("canary") {
        return "a route has one origin; see `weight` of its servers";
    }
    if name.starts_with("global-rate-limit") {
        return "see limits with store = \"shared\"";
    }
    match name {
        "affinity"
        | "session-cookie-name"
        | "session-cookie-expires"
        | "session-cookie-max-age"
        | "session-cookie-path"
        | "affinity-mode" => "see [origin.NAME.sticky]",
        "configuration-snippet" | "server-snippet" | "stream-snippet" => {
            "it is nginx's own; import it by itself with --format nginx"
        }
        "upstream-hash-by" | "load-balance" => "see [origin.NAME] balance",
        "permanent-redirect"
        | "temporal-redirect"
        | "permanent-redirect-code"
        | "app-root"
        | "from-to-www-redirect" => "see [route.redirect]",
        name if name.starts_with("proxy-") => "see [origin.NAME] and [server]",
        name if name.starts_with("enable-cors") || name.starts_with("cors-") => "see [route.cors]",
        _ => "`sluicegate import` does not know it",
    }
}

/// Returns true if leaving an annotation out lets requests pass that ingress-nginx would not let pass.
fn guards(name: &str) -> bool {
    name.starts_with("auth-")
        || name.ends_with("-source-range")
        || name.ends_with("-snippet")
        || name == "satisfy"
        || name.starts_with("limit-") && !name.starts_with("limit-rate")
        || name.starts_with("global-rate-limit")
}
