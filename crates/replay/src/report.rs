//! Owns the result of a replay, for programs; [`text`](super::text) writes it for people.

use std::collections::BTreeMap;

use serde::Serialize;
use sluicegate_access_log::{BrokenLine, LogFacts, MAX_FIELDS, ReadStats, TimeSpread};
use sluicegate_decide::rfc3339;
use sluicegate_limiter::{Policy, Timestamp};

use super::compare::ConfigComparison;
use super::coverage::UnjudgedLimit;
use super::engine::{OutcomeCounts, ReplayEngine};
use super::key_counts::{KeyCount, MAX_KEYS};
use super::limit_counts::LimitTally;
use super::route_tallies::RouteTally;
use super::skipped_lines::SkippedLines;
use super::timeline::EventTimeline;
use sluicegate_config::algorithm_name;
use sluicegate_config::rules::LimitRules;
use sluicegate_explain::{count, counted, counted_with, span};

/// Keys that a report lists of each kind.
const LISTED_KEYS: usize = 10;
/// Most rejections of a key that is listed as a possible false positive.
const FEW_REJECTIONS: u32 = 2;

/// The result of a replay.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    /// The log.
    pub log: LogSummary,
    /// The requests.
    #[serde(flatten)]
    pub outcomes: OutcomeSummary,
    /// Each limit that was judged, by name.
    pub limits: BTreeMap<String, LimitReport>,
    /// Each route, in the order of the file.
    pub routes: Vec<RouteReport>,
    /// The limits that the log cannot judge.
    pub not_judged: Vec<UnjudgedLimit>,
    /// Differences between replay and a gateway.
    pub notes: Vec<String>,
    /// The differences from an older configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<ConfigComparison>,
}

/// The log that was replayed.
#[derive(Clone, Debug, Serialize)]
pub struct LogSummary {
    /// The names of the formats.
    pub formats: Vec<&'static str>,
    /// The layers of what log drivers and collectors have put around lines.
    pub envelopes: Vec<&'static str>,
    /// Lines, of whatever kind.
    pub lines: u64,
    /// Lines that are not requests although they should be.
    pub broken: u64,
    /// The first of them, each with its place and the reason.
    pub broken_lines: Vec<String>,
    /// Lines that are no requests and should be none, by kind.
    pub skipped: SkippedLines,
    /// Requests that are left out, since their time is far from that of the lines around them.
    pub misdated: u64,
    /// The first of them, each with its place.
    pub misdated_lines: Vec<String>,
    /// Requests that were sorted before a later one.
    pub sorted: u64,
    /// Requests that were too late to be sorted, and count at the time that was reached.
    pub late: u64,
    /// Requests whose line has more values than are kept, so that one which decides may be missing.
    pub cut_fields: u64,
    /// Requests that the log says it has left out.
    pub left_out: u64,
    /// NULs between lines, as `copytruncate` leaves them.
    pub nul_bytes: u64,
    /// Logs whose format was detected wrongly, with the reason.
    pub misread: Vec<String>,
    /// Logs that broke off, with the reason.
    pub cut: Vec<String>,
    /// The time of the first request.
    pub first: Option<String>,
    /// The time of the last request.
    pub last: Option<String>,
    /// Seconds between both.
    pub seconds: f64,
    /// The times at which requests count: `as-logged`, or `over-second` with `--spread`.
    pub times: &'static str,
}

/// The results of all requests.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OutcomeSummary {
    /// All requests.
    pub requests: u64,
    /// Those that the limits admit.
    pub admitted: u64,
    /// Those that a limit or a ban rejects.
    pub rejected: u64,
    /// Those that a list or a tier blocks.
    pub blocked: u64,
    /// Those that no route takes.
    pub no_route: u64,
    /// Those that are malformed, or lack a part of a key without which they are rejected.
    pub malformed: u64,
    /// Those that were rejected before any limit when they were logged, and are not replayed.
    pub not_replayed: u64,
    /// Those that a limit had rejected when they were logged.
    pub rejected_when_logged: u64,
}

/// The result of one route.
#[derive(Clone, Debug, Serialize)]
pub struct RouteReport {
    /// Its name.
    pub route: String,
    /// Requests.
    pub requests: u64,
    /// Those of them that were rejected.
    pub rejected: u64,
}

