//! Declares `[tracing.otlp]`: the OpenTelemetry collector that spans, lines of the access log and metrics are sent to.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::uri::{PathAndQuery, Uri};
use http::{HeaderName, HeaderValue, header};
use sluicegate_base::bounds::{OTLP_ATTRIBUTES, OTLP_TEXT};
use sluicegate_base::pki::{Tls, TlsError, TlsTexts};
use sluicegate_config_derive::Table;
use toml::de::DeValue;

use crate::declaration::{DurationIn, ListBy, PEM_FILE, ParsedText, ReadBy};
use crate::field::{KeyField, all, quoted, text_of};
use crate::form::ValueKind;
use crate::problem::ParseError;
use crate::section::{TableSection, step};

/// Shortest and longest wait.
const WAIT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
/// Shortest and longest time between two samples of the metrics: a sample reads every table of limits.
const METRICS_INTERVAL: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3600);

/// Fields that the gateway writes itself.
const OWN: [HeaderName; 5] = [
    header::HOST,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
];

/// An OpenTelemetry collector that receives spans, lines of the access log and metrics by OTLP over HTTP. Only in builds with the feature
/// `otlp`, which packages and image have. An unavailable or slow collector delays no request.
#[derive(Clone, Debug, PartialEq, Table)]
#[table(path = "tracing.otlp", check = check_export)]
pub struct OtlpRules {
    /// The address of the collector.
    #[part(read = collector, keys = CollectorTable::keys)]
    pub collector: OtlpPlace,
    /// The signals that are sent, some of:
    ///   "traces"   default: of each sampled request the span of the gateway, and that of its request to the origin; with propagate = true
    ///   "logs"     the lines of the access log, whatever its target, those that `only` and `refused` of [log] leave out excepted
    ///   "metrics"  the metrics of /metrics
    #[key(
        example = "[\"traces\", \"logs\", \"metrics\"]",
        default = vec![OtlpSignal::Traces],
        reader = ListBy(signals, &[ValueKind::String])
    )]
    pub signals: Vec<OtlpSignal>,
    /// Header fields of each call. A value is a string, or read from a file, which is watched.
    #[key(
        example = "{ authorization = { file = \"/etc/sluicegate/otlp-token\" } }",
        shown = "{ x-tenant = \"edge\", authorization = { file = \"otlp-token\" } }",
        default = Vec::new(),
        reader = ReadBy(headers, &[ValueKind::Object])
    )]
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The maximum duration of a call, 10ms to 1m.
    #[key(example = "\"10s\"", default = Duration::from_secs(10), reader = DurationIn(WAIT))]
    pub timeout: Duration,
    /// The maximum time for which spans and lines are collected before a call, 10ms to 1m.
    #[key(example = "\"1s\"", default = Duration::from_secs(1), reader = DurationIn(WAIT))]
    pub interval: Duration,
    /// The time between two samples of the metrics, 1s to 1h.
    #[key(example = "\"1m\"", default = Duration::from_secs(60), reader = DurationIn(METRICS_INTERVAL))]
    pub metrics_interval: Duration,
    /// The attributes of this gateway, `service.name` first.
    #[part(read = resource, keys = ResourceTable::keys)]
    pub attributes: Vec<(Box<str>, Box<str>)>,
}

/// The address of a collector.
#[derive(Clone, Debug, PartialEq)]
pub struct OtlpPlace {
    /// A name or an address, without brackets.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
    /// `Host`, as in the URL.
    pub authority: HeaderValue,
    /// The targets of requests, by signal.
    paths: [PathAndQuery; OtlpSignal::ALL.len()],
    /// The encryption of the connection; `None`: in clear text.
    pub tls: Option<Tls>,
}

/// A kind of records that a collector gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpSignal {
    /// The spans of sampled requests.
    Traces,
    /// The lines of the access log.
    Logs,
    /// The metrics of `/metrics`.
    Metrics,
}

impl OtlpSignal {
    /// Every signal.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Logs, Self::Metrics];

