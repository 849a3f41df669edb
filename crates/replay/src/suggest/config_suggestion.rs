//! Suggests numbers for all limits of a configuration, from one pass over the logs.
//!
//! Keys are those of the configuration, so they may be of whatever it can name: places and networks out of its databases, crawlers,
//! parts of paths, hashes of keys in our own log. A limit of several routes counts their requests together, as it does in the gateway.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use sluicegate_limiter::{Period, Policy, Rate, Rates};

use super::report::SuggestedNumbers;
use super::sample::{LogSample, SampledLimit, SampledLog, sample, uncounted_part};
use super::{NoSuggestion, SuggestError, SuggestLogs, quoted};
use crate::coverage::UnjudgedLimit;
use crate::report::{ReplayReport, rates};
use sluicegate_config::rules::{LimitRules, Name, Rules};
use sluicegate_config::{Action, algorithm_name};

/// The suggestions for all limits of a configuration.
#[derive(Clone, Debug, Serialize)]
pub struct ConfigSuggestion {
    /// The file.
    pub config: String,
    /// The logs.
    #[serde(flatten)]
    pub log: SampledLog,
    /// Each limit with requests in the logs.
    pub limits: BTreeMap<String, SuggestedLimit>,
    /// The limits that have no suggestion, with the reason.
    pub not_suggested: Vec<UnjudgedLimit>,
    /// Routes without a limit.
    pub routes_without_limits: Vec<String>,
    /// Differences between the logs and a gateway.
    pub notes: Vec<String>,
    #[serde(skip)]
    policies: BTreeMap<Name, Policy>,
}

/// The suggestion for one limit.
#[derive(Clone, Debug, Serialize)]
pub struct SuggestedLimit {
    /// The key.
    pub key: String,
    /// The action now.
    pub action: &'static str,
    /// The algorithm.
    pub algorithm: &'static str,
    /// The rates now: `10 in 10s`.
    pub rates_now: Vec<String>,
    /// The routes that have it.
    pub routes: Vec<String>,
    /// Requests that it counts.
    pub requests: u64,
    /// Keys.
    pub keys: u64,
    /// Requests of keys that are not counted, since there are too many.
    pub requests_of_uncounted_keys: u64,
    /// The numbers.
    #[serde(flatten)]
    pub numbers: SuggestedNumbers,
    /// The lines to paste.
    pub config: String,
    /// The result of these numbers, were they enforced; `None` where the logs cannot be read twice.
    pub replayed: Option<ReplayedLimit>,
}

/// The decisions of one limit under the suggested numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ReplayedLimit {
    /// Requests.
    pub requests: u64,
    /// Those of them that it has no room for.
    pub rejected: u64,
    /// Keys.
    pub keys: u64,
    /// Keys of which some request was rejected.
    pub keys_rejected: u64,
}

/// Counts the maxima of the keys of all limits of `rules`, those of the file `config`, and suggests numbers for each. `progress` is called
/// now and then.
///
/// # Errors
/// A log cannot be opened, or no limit has a suggestion.
pub fn suggest_config(
    logs: &SuggestLogs,
    (rules, config): (&Rules, String),
    progress: impl FnMut(u64, Option<(u64, u64)>),
) -> Result<ConfigSuggestion, SuggestError> {
    let found = sample(logs, rules.clone(), progress)?;
    let mut suggestion = ConfigSuggestion::new(config, rules, &found);
    if suggestion.limits.is_empty() {
        let reasons = suggestion.not_suggested.iter();
        let reasons: Vec<String> = reasons
            .map(|limit| format!("limit {}: {}", limit.limit, limit.reason))
            .collect();
        let reason = match reasons.is_empty() {
            true => format!(
                "{} has no limit; sluicegate suggest --route PATH --key KEY suggests one",
                suggestion.config
            ),
            false => format!(
                "no limit of {} has a suggestion:\n  {}",
                suggestion.config,
                reasons.join("\n  ")
            ),
        };
        return Err(NoSuggestion(reason).into());
    }
    suggestion
        .not_suggested
        .sort_by(|one, other| one.limit.cmp(&other.limit));
    Ok(suggestion)
}

