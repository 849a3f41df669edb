//! Defects of other implementations of HTTP/2, sent to the gateway frame by frame.
//!
//! `docs/security/advisories.md` lists them all; those of HTTP/1.1 are in `advisories.rs`.

use std::collections::BTreeSet;

use super::echo::EchoOrigin;
use super::floods::{End, MOST_FORWARDED, beside_hanging, flood};
use crate::harness::frames::{
    self, DATA, END_HEADERS, END_STREAM, Fate, Frames, GOAWAY, HEADERS, PRIORITY, RST_STREAM,
    WINDOW_UPDATE, fields, frame, head,
};
use crate::harness::*;
use crate::smuggling::recorder::Recorder;

/// The flag of HEADERS that begin with a priority.
const PRIORITIZED: u8 = 0x20;
/// RFC 9113 §6.9: the largest increment of a window.
const WIDEST: u32 = 0x7fff_ffff;

/// Goal: HAProxy CVE-2021-39240 and CVE-2023-45539: nothing of `:scheme` reaches an origin, and no fragment of `:path` reaches it or hides
/// a route. Method: schemes that hold another target, and paths with a fragment; an origin that reads strictly.
#[tokio::test]
async fn a_scheme_or_fragment_by_http2_names_no_other_target() {
    let recorder = Recorder::start().await;
    let gateway = Setup::new()
        .servers("app", &[recorder.address])
        .rules(
            "[[route]]\npath = \"/hidden\"\nrespond = { status = 203 }\n[[route]]\npath = \"/*\"\norigin = \"app\"\n",
        )
        .start()
        .await;
    let ask = async |scheme: &[u8], path: &[u8]| {
        let mut frames = Frames::connect(gateway.address()).await;
        let block = fields(&[
            (b":method", b"GET"),
            (b":scheme", scheme),
            (b":path", path),
            (b":authority", b"a"),
        ]);
        frames.request(1, &block).await;
        frames.fate(1).await
    };
    for scheme in [
        &b"http://b.test/?x="[..],
        b"http://b.test/hidden#",
        b"http x",
        b"",
        b"http\r\nx: y",
        b"GET /hidden HTTP/1.1",
    ] {
        let fate = ask(scheme, b"/").await;
        let is_harmless = matches!(
            fate,
            Fate::Answered(200 | 400..=499) | Fate::Reset(_) | Fate::Closed
        );
        assert!(is_harmless, "{}: {fate:?}", scheme.escape_ascii());
    }
    for path in [&b"/a#b"[..], b"/a.png#/../hidden", b"/a?b#c", b"/#?a"] {
        let fate = ask(b"http", path).await;
        assert_ne!(fate, Fate::Answered(203), "{}", path.escape_ascii());
    }
    // The route of the path holds, whatever stands behind the mark.
    let fate = ask(b"http", b"/hidden#/a").await;
    assert!(
        matches!(fate, Fate::Answered(203 | 400) | Fate::Reset(_)),
        "{fate:?}"
    );
    let record = recorder.record();
    assert!(record.unclear.is_empty(), "{:#?}", record.unclear);
    for request in record.requests {
        let is_known = ["/", "/a", "/a.png", "/a?b"].contains(&&*request.target);
        assert!(is_known, "{request:?}");
    }
}

/// Goal: Envoy CVE-2023-35944: the scheme of a request is that of its connection, whatever `:scheme` says. Method: schemes of either kind
/// and in any case, by clear text, to an origin and to a listener that redirects clear text.
#[tokio::test]
async fn a_scheme_by_http2_is_that_of_the_connection() {
    let origin = Origin::named("fine");
    let gateway = Gateway::passing(&origin).await;
    let redirecting = Setup::new()
        .listener_line("redirect_to_https = true")
        .origin("app", &origin)
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    let ask = async |gateway: &Gateway, scheme: &[u8]| {
        let mut frames = Frames::connect(gateway.address()).await;
        let block = fields(&[
            (b":method", b"GET"),
            (b":scheme", scheme),
            (b":path", b"/"),
            (b":authority", b"a"),
        ]);
        frames.request(1, &block).await;
        frames.fate(1).await
    };
    let schemes = [&b"http"[..], b"HTTP", b"htTp", b"https", b"htTps"];
    for scheme in schemes {
        let shown = scheme.escape_ascii();
        assert_eq!(ask(&gateway, scheme).await, Fate::Answered(200), "{shown}");
        assert_eq!(
            ask(&redirecting, scheme).await,
            Fate::Answered(308),
            "{shown}"
        );
    }
    let requests = origin.requests();
    assert_eq!(requests.len(), schemes.len());
    for request in requests {
        assert_eq!(request.header("x-forwarded-proto"), Some("http"));
    }
}

