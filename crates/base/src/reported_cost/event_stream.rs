//! Finds the data in a stream of server-sent events (WHATWG HTML, "Parsing an event stream").
//!
//! Only `data` matters: the bytes of its lines go to the scanner as they come, and an empty line ends the event.

use super::json::NumberScanner;

const DATA: &[u8] = b"data";

/// The place in a stream of events.
#[derive(Debug, Default)]
pub(super) struct EventLines {
    line: EventLine,
    /// True if the last byte was a CR: a LF behind it belongs to the same line end.
    after_return: bool,
}

/// The place in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventLine {
    /// In the name of its field, of which so many bytes are those of `data`.
    Name(usize),
    /// Behind the colon, where one space is dropped.
    Begun,
    /// In its data.
    Data,
    /// In a line of another field.
    Other,
}

impl Default for EventLine {
    fn default() -> Self {
        Self::Name(0)
    }
}

impl EventLines {
    /// Reads the next piece of the stream.
    pub(super) fn read(&mut self, mut piece: &[u8], scanner: &mut NumberScanner) {
        while let Some((first, rest)) = piece.split_first() {
            let after_return = std::mem::take(&mut self.after_return);
            piece = match (self.line, *first) {
                (_, b'\n') if after_return => rest,
                (_, end @ (b'\n' | b'\r')) => {
                    self.after_return = end == b'\r';
                    self.end_line(scanner);
                    rest
                }
                (EventLine::Name(matched), byte) => {
                    self.line = named(matched, byte);
                    rest
                }
                (EventLine::Begun, b' ') => {
                    self.line = EventLine::Data;
                    rest
                }
                (line, _) => {
                    let end = memchr::memchr2(b'\n', b'\r', piece).unwrap_or(piece.len());
                    let (bytes, rest) = piece.split_at(end);
                    if line != EventLine::Other {
                        self.line = EventLine::Data;
                        scanner.read(bytes);
                    }
                    rest
                }
            };
        }
    }

    fn end_line(&mut self, scanner: &mut NumberScanner) {
        match std::mem::take(&mut self.line) {
            EventLine::Name(0) => scanner.begin_text(),
            // Lines of data are joined by line ends.
            EventLine::Begun | EventLine::Data => scanner.read(b"\n"),
            EventLine::Name(_) | EventLine::Other => {}
        }
    }
}

/// Returns the place behind this byte of a name, of which so many bytes are those of `data`.
fn named(matched: usize, byte: u8) -> EventLine {
    match DATA.get(matched) {
        Some(next) if *next == byte => EventLine::Name(matched + 1),
        None if byte == b':' => EventLine::Begun,
        _ => EventLine::Other,
    }
}
