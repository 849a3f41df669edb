//! `sluicegate block TARGET`, `exempt TARGET`, `ban`, `scale LIMIT`, `unblock TARGET` and `rules`
//!
//! The running gateway has the temporary rules, so the commands send them to its admin listener, with its token.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};

use super::gateway_target::{RunningGateway, TargetError, failed, send};
use super::{FAILED, SUCCESS, USAGE, tell};
use crate::temporary_rules::RuleTarget;

/// The timeout of each answer: the gateway writes a file.
const PATIENCE: Duration = Duration::from_secs(5);

/// The end, the reason and the gateways of a rule.
#[derive(Args)]
struct RuleFacts {
    /// The time after which the rule ends, such as 30m or 1h30m; at most 30d.
    #[arg(long = "for", value_name = "DURATION")]
    length: String,
    /// Why the rule is set; shown in the list, and written to the process log.
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Set the rule on this gateway alone, where a store shares rules between gateways.
    #[arg(long)]
    here: bool,
    /// Set the rule though it hits very many addresses, a trusted proxy, or the address from which it is sent.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    gateway: RunningGateway,
}

/// A key of a limit.
#[derive(Args)]
struct KeyArguments {
    /// The limit whose key is named.
    #[arg(long, value_name = "NAME", requires = "key")]
    limit: Option<String>,
    /// The value of each part of the limit's key, in their order: --key once for each.
    #[arg(long, value_name = "TEXT", requires = "limit")]
    key: Vec<String>,
}

/// The arguments of `block` and `exempt`.
#[derive(Args)]
pub(super) struct RuleCommand {
    /// An address, a block of addresses such as 203.0.113.0/24, or a network such as AS64496.
    #[arg(
        value_name = "TARGET",
        required_unless_present = "limit",
        conflicts_with = "limit"
    )]
    target: Option<String>,
    #[command(flatten)]
    key: KeyArguments,
    #[command(flatten)]
    facts: RuleFacts,
}

/// The arguments of `ban`.
#[derive(Args)]
pub(super) struct BanCommand {
    /// The limit that bans.
    #[arg(long, value_name = "NAME")]
    limit: String,
    /// The value of each part of the limit's key, in their order: --key once for each.
    #[arg(long, value_name = "TEXT")]
    key: Vec<String>,
    #[command(flatten)]
    facts: RuleFacts,
}

/// The arguments of `scale`.
#[derive(Args)]
pub(super) struct ScaleCommand {
    /// The limit.
    #[arg(value_name = "LIMIT")]
    limit: String,
    /// The factor by which its rates and bursts are multiplied, from 0.01 to 100.
    #[arg(long, value_name = "FACTOR")]
    by: f64,
    #[command(flatten)]
    facts: RuleFacts,
}

/// The arguments of `unblock`.
#[derive(Args)]
pub(super) struct UnblockCommand {
    /// The target of the rules that block, as it was written for `block`.
    #[arg(
        value_name = "TARGET",
        required_unless_present = "limit",
        conflicts_with = "limit"
    )]
    target: Option<String>,
    #[command(flatten)]
    key: KeyArguments,
    #[command(flatten)]
    gateway: RunningGateway,
}

/// The arguments of `rules`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct RulesCommand {
    #[command(subcommand)]
    action: Option<RulesAction>,
    /// Print the list as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gateway: RunningGateway,
}

#[derive(Subcommand)]
enum RulesAction {
    /// Remove a temporary rule before its end.
    Remove {
        /// The id, as the list shows it.
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        gateway: RunningGateway,
    },
}

/// The answer of `/rules`.
#[derive(Deserialize)]
struct RuleList {
    why_not_kept: Option<String>,
    rules: Vec<ListedRule>,
}

#[derive(Deserialize)]
struct ListedRule {
    id: String,
    action: String,
    object: String,
    target: Option<String>,
    limit: Option<String>,
    #[serde(default)]
    key: Vec<String>,
    factor: Option<f64>,
    until: String,
    left: f64,
    reason: String,
    by: String,
    scope: String,
    hits: u64,
}