    /// Returns the signal as configurations and labels of metrics have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Logs => "logs",
            Self::Metrics => "metrics",
        }
    }

    /// Returns the path below the endpoint (OTLP specification, "Endpoint URLs for OTLP/HTTP").
    const fn path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Logs => "/v1/logs",
            Self::Metrics => "/v1/metrics",
        }
    }
}

impl OtlpRules {
    /// Returns whether `signal` is sent.
    #[must_use]
    pub fn sends(&self, signal: OtlpSignal) -> bool {
        self.signals.contains(&signal)
    }
}

impl OtlpPlace {
    /// Returns the target of requests with `signal`.
    #[must_use]
    pub fn path(&self, signal: OtlpSignal) -> &PathAndQuery {
        &self.paths[signal as usize]
    }
}

/// Declares the keys of [`OtlpPlace`].
#[derive(Table)]
#[table(check = check_clear_text)]
struct CollectorTable {
    /// Required. The URL of the OTLP/HTTP receiver, http:// or https://; calls go to /v1/traces, /v1/logs and /v1/metrics below it.
    #[key(
        example = "\"http://127.0.0.1:4318\"",
        shown = "\"https://collector.internal:4318\"",
        reader = ParsedText(url)
    )]
    endpoint: Uri,
    /// The CA certificates of the collector, with https://. Default: the trust store of this machine.
    #[key(
        example = "\"/etc/sluicegate/collector-ca.pem\"",
        shown = "\"collector-ca.pem\"",
        reader = PEM_FILE
    )]
    ca_file: Option<Arc<str>>,
}

/// Declares the keys of the attributes.
#[derive(Table)]
struct ResourceTable {
    /// The name of this gateway: the attribute service.name.
    #[key(
        example = "\"edge\"",
        shown = "\"sluicegate\"",
        default = "sluicegate".into(),
        reader = ReadBy(attribute_text, &[ValueKind::String])
    )]
    service_name: Box<str>,
    /// Further resource attributes, at most 64 strings. Default: service.instance.id alone, a random UUID of each process.
    #[key(
        example = "{ \"deployment.environment.name\" = \"production\" }",
        default = Vec::new(),
        reader = ReadBy(attributes, &[ValueKind::Object])
    )]
    attributes: Vec<(Box<str>, Box<str>)>,
}

fn check_export(keys: &OtlpRulesKeys, section: &TableSection<'_>) -> Option<()> {
    if section.report.environment.exports_spans() {
        return check_metrics(keys, section);
    }
    section.report.error(
        &section.place,
        "this build has no OTLP export",
        "build it with `cargo build --release --features otlp`, as the packages and the image are, or leave this out",
    );
    None
}

fn check_metrics(keys: &OtlpRulesKeys, section: &TableSection<'_>) -> Option<()> {
    if keys.signals.as_ref()?.contains(&OtlpSignal::Metrics) || !section.has("metrics_interval") {
        return Some(());
    }
    section.refuse(
        "metrics_interval",
        "no metrics are sent to this collector",
        "write signals = [\"traces\", \"metrics\"], or leave it out",
    )
}

fn check_clear_text(keys: &CollectorTableKeys, section: &TableSection<'_>) -> Option<()> {
    if keys.endpoint.as_ref()?.scheme_str() == Some("https") || !section.has("ca_file") {
        return Some(());
    }
    section.refuse(
        "ca_file",
        "the endpoint is in clear text, where nobody shows a certificate",
        "write an https:// endpoint, or leave it out",
    )
}

fn collector(section: &TableSection<'_>) -> Option<OtlpPlace> {
    let CollectorTable {
        endpoint: uri,
        ca_file,
    } = CollectorTable::read_keys(section)?;
    let (tls, default) = match uri.scheme_str() {
        Some("https") => (Some(tls(section, ca_file)?), 443),
        _ => (None, 80),
    };
    let [traces, logs, metrics] = OtlpSignal::ALL.map(|signal| target(&uri, signal));
    let host = uri.host()?;
    let host = host.strip_prefix('[').unwrap_or(host);
    Some(OtlpPlace {
        host: host.strip_suffix(']').unwrap_or(host).into(),
        port: uri.port_u16().unwrap_or(default),
        authority: HeaderValue::from_str(uri.authority()?.as_str()).ok()?,
        paths: [traces?, logs?, metrics?],
        tls,
    })
}

