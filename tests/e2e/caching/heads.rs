//! Requests that are answered by a head alone, or by a part, while all of the answer is fetched for the cache.

use std::time::Duration;

use super::*;
use crate::harness::frames::{
    DATA, END_HEADERS, END_STREAM, Fate, Frames, HEADERS, RST_STREAM, frame,
};

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// Ten digits in two pieces behind their head, so that no two of the three are read at once.
fn slow(fields: &'static str) -> Origin {
    Origin::answering(move |_| {
        let head = format!(
            "HTTP/1.1 200 OK\r\n{fields}\r\nETag: \"d\"\r\nLast-Modified: {DATE}\r\nContent-Length: 10\r\n\r\n"
        );
        let pieces = vec![head.into_bytes(), b"01234".to_vec(), b"56789".to_vec()];
        Reply::Pieces(pieces, Duration::from_millis(100))
    })
}

/// Requests for less than the whole, and the status of their answers.
fn asking_for_less(target: &str) -> Vec<(Request, u16)> {
    vec![
        (head(target), 200),
        (get(target).header("If-None-Match", "\"d\""), 304),
        (get(target).header("If-Modified-Since", DATE), 304),
        (head(target).header("If-None-Match", "\"d\""), 304),
        (get(target).header("Range", "bytes=10-"), 416),
    ]
}

async fn a_partial_request_gets_its_part_and_the_whole_is_stored(by: Version) {
    // Goal: the first browser after an expiry gets its 304, HEAD its head, and the next client the whole out of the cache. Method: an
    // origin that takes its time between head and body; each request before anything is stored, and after.
    for (request, status) in asking_for_less("/") {
        let origin = slow("Cache-Control: max-age=60");
        let gateway = before(by, &origin, &storing("")).await;
        let mut client = gateway.client().await;
        for _ in 0..2 {
            let answer = client.send(request.clone()).await;
            assert_eq!((answer.status, answer.text()), (status, ""), "{request:?}");
        }
        assert_eq!(client.get("/").await.text(), "0123456789");
        assert!(is_hit(&client.get("/").await), "{request:?}");
        assert_eq!(origin.count(), 1, "{request:?}");
    }
}

async fn a_partial_request_for_an_unstored_answer_gets_its_part(by: Version) {
    // Goal: the same where the answer may not be stored after all. Method: the same requests, many on one connection, to an origin that
    // forbids it; a body that is longer than anybody drops belongs to some.
    let origin = Origin::answering(|received| {
        let length = if received.target == "/long" {
            4 << 20
        } else {
            10
        };
        Answer::new(200)
            .header("Cache-Control", "no-store")
            .header("ETag", "\"d\"")
            .header("Last-Modified", DATE)
            .body("x".repeat(length))
            .into()
    });
    let gateway = before(by, &origin, &storing("")).await;
    let mut client = gateway.client().await;
    // Each at URLs of its own: what could not be stored is remembered, and the origin then gets what the client sent.
    for number in 0..60 {
        let mut asking = asking_for_less(&format!("/{number}"));
        let (request, status) = asking.swap_remove(number % 5);
        let answer = client.send(request.clone()).await;
        assert_eq!((answer.status, answer.text()), (status, ""), "{request:?}");
    }
    for _ in 0..3 {
        assert_eq!(gateway.send(head("/long")).await.status, 200);
    }
    assert_eq!(gateway.get("/").await.body.len(), 10);
}

async fn a_head_is_given_though_the_body_fails(by: Version) {
    // Goal: an origin that breaks off in the body loses no head, and nothing is stored. Method: half a body, then the close.
    let origin = Origin::answering(|_| {
        let half =
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\n01234";
        Reply::Raw(half.into())
    });
    let gateway = before(by, &origin, &storing("")).await;
    for _ in 0..2 {
        let answer = gateway.send(head("/")).await;
        assert_eq!((answer.status, answer.text()), (200, ""));
        assert!(!is_hit(&answer), "{answer:?}");
    }
    assert_eq!(origin.count(), 2);
}

async fn a_client_with_its_range_delays_no_other(by: Version) {
    // Goal: a client that has its range before the origin has sent the rest leaves no other waiting. Method: a range of a slow answer
    // while
    // another client waits for the whole.
    let origin = slow("Cache-Control: max-age=60");
    let gateway = before(by, &origin, &storing("")).await;
    let (mut one, mut other) = (gateway.client().await, gateway.client().await);
    let part = tokio::spawn(async move { one.send(get("/").header("Range", "bytes=0-1")).await });
    origin.is_asked(1).await;
    let whole = tokio::time::timeout(Duration::from_secs(4), other.get("/")).await;
    assert_eq!(whole.expect("nobody waits in vain").text(), "0123456789");
    let part = part.await.unwrap();
    assert_eq!((part.status, part.text()), (206, "01"));
    let told = gateway.stderr();
    assert!(
        !told.contains("angling") && !told.contains("panic"),
        "{told}"
    );
}

