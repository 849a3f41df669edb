//! Judges a run by the sentences of docs/fleet.md that hold for the faults of its plan.

use std::collections::BTreeMap;

use sluicegate_decide::store::StoreFailure;
use sluicegate_limiter::Timestamp;

use super::gateway::Served;
use super::plan::{Fault, HEALED, OnFailure, Plan, PlannedFault, WINDOW};
use super::world::BASE;

/// What is known of a run after it has healed.
pub(crate) struct Evidence {
    pub(crate) served: Vec<Served>,
    pub(crate) unanswered: u64,
    pub(crate) running: Vec<u32>,
    pub(crate) started: usize,
    pub(crate) late: Vec<u32>,
    pub(crate) known: Vec<u32>,
    /// Units in the store.
    pub(crate) strict_ledger: u64,
    pub(crate) shared_ledger: u64,
    pub(crate) refunded: u64,
}

/// A limit that is filled once more after it was idle for its period.
pub(crate) struct FinalBurst {
    pub(crate) route: usize,
    pub(crate) served: Vec<Served>,
    pub(crate) retry: Option<[Served; 2]>,
}

type Check = fn(&Plan, &Evidence) -> Option<String>;

/// The checks, each with the sentence that it checks.
const CHECKS: &[(&str, Check)] = &[
    (
        "All gateways together admit what one gateway with the same limit would; in an outage the bounds of the table",
        strict_windows_are_bounded,
    ),
    (
        "the limit is exact while there is no fault: a rejection means that its count was admitted",
        strict_windows_are_full,
    ),
    (
        "exact: never more than the count in any span of the period; gcra: a burst, then one each period / count",
        strict_spans_are_bounded,
    ),
    (
        "It charges all its limits of the request or none; nothing is charged twice; at most the calls in flight go uncounted",
        strict_charges_are_conserved,
    ),
    (
        "a push whose answer was lost is repeated with its number, and counts once",
        shared_charges_are_conserved,
    ),
    (
        "count_if: the store is corrected by a refund in the background; if it fails the charge stays",
        refunds_are_conserved,
    ),
    (
        "on_store_failure = \"closed\": none is admitted while the store is unavailable",
        closed_admits_by_the_store_alone,
    ),
    (
        "store = \"shared\": never more than (N − 1) · the limit's count beyond it",
        shared_windows_are_bounded,
    ),
    (
        "store = \"shared\": at most 2 · N · r · (sync + round trip) beyond the limit",
        shared_excess_is_bounded,
    ),
    (
        "RateLimit remaining never rises within a window",
        remaining_never_rises,
    ),
    (
        "Gateways are back within 7.5 s; the store decides again ten seconds after it came back empty",
        all_have_recovered,
    ),
    (
        "The number of gateways is the one that the store reported last",
        the_fleet_is_counted,
    ),
];

/// Returns the violations.
pub(crate) fn check(plan: &Plan, evidence: &Evidence) -> Vec<String> {
    let checked = CHECKS.iter().filter_map(|(sentence, check)| {
        let found = check(plan, evidence)?;
        Some(format!("{sentence}: {found}"))
    });
    checked.collect()
}

/// The time of a request by which the store, or without it the gateway, counts it.
fn counted_at(served: &Served) -> Timestamp {
    let charged = served.store_time.filter(|_| served.is_charged_in_store);
    charged.unwrap_or(served.gateway_time)
}

fn window_of(time: Timestamp) -> u64 {
    time.as_secs() / WINDOW
}

/// Admitted requests of some routes by client and window.
fn admitted_by_window(
    evidence: &Evidence,
    routes: &[usize],
    time: impl Fn(&Served) -> Timestamp,
) -> BTreeMap<(u8, u64), Vec<Served>> {
    let mut windows: BTreeMap<_, Vec<Served>> = BTreeMap::new();
    for served in &evidence.served {
        if served.is_admitted && routes.contains(&served.route) {
            let key = (served.client, window_of(time(served)));
            windows.entry(key).or_default().push(served.clone());
        }
    }
    windows
}

/// The milliseconds of true time in which a window of the store lies, with the time before and after in which a fault shows in it.
fn span_of(window: u64) -> [u64; 2] {
    let begin = window * WINDOW * 1_000;
    let begin = begin.saturating_sub(BASE / 1_000_000);
    [begin.saturating_sub(1_000), begin + WINDOW * 1_000 + 1_000]
}

/// The outages and the losses that show in a window, and the units that a failover lost.
#[derive(Debug, Default)]
struct WindowFaults {
    outages: u64,
    lost_units: u64,
    is_unbounded: bool,
}

/// The time after a fault until all gateways have recovered, in milliseconds.
const RECOVERY: u64 = 20_000;

