//! Owns the window in which the peer sends bodies on all streams together, RFC 9113 §6.9.

use crate::frame::DEFAULT_WINDOW;

/// The window of the connection.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    /// Bytes that the peer may send.
    left: u32,
    /// Released bytes by which the window has not grown.
    released: u32,
}

impl ReceiveWindow {
    /// Returns a window of this size, which is at least the default.
    pub(super) fn new(size: u32) -> Self {
        let size = size.max(DEFAULT_WINDOW);
        Self {
            left: size,
            released: 0,
        }
    }

    /// Takes bytes that come. Returns false where the peer may not send so many.
    #[must_use]
    pub(super) fn take(&mut self, bytes: u32) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// Releases bytes.
    pub(super) fn release(&mut self, bytes: u32) {
        self.released += bytes;
    }

    /// Returns by how many bytes the window grows now: while it is wide it grows by large steps, so that frames are few, and where bodies
    /// that nobody takes have most of it, by small ones, so that the others go on.
    pub(super) fn grow(&mut self) -> Option<u32> {
        if self.released == 0 || self.released < self.left / 2 {
            return None;
        }
        let grown = self.released;
        self.left += grown;
        self.released = 0;
        Some(grown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a wide window grows by large steps, and a narrow one at once. Method: bytes that are released, before and behind others that
    /// nobody takes.
    #[test]
    fn a_narrow_window_grows_at_once() {
        let mut window = ReceiveWindow::new(1_000_000);
        assert!(window.take(300_000));
        assert_eq!(window.grow(), None);
        window.release(300_000);
        assert_eq!(window.grow(), None);
        assert!(window.take(200_000));
        assert_eq!(window.grow(), Some(300_000));
        assert!(window.take(799_000));
        window.release(600);
        assert_eq!(window.grow(), Some(600));
        assert!(!window.take(2_000));
    }
}
