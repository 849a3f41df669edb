//! Members of JSON that a framework wraps into another one.

use super::{before_each_framework, started};
use crate::harness::*;

const RULES: &str = r#"
[limit.phone]
key = "body.json./user/phone"
on_missing = "skip"
rates = ["1 per 1d"]
[[route]]
path = "/users"
limits = ["phone"]
origin = "app"
"#;

before_each_framework!(
    are_not_absent,
    rails: Rails,
);

async fn are_not_absent(framework: Framework) {
    // Goal: a number that the controller of Rails finds under `user` is counted, wherever it stands. Method: the plain body and the one
    // that is wrapped, each twice.
    let (_server, gateway) = started(framework, RULES).await;
    for body in ["{\"user\":{\"phone\":\"1\"}}", "{\"phone\":\"1\"}"] {
        let asked = || {
            post("/users")
                .header("content-type", "application/json")
                .body(body)
        };
        let first = gateway.send(asked()).await;
        let reading = Reading::of(&first).unwrap_or_else(|| panic!("{first:?}"));
        assert_eq!(reading.form("phone"), ["1"], "{body}");
        assert_eq!(gateway.send(asked()).await.status, 429, "{body}");
    }
    let other = post("/users")
        .header("content-type", "application/json")
        .body("{\"name\":\"x\"}");
    assert_ne!(gateway.send(other).await.status, 429);
}
