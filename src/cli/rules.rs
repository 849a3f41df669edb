//! `sluicegate block TARGET`, `exempt TARGET`, `ban`, `scale LIMIT`, `unblock TARGET` and `rules`
//!
//! The running gateway has the temporary rules, so the commands send them to its admin listener, with its token.

use std::fmt::Write as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};
use sluicegate_decide::temporary_rules::{RateFactor, RuleTarget};

use super::exit_code::{FAILED, SUCCESS, USAGE};
use super::gateway_target::{RunningGateway, TargetError, encoded, failed, send};
use super::output::{print, tell};
use sluicegate_telemetry::terminal_text::printable;

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
    /// Set the rule though it hits very many addresses, all requests of a limit, a trusted proxy, or the address from which it is sent.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    gateway: RunningGateway,
}

/// A key of a limit.
#[derive(Args)]
struct KeyArguments {
    /// The limit whose key is named; all its requests where it has one counter.
    #[arg(long, value_name = "NAME")]
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
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    by: f64,
    #[command(flatten)]
    facts: RuleFacts,
}

/// Parses the factor of rates.
fn factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().unwrap_or(f64::NAN);
    let wrong = |_| format!("{text:?} is no factor; write one from 0.01 to 100, such as 0.5");
    RateFactor::new(factor)
        .map(RateFactor::number)
        .map_err(wrong)
}

/// The arguments of `unblock`.
#[derive(Args)]
pub(super) struct UnblockCommand {
    /// The target of the rules that block: an address, a block of addresses or a network, in any spelling.
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
pub(super) struct RulesCommand {
    #[command(subcommand)]
    action: Option<RulesAction>,
    /// Print the answer as JSON.
    #[arg(long, global = true)]
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
    #[serde(default)]
    file_fault: Option<String>,
    rules: Vec<ListedRule>,
}

#[derive(Deserialize)]
struct ListedRule {
    id: String,
    action: String,
    object: String,
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
        if answer["store_away"] == true {
            text.push_str("the store cannot be reached: the other gateways follow when it can\n");
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
        target.map_err(|why| usage(&why))?;
        let client = self.gateway.client(None, PATIENCE)?;
        let answer = send(&client, "DELETE", &self.request_target(), None)?;
        let removed: Vec<ListedRule> = read(&answer["removed"])?;
        let mut text = String::new();
        for rule in &removed {
            let _ = writeln!(
                text,
                "rule {} is removed: {} {}",
                rule.id, rule.action, rule.object
            );
        }
        let still = answer["still"].as_array().into_iter().flatten();
        for sentence in still.filter_map(Value::as_str) {
            let _ = writeln!(text, "still: {sentence}");
        }
        Ok(text)
    }

    /// Returns the target of the request.
    fn request_target(&self) -> String {
        let named = [("target", &self.target), ("limit", &self.key.limit)];
        let named = named
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let values = self.key.key.iter().map(|value| ("value", value));
        let pairs = named.chain(values);
        let pairs = pairs.map(|(name, value)| format!("{name}={}", encoded(value)));
        format!("/rules?{}", pairs.collect::<Vec<_>>().join("&"))
    }
}

impl RulesCommand {
    /// Lists the rules, or removes one.
    pub(super) fn run(&self) -> u8 {
        exit_code(self.text())
    }

    fn text(&self) -> Result<String, TargetError> {
        let answer = self.answer()?;
        if self.json {
            let text = serde_json::to_string_pretty(&answer);
            return text.map(|text| text + "\n").map_err(|error| failed(&error));
        }
        if self.action.is_none() {
            return read(&answer).map(|list| table(&list));
        }
        let rule: ListedRule = read(&answer["removed"])?;
        let ListedRule {
            id, action, object, ..
        } = rule;
        Ok(format!("rule {id} is removed: {action} {object}\n"))
    }

    fn answer(&self) -> Result<Value, TargetError> {
        match &self.action {
            None => {
                let client = self.gateway.client(None, PATIENCE)?;
                send(&client, "GET", "/rules", None)
            }
            Some(RulesAction::Remove { id, gateway }) => {
                // Either side of `remove` may name the gateway.
                let gateway = gateway.or(&self.gateway).map_err(|why| usage(&why))?;
                remove(id, gateway)
            }
        }
    }
}

/// Removes a rule and returns the answer.
fn remove(id: &str, gateway: &RunningGateway) -> Result<Value, TargetError> {
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_id {
        return Err(usage(&format!(
            "{id:?} is no id; `sluicegate rules` lists them"
        )));
    }
    let client = gateway.client(None, PATIENCE)?;
    send(&client, "DELETE", &format!("/rules/{id}"), None)
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
        let [object, by, reason] = [&object, &rule.by, &rule.reason].map(|text| printable(text));
        let _ = writeln!(
            text,
            "{:<12}  {:<6}  {object:<23}  {left:>7}  {:>7}  {:<8}  {}{here}",
            rule.id, rule.action, rule.hits, by, reason
        );
    }
    if let Some(fault) = &list.file_fault {
        let _ = writeln!(text, "Rules are lost, or end with the process: {fault}.");
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
            let written = print(&text);
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
                "left": 1799.2, "reason": "scra\u{202e}ping", "by": "admin", "scope": "here", "hits": 12
            }],
        }))
        .unwrap();
        assert_eq!(
            table(&list),
            "ID            ACTION  TARGET                   ENDS IN     HITS  BY        REASON\n\
             0123456789ab  block   203.0.113.0/24            29m59s       12  admin     scra\\u202eping (this gateway alone)\n\
             The rules end with the process: no [server] state_dir is configured.\n"
        );
        let empty = RuleList {
            why_not_kept: None,
            file_fault: Some("entry 1: it is no rule".to_owned()),
            rules: Vec::new(),
        };
        let lost = "no temporary rule is in force\nRules are lost, or end with the process: entry 1: it is no rule.\n";
        assert_eq!(table(&empty), lost);
        assert_eq!(["0.5", "100"].map(factor), [Ok(0.5), Ok(100.0)]);
        for wrong in ["", "abc", "0", "-1", "0.001", "101", "NaN", "inf"] {
            let error = format!("{wrong:?} is no factor; write one from 0.01 to 100, such as 0.5");
            assert_eq!(factor(wrong), Err(error));
        }
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
