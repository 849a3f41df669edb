//! Owns the window in which the peer sends bodies on all streams together, RFC 9113 §6.9.

use crate::frame::DEFAULT_WINDOW;

/// The window of the connection.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    /// Bytes that the peer may send.
    left: u32,
    /// Released bytes by which the window has not grown.
    released: u32,
    size: u32,
}

impl ReceiveWindow {
    /// Returns a window of this size, which is at least the default.
    pub(super) fn new(size: u32) -> Self {
        let size = size.max(DEFAULT_WINDOW);
        Self {
            left: size,
            released: 0,
            size,
        }
    }

    /// Takes bytes that come. Returns false where the peer may not send so many.
    #[must_use]
    pub(super) fn take(&mut self, bytes: u32) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// Releases bytes. Returns by how many the window grows now.
    pub(super) fn release(&mut self, bytes: u32) -> Option<u32> {
        self.released += bytes;
        if self.released < self.size / 2 {
            return None;
        }
        let grown = self.released;
        self.left += grown;
        self.released = 0;
        Some(grown)
    }
}
