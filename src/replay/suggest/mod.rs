//! Suggests the numbers of a limit from a log: how much each key asked for at most, and where the gap above ordinary keys is.
//!
//! For each period every key has a *maximum*: the most requests in any window of that length. A rate above nearly all maxima hits nobody
//! who behaves as the log has it; the suggestion lies in the widest gap above 1.2 times the 99.9th percentile, where a little more or less
//! changes nothing. Keys and routes are those of the gateway: requests run through the stages of a configuration that is made for it.

mod key_maxima;
mod limit_suggestion;
mod numbers;
mod report;
mod text;

use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use sluicegate_access_log::{
    LogFormat, LogReader, LoggedRequest, LoggedTreatment, OpenError, ReadOptions, TimeSpread,
};
use sluicegate_limiter::{KeyHash, Seed, Timestamp};

use super::coverage::{LogCoverage, survey_for};
use super::key_text::key_text;
use super::logged_client::locate_logged;
use super::logged_head::LoggedHeads;
use super::recorded_templates::RecordedTemplates;
use super::run::selected_fields;
use crate::admission::{KeySeed, KnownBody, RequestFacts, limit_keys};
use crate::config;
use crate::config::rules::Rules;
use crate::record::RequestMetrics;
use crate::snapshot::Snapshot;
use crate::state::CounterStorage;
use key_maxima::{HitsAt, KeyMaxima};
pub use limit_suggestion::{LimitSuggestion, UsedPeriod};
pub use report::{PeriodSuggestion, SampleConfidence, SuggestReport};

/// The question to a log.
#[derive(Clone, Debug)]
pub struct SuggestQuestion {
    /// The path of the route, as in a configuration.
    pub path: String,
    /// The key, as in a configuration.
    pub key: String,
    /// The networks of clients that are left out.
    pub exclude: Vec<IpNet>,
    /// The host of requests whose line has none.
    pub host: Option<String>,
}

/// The reason why there is no suggestion, and what to write instead.
#[derive(Debug, PartialEq, Eq)]
pub struct NoSuggestion(pub String);

/// The reason why logs give no suggestion.
#[derive(Debug)]
pub enum SuggestError {
    /// A log cannot be opened.
    Log(OpenError),
    /// The question cannot be put to these logs.
    Question(NoSuggestion),
}

impl From<OpenError> for SuggestError {
    fn from(error: OpenError) -> Self {
        Self::Log(error)
    }
}

impl From<NoSuggestion> for SuggestError {
    fn from(reason: NoSuggestion) -> Self {
        Self::Question(reason)
    }
}

impl SuggestQuestion {
    /// Returns a configuration whose only limit has these rates and this action.
    #[must_use]
    pub fn config(&self, rates: &[String], action: &str) -> String {
        let rates: Vec<String> = rates.iter().map(|rate| quoted(rate)).collect();
        let parts = self.parts();
        let can_be_absent = parts
            .iter()
            .any(|part| config::key_part_can_be_absent(part));
        let missing = match can_be_absent {
            true => "on_missing = \"ip\"\n",
            false => "",
        };
        format!(
            "[limit.suggested]\nkey = {}\n{missing}rates = [{}]\naction = \"{action}\"\n\n[[route]]\npath = {}\nlimits = [\"suggested\"]\n",
            written_parts(parts.into_iter()),
            rates.join(", "),
            quoted(&self.path)
        )
    }

    /// Returns the rules of that configuration, with what a gateway needs beside.
    ///
    /// # Errors
    /// The path or the key is none that a configuration may have.
    pub fn rules(&self, rates: &[String], action: &str) -> Result<Rules, NoSuggestion> {
        let listener = "[[listener]]\naddress = \"127.0.0.1:1\"\n";
        let respond = "respond = { status = 200 }\n";
        let limited = self.config(rates, action);
        // The rest goes to a route of its own, so that it is counted apart.
        let others = match self.path.as_str() {
            "/*" => String::new(),
            _ => format!("[[route]]\nname = \"other-requests\"\npath = \"/*\"\n{respond}"),
        };
        let text = format!("{listener}{limited}{respond}{others}");
        let loaded = config::parse("the suggestion", &text, config::no_review);
        loaded
            .map(|loaded| loaded.rules)
            .map_err(|problems| NoSuggestion(problems.to_string()))
    }

