//! `sluicegate unban [FILE] --limit NAME --since 20m --cidr CIDR [--dry-run]`

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::gateway_target::{RunningGateway, encoded, send};
use super::{SUCCESS, tell};
use crate::explain::counted;

/// The timeout of the answer: a large table is walked, and the store may have each key.
const PATIENCE: Duration = Duration::from_secs(60);

/// The arguments of `unban`.
#[derive(Args)]
pub(super) struct UnbanCommand {
    /// The same as --config FILE.
    #[arg(value_name = "FILE", conflicts_with_all = ["config", "url"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    gateway: RunningGateway,
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
        let client = self.gateway.client(self.file.as_ref(), PATIENCE);
        match client.and_then(|client| send(&client, "DELETE", &self.target(), None)) {
            Ok(answer) => {
                tell(&self.report(&answer));
                SUCCESS
            }
            Err((code, message)) => {
                tell(&message);
                code
            }
        }
    }

    /// Returns the target of the request.
    fn target(&self) -> String {
        let named = [
            ("limit", &self.limit),
            ("since", &self.since),
            ("cidr", &self.cidr),
        ];
        let values = named
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let dry_run = self.dry_run.then_some(("dry_run", "true"));
        let pairs = values
            .chain(dry_run)
            .map(|(name, value)| format!("{name}={}", encoded(value)));
        format!("/bans?{}", pairs.collect::<Vec<_>>().join("&"))
    }

    /// Returns the lines about an answer.
    fn report(&self, answer: &Value) -> String {
        let verb = if self.dry_run { "would end" } else { "ended" };
        let bans = answer["bans"].as_u64().unwrap_or_default();
        let mut lines = vec![format!("{verb} {}", counted(bans, "ban"))];
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
