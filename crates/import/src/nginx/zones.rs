//! Reads `limit_req_zone` and `limit_conn_zone`: a key, and for requests a rate.

use std::collections::BTreeMap;

use super::choice::ValueChoice;
use super::keys::{self, KeyTemplate};
use super::tree::Directive;
use super::variables::VariableTable;
use crate::bounds;
use crate::client_fields::ProxyFieldUse;
use crate::ledger::{EntryId, Ledger};
use crate::shapes::{LARGEST_COUNT, RatePeriod, RequestRate};

/// Bytes that nginx keeps of a key, at least.
const STATE_BYTES: u64 = 128;

/// A zone: what it counts by, and how much may pass.
pub(super) struct Zone {
    pub(super) id: EntryId,
    pub(super) key: ValueChoice<KeyTemplate>,
    /// VariableTable of `map` and `geo` in the key.
    pub(super) variables: Vec<String>,
    /// `None` for connections.
    pub(super) rate: Option<RequestRate>,
    pub(super) capacity: Option<u64>,
    pub(super) differences: Vec<String>,
    /// Fields in the key that only a proxy may write.
    proxy_fields: Vec<String>,
}

/// The zones of a configuration by their names; those that cannot be said with the reason.
#[derive(Default)]
pub(super) struct ZoneTable {
    zones: BTreeMap<String, Result<Zone, String>>,
}

impl ZoneTable {
    /// Reads the directive of a zone.
    pub(super) fn define(
        &mut self,
        directive: &Directive,
        variables: &VariableTable,
        ledger: &mut Ledger,
    ) {
        let parameter = |name: &str| {
            directive
                .arguments()
                .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        let Some(place) = parameter("zone") else {
            ledger.left_out(directive.id, "it names no zone");
            return;
        };
        let (name, size) = place.split_once(':').unwrap_or((place, ""));
        let zone = zone(directive, parameter("rate"), size, variables);
        match &zone {
            Ok(_) => ledger.left_out(directive.id, "no route uses the zone"),
            Err(reason) => ledger.left_out(directive.id, reason.clone()),
        }
        self.zones.insert(name.to_owned(), zone);
    }

    /// Returns the variables of `map` and `geo` by which limits count.
    pub(super) fn used_variables(&self, ledger: &Ledger) -> Vec<String> {
        let zones = self.zones.values().flatten();
        let used = zones.filter(|zone| ledger.is_translated(zone.id));
        used.flat_map(|zone| zone.variables.iter().cloned())
            .collect()
    }

    /// Returns the fields of proxies by which limits count.
    pub(super) fn used_proxy_fields(&self, ledger: &Ledger) -> Vec<ProxyFieldUse> {
        let zones = self.zones.values().flatten();
        let mut used: Vec<&Zone> = zones.filter(|zone| ledger.is_translated(zone.id)).collect();
        used.sort_by_key(|zone| zone.id);
        let uses = used.into_iter().flat_map(|zone| {
            let fields = zone.proxy_fields.iter();
            fields.map(|field| ProxyFieldUse {
                field: field.clone(),
                source: zone.id,
            })
        });
        uses.collect()
    }

    /// Returns a zone.
    ///
    /// # Errors
    ///
    /// The reason for which there is none.
    pub(super) fn get(&self, name: &str) -> Result<&Zone, String> {
        match self.zones.get(name) {
            None => Err(format!("there is no zone {name:?}")),
            Some(Err(reason)) => Err(format!("the zone {name:?} is left out: {reason}")),
            Some(Ok(zone)) => Ok(zone),
        }
    }
}

fn zone(
    directive: &Directive,
    rate: Option<&str>,
    size: &str,
    variables: &VariableTable,
) -> Result<Zone, String> {
    let counts_requests = directive.name == "limit_req_zone";
    let text = directive.word(0).unwrap_or_default();
    let (key, used) = keys::key(text, variables)?;
    let mut differences = key.differences.clone();
    let rate = match rate {
        _ if !counts_requests => None,
        // nginx's default.
        None => Some(RequestRate {
            count: 1,
            period: RatePeriod::Second,
        }),
        Some(text) => Some(read_rate(text, &mut differences)?),
    };
    let keys = bytes(size).unwrap_or(0) / STATE_BYTES;
    Ok(Zone {
        id: directive.id,
        key,
        variables: used,
        rate,
        capacity: (keys > bounds::USUAL_CAPACITY).then_some(keys),
        differences,
        proxy_fields: variables.proxy_fields(text),
    })
}

fn read_rate(text: &str, differences: &mut Vec<String>) -> Result<RequestRate, String> {
    let wrong = || format!("the rate {text:?} is none of nginx");
    let (count, unit) = text.split_once("r/").ok_or_else(wrong)?;
    let count: u64 = count.parse().map_err(|_| wrong())?;
    let period = match unit {
        "s" => RatePeriod::Second,
        "m" => RatePeriod::Minute,
        _ => return Err(wrong()),
    };
    if count == 0 || count > LARGEST_COUNT {
        return Err(format!("a rate has a count of 1 to {LARGEST_COUNT}"));
    }
    if period == RatePeriod::Minute && !(count * 1_000).is_multiple_of(60) {
        // nginx keeps whole thousandths of a request a second.
        let kept = count * 1_000 / 60;
        differences.push(format!(
            "nginx rounds {text} down to 0.{kept:03} a second; here it is exact",
        ));
    }
    Ok(RequestRate { count, period })
}

/// Returns the bytes of a size such as `10m`.
pub(super) fn bytes(size: &str) -> Option<u64> {
    let (number, factor) = match size.char_indices().next_back()? {
        (at, 'k' | 'K') => (&size[..at], 1 << 10),
        (at, 'm' | 'M') => (&size[..at], 1 << 20),
        (at, 'g' | 'G') => (&size[..at], 1 << 30),
        _ => (size, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}