impl RuleCommand {
    /// Sets a rule that blocks or exempts.
    pub(super) fn run(&self, action: &str) -> u8 {
        let target = self.target.as_deref().map(RuleTarget::parse).transpose();
        exit_code(target.map_err(|why| usage(&why)).and_then(|_| {
            let mut order = json!({ "action": action });
            match (&self.target, &self.key.limit) {
                (Some(target), _) => order["target"] = json!(target),
                (None, limit) => {
                    order["limit"] = json!(limit);
                    order["key"] = json!(self.key.key);
                }
            }
            self.facts.set(order)
        }))
    }
}

impl BanCommand {
    /// Bans a key.
    pub(super) fn run(&self) -> u8 {
        let order = json!({ "action": "ban", "limit": self.limit, "key": self.key });
        exit_code(self.facts.set(order))
    }
}

impl ScaleCommand {
    /// Multiplies the rates of a limit.
    pub(super) fn run(&self) -> u8 {
        let order = json!({ "action": "scale", "limit": self.limit, "factor": self.by });
        exit_code(self.facts.set(order))
    }
}

impl RuleFacts {
    /// Sets the rule of an order, to which the facts are added.
    fn set(&self, mut order: Value) -> Result<String, TargetError> {
        order["for"] = json!(self.length);
        order["reason"] = json!(self.reason);
        order["scope"] = json!(if self.here { "here" } else { "fleet" });
        order["force"] = json!(self.force);
        let client = self.gateway.client(None, PATIENCE)?;
        let answer = send(&client, "POST", "/rules", Some(&order))?;
        let rule: ListedRule = read(&answer["rule"])?;
        let mut text = format!(
            "{} {} until {}, by rule {}; `sluicegate rules remove {}` ends it\n",
            rule.object,
            rule.says(),
            rule.until,
            rule.id,
            rule.id
        );
        let replaced = answer["replaced"].as_array().into_iter().flatten();
        for id in replaced.filter_map(Value::as_str) {
            let _ = writeln!(text, "it replaces rule {id}");
        }
        Ok(text)
    }
}

impl ListedRule {
    /// Returns what the rule says of its object.
    fn says(&self) -> String {
        match (self.action.as_str(), self.factor) {
            ("block", _) => "is blocked".to_owned(),
            ("exempt", _) => "is exempt".to_owned(),
            ("ban", _) => "is banned".to_owned(),
            (_, Some(factor)) => format!("has {factor} times its rates"),
            (action, None) => format!("has the rule {action}"),
        }
    }
}

impl UnblockCommand {
    /// Removes the rules that block or ban the target.
    pub(super) fn run(&self) -> u8 {
        exit_code(self.unblock())
    }

    fn unblock(&self) -> Result<String, TargetError> {
        let target = self.target.as_deref().map(RuleTarget::parse).transpose();
        let target = target.map_err(|why| usage(&why))?;
        let target = target.map(|target| target.to_string());
        let client = self.gateway.client(None, PATIENCE)?;
        let list: RuleList = read(&send(&client, "GET", "/rules", None)?)?;
        let blocks = |rule: &&ListedRule| {
            matches!(rule.action.as_str(), "block" | "ban")
                && rule.target == target
                && rule.limit == self.key.limit
                && rule.key == self.key.key
        };
        let mut text = String::new();
        for rule in list.rules.iter().filter(blocks) {
            send(&client, "DELETE", &format!("/rules/{}", rule.id), None)?;
            let _ = writeln!(text, "{} no longer {}", rule.object, rule.says());
        }
        match text.is_empty() {
            false => Ok(text),
            true => Err(failed(
                &"no temporary rule blocks this; `sluicegate rules` lists them",
            )),
        }
    }
}

impl RulesCommand {
    /// Lists the rules, or removes one.
    pub(super) fn run(&self) -> u8 {
        exit_code(match &self.action {
            None => self.list(),
            Some(RulesAction::Remove { id, gateway }) => remove(id, gateway),
        })
    }

