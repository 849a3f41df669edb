//! Generates messages of HTTP/1: valid ones, and such with a few bytes changed, removed or put in between.

use proptest::prelude::*;

/// Parts that parsers have read in different ways.
const ODD_PARTS: [&str; 26] = [
    "\r",
    "\n",
    "\r\n",
    "\r\n\r\n",
    "\0",
    " ",
    "\t",
    ":",
    ";",
    ",",
    "0",
    "5",
    "+",
    "-",
    "_",
    "0x",
    "\x0b",
    "\x7f",
    "\r\n ",
    "\r\n\t",
    "chunked",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: identity\r\n",
    "Connection: close\r\n",
    "HTTP/1.1",
];

/// A change of a message at a place, which is taken modulo its length.
#[derive(Clone, Debug)]
enum Change {
    Byte(usize, u8),
    Part(usize, &'static str),
    Removal(usize, usize),
}

/// Returns the bytes of connections with one to three requests, and the most bytes of a read.
pub(super) fn requests() -> impl Strategy<Value = (Vec<u8>, usize)> {
    let line = "(GET|POST|PUT|OPTIONS) /[a-z0-9?=&%.]{0,8} HTTP/1\\.1\r\nHost: a\r\n";
    let request = (
        line,
        fields(),
        prop_oneof![Just((String::new(), String::new())), length(), chunked()],
    );
    let request = request
        .prop_map(|(line, fields, (framing, body))| format!("{line}{fields}{framing}\r\n{body}"));
    let connection = prop::collection::vec(request, 1..4).prop_map(|requests| requests.concat());
    changed(connection)
}

/// Returns the bytes of responses, with some bytes behind them, the most bytes of a read, and whether they answer HEAD.
pub(super) fn responses() -> impl Strategy<Value = (Vec<u8>, usize, bool)> {
    let line = "HTTP/1\\.1 (200|204|304|404|599) [ -~]{0,4}\r\n";
    let until_close = "[a-z]{0,20}".prop_map(|data| (String::new(), data));
    let framed = prop_oneof![length(), until_close, chunked()];
    let response = (line, fields(), framed, "(HTTP)?");
    let response = response.prop_map(|(line, fields, (framing, body), behind)| {
        format!("{line}{fields}{framing}\r\n{body}{behind}")
    });
    (changed(response), prop::bool::weighted(0.2))
        .prop_map(|((bytes, step), is_head)| (bytes, step, is_head))
}

fn fields() -> impl Strategy<Value = String> {
    prop::string::string_regex("([A-EX-Z]{1,2}:[ \t]{0,2}[!-~]{0,4}[ \t]?\r\n){0,3}").unwrap()
}

/// Returns the framing of a body, and the body.
fn length() -> impl Strategy<Value = (String, String)> {
    "[a-z]{0,20}".prop_map(|data| (format!("Content-Length: {}\r\n", data.len()), data))
}

fn chunked() -> impl Strategy<Value = (String, String)> {
    let chunks = prop::collection::vec("[a-z]{1,20}", 0..4);
    let trailer = "([A-E]{1,2}: [a-z]{0,3}\r\n){0,2}";
    (chunks, "(;[a-z]{1,2}(=[a-z]{1,2})?)?", trailer).prop_map(|(chunks, extension, trailer)| {
        let chunk = |data: &String| format!("{:x}{extension}\r\n{data}\r\n", data.len());
        let body: String = chunks.iter().map(chunk).collect();
        let field = "Transfer-Encoding: chunked\r\n".to_owned();
        (field, format!("{body}0\r\n{trailer}\r\n"))
    })
}

/// Returns the messages with up to two changes, and the most bytes of a read.
fn changed(message: impl Strategy<Value = String>) -> impl Strategy<Value = (Vec<u8>, usize)> {
    let change = prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (any::<usize>(), prop::sample::select(&ODD_PARTS))
            .prop_map(|(at, part)| Change::Part(at, part)),
        (any::<usize>(), 1_usize..4).prop_map(|(at, bytes)| Change::Removal(at, bytes)),
    ];
    let changes = prop::collection::vec(change, 0..3);
    (message, changes, 1_usize..200).prop_map(|(message, changes, step)| {
        let mut bytes = message.into_bytes();
        for change in changes {
            apply(change, &mut bytes);
        }
        (bytes, step)
    })
}

fn apply(change: Change, bytes: &mut Vec<u8>) {
    let place = |at: usize| at % bytes.len().max(1);
    match change {
        Change::Byte(at, byte) => {
            let at = place(at);
            bytes[at] = byte;
        }
        Change::Part(at, part) => {
            let at = place(at);
            bytes.splice(at..at, part.bytes());
        }
        Change::Removal(at, removed) => {
            let at = place(at);
            let end = (at + removed).min(bytes.len());
            bytes.drain(at..end);
        }
    }
}
