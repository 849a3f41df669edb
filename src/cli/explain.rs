//! `sluicegate explain [FILE]`

use std::net::IpAddr;
use std::path::Path;

use clap::Args;
use sluicegate_decide::route;

use super::config_file::ConfigFile;
use super::exit_code::{FAILED, SUCCESS, USAGE};
use super::output::{print, tell};
use crate::config;
use sluicegate_explain::{ConfigExplanation, RequestQuestion};

/// The arguments of `explain`.
#[derive(Args)]
pub(super) struct ExplainCommand {
    #[command(flatten)]
    config: ConfigFile,
    /// The request to explain: 'POST https://api.example.com/auth/sendOTP' or 'GET /path?query'.
    #[arg(long, value_name = "REQUEST")]
    request: Option<String>,
    /// The peer address of its connection.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "192.0.2.1",
        requires = "request"
    )]
    client: IpAddr,
    /// The name of the listener that it comes by; any where none is given.
    #[arg(long, value_name = "NAME", requires = "request")]
    listener: Option<String>,
    /// A header field of it: 'X-Plan: free'; may be repeated.
    #[arg(long, value_name = "FIELD", requires = "request")]
    header: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl ExplainCommand {
    /// Writes the explanation to the standard output.
    pub(super) fn run(&self) -> u8 {
        self.config.with_path(|file| self.explain(file))
    }

    fn explain(&self, file: &Path) -> u8 {
        let loaded = match config::load_unopened(file, route::review) {
            Ok(loaded) => loaded,
            Err(problems) => {
                tell(&problems);
                return USAGE;
            }
        };
        let question = self
            .request
            .as_deref()
            .map(|request| RequestQuestion::parse(request, &self.header, self.client))
            .transpose();
        let explained = question.and_then(|question| {
            let listener = self.listener.as_deref();
            let question = question.map(|question| question.by_listener(listener));
            ConfigExplanation::new(&loaded, question.as_ref())
        });
        let explanation = match explained {
            Ok(explanation) => explanation,
            Err(reason) => {
                tell(&reason.0);
                return USAGE;
            }
        };
        let text = if self.json {
            match serde_json::to_string_pretty(&explanation) {
                Ok(json) => json + "\n",
                Err(error) => {
                    tell(&error);
                    return FAILED;
                }
            }
        } else {
            explanation.to_string()
        };
        match print(&text) {
            Ok(()) => SUCCESS,
            Err(error) => {
                tell(&format_args!("the explanation cannot be written: {error}"));
                FAILED
            }
        }
    }
}
