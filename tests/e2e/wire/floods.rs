//! Floods of HTTP/2: a client that only makes work costs little memory, holds up nobody else, and is shown out.

use std::time::Duration;

use tokio::time::timeout;

use super::echo::EchoOrigin;
use crate::harness::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Fate, Frames, HEADERS,
    PADDED, PING, PRIORITY, PRIORITY_UPDATE, RST_STREAM, SETTINGS, WINDOW_UPDATE, fields, frame,
    get, head, soon,
};
use crate::harness::{Answer, Gateway, Origin, Reply, Setup, h2load};

/// The memory that a flood may take: far more than one connection holds, far less than the flood sends or asks for.
const MOST: u64 = 16 * 1024 * 1024;

/// The most requests of a flood of 100,000 that reach the origin; at most 50 were counted.
pub const MOST_FORWARDED: usize = 1_000;

/// How long a flood is sent without the gateway taking more of it.
const STUCK: Duration = Duration::from_secs(2);

const ROUTE: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"";

/// How a flood ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All of it was taken.
    Sent,
    /// The gateway takes no more.
    Stuck,
    /// The gateway ended the connection.
    Closed,
}

/// Sends what `piece` makes, so many times, without reading; another client is served all the while, and memory stays.
pub async fn flood(
    gateway: &Gateway,
    frames: &mut Frames,
    pieces: u32,
    piece: impl Fn(u32) -> Vec<u8>,
) -> End {
    let mut other = gateway.client().await;
    assert_eq!(other.get("/").await.status, 200);
    let before = gateway.resident_bytes();
    let mut end = End::Sent;
    for at in 0..pieces {
        match timeout(STUCK, frames.try_write(&piece(at))).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => end = End::Closed,
            Err(_) => end = End::Stuck,
        }
        if end != End::Sent {
            break;
        }
        if at % (pieces / 8).max(1) == 0 {
            assert_eq!(other.get("/").await.status, 200);
        }
    }
    assert_eq!(other.get("/").await.status, 200);
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < MOST, "{grown} bytes more");
    end
}

/// A gateway before an origin that answers `/`, and one of HTTP/2 for `/hang`, which never answers.
pub(super) async fn beside_hanging(answering: &Origin, hanging: &EchoOrigin) -> Gateway {
    Setup::new()
        .servers("h2c", &[hanging.address])
        .origin_line("protocol = \"h2c\"")
        .origin("app", answering)
        .rules("[[route]]\npath = \"/\"\norigin = \"app\"\n[[route]]\npath = \"/hang\"\norigin = \"h2c\"")
        .start()
        .await
}

#[tokio::test]
async fn a_client_that_cancels_every_request_is_disconnected() {
    // Goal: rapid reset, CVE-2023-44487: work at the origin is bounded though each stream is over at once. Method: 100,000 streams, each
    // reset behind its head; the connection ends long before, and the origin saw a small part.
    let origin = EchoOrigin::start().await;
    let answering = Origin::named("fine");
    let gateway = beside_hanging(&answering, &origin).await;
    let mut frames = Frames::connect(gateway.address()).await;
    let block = get(b"/hang", &[]);
    let end = flood(&gateway, &mut frames, 1_000, |at| {
        let mut piece = Vec::new();
        for stream in (0..100).map(|n| (at * 100 + n) * 2 + 1) {
            piece.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
            piece.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        }
        piece
    })
    .await;
    assert_eq!(end, End::Closed);
    let forwarded = origin.requests();
    assert!(forwarded < MOST_FORWARDED, "{forwarded}");
}

#[tokio::test]
async fn requests_given_up_one_by_one_are_counted_too() {
    // Goal: the same at a pace that no buffer notices. Method: each stream is reset once the origin has its request; the connection ends
    // at the bound, the client gets the reason, and the metric and the log tell.
    let origin = EchoOrigin::start().await;
    let gateway = Setup::new()
        .servers("app", &[origin.address])
        .origin_line("protocol = \"h2c\"")
        .rules(ROUTE)
        .start()
        .await;
    let mut frames = Frames::connect(gateway.address()).await;
    let block = get(b"/hang", &[]);
    let mut given_up = 0;
    for stream in (1..2_000).step_by(2) {
        let request = frame(HEADERS, END_HEADERS | END_STREAM, stream, &block);
        if frames.try_write(&request).await.is_err() {
            break;
        }
        let arrived = timeout(
            STUCK,
            soon("the request arrives", async || {
                (origin.requests() > given_up).then_some(())
            }),
        );
        if arrived.await.is_err() {
            break;
        }
        given_up += 1;
        let reset = frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
        if frames.try_write(&reset).await.is_err() {
            break;
        }
    }
    assert!((200..400).contains(&given_up), "{given_up}");
    assert_eq!(frames.goaway().await, Some(ENHANCE_YOUR_CALM));
    let told = "its HTTP/2 connection is ended: it cancelled most of its requests";
    assert!(gateway.stderr().contains(told));
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("sluicegate_http2_abuse_total", &[]), 1.0);
}

