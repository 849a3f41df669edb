//! `[origin.NAME]`: a pool of servers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::config::field::{Field, all, quoted};
use crate::config::host;
use crate::config::problem::Mistake;
use crate::config::rules::{HeaderCase, HealthRules, HostPolicy, OriginRules, OriginTimeouts};
use crate::config::section::Section;
use crate::config::tables::{balance, origin_tls, resilience, servers};

/// Longest timeout: a day.
const LONGEST: Duration = Duration::from_secs(86_400);

pub(in crate::config) const EXAMPLE: &str = "with servers = [\"127.0.0.1:3000\"]";

/// Reads the table; relative paths begin at `base`, the directory of the configuration.
pub(in crate::config) fn read(section: Section<'_>, base: &Path) -> Option<OriginRules> {
    let servers = section
        .required("servers", "[\"127.0.0.1:3000\"]")
        .and_then(|field| servers::read(&field));
    let spoken = origin_tls::read(&section, base);
    let balance = balance::read(&section);
    let sticky = section.optional("sticky", "{ ttl = \"1h\" }", |field| {
        balance::sticky(field.section()?)
    });
    let resolve_every = section.or(
        "resolve_every",
        "\"30s\"",
        Duration::from_secs(30),
        |field| field.duration(Duration::from_millis(100)..=LONGEST),
    );
    let health = section.optional("health", "{ path = \"/healthz\" }", |field| {
        health(field.section()?)
    });
    let ejection = section.optional(
        "outlier_detection",
        "{ consecutive_failures = 5 }",
        |field| resilience::ejection(field.section()?),
    );
    let slow_start = section.optional("slow_start", "\"30s\"", |field| {
        field.duration(Duration::from_millis(100)..=Duration::from_secs(3_600))
    });
    let circuit = section.optional("circuit_breaker", "{ max_requests = 100 }", |field| {
        resilience::circuit(field.section()?)
    });
    let timeouts = timeouts(section.section("timeouts", "{ connect = \"2s\" }"));
    let retries = section.or("retries", "1", 1, |field| {
        field
            .integer(0..=5)
            .and_then(|count| u8::try_from(count).ok())
    });
    let retry = section.optional("retry", "{ on = [\"connect\", 503] }", |field| {
        resilience::retry(field.section()?)
    });
    let host = section.or("host", "\"preserve\"", HostPolicy::Preserve, |field| {
        if field.text()? == "preserve" {
            return Some(HostPolicy::Preserve);
        }
        field.parsed(host::sent).map(HostPolicy::Fixed)
    });
    let header_case = section.or("header_case", "\"lower\"", HeaderCase::Lower, |field| {
        let words = [
            ("lower", HeaderCase::Lower),
            ("as-sent", HeaderCase::AsSent),
        ];
        field.choice(&words, |other| {
            Mistake::with_advice(
                format!("there is no header case {}", quoted(other)),
                "write \"lower\", or \"as-sent\" for an origin or clients that mind",
            )
        })
    });
    section.finish();
    let (protocol, tls) = spoken?;
    Some(OriginRules {
        servers: servers?,
        protocol,
        tls,
        balance: balance?,
        sticky: sticky?,
        resolve_every: resolve_every?,
        health: health?,
        ejection: ejection?,
        slow_start: slow_start?,
        circuit: circuit?,
        timeouts: timeouts?,
        retries: retries?,
        retry: retry?,
        host: host?,
        header_case: header_case?,
    })
}

fn health(section: Section<'_>) -> Option<HealthRules> {
    let path = section.optional("path", "\"/healthz\"", |field| field.parsed(health_path));
    let host = section.optional("host", "\"app.internal\"", |field| {
        field.parsed(|text| host::sent(text).map(|_| Arc::from(text)))
    });
    let statuses = section.or("statuses", "[\"200-399\"]", vec![200..=399], |field| {
        all(field
            .list()?
            .iter()
            .map(|element| resilience::statuses(element, 100..=599)))
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
        statuses: statuses?,
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