async fn a_partial_request_refreshes_a_stale_answer(by: Version) {
    // Goal: a HEAD or a condition that is served a stale answer has the whole fetched, and stored. Method: an answer that is stale
    // from the
    // start, asked for by each; the next GET gets the new one.
    for (request, _) in asking_for_less("/").into_iter().take(4) {
        let count = AtomicUsize::new(0);
        let origin = Origin::answering(move |_| {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let age = if number == 0 { 100 } else { 0 };
            let head = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60, stale-while-revalidate=3600\r\nAge: {age}\r\nETag: \"d\"\r\n\
                 Last-Modified: {DATE}\r\nContent-Length: 8\r\n\r\n"
            );
            let body = format!("answer {number}").into_bytes();
            Reply::Pieces(vec![head.into_bytes(), body], Duration::from_millis(50))
        });
        let gateway = before(by, &origin, &storing("")).await;
        assert_eq!(gateway.get("/").await.text(), "answer 0");
        let stale = gateway.send(request.clone()).await;
        assert!(told(&stale).starts_with("hit; ttl=-"), "{stale:?}");
        eventually("the new answer is served", async || {
            (gateway.get("/").await.text() == "answer 1").then_some(())
        })
        .await;
        assert_eq!(origin.count(), 2, "{request:?}");
    }
}

/// An origin that tells the body it was sent, for a minute.
fn fat() -> Origin {
    Origin::answering(|received| {
        with(&[("Cache-Control", "max-age=60")])
            .body(format!("body: {}", received.text()))
            .into()
    })
}

async fn a_get_with_a_body_is_neither_stored_nor_answered_from_what_is(by: Version) {
    // Goal: the body of a GET, which frameworks read and no key contains, cannot poison the cache. Method: such requests before
    // and after the page is stored.
    let origin = fat();
    let gateway = before(by, &origin, &storing("")).await;
    for method in ["GET", "HEAD"] {
        gateway.send(request(method, "/").body("evil")).await;
    }
    for hit in [false, true] {
        let page = gateway.get("/").await;
        assert_eq!((page.text(), is_hit(&page)), ("body: ", hit));
        let own = gateway.send(get("/").body("evil")).await;
        assert_eq!((own.text(), is_hit(&own)), ("body: evil", false));
    }
}

#[tokio::test]
async fn a_body_is_seen_however_it_is_framed() {
    // Goal: as above, in each framing. Method: frames by hand, and chunks; the page that others get stays clean.
    let length: &[(&[u8], &[u8])] = &[(b"content-length", b"4")];
    for (fields, pieces) in [
        (&[][..], ["evil", ""]),
        (&[][..], ["", "evil"]),
        (length, ["evil", ""]),
        (length, ["ev", "il"]),
    ] {
        let origin = fat();
        let gateway = Gateway::before(&origin, &storing("")).await;
        let mut frames = Frames::connect(gateway.address()).await;
        let block = frames::get(b"/", fields);
        frames.write(&frame(HEADERS, END_HEADERS, 1, &block)).await;
        frames.write(&frame(DATA, 0, 1, pieces[0].as_bytes())).await;
        let end = frame(DATA, END_STREAM, 1, pieces[1].as_bytes());
        frames.write(&end).await;
        assert_eq!(frames.fate(1).await, Fate::Answered(200));
        assert_eq!(origin.only_request().text(), "evil");
        assert_eq!(gateway.get("/").await.text(), "body: ");
    }
    let origin = fat();
    let gateway = Gateway::before(&origin, &storing("")).await;
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: gateway.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n")
        .await;
    assert_eq!(raw.read_response().await.text(), "body: evil");
    assert_eq!(gateway.get("/").await.text(), "body: ");
}

/// Where an origin stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    BeforeHead,
    BehindHead,
    InBody,
}