/// The result of one limit.
#[derive(Clone, Debug, Serialize)]
pub struct LimitReport {
    /// Its rates: `10 in 10s`.
    pub rates: Vec<String>,
    /// Its algorithm.
    pub algorithm: &'static str,
    /// Its key.
    pub key: String,
    /// Its action.
    pub action: &'static str,
    /// Requests that it decided.
    pub requests: u64,
    /// Requests that it has room for.
    pub admitted: u64,
    /// Requests that it has no room for: rejected, marked, or rejected were it enforced.
    pub rejected: u64,
    /// Those of them that a ban rejects.
    pub banned: u64,
    /// Those of them that exceed its concurrency.
    pub over_concurrency: u64,
    /// Those of them that a tier blocks, or that lack a part of the key.
    pub blocked: u64,
    /// Requests that its tiers exempt.
    pub exempt: u64,
    /// Requests that its rates in shadow would have rejected.
    pub shadow_rates_rejected: u64,
    /// Charges that the response refunded.
    pub refunded: u64,
    /// Requests that it delays.
    pub delayed: u64,
    /// The longest delay, in milliseconds.
    pub longest_delay_ms: u64,
    /// Keys.
    pub keys: u64,
    /// Keys of which some request was rejected.
    pub keys_rejected: u64,
    /// Requests of further keys, which have no count of their own.
    pub requests_of_uncounted_keys: u64,
    /// Rejected requests that were answered with 2xx when they were logged.
    pub rejected_answered: u64,
    /// The time of the first rejection.
    pub first_rejection: Option<String>,
    /// The keys with the most rejections.
    pub worst_keys: Vec<KeyReport>,
    /// Keys that were rejected although they may be no attackers.
    pub suspects: SuspectKeys,
    /// Requests and rejections over time.
    pub timeline: EventTimeline,
}

/// Candidates for false positives.
#[derive(Clone, Debug, Serialize)]
pub struct SuspectKeys {
    /// Keys that were rejected once or twice.
    pub rejected_rarely: u64,
    /// Keys of which a rejected request was answered with 2xx when it was logged.
    pub rejected_answered: u64,
    /// Some of those that were rejected rarely, with the most requests first.
    pub keys: Vec<KeyReport>,
}

/// The result of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyReport {
    /// Its values; its hash where the log does not have them.
    pub key: String,
    /// Requests.
    pub requests: u32,
    /// Those of them that were rejected.
    pub rejected: u32,
    /// Rejected requests that were answered with 2xx when they were logged.
    pub rejected_answered: u32,
}

/// The times of the first and the last request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplayedSpan {
    pub(super) ends: Option<(Timestamp, Timestamp)>,
}

impl ReplayReport {
    /// Returns the report of what `engine` has counted.
    pub(super) fn new(engine: &ReplayEngine, log: LogSummary) -> Self {
        let rules = engine.rules();
        let is_judged = |name: &str| {
            let mut unjudged = engine.coverage.not_judged.iter();
            !unjudged.any(|limit| limit.limit == name)
        };
        let limits = engine.limits().iter().filter(|(name, _)| is_judged(name));
        let limits = limits.filter_map(|(name, counts)| {
            let report = LimitReport::new(rules.limits.get(name)?, counts);
            Some((name.to_string(), report))
        });
        let mut notes = engine.coverage.notes.clone();
        notes.extend(notes_of(&engine.counts, &log));
        if engine.settled_early() > 0 {
            notes.push(format!(
                "{} early: more were in flight at the same time than replay holds",
                counted_with(engine.settled_early(), "request", ["ends", "end"])
            ));
        }
        Self {
            outcomes: OutcomeSummary::new(&engine.counts),
            limits: limits.collect(),
            routes: engine.routes().iter().map(RouteReport::new).collect(),
            not_judged: engine.coverage.not_judged.clone(),
            notes,
            against: None,
            log,
        }
    }
}

fn notes_of(counts: &OutcomeCounts, log: &LogSummary) -> Vec<String> {
    let mut notes = Vec::new();
    if counts.hidden_clients > 0 {
        notes.push(format!(
            "{} from addresses in client.trusted_proxies, and the log does not say for whom: the proxy's address counts",
            counted_with(counts.hidden_clients, "request", ["comes", "come"])
        ));
    }
    if log.cut_fields > 0 {
        notes.push(format!(
            "{} more than {MAX_FIELDS} values in the line; a key, a cost or a field may be missing",
            counted_with(log.cut_fields, "request", ["has", "have"])
        ));
    }
    if log.left_out > 0 {
        notes.push(format!(
            "the log has left out {} of rejected requests ([log] refused), not replayed here",
            counted(log.left_out, "line")
        ));
    }
    if counts.limited_when_logged > 0 {
        notes.push(format!(
            "{} been rejected by a limit when logged; an origin's answer is not known",
            counted_with(counts.limited_when_logged, "request", ["had", "had"])
        ));
    }
    notes
}

