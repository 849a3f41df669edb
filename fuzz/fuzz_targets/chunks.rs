//! Fuzzes chunked bodies: the codec finds the same data in every split, and what it takes, `httparse` reads in the same way.
#![no_main]

use httparse::{Status, parse_chunk_size};
use libfuzzer_sys::fuzz_target;
use sluicegate_http1::{BodyPiece, ChunkDecoder, ChunkLimits, RuleViolation};

const LIMITS: ChunkLimits = ChunkLimits {
    overhead: 16 * 1024,
    trailer: 8 * 1024,
    trailer_fields: 64,
};

/// What a decoder finds: data, trailer, and the bytes of the body, if it ends.
type Found = (Vec<u8>, Vec<u8>, Option<usize>);

/// Returns what is found in `body`, given in pieces of so many bytes.
fn find(body: &[u8], step: usize) -> Result<Found, RuleViolation> {
    let mut decoder = ChunkDecoder::new(LIMITS);
    let (mut data, mut trailer, mut end) = (Vec::new(), Vec::new(), None);
    for (index, part) in body.chunks(step).enumerate() {
        for piece in decoder.pieces(part) {
            match piece? {
                BodyPiece::Data(bytes) => data.extend_from_slice(bytes),
                BodyPiece::Trailer(bytes) => trailer.extend_from_slice(bytes),
                BodyPiece::End { behind } => end = Some(index * step + part.len() - behind.len()),
            }
        }
    }
    Ok((data, trailer, end))
}

fuzz_target!(|input: (u8, &[u8])| {
    let (step, body) = input;
    let whole = find(body, body.len().max(1));
    assert_eq!(find(body, usize::from(step).max(1)), whole);
    let checked = ChunkDecoder::new(LIMITS).check(body);
    let Ok((data, trailer, end)) = whole else {
        assert!(checked.is_err());
        return;
    };
    assert_eq!(checked, Ok(end.unwrap_or(body.len())));
    let Some(end) = end else { return };
    // `httparse` reads sizes; the data and the line ends behind it are counted off.
    let (mut at, mut theirs) = (0, Vec::new());
    loop {
        let Ok(Status::Complete((line, size))) = parse_chunk_size(&body[at..]) else {
            panic!("no size at {at}");
        };
        at += line;
        if size == 0 {
            break;
        }
        let size = usize::try_from(size).unwrap();
        theirs.extend_from_slice(&body[at..at + size]);
        assert_eq!(&body[at + size..at + size + 2], b"\r\n");
        at += size + 2;
    }
    assert_eq!(theirs, data);
    assert_eq!(&body[at..end], [&trailer[..], b"\r\n"].concat());
});
