//! Heads of HTTP/1.1 of which no request can be made.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::*;

/// Fields of each response, and a route.
const RULES: &str = r#"
    [response_headers]
    set = { "x-own" = "1" }
    [[route]]
    path = "/*"
    respond = { status = 200, body = "here" }
"#;

/// Returns the names of the fields of a line, other than the host, which is read of a whole head alone.
fn names(line: &Value) -> BTreeSet<&str> {
    let names = line.as_object().unwrap().keys().map(String::as_str);
    names.filter(|name| *name != "host").collect()
}

#[tokio::test]
async fn a_malformed_head_is_answered_as_any_other_rejection() {
    // Goal: what the parser rejects has the fields of each response and the line of the access log that a rejection by the gateway has.
    // Method: a head with two lengths and one of HEAD, beside one that the parser takes and the gateway rejects.
    let gateway = Gateway::start(RULES).await;
    let mut lines = Vec::new();
    for (method, line) in [
        ("GET", "Connection: host, close"),
        ("GET", "Content-Length: 1\r\nContent-Length: 2"),
        ("HEAD", "Content-Length: 1\r\nContent-Length: 2"),
        ("B(D", "A: b"),
    ] {
        let mut raw = gateway.raw().await;
        raw.write(format!(
            "{method} /a HTTP/1.1\r\nHost: a.test\r\n{line}\r\n\r\n"
        ))
        .await;
        let answer = String::from_utf8(raw.read_to_end().await).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        for field in [
            "x-own: 1",
            "connection: close",
            "content-type: application/problem+json",
        ] {
            assert!(head.contains(&format!("\r\n{field}")), "{answer}");
        }
        assert_eq!(body.is_empty(), method == "HEAD", "{answer}");
        // Each line is awaited: those of several connections come in any order.
        lines = gateway.access_lines(lines.len() + 1).await;
        let line = lines.last().unwrap();
        assert_eq!(names(line), names(&lines[0]), "{line}");
        assert_eq!(
            (&line["method"], &line["target"]),
            (&method.into(), &"/a".into())
        );
        assert_eq!(
            (&line["status"], &line["outcome"]),
            (&400.into(), &"rejected".into())
        );
        assert_eq!(line["bytes_out"], body.len(), "{line}");
    }
}

#[tokio::test]
async fn answers_before_a_malformed_head_come_first() {
    // Goal: RFC 9112 §9.3.2, a request that was received with a malformed one is answered before it. Method: both in one write.
    let gateway = Gateway::start(RULES).await;
    let mut raw = gateway.raw().await;
    raw.write("GET /a HTTP/1.1\r\nHost: a.test\r\n\r\nGET /b HTTP/1.1\r\nHost : a.test\r\n\r\n")
        .await;
    assert_eq!(raw.read_response().await.text(), "here");
    raw.read_response().await.assert_problem(400);
}
