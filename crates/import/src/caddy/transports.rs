//! Reads `transport http`, health checks and passive checks of a `reverse_proxy` as keys of an origin.

use std::ops::RangeInclusive;

use super::tree::CaddyDirective;
use super::units;
use super::upstreams::UpstreamScheme;
use crate::bounds;
use crate::ledger::Ledger;
use crate::model::{Origin, set_key};
use crate::toml::{duration, list, origin_timeout, quoted};

/// The settings of an origin that several lines make.
#[derive(Debug, Default)]
pub(super) struct TransportSettings {
    pub(super) scheme: UpstreamScheme,
    times: TransportTimes,
    /// Keys of `tls`.
    tls: Vec<(&'static str, String)>,
    /// Keys of `circuit_breaker`.
    breaker: Vec<(&'static str, String)>,
    checks_health: bool,
    health: Vec<(&'static str, String)>,
    /// The time for which a failed server is out of use.
    ejection: Option<String>,
    failures: Option<String>,
    failed_statuses: Vec<String>,
}

/// Times in milliseconds; 0 is no bound.
#[derive(Debug, Default)]
struct TransportTimes {
    connect: u64,
    /// Until the head of a response has arrived.
    head: u64,
    read: u64,
    write: u64,
    idle: u64,
}

impl TransportTimes {
    /// Returns the keys of `timeouts`. Where Caddy has no bound the gateway has its own.
    fn keys(&self) -> impl Iterator<Item = (&'static str, String)> {
        let reads = [self.read, self.head].into_iter().filter(|it| *it > 0);
        let times = [
            ("connect", self.connect),
            ("read", reads.min().unwrap_or(0)),
            ("write", self.write),
            ("idle", self.idle),
        ];
        let bounds = times.into_iter().filter(|(_, millis)| *millis > 0);
        bounds.map(|(key, millis)| (key, duration(millis)))
    }
}

/// The difference of `response_header_timeout`.
const SHORTER_READ: &str = "`read` of `timeouts` bounds the time to the head of a response and each pause in its body, so it is the \
                            shorter one of this and `read_timeout`";

/// Lines that change no answer.
const WITHOUT_EFFECT: [&str; 10] = [
    "compression",
    "dial_fallback_delay",
    "expect_continue_timeout",
    "keepalive_idle_conns",
    "keepalive_idle_conns_per_host",
    "keepalive_interval",
    "read_buffer",
    "tls_renegotiation",
    "tls_timeout",
    "write_buffer",
];

/// The difference of `max_conns_per_host`.
const BOUNDED_WAIT: &str = "10000 requests wait for a connection, each for a minute, and others get 503; in Caddy all wait without a bound";

impl TransportSettings {
    /// Takes a line in the block of `transport http`. Returns false if it changes no answer.
    ///
    /// # Errors
    ///
    /// The reason for which it has no counterpart.
    pub(super) fn take(
        &mut self,
        line: &CaddyDirective,
        origin: &mut Origin,
        ledger: &mut Ledger,
    ) -> Result<bool, String> {
        let value = line.word(0);
        let time = || {
            let millis = units::millis(value)?;
            if millis > 0 {
                origin_timeout(Some(millis))?;
            }
            Ok::<u64, String>(millis)
        };
        match line.name.as_str() {
            "tls" => self.scheme = UpstreamScheme::Https,
            "tls_insecure_skip_verify" => {
                self.scheme = UpstreamScheme::Https;
                set_key(&mut self.tls, "verify", quoted("off"));
            }
            "tls_server_name" => {
                self.scheme = UpstreamScheme::Https;
                set_key(&mut self.tls, "server_name", quoted(value));
            }
            "tls_trusted_ca_certs" | "tls_trust_pool" => {
                let files = match line.name.as_str() {
                    "tls_trust_pool" if value == "file" => &line.words[1..],
                    "tls_trusted_ca_certs" => &line.words,
                    _ => return Err("the authorities of an origin are a file".to_owned()),
                };
                let [file] = files else {
                    return Err("the authorities of an origin are one file".to_owned());
                };
                self.scheme = UpstreamScheme::Https;
                set_key(&mut self.tls, "ca_file", quoted(file));
            }
            "tls_client_auth" => {
                let [cert, key] = line.words.as_slice() else {
                    return Err("the certificate of the gateway is two files".to_owned());
                };
                self.scheme = UpstreamScheme::Https;
                set_key(&mut self.tls, "cert_file", quoted(cert));
                set_key(&mut self.tls, "key_file", quoted(key));
            }
            "versions" if line.words == ["h2c", "2"] || line.words == ["h2c"] => {
                self.scheme = UpstreamScheme::H2c;
            }
            "versions" if line.words == ["2"] => origin.protocol = Some("h2"),
            "versions" if line.words.iter().any(|it| it == "1.1") => return Ok(false),
            "dial_timeout" => self.times.connect = time()?,
            "read_timeout" => self.times.read = time()?,
            "response_header_timeout" => {
                self.times.head = time()?;
                ledger.differs(line.id, SHORTER_READ);
            }
            "write_timeout" => self.times.write = time()?,
            "keepalive" if value == "off" => return Ok(false),
            "keepalive" => self.times.idle = time()?,
            "max_conns_per_host" if value == "0" => return Ok(false),
            "max_conns_per_host" => {
                self.limit(("max_connections", bounds::ORIGIN_CONNECTIONS), value)?;
                ledger.differs(line.id, BOUNDED_WAIT);
                set_key(
                    &mut self.breaker,
                    "max_pending",
                    bounds::ORIGIN_CONNECTIONS.to_string(),
                );
                set_key(&mut self.breaker, "pending_timeout", quoted("1m"));
            }
            name if WITHOUT_EFFECT.contains(&name) => return Ok(false),
            name => return Err(format!("an origin has no counterpart of {name}")),
        }
        Ok(true)
    }

    fn limit(&mut self, (key, most): (&'static str, u64), value: &str) -> Result<(), String> {
        let count = value.parse::<u64>().ok();
        let count = count.filter(|it| (1..=most).contains(it));
        let count = count.ok_or_else(|| format!("{key} is 1 to {most}, not {value}"))?;
        set_key(&mut self.breaker, key, count.to_string());
        Ok(())
    }

    /// Sets a key of `health`, whatever value it had.
    fn set_health(&mut self, key: &'static str, value: Option<String>) {
        self.health.retain(|(known, _)| *known != key);
        self.health.extend(value.map(|value| (key, value)));
    }

    /// Takes a line of `reverse_proxy` about the health of servers. Returns false if it is none.
    ///
    /// # Errors
    ///
    /// The reason for which it has no counterpart.
    pub(super) fn take_health(&mut self, line: &CaddyDirective) -> Result<bool, String> {
        let value = line.word(0);
        let count = |range: &RangeInclusive<u64>| match value.parse() {
            Ok(count) => Ok(bounds::nearest(count, range).to_string()),
            Err(_) => Err(format!("{value} is no count")),
        };
        // 0 is the default.
        let time = |range: &RangeInclusive<u64>| {
            let millis = Some(units::millis(value)?).filter(|it| *it > 0);
            Ok::<_, String>(millis.map(|it| duration(bounds::nearest(it, range))))
        };
        match line.name.as_str() {
            "health_uri" | "health_path" => {
                self.checks_health = true;
                self.set_health("path", Some(quoted(value)));
            }
            "health_interval" => {
                self.set_health("interval", time(&bounds::HEALTH_INTERVAL_MILLIS)?);
            }
            "health_timeout" => {
                self.set_health("timeout", time(&bounds::HEALTH_TIMEOUT_MILLIS)?);
            }
            "health_status" => {
                let status = match value.strip_suffix("xx") {
                    Some(class) => format!("{class}00-{class}99"),
                    None => value.to_owned(),
                };
                self.set_health("statuses", Some(list(&[status])));
            }
            "health_passes" => {
                self.set_health("healthy_after", Some(count(&bounds::HEALTH_CHECKS)?));
            }
            "health_fails" => {
                self.set_health("unhealthy_after", Some(count(&bounds::HEALTH_CHECKS)?));
            }
            "fail_duration" => self.ejection = time(&bounds::EJECTION_MILLIS)?,
            "max_fails" => self.failures = Some(count(&bounds::EJECTION_FAILURES)?),
            "unhealthy_status" => {
                for status in &line.words {
                    match status.strip_suffix("xx") {
                        Some("5") => self.failed_statuses.push("\"500-599\"".to_owned()),
                        None if status.starts_with('5') && status.parse::<u16>().is_ok() => {
                            self.failed_statuses.push(status.clone());
                        }
                        _ => return Err(format!("a server does not fail by {status}")),
                    }
                }
            }
            "unhealthy_request_count" => {
                self.limit(("max_requests", bounds::ORIGIN_REQUESTS), value)?
            }
            name if name.starts_with("health_") || name.starts_with("unhealthy_") => {
                return Err(format!("a check of an origin has no counterpart of {name}"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Writes the settings into the origin.
    pub(super) fn finish(mut self, origin: &mut Origin) {
        let inline = |keys: &[(&'static str, String)]| {
            let pairs = keys.iter().map(|(key, value)| format!("{key} = {value}"));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        };
        origin.timeouts.extend(self.times.keys());
        match self.scheme {
            UpstreamScheme::Https if self.tls.is_empty() => origin.tls = Some("{}".to_owned()),
            UpstreamScheme::Https => origin.tls = Some(inline(&self.tls)),
            UpstreamScheme::H2c => origin.protocol = Some("h2c"),
            UpstreamScheme::Http => {}
        }
        if self.checks_health {
            // The defaults of Caddy.
            for (key, value) in [
                ("interval", "\"30s\""),
                ("timeout", "\"5s\""),
                ("statuses", "[\"200-299\"]"),
                ("unhealthy_after", "1"),
            ] {
                if !self.health.iter().any(|(known, _)| *known == key) {
                    self.health.push((key, value.to_owned()));
                }
            }
            origin.health = Some(self.health);
        }
        if let Some(ejection) = self.ejection {
            let mut on = vec!["\"connect\"".to_owned(), "\"timeout\"".to_owned()];
            on.push("\"reset\"".to_owned());
            on.extend(self.failed_statuses);
            let keys = [
                (
                    "consecutive_failures",
                    self.failures.unwrap_or_else(|| "1".to_owned()),
                ),
                ("on", format!("[{}]", on.join(", "))),
                ("base_ejection_time", ejection.clone()),
                ("max_ejection_time", ejection),
                ("max_percent", "100".to_owned()),
            ];
            origin.keys.push(("outlier_detection", inline(&keys)));
        }
        if !self.breaker.is_empty() {
            origin.keys.push(("circuit_breaker", inline(&self.breaker)));
        }
    }
}