#[tokio::test]
async fn a_head_without_an_end_is_cut_off() {
    // Goal: CONTINUATION flood. Method: a head in ever more frames that never ends.
    let origin = Origin::named("fine");
    let gateway = Gateway::passing(&origin).await;
    let mut frames = Frames::connect(gateway.address()).await;
    frames.write(&frame(HEADERS, 0, 1, &get(b"/", &[]))).await;
    let more = fields(&[(b"x-more", &[b'a'; 200])]);
    let piece = frame(CONTINUATION, 0, 1, &more).repeat(100);
    let end = flood(&gateway, &mut frames, 10_000, |_| piece.clone()).await;
    assert_eq!(end, End::Closed);
}

#[tokio::test]
async fn questions_whose_answers_are_not_read_wait_at_the_client() {
    // Goal: PING and SETTINGS floods: the gateway answers no more than is read, and takes no more than it answers. Method: 100 MB of
    // each,
    // nothing is read.
    let origin = Origin::named("fine");
    let gateway = Gateway::passing(&origin).await;
    for piece in [
        frame(PING, 0, 0, b"12345678").repeat(600),
        frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]).repeat(600),
    ] {
        let mut frames = Frames::connect_unread(gateway.address()).await;
        let end = flood(&gateway, &mut frames, 10_000, |_| piece.clone()).await;
        assert_ne!(end, End::Sent);
    }
}

#[tokio::test]
async fn a_connection_that_begins_no_request_is_closed_in_time() {
    // Goal: frames without requests do not keep a connection open, and a client with one request may be silent. Method: one connection
    // that is answered, one
    // that only pings; the second ends in the time of a read, the first serves on.
    let origin = Origin::named("fine");
    let rules = format!("[server]\nclient_read_timeout = \"3s\"\n{ROUTE}");
    let gateway = Gateway::before(&origin, &rules).await;
    let mut asking = Frames::connect(gateway.address()).await;
    asking.request(1, &get(b"/", &[])).await;
    assert_eq!(asking.fate(1).await, Fate::Answered(200));
    let mut silent = Frames::connect(gateway.address()).await;
    silent.write(&frame(PING, 0, 0, b"12345678")).await;
    // Ends with the connection, and panics when that stays open.
    silent.goaway().await;
    asking.request(3, &get(b"/", &[])).await;
    assert_eq!(asking.fate(3).await, Fate::Answered(200));
}

#[tokio::test]
async fn frames_that_carry_nothing_do_not_pile_up() {
    // Goal: empty DATA, windows opened by one byte, resets of streams that are over: none is kept, not even in 10 bytes, and the
    // connection ends. Method: up to two million of each, beside a request that stays open.
    let origin = EchoOrigin::start().await;
    let answering = Origin::named("fine");
    let gateway = beside_hanging(&answering, &origin).await;
    for piece in [
        frame(DATA, 0, 1, &[]).repeat(1_000),
        frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes()).repeat(1_000),
        frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes()).repeat(1_000),
    ] {
        let mut frames = Frames::connect(gateway.address()).await;
        let open = head(b"POST", b"/hang", &[]);
        frames.write(&frame(HEADERS, END_HEADERS, 1, &open)).await;
        let end = flood(&gateway, &mut frames, 2_000, |_| piece.clone()).await;
        assert_eq!(end, End::Closed);
    }
}

