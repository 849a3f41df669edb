//! Owns the bytes that wait for the socket: those of all streams in one buffer, so that they leave in one write.

/// Taken bytes that are kept in front of waiting ones, before these are moved.
const TAKEN_BYTES: usize = 16 * 1024;

/// The bytes that wait.
#[derive(Debug, Default)]
pub(super) struct OutputBuffer {
    bytes: Vec<u8>,
    /// Bytes at the front that the socket has taken.
    taken: usize,
    /// Bytes that the socket has taken since the connection began.
    sent: u64,
}

impl OutputBuffer {
    /// Returns the bytes that wait.
    pub(super) fn waiting(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    /// Returns the number of bytes that wait.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Returns the buffer, for bytes behind those that wait.
    #[inline]
    pub(super) fn writer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Removes bytes that the socket has taken.
    pub(super) fn advance(&mut self, bytes: usize) {
        let bytes = bytes.min(self.len());
        self.sent += bytes as u64;
        self.taken += bytes;
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        } else if self.taken > TAKEN_BYTES {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Returns how many bytes have gone to the socket since the connection began.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns how many bytes will have gone when those that wait have.
    pub(super) fn end(&self) -> u64 {
        self.sent + self.len() as u64
    }

    /// Releases the memory if nothing waits.
    pub(super) fn shrink(&mut self) {
        if self.len() == 0 {
            *self = Self {
                sent: self.sent,
                ..Self::default()
            };
        }
    }
}