fn faults_of(plan: &Plan, evidence: &Evidence, window: u64) -> WindowFaults {
    let [from, to] = span_of(window);
    let mut found = WindowFaults::default();
    for planned in &plan.faults {
        let ends = planned.ends.max(planned.begins) + RECOVERY;
        let is_in_window = planned.begins <= to && ends >= from;
        if !is_in_window {
            continue;
        }
        match planned.fault {
            Fault::StoreStep { .. } => found.is_unbounded = true,
            Fault::WallStep { .. } => {}
            Fault::Failover => {
                found.outages += 1;
                let lost = evidence.served.iter().filter(|served| {
                    let at = served.at.as_millis() as u64;
                    served.is_admitted && at + 100 >= planned.begins && at <= planned.ends + 100
                });
                found.lost_units += lost.count() as u64;
            }
            _ => found.outages += 1,
        }
    }
    found
}

fn strict_windows_are_bounded(plan: &Plan, evidence: &Evidence) -> Option<String> {
    for (&(client, window), served) in &admitted_by_window(evidence, &[0], counted_at) {
        let faults = faults_of(plan, evidence, window);
        let is_open = plan.on_failure == OnFailure::Open;
        if faults.is_unbounded || is_open && faults.outages > 0 {
            continue;
        }
        let others = evidence.started as u64 - 1;
        let least = evidence.known.iter().copied().min().unwrap_or(1).max(1);
        let share = u64::from(plan.count.div_ceil(least.min(plan.gateways)));
        let unknown = served
            .iter()
            .filter(|served| served.failure == Some(StoreFailure::Unknown));
        let unknown = unknown.count() as u64;
        let mut most = u64::from(plan.count) + unknown + faults.lost_units;
        let decides_by_share = plan.on_failure == OnFailure::Local || plan.loses_keys();
        if faults.outages > 0 && decides_by_share {
            // Once at the beginning of an outage, once at its end.
            most += 2 * others * share;
        }
        if plan.clocks_differ && faults.outages > 0 {
            // Own admissions are counted by the windows of the gateway's clock.
            most += others * share + share;
        }
        let admitted = served.len() as u64;
        if admitted > most {
            return Some(format!(
                "client {client} was admitted {admitted} times in window {window}, at most {most} ({faults:?})"
            ));
        }
    }
    None
}

fn strict_windows_are_full(plan: &Plan, evidence: &Evidence) -> Option<String> {
    if !plan.faults.is_empty() {
        return None;
    }
    let admitted = admitted_by_window(evidence, &[0], counted_at);
    let rejected = evidence.served.iter().filter(|served| {
        served.route == 0 && served.rejected_by == Some(0) && served.store_time.is_some()
    });
    for served in rejected {
        let window = window_of(served.store_time?);
        let admitted = admitted.get(&(served.client, window)).map_or(0, Vec::len);
        if admitted != plan.count as usize {
            return Some(format!(
                "rejected with {admitted} of {} admitted: {served:?}",
                plan.count
            ));
        }
    }
    None
}

/// Returns the most of `times`, in nanoseconds, that lie in a span which begins with one of them, less the units that `refilled` returns
/// for the length of the span.
fn most_in_a_span(times: &[u64], refilled: impl Fn(u64) -> f64) -> f64 {
    let spans = times.iter().enumerate().flat_map(|(first, from)| {
        let rest = times[first..].iter().enumerate();
        rest.map(|(number, to)| (number + 1) as f64 - refilled(to - from))
            .collect::<Vec<_>>()
    });
    spans.fold(0.0, f64::max)
}

fn strict_spans_are_bounded(plan: &Plan, evidence: &Evidence) -> Option<String> {
    if !plan.faults.is_empty() {
        return None;
    }
    for client in 1..=plan.clients {
        let served = evidence.served.iter().filter(|served| {
            served.route == 1 && served.client == client && served.is_charged_in_store
        });
        let times = served.filter_map(|served| Some(served.store_time?.as_nanos()));
        let mut times: Vec<u64> = times.collect();
        times.sort_unstable();
        // A span of the period that begins with an admission has that one and all before its end.
        let in_period = |span: u64| {
            if span < 10_000_000_000 {
                0.0
            } else {
                f64::INFINITY
            }
        };
        let exact = most_in_a_span(&times, in_period);
        let each = WINDOW as f64 * 1e9 / f64::from(plan.count);
        let burst = most_in_a_span(&times, |span| (span as f64 + 2e6) / each);
        if exact > 5.0 || burst > f64::from(plan.count) {
            return Some(format!(
                "client {client}: {exact} of 5 in ten seconds, a burst of {burst}"
            ));
        }
    }
    None
}

