//! Spellings of a limited path: whatever a framework dispatches to it is counted, or was rejected.

use std::net::SocketAddr;

use super::{before_each_framework, started};
use crate::harness::*;

/// One request an hour, and it is used up.
const RULES: &str = r#"
[limit.otp]
key = "global"
rates = ["1 per 1h"]
[[route]]
path = "/auth/sendOTP"
limits = ["otp"]
origin = "app"
[[route]]
path = "/*"
origin = "app"
"#;

/// What can stand before the limited path.
const BEFORE: [&str; 41] = [
    "",
    "/",
    "//",
    "/x",
    "//x",
    "///x",
    "////x",
    "/\\x",
    "\\/x",
    "/%2fx",
    "/%5cx",
    "//x:80",
    "//x:",
    "//u:p@x",
    "//@",
    "//x;y",
    "//x%20",
    "//[::1]",
    "//.",
    "//..",
    "/./",
    "/.//x",
    "/x/..",
    "/x/../",
    "/x//..",
    "//x/..//y",
    "//x\\y",
    "/%2e",
    "/;x",
    "/x/..;/..",
    "/index.php",
    "/router.php",
    "/x.php",
    "/x/index.php",
    "/?",
    "/index.php?",
    "/x/..?",
    "/x\\..?",
    "//?",
    "/%2e?",
    "/x%2f..?",
];

/// What can stand in the middle of it, and behind it.
const WITHIN: [&str; 30] = [
    "/",
    "//",
    "/./",
    "/x/../",
    "/x/%2e%2e/",
    "//../",
    "/..;/../",
    "/;x/../",
    "/.;/",
    "/a%2fb\\..\\",
    "/a\\b%2f..%2f",
    "\\",
    "%2f",
    "%5c",
    "%252f",
    "/x/..%2f",
    "/x/..\\",
    "/x/.%2e/",
    ";/",
    ";x/",
    "%3b/",
    "/%2e/",
    "/%2e/../",
    "/.%2E/../",
    "/.;/../",
    "\\%2e\\..\\",
    "/index.php/",
    "/?/",
    "?/",
    "/index.php?/",
];
const BEHIND: [&str; 28] = [
    "", "/", "//", "/.", "/x/..", "//..", "/x//..", "/..;/..", ";", ";x", ";/x", ";x/..", "%2f",
    "\\", "/%2e", "%2f..", "?/../x", "?x", "/%2e%2e", "%00", "/.%2e/..", ".json", ".x/", ".",
    "%20", "%3bx", "%3Fx", "%23x",
];

/// Every spelling: one thing is changed, or two.
fn spellings() -> Vec<String> {
    let letters = [
        "/auth/send%FFOTP",
        "/%80auth/%C3sendOTP%E2%82",
        "/auth/sendOTP%ED%A0%80",
        "/auth%2Fsend%FFOTP",
        "/auth/.%FF./auth/sendOTP",
        "/auth/\u{17f}endOTP",
        "/auth/%c5%bfendOTP",
        "/AUTH/%C5%BFENDOTP/",
        "/index.phpauth/sendOTP",
        "/%69ndex.ph%70auth/sendOTP/",
        "/INDEX.PHPauth/sendOTP",
        "/x/../index.phpauth%2FsendOTP",
        "/auth/../sendOTP",
        "/../auth/sendOTP/..",
        "/auth/../../sendOTP/..",
        "/index.php/auth/../sendOTP",
        "/auth/sendOTP%3fx/y",
        "/auth/sendOTP%3F/../../x",
        "/x%3F/../auth/sendOTP%23/..",
        "/index.php/auth/sendOTP%253Fx=1",
        "/x&url=auth/sendOTP",
        "/x%26url=auth%2FsendOTP",
        "/x&url=y&url=/auth/sendOTP&y",
        "/index.php/%20auth/%20%20sendOTP%20",
    ];
    let mut spellings: Vec<String> = letters.map(str::to_owned).into();
    for before in BEFORE {
        spellings.push(format!("{before}/auth/sendOTP"));
        for within in ["//../", "/x/../", "\\", "%2f"] {
            spellings.push(format!("{before}/auth{within}sendOTP"));
        }
        for behind in ["/", ";/x", "/x/.."] {
            spellings.push(format!("{before}/auth/sendOTP{behind}"));
        }
    }
    for within in WITHIN {
        for behind in BEHIND {
            spellings.push(format!("/auth{within}sendOTP{behind}"));
        }
    }
    spellings
}