/// Names and values of fields.
type Fields<'a> = &'a [(&'a [u8], &'a [u8])];

/// A stream that the gateway has to reset.
struct BrokenStream {
    /// What is wrong.
    name: &'static str,
    /// The frames of such a stream.
    frames: fn(u32) -> Vec<u8>,
}

/// HEADERS of a whole request to an origin that does not answer, and a frame behind them.
fn request_and(stream: u32, kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let both = END_HEADERS | END_STREAM;
    let request = frame(HEADERS, both, stream, &frames::get(b"/hang", &[]));
    [request, frame(kind, flags, stream, payload)].concat()
}

/// HEADERS of a POST with these fields to that origin, and a frame of its body or behind it.
fn upload_and(stream: u32, fields: Fields, kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let block = head(b"POST", b"/hang", fields);
    let request = frame(HEADERS, END_HEADERS, stream, &block);
    [request, frame(kind, flags, stream, payload)].concat()
}

/// The priority of a stream that depends on itself (RFC 7540 §5.3.1).
fn depends_on_itself(stream: u32) -> Vec<u8> {
    [&stream.to_be_bytes()[..], &[15]].concat()
}

/// Streams that are broken each in another way: those of the advisory, and of RFC 9113 §5.4.2.
const BROKEN_STREAMS: &[BrokenStream] = &[
    BrokenStream {
        name: "a window too wide",
        frames: |stream| request_and(stream, WINDOW_UPDATE, 0, &WIDEST.to_be_bytes()),
    },
    BrokenStream {
        name: "a window by nothing",
        frames: |stream| request_and(stream, WINDOW_UPDATE, 0, &[0; 4]),
    },
    BrokenStream {
        name: "data behind the end",
        frames: |stream| request_and(stream, DATA, END_STREAM, b"x"),
    },
    BrokenStream {
        name: "a head behind the end",
        frames: |stream| {
            let again = frames::get(b"/hang", &[]);
            request_and(stream, HEADERS, END_HEADERS | END_STREAM, &again)
        },
    },
    BrokenStream {
        name: "a priority of four bytes",
        frames: |stream| request_and(stream, PRIORITY, 0, &[0; 4]),
    },
    BrokenStream {
        name: "a priority on itself",
        frames: |stream| request_and(stream, PRIORITY, 0, &depends_on_itself(stream)),
    },
    BrokenStream {
        name: "a head that depends on itself",
        frames: |stream| {
            let block = frames::get(b"/hang", &[]);
            let payload = [depends_on_itself(stream), block].concat();
            let flags = END_HEADERS | END_STREAM | PRIORITIZED;
            frame(HEADERS, flags, stream, &payload)
        },
    },
    BrokenStream {
        name: "trailers without an end",
        frames: |stream| {
            let trailers = fields(&[(b"x", b"1")]);
            upload_and(stream, &[], HEADERS, END_HEADERS, &trailers)
        },
    },
    BrokenStream {
        name: "more data than announced",
        frames: |stream| {
            let length = &[(&b"content-length"[..], &b"1"[..])];
            upload_and(stream, length, DATA, END_STREAM, b"xx")
        },
    },
    BrokenStream {
        name: "a field of HTTP/1.1",
        frames: |stream| {
            let block = frames::get(b"/hang", &[(b"connection", b"close")]);
            frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
        },
    },
];

