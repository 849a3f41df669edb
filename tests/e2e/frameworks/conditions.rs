//! Conditions of routes on the query: whatever a framework reads as the parameter meets them.

use super::{before_each_framework, started};
use crate::harness::*;

/// One request an hour, for the parameter by which applications such as WordPress find their action.
const RULES: &str = r#"
[limit.send]
key = "global"
rates = ["1 per 1h"]
[[route]]
path = "/x"
query = { action = "send" }
limits = ["send"]
origin = "app"
[[route]]
path = "/*"
origin = "app"
"#;

/// Queries in which some framework finds `action=send`.
const QUERIES: [&str; 24] = [
    "action=send",
    "+action=send",
    "%20action=send",
    "%09action=send",
    "action%00=send",
    "action%00x=send",
    "action[]=send",
    "action%5B%5D=send",
    "action[0]=send",
    "[action]=send",
    "Action=send",
    "?action=send",
    "x=1?action=send",
    "action=send?x",
    "action=send?x=1",
    "x=1;action=send",
    "action=%73end",
    "action=x&action=send",
    "action=send&action=x",
    "%u0061ction=send",
    "action=%u0073end",
    "action=send%20",
    "action=+send",
    "action=%00send",
];

before_each_framework!(are_met_by_every_spelling);

async fn are_met_by_every_spelling(framework: Framework) {
    // Goal: a limit on one value of a parameter holds for all that a framework reads so. Method: each spelling after the limit is used
    // up; the application says what it reads.
    let (_server, gateway) = started(framework, RULES).await;
    let first = gateway.get("/x?action=send").await;
    assert!(Reading::of(&first).is_some(), "{first:?}");
    for query in QUERIES {
        let answer = gateway.get(&format!("/x?{query}")).await;
        if let Some(reading) = Reading::of(&answer) {
            let found = reading.query("action");
            assert!(!found.contains(&"send"), "{query}: {found:?}");
        }
    }
    let other = gateway.get("/x?action=other").await;
    assert!(Reading::of(&other).is_some(), "{other:?}");
}
