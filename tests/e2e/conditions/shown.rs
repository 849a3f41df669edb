//! What an operator sees of conditions: the card of a limit on the page, in a real browser, and `sluicegate top`.

use serde_json::{Value, json};

use super::becomes;
use crate::harness::*;

/// A limit and a tier by the use of the site's; one whose name every object of JavaScript has; one without a condition.
const RULES: &str = r#"
[client]
trusted_proxies = ["127.0.0.0/8"]
[limit.site]
key = "global"
rates = ["10 per 1h"]
[limit.strict]
key = "client.ip"
rates = ["100 per 1h"]
tier = "header.x-plan"
when = "limit.site.used > 50%"
[limit.strict.tiers]
free = { rates = ["50 per 1h"], when = "limit.site.used > 90%" }
[limit.constructor]
key = "client.ip"
rates = ["100 per 1h"]
[[route]]
path = "/*"
limits = ["site", "strict", "constructor"]
respond = { status = 200 }
"#;

async fn uses(gateway: &Gateway, requests: usize) {
    let mut client = gateway.client().await;
    for _ in 0..requests {
        assert_eq!(client.get("/").await.status, 200);
    }
}

#[tokio::test]
async fn the_page_shows_conditions_as_they_change() {
    // Goal: an operator reads when a limit applies, whether it does, and since when, without loading the page again, also on a phone.
    // Method: the view of a limit with a condition and a tier with one, opened before the load; then the load; limits without conditions.
    let gateway = Gateway::start(RULES).await;
    let browser = Browser::start().await;
    let mut page = browser.tab().await;
    page.becomes_a_phone().await;
    page.go(&gateway.ui("limit/strict")).await;
    let card = "document.querySelector('section[aria-label=Conditions]')";
    let row = |at: usize| format!("{card}?.querySelectorAll('tbody tr')[{at}]?.textContent");
    let reads = |at: usize, text: &str| format!("{} === '{text}'", row(at));
    page.until(&reads(0, "limit.site.used > 50%not activethe start0"))
        .await;
    page.until(&reads(
        1,
        "limit.site.used > 90% (tier free)not activethe start0",
    ))
    .await;
    uses(&gateway, 6).await;
    becomes(&gateway, "strict", true).await;
    let begun = format!(
        "/^limit\\.site\\.used > 50%active\\d\\d:\\d\\d:\\d\\d1$/.test({})",
        row(0)
    );
    page.until(&begun).await;
    page.until(&format!(
        "{card}.querySelector('.bad').textContent === 'active'"
    ))
    .await;
    page.until(&reads(
        1,
        "limit.site.used > 90% (tier free)not activethe start0",
    ))
    .await;
    let wide = page.value("document.documentElement.scrollWidth").await;
    assert!(wide.as_u64().unwrap() <= 390, "{wide} pixels");
    for other in ["site", "constructor"] {
        page.go(&gateway.ui(&format!("limit/{other}"))).await;
        page.shows(&format!("Limit {other}")).await;
        page.shows("Keys nearest to the limit").await;
        let cards = page.value(&format!("{card} === null")).await;
        assert_eq!(cards, json!(true), "{other} has no condition");
    }
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn top_shows_which_conditions_are_active() {
    // Goal: an operator in a terminal sees the same. Method: one frame as JSON and as text, before the load and under it.
    let gateway = Gateway::start(RULES).await;
    let url = format!("http://{}", gateway.admin_address());
    let frame = async |arguments: &[&str]| {
        let arguments = [&["top", &url, "--once", "--interval", "0.2"], arguments].concat();
        let mut process = Process::run(&arguments);
        assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
        process.stdout()
    };
    let strict = async || {
        let frame: Value = serde_json::from_str(&frame(&["--json"]).await).unwrap();
        let limits = frame["limits"].as_array().unwrap();
        let strict = limits.iter().find(|limit| limit["name"] == "strict");
        strict.unwrap().clone()
    };
    let before = strict().await;
    assert_eq!(before["action"], json!("idle"));
    assert_eq!(
        before["conditions"],
        json!([
            { "tier": null, "when": "limit.site.used > 50%", "active": false, "since": null },
            { "tier": "free", "when": "limit.site.used > 90%", "active": false, "since": null },
        ])
    );
    assert!(!frame(&[]).await.contains("condition"));
    uses(&gateway, 6).await;
    becomes(&gateway, "strict", true).await;
    let under_load = strict().await;
    assert_eq!(under_load["action"], json!("reject"));
    let [own, tier] = [0, 1].map(|at| under_load["conditions"][at].clone());
    assert_eq!(
        (&own["active"], &tier["active"]),
        (&json!(true), &json!(false))
    );
    assert!(own["since"].is_string(), "{own}");
    assert!(frame(&[]).await.contains("limits (3), 1 condition active"));
}
