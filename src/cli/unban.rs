//! `sluicegate unban [FILE] --limit NAME --since 20m --cidr CIDR [--reason TEXT] [--dry-run]`

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::exit_code::{FAILED, SUCCESS, USAGE};
use super::gateway_target::{RunningGateway, encoded, send};
use super::output::tell;
use sluicegate_explain::counted;

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
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,
    /// Only bans that began within this time: 90s, 20m, 3h.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only bans of clients in this network, of limits whose key is the address alone; at most a /20, or of IPv6 a /52.
    #[arg(long, value_name = "CIDR")]
    cidr: Option<String>,
    /// The reason, for the audit line; at most 200 characters.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print the number of bans that would end, and end none.
    #[arg(long)]
    dry_run: bool,
}

/// Returns whether an answer is about no limit, since each was left out.
fn has_failed(answer: &Value) -> bool {
    let skipped = answer["skipped"].as_array();
    answer["searched"] == 0 && skipped.is_some_and(|skipped| !skipped.is_empty())
}

impl UnbanCommand {
    /// Ends the bans and prints their number.
    pub(super) fn run(&self) -> u8 {
        if self.limit.is_none() && self.since.is_none() && self.cidr.is_none() {
            tell(
                &"sluicegate: no bans are named; write --limit NAME, --since 20m or --cidr 203.0.113.0/24, or several of them",
            );
            return USAGE;
        }
        let client = self.gateway.client(self.file.as_ref(), PATIENCE);
        match client.and_then(|client| send(&client, "DELETE", &self.target(), None)) {
            Ok(answer) => {
                tell(&self.report(&answer));
                match has_failed(&answer) {
                    true => FAILED,
                    false => SUCCESS,
                }
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
            ("reason", &self.reason),
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
        let listed = |name: &str| answer[name].as_array().cloned().unwrap_or_default();
        let mut lines = vec![match bans {
            0 if has_failed(answer) => format!("{verb} no ban: no limit can be searched so"),
            0 => format!("{verb} 0 bans: none is in force that all conditions hold for"),
            _ => format!("{verb} {}", counted(bans, "ban")),
        }];
        for one in listed("limits") {
            let limit = one["limit"].as_str().unwrap_or_default();
            lines.push(format!("  limit {limit}: {}", one["bans"]));
        }
        for one in listed("skipped") {
            let [limit, reason] =
                ["limit", "reason"].map(|key| one[key].as_str().unwrap_or_default());
            lines.push(format!("  limit {limit} is left out: {reason}"));
        }
        for id in listed("rules") {
            let id = id.as_str().unwrap_or_default();
            let verb = if self.dry_run { "would be" } else { "is" };
            lines.push(format!("  temporary rule {id} {verb} removed"));
        }
        if answer["fleet"] == true && !has_failed(answer) {
            lines.push(match self.dry_run {
                true => "bans at the other gateways of the store are not counted".to_owned(),
                false => "the other gateways of the store follow within seconds".to_owned(),
            });
        }
        if let Some(error) = answer["store_error"].as_str() {
            lines.push(format!("some counters stay in the store: {error}"));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Goal: nobody reads that bans ended where none did. Method: answers with bans, with none, and with every limit left out.
    #[test]
    fn the_report_says_what_ended() {
        let command = |dry_run| UnbanCommand {
            file: None,
            gateway: RunningGateway::default(),
            limit: None,
            since: None,
            cidr: Some("0.0.0.0/0".to_owned()),
            reason: None,
            dry_run,
        };
        let limits = json!([{ "limit": "otp", "bans": 2 }]);
        let skipped = json!([{ "limit": "otp", "reason": "too many" }]);
        let ended = json!({ "bans": 2, "searched": 1, "limits": limits, "skipped": [], "rules": ["0123456789ab"], "fleet": true });
        let text = command(false).report(&ended);
        assert_eq!(
            text,
            "ended 2 bans\n  limit otp: 2\n  temporary rule 0123456789ab is removed\n\
             the other gateways of the store follow within seconds"
        );
        let none =
            json!({ "bans": 0, "searched": 1, "limits": [], "skipped": skipped, "fleet": false });
        let text = command(true).report(&none);
        assert_eq!(
            text,
            "would end 0 bans: none is in force that all conditions hold for\n  limit otp is left out: too many"
        );
        let all_skipped =
            json!({ "bans": 0, "searched": 0, "limits": [], "skipped": skipped, "fleet": true });
        let text = command(false).report(&all_skipped);
        assert_eq!(
            text,
            "ended no ban: no limit can be searched so\n  limit otp is left out: too many"
        );
        assert!(has_failed(&all_skipped) && !has_failed(&none) && !has_failed(&ended));
    }
}
