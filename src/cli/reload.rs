//! `sluicegate reload [FILE]`
//!
//! The command reads the file first, so that errors in it are shown in the terminal, and then sends the request to the admin
//! listener. It prints the answer of the reload.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use sluicegate_base::bounds::RELOAD_PATIENCE;

use super::config_file::ConfigFile;
use super::gateway_target::of_config;
use super::{FAILED, SUCCESS, tell};

/// The extra time beyond the gateway's own timeout for a reload.
const MARGIN: Duration = Duration::from_secs(5);

/// The arguments of `reload`.
#[derive(Args)]
pub(super) struct ReloadCommand {
    #[command(flatten)]
    config: ConfigFile,
    /// A file with the token of the gateway. Default: one that [admin] token_file has and that is not a hash.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl ReloadCommand {
    /// Makes the running gateway read its configuration again.
    pub(super) fn run(&self) -> u8 {
        (self.config).with_path(|file| reload(file, self.token_file.as_ref()))
    }
}

fn reload(file: &Path, token_file: Option<&PathBuf>) -> u8 {
    let client = match of_config(file, token_file, RELOAD_PATIENCE + MARGIN) {
        Ok((_, client)) => client,
        Err((code, message)) => {
            tell(&message);
            return code;
        }
    };
    match client.send("POST", "/reload") {
        Ok((200, body)) => {
            tell(&changes(&body));
            SUCCESS
        }
        Ok((status, body)) => {
            let answer: Option<Value> = serde_json::from_str(&body).ok();
            let error = answer.as_ref().and_then(|answer| answer["error"].as_str());
            tell(&format_args!(
                "sluicegate: the configuration was not reloaded, the one before stays in force ({status}):\n{}",
                error.unwrap_or(&body)
            ));
            FAILED
        }
        Err(error) => {
            tell(&format_args!(
                "sluicegate: {error}; start the gateway, correct [admin] address, or send the process SIGHUP"
            ));
            FAILED
        }
    }
}

/// Returns the changes that the response lists, a line each.
fn changes(body: &str) -> String {
    let answer: Value = serde_json::from_str(body).unwrap_or_default();
    let changes = answer["changes"].as_array().cloned().unwrap_or_default();
    let changes: Vec<&str> = changes.iter().filter_map(Value::as_str).collect();
    if changes.is_empty() {
        "reloaded: nothing changed".to_owned()
    } else {
        format!("reloaded:\n  {}", changes.join("\n  "))
    }
}
