//! Makes limits of the zones of `rate_limit`, the module caddy-ratelimit.
//!
//! Its ring has the times of the latest N events of a key; a request is admitted if the oldest of them is longer ago than the window. That
//! is the algorithm `exact`, whose log has the same times. A zone of a name is one ring for each key, wherever it is imported.

use std::collections::BTreeMap;

use super::conditions::{self, RequestCondition};
use super::omissions::{leave, leave_quietly};
use super::placeholders::{self, PlaceholderPiece, pieces};
use super::tree::CaddyDirective;
use super::units;
use crate::bounds;
use crate::client_fields::ProxyFieldUse;
use crate::ledger::Ledger;
use crate::model::{KeyPart, Limit, LimitAction, LimitAlgorithm, TableRemarks};
use crate::names::NamePool;
use crate::shapes::LARGEST_COUNT;

/// The largest count of the algorithm `exact`.
const LARGEST_LOG: u64 = 1_024;

/// The prefix of IPv6 that the gateway counts by default.
const USUAL_V6: u8 = 64;

/// A zone at a place: its limit, for the requests that fulfil a condition.
#[derive(Clone, Debug)]
pub(super) struct RateZoneUse {
    /// The number of the limit.
    pub(super) limit: usize,
    pub(super) condition: RequestCondition,
}

/// All zones.
#[derive(Debug, Default)]
pub(super) struct RateZoneTable {
    pub(super) limits: Vec<Limit>,
    /// The fields by which keys name the client.
    pub(super) proxy_fields: Vec<ProxyFieldUse>,
    names: NamePool,
    known: BTreeMap<String, ZoneSettings>,
}

/// The settings of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ZoneSettings {
    limit: usize,
    key: String,
    events: u64,
    window: u64,
    v4: Option<u8>,
    v6: Option<u8>,
}

/// The key of a limit.
#[derive(Default)]
struct ZoneKey {
    parts: Vec<KeyPart>,
    on_missing: Option<&'static str>,
    differences: Vec<String>,
    proxy_fields: Vec<String>,
}

impl RateZoneTable {
    /// Reads a `rate_limit`, and returns its zones.
    ///
    /// # Errors
    ///
    /// The reason for which it has no counterpart.
    pub(super) fn read(
        &mut self,
        directive: &CaddyDirective,
        words: &[String],
        ledger: &mut Ledger,
    ) -> Result<Vec<RateZoneUse>, String> {
        if !words.is_empty() {
            return Err("it is that of another module than caddy-ratelimit".to_owned());
        }
        let mut zones = Vec::new();
        let is_distributed = directive
            .children()
            .iter()
            .any(|it| it.name == "distributed");
        for line in directive.children() {
            match line.name.as_str() {
                "zone" => match self.zone(line, ledger) {
                    Ok(zone) => zones.push(zone),
                    Err(reason) => leave(line, &reason, ledger),
                },
                "distributed" => {
                    let reason = "each gateway counts by itself; with [store], `store = \"shared\"` in the limits counts together";
                    leave(line, reason, ledger);
                }
                "storage" if is_distributed => {
                    let reason = "it is where `distributed` counts";
                    leave_quietly(line, reason, ledger);
                }
                "jitter" => ledger.differs(
                    line.id,
                    "Retry-After is the true wait; `retry_jitter` of a limit adds to it",
                ),
                "storage" | "log_key" | "sweep_interval" | "disable_metrics" => {
                    leave_quietly(line, "it changes no answer", ledger);
                }
                name => leave(line, &format!("no zone has {name}"), ledger),
            }
        }
        ledger.translated(directive.id);
        Ok(zones)
    }

    /// Reads a zone, and makes its limit unless a zone of this name has one.
    fn zone(&mut self, zone: &CaddyDirective, ledger: &mut Ledger) -> Result<RateZoneUse, String> {
        let mut settings = ZoneSettings::default();
        let mut sets = Vec::new();
        for line in zone.children() {
            let value = line.word(0);
            let prefix = || {
                value
                    .parse::<u8>()
                    .map_err(|_| format!("{value} is no prefix"))
            };
            match line.name.as_str() {
                "key" => value.clone_into(&mut settings.key),
                "events" => {
                    let events = value.parse().map_err(|_| format!("{value} is no count"))?;
                    settings.events = events;
                }
                "window" => settings.window = units::millis(value)?,
                "ipv4_prefix" => settings.v4 = Some(prefix()?).filter(|it| *it > 0),
                "ipv6_prefix" => settings.v6 = Some(prefix()?).filter(|it| *it > 0),
                "match" => sets.push(conditions::nested_set(line)?),
                name => return Err(format!("no zone has {name}")),
            }
        }
        let name = zone.word(0).to_owned();
        let limit = match self.known.get(&name) {
            Some(known) => {
                let limit = known.limit;
                if *known != (ZoneSettings { limit, ..settings }) {
                    return Err("a zone of this name has other settings".to_owned());
                }
                limit
            }
            None => {
                settings.limit = self.limits.len();
                let limit = self.limit(zone, &settings, ledger)?;
                self.limits.push(limit);
                self.known.insert(name, settings.clone());
                settings.limit
            }
        };
        record_translated(zone, ledger);
        Ok(RateZoneUse {
            limit,
            condition: match sets.is_empty() {
                true => RequestCondition::All(Vec::new()),
                false => RequestCondition::Any(sets),
            },
        })
    }

