//! Fields that are set, added and removed, on both ways.

use crate::harness::*;

const RULES: &str = r#"
[request_headers]
set = { x-everywhere = "all", x-both = "all", x-real-ip = "{client_ip}" }
remove = ["x-secret"]

[response_headers]
set = { x-content-type-options = "nosniff", cache-control = "max-age=60" }
remove = ["x-powered-by"]

[limit.one]
key = "client.ip"
rates = ["1 per 1h"]

[[route]]
name = "users"
path = "/users/{id}/*"
origin = "app"
[route.request_headers]
set = { x-both = "route", x-user = "{path.id} of {host} by {route}: {rest}", x-id = "{request_id}" }
add = { x-more = "two" }
remove = ["cookie"]
[route.response_headers]
set = { x-from = "{client_ip}" }
add = { x-kept = "gateway" }
remove = ["x-internal"]

[[route]]
path = "/limited"
origin = "app"
limits = ["one"]

[[route]]
path = "/here"
respond = { status = 200, body = "hi", headers = { x-own = "yes" } }
"#;

#[tokio::test]
async fn the_origin_gets_the_fields_of_the_rules_and_not_those_that_clients_claim() {
    // Goal: set replaces, add adds, remove removes; a route's edits follow those of all. Method: the echo, and a client that sends all of
    // them.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, RULES).await;
    let request = get("/users/7%41/a/b")
        .header("Host", "Shop.test:8080")
        .header("X-Both", "client")
        .header("X-User", "admin")
        .header("X-User", "root")
        .header("X-More", "one")
        .header("X-Secret", "x")
        .header("X-Real-IP", "203.0.113.7")
        .header("Cookie", "a=b");
    let answer = gateway.send(request).await;
    let id = answer.header("x-request-id").unwrap().to_owned();
    let echo = answer.echo();
    assert_eq!(echo.all("x-everywhere"), ["all"]);
    assert_eq!(echo.all("x-both"), ["route"]);
    assert_eq!(echo.all("x-user"), ["7A of shop.test by users: a/b"]);
    assert_eq!(echo.all("x-id"), [&*id]);
    assert_eq!(echo.all("x-more"), ["one", "two"]);
    assert_eq!(echo.all("x-real-ip"), ["127.0.0.1"]);
    assert_eq!(echo.header("x-secret"), None);
    assert_eq!(echo.header("cookie"), None);
}

#[tokio::test]
async fn clients_get_the_fields_of_the_rules() {
    // Goal: the same for answers of an origin and of the gateway. Method: an origin that sends what is edited.
    let origin = Origin::answering(|_| {
        let answer = Answer::new(200).header("x-powered-by", "php");
        let answer = answer.header("x-internal", "1").header("x-kept", "origin");
        Reply::Answer(answer.header("x-content-type-options", "sniff").body("ok"))
    });
    let gateway = Gateway::before(&origin, RULES).await;
    let answer = gateway.get("/users/7/").await;
    assert_eq!(answer.all("x-content-type-options"), ["nosniff"]);
    assert_eq!(answer.all("x-kept"), ["origin", "gateway"]);
    assert_eq!(answer.header("x-from"), Some("127.0.0.1"));
    assert_eq!(answer.header("x-powered-by"), None);
    assert_eq!(answer.header("x-internal"), None);
    let here = gateway.get("/here").await;
    assert_eq!(here.header("x-own"), Some("yes"));
    assert_eq!(here.header("cache-control"), Some("max-age=60"));
    assert_eq!(here.header("x-content-type-options"), Some("nosniff"));
}

#[tokio::test]
async fn refusals_have_the_fields_that_speak_of_no_content() {
    // Goal: security fields stand on every answer, and no cache keeps a refusal. Method: refusals, also repeated ones on a connection,
    // and
    // a path that no route takes.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, RULES).await;
    let mut client = gateway.client().await;
    assert_eq!(client.get("/limited").await.status, 200);
    for _ in 0..3 {
        let refused = client.get("/limited").await;
        assert_eq!(refused.status, 429);
        assert_eq!(refused.all("x-content-type-options"), ["nosniff"]);
        assert_eq!(refused.header("cache-control"), None);
        assert!(refused.retry_after() > 0);
    }
    let nowhere = client.get("/nowhere").await;
    assert_eq!(nowhere.status, 404);
    assert_eq!(nowhere.header("x-content-type-options"), Some("nosniff"));
}
