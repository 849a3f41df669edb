//! The playground as a part of the page; the fields that it shows are those of the gateway's responses.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use sluicegate::config::rules::LimitRules;
use sluicegate_base::received::ReceivedFields;
use sluicegate_decide::policy_items::PolicyItems;
use sluicegate_decide::rejection::{LimitRejection, RejectionReason};
use sluicegate_decide::request_id::RequestId;
use sluicegate_decide::response::{
    LimitFields, RATE_LIMIT, RATE_LIMIT_POLICY, RefusalContext, RefusalResponse, rate_limit_policy,
};
use sluicegate_limiter::{Ask, Decision, KeyHash, Limit, Outcome, Timestamp, Verdict, decide};

use crate::harness::*;

/// Limits with one rate and with two, and rejections that never end.
const LIMITS: &str = "listener = [{ address = '127.0.0.1:1' }]\n\
    route = [{ path = '/*', limits = ['one', 'two', 'queue'], respond = { status = 204 } }]\n\
    [limit.one]\nkey = 'global'\nrates = ['3 per 10s']\n\
    [limit.two]\nkey = 'global'\nalgorithm = 'gcra'\nrates = ['2 per 1s', '5 per 1m']\n\
    [limit.queue]\nkey = 'global'\naction = 'delay'\nqueue = 2\nrates = ['2 per 3s']\n";
const KEY: KeyHash = KeyHash::from_bits(1 << 40);

/// The fields of the response to a request with this verdict, as the gateway writes them, in one line.
fn written(items: &PolicyItems, verdict: &Verdict) -> String {
    let fields = LimitFields::new(rate_limit_policy([items]), [items], verdict);
    let mut lines = Vec::new();
    for (name, value) in [
        (RATE_LIMIT_POLICY.clone(), fields.policy),
        (RATE_LIMIT.clone(), fields.status),
    ] {
        lines.push(format!("{name}: {}", value.unwrap().to_str().unwrap()));
    }
    if let Outcome::Refused { rate, .. } = verdict.outcome() {
        let rejection = LimitRejection {
            limit: 0,
            key: KEY,
            reason: RejectionReason::RateLimited(rate),
            wait: verdict.retry_after().unwrap(),
        };
        let context = RefusalContext {
            route: "",
            wording: None,
            headers: &ReceivedFields::new(),
            request_id: RequestId::next(),
        };
        let response = RefusalResponse::new(&rejection, Some(items), &context);
        let retry_after = response.retry_after;
        lines.splice(
            0..0,
            retry_after.map(|seconds| format!("retry-after: {seconds}")),
        );
        response.each_field(|name, value| {
            lines.push(format!("{name}: {}", String::from_utf8_lossy(value)));
        });
    }
    lines.join(" | ")
}

/// A decision as `fields.mjs` reads it.
fn spelled(name: &str, decision: &Decision) -> String {
    let outcome = match decision.is_admitted() {
        true => "admitted",
        false => "refused",
    };
    let wait = decision.retry_after().unwrap_or_default().as_nanos();
    let rates = decision.statuses().into_iter().map(|status| {
        let (count, period) = (status.rate.count(), status.rate.period().as_secs());
        format!(
            "{count}/{period}/{}/{}",
            status.remaining,
            status.next_free.as_nanos()
        )
    });
    format!(
        "{name} {outcome} {wait} {}",
        rates.collect::<Vec<_>>().join(",")
    )
}

/// The lines that the playground writes for these.
fn shown(asks: &str) -> Vec<String> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/playground/fields.mjs");
    let mut node = Command::new("node")
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    node.stdin
        .take()
        .unwrap()
        .write_all(asks.as_bytes())
        .unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_playground_shows_the_fields_of_the_gateway() {
    // Goal: what a client would see, as the gateway writes it. Method: decisions of three limits, of whole and of broken seconds, admitted,
    // delayed and refused; the fields by the code of the gateway and by the page's.
    let loaded = sluicegate::config::parse("gateway.toml", LIMITS, sluicegate::config::no_review);
    let rules = loaded.unwrap_or_else(|problems| panic!("{problems}")).rules;
    let (mut asks, mut expected) = (String::new(), Vec::new());
    for (name, rules) in &rules.limits {
        let rules: &LimitRules = rules;
        let limit = Limit::new(rules.policy.clone(), rules.capacity);
        let items = PolicyItems::new(name, rules);
        let mut now = Timestamp::from_secs(1_800_000_000);
        for turn in 0..60 {
            now = now.saturating_add(Duration::from_millis(turn % 7 * 123));
            let ask = Ask {
                limit: &limit,
                key: KEY,
                cost: sluicegate_limiter::Cost::ONE,
                payer: None,
            };
            let verdict = decide(&[ask], now);
            let _ = writeln!(asks, "{}", spelled(name, &verdict.decisions()[0]));
            expected.push(written(&items, &verdict));
        }
    }
    assert_eq!(shown(&asks), expected);
    let refused = expected
        .iter()
        .filter(|line| line.starts_with("retry-after"));
    assert!((30..170).contains(&refused.count()));
}

#[tokio::test]
async fn the_playground_is_a_part_of_the_page() {
    // Goal: an operator comes from the page to the playground, which runs under the policies of the page, and back. Method: its entry in
    // the navigation, the scene of an attack at a window's edge at its end, and the link at its top.
    let gateway = Gateway::start("[[route]]\npath = \"/*\"\nrespond = { status = 204 }\n").await;
    let browser = Browser::start().await;
    let mut page = browser.open(&gateway.ui("")).await;
    page.until("document.querySelector('#nav a[href=\"playground/playground.html\"]') !== null")
        .await;
    let address = gateway.admin_address();
    let scene = format!("http://{address}/ui/playground/playground.html#scene=edge&at=end");
    let mut page = browser.open(&scene).await;
    page.shows("at most 20 in 10 s").await;
    page.shows("at most 11 in 10 s").await;
    let mut complaints = page.complaints().await;
    // A browser looks for an icon by itself where a page names none.
    complaints.retain(|said| !said.contains("/favicon.ico"));
    assert_eq!(complaints, Vec::<String>::new());
    page.value("document.querySelector('#back:not([hidden]) a').click()")
        .await;
    page.shows("Requests a second").await;
}
