//! Owns the identity of a request: 128 bits that nobody can guess and that cost no system call, or a name that a trusted hop gave it.
//!
//! Each thread numbers its requests and passes the number through a keyed SipHash of 128 bits, whose key the standard library
//! draws from the operating system once a thread. A counter alone would tell a client how many requests its neighbours
//! make; a plain generator could be wound forward from one output. A keyed hash of a counter does neither.
//!
//! A name that was given is kept where it is used, so that a request without one pays for none. It is of letters that mean nothing in a
//! header, in JSON and in HTML: it is written into all of them as it is.
//!
//! # Limits
//! [`RequestId::LONGEST`] bytes.

use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use arrayvec::ArrayString;
use siphasher::sip128::SipHasher13;
use sluicegate_base::hex::digits_of_u128;

/// The identity of one request: 32 lower-case hexadecimal digits when written, or what a trusted hop called it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(IdForm);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum IdForm {
    /// The digits, since each request writes them more than once.
    Drawn([u8; 32]),
    Given(Text),
}

/// A [`RequestId`] as text, on the stack.
pub type Text = ArrayString<{ RequestId::LONGEST }>;

impl RequestId {
    /// Most bytes of the written form: a UUID has 36, the ids of the large load balancers up to 64.
    pub const LONGEST: usize = 64;

    /// A new identity.
    #[must_use]
    pub fn next() -> Self {
        Self::from_bits(draw())
    }

    /// Parses the identity that a trusted hop gave the request: 1 to [`Self::LONGEST`] of the characters
    /// a-z A-Z 0-9 _ - . and nothing else.
    #[must_use]
    pub fn given(text: &[u8]) -> Option<Self> {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
        let right = !text.is_empty() && text.iter().all(plain);
        let text = std::str::from_utf8(text).ok().filter(|_| right)?;
        Text::from(text).ok().map(|text| Self(IdForm::Given(text)))
    }

    /// The identity with these bits.
    #[must_use]
    pub fn from_bits(bits: u128) -> Self {
        Self(IdForm::Drawn(digits_of_u128(bits)))
    }

    /// Its bits; `None` of one that was given.
    #[must_use]
    pub fn bits(self) -> Option<u128> {
        match &self.0 {
            IdForm::Drawn(digits) => {
                u128::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
            }
            IdForm::Given(_) => None,
        }
    }

    /// The written form, for a header or a log line.
    #[must_use]
    pub fn text(self) -> Text {
        match &self.0 {
            IdForm::Drawn(digits) => {
                let mut text = Text::new();
                // ASCII digits, of which two times as many would fit.
                text.push_str(std::str::from_utf8(digits).unwrap_or_default());
                text
            }
            IdForm::Given(text) => *text,
        }
    }

    /// The written form.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            IdForm::Drawn(digits) => digits,
            IdForm::Given(text) => text.as_bytes(),
        }
    }
}

impl RequestId {
    /// The written form as the value of a header.
    #[must_use]
    pub fn as_header_value(self) -> http::HeaderValue {
        http::HeaderValue::from_bytes(self.as_bytes())
            .expect("letters, digits and their like are visible ASCII")
    }
}

/// 128 bits that nobody can guess.
pub fn draw() -> u128 {
    thread_local! {
        static SOURCE: RefCell<IdSource> = RefCell::new(IdSource::new());
    }
    SOURCE.with_borrow_mut(IdSource::draw)
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({self})")
    }
}

/// The state from which one thread draws identities.
struct IdSource {
    hasher: SipHasher13,
    drawn: u64,
}

impl IdSource {
    fn new() -> Self {
        // Two numbers that nobody can guess: what a secretly keyed hash says of two fixed ones.
        let secret = RandomState::new();
        Self {
            hasher: SipHasher13::new_with_keys(secret.hash_one(0_u64), secret.hash_one(1_u64)),
            drawn: 0,
        }
    }

    fn draw(&mut self) -> u128 {
        self.drawn = self.drawn.wrapping_add(1);
        self.hasher.hash(&self.drawn.to_ne_bytes()).as_u128()
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
        assert_eq!(id.bits(), Some(0x0a_bcde));
        assert_eq!(id.text().as_str(), "000000000000000000000000000abcde");
        assert_eq!(id.as_header_value(), "000000000000000000000000000abcde");
    }

    /// Goal: what is given is kept as it is, and means nothing anywhere. Method: the ends of what is right, and each way to be wrong.
    #[test]
    fn a_given_id_is_short_and_plain() {
        let longest = "x".repeat(64);
        for right in ["a", "Az09_-.", &longest] {
            let id = RequestId::given(right.as_bytes()).expect("it is right");
            assert_eq!((id.text().as_str(), id.bits()), (right, None));
            assert_eq!(id.as_header_value(), right);
        }
        let too_long = "x".repeat(65);
        for wrong in [
            "", " a", "a b", "a\"b", "<a>", "a,b", "a/b", "a:b", "\u{e4}", &too_long,
        ] {
            assert_eq!(RequestId::given(wrong.as_bytes()), None, "{wrong}");
        }
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
