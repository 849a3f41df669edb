//! Responses without a body that announce one all the same, RFC 9110 §8.6.

use crate::harness::frames::{Fate, Frames, get as get_block};
use crate::harness::*;

/// A route that keeps responses, and one that does not.
const ROUTES: &str = r#"
    [[route]]
    path = "/kept/*"
    origin = "app"
    [route.cache]
    [[route]]
    path = "/*"
    origin = "app"
"#;

/// An origin that answers with 204 and a length, behind an interim response with one.
fn origin() -> Origin {
    Origin::answering(|received| {
        let hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 3\r\n\r\n";
        let end = b"HTTP/1.1 204 None\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\n";
        let hints = if received.target.contains("hints") {
            &hints[..]
        } else {
            b""
        };
        Reply::Raw([hints, end].concat())
    })
}

#[tokio::test]
async fn a_response_without_a_body_has_no_length() {
    // Goal: a client gets no length with a 204 or an interim response: RFC 9110 §8.6 forbids it, and clients of HTTP/2 reset the stream.
    // Method: all versions, plain and kept, with and without early hints, which h2 and h3 check at the client too.
    let origin = origin();
    for version in Version::ALL {
        let gateway = Gateway::before_by(version, &origin, ROUTES).await;
        for path in ["/plain", "/plain?hints", "/kept/a", "/kept/a?hints"] {
            let answer = gateway.get(path).await;
            let case = format!("{version:?} {path}: {answer:?}");
            assert_eq!(answer.status, 204, "{case}");
            assert_eq!(answer.header("content-length"), None, "{case}");
        }
    }
    let gateway = Gateway::before(&origin, ROUTES).await;
    let mut raw = gateway.raw().await;
    raw.write("GET /?hints HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
        .await;
    let answers = String::from_utf8(raw.read_to_end().await).unwrap();
    assert!(answers.starts_with("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"));
    assert!(!answers.contains("content-length"), "{answers}");

    // Both heads reach a client of HTTP/2.
    let mut frames = Frames::connect(gateway.address()).await;
    frames.request(1, &get_block(b"/?hints", &[])).await;
    assert_eq!(frames.fate(1).await, Fate::Answered(103));
    assert_eq!(frames.fate(1).await, Fate::Answered(204));
}

#[tokio::test]
async fn a_kept_response_without_a_body_is_served() {
    // Goal: a 204 that announces a body is kept, since it has none: the second request is a hit. Method: two requests in each version.
    for version in Version::ALL {
        let origin = origin();
        let gateway = Gateway::before_by(version, &origin, ROUTES).await;
        let first = gateway.get("/kept/a").await;
        let second = gateway.get("/kept/a").await;
        for (answer, told) in [(&first, "fwd=uri-miss; stored"), (&second, "; hit")] {
            let status = answer.header("cache-status").unwrap();
            assert!(status.contains(told), "{version:?}: {answer:?}");
            assert_eq!(answer.header("content-length"), None, "{answer:?}");
        }
        assert_eq!(origin.count(), 1, "{version:?}");
    }
}
