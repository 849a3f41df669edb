//! Makes limits of the zones that locations use.
//!
//! Two locations that use a zone in the same way share a limit, and so its counters, as in nginx. A zone that is used with two bursts
//! becomes two limits with counters of their own.

use std::collections::BTreeMap;

use sluicegate_base::bounds::WAITERS_OF_CLIENT;

use super::choice::{RequestProperty, ValueChoice};
use super::keys::{ConstantPart, KeyTemplate};
use super::scope::{SettingScope, is_on};
use super::tree::Directive;
use super::zones::{Zone, ZoneTable};
use crate::bounds;
use crate::ledger::{EntryId, Ledger};
use crate::model::{Limit, LimitAction, LimitAlgorithm, TableRemarks};
use crate::names::NamePool;
use crate::shapes::{self, RequestRate};

/// The status of refusals that the gateway has by default.
const TOO_MANY_REQUESTS: u16 = 429;

/// Statuses for which that one is answered: nginx closes the connection at 444.
const IS_DEFAULT: [u16; 2] = [TOO_MANY_REQUESTS, 444];

/// All limits that were made.
#[derive(Default)]
pub(super) struct LimitMaker {
    pub(super) limits: Vec<Limit>,
    /// The uses of a zone by one server block, or by all, each with the names of its limits.
    made: BTreeMap<(EntryId, Option<usize>), Vec<MadeLimits>>,
    /// The places of limits by their names.
    places: BTreeMap<String, usize>,
    names: NamePool,
}

/// A use of a zone with the names of its limits.
type MadeLimits = (LimitUse, Vec<String>);

/// A use of a zone; equal uses share a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LimitUse {
    zone: EntryId,
    key: KeyTemplate,
    /// The server block, where each has a counter of its own.
    server: Option<usize>,
    kind: UseKind,
    is_dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UseKind {
    /// Requests beyond the rate, and how many of them are not delayed.
    Requests { burst: u64, at_once: u64 },
    /// Requests in flight.
    Connections(u64),
}

/// The limits of a location by the property that they depend on.
#[derive(Default)]
pub(super) struct LocationLimits {
    /// NamePool of limits for each case; of several choices each has an own one.
    pub(super) choices: Vec<ValueChoice<Vec<String>>>,
    pub(super) sources: Vec<EntryId>,
    pub(super) differences: Vec<String>,
    /// The status of refusals, where it is not that of the limits.
    pub(super) status: Option<u16>,
}

/// A directive that uses a zone.
struct ZoneUse<'z, 'd> {
    zone: &'z Zone,
    zone_name: &'d str,
    directive: &'d Directive,
    kind: UseKind,
    dry_run: Option<&'d Directive>,
    status: Option<&'d Directive>,
}

impl LimitMaker {
    /// Returns the limits of a location of the server block with this number.
    pub(super) fn of_location(
        &mut self,
        scope: &SettingScope<'_>,
        server: usize,
        zones: &ZoneTable,
        ledger: &mut Ledger,
    ) -> LocationLimits {
        let mut result = LocationLimits::default();
        let mut statuses = Vec::new();
        let requests = scope
            .requests
            .iter()
            .map(|it| (*it, scope.requests_dry_run, scope.requests_status));
        let connections = scope
            .connections
            .iter()
            .map(|it| (*it, scope.connections_dry_run, scope.connections_status));
        for (directive, dry_run, status) in requests.chain(connections) {
            let read = zone_use(directive, zones);
            let (zone_name, zone, kind) = match read {
                Ok(read) => read,
                Err(reason) => {
                    ledger.left_out(directive.id, reason);
                    continue;
                }
            };
            let zone_use = ZoneUse {
                zone,
                zone_name,
                directive,
                kind,
                dry_run,
                status,
            };
            if result.choices.len() == bounds::ROUTE_LIMITS {
                let most = bounds::ROUTE_LIMITS;
                let reason = format!("a route has at most {most} limits");
                ledger.lose(directive.id, &reason);
                continue;
            }
            self.add(&zone_use, server, &mut result, &mut statuses, ledger);
        }
        self.agree(&statuses, &mut result);
        result
    }

    fn add(
        &mut self,
        zone_use: &ZoneUse<'_, '_>,
        server: usize,
        result: &mut LocationLimits,
        statuses: &mut Vec<(String, Option<u16>)>,
        ledger: &mut Ledger,
    ) {
        let status = zone_use.status.and_then(|it| it.word(0)?.parse().ok());
        let status = status.filter(|status| !IS_DEFAULT.contains(status));
        let made = zone_use.zone.key.clone().try_map(|key| {
            Ok::<_, std::convert::Infallible>(self.names_of(zone_use, key, server, ledger))
        });
        let Ok(choice) = made;
        for id in [Some(zone_use.directive), zone_use.dry_run, zone_use.status]
            .into_iter()
            .flatten()
        {
            ledger.translated(id.id);
        }
        result.sources.push(zone_use.directive.id);
        for looser in &zone_use.zone.key.looser {
            ledger.fill_in_for(zone_use.directive.id, looser);
        }
        if choice
            .property
            .as_ref()
            .is_some_and(|property| *property != RequestProperty::Client)
        {
            let difference = "values of conditions are compared with regard to case";
            ledger.differs(zone_use.zone.id, difference);
        }
        if !is_on(zone_use.dry_run) {
            let names = choice.cases.iter().map(|(_, names)| names);
            let names = names.chain([&choice.default]).flatten();
            statuses.extend(names.map(|name| (name.clone(), status)));
        }
        result.choices.push(choice);
    }

