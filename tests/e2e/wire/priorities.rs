//! The order in which the answers of one connection of HTTP/2 go out, RFC 9218.

use crate::harness::frames::{
    DATA, END_STREAM, Fate, Frames, HEADERS, PRIORITY_UPDATE, SETTINGS, WINDOW_UPDATE, frame, get,
};
use crate::harness::*;

/// Bytes of each answer: many times what the gateway has ready for a connection.
const BODY: usize = 300_000;
/// The window with which a connection begins (RFC 9113 §6.9.2).
const FIRST_WINDOW: usize = 65_535;

/// A gateway that answers with so many bytes, and with as many as a connection takes at first.
async fn gateway() -> Gateway {
    let rules = format!(
        "[[route]]\npath = \"/first\"\nrespond = {{ status = 200, body = \"{}\" }}\n\
         [[route]]\npath = \"/large\"\nrespond = {{ status = 200, body = \"{}\" }}\n",
        "f".repeat(FIRST_WINDOW),
        "l".repeat(BODY),
    );
    Gateway::start(&rules).await
}

/// A connection whose window is closed: the bytes of the first answer have filled it. Its streams have room for everything.
async fn closed(gateway: &Gateway) -> Frames {
    let mut frames = Frames::connect(gateway.address()).await;
    let wide = [&[0, 4][..], &(1_u32 << 24).to_be_bytes()].concat();
    frames.write(&frame(SETTINGS, 0, 0, &wide)).await;
    frames.request(1, &get(b"/first", &[])).await;
    assert_eq!(frames.fate(1).await, Fate::Answered(200));
    let (body, end) = frames.body(1).await;
    assert_eq!((body.len(), end), (FIRST_WINDOW, Ok(())));
    frames
}

/// Asks for two large answers with these signals, on the streams 3 and 5, and then opens the window of the connection. Returns the streams
/// of the DATA that comes, each turn once.
async fn turns(gateway: &Gateway, signals: [Option<&[u8]>; 2], update: &[u8]) -> Vec<u32> {
    let mut frames = closed(gateway).await;
    for (stream, signal) in [3, 5].into_iter().zip(signals) {
        let field = signal.map(|signal| (&b"priority"[..], signal));
        let more: Vec<_> = field.into_iter().collect();
        frames.request(stream, &get(b"/large", &more)).await;
        // From here on its body waits.
        assert_eq!(frames.fate(stream).await, Fate::Answered(200));
    }
    frames.write(update).await;
    let open = (1_u32 << 24).to_be_bytes();
    frames.write(&frame(WINDOW_UPDATE, 0, 0, &open)).await;
    let mut turns = Vec::new();
    let mut left = 2 * BODY;
    while left > 0 {
        let next = frames.next().await.expect("the connection goes on");
        assert_ne!(next.kind, HEADERS);
        if next.kind == DATA {
            turns.push(next.stream);
            left -= next.payload.len();
            let is_end = next.flags & END_STREAM != 0;
            assert!(left > 0 || is_end);
        }
    }
    turns.dedup();
    turns
}

#[tokio::test]
async fn an_urgent_answer_goes_first() {
    // Goal: RFC 9218 §10, the client's urgency decides whose DATA goes first, whichever request came first. Method: two large answers that
    // wait; urgency by field, incremental or not, and by a frame that comes later.
    let gateway = gateway().await;
    let update = frame(PRIORITY_UPDATE, 0, 0, &[&[0, 0, 0, 5][..], b"u=0"].concat());
    let by_field: [Option<&[u8]>; 2] = [Some(b"u=5"), Some(b"u=1")];
    assert_eq!(turns(&gateway, by_field, b"").await, [5, 3]);
    let incremental: [Option<&[u8]>; 2] = [Some(b"u=5, i"), Some(b"u=1, i")];
    assert_eq!(turns(&gateway, incremental, b"").await, [5, 3]);
    assert_eq!(turns(&gateway, [None, None], &update).await, [5, 3]);
}

#[tokio::test]
async fn answers_of_one_urgency_share_or_follow_each_other() {
    // Goal: RFC 9218 §10, answers of one urgency go one after the other, and incremental ones share the connection; so do those of clients
    // that know no priorities. Method: two large answers that wait, and the turns in which their DATA comes.
    let gateway = gateway().await;
    let whole: [Option<&[u8]>; 2] = [Some(b"u=3"), Some(b"u=3")];
    assert_eq!(turns(&gateway, whole, b"").await, [3, 5]);
    let incremental: [Option<&[u8]>; 2] = [Some(b"i"), Some(b"i")];
    for signals in [incremental, [None, None]] {
        let turns = turns(&gateway, signals, b"").await;
        assert!(turns.len() > 8, "{signals:?}: {turns:?}");
    }
}