/// Returns whether a store that lost its keys gets all counts back: gateways that are cut off meanwhile, that end, or that were not yet
/// known to the others, may restore too late, and a failover leaves no mark.
fn all_can_be_restored(plan: &Plan) -> bool {
    let span = |planned: &PlannedFault| [planned.begins, planned.ends + 12_000];
    let loses = |planned: &&PlannedFault| planned.fault.loses_keys();
    plan.faults.iter().filter(loses).all(|loss| {
        let [from, to] = span(loss);
        let mut others = plan.faults.iter().filter(|other| *other != loss);
        let is_alone = others.all(|other| {
            let [begins, ends] = span(other);
            let is_harmless = matches!(
                other.fault,
                Fault::WallStep { .. } | Fault::StoreStep { .. } | Fault::Reload { .. }
            );
            is_harmless || begins > to || ends < from
        });
        is_alone && loss.fault != Fault::Failover && !plan.loses_gateways()
    })
}

/// Returns whether the charge of a request may be in the store without an answer that says so.
fn is_uncertain(served: &Served) -> bool {
    served.failure == Some(StoreFailure::Unknown)
}

/// Returns the units of strict limits that were charged or queued under a name, whatever became of their gateway, and that the store lacks.
pub(crate) fn unrestored(evidence: &Evidence) -> u64 {
    let strict = evidence.served.iter().filter(|served| {
        let is_named = served.has_seed || served.is_charged_in_store;
        is_named && [0, 1, 4, 5].contains(&served.route)
    });
    let certain = strict.filter(|served| served.is_admitted && !is_uncertain(served));
    (certain.count() as u64).saturating_sub(evidence.strict_ledger)
}

fn conserved(plan: &Plan, evidence: &Evidence, routes: &[usize], counted: u64) -> Option<String> {
    let served = || {
        evidence
            .served
            .iter()
            .filter(|served| routes.contains(&served.route))
    };
    let certain = served().filter(|served| served.is_admitted && !is_uncertain(served));
    let all = certain.clone().count() as u64;
    let is_unsent = |served: &&Served| {
        let is_lost = !evidence.running.contains(&served.gateway) || !served.has_seed;
        is_lost && !served.is_charged_in_store
    };
    let unsent = certain.filter(is_unsent).count() as u64;
    let uncertain = served().filter(|served| is_uncertain(served)).count() as u64;
    let least = all - unsent;
    let most = all + uncertain + evidence.unanswered;
    let is_low = counted < least && all_can_be_restored(plan);
    let is_high = counted > most && !plan.loses_keys();
    (is_low || is_high).then(|| format!("{counted} in the store, {least} to {most} admitted"))
}

fn strict_charges_are_conserved(plan: &Plan, evidence: &Evidence) -> Option<String> {
    conserved(plan, evidence, &[0, 1, 4, 5], evidence.strict_ledger)
}

fn refunds_are_conserved(plan: &Plan, evidence: &Evidence) -> Option<String> {
    let served = || {
        evidence
            .served
            .iter()
            .filter(|served| served.route == 4 && served.is_admitted)
    };
    let kept = served().filter(|served| !served.is_refunded).count() as u64;
    let all = served().count() as u64;
    let counted = evidence.refunded;
    let is_low = counted < kept && plan.faults.is_empty();
    let is_high = counted > kept && plan.faults.is_empty()
        || counted > all + evidence.unanswered + uncertain_of(evidence, 4) && !plan.loses_keys();
    (is_low || is_high).then(|| format!("{counted} in the store, {kept} kept of {all}"))
}

fn uncertain_of(evidence: &Evidence, route: usize) -> u64 {
    let of_route = evidence
        .served
        .iter()
        .filter(|served| served.route == route);
    of_route.filter(|served| is_uncertain(served)).count() as u64
}

fn shared_charges_are_conserved(plan: &Plan, evidence: &Evidence) -> Option<String> {
    // A store that comes back empty refills no key of these limits.
    if plan.loses_keys() {
        return None;
    }
    let admitted = |served: &&Served| served.is_admitted && [2, 3, 5].contains(&served.route);
    let all = evidence.served.iter().filter(admitted).count() as u64;
    let of_ended = evidence.served.iter().filter(admitted);
    let is_lost =
        |served: &&Served| !evidence.running.contains(&served.gateway) || !served.has_seed;
    let least = all - of_ended.filter(is_lost).count() as u64;
    let most = all + evidence.unanswered;
    let counted = evidence.shared_ledger;
    (counted < least || counted > most)
        .then(|| format!("{counted} in the store, {least} to {most} admitted"))
}