    /// Decides the status of refusals of a route, where limits of it have another one elsewhere.
    fn agree(&self, wanted: &[(String, Option<u16>)], result: &mut LocationLimits) {
        let has_another = |(name, status): &&(String, Option<u16>)| {
            let place = self.places.get(name);
            place.is_some_and(|place| self.limits[*place].status != *status)
        };
        let another: Vec<_> = wanted.iter().filter(has_another).collect();
        let Some((_, status)) = another.first() else {
            return;
        };
        if wanted.iter().all(|(_, other)| other == status) {
            result.status = Some(status.unwrap_or(TOO_MANY_REQUESTS));
            return;
        }
        for (name, status) in another {
            result.differences.push(format!(
                "refusals by {name} have the status that they have elsewhere; nginx answers {} here",
                status.unwrap_or(TOO_MANY_REQUESTS)
            ));
        }
    }

    /// Returns the names of the limits for one key, which are made if they are new.
    fn names_of(
        &mut self,
        zone_use: &ZoneUse<'_, '_>,
        key: KeyTemplate,
        server: usize,
        ledger: &mut Ledger,
    ) -> Vec<String> {
        if key.is_empty() {
            return Vec::new();
        }
        let wanted = LimitUse {
            zone: zone_use.zone.id,
            server: (key.constant == ConstantPart::ServerName).then_some(server),
            key,
            kind: zone_use.kind,
            is_dry_run: is_on(zone_use.dry_run),
        };
        let uses = (wanted.zone, wanted.server);
        let known = self.made.get(&uses).map_or(&[][..], Vec::as_slice);
        if let Some((_, names)) = known.iter().find(|(made, _)| *made == wanted) {
            let names = names.clone();
            for place in names.iter().filter_map(|name| self.places.get(name)) {
                let sources = &mut self.limits[*place].remarks.sources;
                if !sources.contains(&zone_use.directive.id) {
                    sources.push(zone_use.directive.id);
                }
            }
            return names;
        }
        let shares_zone = known.iter().any(|(made, _)| made.key == wanted.key);
        let limits = self.make(zone_use, &wanted, ledger);
        let names: Vec<String> = limits.iter().map(|limit| limit.name.clone()).collect();
        self.places
            .extend(names.iter().cloned().zip(self.limits.len()..));
        self.limits.extend(limits);
        if shares_zone {
            let difference =
                "the zone is used in another way too; there and here counters are separate";
            ledger.differs(zone_use.directive.id, difference);
            let what = format!("{difference}, so a client has the rate of each");
            ledger.fill_in_for(zone_use.directive.id, &what);
            if let Some(place) = names.first().and_then(|name| self.places.get(name)) {
                let limit = &mut self.limits[*place];
                limit.remarks.differences.push(difference.to_owned());
            }
        }
        // A limit that is only a fallback stands on no route.
        let on_route: Vec<String> = names.iter().take(2).cloned().collect();
        let uses = self.made.entry(uses).or_default();
        uses.push((wanted, on_route.clone()));
        on_route
    }

