//! Writes and reads the text of a challenge: 16 bytes of terms and a MAC of 32, as 64 characters of base64url.
//!
//! The text is as long as one block of SHA-256, so a script computes that block once and hashes only the counter behind it.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sluicegate_limiter::Timestamp;

/// Bytes of the terms.
pub(super) const TERMS_BYTES: usize = 16;
/// Bytes of the MAC: HMAC-SHA256.
pub(super) const MAC_BYTES: usize = 32;
/// Characters of the text.
pub(super) const TEXT_LENGTH: usize = 64;
/// The version of the layout, first of the terms.
const VERSION: u8 = 1;

/// The terms of a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChallengeTerms {
    /// The time at which it was made, by the clock of the gateway that made it.
    pub issued: Timestamp,
    /// Seconds to wait, for a browser without script.
    pub wait_seconds: u16,
    /// Leading zero bits that the hash of a proof has.
    pub bits: u8,
    /// Number of solutions that failed before, by the client's own word: it only keeps the page from reloading without end.
    pub failures: u8,
}

/// A text that was read, and not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChallengeToken {
    pub(super) terms: ChallengeTerms,
    pub(super) mac: [u8; MAC_BYTES],
}

impl ChallengeTerms {
    /// Returns the time from which the wait is over.
    pub(super) fn ripe_at(self) -> Timestamp {
        let wait = Duration::from_secs(self.wait_seconds.into());
        self.issued.saturating_add(wait)
    }

    /// Returns the bytes that are signed and sent.
    pub(super) fn bytes(self) -> [u8; TERMS_BYTES] {
        let issued = self.issued.as_nanos().to_le_bytes();
        let wait = self.wait_seconds.to_le_bytes();
        let mut bytes = [0; TERMS_BYTES];
        let parts = [VERSION, self.bits, self.failures, 0].into_iter();
        let parts = parts.chain(wait).chain([0; 2]).chain(issued);
        for (byte, part) in bytes.iter_mut().zip(parts) {
            *byte = part;
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; TERMS_BYTES]) -> Option<Self> {
        let [VERSION, bits, failures, 0, w0, w1, 0, 0, issued @ ..] = *bytes else {
            return None;
        };
        Some(Self {
            issued: Timestamp::from_nanos(u64::from_le_bytes(issued)),
            wait_seconds: u16::from_le_bytes([w0, w1]),
            bits,
            failures,
        })
    }
}

impl ChallengeToken {
    /// Returns the text.
    pub(super) fn text(&self) -> String {
        let mut bytes = self.terms.bytes().to_vec();
        bytes.extend_from_slice(&self.mac);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a text; `None` for one that no gateway has written.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() != TEXT_LENGTH {
            return None;
        }
        let mut bytes = [0; TERMS_BYTES + MAC_BYTES];
        let read = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
        let (terms, mac) = bytes.get(..read)?.split_first_chunk::<TERMS_BYTES>()?;
        Some(Self {
            terms: ChallengeTerms::from_bytes(terms)?,
            mac: mac.try_into().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: terms survive their way through a browser. Method: any terms and MAC, written and read.
        #[test]
        fn a_text_is_read_as_it_was_written(issued: u64, wait_seconds: u16, bits: u8, failures: u8, mac: [u8; MAC_BYTES]) {
            let issued = Timestamp::from_nanos(issued);
            let token = ChallengeToken { terms: ChallengeTerms { issued, wait_seconds, bits, failures }, mac };
            let text = token.text();
            prop_assert_eq!(text.len(), TEXT_LENGTH);
            prop_assert_eq!(ChallengeToken::parse(&text), Some(token));
        }

        /// Goal: no text makes the reader panic, and each has one spelling. Method: any text of the alphabet, and any text.
        #[test]
        fn whatever_is_read_is_written_alike(text in "[A-Za-z0-9_-]{64}|.{0,80}") {
            if let Some(token) = ChallengeToken::parse(&text) {
                prop_assert_eq!(token.text(), text);
            }
        }
    }
}