    fn list(&self) -> Result<String, TargetError> {
        let client = self.gateway.client(None, PATIENCE)?;
        let answer = send(&client, "GET", "/rules", None)?;
        match self.json {
            true => serde_json::to_string_pretty(&answer)
                .map(|text| text + "\n")
                .map_err(|error| failed(&error)),
            false => read(&answer).map(|list| table(&list)),
        }
    }
}

fn remove(id: &str, gateway: &RunningGateway) -> Result<String, TargetError> {
    let is_id = id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_id {
        return Err(usage(&format!(
            "{id:?} is no id; `sluicegate rules` lists them"
        )));
    }
    let client = gateway.client(None, PATIENCE)?;
    let answer = send(&client, "DELETE", &format!("/rules/{id}"), None)?;
    let rule: ListedRule = read(&answer["removed"])?;
    let ListedRule { action, object, .. } = rule;
    Ok(format!("rule {id} is removed: {action} {object}\n"))
}

/// Returns the list as text, a line for each rule.
fn table(list: &RuleList) -> String {
    let mut text = String::new();
    if list.rules.is_empty() {
        text.push_str("no temporary rule is in force\n");
    } else {
        text.push_str(
            "ID            ACTION  TARGET                   ENDS IN     HITS  BY        REASON\n",
        );
    }
    for rule in &list.rules {
        let left = remaining(rule.left);
        let here = match rule.scope.as_str() {
            "here" => " (this gateway alone)",
            _ => "",
        };
        let object = match rule.factor {
            Some(factor) => format!("{} by {factor}", rule.object),
            None => rule.object.clone(),
        };
        let _ = writeln!(
            text,
            "{:<12}  {:<6}  {object:<23}  {left:>7}  {:>7}  {:<8}  {}{here}",
            rule.id, rule.action, rule.hits, rule.by, rule.reason
        );
    }
    if let Some(why) = &list.why_not_kept {
        let _ = writeln!(text, "The rules end with the process: {why}.");
    }
    text
}

/// Returns seconds in the two largest units.
fn remaining(seconds: f64) -> String {
    let seconds = Duration::from_secs_f64(seconds.clamp(0.0, 1e9)).as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

fn read<T: for<'d> Deserialize<'d>>(answer: &Value) -> Result<T, TargetError> {
    T::deserialize(answer).map_err(|error| {
        failed(&format_args!(
            "the answer is not that of this version: {error}"
        ))
    })
}

fn usage(why: &str) -> TargetError {
    (USAGE, format!("sluicegate: {why}"))
}

/// Prints the text of a success or the error; returns the exit code.
fn exit_code(end: Result<String, TargetError>) -> u8 {
    match end {
        Ok(text) => {
            let written = std::io::stdout().write_all(text.as_bytes());
            if written.is_ok() { SUCCESS } else { FAILED }
        }
        Err((code, message)) => {
            tell(&message);
            code
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an operator reads at a glance what is in force and when it ends. Method: a list with a rule, and an empty one.
    #[test]
    fn the_list_has_a_line_for_each_rule() {
        let list: RuleList = read(&json!({
            "why_not_kept": "no [server] state_dir is configured",
            "rules": [{
                "id": "0123456789ab", "action": "block", "object": "203.0.113.0/24", "until": "2026-11-29T08:30:00.000Z",
                "left": 1799.2, "reason": "scraping", "by": "admin", "scope": "here", "hits": 12
            }],
        }))
        .unwrap();
        assert_eq!(
            table(&list),
            "ID            ACTION  TARGET                   ENDS IN     HITS  BY        REASON\n\
             0123456789ab  block   203.0.113.0/24            29m59s       12  admin     scraping (this gateway alone)\n\
             The rules end with the process: no [server] state_dir is configured.\n"
        );
        let empty = RuleList {
            why_not_kept: None,
            rules: Vec::new(),
        };
        assert_eq!(table(&empty), "no temporary rule is in force\n");
        for (seconds, text) in [
            (0.4, "0s"),
            (61.0, "1m01s"),
            (3700.0, "1h01m"),
            (90_000.0, "1d01h"),
        ] {
            assert_eq!(remaining(seconds), text);
        }
    }
}
