//! Uploads over HTTP/2 whose end comes in a frame of its own, on their way to an origin of HTTP/1.1.
//!
//! An origin that is sent one byte too many answers it, and the next client on that connection gets the answer.

use super::echo::EchoOrigin;
use crate::harness::frames::{
    DATA, END_HEADERS, END_STREAM, Fate, Frames, HEADERS, PADDED, fields, frame, head,
};
use crate::harness::{Gateway, Setup, listen};
use crate::smuggling::recorder::Recorder;

#[tokio::test]
async fn uploads_that_are_answered_early_end_no_connection() {
    // Goal: uploads that nobody reads leave the other streams of their connection alone, RFC 9113 §5.1. Method: 400 bodies that are written
    // whole with their head, as a client does that has not yet read the answer, beside a request that takes as long.
    let origin = EchoOrigin::start().await;
    let rules = "[[route]]\npath = \"/upload\"\nrespond = { status = 404 }\n\
        [[route]]\npath = \"/*\"\norigin = \"app\"\n";
    let gateway = Setup::new()
        .servers("app", &[origin.address])
        .origin_line("protocol = \"h2c\"")
        .rules(rules)
        .start()
        .await;
    let mut frames = Frames::connect(gateway.address()).await;
    let begun = frame(HEADERS, END_HEADERS, 1, &head(b"POST", b"/", &[]));
    frames.write(&begun).await;
    for stream in (3..803).step_by(2) {
        let mut upload = frame(
            HEADERS,
            END_HEADERS,
            stream,
            &head(b"POST", b"/upload", &[]),
        );
        for flags in [0, 0, 0, END_STREAM] {
            upload.extend(frame(DATA, flags, stream, &[b'x'; 16_000]));
        }
        frames.write(&upload).await;
        assert_eq!(frames.fate(stream).await, Fate::Answered(404), "{stream}");
    }
    frames.write(&frame(DATA, END_STREAM, 1, b"")).await;
    assert_eq!(frames.fate(1).await, Fate::Answered(200));
}

/// One upload: its name, the fields of its head, the frames behind it, and the body that they make.
struct Upload {
    name: &'static str,
    fields: &'static [(&'static [u8], &'static [u8])],
    frames: Vec<Vec<u8>>,
    body: &'static [u8],
}

const JSON: &[(&[u8], &[u8])] = &[(b"content-type", b"application/json")];

fn data(flags: u8, payload: &[u8]) -> Vec<u8> {
    frame(DATA, flags, 1, payload)
}

/// Every way in which the end of a stream can come apart from the last byte of its body.
fn uploads() -> Vec<Upload> {
    let text = b"{\"id\":\"a\"}";
    let trailers = fields(&[(b"x-behind", b"the body")]);
    let upload = |name, fields, frames, body| Upload {
        name,
        fields,
        frames,
        body,
    };
    vec![
        upload(
            "a piece, then the end",
            JSON,
            vec![data(0, text), data(END_STREAM, b"")],
            text,
        ),
        upload(
            "pieces with an empty one between them",
            JSON,
            vec![
                data(0, &text[..4]),
                data(0, b""),
                data(0, &text[4..]),
                data(END_STREAM, b""),
            ],
            text,
        ),
        upload(
            "nothing but the end",
            JSON,
            vec![data(END_STREAM, b"")],
            b"",
        ),
        upload(
            "an empty piece, then the end",
            JSON,
            vec![data(0, b""), data(END_STREAM, b"")],
            b"",
        ),
        upload(
            "padding for an end",
            JSON,
            vec![data(0, text), data(END_STREAM | PADDED, &[3, 0, 0, 0])],
            text,
        ),
        upload(
            "trailers for an end",
            JSON,
            vec![
                data(0, text),
                frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers),
            ],
            text,
        ),
        upload(
            "a length, a piece, then the end",
            &[
                (b"content-type", b"application/json"),
                (b"content-length", b"10"),
            ],
            vec![data(0, text), data(END_STREAM, b"")],
            text,
        ),
        upload(
            "a length of nothing, then the end",
            &[
                (b"content-type", b"application/json"),
                (b"content-length", b"0"),
            ],
            vec![data(END_STREAM, b"")],
            b"",
        ),
        upload(
            "the end with the last byte",
            JSON,
            vec![data(END_STREAM, text)],
            text,
        ),
    ]
}

