//! `sluicegate suggest LOG…`, with a route and a key or a configuration, and `sluicegate suggest --gateway URL --limit NAME`

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;
use sluicegate_access_log::{LogFormat, TimeSpread};
use sluicegate_decide::route;

use super::exit_code::{FAILED, SUCCESS, USAGE};
use super::gateway_target::of_url;
use super::output::{print, tell};
use super::progress::ProgressBar;
use crate::config;
use crate::config::rules::Rules;
use sluicegate_replay::{
    LimitSuggestion, ReplayConfig, ReplayReport, ReplayRun, SuggestError, SuggestLogs,
    SuggestQuestion, suggest, suggest_config,
};
use sluicegate_usage::UsagePage;

/// The timeout of a gateway's answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The arguments of `suggest`.
#[derive(Args)]
pub(super) struct SuggestCommand {
    /// The logs, plain, gzip or zstd, in any order; - is the standard input.
    #[arg(required_unless_present = "gateway", value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Ask the counters of the gateway with this admin listener instead of logs: http://127.0.0.1:9180.
    #[arg(
        long,
        value_name = "URL",
        requires = "limit",
        conflicts_with_all = ["logs", "config", "route", "key", "exclude", "format", "host"]
    )]
    gateway: Option<String>,
    /// The limit of that gateway; best one in shadow.
    #[arg(long, value_name = "NAME", requires = "gateway")]
    limit: Option<String>,
    /// The file with the token of the admin listener.
    #[arg(long, value_name = "FILE", requires = "gateway")]
    token_file: Option<PathBuf>,
    /// A configuration: suggest numbers for all of its limits, by their keys, on its routes.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["route", "key"])]
    config: Option<PathBuf>,
    /// The path of the route to limit, as in a configuration: /auth/sendOTP, /api/*.
    #[arg(long, value_name = "PATH", default_value = "/*")]
    route: String,
    /// The key of the limit, as in a configuration; several parts are joined by commas.
    #[arg(long, value_name = "KEY", default_value = "client.ip")]
    key: String,
    /// Clients to leave out, as an address or a block; may be repeated.
    #[arg(long, value_name = "CIDR", value_parser = network)]
    exclude: Vec<IpNet>,
    /// The format of the logs, as for `replay`.
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// The host of requests, where the log has none.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Parses an address or a block.
fn network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from).ok();
    let network = text.parse().ok().or_else(address);
    network.ok_or_else(|| format!("{text:?} is no address; write 192.0.2.1 or 192.0.2.0/24"))
}

impl SuggestCommand {
    /// Writes the suggestion to the standard output, and what replay says of it.
    pub(super) fn run(&self) -> u8 {
        let text = match (&self.gateway, &self.limit) {
            (Some(url), Some(limit)) => self.of_gateway(url, limit),
            _ => self.of_logs(),
        };
        let text = match text {
            Ok(text) => text,
            Err((code, message)) => {
                tell(&message);
                return code;
            }
        };
        match print(&text) {
            Ok(()) => SUCCESS,
            Err(error) => {
                tell(&format_args!("the suggestion cannot be written: {error}"));
                FAILED
            }
        }
    }

    /// Returns the suggestion from the counters of a running gateway.
    fn of_gateway(&self, url: &str, limit: &str) -> Result<String, (u8, String)> {
        let client = of_url(Some(url), self.token_file.as_ref(), PATIENCE)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !limit.bytes().all(is_name) {
            let message = format!("sluicegate: {limit:?} is no name of a limit");
            return Err((USAGE, message));
        }
        let body = client.get(&format!("/limits/{limit}/usage"));
        let body = body.map_err(|error| (FAILED, format!("sluicegate: {error}")))?;
        let page: UsagePage = serde_json::from_str(&body).map_err(|error| {
            let authority = client.authority();
            (
                FAILED,
                format!("sluicegate: {authority}: the answer is not that of a gateway: {error}"),
            )
        })?;
        let suggested = LimitSuggestion::new(&page).map_err(|reason| (FAILED, reason.0))?;
        match self.json {
            true => to_json(&suggested),
            false => Ok(suggested.to_string()),
        }
    }

