//! Counts the requests of logs by the keys of all limits of a configuration, in one pass.
//!
//! A request counts under each limit of its route as the gateway would charge it if nothing were ever rejected: not where a list blocks or
//! exempts the client, not for a question whether there is room, and not where the response is none that the limit counts.

use std::collections::BTreeMap;

use http::{HeaderMap, StatusCode};
use serde::Serialize;
use sluicegate_access_log::{LogReader, LoggedRequest, LoggedTreatment, ReadOptions, TimeSpread};
use sluicegate_limiter::{Algorithm, KeyHash, Seed, Timestamp};

use super::key_maxima::{HitsAt, KeyMaxima};
use super::{NoSuggestion, SuggestError, SuggestLogs};
use sluicegate_decide::admission::{ActiveLimit, KeySeed, KnownBody, RequestFacts, limit_keys};

use crate::coverage::{LogCoverage, survey_for};
use crate::key_text::key_text;
use crate::logged_client::{early_end, locate_logged};
use crate::logged_head::LoggedHeads;
use crate::recorded_templates::RecordedTemplates;
use crate::run::selected_fields;
use crate::skipped_lines::SkippedLines;
use sluicegate_config::rules::{CostRules, CountedRequests, LimitRules, Name, Rules};
use sluicegate_decide::compiled_rules::CompiledRules;

/// Requests between two reports of progress.
const PROGRESS_STEP: u64 = 1 << 16;

/// Logs with the requests of each limit.
pub(super) struct LogSample {
    pub(super) log: SampledLog,
    pub(super) limits: BTreeMap<Name, SampledLimit>,
    pub(super) coverage: LogCoverage,
}

/// The logs as far as they were read.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SampledLog {
    /// Seconds from the first request to the last.
    pub seconds: u64,
    /// Lines that are not requests although they should be.
    pub broken: u64,
    /// Lines that are no requests and should be none, by kind.
    pub skipped: SkippedLines,
    /// Requests that are left out, since their time is far from that of the lines around them.
    pub misdated: u64,
}

/// The requests of one limit.
#[derive(Debug)]
pub(super) struct SampledLimit {
    pub(super) requests: u64,
    pub(super) maxima: KeyMaxima,
}

/// Counts the requests of `logs` for each limit of `rules`. `progress` is called now and then.
///
/// # Errors
/// A log cannot be opened, or has no request.
pub(super) fn sample(
    logs: &SuggestLogs,
    mut rules: Rules,
    mut progress: impl FnMut(u64, Option<(u64, u64)>),
) -> Result<LogSample, SuggestError> {
    let host = logs.host.as_deref();
    let options = ReadOptions {
        format: logs.format.clone(),
        spread: TimeSpread::AsLogged,
        fields: selected_fields([&rules]),
    };
    let mut reader = LogReader::open(&logs.paths, &options)?;
    survey_for(&rules, &mut reader, host)?;
    let has_host = reader.facts().has_host || host.is_some();
    let coverage = LogCoverage::new(&mut rules, reader.facts(), has_host);
    let mut counts = SampleEngine::new(rules, &reader, host);
    let mut read = 0_u64;
    let mut span: Option<(u64, u64)> = None;
    while let Some(request) = reader.next_request() {
        read += 1;
        span = Some((span.map_or(request.time, |(first, _)| first), request.time));
        let is_excluded = |network: &ipnet::IpNet| network.contains(&request.client);
        if !logs.exclude.iter().any(is_excluded) {
            counts.add(&request);
        }
        if read.is_multiple_of(PROGRESS_STEP) {
            progress(read, reader.progress());
        }
    }
    let (first, last) = span.ok_or_else(|| NoSuggestion("the log has no request".to_owned()))?;
    let stats = reader.stats();
    if let Some(misread) = stats.misread_logs.first() {
        return Err(NoSuggestion(misread.to_string()).into());
    }
    Ok(LogSample {
        log: SampledLog {
            seconds: (last - first) / 1_000_000_000 + 1,
            broken: stats.broken,
            skipped: SkippedLines(stats.skipped),
            misdated: stats.misdated,
        },
        limits: counts.limits,
        coverage,
    })
}

