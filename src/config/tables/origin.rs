//! `[origin.NAME]`: a pool of servers.

use std::time::Duration;

use crate::config::field::quoted;
use crate::config::host;
use crate::config::problem::Mistake;
use crate::config::rules::{
    CircuitBreakerRules, HeaderCase, HealthRules, HostPolicy, OriginRules, OriginTimeouts,
    OutlierDetectionRules, RetryRules, StickyRules,
};
use crate::config::section::Section;
use crate::config::tables::{balance, origin_tls, servers};

/// Longest timeout: a day.
const LONGEST: Duration = Duration::from_secs(86_400);

pub(in crate::config) const EXAMPLE: &str = "with servers = [\"127.0.0.1:3000\"]";

/// Reads the table.
pub(in crate::config) fn read(section: Section<'_>) -> Option<OriginRules> {
    let servers = section
        .required("servers", "[\"127.0.0.1:3000\"]")
        .and_then(|field| servers::read(&field));
    let spoken = origin_tls::read(&section);
    let balance = balance::read(&section);
    let sticky = section.optional("sticky", "{ ttl = \"1h\" }", |field| {
        StickyRules::read(field.section()?)
    });
    let resolve_every = section.or(
        "resolve_every",
        "\"30s\"",
        Duration::from_secs(30),
        |field| field.duration(Duration::from_millis(100)..=LONGEST),
    );
    let health = section.optional("health", "{ path = \"/healthz\" }", |field| {
        HealthRules::read(field.section()?)
    });
    let outlier_detection = section.optional(
        "outlier_detection",
        "{ consecutive_failures = 5 }",
        |field| OutlierDetectionRules::read(field.section()?),
    );
    let slow_start = section.optional("slow_start", "\"30s\"", |field| {
        field.duration(Duration::from_millis(100)..=Duration::from_secs(3_600))
    });
    let circuit_breaker = section.optional("circuit_breaker", "{ max_requests = 100 }", |field| {
        CircuitBreakerRules::read(field.section()?)
    });
    let timeouts = OriginTimeouts::read(section.section("timeouts", "{ connect = \"2s\" }"));
    let retries = section.or("retries", "1", 1, |field| {
        field
            .integer(0..=5)
            .and_then(|count| u8::try_from(count).ok())
    });
    let retry = section.optional("retry", "{ on = [\"connect\", 503] }", |field| {
        RetryRules::read(field.section()?)
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
        outlier_detection: outlier_detection?,
        slow_start: slow_start?,
        circuit_breaker: circuit_breaker?,
        timeouts: timeouts?,
        retries: retries?,
        retry: retry?,
        host: host?,
        header_case: header_case?,
    })
}
