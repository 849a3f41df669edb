//! The path that the origin gets: without a prefix, or made of parts.

use crate::harness::*;

const RULES: &str = r#"
[[route]]
path = "/api/*"
origin = "app"
strip_prefix = "/api"

[[route]]
path = "/api"
origin = "app"
strip_prefix = "/api"

[[route]]
path = "/users/{id}/*"
origin = "app"
rewrite = "/v2/{rest}/of/{id}"

[[route]]
path = "~ ^/x(.*?)-(.*)$"
origin = "app"
rewrite = "/y/{1}{2}"
"#;

#[tokio::test]
async fn the_origin_gets_the_path_that_is_made_with_the_query_as_it_was() {
    // Goal: prefixes go, parts are put together, and the rest stays as it was sent. Method: the echo of each.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, RULES).await;
    for (asked, made) in [
        ("/api/v1/x?a=%2Fb&c", "/v1/x?a=%2Fb&c"),
        ("/api/?q", "/?q"),
        ("/api", "/"),
        ("/api//v1/./x", "/v1/x"),
        ("/api/%76%31/%c3%a9", "/%76%31/%c3%a9"),
        ("/%61pi/@babel%2fcore", "/@babel%2fcore"),
        ("/api/group%2Fproject/a;v=1/b", "/group%2Fproject/a;v=1/b"),
        ("/api/x/../y", "/x/../y"),
        ("/users/7/orders?open", "/v2/orders/of/7?open"),
        ("/users/a%20b/c/d", "/v2/c/d/of/a%20b"),
        ("/users/a/c%2Fd", "/v2/c%2Fd/of/a"),
        ("/xa/-b/c", "/y/a/b/c"),
    ] {
        let echo = gateway.get(asked).await.echo();
        assert_eq!(echo.target, made, "{asked}");
    }
}

#[tokio::test]
async fn a_path_with_two_readings_is_not_made_into_another() {
    // Goal: what is behind a prefix cannot be walked around by spelling. Method: encoded slashes, dots that climb, halves of an escape.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, RULES).await;
    for asked in [
        "/api/..%2fusers/7/x",
        "/users/a%2Fb/c",
        "/api/x/../../api/y",
        "/api/%252e%252e/api/y",
        "/users/7/..%5Cz",
        "/x.-.",
        "/x%2-F",
        "/x%2-f..",
    ] {
        gateway.get(asked).await.assert_problem(400);
    }
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn nginx_gets_the_made_path() {
    // Goal: a real origin serves it. Method: nginx, whose log counts what it was asked for.
    let nginx = Nginx::start("location / { return 200 \"hello\"; }").await;
    let setup = Setup::new().servers("app", &[nginx.address()]);
    let gateway = setup.rules(RULES).start().await;
    assert_eq!(gateway.get("/api/v1/x").await.status, 200);
    // It writes its log behind the response.
    eventually("nginx was asked", async || {
        (nginx.count("/v1/x") == 1).then_some(())
    })
    .await;
}
