//! Reads the streams on which a client talks about dynamic tables, RFC 9204 §4.3 and §4.4. There are none, so little can be said.

use crate::violation::RuleViolation;

/// The instruction that sets the capacity 0, RFC 9204 §4.3.1.
const NO_CAPACITY: u8 = 0x20;
/// The most bytes of an integer: 62 bits behind a prefix of 6, RFC 9204 §4.1.1.
const INTEGER_BYTES: u8 = 10;

/// Reads bytes of the encoder stream.
///
/// # Errors
/// An instruction needs a table, RFC 9204 §3.2.3, §4.3.
pub(crate) fn read_encoder_stream(input: &[u8]) -> Result<(), RuleViolation> {
    match input.iter().all(|byte| *byte == NO_CAPACITY) {
        true => Ok(()),
        false => Err(RuleViolation::EncoderStream),
    }
}

/// The decoder stream of a client: it says which streams it gave up, which changes nothing here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DecoderInstructions {
    /// Bytes that the open instruction has beside its first; `None` between two.
    continued: Option<u8>,
}

impl DecoderInstructions {
    /// Reads a byte. Returns whether an instruction begins with it.
    ///
    /// # Errors
    /// An instruction acknowledges what was not sent, RFC 9204 §4.4.1, §4.4.3, or is none.
    pub(crate) fn read(&mut self, byte: u8) -> Result<bool, RuleViolation> {
        let begins = self.continued.is_none();
        self.continued = match self.continued {
            // RFC 9204 §4.4.2: Stream Cancellation, whose number may go on.
            None if byte >> 6 == 0b01 => (byte & 0x3f == 0x3f).then_some(0),
            None | Some(INTEGER_BYTES..) => return Err(RuleViolation::DecoderStream),
            Some(count) => (byte & 0x80 != 0).then_some(count + 1),
        };
        Ok(begins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: only what makes sense without a table is taken. Method: each instruction of RFC 9204 §4.3 and §4.4.
    #[test]
    fn each_instruction_has_a_verdict() {
        assert_eq!(read_encoder_stream(&[0x20, 0x20]), Ok(()));
        for instruction in [&[0x21][..], &[0x3f, 0], &[0xc0, 0], &[0x41, b'a', 0], &[0]] {
            let violation = RuleViolation::EncoderStream;
            assert_eq!(read_encoder_stream(instruction), Err(violation));
        }
        for (instructions, begun) in [
            (&[0x40, 0x7e][..], Some(2)),
            (&[0x7f, 0x80, 0x01, 0x44], Some(2)),
            (&[0x80], None),
            (&[0x01], None),
            (
                &[
                    0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                ],
                None,
            ),
        ] {
            let mut stream = DecoderInstructions::default();
            let begins: Result<Vec<bool>, _> =
                instructions.iter().map(|byte| stream.read(*byte)).collect();
            let found = begins.map(|begins| begins.iter().filter(|begins| **begins).count());
            assert_eq!(found.ok(), begun, "{instructions:x?}");
        }
    }
}
