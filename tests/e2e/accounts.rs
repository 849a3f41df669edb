//! What one client holds over all of its connections is counted together, and leaves others theirs.

use crate::harness::frames::{Fate, Frames, REFUSED_STREAM, get as get_head};
use crate::harness::*;

const PASS: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";

#[tokio::test]
async fn streams_of_one_client_leave_others_theirs() {
    // Goal: a client has no more streams over all its connections than `max_http2_streams_per_client`, all clients have no more than
    // `max_http2_streams`, and a refused request may be sent again. Method: three streams of five for one client on two connections, then
    // another client; all hang until the first connection is closed.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/hang" => Reply::Hang,
        _ => Answer::new(200).body("here").into(),
    });
    let caps = "[server]\nmax_http2_streams = 5\nmax_http2_streams_per_client = 3\n";
    let gateway = Gateway::before(&origin, &format!("{caps}{PASS}")).await;
    let open = async |streams: f64| {
        eventually("so many streams are open", async || {
            let metrics = gateway.metrics().await;
            (metrics.sum("sluicegate_http2_streams", &[]) == streams).then_some(())
        })
        .await;
    };
    let refused = Fate::Reset(REFUSED_STREAM);
    let (hang, pass) = (get_head(b"/hang", &[]), get_head(b"/", &[]));
    let mut first = Frames::connect(gateway.address()).await;
    first.request(1, &hang).await;
    first.request(3, &hang).await;
    open(2.0).await;
    let mut second = Frames::connect(gateway.address()).await;
    second.request(1, &hang).await;
    open(3.0).await;
    second.request(3, &pass).await;
    assert_eq!(second.fate(3).await, refused);
    first.request(5, &pass).await;
    assert_eq!(first.fate(5).await, refused);
    let mut other = Frames::connect_from("127.0.0.9", gateway.address()).await;
    other.request(1, &pass).await;
    assert_eq!(other.fate(1).await, Fate::Answered(200));
    open(3.0).await;
    other.request(3, &hang).await;
    other.request(5, &hang).await;
    open(5.0).await;
    other.request(7, &pass).await;
    assert_eq!(other.fate(7).await, refused);
    let metrics = gateway.metrics().await;
    for (cap, most, met) in [
        ("max_http2_streams", 5.0, 1.0),
        ("max_http2_streams_per_client", 3.0, 2.0),
    ] {
        let of = [("cap", cap)];
        assert_eq!(metrics.sum("sluicegate_http2_streams_max", &of), most);
        let total = metrics.sum("sluicegate_http2_streams_refused_total", &of);
        assert_eq!(total, met, "{cap}");
    }
    let line = "client 127.0.0.1: its HTTP/2 stream is refused: max_http2_streams_per_client = 3";
    assert!(gateway.stderr().contains(line), "{}", gateway.stderr());
    drop(first);
    open(3.0).await;
    second.request(5, &pass).await;
    assert_eq!(second.fate(5).await, Fate::Answered(200));
    other.request(9, &pass).await;
    assert_eq!(other.fate(9).await, Fate::Answered(200));
    assert_eq!(origin.count(), 8);
}
