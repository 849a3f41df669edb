//! Owns the identity of a request: 128 bits that nobody can guess and that cost no system call.
//!
//! Each thread numbers its requests and passes the number through a keyed SipHash of 128 bits, whose key the standard library
//! draws from the operating system once a thread. A counter alone would tell a client how many requests its neighbours
//! make; a plain generator could be wound forward from one output. A keyed hash of a counter does neither.

use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use siphasher::sip128::SipHasher13;

/// The identity of one request, 32 lower-case hexadecimal digits when written.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(u128);

/// The two digits of every byte: an id is written three times a request.
const PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 0xf]];
        byte += 1;
    }
    pairs
};

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

    /// All its bits.
    #[must_use]
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// The lower half of them.
    #[must_use]
    pub const fn low_bits(self) -> u64 {
        self.0 as u64
    }

    /// The written form, for a header or a log line.
    #[must_use]
    pub fn hex(self) -> Hex {
        let mut text = [0; Self::LENGTH];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0.to_be_bytes()) {
            pair.copy_from_slice(&PAIRS[usize::from(byte)]);
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
    hasher: SipHasher13,
    drawn: u64,
}

impl Source {
    fn new() -> Self {
        // Two numbers that nobody can guess: what a secretly keyed hash says of two fixed ones.
        let secret = RandomState::new();
        Self {
            hasher: SipHasher13::new_with_keys(secret.hash_one(0_u64), secret.hash_one(1_u64)),
            drawn: 0,
        }
    }

    fn draw(&mut self) -> RequestId {
        self.drawn = self.drawn.wrapping_add(1);
        RequestId(self.hasher.hash(&self.drawn.to_ne_bytes()).as_u128())
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
