//! `[tracing.otlp]`: the OpenTelemetry collector that is told of spans.

use std::sync::Arc;
use std::time::Duration;

use http::uri::{PathAndQuery, Uri};
use http::{HeaderName, HeaderValue, header};
use toml::de::DeValue;

use crate::bounds::{OTLP_ATTRIBUTES, OTLP_TEXT};
use crate::config::field::{Field, all, quoted, text_of};
use crate::config::problem::Mistake;
use crate::config::rules::{OtlpPlace, OtlpRules};
use crate::config::section::step;
use crate::pki::{Tls, TlsError, TlsTexts};

pub(super) const EXAMPLE: &str = "{ endpoint = \"http://127.0.0.1:4318\" }";

/// What the gateway is called where nothing else is said.
const SERVICE: &str = "sluicegate";
/// Where collectors take spans, below the endpoint (OTLP specification, "Endpoint URLs for OTLP/HTTP").
const SIGNAL: &str = "/v1/traces";

/// Fields that the gateway writes itself.
const OWN: [HeaderName; 5] = [
    header::HOST,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
];

/// Reads the table.
pub(super) fn read(field: &Field<'_>) -> Option<OtlpRules> {
    let section = field.section()?;
    if !field.report.environment.exports_spans() {
        field.refuse::<()>(
            "this build has no OTLP export",
            "build it with `cargo build --release --features otlp`, as the packages and the image are, or leave this out",
        );
    }
    let endpoint = section.required("endpoint", "\"http://127.0.0.1:4318\"");
    let ca = section.field("ca_file", "\"/etc/sluicegate/collector-ca.pem\"");
    let place = endpoint.as_ref().map(|field| place(field, ca.as_ref()));
    let headers = section.or(
        "headers",
        "{ authorization = { file = \"/etc/sluicegate/otlp-token\" } }",
        Vec::new(),
        |field| headers(field),
    );
    let seconds = Duration::from_secs;
    let timeout = section.or("timeout", "\"10s\"", seconds(10), |field| {
        field.duration(Duration::from_millis(10)..=seconds(60))
    });
    let interval = section.or("interval", "\"1s\"", seconds(1), |field| {
        field.duration(Duration::from_millis(10)..=seconds(60))
    });
    let service = section.or("service_name", "\"edge\"", SERVICE.into(), attribute_text);
    let attributes = section.or(
        "attributes",
        "{ \"deployment.environment.name\" = \"production\" }",
        Vec::new(),
        attributes,
    );
    section.finish();
    let (place, headers) = (place??, headers?);
    let (timeout, interval) = (timeout?, interval?);
    let mut said = vec![("service.name".into(), service?)];
    said.extend(attributes?);
    Some(OtlpRules {
        collector: place,
        headers,
        timeout,
        interval,
        attributes: said,
    })
}

fn place(field: &Field<'_>, ca: Option<&Field<'_>>) -> Option<OtlpPlace> {
    let uri: Uri = field.parsed(url)?;
    let tls = match (uri.scheme_str(), ca) {
        (Some("https"), ca) => Some(tls(field, ca)?),
        (_, Some(ca)) => {
            return ca.refuse(
                "the endpoint is in clear text, where nobody shows a certificate",
                "write an https:// endpoint, or leave it out",
            );
        }
        (_, None) => None,
    };
    let authority = uri.authority()?.as_str();
    let path = uri.path().trim_end_matches('/');
    let path = if path.ends_with(SIGNAL) {
        path.to_owned()
    } else {
        format!("{path}{SIGNAL}")
    };
    let default = if tls.is_some() { 443 } else { 80 };
    let host = uri.host()?;
    let host = host.strip_prefix('[').unwrap_or(host);
    Some(OtlpPlace {
        host: host.strip_suffix(']').unwrap_or(host).into(),
        port: uri.port_u16().unwrap_or(default),
        authority: HeaderValue::from_str(authority).ok()?,
        path: PathAndQuery::try_from(path).ok()?,
        tls,
    })
}

/// Checks what can be wrong with an endpoint.
fn url(text: &str) -> Result<Uri, Mistake> {
    let wrong = |why: &str, advice: &str| {
        let shown = text.rsplit_once('@').map_or(text, |(_, place)| place);
        Mistake::with_advice(format!("{} {why}", quoted(shown)), advice)
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

fn tls(endpoint: &Field<'_>, ca: Option<&Field<'_>>) -> Option<Tls> {
    let text = match ca {
        None => None,
        Some(field) => {
            let advice = "put it there as PEM, readable for the user that runs the gateway";
            let (_, text) = text_of(field, advice)?;
            Some(Arc::from(text))
        }
    };
    let texts = TlsTexts {
        ca: text,
        ..TlsTexts::default()
    };
    match Tls::new(texts) {
        Ok(tls) => Some(tls),
        Err(TlsError::Ca) => ca.unwrap_or(endpoint).refuse(
            "this file holds no certificate",
            "write the PEM file of who signed the collector's certificate",
        ),
        Err(error) => endpoint.refuse(
            format!("TLS cannot be spoken: {error:?}"),
            "write an http:// endpoint",
        ),
    }
}

/// Fields of each request; a value is written here, or in a file where a secret is kept.
fn headers(field: &Field<'_>) -> Option<Vec<(HeaderName, HeaderValue)>> {
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
                let file = Field {
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

/// What is said of this gateway: texts by names with dots, as OpenTelemetry has them.
fn attributes(field: &Field<'_>) -> Option<Vec<(Box<str>, Box<str>)>> {
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

fn attribute_text(field: &Field<'_>) -> Option<Box<str>> {
    let text = field.text()?;
    if text.is_empty() || text.len() > OTLP_TEXT {
        return field.refuse(
            format!("{} bytes say nothing, or too much", text.len()),
            format!("write 1 to {OTLP_TEXT} bytes"),
        );
    }
    Some(text.into())
}

/// A table whose keys are the operator's own.
fn named<'d>(field: &Field<'d>) -> Option<Vec<(&'d str, Field<'d>)>> {
    let section = field.section()?;
    let entries = section.entries().into_iter().map(|(key, span, value)| {
        let each = Field {
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

    use crate::config::{Environment, no_review, parse_in};

    /// A machine without files, whose build tells nobody of spans.
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
