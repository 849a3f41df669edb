//! `sluicegate reload [FILE] [--dry-run] [--token-file FILE]`
//!
//! The command reads the file first, so that errors in it are shown in the terminal, and then sends the request to the admin
//! listener. It prints the answer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use sluicegate_base::bounds::RELOAD_PATIENCE;

use super::config_file::ConfigFile;
use super::exit_code::{CHANGES, FAILED, SUCCESS};
use super::gateway_target::of_config;
use super::output::tell;
use sluicegate_top::admin_client::{AdminClient, AdminError};

/// The extra time beyond the gateway's own timeout for a reload.
const MARGIN: Duration = Duration::from_secs(5);

/// The arguments of `reload`.
#[derive(Args)]
pub(super) struct ReloadCommand {
    #[command(flatten)]
    config: ConfigFile,
    /// Print the change that a reload would make, and make none. A gateway reads a changed file by itself within a second: `check NEW
    /// --against URL` prints the change before the file is in its place. The exit code is 0 without a change, 2 with one, 1 where the
    /// gateway would refuse the configuration or does not answer, and 64 where the file is wrong.
    #[arg(long)]
    dry_run: bool,
    /// A file with the token of the gateway. Default: one that [admin] token_file has and that is not a hash.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl ReloadCommand {
    /// Makes the running gateway read its configuration again.
    pub(super) fn run(&self) -> u8 {
        self.config.with_path(|file| self.send(file))
    }

    fn send(&self, file: &Path) -> u8 {
        let patience = RELOAD_PATIENCE + MARGIN;
        match of_config(file, self.token_file.as_ref(), patience) {
            Ok((_, client)) if self.dry_run => try_out(&client),
            Ok((_, client)) => reload(&client),
            Err((code, message)) => {
                tell(&message);
                code
            }
        }
    }
}

fn reload(client: &AdminClient) -> u8 {
    match client.send("POST", "/reload") {
        Ok((200, body)) => {
            let sentences = sentences(&body, "changes");
            tell(&match sentences.is_empty() {
                true => "reloaded: nothing changed".to_owned(),
                false => format!("reloaded:\n  {}", sentences.join("\n  ")),
            });
            SUCCESS
        }
        Ok((status, body)) => {
            tell(&format_args!(
                "sluicegate: the configuration was not reloaded, the one before stays in force ({status}):\n{}",
                reason(&body)
            ));
            FAILED
        }
        Err(error) => unreached(&error),
    }
}

/// Prints the change that a reload would make.
fn try_out(client: &AdminClient) -> u8 {
    let body = match client.send("GET", "/reload?dry_run=true") {
        Ok((200, body)) => body,
        Ok((status, body)) => {
            tell(&format_args!(
                "sluicegate: dry run: a reload would leave the configuration in force ({status}):\n{}",
                reason(&body)
            ));
            return FAILED;
        }
        Err(error) => return unreached(&error),
    };
    let answer: Value = serde_json::from_str(&body).unwrap_or_default();
    if let Some(warnings) = answer["warnings"].as_str() {
        tell(&warnings);
    }
    let changes = sentences(&body, "changes");
    for setting in sentences(&body, "pending_restart") {
        tell(&format_args!(
            "dry run: {setting} would take effect at the next restart"
        ));
    }
    if changes.is_empty() {
        let loaded_at = answer["loaded_at"].as_str().unwrap_or_default();
        tell(&format_args!(
            "dry run: a reload would change nothing; the configuration in force was read at {loaded_at}"
        ));
        return SUCCESS;
    }
    tell(&format_args!(
        "dry run: a reload would change:\n  {}",
        changes.join("\n  ")
    ));
    CHANGES
}

fn unreached(error: &AdminError) -> u8 {
    tell(&format_args!(
        "sluicegate: {error}; start the gateway, correct [admin] address, or send the process SIGHUP"
    ));
    FAILED
}

/// Returns the error of an answer, or the whole of it.
fn reason(body: &str) -> String {
    let answer: Option<Value> = serde_json::from_str(body).ok();
    let error = answer.and_then(|answer| answer["error"].as_str().map(str::to_owned));
    error.unwrap_or_else(|| body.to_owned())
}

/// Returns the sentences that an answer lists under `name`.
fn sentences(body: &str, name: &str) -> Vec<String> {
    let answer: Value = serde_json::from_str(body).unwrap_or_default();
    let listed = answer[name].as_array().cloned().unwrap_or_default();
    let listed = listed.iter().filter_map(Value::as_str);
    listed.map(str::to_owned).collect()
}
