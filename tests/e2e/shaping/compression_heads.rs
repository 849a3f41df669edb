//! Answers to HEAD on routes that compress.

use std::collections::BTreeMap;

use crate::harness::*;

/// Fields that differ between two answers to one request, or that frame a body.
const OF_ONE_ANSWER: [&str; 6] = [
    "age",
    "cache-status",
    "connection",
    "date",
    "transfer-encoding",
    "x-request-id",
];

/// The fields that describe what an answer represents.
fn description(answer: &Response) -> BTreeMap<String, Vec<String>> {
    let names = answer.headers.keys().map(http::HeaderName::as_str);
    let names = names.filter(|name| !OF_ONE_ANSWER.contains(name));
    let owned = |text: &str| text.to_owned();
    names
        .map(|name| {
            let values = answer.all(name).into_iter().map(owned);
            (owned(name), values.collect())
        })
        .collect()
}

#[tokio::test]
async fn an_answer_to_head_describes_that_to_get() {
    // Goal: RFC 9110 §8.6 and §9.3.2: an answer to HEAD has the fields of that to GET, and no length but its own. Method: both methods by
    // each version of HTTP, with a coding and without, for a long answer and a short one; on a plain route, and on one with a cache, where
    // HEAD is a miss and a hit.
    let origin = Origin::answering(|request| {
        let length = match request.target.split('?').next() {
            Some("/short") => 10,
            _ => 5_000,
        };
        Answer::new(200)
            .header("Content-Type", "text/html")
            .header("Cache-Control", "max-age=60")
            .header("ETag", "\"1\"")
            .header("Repr-Digest", "sha-256=:ZGlnZXN0:")
            .body("a".repeat(length))
            .into()
    });
    for cache in ["", "[route.cache]"] {
        let rules = format!("[[route]]\npath = \"/*\"\norigin = \"app\"\ncompress = {{}}\n{cache}");
        for by in Version::ALL {
            let gateway = Gateway::before_by(by, &origin, &rules).await;
            for path in ["/long", "/short"] {
                for accepted in ["gzip", "identity"] {
                    let target = format!("{path}?{accepted}");
                    let sent = |request: Request| {
                        gateway.send(request.header("Accept-Encoding", accepted))
                    };
                    let first = sent(head(&target)).await;
                    let whole = sent(get(&target)).await;
                    let second = sent(head(&target)).await;
                    let is_coded = (path, accepted) == ("/long", "gzip");
                    let coding = whole.header("content-encoding");
                    assert_eq!(coding.is_some(), is_coded, "{target}");
                    let expected = description(&whole);
                    for answer in [first, second] {
                        assert_eq!(description(&answer), expected, "{cache} {by:?} {target}");
                        assert_eq!(answer.body.len(), 0);
                    }
                }
            }
        }
    }
}
