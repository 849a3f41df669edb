//! Reads from connections through one buffer of each thread, so that a connection that waits for bytes holds no memory for them.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes of the buffer of a thread, the most that one read returns.
pub(crate) const THREAD_BUFFER: usize = 64 * 1024;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; THREAD_BUFFER]);
}

/// Reads once, at most `most` bytes, and appends them to `into`. Returns their number, 0 at the end. Dropping the future loses no byte.
///
/// # Errors
/// Those of `stream`.
pub(crate) async fn read_through<S: AsyncRead + Unpin>(
    stream: &mut S,
    into: &mut BytesMut,
    most: usize,
) -> io::Result<usize> {
    poll_fn(|context| {
        BUFFER.with_borrow_mut(|buffer| {
            let end = most.min(buffer.len());
            let mut read = ReadBuf::new(&mut buffer[..end]);
            ready!(Pin::new(&mut *stream).poll_read(context, &mut read))?;
            into.extend_from_slice(read.filled());
            Poll::Ready(Ok(read.filled().len()))
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: bytes are appended in order, in reads of at most the given length, up to the end. Method: a slice that is read in threes.
    #[tokio::test]
    async fn bytes_are_appended() {
        let mut stream: &[u8] = b"abcdefgh";
        let mut read = BytesMut::from(&b"0"[..]);
        for bytes in [3, 3, 2, 0] {
            assert_eq!(
                read_through(&mut stream, &mut read, 3).await.unwrap(),
                bytes
            );
        }
        assert_eq!(read, "0abcdefgh");
    }
}