    fn make(
        &mut self,
        zone_use: &ZoneUse<'_, '_>,
        wanted: &LimitUse,
        ledger: &mut Ledger,
    ) -> Vec<Limit> {
        let zone = zone_use.zone;
        ledger.translated(zone.id);
        let (on_missing, missing_difference) = wanted.key.on_missing();
        let mut differences = zone.differences.clone();
        differences.extend(wanted.key.differences.iter().cloned());
        differences.extend(missing_difference);
        let status: Option<u16> = zone_use.status.and_then(|it| it.word(0)?.parse().ok());
        match status {
            None if !wanted.is_dry_run => {
                differences
                    .push("refusals are 429; nginx answers 503 unless told otherwise".to_owned());
            }
            Some(444) => {
                differences
                    .push("refusals are answered; nginx closes the connection at 444".to_owned());
            }
            _ => {}
        }
        let name = self.names.unique(zone_use.zone_name);
        let limit = Limit {
            name: name.clone(),
            remarks: TableRemarks {
                sources: vec![zone.id, zone_use.directive.id],
                differences: Vec::new(),
            },
            key: wanted.key.parts.clone(),
            on_missing,
            rate: (1, shapes::RatePeriod::Second.word().to_owned()),
            algorithm: LimitAlgorithm::Gcra(1),
            action: if wanted.is_dry_run {
                LimitAction::Shadow
            } else {
                LimitAction::Reject
            },
            capacity: zone.capacity,
            concurrency: None,
            status: status.filter(|status| !IS_DEFAULT.contains(status)),
            count_if: None,
        };
        let mut limits = match wanted.kind {
            UseKind::Connections(most) => vec![Limit {
                concurrency: Some(most),
                ..limit
            }],
            UseKind::Requests { burst, at_once } => {
                let rate = zone.rate.unwrap_or(RequestRate {
                    count: 1,
                    period: shapes::RatePeriod::Second,
                });
                let limit = Limit {
                    rate: (rate.count, rate.period.word().to_owned()),
                    ..limit
                };
                // In a dry run nothing waits.
                if wanted.is_dry_run || at_once == burst {
                    vec![Limit {
                        algorithm: shapes::at_once(burst),
                        ..limit
                    }]
                } else if at_once == 0 {
                    delay_differences(rate, burst, &mut differences);
                    vec![Limit {
                        algorithm: shapes::delayed(rate, burst),
                        ..limit
                    }]
                } else {
                    delay_differences(rate, burst, &mut differences);
                    differences.push(format!(
                        "{name} admits and refuses as nginx does. {} requests at once pass; those beyond wait in a queue of their \
                         own, so waits differ from nginx's by up to one interval of the rate, and are shorter under lasting load. \
                         The origin gets X-Sluicegate-Limit with requests beyond",
                        at_once + 1
                    ));
                    self.in_two_stages(limit, rate, burst, at_once)
                }
            }
        };
        differences.dedup();
        for difference in &differences {
            ledger.differs(zone_use.directive.id, difference.clone());
        }
        if let Some(first) = limits.first_mut() {
            first.remarks.differences = differences;
        }
        limits
    }

    /// Returns a limit that refuses, one that lets the first requests pass, and its fallback that delays the others.
    fn in_two_stages(
        &mut self,
        limit: Limit,
        rate: RequestRate,
        burst: u64,
        at_once: u64,
    ) -> Vec<Limit> {
        let without_remarks = Limit {
            remarks: TableRemarks {
                sources: limit.remarks.sources.clone(),
                differences: Vec::new(),
            },
            ..limit.clone()
        };
        let delayed = self.names.unique(&format!("{}-delayed", limit.name));
        let fast = Limit {
            name: self.names.unique(&format!("{}-at-once", limit.name)),
            algorithm: shapes::at_once(at_once),
            action: LimitAction::Mark(delayed.clone()),
            status: None,
            ..without_remarks.clone()
        };
        let slow = Limit {
            name: delayed,
            algorithm: shapes::delayed(rate, burst),
            ..without_remarks
        };
        let all = Limit {
            algorithm: shapes::at_once(burst),
            ..limit
        };
        vec![all, fast, slow]
    }
}

fn delay_differences(rate: RequestRate, burst: u64, differences: &mut Vec<String>) {
    if shapes::waits_too_long(rate, burst) {
        differences
            .push("requests that would wait for more than ten minutes are refused".to_owned());
    }
    if burst > WAITERS_OF_CLIENT as u64 {
        differences.push(format!(
            "at most {WAITERS_OF_CLIENT} requests of one client wait at the same time; others get 503"
        ));
    }
}

fn zone_use<'z, 'd>(
    directive: &'d Directive,
    zones: &'z ZoneTable,
) -> Result<(&'d str, &'z Zone, UseKind), String> {
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("{text:?} is no number"))
    };
    if directive.name == "limit_conn" {
        let [name, most] = directive.words.as_slice() else {
            return Err("a zone and a number are expected".to_owned());
        };
        let most = number(most)?;
        if most == 0 || most > shapes::LARGEST_COUNT {
            return Err(format!("`concurrency` is 1 to {}", shapes::LARGEST_COUNT));
        }
        return Ok((name, zones.get(name)?, UseKind::Connections(most)));
    }
    let mut name = None;
    let mut burst = 0;
    let mut at_once = 0;
    for word in directive.arguments() {
        match word.split_once('=') {
            Some(("zone", value)) => name = Some(value),
            Some(("burst", value)) => burst = number(value)?,
            Some(("delay", value)) => at_once = number(value)?,
            None if word == "nodelay" => at_once = u64::MAX,
            _ => return Err(format!("limit_req has no parameter {word:?}")),
        }
    }
    let name = name.ok_or("it names no zone")?;
    let kind = UseKind::Requests {
        burst,
        at_once: at_once.min(burst),
    };
    let zone = zones.get(name)?;
    if zone.rate.is_none() {
        return Err(format!("the zone {name:?} counts connections"));
    }
    Ok((name, zone, kind))
}