/// Returns the target of requests with `signal`. An endpoint with the path of a signal, as other programs are given it, means the place
/// above that path.
fn target(endpoint: &Uri, signal: OtlpSignal) -> Option<PathAndQuery> {
    let path = endpoint.path().trim_end_matches('/');
    let known = OtlpSignal::ALL.map(OtlpSignal::path);
    let base = known.iter().find_map(|known| path.strip_suffix(known));
    let base = base.unwrap_or(path);
    PathAndQuery::try_from(format!("{base}{}", signal.path())).ok()
}

fn resource(section: &TableSection<'_>) -> Option<Vec<(Box<str>, Box<str>)>> {
    let table = ResourceTable::read_keys(section)?;
    let mut attributes = vec![("service.name".into(), table.service_name)];
    attributes.extend(table.attributes);
    Some(attributes)
}

fn tls(section: &TableSection<'_>, ca: Option<Arc<str>>) -> Option<Tls> {
    let texts = TlsTexts {
        ca,
        ..TlsTexts::default()
    };
    match Tls::new(texts) {
        Ok(tls) => Some(tls),
        Err(TlsError::Ca) => section.refuse(
            "ca_file",
            "this file holds no certificate",
            "write the PEM file of who signed the collector's certificate",
        ),
        Err(error) => section.refuse(
            "endpoint",
            format!("TLS cannot be spoken: {error:?}"),
            "write an http:// endpoint",
        ),
    }
}

/// Parses the URL of an endpoint.
fn url(text: &str) -> Result<Uri, ParseError> {
    let wrong = |why: &str, advice: &str| {
        let shown = text.rsplit_once('@').map_or(text, |(_, place)| place);
        ParseError::with_advice(format!("{} {why}", quoted(shown)), advice)
    };
    let example = "write the URL of its OTLP/HTTP receiver: \"http://collector:4318\"";
    let uri: Uri = text
        .parse()
        .map_err(|_| wrong("is not the URL of a collector", example))?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
            Err(wrong(
                "has a password before it, which everybody sees who sees this file",
                "write headers = { authorization = { file = \"/etc/sluicegate/otlp-token\" } }",
            ))
        }
        (Some("http" | "https"), Some(_)) if uri.query().is_some() => {
            Err(wrong("has a query, and nothing is read from it", example))
        }
        (Some("http" | "https"), Some(authority)) if authority.port_u16() == Some(4317) => {
            Err(wrong(
                "is where collectors take gRPC, which is not spoken here",
                "write the port of its OTLP/HTTP receiver, 4318 unless it was changed",
            ))
        }
        (Some("http" | "https"), Some(_)) => Ok(uri),
        _ => Err(wrong("is not the URL of a collector", example)),
    }
}

/// Reads `signals = ["traces", "logs"]`.
fn signals(field: &KeyField<'_>) -> Option<Vec<OtlpSignal>> {
    let words = OtlpSignal::ALL.map(|signal| (signal.as_str(), signal));
    let mut known = Vec::new();
    all(field.list()?.iter().map(|element| {
        let signal = element.word(&words, |text| format!("{text} is no signal"))?;
        if known.contains(&signal) {
            return element.refuse(
                format!("{} is named twice", signal.as_str()),
                "write it once",
            );
        }
        known.push(signal);
        Some(signal)
    }))
}

