//! The part of tokio-test that Pingora names outside its tests: a type for which it implements its stream traits.
//!
//! The real crate turns on tokio's `test-util`, which puts a lock in front of every clock read of a timer.

/// Simulated input and output.
pub mod io {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    /// A simulated stream. It has no values: the gateway simulates none.
    #[derive(Debug)]
    pub enum Mock {}

    impl AsyncRead for Mock {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            match *self {}
        }
    }

    impl AsyncWrite for Mock {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            match *self {}
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            match *self {}
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            match *self {}
        }
    }
}
