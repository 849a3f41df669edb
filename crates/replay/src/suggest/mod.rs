//! Suggests the numbers of a limit from a log: how much each key asked for at most, and where the gap above ordinary keys is.
//!
//! For each period every key has a *maximum*: the most requests in any window of that length. A rate above nearly all maxima hits nobody
//! who behaves as the log has it; the suggestion lies in the widest gap above 1.2 times the 99.9th percentile, where a little more or less
//! changes nothing. Keys and routes are those of the gateway: requests run through the stages of a configuration that is made for it.

mod config_suggestion;
mod config_text;
mod key_maxima;
mod limit_suggestion;
mod numbers;
mod report;
mod sample;
mod text;

use std::path::PathBuf;

use ipnet::IpNet;
use sluicegate_access_log::{LogFormat, OpenError};

pub use config_suggestion::{ConfigSuggestion, SuggestedLimit, suggest_config};
pub use limit_suggestion::{LimitSuggestion, UsedPeriod};
pub use report::{PeriodSuggestion, SampleConfidence, SuggestReport};
use sample::{LogSample, sample};
use sluicegate_config::rules::Rules;

/// The question to a log: which numbers a limit should have.
#[derive(Clone, Debug)]
pub struct SuggestQuestion {
    /// The path of the route, as in a configuration.
    pub path: String,
    /// The key, as in a configuration.
    pub key: String,
}

/// The logs that are asked.
#[derive(Clone, Debug)]
pub struct SuggestLogs {
    /// The files; `-` is the standard input.
    pub paths: Vec<PathBuf>,
    /// The format of all logs; `None` to detect that of each.
    pub format: Option<LogFormat>,
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
            .any(|part| sluicegate_config::key_part_can_be_absent(part));
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
        let loaded =
            sluicegate_config::parse("the suggestion", &text, sluicegate_config::no_review);
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

/// Counts the maxima of all keys in `logs`, and suggests numbers for them. `progress` is called now and then.
///
/// # Errors
/// A log cannot be opened, or the question cannot be put to it.
pub fn suggest(
    logs: &SuggestLogs,
    question: &SuggestQuestion,
    progress: impl FnMut(u64, Option<(u64, u64)>),
) -> Result<SuggestReport, SuggestError> {
    let rules = question.rules(&["10 per 10s".to_owned()], "reject")?;
    let LogSample {
        log,
        limits,
        coverage,
    } = sample(logs, rules, progress)?;
    if let Some(limit) = coverage.not_judged.first() {
        let reason = format!(
            "the log cannot judge the key {}: {}",
            question.key, limit.reason
        );
        return Err(NoSuggestion(reason).into());
    }
    let counted = limits
        .into_iter()
        .find(|(_, limit)| !limit.maxima.is_empty());
    let Some((_, limit)) = counted else {
        let reason = format!("no request of the log has the path {}", question.path);
        return Err(NoSuggestion(reason).into());
    };
    Ok(SuggestReport::new(question, log, &limit))
}
