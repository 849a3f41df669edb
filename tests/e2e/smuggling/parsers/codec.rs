//! Reads messages with the gateway's codec.

use sluicegate_http1::{
    AnsweredMethod, BodyPiece, BodyReader, ChunkLimits, ConnectionOptions, FieldLines, HeadLimits,
    HeadProgress, RequestHead, ResponseHead,
};

use super::{ReadEnd, ReadMessage, Reading, latin1};

const HEAD: HeadLimits = HeadLimits {
    bytes: 16 * 1024,
    fields: 100,
    target: 8 * 1024,
};

const CHUNKS: ChunkLimits = ChunkLimits {
    overhead: 16 * 1024,
    trailer: 8 * 1024,
    trailer_fields: 64,
};

/// Reads the requests of a connection, whose bodies come in pieces of at most `step` bytes.
pub(super) fn requests(mut read: &[u8], step: usize) -> Reading {
    let mut messages = Vec::new();
    let end = loop {
        if read.is_empty() {
            break ReadEnd::Over;
        }
        let mut head = RequestHead::new();
        let bytes = match head.parse(read, &HEAD) {
            Ok(HeadProgress::Whole(bytes)) => bytes,
            Ok(HeadProgress::Partial) => break ReadEnd::Partial,
            Err(_) => break ReadEnd::Closed,
        };
        let mut reader = BodyReader::new(head.framing(), CHUNKS);
        let (data, body_bytes) = match body(&mut reader, &read[bytes..], step) {
            Ok(found) => found,
            Err(()) => break ReadEnd::Closed,
        };
        if !reader.is_over() {
            break ReadEnd::Partial;
        }
        let start = [head.method(read), b" ", head.target(read)].concat();
        messages.push(ReadMessage::new(
            latin1(&start),
            fields(head.fields(), read),
            data,
        ));
        let options = ConnectionOptions::new(head.fields(), read);
        if !options.keeps_connection(head.version()) {
            break ReadEnd::Closed;
        }
        read = &read[bytes + body_bytes..];
    };
    Reading { messages, end }
}

/// Reads a final response; `None` for one that is rejected, interim, or cut short.
pub(super) fn response(read: &[u8], step: usize, is_head: bool) -> Option<Reading> {
    let mut head = ResponseHead::new();
    let Ok(HeadProgress::Whole(bytes)) = head.parse(read, &HEAD) else {
        return None;
    };
    let method = if is_head {
        AnsweredMethod::Head
    } else {
        AnsweredMethod::Other
    };
    let mut reader = BodyReader::new(head.framing(method), CHUNKS);
    let (data, _) = body(&mut reader, &read[bytes..], step).ok()?;
    reader.end_of_stream().ok()?;
    if head.status() < 200 {
        return None;
    }
    let start = head.status().to_string();
    let message = ReadMessage::new(start, fields(head.fields(), read), data);
    Some(Reading {
        messages: vec![message],
        // The connection is not used again, whatever follows.
        end: ReadEnd::Closed,
    })
}

/// Reads a body. Returns its data, and its length on the wire.
fn body(reader: &mut BodyReader, read: &[u8], step: usize) -> Result<(Vec<u8>, usize), ()> {
    let (mut data, mut length) = (Vec::new(), 0);
    for part in read.chunks(step) {
        if reader.is_over() {
            break;
        }
        let mut behind = 0;
        for piece in reader.pieces(part) {
            match piece.map_err(|_| ())? {
                BodyPiece::Data(bytes) => data.extend_from_slice(bytes),
                BodyPiece::Trailer(_) => {}
                BodyPiece::End { behind: rest } => behind = rest.len(),
            }
        }
        length += part.len() - behind;
    }
    Ok((data, length))
}

fn fields(lines: &FieldLines, read: &[u8]) -> Vec<(String, String)> {
    let fields = lines.iter(read);
    let fields = fields.map(|field| (latin1(field.name), latin1(field.value)));
    fields.collect()
}
