//! Gives the h2 crate the bytes of a peer.
#![allow(dead_code, reason = "each test uses a part")]

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes of a peer that then waits for ever.
pub(crate) struct ScriptedPeer<'a> {
    bytes: &'a [u8],
    may_send: Rc<Cell<bool>>,
}

impl<'a> ScriptedPeer<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self::waiting(bytes, Rc::new(Cell::new(true)))
    }

    /// Returns a peer that sends nothing until it may.
    pub(crate) fn waiting(bytes: &'a [u8], may_send: Rc<Cell<bool>>) -> Self {
        Self { bytes, may_send }
    }
}

impl AsyncRead for ScriptedPeer<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (read, rest) = self.bytes.split_at(self.bytes.len().min(into.remaining()));
        if read.is_empty() || !self.may_send.get() {
            return Poll::Pending;
        }
        into.put_slice(read);
        self.bytes = rest;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ScriptedPeer<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Returns whether one of the two begins with the other.
pub(crate) fn is_prefix(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}