/// Goal: CVE-2025-8671, h2 RUSTSEC-2024-0003: streams that a client makes the gateway reset are bounded like those that it resets itself.
/// Method: one stream of each kind, which is reset alone; then 100,000 of them: the connection ends, and the
/// origin saw a small part.
#[tokio::test]
async fn a_client_that_has_its_streams_reset_is_disconnected() {
    for broken in BROKEN_STREAMS {
        let name = broken.name;
        let origin = EchoOrigin::start().await;
        let answering = Origin::named("fine");
        let gateway = beside_hanging(&answering, &origin).await;
        let mut connection = Frames::connect(gateway.address()).await;
        connection.write(&(broken.frames)(1)).await;
        let fate = connection.fate(1).await;
        let is_alone = matches!(fate, Fate::Reset(_) | Fate::Answered(400));
        assert!(is_alone, "{name}: {fate:?}");
        connection.request(3, &frames::get(b"/", &[])).await;
        assert_eq!(connection.fate(3).await, Fate::Answered(200), "{name}");

        let mut connection = Frames::connect(gateway.address()).await;
        let end = flood(&gateway, &mut connection, 1_000, |at| {
            let streams = (0..100).map(|n| (at * 100 + n) * 2 + 1);
            streams.flat_map(broken.frames).collect()
        })
        .await;
        assert_eq!(end, End::Closed, "{name}");
        let forwarded = origin.requests();
        assert!(forwarded < MOST_FORWARDED, "{name}: {forwarded}");
    }
}

/// Goal: CVE-2019-9513: priorities that change without end make no work. Method: 200,000 PRIORITY frames that build and move a tree of
/// idle streams; another client is served all the while.
#[tokio::test]
async fn priorities_that_change_without_end_hold_up_nobody() {
    let origin = Origin::named("fine");
    let gateway = Gateway::passing(&origin).await;
    let mut connection = Frames::connect(gateway.address()).await;
    let end = flood(&gateway, &mut connection, 2_000, |at| {
        let mut piece = Vec::new();
        for n in 0..100_u32 {
            let stream = (at * 31 + n * 7) % 10_000 * 2 + 1;
            let parent = (at * 17 + n * 13) % 10_000 * 2 + 2;
            let tree = [&parent.to_be_bytes()[..], &[(n % 256) as u8]].concat();
            piece.extend(frame(PRIORITY, 0, stream, &tree));
        }
        piece
    })
    .await;
    assert_eq!(end, End::Closed);
    assert_eq!(gateway.get("/").await.status, 200);
}

/// Goal: CVE-2026-49975, Envoy CVE-2026-47774 and CVE-2026-73550, nginx CVE-2019-9516: a small block of HPACK makes no large head, whatever
/// it names. Method: a field of the dynamic table, a cookie and a second host among them, named 1,200 and 16,000 times by one byte each, in
/// up to 100 streams of one connection; each is refused, and memory stays.
#[tokio::test]
async fn a_head_of_references_is_refused_and_not_kept() {
    const MOST: u64 = 32 * 1024 * 1024;
    let origin = Origin::named("fine");
    let gateway = Gateway::passing(&origin).await;
    let mut connection = Frames::connect(gateway.address()).await;
    connection.request(1, &frames::get(b"/", &[])).await;
    assert_eq!(connection.fate(1).await, Fate::Answered(200));
    let before = gateway.resident_bytes();
    // RFC 7541 §6.2.1: a literal that enters the dynamic table; §6.1: index 62 is the latest of them.
    let long = [&[0x40, 4][..], b"host", &[12], b"gateway.test"].concat();
    let cookie = [&[0x40, 6][..], b"cookie", &[1], b"a"].concat();
    for (field, count) in [
        (&[0x40, 1, b'a', 0][..], 1_200),
        (&[0x40, 1, b'a', 0], 16_000),
        (&cookie, 1_200),
        (&cookie, 16_000),
        (&long, 1_200),
        (&long, 16_000),
    ] {
        let block = [&frames::get(b"/", &[])[..], field, &vec![0xbe; count]].concat();
        let mut connection = Frames::connect(gateway.address()).await;
        for stream in (1..200).step_by(2) {
            let request = frame(HEADERS, END_HEADERS | END_STREAM, stream, &block);
            // The gateway may have closed.
            let _ = connection.try_write(&request).await;
        }
        let mut refused = BTreeSet::new();
        while refused.len() < 100
            && let Some(frame) = connection.next().await
        {
            match frame.kind {
                GOAWAY => break,
                // RFC 7541, appendix A: 200.
                HEADERS if frame.payload[0] == 0x88 => panic!("{frame:?}"),
                HEADERS | RST_STREAM => drop(refused.insert(frame.stream)),
                _ => {}
            }
        }
    }
    assert_eq!(origin.count(), 1);
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < MOST, "{grown} bytes more");
}
