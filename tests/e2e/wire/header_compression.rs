//! The header compression of answers over HTTP/2, read from the bytes on the wire (RFC 7541).

use crate::harness::frames::{Frames, HEADERS, get};
use crate::harness::{Gateway, Setup};

const RULES: &str = r#"
[limit.few]
key = "client.ip"
rates = ["1000 per 1h"]
headers = "both"

[[route]]
path = "/*"
limits = ["few"]
respond = { status = 200, body = "here" }
"#;

/// The representation of a field, RFC 7541 §6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Representation {
    /// Of the table.
    Indexed,
    /// A literal that both sides add to the table.
    Added,
    /// A literal that this hop does not add.
    NotAdded,
    /// A literal that no hop may add.
    NeverIndexed,
}

/// The fields of a block whose names are written out: the representation of each, and the name as it was written.
fn written_names(mut block: &[u8]) -> Vec<(Representation, Vec<u8>)> {
    let mut names = Vec::new();
    while let Some(first) = block.first() {
        let (representation, prefix) = match first {
            0x80.. => (Representation::Indexed, 7),
            0x40.. => (Representation::Added, 6),
            // A new size of the table.
            0x20.. => {
                integer(&mut block, 5);
                continue;
            }
            0x10.. => (Representation::NeverIndexed, 4),
            _ => (Representation::NotAdded, 4),
        };
        let index = integer(&mut block, prefix);
        if representation == Representation::Indexed {
            continue;
        }
        if index == 0 {
            names.push((representation, text(&mut block)));
        }
        text(&mut block);
    }
    names
}

/// Takes an integer behind a prefix of so many bits, RFC 7541 §5.1.
fn integer(block: &mut &[u8], prefix: u8) -> usize {
    let most = (1 << prefix) - 1;
    let (first, rest) = block.split_first().expect("an integer");
    *block = rest;
    let mut value = usize::from(first & most);
    if value < usize::from(most) {
        return value;
    }
    for shift in (0..28).step_by(7) {
        let (next, rest) = block.split_first().expect("more of it");
        *block = rest;
        value += usize::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            break;
        }
    }
    value
}

/// Takes a text, RFC 7541 §5.2: its bytes as they are written.
fn text(block: &mut &[u8]) -> Vec<u8> {
    let length = integer(block, 7);
    let (text, rest) = block.split_at(length);
    *block = rest;
    text.to_vec()
}

/// A name of small letters and hyphens in the code of RFC 7541, appendix B.
fn coded(name: &str) -> Vec<u8> {
    const LETTERS: [&str; 26] = [
        "00011", "100011", "00100", "100100", "00101", "100101", "100110", "100111", "00110",
        "1110100", "1110101", "101000", "101001", "101010", "00111", "101011", "1110110", "101100",
        "01000", "01001", "101101", "1110111", "1111000", "1111001", "1111010", "1111011",
    ];
    let code = |letter: u8| match letter {
        b'-' => "010110",
        letter => LETTERS[usize::from(letter - b'a')],
    };
    let mut bits: String = name.bytes().map(code).collect();
    while !bits.len().is_multiple_of(8) {
        bits.push('1');
    }
    let bytes = bits.as_bytes().chunks(8);
    bytes
        .map(|byte| u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 2).unwrap())
        .collect()
}

async fn block(frames: &mut Frames, stream: u32) -> Vec<u8> {
    frames.request(stream, &get(b"/", &[])).await;
    loop {
        let frame = frames.next().await.expect("an answer");
        if frame.kind == HEADERS && frame.stream == stream {
            return frame.payload;
        }
    }
}

#[tokio::test]
async fn names_are_written_until_they_have_an_entry() {
    // Goal: a name that the static table lacks is written as it is, then once more for its entry, whether its value comes again or differs
    // in each answer; later answers refer to it. Method: the blocks of the answers of one connection, byte for byte.
    const NAMES: [&str; 6] = [
        "ratelimit",
        "ratelimit-policy",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "x-request-id",
    ];
    let gateway: Gateway = Setup::new().rules(RULES).start().await;
    let mut frames = Frames::connect(gateway.address()).await;
    let first = written_names(&block(&mut frames, 1).await);
    for name in NAMES {
        let expected = (Representation::NotAdded, name.as_bytes().to_vec());
        assert!(first.contains(&expected), "{name}: {first:x?}");
    }
    let mut added = Vec::new();
    let mut written = first;
    // A name gets an entry with its second value, unless the hash of another one took its place meanwhile.
    for stream in (3..80).step_by(2) {
        written = written_names(&block(&mut frames, stream).await);
        let new = written
            .iter()
            .filter(|(how, _)| *how == Representation::Added);
        added.extend(new.map(|(_, name)| name.clone()));
        if written.is_empty() {
            break;
        }
    }
    assert!(written.is_empty(), "{written:x?}");
    for name in NAMES {
        let entries = added.iter().filter(|added| **added == coded(name));
        assert_eq!(entries.count(), 1, "{name}: {added:x?}");
    }
}
