//! Counts the interim heads (100 to 199) of one attempt, each of which costs memory and time, and none of which ends the response.
//!
//! RFC 9110 §15.2 sets no bound, so a server could send them without end. HTTP/2 has no window for heads.

use sluicegate_base::bounds::{INTERIM_BYTES, INTERIM_HEADS};

use crate::request_failure::HeadFailure;

/// The bytes that are counted for each field beside its name and value, as RFC 9113 §6.5.2 has it.
const FIELD_OVERHEAD: usize = 32;

/// The interim heads of one attempt so far.
#[derive(Debug, Default)]
pub struct InterimHeads {
    heads: usize,
    bytes: usize,
}

impl InterimHeads {
    /// Counts another one.
    ///
    /// # Errors
    /// They are too many, or have too many bytes.
    pub fn count<'f>(
        &mut self,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), HeadFailure> {
        let bytes = fields.map(|(name, value)| name.len() + value.len() + FIELD_OVERHEAD);
        self.heads += 1;
        self.bytes = self.bytes.saturating_add(bytes.sum());
        if self.heads > INTERIM_HEADS || self.bytes > INTERIM_BYTES {
            return Err(HeadFailure::TooManyInterim);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: both bounds hold, and what fits passes. Method: heads without fields, and heads of a quarter of the bytes.
    #[test]
    fn number_and_bytes_are_bounded() {
        let passed = |fields: &[(&[u8], &[u8])]| {
            let mut heads = InterimHeads::default();
            (0..1000).position(|_| heads.count(fields.iter().copied()).is_err())
        };
        assert_eq!(passed(&[]), Some(INTERIM_HEADS));
        let link = "a".repeat(INTERIM_BYTES / 4 - "link".len() - FIELD_OVERHEAD);
        assert_eq!(passed(&[(b"link", link.as_bytes())]), Some(4));
    }
}