    /// Returns the parts of the key; the comma in `client.ip/24,/64` separates none.
    fn parts(&self) -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        for part in self.key.split(',').map(str::trim) {
            match parts.last_mut() {
                Some(before) if part.starts_with('/') => *before += &format!(",{part}"),
                _ => parts.push(part.to_owned()),
            }
        }
        parts
    }

    fn excludes(&self, client: IpAddr) -> bool {
        self.exclude.iter().any(|network| network.contains(&client))
    }
}

/// Returns a string of TOML.
fn quoted(text: &str) -> String {
    // Strings of JSON are strings of TOML.
    serde_json::Value::from(text).to_string()
}

/// Returns the parts of a key as TOML.
fn written_parts(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.map(|part| quoted(&part)).collect();
    match parts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// Counts the maxima of all keys in `logs`; `format` is that of all logs, `None` to detect that of each. `progress` is called now and then.
///
/// # Errors
/// A log cannot be opened, or the question cannot be put to it.
pub fn suggest(
    logs: &[PathBuf],
    format: Option<LogFormat>,
    question: &SuggestQuestion,
    mut progress: impl FnMut(u64, Option<(u64, u64)>),
) -> Result<SuggestReport, SuggestError> {
    let mut rules = question.rules(&["10 per 10s".to_owned()], "reject")?;
    let options = ReadOptions {
        format,
        spread: TimeSpread::AsLogged,
        fields: selected_fields([&rules]),
    };
    let mut reader = LogReader::open(logs, &options)?;
    survey_for(&rules, &mut reader, question.host.as_deref())?;
    let has_host = reader.facts().has_host || question.host.is_some();
    let coverage = LogCoverage::of(&mut rules, reader.facts(), has_host);
    if let Some(limit) = coverage.not_judged.first() {
        return Err(SuggestError::Question(NoSuggestion(format!(
            "the log cannot judge the key {}: {}",
            question.key, limit.reason
        ))));
    }
    let seed = KeySeed::from_seed(Seed::from_bytes(*b"sluicegatereplay"));
    let start = Timestamp::from_nanos(reader.facts().first_time.unwrap_or(0));
    let storage = &CounterStorage::MEMORY;
    let snapshot = Snapshot::compile(rules, None, storage, &RequestMetrics::new(), &seed, start);
    let heads = LoggedHeads::new(&snapshot, reader.facts(), question.host.as_deref());
    let recorded = RecordedTemplates::new(&snapshot.rules, reader.facts());
    let mut maxima = KeyMaxima::new();
    let mut span: Option<(u64, u64)> = None;
    let (mut requests, mut other) = (0_u64, 0_u64);
    while let Some(request) = reader.next_request() {
        requests += 1;
        span = Some((span.map_or(request.time, |(first, _)| first), request.time));
        if question.excludes(request.client)
            || !add(&snapshot, &heads, &recorded, &seed, &request, &mut maxima)
        {
            other += 1;
        }
        if requests.is_multiple_of(1 << 16) {
            progress(requests, reader.progress());
        }
    }
    let (first, last) = span.ok_or_else(|| NoSuggestion("the log has no request".to_owned()))?;
    if maxima.is_empty() {
        return Err(SuggestError::Question(NoSuggestion(format!(
            "no request of the log has the path {}",
            question.path
        ))));
    }
    let seconds = (last - first) / 1_000_000_000 + 1;
    Ok(SuggestReport::of(
        question,
        &maxima,
        requests - other,
        seconds,
        &reader.stats(),
    ))
}

/// Adds a request to the maxima of its key. Returns false where the limit does not count it.
fn add(
    snapshot: &Snapshot,
    heads: &LoggedHeads,
    recorded: &RecordedTemplates,
    seed: &KeySeed,
    request: &LoggedRequest<'_>,
    maxima: &mut KeyMaxima,
) -> bool {
    if request.treatment == LoggedTreatment::Malformed {
        return false;
    }
    let Some(logged) = heads.head(snapshot, request) else {
        return false;
    };
    let head = logged.as_request();
    let Ok(located) = locate_logged(snapshot, request, &logged, &head) else {
        return false;
    };
    let keys = recorded.keys(request);
    let facts = RequestFacts {
        recorded: &keys,
        ..located.facts(KnownBody::Unread, Timestamp::from_nanos(request.time))
    };
    let limits = &located.route.limits;
    let (Some(limit), Some(Some(key))) = (limits.first(), limit_keys(limits, &facts, seed).next())
    else {
        return false;
    };
    let hits = HitsAt {
        second: request.time / 1_000_000_000,
        hits: request.hits.unwrap_or(1),
    };
    if hits.hits == 0 {
        return false;
    }
    maxima.add(KeyHash::bits(key), hits, || key_text(limit, &facts))
}
