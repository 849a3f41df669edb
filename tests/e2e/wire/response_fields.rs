//! The number of header fields that an answer may have.

use super::echo::EchoOrigin;
use crate::harness::{Answer, Gateway, Origin, Setup, Writing, get};

/// An origin of HTTP/1.1 that answers `/fields/300` with 300 fields, the length included.
fn with_fields() -> Origin {
    Origin::answering(|received| {
        let fields: usize = received.target.rsplit('/').next().unwrap().parse().unwrap();
        (1..fields)
            .fold(Answer::new(200), |answer, number| {
                answer.header(&format!("x-{number}"), "y")
            })
            .into()
    })
}

/// Routes to both origins; `line` belongs to each of them.
fn setup(http1: &Origin, http2: &EchoOrigin, line: &str) -> Setup {
    let route = |name| {
        format!(
            "[[route]]\npath = \"/{name}/*\"\norigin = \"{name}\"\nstrip_prefix = \"/{name}\"\n"
        )
    };
    Setup::new()
        .origin("http1", http1)
        .origin_line(line)
        .servers("http2", &[http2.address])
        .origin_line("protocol = \"h2c\"")
        .origin_line(line)
        .rules(&["http1", "http2"].map(route).concat())
}

/// Asks both origins for so many fields. Returns the statuses, and how many of the fields came.
async fn ask(gateway: &Gateway, fields: usize) -> Vec<(u16, usize)> {
    let client = gateway.h2c().await;
    let mut found = Vec::new();
    for name in ["http1", "http2"] {
        let answer = client.send(get(&format!("/{name}/fields/{fields}"))).await;
        let own = answer.headers.keys();
        let own = own.filter(|name| name.as_str().starts_with("x-") && *name != "x-request-id");
        found.push((answer.status, own.count()));
    }
    found
}

/// Asks an origin for so many fields over HTTP/1.1. Returns how many of them came.
async fn ask_by_http1(gateway: &Gateway, name: &str, fields: usize) -> usize {
    let mut raw = gateway.raw().await;
    raw.write(format!(
        "GET /{name}/fields/{fields} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
    ))
    .await;
    let answer = String::from_utf8(raw.read_to_end().await).unwrap();
    let lines = answer.lines();
    lines
        .filter(|line| line.starts_with("x-") && line.ends_with(": y"))
        .count()
}

#[tokio::test]
async fn the_number_of_fields_is_that_of_the_origin() {
    // Goal: an answer has at most `max_response_fields` fields, 256 by default, from origins of both versions; one with more is 502, its
    // cause names the key, and a reload changes the number. Method: answers at the bound and beyond it, by default, with 400 and with 20.
    let (http1, http2) = (with_fields(), EchoOrigin::start().await);
    let mut gateway = setup(&http1, &http2, "").start().await;
    assert_eq!(ask(&gateway, 256).await, [(200, 255); 2]);
    assert_eq!(ask(&gateway, 300).await, [(502, 0); 2]);
    for most in [400, 20] {
        let line = format!("max_response_fields = {most}");
        let before = gateway.generation().await;
        gateway.write_setup(setup(&http1, &http2, &line), Writing::Rename);
        gateway.serves_after(before).await;
        assert_eq!(ask(&gateway, most).await, [(200, most - 1); 2]);
        assert_eq!(ask(&gateway, most + 1).await, [(502, 0); 2]);
        for name in ["http1", "http2"] {
            assert_eq!(ask_by_http1(&gateway, name, most).await, most - 1);
        }
    }
    let lines = gateway.access_lines(16).await;
    for most in [256, 400, 20] {
        let reason = format!(
            "more than {most} header fields; raise max_response_fields of this origin if they are right"
        );
        let same = lines.iter().filter(|line| line["reason"] == reason);
        let failures: Vec<_> = same.map(|line| &line["failure"]).collect();
        assert_eq!(failures, ["too-many-fields"; 2], "{reason}: {lines:?}");
    }
}
