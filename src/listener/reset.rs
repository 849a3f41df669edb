//! Makes the end of a connection a reset, where a plain end would pass for the end of an answer.
//!
//! Pingora's streams report the number of their socket, and `SO_LINGER` needs the socket, which only `unsafe` makes of a number. The type
//! by which tokio waits for a descriptor lends it, but a reactor waits for a descriptor once, and that of the connection does already. So
//! this module registers the socket with a reactor of its own for a moment. That takes some twelve system calls and three descriptors,
//! for answers that break.

use std::io;
use std::time::Duration;

use pingora::protocols::IO;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Builder;

/// Makes the close of this stream a reset, RFC 9293 §3.10.5. What was not sent is dropped then.
///
/// # Errors
/// The system has no descriptor for it, or the stream no socket.
#[expect(
    deprecated,
    reason = "its successor is unsafe, for types whose descriptor may be another at each call: that of a stream stays the same"
)]
pub(super) fn reset_on_close(stream: &dyn IO) -> io::Result<()> {
    let reactor = Builder::new_current_thread().enable_io().build()?;
    let reset = {
        let _entered = reactor.enter();
        AsyncFd::with_interest(stream.id(), Interest::WRITABLE)
            .and_then(|socket| SockRef::from(&socket).set_linger(Some(Duration::ZERO)))
    };
    // A plain drop waits for threads that it does not have, which tokio forbids in a task.
    reactor.shutdown_background();
    reset
}