impl ConfigSuggestion {
    fn new(config: String, rules: &Rules, found: &LogSample) -> Self {
        let mut suggestion = Self {
            config,
            log: found.log,
            limits: BTreeMap::new(),
            not_suggested: found.coverage.not_judged.clone(),
            routes_without_limits: (rules.routes.iter())
                .filter(|route| route.limits.is_empty())
                .map(|route| route.name.to_string())
                .collect(),
            notes: found.coverage.notes.clone(),
            policies: BTreeMap::new(),
        };
        for (name, limit) in &rules.limits {
            let is_known = |other: &UnjudgedLimit| *other.limit == **name;
            if suggestion.not_suggested.iter().any(is_known) {
                continue;
            }
            let numbers = found.limits.get(name).map(|sample| {
                let numbers = SuggestedNumbers::new(&sample.maxima, found.log.seconds);
                (sample, numbers)
            });
            match numbers.filter(|(sample, _)| !sample.maxima.is_empty()) {
                Some((sample, numbers)) => suggestion.add(name, (limit, rules), sample, numbers),
                None => suggestion.leave_out(
                    name,
                    uncounted_part(limit).unwrap_or("no request of the log counts under it"),
                ),
            }
        }
        suggestion
    }

    fn add(
        &mut self,
        name: &Name,
        (limit, rules): (&LimitRules, &Rules),
        sample: &SampledLimit,
        numbers: SuggestedNumbers,
    ) {
        let policy = match policy(limit, &numbers) {
            Ok(policy) => policy,
            Err(reason) => return self.leave_out(name, &reason),
        };
        self.policies.insert(name.clone(), policy);
        let routes = rules.routes.iter();
        let routes = routes.filter(|route| route.limits.contains(name));
        let suggested = SuggestedLimit {
            key: limit.key.to_string(),
            action: limit.action.name(),
            algorithm: algorithm_name(limit.policy.algorithm()),
            rates_now: rates(&limit.policy),
            routes: routes.map(|route| route.name.to_string()).collect(),
            requests: sample.requests,
            keys: sample.maxima.len() as u64,
            requests_of_uncounted_keys: sample.maxima.left_out,
            config: config_lines(name, limit, &numbers.rates),
            numbers,
            replayed: None,
        };
        self.limits.insert(name.to_string(), suggested);
    }

    fn leave_out(&mut self, name: &Name, reason: &str) {
        self.not_suggested.push(UnjudgedLimit {
            limit: name.to_string(),
            reason: reason.to_owned(),
        });
    }

    /// Returns `rules` with the suggested numbers in the place of those that they have.
    #[must_use]
    pub fn enforced(&self, mut rules: Rules) -> Rules {
        for (name, policy) in &self.policies {
            if let Some(limit) = rules.limits.get_mut(name) {
                limit.policy = policy.clone();
                limit.shadow_rates = None;
            }
        }
        rules
    }

    /// Takes over the decisions of a replay of the logs under [`Self::enforced`] rules.
    pub fn add_replay(&mut self, report: &ReplayReport) {
        for (name, limit) in &mut self.limits {
            limit.replayed = report.limits.get(name).map(|report| ReplayedLimit {
                requests: report.requests,
                rejected: report.rejected,
                keys: report.keys,
                keys_rejected: report.keys_rejected,
            });
        }
    }
}

/// Returns the policy of a limit with other rates.
///
/// # Errors
/// The reason why the limit cannot have them.
fn policy(limit: &LimitRules, numbers: &SuggestedNumbers) -> Result<Policy, String> {
    let fails = |error: &dyn fmt::Display| {
        format!("{} cannot be its rates: {error}", numbers.rates.join(", "))
    };
    let rates = numbers.counts.iter().map(|(seconds, count)| {
        let seconds = u32::try_from(*seconds).unwrap_or(u32::MAX);
        Period::from_secs(seconds).and_then(|period| Rate::new(*count, period))
    });
    let rates: Vec<Rate> = rates
        .collect::<Result<_, _>>()
        .map_err(|error| fails(&error))?;
    let rates = Rates::new(rates).map_err(|error| fails(&error))?;
    Policy::new(limit.policy.algorithm().clone(), rates).map_err(|error| fails(&error))
}

/// Returns the lines to write in the table of a limit. Beside rates that are enforced they count and reject nobody.
fn config_lines(name: &Name, limit: &LimitRules, rates: &[String]) -> String {
    let key = match limit.action {
        Action::Shadow => "rates",
        _ => "shadow_rates",
    };
    let rates: Vec<String> = rates.iter().map(|rate| quoted(rate)).collect();
    format!("[limit.{name}]\n{key} = [{}]\n", rates.join(", "))
}
