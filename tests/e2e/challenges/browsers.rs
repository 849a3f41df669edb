//! Real clients: Chromium with and without script, with and without cookies, and curl.

use std::process::Command;

use super::PAGES;
use crate::harness::*;

/// The same, before an origin, with one request an hour; the page of the origin loads a style, and posts.
fn site() -> (Origin, String) {
    let origin = Origin::answering(|request| {
        Reply::Answer(match request.target.as_str() {
            "/style.css" => Answer::new(200)
                .header("content-type", "text/css")
                .body("body { color: green }"),
            "/posted" => Answer::new(200).body("posted"),
            _ => Answer::new(200)
                .header("content-type", "text/html")
                .body("<!doctype html><title>Site</title><link rel=icon href=data:,><link rel=stylesheet href=/style.css><p>the site"),
        })
    });
    let rules = PAGES
        .replace(
            "respond = { status = 200, body = \"the site\" }",
            "origin = \"app\"",
        )
        .replace("\"3 per 1h\"", "\"6 per 1h\"");
    (origin, rules)
}

/// Uses up what all clients at loopback have.
async fn exceed(gateway: &Gateway) {
    let mut client = gateway.client().await;
    for _ in 0..6 {
        assert_eq!(client.get("/").await.status, 200);
    }
    assert_eq!(client.get("/").await.status, 429);
}

#[tokio::test]
async fn chromium_passes_and_curl_does_not() {
    // Goal: a person behind a busy address gets in within a moment, with everything that the page loads, and a program does not. Method: an
    // address whose rates are used up; a real Chromium that opens a document there, and posts; curl before and after.
    let (origin, rules) = site();
    let gateway = Gateway::before(&origin, &rules).await;
    exceed(&gateway).await;
    let url = format!("http://{}/?a=1&b=%2F#part", gateway.address());
    let curl = || {
        let curl = Command::new("curl")
            .args(["-s", "-i", &url])
            .output()
            .unwrap();
        String::from_utf8(curl.stdout).unwrap()
    };
    let rejected = curl();
    assert!(rejected.starts_with("HTTP/1.1 429"), "{rejected}");
    assert!(rejected.contains("application/problem+json"), "{rejected}");
    let browser = Browser::start().await;
    let mut page = browser.open(&url).await;
    page.shows("the site").await;
    let color = "getComputedStyle(document.body).color === 'rgb(0, 128, 0)'";
    page.until(color).await;
    let posted = page.value("fetch('/posted', { method: 'POST' }).then((answer) => answer.text())");
    assert_eq!(posted.await, "posted");
    let target = page
        .value("location.pathname + location.search + location.hash")
        .await;
    assert_eq!(target, "/?a=1&b=%2F#part");
    // The browser complains of the status of the page, and of nothing else: its policy allows what it does.
    assert_eq!(page.complaints_but(&[429]).await, Vec::<String>::new());
    assert!(curl().starts_with("HTTP/1.1 429"));
    let metrics = gateway.metrics().await;
    let count = |name: &str| {
        metrics.sum(
            &format!("sluicegate_limit_{name}_total"),
            &[("limit", "pages")],
        )
    };
    assert_eq!(
        (
            count("challenged"),
            count("challenge_passed"),
            count("challenge_failed")
        ),
        (1.0, 3.0, 0.0)
    );
    // The page, the style and the post took three of the solution's six.
    let rest = "(async () => { const statuses = []; for (let n = 0; n < 4; n++) \
                statuses.push((await fetch('/posted', { method: 'POST' })).status); return statuses.join(); })()";
    assert_eq!(page.value(rest).await, "200,200,200,429");
    page.go(&format!("http://{}/again", gateway.address()))
        .await;
    page.shows("the site").await;
}

#[tokio::test]
async fn chromium_without_script_waits() {
    // Goal: a browser without script gets in by itself after the wait, once. Method: a Chromium whose scripts are switched off.
    let (origin, rules) = site();
    let gateway = Gateway::before(&origin, &rules).await;
    exceed(&gateway).await;
    let before = origin.count();
    let browser = Browser::start().await;
    let mut page = browser.tab().await;
    let off = serde_json::json!({ "value": true });
    page.call("Emulation.setScriptExecutionDisabled", off).await;
    page.go(&format!("http://{}/quiet", gateway.address()))
        .await;
    eventually("the origin is asked", async || {
        let asked = origin.requests();
        let asked = asked
            .get(before..)?
            .iter()
            .map(|request| request.target.clone());
        let asked: Vec<_> = asked.collect();
        (asked == ["/quiet", "/style.css"]).then_some(())
    })
    .await;
    let metrics = gateway.metrics().await;
    let pages = metrics.sum("sluicegate_limit_challenged_total", &[("limit", "pages")]);
    assert_eq!(pages, 1.0);
}

#[tokio::test]
async fn a_browser_that_stores_no_cookie_is_told_so_and_does_not_reload_without_end() {
    // Goal: without cookies nobody is let in, and nothing loops. Method: a Chromium that blocks cookies, with script, whose page stays; and
    // without, whose page reloads once and then waits for a click.
    let (origin, rules) = site();
    let gateway = Gateway::before(&origin, &rules).await;
    exceed(&gateway).await;
    let browser = Browser::without_cookies().await;
    let mut page = browser
        .open(&format!("http://{}/", gateway.address()))
        .await;
    page.shows("Allow cookies here").await;
    let pages = async || {
        let metrics = gateway.metrics().await;
        metrics.sum("sluicegate_limit_challenged_total", &[("limit", "pages")])
    };
    assert_eq!(pages().await, 1.0);
    let mut page = browser.tab().await;
    let off = serde_json::json!({ "value": true });
    page.call("Emulation.setScriptExecutionDisabled", off).await;
    page.go(&format!("http://{}/quiet", gateway.address()))
        .await;
    eventually("the page reloads once", async || {
        (pages().await >= 3.0).then_some(())
    })
    .await;
    page.shows("did not come back").await;
    assert_eq!(pages().await, 3.0);
}
