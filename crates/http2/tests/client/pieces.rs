//! Splits the bytes of one side of a connection, and notes what comes in words that no split changes.

use sluicegate_http2::{StreamEnd, StreamId};

/// Splits bytes into pieces of these sizes, again and again.
pub(crate) fn pieces<'b>(bytes: &'b [u8], sizes: &[usize]) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    let mut sizes = sizes.iter().cycle();
    while let Some(size) = sizes.next().filter(|_| !rest.is_empty()) {
        let (piece, behind) = rest.split_at((*size).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// Adds DATA to that which came before it, that of one stream in one event.
pub(crate) fn add_data(events: &mut Vec<String>, stream: StreamId, data: &[u8], end: StreamEnd) {
    let prefix = format!("data {stream} ");
    let text = data.escape_ascii().to_string();
    let is_same = |last: &&mut String| last.starts_with(&prefix) && !last.ends_with("Here");
    match events.last_mut().filter(is_same) {
        Some(last) => *last += &text,
        None => events.push(prefix + &text),
    }
    if end.is_here()
        && let Some(last) = events.last_mut()
    {
        *last += " Here";
    }
}