/// Reads the fields of each request; a value is written here, or in a file where a secret is kept.
fn headers(field: &KeyField<'_>) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let entries = named(field)?;
    all(entries.iter().map(|(key, value)| {
        let name = HeaderName::try_from(*key);
        let Ok(name) = name else {
            return value.refuse(
                format!("{} is not the name of a header", quoted(key)),
                "write one such as authorization",
            );
        };
        if OWN.contains(&name) {
            return value.refuse(
                format!("{} is written by the gateway", quoted(key)),
                "leave it out",
            );
        }
        let text = match value.value {
            DeValue::Table(table) => {
                let Some(file) = table.get("file").filter(|_| table.len() == 1) else {
                    return value.refuse(
                        "a value is a string, or a table with a file and nothing else",
                        format!("write {key} = {{ file = \"/etc/sluicegate/otlp-token\" }}"),
                    );
                };
                let file = KeyField {
                    place: value.place.inside(".file", Some(file.span())),
                    generic: value.generic.clone(),
                    value: file.get_ref(),
                    ..*value
                };
                let advice = "put the value there, readable for the user that runs the gateway";
                let (_, text) = text_of(&file, advice)?;
                text
            }
            _ => value.text()?.to_owned(),
        };
        let Ok(mut text) = HeaderValue::from_str(text.trim()) else {
            return value.refuse(
                "this cannot be the value of a header",
                "write visible ASCII on one line",
            );
        };
        text.set_sensitive(true);
        Some((name, text))
    }))
}

/// Reads texts by names with dots, as OpenTelemetry has them.
fn attributes(field: &KeyField<'_>) -> Option<Vec<(Box<str>, Box<str>)>> {
    let entries = named(field)?;
    if entries.len() > OTLP_ATTRIBUTES {
        return field.refuse(
            format!("these are {} attributes", entries.len()),
            format!("keep at most {OTLP_ATTRIBUTES}"),
        );
    }
    all(entries.iter().map(|(name, value)| {
        if *name == "service.name" {
            return value.refuse(
                "the name has a key of its own",
                "write service_name = \"edge\" beside `attributes`",
            );
        }
        Some(((*name).into(), attribute_text(value)?))
    }))
}

fn attribute_text(field: &KeyField<'_>) -> Option<Box<str>> {
    let text = field.text()?;
    if text.is_empty() || text.len() > OTLP_TEXT {
        return field.refuse(
            format!("{} bytes say nothing, or too much", text.len()),
            format!("write 1 to {OTLP_TEXT} bytes"),
        );
    }
    Some(text.into())
}

/// Returns the entries of a table whose keys are the operator's own.
fn named<'d>(field: &KeyField<'d>) -> Option<Vec<(&'d str, KeyField<'d>)>> {
    let section = field.section()?;
    let entries = section.entries().into_iter().map(|(key, span, value)| {
        let each = KeyField {
            report: field.report,
            place: field.place.inside(&step(key), Some(span)),
            generic: field.generic.clone(),
            key: field.key,
            example: field.example,
            value: value.get_ref(),
        };
        (key, each)
    });
    Some(entries.collect())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddr;

    use crate::{Environment, no_review, parse_in};

    /// A machine without files, and a build without the export of spans.
    struct Bare;

    impl Environment for Bare {
        fn resolve(&self, _: &str) -> io::Result<Vec<SocketAddr>> {
            Err(io::ErrorKind::NotFound.into())
        }

        fn read(&self, _: &std::path::Path) -> io::Result<String> {
            Err(io::ErrorKind::NotFound.into())
        }

        fn is_open_to_all(&self, _: &std::path::Path) -> bool {
            false
        }

        fn variable(&self, _: &str) -> Option<String> {
            None
        }

        fn cores(&self) -> usize {
            1
        }

        fn exports_spans(&self) -> bool {
            false
        }
    }

    /// Goal: a build without the export says so, and names one that has it. Method: a collector, as such a build reads it.
    #[test]
    fn a_build_without_the_export_says_which_one_has_it() {
        let text = "listener = [{ address = '0.0.0.0:8080' }]\n\
             route = [{ path = '/*', respond = { status = 200 } }]\n\
             tracing = { propagate = true, otlp = { endpoint = 'http://c:4318' } }";
        let problems = parse_in("gateway.toml", text, &Bare, no_review).expect_err("it has none");
        let said: Vec<_> = problems.iter().map(|problem| &*problem.message).collect();
        assert_eq!(said, ["this build has no OTLP export"]);
        assert!(problems.to_string().contains("--features otlp"));
    }
}
