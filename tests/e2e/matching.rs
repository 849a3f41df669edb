//! Which route takes a request: hosts under a name, expressions, queries and clients, over real sockets.

use crate::harness::*;

/// Routes that answer with their own name.
fn routes(lines: &[(&str, &str)]) -> String {
    let route = |(name, matches): &(&str, &str)| {
        format!(
            "[[route]]\nname = \"{name}\"\n{matches}\nrespond = {{ status = 200, body = \"{name}\" }}\n"
        )
    };
    lines.iter().map(route).collect()
}

async fn answer(gateway: &Gateway, request: Request) -> String {
    let answer = gateway.send(request).await;
    match answer.status {
        200 => answer.text().to_owned(),
        status => status.to_string(),
    }
}

#[tokio::test]
async fn a_wildcard_host_takes_every_name_under_it_in_every_form_of_target() {
    // Goal: `*.a.test` is all names under a.test, the longer one wins, and an absolute target says its host itself. Method: one
    // request for each host, in both forms; the target's authority equals Host, as it must.
    let gateway = Gateway::start(&routes(&[
        ("any", "path = \"/*\""),
        ("under", "host = \"*.a.test\"\npath = \"/*\""),
        ("deeper", "host = \"*.x.A.test\"\npath = \"/*\""),
        ("exact", "host = \"y.x.a.test\"\npath = \"/*\""),
    ]))
    .await;
    for (host, taker) in [
        ("a.test", "any"),
        ("b.a.test", "under"),
        ("B.a.TEST.:80", "under"),
        ("x.a.test", "under"),
        ("z.x.a.test", "deeper"),
        ("z.y.x.a.test", "deeper"),
        ("y.x.a.test", "exact"),
        ("xa.test", "any"),
        ("127.0.0.1", "any"),
    ] {
        assert_eq!(
            answer(&gateway, get("/p").header("Host", host)).await,
            taker,
            "{host}"
        );
        let mut raw = gateway.raw().await;
        raw.write(format!(
            "GET http://{host}/p?q HTTP/1.1\r\nHost: {host}\r\n\r\n"
        ))
        .await;
        assert_eq!(raw.read_response().await.text(), taker, "{host}");
    }
}

#[tokio::test]
async fn a_limit_on_an_expression_holds_for_every_spelling() {
    // Goal: an expression sees the normal form, so no spelling goes around its limit, to `/*` or to a pattern. Method: the one
    // admission is spent; then spellings must be refused, by the limit or as ambiguous, and other paths pass.
    let gateway = Gateway::start(
        r#"
[server]
max_uri_bytes = "16KiB"
[limit.one]
key = "global"
rates = ["1 per 1h"]
[[route]]
path = "~ ^/v[0-9]+/otp$"
limits = ["one"]
respond = { status = 200 }
[[route]]
path = "/v1/{anything}"
respond = { status = 200 }
[[route]]
path = "/*"
respond = { status = 200 }
"#,
    )
    .await;
    assert_eq!(gateway.post("/v1/otp").await.status, 200);
    for spelling in [
        "/v1/otp",
        "/v22/otp",
        "/v1/otp/",
        "//v1//otp",
        "/v1/%6ftp",
        "/./v1/otp",
        "/v1/otp?x",
        "/v1/otp;x=1",
    ] {
        assert_eq!(gateway.post(spelling).await.status, 429, "{spelling}");
    }
    for ambiguous in ["/v1%2Fotp", "//x/v1/otp", "/v1/otp.php/../otp"] {
        let status = gateway.post(ambiguous).await.status;
        assert!(matches!(status, 400 | 429), "{ambiguous}: {status}");
    }
    // The other reading, with its dots, has no limit.
    for resolved in ["/v1/x/../otp", "/x/../v1/otp"] {
        assert_eq!(gateway.post(resolved).await.status, 429, "{resolved}");
    }
    for other in ["/v1/otps", "/v/otp", "/v1/otp/more", "/w/v1/otp"] {
        assert_eq!(gateway.post(other).await.status, 200, "{other}");
    }
    let long = format!("/v1/{}", "x".repeat(9000));
    gateway.post(&long).await.assert_problem(431);
}

#[tokio::test]
async fn a_query_and_a_client_choose_the_route() {
    // Goal: both conditions, their precedence, that no route is chosen by a query that some origin reads otherwise, and that a refused
    // client cannot spell a parameter away on a kept connection, where repeats are answered before the proxy. Method: clients through a
    // trusted hop, two values of one parameter; then a spent limit asked again and again.
    let rules = routes(&[
        ("any", "path = \"/p\""),
        ("page", "path = \"/p\"\nquery = { page = \"2\" }"),
        (
            "debug",
            "path = \"/p\"\nquery = { page = \"2\", debug = \"*\" }",
        ),
        (
            "office",
            "path = \"/p\"\nclient = [\"10.0.0.0/8\", \"!10.1.0.0/16\"]",
        ),
    ]);
    let rules = format!(
        "[client]\ntrusted_proxies = [\"127.0.0.1\"]\n[limit.one]\nkey = \"global\"\nrates = [\"1 per 1h\"]\n{rules}\
         [[route]]\npath = \"/send\"\nquery = {{ to = \"*\" }}\nlimits = [\"one\"]\nrespond = {{ status = 200 }}\n\
         [[route]]\npath = \"/send\"\nrespond = {{ status = 200 }}\n"
    );
    let gateway = Gateway::start(&rules).await;
    for (target, client, taker) in [
        ("/p", "192.0.2.1", "any"),
        ("/p?page=1", "192.0.2.1", "any"),
        ("/p?page=2", "192.0.2.1", "page"),
        ("/p?x&p%61ge=%32", "192.0.2.1", "page"),
        ("/p?debug&page=2", "192.0.2.1", "debug"),
        ("/p?debug&page=2", "10.0.0.1", "office"),
        ("/p?debug&page=2", "10.1.0.1", "debug"),
        ("/p", "10.1.0.1", "any"),
    ] {
        let request = get(target).forwarded_for(client);
        assert_eq!(answer(&gateway, request).await, taker, "{target} {client}");
    }
    let mut client = gateway.client().await;
    assert_eq!(client.get("/p?page=1&page=2").await.status, 400);
    assert_eq!(client.get("/send?to=1").await.status, 200);
    for _ in 0..3 {
        assert_eq!(client.get("/send?to=1").await.status, 429);
        assert_eq!(client.get("/send?x;t%6f=+").await.status, 429);
        assert_eq!(client.get("/send?two=1").await.status, 200);
    }
}
