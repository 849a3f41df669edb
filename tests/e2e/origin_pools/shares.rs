//! The share of one origin among the requests in flight.

use futures_util::future::join_all;

use super::*;

/// An origin that is slow: it does not answer `/slow`.
fn slow() -> Origin {
    Origin::answering(|request| match request.target.as_str() {
        "/slow" => Reply::Hang,
        _ => Answer::new(200).into(),
    })
}

/// The gateway before the slow origin and another one, where eight requests may be in flight.
fn rules(lines: &str) -> String {
    format!(
        "[server]\nmax_origin_requests = 8\nmax_origin_requests_per_client = 8\n{lines}\n\
         [[route]]\npath = \"/other\"\norigin = \"other\"\n[[route]]\npath = \"/*\"\norigin = \"slow\"\n"
    )
}

/// Sends requests that the slow origin keeps, and waits until it has all of them.
async fn keep(gateway: &Gateway, origin: &Origin, requests: usize) -> Vec<RawConnection> {
    let kept = (0..requests).map(|_| async {
        let mut raw = gateway.raw().await;
        raw.write("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await;
        raw
    });
    let kept = join_all(kept).await;
    origin.is_asked(requests).await;
    kept
}

/// Asserts that the slow origin gets no more requests, of which so many were refused then, and that the other one does.
async fn assert_share_is_full(gateway: &Gateway, refused: f64) {
    let answer = gateway.get("/").await;
    assert_eq!(answer.header("retry-after"), Some("1"));
    let line = gateway.lines_of(&[answer]).await.remove(0);
    assert_eq!(line["status"], 503);
    assert_eq!(line["failure"], "origin-requests-full");
    assert_eq!(line["reason"], "max_origin_requests_per_origin = 6");
    let cap = [("cap", "max_origin_requests_per_origin")];
    let metrics = gateway.metrics().await;
    assert_eq!(
        metrics.sum("sluicegate_origin_requests_refused_total", &cap),
        refused
    );
    assert_eq!(gateway.get("/other").await.status, 200);
}

#[tokio::test]
async fn a_slow_origin_leaves_room_for_the_others() {
    // Goal: an origin that keeps its requests takes three quarters of the permits and no more, whatever a reload changes, and gets them
    // back. Method: six of eight permits at an origin that does not answer; one more request to it, one to another origin; a reload that
    // changes the slow origin; then its clients leave.
    let (origin, other) = (slow(), Origin::echo());
    let setup = |lines| {
        Setup::new()
            .origin("slow", &origin)
            .origin_line(lines)
            .origin("other", &other)
            .rules(&rules(""))
    };
    let mut gateway = setup("").start().await;
    let kept = keep(&gateway, &origin, 6).await;
    assert_share_is_full(&gateway, 1.0).await;
    let generation = gateway.generation().await;
    gateway.write_setup(setup("retries = 0"), Writing::Rename);
    gateway.serves_after(generation).await;
    assert_share_is_full(&gateway, 2.0).await;
    drop(kept);
    eventually("the permits are free", async || {
        (gateway.get("/").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_origin_alone_takes_all_and_a_number_is_kept_to() {
    // Goal: the share is for configurations with several origins, and can be set. Method: an origin alone, which keeps eight requests; the
    // same beside another one, with a share of three and with all.
    for (others, lines, most) in [
        (0, "", 8),
        (1, "max_origin_requests_per_origin = 3", 3),
        (1, "max_origin_requests_per_origin = 8", 8),
    ] {
        let (origin, other) = (slow(), Origin::echo());
        let mut setup = Setup::new().origin("slow", &origin).origin("other", &other);
        let mut text = rules(lines);
        if others == 0 {
            setup = Setup::new().origin("slow", &origin);
            text = text.replace("\"other\"", "\"slow\"");
        }
        let gateway = setup.rules(&text).start().await;
        let _kept = keep(&gateway, &origin, most).await;
        let metrics = gateway.metrics().await;
        let cap = [("cap", "max_origin_requests_per_origin")];
        assert_eq!(
            metrics.sum("sluicegate_origin_requests_max", &cap),
            most as f64
        );
        let answer = gateway.get("/").await;
        let line = gateway.lines_of(&[answer]).await.remove(0);
        assert_eq!(line["failure"], "origin-requests-full", "{lines}");
    }
}