/// Returns why the requests of a limit are not what it counts; `None` where they are.
pub(super) fn uncounted_part(limit: &LimitRules) -> Option<&'static str> {
    if let CostRules::Measured(_) = limit.cost {
        return Some(
            "each request has a cost of its own; sluicegate suggest --gateway reads its counters",
        );
    }
    match limit.policy.algorithm() {
        Algorithm::Gcra { .. } | Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } => {
            Some(
                "it is a bucket, of which no count in a window says how much it must hold; sluicegate suggest --gateway reads its \
             counters",
            )
        }
        Algorithm::SlidingWindow | Algorithm::Exact | Algorithm::FixedWindow(_) => None,
    }
}

/// The stages of a configuration before its limits, and what reaches each of them.
struct SampleEngine {
    compiled: CompiledRules,
    heads: LoggedHeads,
    recorded: RecordedTemplates,
    seed: KeySeed,
    limits: BTreeMap<Name, SampledLimit>,
}

impl SampleEngine {
    fn new(rules: Rules, reader: &LogReader, host: Option<&str>) -> Self {
        let seed = KeySeed::from_seed(Seed::from_bytes(*b"sluicegatereplay"));
        let start = Timestamp::from_nanos(reader.facts().first_time.unwrap_or(0));
        let compiled = CompiledRules::alone(rules, &seed, start);
        let names: Vec<Name> = (compiled.rules.limits.iter())
            .filter(|(_, limit)| uncounted_part(limit).is_none())
            .map(|(name, _)| name.clone())
            .collect();
        let each = names.len();
        let sample = |name| {
            let maxima = KeyMaxima::of_one_in(each);
            let sample = SampledLimit {
                requests: 0,
                maxima,
            };
            (name, sample)
        };
        Self {
            heads: LoggedHeads::new(&compiled, reader.facts(), host),
            recorded: RecordedTemplates::new(&compiled.rules, reader.facts()),
            seed,
            limits: names.into_iter().map(sample).collect(),
            compiled,
        }
    }

    /// Counts a request under each limit of its route.
    fn add(&mut self, request: &LoggedRequest<'_>) {
        if request.treatment == LoggedTreatment::Malformed || request.hits == Some(0) {
            return;
        }
        let Some(logged) = self.heads.head(&self.compiled, request) else {
            return;
        };
        let head = logged.as_request();
        let Ok(located) = locate_logged(&self.compiled, request, &logged, &head) else {
            return;
        };
        if early_end(&located, request).is_some() {
            return;
        }
        let recorded = self.recorded.keys(request);
        let facts = RequestFacts {
            recorded: &recorded,
            ..located.facts(KnownBody::Unread, Timestamp::from_nanos(request.time))
        };
        let limits = located.limits();
        for (limit, key) in limits.iter().zip(limit_keys(limits, &facts, &self.seed)) {
            if let Some(key) = key
                && let Some(sample) = self.limits.get_mut(&limit.name)
                && let Some(rules) = self.compiled.rules.limits.get(&limit.name)
                && is_counted(rules, request)
            {
                sample.add(request, (limit, &facts), key);
            }
        }
    }
}

impl SampledLimit {
    fn add(
        &mut self,
        request: &LoggedRequest<'_>,
        (limit, facts): (&std::sync::Arc<ActiveLimit>, &RequestFacts<'_>),
        key: KeyHash,
    ) {
        let hits = HitsAt {
            second: request.time / 1_000_000_000,
            hits: (request.hits.unwrap_or(1)).saturating_mul(limit.cost.get()),
        };
        let is_counted = self.maxima.add(key.bits(), hits, || key_text(limit, facts));
        self.requests += u64::from(is_counted);
    }
}

/// Returns whether the charge of a request stands once its response is known.
fn is_counted(limit: &LimitRules, request: &LoggedRequest<'_>) -> bool {
    let is_origins =
        limit.count == CountedRequests::All || request.treatment != LoggedTreatment::Cached;
    let holds = limit.count_if.as_ref().is_none_or(|condition| {
        let status = StatusCode::from_u16(request.status);
        // Without a response the charge is kept.
        status.map_or(true, |status| condition.holds(status, &HeaderMap::new()))
    });
    is_origins && holds
}