/// Sends an upload, its frames at once or each by itself, and gives what became of it.
async fn send(gateway: &Gateway, path: &str, upload: &Upload, at_once: bool) -> Fate {
    let mut frames = Frames::connect(gateway.address()).await;
    let block = head(b"PUT", path.as_bytes(), upload.fields);
    let mut pieces = vec![frame(HEADERS, END_HEADERS, 1, &block)];
    pieces.extend(upload.frames.iter().cloned());
    if at_once {
        pieces = vec![pieces.concat()];
    }
    for piece in pieces {
        frames.write(&piece).await;
        // A turn for the gateway: it answers none of these, but usually reads them one by one.
        tokio::task::yield_now().await;
    }
    frames.fate(1).await
}

/// Sends every upload to these routes, a GET of somebody else behind each, and compares what the origin was sent.
async fn compare(gateway: &Gateway, recorder: &Recorder, routes: &[&str]) {
    let mut expected = Vec::new();
    for route in routes {
        for (number, upload) in uploads().iter().enumerate() {
            for at_once in [true, false] {
                let path = format!("{route}/{number}/{at_once}");
                let fate = send(gateway, &path, upload, at_once).await;
                assert_eq!(fate, Fate::Answered(200), "{path}: {}", upload.name);
                expected.push((path, upload.body.to_vec()));
                let innocent = format!("/innocent/{}", expected.len());
                let answer = gateway.get(&innocent).await;
                assert_eq!(answer.status, 200, "behind {}: {answer:?}", upload.name);
                expected.push((innocent, Vec::new()));
            }
        }
    }
    let record = recorder.record();
    assert!(record.unclear.is_empty(), "{:#?}", record.unclear);
    let came: Vec<_> = record
        .requests
        .into_iter()
        .map(|request| (request.target, request.body))
        .collect();
    assert_eq!(came, expected);
}

#[tokio::test]
async fn an_upload_ends_once() {
    // Goal: however a client ends its body, the origin reads one end of it. Method: frames by hand; an origin that keeps bytes and reads
    // them strictly; plain routes, and one whose limit reads the body first.
    let recorder = Recorder::start().await;
    let gateway = Setup::new()
        .servers("app", &[recorder.address])
        .rules(
            "[limit.id]\nkey = \"body.json.id\"\non_missing = \"shared\"\nrates = [\"100000 per hour\"]\n\
             [[route]]\npath = \"/keyed/*\"\nlimits = [\"id\"]\norigin = \"app\"\n\
             [[route]]\npath = \"/*\"\norigin = \"app\"\n",
        )
        .start()
        .await;
    compare(&gateway, &recorder, &["/plain", "/keyed"]).await;
}

#[tokio::test]
async fn an_upload_that_is_sent_again_ends_once() {
    // Goal: the same where the body is sent a second time, out of the buffer. Method: a server that closes every connection behind the
    // first bytes of a request, before one that keeps bytes.
    let recorder = Recorder::start().await;
    let listener = listen();
    let broken = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut some = [0; 1];
                let _ = stream.readable().await;
                let _ = stream.try_read(&mut some);
            });
        }
    });
    let gateway = Setup::new()
        .servers("app", &[broken, recorder.address])
        .origin_line(
            "retries = 2\nretry = { on = [\"connect\", \"reset\"], min_per_second = 100000 }",
        )
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    compare(&gateway, &recorder, &["/plain"]).await;
}

#[tokio::test]
async fn an_upload_to_an_origin_of_http2_ends_too() {
    // Goal: the end is not lost where it is told by a flag. Method: the same uploads to an origin of HTTP/2, which answers when it has
    // read the end.
    let origin = EchoOrigin::start().await;
    let gateway = Setup::new()
        .servers("app", &[origin.address])
        .origin_line("protocol = \"h2c\"")
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    for upload in uploads() {
        for at_once in [true, false] {
            let fate = send(&gateway, "/told", &upload, at_once).await;
            assert_eq!(fate, Fate::Answered(200), "{}", upload.name);
        }
    }
    assert_eq!(origin.connections(), 1);
}
