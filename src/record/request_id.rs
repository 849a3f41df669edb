//! Owns the identity of a request: 128 bits that nobody can guess and that cost no system call.
//!
//! Each thread numbers its requests and passes the number through two keyed SipHashes, whose keys the standard library
//! draws from the operating system once a thread. A counter alone would tell a client how many requests its neighbours
//! make; a plain generator could be wound forward from one output. A keyed hash of a counter does neither, and two ids of
//! one thread can only be equal when both 64-bit halves collide at once.

use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// The identity of one request, 32 lower-case hexadecimal digits when written.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(u128);

impl RequestId {
    /// Length of the written form in bytes.
    pub const LENGTH: usize = 32;

    /// A new identity.
    #[must_use]
    pub fn next() -> Self {
        thread_local! {
            static SOURCE: RefCell<Source> = RefCell::new(Source::new());
        }
        SOURCE.with_borrow_mut(Source::draw)
    }

    /// The identity with these bits.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The written form, for a header or a log line.
    #[must_use]
    pub fn hex(self) -> Hex {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; Self::LENGTH];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0.to_be_bytes()) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 0xf)];
        }
        Hex(text)
    }
}

impl RequestId {
    /// The written form as the value of a header.
    #[must_use]
    pub fn as_header_value(self) -> http::HeaderValue {
        http::HeaderValue::from_bytes(self.hex().as_bytes())
            .expect("hexadecimal digits are visible ASCII")
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.hex().as_str())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({self})")
    }
}

/// A [`RequestId`] as text, on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex([u8; RequestId::LENGTH]);

impl Hex {
    /// The digits as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The digits as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Only `RequestId::hex` makes one, out of ASCII digits, so the fallback is never taken.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// What one thread draws identities from.
struct Source {
    high: RandomState,
    low: RandomState,
    drawn: u64,
}

impl Source {
    fn new() -> Self {
        Self {
            high: RandomState::new(),
            low: RandomState::new(),
            drawn: 0,
        }
    }

    fn draw(&mut self) -> RequestId {
        self.drawn = self.drawn.wrapping_add(1);
        let high = self.high.hash_one(self.drawn);
        let low = self.low.hash_one(self.drawn);
        RequestId(u128::from(high) << 64 | u128::from(low))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Goal: what is written is the bits, padded. Method: a value with leading zeros.
    #[test]
    fn an_id_is_written_as_32_lower_case_hex_digits() {
        let id = RequestId::from_bits(0x0a_bcde);
        assert_eq!(id.hex().as_str(), "000000000000000000000000000abcde");
        assert_eq!(id.to_string().len(), RequestId::LENGTH);
    }

    /// Goal: ids differ within a thread and between threads. Method: draw 40,000 on four threads.
    #[test]
    fn no_two_requests_share_an_id() {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| (0..10_000).map(|_| RequestId::next()).collect::<Vec<_>>())
            })
            .collect();
        let ids: HashSet<_> = threads
            .into_iter()
            .flat_map(|t| t.join().expect("the thread only draws"))
            .collect();
        assert_eq!(ids.len(), 40_000);
    }
}