impl LogSummary {
    /// Returns the summary of what was read.
    pub(super) fn new(
        facts: &LogFacts,
        stats: &ReadStats,
        span: ReplayedSpan,
        spread: TimeSpread,
    ) -> Self {
        let text = |line: &BrokenLine| {
            format!(
                "{}:{}: {}: {}",
                line.log, line.number, line.error, line.text
            )
        };
        let between = span
            .ends
            .map_or(0, |(first, last)| last.saturating_since(first).as_millis());
        Self {
            formats: facts.formats.iter().copied().collect(),
            envelopes: facts.envelopes.iter().copied().collect(),
            lines: stats.lines,
            broken: stats.broken,
            broken_lines: stats.broken_lines.iter().map(text).collect(),
            skipped: SkippedLines(stats.skipped),
            misdated: stats.misdated,
            misdated_lines: stats.misdated_lines.iter().map(text).collect(),
            sorted: stats.order.sorted,
            late: stats.order.late,
            cut_fields: stats.cut_fields,
            left_out: stats.left_out,
            nul_bytes: stats.nul_bytes,
            misread: stats.misread_logs.iter().map(ToString::to_string).collect(),
            cut: stats.cut_logs.clone(),
            first: span.ends.map(|(first, _)| rfc3339::format(first)),
            last: span.ends.map(|(_, last)| rfc3339::format(last)),
            seconds: between as f64 / 1_000.0,
            times: match spread {
                TimeSpread::AsLogged => "as-logged",
                TimeSpread::OverSecond => "over-second",
            },
        }
    }
}

impl OutcomeSummary {
    fn new(counts: &OutcomeCounts) -> Self {
        Self {
            requests: counts.requests,
            admitted: counts.admitted,
            rejected: counts.limited,
            blocked: counts.blocked,
            no_route: counts.no_route,
            malformed: counts.malformed,
            not_replayed: counts.not_replayed,
            rejected_when_logged: counts.limited_when_logged,
        }
    }
}

impl RouteReport {
    fn new(counts: &RouteTally) -> Self {
        Self {
            route: counts.name.clone(),
            requests: counts.requests,
            rejected: counts.limited,
        }
    }
}

impl LimitReport {
    fn new(rules: &LimitRules, counts: &LimitTally) -> Self {
        let keys = &counts.keys;
        let mut rejected: Vec<(u64, KeyCount)> = keys.rejected().collect();
        // Equal counts are ordered by key, so that a report is the same each time.
        rejected.sort_unstable_by_key(|(key, count)| {
            (u32::MAX - count.rejected, u32::MAX - count.requests, *key)
        });
        let report = |(key, count): &(u64, KeyCount)| KeyReport {
            key: keys.shown(*key),
            requests: count.requests,
            rejected: count.rejected,
            rejected_answered: count.answered,
        };
        let worst_keys = rejected.iter().take(LISTED_KEYS).map(report).collect();
        let answered = rejected
            .iter()
            .filter(|(_, count)| count.answered > 0)
            .count();
        let mut rarely = rejected.clone();
        rarely.retain(|(_, count)| count.rejected <= FEW_REJECTIONS);
        rarely.sort_by_key(|(key, count)| (u32::MAX - count.requests, *key));
        Self {
            rates: rates(&rules.policy),
            algorithm: algorithm_name(rules.policy.algorithm()),
            key: rules.key.to_string(),
            action: rules.action.name(),
            requests: counts.requests,
            admitted: counts.requests - counts.rejected,
            rejected: counts.rejected,
            banned: counts.banned,
            over_concurrency: counts.over_concurrency,
            blocked: counts.blocked,
            exempt: counts.exempt,
            shadow_rates_rejected: counts.shadow_rates_rejected,
            refunded: counts.refunded,
            delayed: counts.delayed,
            longest_delay_ms: counts.longest_delay / 1_000_000,
            keys: keys.len() as u64,
            keys_rejected: rejected.len() as u64,
            requests_of_uncounted_keys: keys.uncounted,
            rejected_answered: counts.answered,
            first_rejection: counts.first_rejection.map(rfc3339::format),
            worst_keys,
            suspects: SuspectKeys {
                rejected_rarely: rarely.len() as u64,
                rejected_answered: answered as u64,
                keys: rarely.iter().take(LISTED_KEYS).map(report).collect(),
            },
            timeline: counts.timeline.clone(),
        }
    }

    /// Returns whether some keys have no count of their own.
    pub(super) fn keys_text(&self) -> String {
        match self.requests_of_uncounted_keys {
            0 => String::new(),
            requests => format!(
                "; {} of keys beyond the first {} not counted by key",
                counted(requests, "request"),
                count(MAX_KEYS as u64)
            ),
        }
    }
}

/// Returns `5 in 10s`, for each rate.
pub(super) fn rates(policy: &Policy) -> Vec<String> {
    let rates = policy.rates().iter();
    rates
        .map(|rate| {
            format!(
                "{} in {}",
                rate.count(),
                span(rate.period().as_secs().into())
            )
        })
        .collect()
}