fn closed_admits_by_the_store_alone(plan: &Plan, evidence: &Evidence) -> Option<String> {
    let mut served = evidence.served.iter();
    let found = served.find(|served| {
        let is_strict = [0, 1, 5].contains(&served.route);
        is_strict && served.is_admitted && !served.is_charged_in_store
    });
    found
        .filter(|_| plan.on_failure == OnFailure::Closed)
        .map(|served| format!("{served:?}"))
}

fn shared_windows_are_bounded(plan: &Plan, evidence: &Evidence) -> Option<String> {
    let own = |served: &Served| served.gateway_time;
    for ((client, window), served) in admitted_by_window(evidence, &[2, 5], own) {
        let mut by_gateway = BTreeMap::<u32, u32>::new();
        for served in &served {
            *by_gateway.entry(served.gateway).or_default() += 1;
        }
        if let Some((gateway, admitted)) = by_gateway.iter().find(|(_, units)| **units > plan.count)
        {
            return Some(format!(
                "gateway {gateway} admitted client {client} {admitted} times in window {window}, at most {}",
                plan.count
            ));
        }
    }
    None
}

fn shared_excess_is_bounded(plan: &Plan, evidence: &Evidence) -> Option<String> {
    if !plan.faults.is_empty() || plan.clocks_differ {
        return None;
    }
    // Timers have milliseconds, and the pause before a sync is at least ten of them.
    let exchange = plan.sync_interval + 4 * plan.latency[1] / 1_000 + 12;
    let own = |served: &Served| served.gateway_time;
    for ((client, window), served) in admitted_by_window(evidence, &[2, 5], own) {
        let excess = (served.len() as u64).saturating_sub(plan.count.into());
        let mut most = 0;
        for gateway in &evidence.running {
            let of_gateway = evidence.served.iter().filter(|other| {
                let is_shared = [2, 5].contains(&other.route);
                is_shared && other.client == client && other.gateway == *gateway
            });
            let times = of_gateway.map(|other| other.gateway_time.as_nanos() / 1_000_000);
            let mut times: Vec<u64> = times.collect();
            times.sort_unstable();
            let within = |from: &u64| {
                let times = times.iter().filter(|time| *time >= from);
                times.filter(|time| **time <= from + 2 * exchange).count() as u64
            };
            most += times.iter().map(within).max().unwrap_or(0);
        }
        if excess > most {
            return Some(format!(
                "client {client}: {excess} too many in window {window}, at most {most}"
            ));
        }
    }
    None
}

fn remaining_never_rises(plan: &Plan, evidence: &Evidence) -> Option<String> {
    if !plan.faults.is_empty() {
        return None;
    }
    let decided = evidence
        .served
        .iter()
        .filter(|served| served.route == 0 && served.is_charged_in_store);
    let mut decided: Vec<&Served> = decided.collect();
    decided.sort_by_key(|served| (served.client, served.store_time));
    decided.windows(2).find_map(|pair| {
        let [one, other] = pair else { return None };
        let is_same = one.client == other.client
            && window_of(one.store_time?) == window_of(other.store_time?)
            && one.store_time < other.store_time;
        (is_same && other.remaining > one.remaining).then(|| format!("{one:?} then {other:?}"))
    })
}

fn all_have_recovered(_: &Plan, evidence: &Evidence) -> Option<String> {
    let late = &evidence.late;
    (!late.is_empty()).then(|| format!("gateways {late:?} do not decide by the store"))
}

fn the_fleet_is_counted(plan: &Plan, evidence: &Evidence) -> Option<String> {
    let running = evidence.running.len() as u32;
    let ended_late = plan
        .faults
        .iter()
        .any(|planned| planned.ends + 1_000 > HEALED);
    let wrong = evidence.known.iter().find(|known| **known != running);
    wrong
        .filter(|_| !ended_late)
        .map(|known| format!("a gateway knows of {known}, {running} run"))
}

/// Checks that the whole limit is admitted again after it was idle, and no more; and that waits are true.
pub(crate) fn check_final(plan: &Plan, bursts: &[FinalBurst]) -> Vec<String> {
    let mut violations = Vec::new();
    for burst in bursts {
        let admitted = burst.served.iter().filter(|served| served.is_admitted);
        let admitted = admitted.count() as u32;
        let due = match burst.route {
            1 => plan.count.min(5),
            _ => plan.count,
        };
        if admitted != due {
            violations.push(format!(
                "no permit is lost after healing: route {} admitted {admitted} of {due}",
                burst.route
            ));
        }
        if let Some([before, after]) = &burst.retry
            && (before.is_admitted || !after.is_admitted)
        {
            violations.push(format!(
                "Retry-After is the time after which the request passes: {before:?}, {after:?}"
            ));
        }
    }
    violations
}
