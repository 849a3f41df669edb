//! Reads commands and writes replies of RESP 2.

/// A reply of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Integer(i64),
    Status(String),
    Bulk(Vec<u8>),
    Array(Vec<Reply>),
    Error(String),
}

impl Reply {
    pub(crate) fn ok() -> Self {
        Self::Status("OK".to_owned())
    }

    pub(crate) fn text(text: impl Into<Vec<u8>>) -> Self {
        Self::Bulk(text.into())
    }
}

/// Appends a reply.
pub(crate) fn encode(reply: &Reply, into: &mut Vec<u8>) {
    match reply {
        Reply::Nil => into.extend_from_slice(b"$-1\r\n"),
        Reply::Integer(number) => into.extend_from_slice(format!(":{number}\r\n").as_bytes()),
        Reply::Status(text) => into.extend_from_slice(format!("+{text}\r\n").as_bytes()),
        Reply::Error(text) => into.extend_from_slice(format!("-{text}\r\n").as_bytes()),
        Reply::Bulk(bytes) => {
            into.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
            into.extend_from_slice(bytes);
            into.extend_from_slice(b"\r\n");
        }
        Reply::Array(items) => {
            into.extend_from_slice(format!("*{}\r\n", items.len()).as_bytes());
            items.iter().for_each(|item| encode(item, into));
        }
    }
}

/// Takes the first whole command from the front of `buffer`; `None` while it is not whole.
pub(crate) fn take_command(buffer: &mut Vec<u8>) -> Option<Vec<Vec<u8>>> {
    let mut at = 0;
    let count = line_number(buffer, &mut at, b'*')?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let length = line_number(buffer, &mut at, b'$')?;
        let word = buffer.get(at..at + length)?;
        buffer.get(at + length + 1)?;
        words.push(word.to_vec());
        at += length + 2;
    }
    buffer.drain(..at);
    Some(words)
}

fn line_number(buffer: &[u8], at: &mut usize, kind: u8) -> Option<usize> {
    let rest = buffer.get(*at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    assert_eq!(rest[0], kind, "the link sends arrays of strings");
    *at += end + 2;
    std::str::from_utf8(&rest[1..end]).ok()?.parse().ok()
}
