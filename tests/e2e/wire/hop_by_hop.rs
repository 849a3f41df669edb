//! Fields of an origin's response that end at the gateway, RFC 9110 §7.6.1.

use crate::harness::*;

/// A route that copies most fields as bytes, and one that edits them.
const ROUTES: &str = r#"
    [[route]]
    path = "/edited/*"
    origin = "app"
    [route.response_headers]
    set = { "x-own" = "1" }
    [[route]]
    path = "/*"
    origin = "app"
"#;

/// Field lines of a response that are about its connection.
const OF_CONNECTION: &[u8] =
    b"Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\n\
    Trailer: X-T\r\nUpgrade: h2,h2c\r\n";

/// Names of these fields, and of one that `Connection` names.
const GONE: [&str; 6] = [
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "x-hop",
];

/// An origin that answers with the field lines of a connection, behind a `Connection` field with these options.
fn origin(status: u16, options: &'static [u8]) -> Origin {
    Origin::answering(move |_| {
        let head = format!("HTTP/1.1 {status} Told\r\nX-Hop: secret\r\nConnection: ");
        let rest = b"X-End: kept\r\nContent-Length: 2\r\n\r\nok";
        Reply::Raw([head.as_bytes(), options, b"\r\n", OF_CONNECTION, rest].concat())
    })
}

#[tokio::test]
async fn fields_of_a_connection_end_at_the_gateway() {
    // Goal: no hop-by-hop field of a response reaches a client, whether or not `Connection` names a field, has an element that is no
    // token, or the route edits the fields. Method: options of each kind, all versions, both routes.
    for (options, hop) in [
        (&b"Upgrade"[..], Some("secret")),
        (b"Upgrade, X-Hop", None),
        (b"X-Hop, \xe9", None),
        (b"\"a\", close\t,,X-HOP", None),
    ] {
        let origin = origin(200, options);
        for version in Version::ALL {
            let gateway = Gateway::before_by(version, &origin, ROUTES).await;
            for path in ["/plain", "/edited/a"] {
                let answer = gateway.get(path).await;
                let case = format!("{} {version:?} {path}: {answer:?}", options.escape_ascii());
                assert_eq!(answer.header("x-end"), Some("kept"), "{case}");
                assert_eq!(answer.header("x-hop"), hop, "{case}");
                for name in GONE.iter().filter(|name| **name != "x-hop") {
                    assert_eq!(answer.header(name), None, "{name}, {case}");
                }
                let connection = answer.header("connection").unwrap_or_default();
                let is_own = matches!(connection, "" | "keep-alive" | "close");
                assert!(is_own, "{case}");
            }
        }
    }
}

#[tokio::test]
async fn a_required_upgrade_is_named() {
    // Goal: RFC 9110 §15.5.22, the client of a 426 learns the protocol that it must ask for, and `Connection` says so (§7.8); over HTTP/2,
    // and HTTP/3, which have no upgrade (RFC 9113 §8.6), neither is there. Method: all versions, both routes.
    let origin = origin(426, b"Upgrade, X-Hop");
    for version in Version::ALL {
        let gateway = Gateway::before_by(version, &origin, ROUTES).await;
        for path in ["/plain", "/edited/a"] {
            let answer = gateway.get(path).await;
            let found = [answer.header("upgrade"), answer.header("connection")];
            let expected = match version {
                Version::Http1 => [Some("h2,h2c"), Some("keep-alive, upgrade")],
                Version::Http2 | Version::Http3 => [None, None],
            };
            assert_eq!(
                (answer.status, found),
                (426, expected),
                "{version:?} {path}: {answer:?}"
            );
            for name in GONE.iter().filter(|name| **name != "upgrade") {
                assert_eq!(answer.header(name), None, "{name}: {answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn fields_of_a_connection_in_interim_responses_end_at_the_gateway() {
    // Goal: the same for an interim response, RFC 9110 §15.2. Method: early hints with each field, as HTTP/1.1.
    let origin = Origin::answering(|_| {
        let head = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: X-Hop\r\nX-Hop: 1\r\n";
        let rest = b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        Reply::Raw([&head[..], OF_CONNECTION, rest].concat())
    });
    let gateway = Gateway::before(&origin, ROUTES).await;
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
        .await;
    let answers = String::from_utf8(raw.read_to_end().await).unwrap();
    let (interim, rest) = answers.split_once("\r\n\r\n").unwrap();
    assert_eq!(interim, "HTTP/1.1 103 Early Hints\r\nlink: </a>");
    assert!(rest.starts_with("HTTP/1.1 200 OK\r\n"), "{answers}");
}
