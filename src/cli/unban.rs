//! `sluicegate unban [FILE] --limit NAME --since 20m --cidr CIDR [--dry-run]`

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::config_file::ConfigFile;
use super::gateway_target::{TargetError, of_config, of_url};
use super::{FAILED, SUCCESS, USAGE, tell};
use crate::admin_client::AdminClient;

/// The timeout of the answer: a large table is walked, and the store may have each key.
const PATIENCE: Duration = Duration::from_secs(60);

/// The arguments of `unban`.
#[derive(Args)]
pub(super) struct UnbanCommand {
    #[command(flatten)]
    config: ConfigFile,
    /// The admin listener of the gateway, in place of the one that the configuration names: http://127.0.0.1:9180.
    #[arg(long, value_name = "URL", conflicts_with_all = ["file", "config"])]
    url: Option<String>,
    /// A file with the token of the gateway. Default: one that [admin] token_file has and that is not a hash.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Only bans of this limit.
    #[arg(long, value_name = "NAME", required_unless_present_any = ["since", "cidr"])]
    limit: Option<String>,
    /// Only bans that began within this time: 90s, 20m, 3h.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only bans of clients in this network, of limits whose key is the address alone; at most a /20, or of IPv6 a /52.
    #[arg(long, value_name = "CIDR")]
    cidr: Option<String>,
    /// Print the number of bans that would end, and end none.
    #[arg(long)]
    dry_run: bool,
}

impl UnbanCommand {
    /// Ends the bans and prints their number.
    pub(super) fn run(&self) -> u8 {
        if self.url.is_some() {
            return self.send(of_url(
                self.url.as_deref(),
                self.token_file.as_ref(),
                PATIENCE,
            ));
        }
        self.config.with_path(|file| {
            let found = of_config(file, self.token_file.as_ref(), PATIENCE);
            self.send(found.map(|(_, client)| client))
        })
    }

    fn send(&self, client: Result<AdminClient, TargetError>) -> u8 {
        let (client, target) = match client.and_then(|client| Ok((client, self.target()?))) {
            Ok(found) => found,
            Err((code, message)) => {
                tell(&message);
                return code;
            }
        };
        match client.send("DELETE", &target) {
            Ok((200, body)) => {
                tell(&self.report(&serde_json::from_str(&body).unwrap_or_default()));
                SUCCESS
            }
            Ok((status, body)) => {
                let answer: Value = serde_json::from_str(&body).unwrap_or_default();
                let error = answer["error"].as_str().unwrap_or(&body);
                tell(&format_args!(
                    "sluicegate: {}: {error} ({status})",
                    client.authority()
                ));
                if status == 400 { USAGE } else { FAILED }
            }
            Err(error) => {
                tell(&format_args!("sluicegate: {error}"));
                FAILED
            }
        }
    }

    /// Returns the target of the request.
    fn target(&self) -> Result<String, TargetError> {
        let mut pairs = Vec::new();
        let is_plain = |text: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
            text.bytes().all(plain)
        };
        for (name, value) in [
            ("limit", &self.limit),
            ("since", &self.since),
            ("cidr", &self.cidr),
        ] {
            let Some(value) = value else { continue };
            if !is_plain(value) {
                let message = format!(
                    "sluicegate: --{name} {value:?} has other characters than letters, digits and - _ . : /"
                );
                return Err((USAGE, message));
            }
            pairs.push(format!("{name}={value}"));
        }
        if self.dry_run {
            pairs.push("dry_run=true".to_owned());
        }
        Ok(format!("/bans?{}", pairs.join("&")))
    }

    /// Returns the lines about an answer.
    fn report(&self, answer: &Value) -> String {
        let verb = if self.dry_run { "would end" } else { "ended" };
        let mut lines = vec![match answer["bans"].as_u64() {
            Some(1) => format!("{verb} 1 ban"),
            bans => format!("{verb} {} bans", bans.unwrap_or_default()),
        }];
        let listed = |name: &str| answer[name].as_array().cloned().unwrap_or_default();
        for one in listed("limits") {
            let limit = one["limit"].as_str().unwrap_or_default();
            lines.push(format!("  limit {limit}: {}", one["bans"]));
        }
        for one in listed("skipped") {
            let [limit, reason] =
                ["limit", "reason"].map(|key| one[key].as_str().unwrap_or_default());
            lines.push(format!("  limit {limit} is left out: {reason}"));
        }
        if answer["fleet"] == true {
            lines.push("the other gateways of the store follow within seconds".to_owned());
        }
        if let Some(error) = answer["store_error"].as_str() {
            lines.push(format!("some counters stay in the store: {error}"));
        }
        lines.join("\n")
    }
}