/// A gateway before the application, whose limit admits nothing any more.
async fn used_up(server: SocketAddr) -> Gateway {
    let gateway = Setup::new()
        .servers("app", &[server])
        .rules(RULES)
        .start()
        .await;
    let first = gateway.send(post(LIMITED).body("x=1")).await;
    assert!(Reading::is_limited(&first), "{first:?}");
    gateway
}

mod readings {
    use super::*;

    before_each_framework!(find_no_way_around);

    async fn find_no_way_around(framework: Framework) {
        // Goal: after its one request, nothing reaches the limited route. Method: each spelling in its exact bytes; the application says
        // where it dispatched it.
        let server = framework.start().await;
        let gateway = used_up(server.address()).await;
        let second = gateway.send(post(LIMITED).body("x=1")).await;
        assert_eq!(second.status, 429);
        let mut reached = 0;
        for spelling in spellings() {
            let mut raw = gateway.raw().await;
            raw.write(format!(
                "POST {spelling} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            ))
            .await;
            let answer = raw.try_read_response().await.unwrap();
            assert!(
                !Reading::is_limited(&answer),
                "{spelling}: {}",
                answer.text()
            );
            reached += usize::from(Reading::of(&answer).is_some());
        }
        // Without this the test could pass because nothing does.
        assert!(reached > 10, "{reached}");
    }
}

mod methods {
    use super::*;

    before_each_framework!(share_the_limit);

    async fn share_the_limit(framework: Framework) {
        // Goal: a route without `methods` holds for all that a framework answers, in any case of the path. Method: each after the limit
        // is used up.
        let server = framework.start().await;
        let gateway = used_up(server.address()).await;
        for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"] {
            for path in [LIMITED, "/auth/sendotp", "/AUTH/SENDOTP/"] {
                let answer = gateway.send(request(method, path).body("x=1")).await;
                assert_eq!(answer.status, 429, "{method} {path}: {answer:?}");
            }
        }
    }
}

mod clients {
    use super::*;

    before_each_framework!(may_be_careless);

    async fn may_be_careless(framework: Framework) {
        // Goal: a doubled slash, as careless clients send it, is no reason to refuse where no limit is lost. Method: other paths with
        // one.
        let (_server, gateway) = started(framework, RULES).await;
        for path in [
            "//images/x.png",
            "/a//b",
            "//a//b",
            "/a;v=1/b",
            "/index.php/a",
        ] {
            let answer = gateway.get(path).await;
            assert_ne!(answer.status, 400, "{path}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_route_that_a_parameter_names_is_limited_by_a_second_route() {
    // Goal: what docs/paths.md says to write before `index.php?url=$1` holds. Method: the parameter by itself, beside a path, and in the
    // spellings of PHP, once the limit is used up; without the second route the first of them reaches the limited one.
    if !Framework::Apache.is_at_hand() {
        return;
    }
    let server = Framework::Apache.start().await;
    let second =
        "[[route]]\npath = \"/*\"\nquery = { url = \"*\" }\nlimits = [\"otp\"]\norigin = \"app\"\n";
    for (rules, is_open) in [
        (RULES.to_owned(), true),
        (format!("{RULES}{second}"), false),
    ] {
        let gateway = Setup::new()
            .servers("app", &[server.address()])
            .rules(&rules)
            .start()
            .await;
        let first = gateway.send(post(LIMITED).body("x=1")).await;
        assert!(Reading::is_limited(&first), "{first:?}");
        for target in [
            "/?url=auth/sendOTP",
            "/x?a=1&url=/auth/sendOTP",
            "/x?+url=auth%2FsendOTP",
            "/x?%75rl=auth/sendOTP",
        ] {
            let answer = gateway.send(post(target).body("x=1")).await;
            assert_eq!(
                Reading::is_limited(&answer),
                is_open,
                "{target}: {answer:?}"
            );
            assert!(is_open || answer.status == 429, "{target}: {answer:?}");
        }
    }
}