    fn limit(
        &mut self,
        zone: &CaddyDirective,
        settings: &ZoneSettings,
        ledger: &mut Ledger,
    ) -> Result<Limit, String> {
        let count = settings.events;
        if count == 0 || count > LARGEST_COUNT {
            return Err(format!(
                "a rate has a count of 1 to {LARGEST_COUNT}, not {count}"
            ));
        }
        let seconds = settings.window.div_ceil(1_000);
        if seconds == 0 || seconds > bounds::PERIOD_SECONDS {
            return Err("the period of a rate is one second to 31 days".to_owned());
        }
        let key = key(settings)?;
        let mut differences = key.differences;
        if seconds * 1_000 != settings.window {
            differences.push("the window is rounded up to whole seconds".to_owned());
        }
        let algorithm = match count <= LARGEST_LOG {
            true => LimitAlgorithm::Exact,
            false => {
                differences.push(format!(
                    "the log of `exact` has at most {LARGEST_LOG} requests; `sliding-window` is the closest algorithm without a log"
                ));
                LimitAlgorithm::SlidingWindow
            }
        };
        for difference in &differences {
            ledger.differs(zone.id, difference.clone());
        }
        let fields = key.proxy_fields.into_iter();
        self.proxy_fields.extend(fields.map(|field| ProxyFieldUse {
            field,
            source: zone.id,
        }));
        Ok(Limit {
            name: self.names.unique(zone.word(0)),
            remarks: TableRemarks {
                sources: vec![zone.id],
                differences,
            },
            key: key.parts,
            on_missing: key.on_missing,
            rate: (count, format!("{seconds}s")),
            algorithm,
            action: LimitAction::Reject,
            capacity: None,
            concurrency: None,
            status: None,
            count_if: None,
        })
    }
}

fn record_translated(directive: &CaddyDirective, ledger: &mut Ledger) {
    ledger.translated(directive.id);
    for child in directive.children() {
        record_translated(child, ledger);
    }
}

/// Reads the key of a zone. Text in it is equal for all requests.
fn key(settings: &ZoneSettings) -> Result<ZoneKey, String> {
    let mut key = ZoneKey::default();
    for piece in pieces(&settings.key) {
        let PlaceholderPiece::Placeholder(name) = piece else {
            continue;
        };
        let found = placeholders::key_part(&name)?;
        key.differences.extend(found.difference.map(str::to_owned));
        key.proxy_fields.extend(found.proxy_field);
        if !key.parts.contains(&found.part) {
            key.parts.push(found.part);
        }
    }
    if key.parts.iter().any(KeyPart::can_be_absent) {
        let has_client = key.parts.contains(&KeyPart::ClientIp);
        key.on_missing = Some(if has_client { "ip" } else { "shared" });
    }
    let is_address = key.parts == [KeyPart::ClientIp];
    if let Some(part) = key.parts.iter_mut().find(|it| **it == KeyPart::ClientIp) {
        // Only a key that is nothing but an address has a prefix in Caddy.
        let (v4, v6) = match is_address {
            true => (settings.v4.unwrap_or(32), settings.v6),
            false => (32, None),
        };
        if v6.is_none() {
            key.differences.push(
                "IPv6 clients are counted by /64; write \"client.ip/32,/128\" to count single addresses as Caddy does".to_owned(),
            );
        }
        let v6 = v6.unwrap_or(USUAL_V6);
        if (v4, v6) != (32, USUAL_V6) {
            *part = KeyPart::ClientNetwork(v4, v6);
        }
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ZoneKey, String> {
        key(&ZoneSettings {
            key: text.to_owned(),
            ..ZoneSettings::default()
        })
    }

    /// Goal: keys count what Caddy counts. Method: static keys, addresses with and without prefixes, fields beside an address.
    #[test]
    fn keys_are_parts() {
        assert!(read("static").unwrap().parts.is_empty());
        assert!(read("").unwrap().parts.is_empty());
        let both = read("{remote_host}-{header.X-A}").unwrap();
        assert_eq!(
            both.parts,
            [KeyPart::ClientIp, KeyPart::Header("x-a".to_owned())]
        );
        assert_eq!(both.on_missing, Some("ip"));
        assert_eq!(read("{query.a}").unwrap().on_missing, Some("shared"));
        let network = key(&ZoneSettings {
            key: "{client_ip}".to_owned(),
            v4: Some(24),
            v6: Some(56),
            ..ZoneSettings::default()
        });
        let network = network.unwrap();
        assert_eq!(network.parts, [KeyPart::ClientNetwork(24, 56)]);
        assert!(network.differences.is_empty());
        assert!(read("{http.auth.user.id}").is_err());
    }
}