#[tokio::test]
async fn a_client_that_leaves_delays_no_other() {
    // Goal: a client that leaves while its answer is fetched leaves no lock behind. Method: an origin that stands still before its head,
    // behind it, or in its body; a client that closes, by HTTP/1.1, or resets its stream, by HTTP/2; one that waits meanwhile and one
    // that comes later.
    for stop in [Stop::BeforeHead, Stop::BehindHead, Stop::InBody] {
        for by in [Version::Http1, Version::Http2] {
            let count = AtomicUsize::new(0);
            let origin = Origin::answering(move |_| {
                let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n";
                match (count.fetch_add(1, Ordering::Relaxed), stop) {
                    (0, Stop::BeforeHead) => Reply::Hang,
                    (0, Stop::BehindHead) => Reply::Pieces(vec![head.into()], Duration::ZERO),
                    (0, Stop::InBody) => {
                        let half = format!("{head}4\r\nhalf\r\n");
                        Reply::Pieces(vec![half.into()], Duration::ZERO)
                    }
                    _ => with(&[("Cache-Control", "max-age=60")])
                        .body("whole")
                        .into(),
                }
            });
            let gateway = Gateway::before(&origin, &storing("")).await;
            let mut waiting = gateway.client().await;
            let waits = match by {
                Version::Http1 => {
                    let mut first = gateway.raw().await;
                    first
                        .write("GET / HTTP/1.1\r\nHost: gateway.test\r\n\r\n")
                        .await;
                    origin.is_asked(1).await;
                    if stop != Stop::BeforeHead {
                        first.read_response_to_head().await;
                    }
                    let waits = tokio::spawn(async move { waiting.get("/").await });
                    drop(first);
                    waits
                }
                Version::Http2 | Version::Http3 => {
                    let mut first = Frames::connect(gateway.address()).await;
                    first.request(1, &frames::get(b"/", &[])).await;
                    origin.is_asked(1).await;
                    if stop != Stop::BeforeHead {
                        assert_eq!(first.fate(1).await, Fate::Answered(200));
                    }
                    let waits = tokio::spawn(async move { waiting.get("/").await });
                    let cancel = 8_u32.to_be_bytes();
                    first.write(&frame(RST_STREAM, 0, 1, &cancel)).await;
                    // It is read before the connection ends with this block.
                    first.pong().await;
                    waits
                }
            };
            let answer = tokio::time::timeout(Duration::from_secs(4), waits).await;
            let answer = answer.unwrap_or_else(|_| panic!("{stop:?}, {by:?}: it waits"));
            assert_eq!(answer.unwrap().text(), "whole", "{stop:?}, {by:?}");
            assert!(is_hit(&gateway.get("/").await), "{stop:?}, {by:?}");
            assert_eq!(origin.count(), 2, "{stop:?}, {by:?}");
            let told = gateway.stderr();
            assert!(
                !told.contains("angling") && !told.contains("panic"),
                "{told}"
            );
        }
    }
}

by_each_version! {
    a_partial_request_gets_its_part_and_the_whole_is_stored,
    a_partial_request_for_an_unstored_answer_gets_its_part,
    a_head_is_given_though_the_body_fails,
    a_client_with_its_range_delays_no_other,
    a_partial_request_refreshes_a_stale_answer,
    a_get_with_a_body_is_neither_stored_nor_answered_from_what_is,
}

/// The bytes of an answer over HTTP/1.1.
async fn bytes_of(gateway: &Gateway) -> String {
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
        .await;
    String::from_utf8(raw.read_to_end().await).unwrap()
}

#[tokio::test]
async fn a_stored_answer_keeps_the_case_of_its_names() {
    // Goal: `header_case = "as-sent"` holds for stored answers, also after a 304 that names fields anew; without it, names are in lower
    // case. Method: an answer that is fetched, then stored, then confirmed with another spelling of one field and with a further field.
    let origin = Origin::answering(|received| {
        let answer = match received.header("if-none-match") {
            Some(_) => Answer::new(304)
                .header("Cache-Control", "max-age=60")
                .header("X-BOTH", "2")
                .header("X-Added", "2"),
            None => Answer::new(200)
                .header("Cache-Control", "max-age=1")
                .header("ETag", "\"a\"")
                .header("X-Both", "1")
                .header("X-Kept", "1")
                .body("ok"),
        };
        answer.into()
    });
    for case in ["as-sent", "lower"] {
        let gateway = Setup::new()
            .origin("app", &origin)
            .origin_line(&format!("header_case = \"{case}\""))
            .rules(&storing(""))
            .start()
            .await;
        let has = |answer: &str, lines: &[&str]| {
            for line in lines {
                let line = match case {
                    "lower" => line.to_lowercase(),
                    _ => (*line).to_owned(),
                };
                assert!(
                    answer.contains(&format!("\r\n{line}\r\n")),
                    "{line}: {answer}"
                );
            }
        };
        let first = ["X-Both: 1", "X-Kept: 1", "ETag: \"a\""];
        has(&bytes_of(&gateway).await, &first);
        let confirmed = eventually("the origin confirms the answer", async || {
            let answer = bytes_of(&gateway).await;
            let is_confirmed = answer.to_lowercase().contains("x-both: 2");
            if !is_confirmed {
                assert!(
                    answer.contains("\r\ncache-status: sluicegate; hit"),
                    "{answer}"
                );
                has(&answer, &first);
            }
            is_confirmed.then_some(answer)
        })
        .await;
        for answer in [confirmed, bytes_of(&gateway).await] {
            has(
                &answer,
                &["X-BOTH: 2", "X-Added: 2", "X-Kept: 1", "ETag: \"a\""],
            );
        }
    }
    assert_eq!(origin.count(), 4);
}