#[tokio::test]
async fn frames_that_only_make_work_end_their_connection() {
    // Goal: PING, SETTINGS, priorities, windows and unknown frames are bounded together, empty DATA in any form is (CVE-2019-9511 to
    // 9518), and the end has a reason, a line and a count. Method: 9,000 of each pass, 12,000 more do not, nor do those of a mixture; of
    // empty DATA, 12,000 do not.
    let origin = EchoOrigin::start().await;
    let answering = Origin::named("fine");
    let gateway = beside_hanging(&answering, &origin).await;
    let floods = [
        frame(PING, 0, 0, b"12345678"),
        frame(PING, ACK, 0, b"12345678"),
        frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]),
        frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7]),
        frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1"),
        frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
        frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes()),
        frame(0x42, 0, 0, b"anything"),
    ];
    let mixture = floods.concat();
    let empty = [
        frame(DATA, 0, 1, &[]),
        frame(DATA, PADDED, 1, &[3, 0, 0, 0]),
    ];
    let mut ended = 0.0;
    let passing = floods.iter().map(|one| (one, 1, 9_000));
    let passing = passing.chain([(&mixture, floods.len(), 9_000)]);
    for (piece, count, first) in passing.chain(empty.iter().map(|one| (one, 1, 0))) {
        let mut frames = Frames::connect(gateway.address()).await;
        let open = head(b"POST", b"/hang", &[]);
        frames.write(&frame(HEADERS, END_HEADERS, 1, &open)).await;
        frames.write(&piece.repeat(first / count)).await;
        frames.pong().await;
        // The connection ends somewhere within.
        let _ = frames.try_write(&piece.repeat(12_000 / count)).await;
        assert_eq!(frames.goaway().await, Some(ENHANCE_YOUR_CALM), "{piece:?}");
        ended += 1.0;
        let metrics = gateway.metrics().await;
        assert_eq!(metrics.sum("sluicegate_http2_abuse_total", &[]), ended);
    }
    let told =
        "its HTTP/2 connection is ended: it sends frames that carry neither requests nor data";
    assert!(gateway.stderr().contains(told));
    assert_eq!(gateway.get("/").await.status, 200);
}

#[tokio::test]
async fn clients_that_need_many_control_frames_are_served() {
    // Goal: nobody honest is ended: priorities as browsers send them, a window for each kilobyte, a ping for each piece of an answer.
    // Method: far more such frames than may come at once, beside requests and answers: 2,000 requests with seven frames each, then h2load
    // with windows of 1 KiB for 80 MB.
    let origin = Origin::answering(|_| Reply::Answer(Answer::new(200).body("x".repeat(200_000))));
    let gateway = Setup::new()
        .origin("app", &origin)
        .rules("[[route]]\npath = \"/large\"\norigin = \"app\"\n[[route]]\npath = \"/*\"\nrespond = { status = 200, body = \"a\" }")
        .start()
        .await;
    let mut frames = Frames::connect(gateway.address()).await;
    let mut begin = frame(WINDOW_UPDATE, 0, 0, &12_517_377_u32.to_be_bytes());
    for group in [3_u32, 5, 7, 9, 11] {
        begin.extend(frame(PRIORITY, 0, group, &[0, 0, 0, 0, 200]));
    }
    frames.write(&begin).await;
    let block = get(b"/", &[]);
    for stream in (0..2_000_u32).map(|number| 13 + number * 2) {
        let id = stream.to_be_bytes();
        let mut sent = frame(PRIORITY_UPDATE, 0, 0, &[&id[..], b"u=3,i"].concat());
        sent.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
        for weight in [1_u8, 2] {
            sent.extend(frame(PRIORITY, 0, stream, &[0, 0, 0, 3, weight]));
        }
        sent.extend(frame(PING, 0, 0, &[9; 8]));
        frames.write(&sent).await;
        assert_eq!(frames.fate(stream).await, Fate::Answered(200), "{stream}");
        let after = [
            frame(WINDOW_UPDATE, 0, stream, &1_u32.to_be_bytes()),
            frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
            frame(PING, 0, 0, &[8; 8]),
        ];
        frames.write(&after.concat()).await;
    }
    let to = format!("http://{}/large", gateway.address());
    let said = h2load(&[
        "-n", "400", "-c", "2", "-m", "4", "-w", "10", "-W", "10", &to,
    ])
    .await;
    assert!(
        said.contains("400 succeeded, 0 failed, 0 errored"),
        "{said}"
    );
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("sluicegate_http2_abuse_total", &[]), 0.0);
}
