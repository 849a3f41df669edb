//! `[origin.NAME]`: a pool of servers.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::config::field::{Field, all, quoted};
use crate::config::host;
use crate::config::problem::Mistake;
use crate::config::report::Placed;
use crate::config::rules::{
    Balance, HeaderCase, HealthRules, HostPolicy, OriginRules, OriginTimeouts,
};
use crate::config::section::Section;
use crate::config::tables::origin_tls;

/// Longest timeout: a day.
const LONGEST: Duration = Duration::from_secs(86_400);

pub(in crate::config) const EXAMPLE: &str = "with servers = [\"127.0.0.1:3000\"]";

/// Reads the table; relative paths begin at `base`, the directory of the configuration.
pub(in crate::config) fn read(section: Section<'_>, base: &Path) -> Option<OriginRules> {
    let servers_field = section.required("servers", "[\"127.0.0.1:3000\"]");
    let servers = servers_field.as_ref().and_then(servers);
    let spoken = origin_tls::read(&section, base, servers_field.as_ref());
    let balance = section.or(
        "balance",
        "\"round-robin\"",
        Balance::RoundRobin,
        |field| match field.text()? {
            "round-robin" => Some(Balance::RoundRobin),
            other => field.refuse(
                format!("there is no balance {}", quoted(other)),
                field.advice(),
            ),
        },
    );
    let health = section.optional("health", "{ path = \"/healthz\" }", |field| {
        health(field.section()?)
    });
    let timeouts = timeouts(section.section("timeouts", "{ connect = \"2s\" }"));
    let retries = section.or("retries", "1", 1, |field| {
        field
            .integer(0..=5)
            .and_then(|count| u8::try_from(count).ok())
    });
    let host = section.or("host", "\"preserve\"", HostPolicy::Preserve, |field| {
        if field.text()? == "preserve" {
            return Some(HostPolicy::Preserve);
        }
        field.parsed(host::sent).map(HostPolicy::Fixed)
    });
    let header_case = section.or(
        "header_case",
        "\"lower\"",
        HeaderCase::Lower,
        |field| match field.text()? {
            "lower" => Some(HeaderCase::Lower),
            "as-sent" => Some(HeaderCase::AsSent),
            other => field.refuse(
                format!("there is no header case {}", quoted(other)),
                "write \"lower\", or \"as-sent\" for an origin or clients that mind",
            ),
        },
    );
    section.finish();
    let (protocol, tls) = spoken?;
    Some(OriginRules {
        servers: servers?,
        protocol,
        tls,
        balance: balance?,
        health: health?,
        timeouts: timeouts?,
        retries: retries?,
        host: host?,
        header_case: header_case?,
    })
}

/// Every address of every server, each once.
fn servers(field: &Field<'_>) -> Option<Vec<SocketAddr>> {
    let elements = field.list()?;
    let mut seen: Vec<Placed<&str>> = Vec::new();
    let resolved = elements.iter().map(|element| {
        let text = element.text()?;
        if let Some(earlier) = seen.iter().find(|earlier| earlier.value == text) {
            let line = element.report.line_of(&earlier.place);
            let message = format!("{} stands on line {line} already", quoted(text));
            return element.refuse(message, "write each server once: they take turns");
        }
        seen.push(element.placed(text));
        server(element, text)
    });
    let mut addresses = Vec::new();
    for address in all(resolved)?.into_iter().flatten() {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Some(addresses)
}

/// The addresses of one server.
fn server(element: &Field<'_>, text: &str) -> Option<Vec<SocketAddr>> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        if address.port() == 0 || address.ip().is_unspecified() {
            let message = format!("{} is no address to connect to", quoted(text));
            return element.refuse(
                message,
                "write where the origin listens: \"127.0.0.1:3000\"",
            );
        }
        return Some(vec![address]);
    }
    if let Err(mistake) = name_and_port(text) {
        return element.mistaken(mistake);
    }
    match element.report.surroundings.resolve(text) {
        Ok(addresses) if !addresses.is_empty() => {
            let has_both = addresses.iter().any(SocketAddr::is_ipv4)
                && addresses.iter().any(SocketAddr::is_ipv6);
            if has_both && text.starts_with("localhost:") {
                let port = addresses.first().map_or(80, SocketAddr::port);
                element.report.warning(
                    &element.place,
                    format!("this name is two servers, [::1]:{port} and 127.0.0.1:{port}"),
                    format!("write the one that the origin listens on: \"127.0.0.1:{port}\""),
                );
            }
            Some(addresses)
        }
        answer => {
            let why = answer
                .err()
                .map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
            let message = format!("{} does not resolve: {why}", quoted(text));
            element.refuse(
                message,
                "correct the name, or write an address: \"127.0.0.1:3000\"",
            )
        }
    }
}