    /// Returns the suggestion from the logs.
    fn of_logs(&self) -> Result<String, (u8, String)> {
        let format = self.format.as_deref().map(LogFormat::named).transpose();
        let logs = SuggestLogs {
            paths: self.logs.clone(),
            format: format.map_err(|message| (USAGE, format!("--format: {message}")))?,
            exclude: self.exclude.clone(),
            host: self.host.clone(),
        };
        match &self.config {
            Some(config) => self.of_config(&logs, config),
            None => self.of_route(&logs),
        }
    }

    /// Returns the suggestions for all limits of a configuration, with what replay says of them.
    fn of_config(&self, logs: &SuggestLogs, config: &Path) -> Result<String, (u8, String)> {
        let loaded = config::load_part(config, route::review);
        let rules = loaded
            .map_err(|problems| (USAGE, problems.to_string()))?
            .rules;
        let mut bar = ProgressBar::new();
        let file = config.display().to_string();
        let suggested = suggest_config(logs, (&rules, file), |requests, bytes| {
            bar.show(requests, bytes)
        });
        bar.clear();
        let mut suggested = suggested.map_err(failure)?;
        if self.can_replay() {
            suggested.add_replay(&replay(logs, suggested.enforced(rules))?);
        }
        match self.json {
            true => to_json(&suggested),
            false => Ok(suggested.to_string()),
        }
    }

    /// Returns the suggestion for one route and key, with what replay says of it.
    fn of_route(&self, logs: &SuggestLogs) -> Result<String, (u8, String)> {
        let question = SuggestQuestion {
            path: self.route.clone(),
            key: self.key.clone(),
        };
        let mut bar = ProgressBar::new();
        let suggested = suggest(logs, &question, |requests, bytes| bar.show(requests, bytes));
        bar.clear();
        let suggested = suggested.map_err(failure)?;
        if self.json {
            return to_json(&suggested);
        }
        if !self.can_replay() {
            return Ok(suggested.to_string());
        }
        let rules = question
            .rules(&suggested.numbers.rates, "reject")
            .map_err(|reason| (USAGE, reason.0))?;
        let lines = replay(logs, rules)?.to_string();
        let comment: String = lines
            .lines()
            .map(|line| format!("# {line}\n").replace("# \n", "#\n"))
            .collect();
        Ok(format!(
            "{suggested}\n# What replay says of it, were it enforced:\n#\n{comment}"
        ))
    }

    /// Returns whether the logs can be read twice, which the standard input cannot.
    fn can_replay(&self) -> bool {
        self.logs.iter().all(|log| log.as_os_str() != "-")
    }
}

/// Replays `logs` under `rules`.
fn replay(logs: &SuggestLogs, rules: Rules) -> Result<ReplayReport, (u8, String)> {
    let config = ReplayConfig {
        rules,
        against: None,
        host: logs.host.clone(),
        spread: TimeSpread::AsLogged,
    };
    let run = ReplayRun::open(&logs.paths, logs.format.clone(), config, None);
    let run = run.map_err(|error| (FAILED, error.to_string()))?;
    let mut bar = ProgressBar::new();
    let report = run.run(|requests, bytes| bar.show(requests, bytes));
    bar.clear();
    report.map_err(|error| (FAILED, error.to_string()))
}

/// Returns the exit code and the message for logs that give no suggestion.
fn failure(error: SuggestError) -> (u8, String) {
    match error {
        SuggestError::Log(error) => (FAILED, error.to_string()),
        SuggestError::Question(reason) => (USAGE, reason.0),
    }
}

fn to_json(suggested: &impl serde::Serialize) -> Result<String, (u8, String)> {
    let json = serde_json::to_string_pretty(suggested);
    json.map(|json| json + "\n")
        .map_err(|error| (FAILED, error.to_string()))
}
