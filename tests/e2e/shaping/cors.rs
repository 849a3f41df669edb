//! Pages of other origins: what browsers are told, on preflights, answers, refusals and failures.

use crate::explain::explained;
use crate::harness::*;

const RULES: &str = r#"
[limit.two]
key = "client.ip"
rates = ["2 per 1h"]

[limit.none]
key = "global"
rates = ["1 per 1h"]

[[route]]
path = "/api/*"
methods = ["POST", "PUT"]
origin = "app"
limits = ["two"]
[route.cors]
origins = ["https://app.example.com", "https://*.example.org"]
credentials = true
expose = ["x-total"]
max_age = "1h"

[[route]]
path = "/public/*"
origin = "app"
cors = { origins = ["*"], methods = ["GET"], headers = ["x-key"] }

[[route]]
path = "/*"
origin = "app"
limits = ["none"]
"#;

const PAGE: &str = "https://app.example.com";

fn preflight(target: &str, page: &str, method: &str) -> Request {
    options(target)
        .header("Origin", page)
        .header("Access-Control-Request-Method", method)
        .header("Access-Control-Request-Headers", "content-type, x-key")
}

#[tokio::test]
async fn a_preflight_is_answered_before_the_limits_and_by_the_route_it_asks_about() {
    // Goal: preflights charge nothing, reach no origin, and belong to the route of the request that follows, which takes no OPTIONS
    // itself. Method: more of them than the limit has, then the requests.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, RULES).await;
    for page in [PAGE, "https://a.b.example.org"] {
        for _ in 0..3 {
            let answer = gateway.send(preflight("/api/x", page, "PUT")).await;
            assert_eq!(answer.status, 204);
            assert_eq!(answer.all("access-control-allow-origin"), [page]);
            assert_eq!(
                answer.header("access-control-allow-credentials"),
                Some("true")
            );
            assert_eq!(answer.header("access-control-allow-methods"), Some("PUT"));
            let fields = answer.header("access-control-allow-headers");
            assert_eq!(fields, Some("content-type, x-key"));
            assert_eq!(answer.header("access-control-max-age"), Some("3600"));
            assert!(answer.header("vary").unwrap().starts_with("origin"));
            assert_eq!(answer.header("ratelimit"), None);
        }
    }
    assert_eq!(origin.count(), 0);
    let request = || post("/api/x").header("Origin", PAGE);
    assert_eq!(gateway.send(request()).await.remaining("two"), 1);
    let public = gateway.send(preflight("/public/x", PAGE, "GET")).await;
    assert_eq!(public.all("access-control-allow-origin"), ["*"]);
    assert_eq!(public.header("access-control-allow-methods"), Some("GET"));
    assert_eq!(public.header("access-control-allow-headers"), Some("x-key"));
    let rules = format!(
        "[[listener]]\nname = \"ask\"\naddress = \"127.0.0.1:2\"\nprotocol = \"forward-auth\"\n\
         [client]\ntrusted_proxies = [\"10.0.0.0/8\"]\n[origin.app]\nservers = [\"127.0.0.1:1\"]\n{RULES}"
    );
    let asked = [
        "--request",
        "OPTIONS /api/x",
        "--header",
        "Origin: https://app.example.com",
        "--header",
        "Access-Control-Request-Method: PUT",
    ];
    let served = explained(&rules, &[], &asked).await;
    let outcome = "answered by the gateway as a CORS preflight, before any limit";
    assert!(served.contains(outcome), "{served}");
    // A proxy that asks about a preflight forwards it.
    let asked = [&asked[..], &["--listener", "ask"]].concat();
    let forwarded = explained(&rules, &[], &asked).await;
    assert!(!forwarded.contains(outcome), "{forwarded}");
    assert!(forwarded.contains("two: client.ip = "), "{forwarded}");
}

#[tokio::test]
async fn what_is_no_preflight_or_of_no_such_route_is_routed_as_ever() {
    // Goal: no way around a limit by pretending to be a preflight. Method: OPTIONS that lack a field, and one whose method is another
    // route's; the limit of one stands before them.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, RULES).await;
    let plain = options("/api/x").header("Origin", PAGE);
    assert_eq!(gateway.send(plain.clone()).await.status, 200);
    assert_eq!(gateway.send(plain).await.status, 429);
    let other = gateway.send(preflight("/api/x", PAGE, "DELETE")).await;
    assert_eq!(other.status, 429);
    assert_eq!(other.header("access-control-allow-origin"), None);
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn a_page_that_is_allowed_can_read_refusals_and_failures() {
    // Goal: 429 with Retry-After and RateLimit can be read, also where refusals repeat, and so can a 502; what the origin says of
    // its own is replaced. Method: a limit of two, and an origin that is gone.
    let origin = Origin::answering(|_| {
        let answer = Answer::new(200).header("access-control-allow-origin", "*");
        Reply::Answer(answer.header("vary", "accept").body("ok"))
    });
    let gateway = Gateway::before(&origin, RULES).await;
    let request = || post("/api/x").header("Origin", PAGE);
    let mut client = gateway.client().await;
    for status in [200, 200, 429, 429, 429] {
        let answer = client.send(request()).await;
        assert_eq!(answer.status, status);
        assert_eq!(
            answer.all("access-control-allow-origin"),
            [PAGE],
            "{status}"
        );
        let exposed = answer.header("access-control-expose-headers").unwrap();
        for name in ["x-total", "retry-after", "ratelimit", "x-request-id"] {
            assert!(
                exposed.split(", ").any(|exposed| exposed == name),
                "{exposed}"
            );
        }
        let vary = answer.all("vary").join(", ");
        assert!(vary.contains("origin"), "{vary}");
    }
    let stranger = post("/api/x").header("Origin", "https://evil.test");
    let stranger = client.send(stranger).await;
    assert_eq!(stranger.header("access-control-allow-origin"), None);
    assert_eq!(stranger.all("vary"), ["origin"]);
    origin.stop();
    let failed = gateway.send(get("/public/x").header("Origin", PAGE)).await;
    assert_eq!(failed.status, 502);
    assert_eq!(failed.all("access-control-allow-origin"), ["*"]);
    assert!(!failed.all("vary").join(", ").contains("origin"));
}
