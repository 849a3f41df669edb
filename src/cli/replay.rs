//! `sluicegate replay [FILE] LOG…`

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::Args;
use sluicegate_access_log::{LogFormat, TimeSpread};
use sluicegate_decide::route;

use super::config_file::{is_config_name, named_or_packaged};
use super::exit_code::{FAILED, SUCCESS, USAGE};
use super::output::{print, tell};
use super::progress::ProgressBar;
use crate::config;
use sluicegate_replay::{DecisionLog, HtmlReport, ReplayConfig, ReplayRun};

/// The lines of usage.
pub(super) const USAGE_LINES: &str = "sluicegate replay [OPTIONS] [FILE] <LOG>...\n       \
     sluicegate replay [OPTIONS] --config <FILE> <LOG>...";

/// The arguments of `replay`.
#[derive(Args)]
pub(super) struct ReplayCommand {
    /// The logs, plain, gzip or zstd, in any order; - is the standard input. Without --config a name that ends in .toml is the
    /// configuration.
    #[arg(required = true, value_name = "LOG")]
    files: Vec<PathBuf>,
    /// The configuration to judge the requests by; without listeners and origins it is enough, as `suggest` prints it. Default:
    /// /etc/sluicegate/gateway.toml, where it exists.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A configuration to compare with: which requests and keys only one of both rejects.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// The format of the logs, detected by default: sluicegate, combined, common, nginx-json, caddy, envoy, envoy-json, haproxy,
    /// cloudfront, alb, vhost_combined, traefik, cloudflare, cloudflare-csv, fastly, iis, nginx's log_format with its $variables, or
    /// Apache's LogFormat with its %directives.
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// The host of requests, where the log has none.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Spread the requests of one second evenly over it: most logs have whole seconds.
    #[arg(long)]
    spread: bool,
    /// Write the decision over each request to this file, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Write the report to this file as a page of HTML, which needs no other file and no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl ReplayCommand {
    /// Writes the report to the standard output.
    pub(super) fn run(&self) -> u8 {
        match self.report() {
            Ok(text) => match print(&text) {
                Ok(()) => SUCCESS,
                Err(error) => {
                    tell(&format_args!("the report cannot be written: {error}"));
                    FAILED
                }
            },
            Err(code) => code,
        }
    }

    /// Returns the configuration and the logs.
    fn config_and_logs(&self) -> Result<(PathBuf, Vec<PathBuf>), String> {
        let mut logs = self.files.clone();
        let at = logs.iter().position(|file| is_config_name(file));
        let named = match (&self.config, at) {
            (None, Some(at)) => Some(logs.remove(at)),
            (named, _) => named.clone(),
        };
        if logs.is_empty() {
            return Err("no log is named; write its name, or - for the standard input".to_owned());
        }
        Ok((named_or_packaged(named)?, logs))
    }

    /// Returns the report, or the exit code where there is none.
    fn report(&self) -> Result<String, u8> {
        let fails = |code: u8, message: &dyn std::fmt::Display| {
            tell(message);
            code
        };
        let format = self.format.as_deref().map(LogFormat::named).transpose();
        let format =
            format.map_err(|message| fails(USAGE, &format_args!("--format: {message}")))?;
        let load = |path: &Path| {
            let loaded = config::load_part(path, route::review);
            let loaded = loaded.map_err(|problems| fails(USAGE, &problems));
            loaded.map(|loaded| loaded.rules)
        };
        let (config, logs) = self
            .config_and_logs()
            .map_err(|message| fails(USAGE, &format_args!("sluicegate: {message}")))?;
        let rules = load(&config)?;
        let against = match &self.against {
            Some(path) => Some((load(path)?, path.display().to_string())),
            None => None,
        };
        let spread = match self.spread {
            true => TimeSpread::OverSecond,
            false => TimeSpread::AsLogged,
        };
        let decisions = self.decisions.as_ref().map(|path| {
            let file = File::create(path);
            file.map(|file| DecisionLog::new(Box::new(BufWriter::new(file))))
                .map_err(|error| {
                    fails(
                        FAILED,
                        &format_args!("{} cannot be written: {error}", path.display()),
                    )
                })
        });
        let config = ReplayConfig {
            rules,
            against,
            host: self.host.clone(),
            spread,
        };
        let run = ReplayRun::open(&logs, format, config, decisions.transpose()?);
        let run = run.map_err(|error| fails(FAILED, &error))?;
        let mut bar = ProgressBar::new();
        let report = run.run(|requests, bytes| bar.show(requests, bytes));
        bar.clear();
        let report = report.map_err(|error| {
            fails(
                FAILED,
                &format_args!("the decisions cannot be written: {error}"),
            )
        })?;
        if let Some(path) = &self.html {
            let written = std::fs::write(path, HtmlReport(&report).to_string());
            written.map_err(|error| {
                fails(
                    FAILED,
                    &format_args!("{} cannot be written: {error}", path.display()),
                )
            })?;
        }
        if !self.json {
            return Ok(report.to_string());
        }
        let json = serde_json::to_string_pretty(&report);
        json.map(|json| json + "\n")
            .map_err(|error| fails(FAILED, &error))
    }
}
