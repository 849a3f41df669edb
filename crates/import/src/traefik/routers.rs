//! Reads routers, in the order in which Traefik compares requests with them.

use super::account::TreeAccount;
use super::chain::{MiddlewareChain, MiddlewareStep};
use super::notations::TraefikConfig;
use super::paths::{self, PathEdit};
use super::rules::{self, RouterRule};
use super::tree::{self, member, text, texts, unqualified};
use crate::cells::{ConditionTerm, PathTerm, SignedTerm};
use crate::ingress::yaml::YamlNode;

/// A router.
#[derive(Clone)]
pub(super) struct TraefikRouter<'c> {
    pub(super) name: &'c str,
    pub(super) node: &'c YamlNode,
    pub(super) rule: RouterRule,
    pub(super) priority: i64,
    pub(super) entry_points: Vec<String>,
    pub(super) middlewares: Vec<String>,
    pub(super) service: Option<&'c str>,
    pub(super) tls: Option<&'c YamlNode>,
    pub(super) chain: MiddlewareChain,
}

impl TraefikRouter<'_> {
    /// Returns the conditions by which requests are divided: those of the rule, and for each prefix of a middleware those with the prefix.
    pub(super) fn divisions(&self) -> Vec<Vec<SignedTerm>> {
        let mut found = self.rule.alternatives.clone();
        let edits = self.chain.iter().filter_map(|(_, step)| match step {
            MiddlewareStep::Path(edit) => Some(edit),
            _ => None,
        });
        for prefix in edits.flat_map(prefixes) {
            for alternative in &self.rule.alternatives {
                let mut divided = alternative.clone();
                divided.push(SignedTerm {
                    term: ConditionTerm::Path(vec![PathTerm::Beginning(prefix.clone())]),
                    is_negated: false,
                });
                found.push(divided);
            }
        }
        found
    }
}

/// Returns the beginnings of paths on which a step depends.
fn prefixes(edit: &PathEdit) -> Vec<String> {
    match edit {
        PathEdit::Strip(prefixes) => prefixes.clone(),
        PathEdit::Substitute(expression, _) => paths::literal_beginning(expression)
            .filter(|it| it.starts_with('/'))
            .into_iter()
            .collect(),
        PathEdit::AddPrefix(_) | PathEdit::Replace(_) => Vec::new(),
    }
}

/// Members of a router that change no answer.
const IDLE: [&str; 2] = ["observability", "ruleSyntax"];

/// Returns the routers of the input, the strongest first.
pub(super) fn read<'c>(
    config: &'c TraefikConfig,
    account: &mut TreeAccount<'_>,
) -> Vec<TraefikRouter<'c>> {
    let mut found = Vec::new();
    for (name, node) in config.members("http.routers") {
        let place = format!("http.routers.{name}");
        for (key, value) in node.members() {
            let is = |known: &str| key.eq_ignore_ascii_case(known);
            if IDLE.iter().any(|it| is(it)) {
                account.idle(value, "it changes no answer");
            } else if is("tls") && tree::is_off(value) {
                account.idle(value, "the router has no TLS");
            } else if ["rule", "priority", "entryPoints", "middlewares", "service"]
                .iter()
                .any(|it| is(it))
            {
                account.translated(value);
            } else if !is("tls") {
                account.lost(value, &format!("{place}.{key}"), "it has no counterpart");
            }
        }
        let Some(rule) = text(node, "rule") else {
            account.lost(node, &place, "it has no rule");
            continue;
        };
        match rules::parse(rule) {
            Ok(parsed) => {
                if let (Some(rule), Some(difference)) =
                    (member(node, "rule"), parsed.differences.first())
                {
                    account.differs(rule, difference);
                }
                found.push(TraefikRouter {
                    name: unqualified(name),
                    node,
                    priority: priority(node, rule),
                    rule: parsed,
                    entry_points: texts(member(node, "entryPoints")),
                    middlewares: texts(member(node, "middlewares")),
                    service: text(node, "service").filter(|it| !it.is_empty()),
                    tls: member(node, "tls").filter(|it| !tree::is_off(it)),
                    chain: Vec::new(),
                });
            }
            Err(reason) => {
                let reason = format!("the router has no route: {reason}");
                lose_rule(node, &place, &reason, account);
            }
        }
    }
    found.sort_by_key(|router| std::cmp::Reverse(router.priority));
    found
}

/// Records that a router has no route. The rule is named, since what it says is missing.
fn lose_rule(node: &YamlNode, place: &str, reason: &str, account: &mut TreeAccount<'_>) {
    if let Some(id) = member(node, "rule").and_then(tree::entry) {
        account.ledger.fill_in_for(id, reason);
    } else {
        account.lost(node, place, reason);
    }
}

/// Returns the priority of a router: the length of its rule, unless it is written.
fn priority(node: &YamlNode, rule: &str) -> i64 {
    let written = text(node, "priority").and_then(|it| it.parse::<i64>().ok());
    let length = i64::try_from(rule.len()).unwrap_or(i64::MAX);
    written.filter(|it| *it != 0).unwrap_or(length)
}
