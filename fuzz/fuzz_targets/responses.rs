//! Fuzzes the responses of origins: what the codec calls a whole head, `httparse` takes as the same head, and the body behind it is the
//! same in every split.
#![no_main]

use httparse::{EMPTY_HEADER, Response, Status};
use libfuzzer_sys::fuzz_target;
use sluicegate_http1::{
    AnsweredMethod, BodyFraming, BodyPiece, BodyReader, ChunkLimits, HeadLimits, HeadProgress,
    ResponseHead, RuleViolation,
};

const HEAD_LIMITS: HeadLimits = HeadLimits {
    bytes: usize::MAX,
    fields: MOST_FIELDS,
    target: 0,
};

const CHUNK_LIMITS: ChunkLimits = ChunkLimits {
    overhead: 16 * 1024,
    trailer: 8 * 1024,
    trailer_fields: 64,
};

const MOST_FIELDS: usize = 256;

/// What a reader finds in a body: data, trailer, the bytes of the body, and whether the connection may end behind them.
type Found = (Vec<u8>, Vec<u8>, usize, bool);

/// Returns what is found in `body`, given in pieces of so many bytes.
fn find(body: &[u8], framing: BodyFraming, step: usize) -> Result<Found, RuleViolation> {
    let mut reader = BodyReader::new(framing, CHUNK_LIMITS);
    let (mut data, mut trailer) = (Vec::new(), Vec::new());
    let mut taken = if reader.is_over() { 0 } else { body.len() };
    for (index, part) in body.chunks(step).enumerate() {
        for piece in reader.pieces(part) {
            match piece? {
                BodyPiece::Data(bytes) => data.extend_from_slice(bytes),
                BodyPiece::Trailer(bytes) => trailer.extend_from_slice(bytes),
                BodyPiece::End { behind } => taken = index * step + part.len() - behind.len(),
            }
        }
    }
    let is_whole = reader.end_of_stream().is_ok();
    assert_eq!(reader.is_over(), is_whole);
    Ok((data, trailer, taken, is_whole))
}

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (step, is_head, read) = input;
    let step = usize::from(step).max(1);
    let mut fields = [EMPTY_HEADER; MOST_FIELDS];
    let mut theirs = Response::new(&mut fields);
    let parsed = theirs.parse(read);
    let mut head = ResponseHead::new();
    let bytes = match head.parse(read, &HEAD_LIMITS) {
        Err(_) => return,
        Ok(HeadProgress::Partial) => {
            assert!(!matches!(parsed, Ok(Status::Complete(_))), "{parsed:?}");
            return;
        }
        Ok(HeadProgress::Whole(bytes)) => bytes,
    };
    assert_eq!(parsed, Ok(Status::Complete(bytes)));
    assert_eq!(theirs.code, Some(head.status()));
    let ours = head.fields().iter(read);
    let ours = ours.map(|field| (field.name, field.value));
    assert!(ours.eq((theirs.headers.iter()).map(|field| (field.name.as_bytes(), field.value))));

    // A head in parts is the same head, and no beginning of it is whole.
    let mut parts = ResponseHead::new();
    for end in (0..bytes).step_by(step) {
        let progress = parts.parse(&read[..end], &HEAD_LIMITS);
        assert_eq!(progress, Ok(HeadProgress::Partial), "{end} of {bytes}");
    }
    assert_eq!(
        parts.parse(read, &HEAD_LIMITS),
        Ok(HeadProgress::Whole(bytes))
    );
    assert_eq!(format!("{parts:?}"), format!("{head:?}"));

    // Lines that are written are read as the same fields.
    let kept: Vec<u8> = head
        .fields()
        .kept_lines(read, |_| true)
        .collect::<Vec<_>>()
        .concat();
    let start = read.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let last = read[start..bytes].strip_prefix(&kept[..]).unwrap();
    assert!(matches!(last, b"\r\n" | b"\n"));

    let method = match is_head {
        true => AnsweredMethod::Head,
        false => AnsweredMethod::Other,
    };
    let (framing, body) = (head.framing(method), &read[bytes..]);
    let whole = find(body, framing, body.len().max(1));
    assert_eq!(find(body, framing, step), whole);
    let checked = BodyReader::new(framing, CHUNK_LIMITS).check(body);
    assert_eq!(
        checked,
        whole.as_ref().map(|found| found.2).map_err(|rule| *rule)
    );
    if let (Ok((data, _, _, true)), Some(length)) = (whole, framing.length()) {
        assert_eq!(data.len() as u64, length);
    }
});
