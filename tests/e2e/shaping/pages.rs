//! What failures look like.

use crate::harness::*;

const RULES: &str = r#"
[error_pages.4xx]
html = "<h1>{status} {reason}</h1>{request_id}"
json = '{ "error": {status}, "id": "{request_id}" }'

[error_pages.502]
html_file = "../502.html"

[limit.one]
key = "client.ip"
rates = ["1 per 1h"]

[[route]]
path = "/own/*"
origin = "app"
error_pages = { 502 = { text = "gone" } }

[[route]]
path = "/free/*"
origin = "app"

[[route]]
path = "/app/*"
origin = "app"
limits = ["one"]
"#;

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

fn browse(path: &str) -> Request {
    get(path).header("Accept", BROWSER)
}

async fn gateway(page: &str) -> Gateway {
    let origin = Origin::echo();
    let setup = Setup::new().servers("app", &[origin.stop()]);
    setup.file("502.html", page).rules(RULES).start().await
}

#[tokio::test]
async fn browsers_get_pages_and_programs_the_problem_body() {
    // Goal: Accept chooses; a status goes before its class, a route's page before that of all; HEAD has the same head. Method: a path
    // that
    // no route takes, and an origin that is gone.
    let gateway = gateway("<p>{status} {reason}").await;
    let nowhere = gateway.send(browse("/nowhere")).await;
    assert_eq!(nowhere.status, 404);
    assert_eq!(
        nowhere.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(nowhere.all("vary"), ["accept"]);
    let id = nowhere.header("x-request-id").unwrap();
    assert_eq!(nowhere.text(), format!("<h1>404 Not Found</h1>{id}"));
    let json = gateway
        .send(get("/nowhere").header("Accept", "application/json"))
        .await;
    assert_eq!(json.json()["error"], 404);
    let program = gateway.get("/nowhere").await;
    program.assert_problem(404);
    assert_eq!(program.all("vary"), ["accept"]);
    let gone = gateway.send(browse("/app/x")).await;
    assert_eq!((gone.status, gone.text()), (502, "<p>502 Bad Gateway"));
    let own = get("/own/x").header("Accept", "text/plain");
    assert_eq!(gateway.send(own).await.text(), "gone");
    let head = gateway
        .send(head("/nowhere").header("Accept", BROWSER))
        .await;
    let length = nowhere.header("content-length");
    assert_eq!(
        (head.header("content-length"), head.body.len()),
        (length, 0)
    );
}

#[tokio::test]
async fn refusals_and_grpc_are_worded_by_rules_of_their_own() {
    // Goal: a 429 says when to come back, and callers of gRPC get their status. Method: a refused browser, and a gRPC call
    // that no route takes.
    let gateway = gateway("<p>").await;
    assert_eq!(gateway.send(browse("/app/x")).await.status, 502);
    let refused = gateway.send(browse("/app/x")).await;
    refused.assert_problem(429);
    let call = post("/nowhere").header("Content-Type", "application/grpc");
    let call = gateway.send(call.header("Accept", BROWSER)).await;
    assert_eq!((call.status, call.header("grpc-status")), (200, Some("12")));
}

#[tokio::test]
async fn a_page_is_read_again_when_its_file_changes() {
    // Goal: pages are watched like the configuration. Method: another text in the file.
    let gateway = gateway("<p>old").await;
    assert_eq!(gateway.send(browse("/free/x")).await.text(), "<p>old");
    std::fs::write(gateway.directory().join("502.html"), "<p>new").unwrap();
    eventually("the new page", async || {
        let answer = gateway.send(browse("/free/x")).await;
        (answer.text() == "<p>new").then_some(())
    })
    .await;
}
