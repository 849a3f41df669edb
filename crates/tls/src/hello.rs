//! Reads the first message of a client before the handshake begins: for rustls, which parses it, and for a fingerprint of the
//! whole message.
//!
//! # Limits
//! At most [`HELLO`](bounds::HELLO) bytes are read; a longer message has no fingerprint.

use bytes::BytesMut;
use sluicegate_base::bounds;
use sluicegate_decide::client::ja4;
use tokio::io::AsyncReadExt;

use crate::client_socket::ClientSocket;

/// Bytes of a record's header, RFC 8446 §5.1: type, version, length.
const RECORD_HEADER: usize = 5;
const HANDSHAKE_RECORD: u8 = 22;
/// Bytes of a message's header, §4: type, length.
const MESSAGE_HEADER: usize = 4;
const CLIENT_HELLO: u8 = 1;

/// The result of parsing the bytes read so far.
#[derive(Debug, PartialEq, Eq)]
enum FirstMessage {
    /// A partial message.
    Partial,
    /// A complete message.
    Whole(Vec<u8>),
    /// Another message, or one that is too long; the handshake decides about it.
    Other,
}

/// Waits for the first bytes, and takes no more memory until they are here. Returns them; `None` when the stream ends before.
pub(super) async fn begin(socket: &mut ClientSocket) -> Option<BytesMut> {
    let mut header = [0; RECORD_HEADER];
    let bytes = socket.read(&mut header).await.ok()?;
    (bytes > 0).then(|| BytesMut::from(&header[..bytes]))
}

/// Reads the first message, which begins with these bytes, and puts it back. Returns its fingerprint, where it has one; `None` when the
/// stream ends before.
pub(super) async fn look(
    socket: &mut ClientSocket,
    mut read: BytesMut,
) -> Option<Option<Box<str>>> {
    let message = loop {
        match FirstMessage::find(&read) {
            FirstMessage::Partial => {}
            FirstMessage::Whole(message) => break Some(message),
            FirstMessage::Other => break None,
        }
        read.reserve(bounds::HEAD_READ);
        if socket.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    socket.put_back(read);
    let fingerprint = message.and_then(|message| ja4(&message));
    Some(fingerprint.map(Into::into))
}

impl FirstMessage {
    /// Joins the records of the first message, as far as their bytes are here.
    fn find(read: &[u8]) -> Self {
        let mut message = Vec::new();
        let mut rest = read;
        loop {
            if let Some(&[kind, high, middle, low]) = message.first_chunk::<MESSAGE_HEADER>() {
                let length = u32::from_be_bytes([0, high, middle, low]);
                let end = usize::try_from(length).unwrap_or(usize::MAX);
                let end = end.saturating_add(MESSAGE_HEADER);
                if kind != CLIENT_HELLO || end > bounds::HELLO {
                    return Self::Other;
                }
                if let Some(whole) = message.get(MESSAGE_HEADER..end) {
                    return Self::Whole(whole.to_vec());
                }
            }
            match rest.first() {
                None => return Self::Partial,
                Some(kind) if *kind != HANDSHAKE_RECORD => return Self::Other,
                Some(_) => {}
            }
            let Some(&[_, _, _, high, low]) = rest.first_chunk::<RECORD_HEADER>() else {
                return Self::Partial;
            };
            let end = RECORD_HEADER + usize::from(u16::from_be_bytes([high, low]));
            // §5.1 forbids empty records, of which there could be any number.
            if end == RECORD_HEADER || read.len() > bounds::HELLO + bounds::HEAD_READ {
                return Self::Other;
            }
            message.extend_from_slice(
                rest.get(RECORD_HEADER..end.min(rest.len()))
                    .unwrap_or_default(),
            );
            match rest.get(end..) {
                Some(behind) => rest = behind,
                None if message.len() < MESSAGE_HEADER => return Self::Partial,
                None => rest = &[],
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(bytes: usize) -> Vec<u8> {
        let length = u32::try_from(bytes).unwrap().to_be_bytes();
        let content = (0..bytes).map(|at| at.to_le_bytes()[0]);
        [CLIENT_HELLO, length[1], length[2], length[3]]
            .into_iter()
            .chain(content)
            .collect()
    }

    /// Returns `message` in records of at most `most` bytes.
    fn records(message: &[u8], most: usize) -> Vec<u8> {
        let record = |part: &[u8]| {
            let length = u16::try_from(part.len()).unwrap().to_be_bytes();
            [&[HANDSHAKE_RECORD, 3, 1][..], &length, part].concat()
        };
        message.chunks(most).flat_map(record).collect()
    }

    /// Goal: a message is complete at its last byte, however it is split into records. Method: records of several sizes, cut
    /// everywhere.
    #[test]
    fn a_message_is_put_together_from_its_records() {
        let message = message(300);
        for most in [1, 3, 100, 1_000] {
            let sent = records(&message, most);
            for cut in 0..sent.len() {
                assert_eq!(
                    FirstMessage::find(&sent[..cut]),
                    FirstMessage::Partial,
                    "{most} {cut}"
                );
            }
            let whole = FirstMessage::Whole(message[MESSAGE_HEADER..].to_vec());
            assert_eq!(FirstMessage::find(&sent), whole);
        }
    }

    /// Goal: other messages are left to the handshake. Method: a request, an empty record, other types, and too long a message.
    #[test]
    fn what_is_something_else_is_not_waited_for() {
        for other in [
            b"GET / HTTP/1.1\r\n".to_vec(),
            vec![22, 3, 1, 0, 0],
            records(&[2, 0, 0, 1, 0], 9),
            records(&message(bounds::HELLO), 16_000),
        ] {
            assert_eq!(FirstMessage::find(&other), FirstMessage::Other);
        }
    }

    proptest! {
        /// Goal: no bytes of a client stop the process. Method: arbitrary bytes after the beginning of a record.
        #[test]
        fn every_beginning_can_be_judged(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            FirstMessage::find(&bytes);
            FirstMessage::find(&[&[HANDSHAKE_RECORD, 3, 1, 0][..], &bytes].concat());
        }
    }
}
