//! Clients that are sent elsewhere.

use crate::harness::*;

const RULES: &str = r#"
[limit.two]
key = "client.ip"
rates = ["2 per 1h"]

[[route]]
host = "example.test"
path = "/*"
redirect = { to = "https://www.{host}/{rest}" }

[[route]]
path = "/old/{id}"
limits = ["two"]
redirect = { to = "/new/{id}?from=old#top", status = 301 }

[[route]]
path = "~ ^/a(.*)$"
redirect = { to = "/{1}", status = 307 }
"#;

#[tokio::test]
async fn a_redirect_says_where_to_and_keeps_the_query() {
    // Goal: status and Location of each kind; HEAD and POST too. Method: one route of each.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &format!("{RULES}{PASS}")).await;
    let away = get("/shop/a%20b?c=d").header("Host", "Example.test:8080");
    let answer = gateway.send(away).await;
    assert_eq!(answer.status, 308);
    let to = answer.header("location");
    assert_eq!(to, Some("https://www.example.test/shop/a%20b?c=d"));
    assert_eq!(answer.header("content-length"), Some("0"));
    let answer = gateway.send(post("/old/7?x").body("ab")).await;
    assert_eq!(answer.status, 301);
    assert_eq!(answer.header("location"), Some("/new/7?from=old#top"));
    assert!(answer.header("ratelimit").is_some());
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn a_redirect_to_a_path_cannot_be_made_to_leave_the_host() {
    // Goal: no open redirect. Method: a path whose rest begins with a slash, as in //evil.test.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &format!("{RULES}{PASS}")).await;
    for asked in ["/a/evil.test", "/a//evil.test", "/a/./evil.test"] {
        let answer = gateway.get(asked).await;
        assert_eq!(answer.status, 307, "{asked}");
        assert_eq!(answer.header("location"), Some("/evil.test"), "{asked}");
    }
    let answer = gateway.get("/a/%5Cevil.test").await;
    assert_eq!(answer.header("location"), Some("/%5Cevil.test"));
}

#[tokio::test]
async fn a_redirect_has_the_path_as_it_was_sent() {
    // Goal: what no origin reads is not judged, and not respelled. Method: encoded slashes, backslashes, parameters, double slashes and
    // dots.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &format!("{RULES}{PASS}")).await;
    for path in [
        "/a%2Fb", "/a%5cb", "/a;v=1/b", "/p//q", "/p/../z", "/%7euser",
    ] {
        let answer = gateway.send(get(path).header("Host", "example.test")).await;
        assert_eq!(answer.status, 308, "{path}");
        let to = format!("https://www.example.test{path}");
        assert_eq!(answer.header("location"), Some(&*to));
    }
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn redirects_stand_under_limits_like_all_that_passes() {
    // Goal: a redirect is charged and refused like an answer. Method: a limit of two.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &format!("{RULES}{PASS}")).await;
    for expected in [301, 301, 429] {
        assert_eq!(gateway.get("/old/7").await.status, expected);
    }
}

const PASS: &str = "[[route]]\npath = \"/pass\"\norigin = \"app\"\n";