/// Checks the shape of `name:port`, so that the resolver is not asked about slips.
fn name_and_port(text: &str) -> Result<(), Mistake> {
    if let Some((scheme, rest)) = text.split_once("://") {
        let server = rest.split('/').next().unwrap_or_default();
        let port = if scheme == "https" { 443 } else { 80 };
        let server = if server.contains(':') {
            server.to_owned()
        } else {
            format!("{server}:{port}")
        };
        return Err(Mistake::with_advice(
            format!("{} is a URL", quoted(text)),
            format!("write the server alone: {}", quoted(&server)),
        ));
    }
    let Some((name, port)) = text.rsplit_once(':') else {
        return Err(Mistake::with_advice(
            format!("{} has no port", quoted(text)),
            format!("write {}", quoted(&format!("{text}:80"))),
        ));
    };
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || port.parse::<u16>().map_or(true, |port| port == 0) {
        return Err(Mistake::with_advice(
            format!("{} is not a port", quoted(port)),
            format!(
                "write a number from 1 to 65535: {}",
                quoted(&format!("{name}:80"))
            ),
        ));
    }
    host::matched(name)
        .map(|_| ())
        .map_err(|_| Mistake::new(format!("{} is neither an address nor a name", quoted(name))))
}

fn health(section: Section<'_>) -> Option<HealthRules> {
    let path = section.optional("path", "\"/healthz\"", |field| field.parsed(health_path));
    let host = section.optional("host", "\"app.internal\"", |field| {
        field.parsed(|text| host::sent(text).map(|_| Arc::from(text)))
    });
    let interval = section.or("interval", "\"5s\"", Duration::from_secs(5), |field| {
        field.duration(Duration::from_millis(10)..=Duration::from_secs(3_600))
    });
    let timeout = section.or("timeout", "\"1s\"", Duration::from_secs(1), |field| {
        field.duration(Duration::from_millis(1)..=Duration::from_secs(60))
    });
    let times = |field: &Field<'_>| {
        field
            .integer(1..=100)
            .and_then(|count| usize::try_from(count).ok())
    };
    let unhealthy_after = section.or("unhealthy_after", "2", 2, times);
    let healthy_after = section.or("healthy_after", "1", 1, times);
    if let (Some(None), Some(Some(_))) = (&path, &host) {
        section.report.warning(
            &section.place,
            "without a path a check only connects, and sends no Host",
            "write path = \"/healthz\", or leave out the host",
        );
    }
    section.finish();
    Some(HealthRules {
        path: path?,
        host: host?,
        interval: interval?,
        timeout: timeout?,
        unhealthy_after: unhealthy_after?,
        healthy_after: healthy_after?,
    })
}

/// A path with or without a query, as a request line has it.
fn health_path(text: &str) -> Result<Arc<str>, Mistake> {
    let sendable = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let parsed = text.parse::<http::uri::PathAndQuery>();
    if text.starts_with('/') && sendable && parsed.is_ok() {
        return Ok(text.into());
    }
    Err(Mistake::new(format!(
        "{} is not a path to ask for",
        quoted(text)
    )))
}

fn timeouts(section: Section<'_>) -> Option<OriginTimeouts> {
    let range = Duration::from_millis(1)..=LONGEST;
    let read = |field: &Field<'_>| field.duration(range.clone());
    let seconds = Duration::from_secs;
    let connect = section.or("connect", "\"2s\"", seconds(2), read);
    let read_timeout = section.or("read", "\"30s\"", seconds(30), read);
    let write = section.or("write", "\"30s\"", seconds(30), read);
    let total = section.optional("total", "\"2m\"", read);
    let idle = section.optional("idle", "\"60s\"", read);
    section.finish();
    Some(OriginTimeouts {
        connect: connect?,
        read: read_timeout?,
        write: write?,
        total: total?,
        idle: idle?,
    })
}
