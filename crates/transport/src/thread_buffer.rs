//! Lends the buffers of a thread: one through which connections are read, so that a connection that waits for bytes holds no memory for
//! them, some in which the bytes of one write are gathered, and some for the responses of origins.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, BytesMut};
use sluicegate_base::bounds::LARGEST_READ;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of the buffer of a thread, the most that one read returns.
pub const THREAD_BUFFER: usize = LARGEST_READ;

/// Bytes of a read that are not copied: they keep the buffer of the thread, of which they fill half.
const KEPT_READ: usize = THREAD_BUFFER / 2;

thread_local! {
    static BUFFER: RefCell<BytesMut> = RefCell::new(BytesMut::with_capacity(THREAD_BUFFER));
}

/// Reads once, at most `most` bytes, and appends them to `into`. Returns their number, 0 at the end. Dropping the future loses no byte.
///
/// # Errors
/// Those of `stream`.
pub async fn read_through<S: AsyncRead + Unpin>(
    stream: &mut S,
    into: &mut BytesMut,
    most: usize,
) -> io::Result<usize> {
    poll_fn(|context| poll_read_through(stream, context, into, most)).await
}

/// Polls for a read, as [`read_through`] does. While `into` waits for bytes it holds no memory of a large read.
pub fn poll_read_through<S: AsyncRead + Unpin>(
    stream: &mut S,
    context: &mut Context<'_>,
    into: &mut BytesMut,
    most: usize,
) -> Poll<io::Result<usize>> {
    BUFFER.with_borrow_mut(|buffer| {
        if into.is_empty() && into.try_reclaim(THREAD_BUFFER) {
            // The bytes of a large read before were consumed.
            *buffer = mem::take(into);
        } else if buffer.capacity() < THREAD_BUFFER {
            *buffer = BytesMut::with_capacity(THREAD_BUFFER);
        }
        buffer.clear();
        let mut room = (&mut *buffer).limit(most);
        let bytes = ready!(pin!(stream.read_buf(&mut room)).poll(context))?;
        if into.is_empty() && bytes >= KEPT_READ {
            mem::swap(into, buffer);
        } else {
            into.extend_from_slice(buffer);
        }
        Poll::Ready(Ok(bytes))
    })
}

/// Buffers for writes that a thread keeps.
const SPARE_BUFFERS: usize = 16;

/// Bytes of a buffer for writes: most heads fit.
const WRITE_BUFFER: usize = 1024;

/// Bytes of the largest buffer that is kept: a head and a body that came with one read.
const LARGEST_SPARE: usize = 32 * 1024;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

thread_local! {
    static SPARE_READS: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// Returns an empty buffer for bytes that are read.
pub fn take_read_buffer() -> BytesMut {
    SPARE_READS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Keeps a buffer in its thread, unless it is large. Its bytes are dropped.
pub fn give_read_buffer(mut buffer: BytesMut) {
    buffer.clear();
    // One that was consumed in part, or of which others use parts, gets its memory back here if it is the only part.
    if buffer.try_reclaim(THREAD_BUFFER) {
        BUFFER.with_borrow_mut(|kept| {
            if kept.capacity() < THREAD_BUFFER {
                *kept = buffer;
            }
        });
        return;
    }
    let is_whole = buffer.try_reclaim(1);
    SPARE_READS.with_borrow_mut(|spare| {
        if is_whole && buffer.capacity() <= LARGEST_SPARE && spare.len() < SPARE_BUFFERS {
            spare.push(buffer);
        }
    });
}

/// A buffer for the bytes of a write, which goes back to its thread.
#[derive(Debug)]
pub struct WriteBuffer(Vec<u8>);

impl WriteBuffer {
    /// Returns an empty one.
    pub fn take() -> Self {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        Self(spare.unwrap_or_else(|| Vec::with_capacity(WRITE_BUFFER)))
    }
}

impl Deref for WriteBuffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for WriteBuffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for WriteBuffer {
    fn drop(&mut self) {
        let mut buffer = mem::take(&mut self.0);
        if buffer.capacity() > LARGEST_SPARE {
            return;
        }
        buffer.clear();
        // While its thread ends, it is freed.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_BUFFERS {
                spare.push(buffer);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use bytes::Buf;
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Goal: a buffer is empty whoever had it before, and large ones are not kept. Method: buffers that were filled and dropped.
    #[test]
    fn buffers_for_writes_are_empty_and_small() {
        for bytes in [1, WRITE_BUFFER, 100 * WRITE_BUFFER] {
            let mut buffer = WriteBuffer::take();
            assert!(buffer.is_empty() && buffer.capacity() <= LARGEST_SPARE);
            buffer.resize(bytes, 1);
        }
        assert!(WriteBuffer::take().is_empty());
    }

    /// Goal: a buffer for reads is empty whoever had it before, keeps its memory though it was consumed, and is not kept while others use
    /// its memory or where it is large. Method: buffers of each kind.
    #[test]
    fn buffers_for_reads_are_empty_and_small() {
        let mut consumed = BytesMut::from(&[1; 1000][..]);
        consumed.advance(1000);
        give_read_buffer(consumed);
        let kept = take_read_buffer();
        assert!(kept.is_empty() && kept.capacity() >= 1000);
        let mut shared = kept;
        shared.extend_from_slice(&[1; 1000]);
        let part = shared.split_to(1000);
        give_read_buffer(shared);
        assert_eq!(part.len() + take_read_buffer().capacity(), 1000);
        give_read_buffer(BytesMut::with_capacity(LARGEST_SPARE + 1));
        assert_eq!(take_read_buffer().capacity(), 0);
    }

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

    /// Goal: a read that fills half of the thread's buffer keeps it instead of being copied, and a connection that waits afterwards holds
    /// no memory for it. Method: such a read, which is consumed, then a read that waits, twice.
    #[tokio::test]
    async fn large_reads_keep_the_buffer_until_they_wait() {
        let (mut far, mut near) = tokio::io::duplex(THREAD_BUFFER);
        let mut read = BytesMut::new();
        for turn in 0..2 {
            far.write_all(&[turn; KEPT_READ]).await.unwrap();
            let bytes = read_through(&mut near, &mut read, THREAD_BUFFER).await;
            assert_eq!(bytes.unwrap(), KEPT_READ);
            assert!(read.iter().all(|&byte| byte == turn));
            assert!(read.capacity() >= THREAD_BUFFER);
            read.advance(KEPT_READ);
            let mut context = Context::from_waker(std::task::Waker::noop());
            let waits = poll_read_through(&mut near, &mut context, &mut read, THREAD_BUFFER);
            assert!(waits.is_pending());
            assert!(!read.try_reclaim(1));
        }
    }
}
