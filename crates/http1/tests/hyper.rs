//! Compares the reading of responses with that of hyper's client: what passes here, hyper takes with the same fields, data and trailer.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Empty};
use hyper::rt::{Read, ReadBufCursor, Write};
use proptest::prelude::*;
use sluicegate_http1::{
    AnsweredMethod, BodyPiece, BodyReader, ChunkLimits, HeadLimits, HeadProgress, ResponseHead,
};

/// The parts of a response: its status, its fields sorted by name, its data, and the fields of its trailer.
#[derive(Debug, PartialEq)]
struct WholeResponse {
    status: u16,
    fields: Vec<(String, Vec<u8>)>,
    data: Vec<u8>,
    trailer: Vec<(String, Vec<u8>)>,
}

/// The other end of a connection, which answers the first request with some bytes and ends.
struct ScriptedOrigin {
    unread: Vec<u8>,
    /// Most bytes of one read.
    step: usize,
    is_asked: bool,
}

/// Reads a response here; `None` for one that is rejected or whose body is cut.
fn ours(read: &[u8], method: AnsweredMethod, step: usize) -> Option<WholeResponse> {
    let limits = HeadLimits {
        bytes: 4096,
        fields: 32,
        target: 0,
    };
    let mut head = ResponseHead::new();
    let Ok(HeadProgress::Whole(bytes)) = head.parse(read, &limits) else {
        return None;
    };
    let limits = ChunkLimits {
        overhead: 256,
        trailer: 256,
        trailer_fields: 8,
    };
    let mut body = BodyReader::new(head.framing(method), limits);
    let (mut data, mut lines) = (Vec::new(), Vec::new());
    for part in read[bytes..].chunks(step) {
        for piece in body.pieces(part) {
            match piece.ok()? {
                BodyPiece::Data(bytes) => data.extend_from_slice(bytes),
                BodyPiece::Trailer(bytes) => lines.extend_from_slice(bytes),
                BodyPiece::End { .. } => {}
            }
        }
    }
    body.end_of_stream().ok()?;
    Some(WholeResponse {
        status: head.status(),
        fields: fields_of(&head, read),
        data,
        trailer: parsed_trailer(&lines),
    })
}

/// Returns the fields of a trailer, by the parser of heads.
fn parsed_trailer(lines: &[u8]) -> Vec<(String, Vec<u8>)> {
    let read = [b"HTTP/1.1 200\r\n", lines, b"\r\n"].concat();
    let limits = HeadLimits {
        bytes: 4096,
        fields: 32,
        target: 0,
    };
    let mut head = ResponseHead::new();
    let progress = head
        .parse(&read, &limits)
        .expect("a trailer is checked like a head");
    assert_eq!(progress, HeadProgress::Whole(read.len()));
    fields_of(&head, &read)
}

fn fields_of(head: &ResponseHead, read: &[u8]) -> Vec<(String, Vec<u8>)> {
    let name = |name: &[u8]| String::from_utf8_lossy(name).to_ascii_lowercase();
    let fields = head.fields().iter(read);
    let mut fields: Vec<_> = fields
        .map(|field| (name(field.name), field.value.to_vec()))
        .collect();
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    fields
}

/// Reads a response with hyper.
fn theirs(read: &[u8], method: &Method, step: usize) -> hyper::Result<WholeResponse> {
    let origin = ScriptedOrigin {
        unread: read.to_vec(),
        step,
        is_asked: false,
    };
    let mut context = Context::from_waker(Waker::noop());
    let shaken = pin!(hyper::client::conn::http1::handshake(origin)).poll(&mut context);
    let Poll::Ready(shaken) = shaken else {
        panic!("a handshake of HTTP/1 reads nothing");
    };
    let (mut sender, connection) = shaken?;
    let request = Request::builder()
        .method(method)
        .uri("/")
        .header("host", "a");
    let request = request.body(Empty::<&[u8]>::new()).unwrap();
    let mut exchange = pin!(async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?;
        let trailer = body.trailers().map(listed).unwrap_or_default();
        let data = body.to_bytes().to_vec();
        Ok(WholeResponse {
            status: head.status.as_u16(),
            fields: listed(&head.headers),
            data,
            trailer,
        })
    });
    let (mut connection, mut is_open) = (pin!(connection), true);
    for _ in 0..10_000 {
        is_open = is_open && connection.as_mut().poll(&mut context).is_pending();
        if let Poll::Ready(found) = exchange.as_mut().poll(&mut context) {
            return found;
        }
    }
    panic!("hyper waits for more than {}", read.escape_ascii());
}

fn listed(fields: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let fields = fields.iter();
    let mut fields: Vec<_> = fields
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect();
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    fields
}

impl Read for ScriptedOrigin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut room: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_asked {
            return Poll::Pending;
        }
        let bytes = self.step.min(self.unread.len()).min(room.remaining());
        room.put_slice(&self.unread[..bytes]);
        self.unread.drain(..bytes);
        Poll::Ready(Ok(()))
    }
}

impl Write for ScriptedOrigin {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_asked = true;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Returns the bytes of responses that are valid: a head, and a body in the framing that it announces.
fn valid_responses() -> impl Strategy<Value = Vec<u8>> {
    let line = "HTTP/1\\.1 (200|204|205|304|404|599)( [ -~]{0,4})?\r?\n";
    let fields = "([A-EX-Z]{1,2}: ?[!-~]{0,4}\r?\n){0,3}";
    let plain =
        "[a-z]{0,20}".prop_map(|data| (format!("Content-Length: {}\r\n", data.len()), data));
    let open = "[a-z]{0,20}".prop_map(|data| (String::new(), data));
    let chunks = (
        prop::collection::vec("[a-z]{1,20}", 0..4),
        "([;=a-z]{2}){0,2}",
        "([A-E]{1,2}: [a-z]{0,3}\r\n){0,2}",
    );
    let chunked = chunks.prop_map(|(chunks, extension, trailer)| {
        let extension = if extension.is_empty() {
            extension
        } else {
            format!(";{extension}")
        };
        let chunk = |data: &String| format!("{:x}{extension}\r\n{data}\r\n", data.len());
        let body: String = chunks.iter().map(chunk).collect();
        (
            "Transfer-Encoding: chunked\r\n".to_owned(),
            format!("{body}0\r\n{trailer}\r\n"),
        )
    });
    let framed = prop_oneof![plain, open, chunked];
    (line, fields, framed, "(HTTP)?").prop_map(|(line, fields, (field, body), behind)| {
        format!("{line}{fields}{field}\r\n{body}{behind}").into_bytes()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Goal: no response that passes here is another one to hyper. Method: valid responses, some with a byte changed, as the answer to
    /// GET and HEAD, in reads of any size.
    #[test]
    fn a_response_that_passes_is_that_of_hyper(
        mut read in valid_responses(),
        change in prop::option::of((0_usize..100, any::<u8>())),
        is_head in prop::bool::weighted(0.2),
        step in 1_usize..80,
    ) {
        if let Some((at, byte)) = change && let Some(place) = read.get_mut(at) {
            *place = byte;
        }
        let (ours_method, their_method) = match is_head {
            true => (AnsweredMethod::Head, Method::HEAD),
            false => (AnsweredMethod::Other, Method::GET),
        };
        // hyper keeps an interim response to itself.
        if let Some(ours) = ours(&read, ours_method, step) && ours.status >= 200 {
            let theirs = theirs(&read, &their_method, step);
            prop_assert_eq!(theirs.ok(), Some(ours), "{}", read.escape_ascii());
        }
    }
}
