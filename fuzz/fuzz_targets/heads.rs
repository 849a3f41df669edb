//! Fuzzes what frames a request: what the codec calls a whole head, `httparse` takes as the same head.
//!
//! Origins parse a head that the codec has passed once more, some with `httparse`. Request smuggling needs two parsers that find different
//! heads in the same bytes, so both parse them here, and what `httparse` found is framed once more, the obvious way.
#![no_main]

use httparse::{EMPTY_HEADER, Error, Request, Status};
use libfuzzer_sys::fuzz_target;
use sluicegate_http1::{BodyFraming, HeadLimits, HeadProgress, RequestHead, leading_line_end};

/// The most fields that `httparse` is given room for.
const MOST_FIELDS: usize = 256;

/// The result of the codec for the bytes read so far.
#[derive(Debug, PartialEq)]
enum Framing {
    Partial,
    Malformed,
    Whole { head: usize, body: BodyFraming },
}

fn framing(read: &[u8]) -> Framing {
    let limits = HeadLimits {
        bytes: usize::MAX,
        fields: usize::MAX,
        target: usize::MAX,
    };
    let mut head = RequestHead::new();
    match head.parse(read, &limits) {
        Ok(HeadProgress::Partial) => Framing::Partial,
        Ok(HeadProgress::Whole(bytes)) => Framing::Whole {
            head: bytes,
            body: head.framing(),
        },
        Err(_) => Framing::Malformed,
    }
}

fuzz_target!(|read: &[u8]| {
    let mut fields = [EMPTY_HEADER; MOST_FIELDS];
    let mut request = Request::new(&mut fields);
    let parsed = request.parse(read);
    match framing(read) {
        Framing::Malformed => {}
        // What `httparse` takes, an origin would serve; the codec must not still wait for its end.
        Framing::Partial => assert!(!matches!(parsed, Ok(Status::Complete(_))), "{parsed:?}"),
        Framing::Whole { head, body } => {
            assert!(read[..head].ends_with(b"\r\n\r\n"));
            assert_eq!(
                framing(&read[..head]),
                framing(read),
                "what follows a head changes it"
            );
            for end in (0..head).rev().take(200) {
                assert_eq!(
                    framing(&read[..end]),
                    Framing::Partial,
                    "{end} of {head} bytes"
                );
            }
            match parsed {
                // Of a target the gateway escapes what `httparse` does not take; the number of fields is bounded by the limits of the
                // codec, which are open here.
                Err(_) => match error_but_for_target(&read[..head]) {
                    None | Some(Error::TooManyHeaders) => {}
                    Some(error) => panic!("the parser refuses it, and nobody would tell: {error}"),
                },
                Ok(Status::Partial) => {
                    panic!("a whole head of {head} bytes is partial to the parser")
                }
                Ok(Status::Complete(bytes)) => {
                    assert_eq!(bytes, head);
                    assert_eq!(Some(body), following(&request));
                    let first = [request.method, request.path].map(Option::unwrap_or_default);
                    let line = format!(
                        "{} {} HTTP/1.{}\r\n",
                        first[0],
                        first[1],
                        request.version.unwrap_or(9)
                    );
                    // RFC 9112 §2.2: both pass over one empty line.
                    assert!(
                        read[leading_line_end(read)..].starts_with(line.as_bytes()),
                        "the parser read {line:?}"
                    );
                }
            }
        }
    }
});

/// What the parser has against a whole head, whatever its target is.
fn error_but_for_target(head: &[u8]) -> Option<Error> {
    let mut words = head.splitn(3, |&byte| byte == b' ');
    let (method, _, rest) = (words.next()?, words.next()?, words.next()?);
    let plain = [method, b" / ", rest].concat();
    let mut fields = [EMPTY_HEADER; MOST_FIELDS];
    Request::new(&mut fields).parse(&plain).err()
}

/// RFC 9112 §6.3 over the parser's fields; `None` where the framing is in doubt.
fn following(request: &Request<'_, '_>) -> Option<BodyFraming> {
    let all = |name: &str| {
        let fields = request
            .headers
            .iter()
            .filter(|field| field.name.eq_ignore_ascii_case(name));
        fields
            .map(|field| String::from_utf8_lossy(field.value).trim_ascii().to_owned())
            .collect::<Vec<_>>()
    };
    let hosts = all("host").len();
    if hosts > 1 || (hosts == 0 && request.version == Some(1)) {
        return None;
    }
    match (&*all("content-length"), &*all("transfer-encoding")) {
        ([], []) => Some(BodyFraming::None),
        ([length], []) if !length.starts_with('+') => length.parse().ok().map(BodyFraming::Length),
        ([], [coding]) if coding.eq_ignore_ascii_case("chunked") && request.version == Some(1) => {
            Some(BodyFraming::Chunked)
        }
        _ => None,
    }
}
