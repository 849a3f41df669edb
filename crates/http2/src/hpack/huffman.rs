//! Decodes and encodes strings by the Huffman code of RFC 7541 §5.2.

use bytes::BytesMut;

use super::decoder::HpackError;
use super::huffman_code::{
    CODES, END_OF_STRING, LONGEST, RANGES, SHORT_BITS, SHORT_CODES, SYMBOLS_BY_CODE, code_length,
};

/// The bits of a string that were not decoded yet, from the highest bit of a word.
struct WaitingBits<'a> {
    bytes: &'a [u8],
    word: u64,
    count: u32,
}

impl WaitingBits<'_> {
    /// Fills the word from the bytes, as far as there are some.
    #[inline]
    fn fill(&mut self) {
        if let Some((eight, _)) = self.bytes.split_first_chunk::<8>() {
            // As many whole bytes as fit, in one read.
            self.word |= u64::from_be_bytes(*eight) >> self.count;
            let taken = (63 - self.count) / 8;
            self.bytes = &self.bytes[taken as usize..];
            self.count += taken * 8;
            // The bits of a byte that was not taken are read again.
            self.word &= !0 << (64 - self.count);
            return;
        }
        while self.count <= 56
            && let Some((byte, rest)) = self.bytes.split_first()
        {
            self.word |= u64::from(*byte) << (56 - self.count);
            self.count += 8;
            self.bytes = rest;
        }
    }

    #[inline]
    fn skip(&mut self, bits: u32) {
        self.word <<= bits;
        self.count -= bits;
    }

    /// Decodes a code that is longer than [`SHORT_BITS`]; `None` where the bits end within it.
    fn long_code(&mut self) -> Result<Option<u8>, HpackError> {
        for length in SHORT_BITS + 1..=LONGEST as u32 {
            let range = RANGES[length as usize];
            let code = (self.word >> (64 - length)) as u32;
            let Some(index) = code.checked_sub(range.first) else {
                continue;
            };
            if index >= range.count {
                continue;
            }
            if length > self.count {
                return Ok(None);
            }
            let symbol = SYMBOLS_BY_CODE.get((range.place + index) as usize);
            self.skip(length);
            // RFC 7541 §5.2: the code that ends a string is an error within one.
            return match symbol {
                Some(symbol) if *symbol != END_OF_STRING => Ok(Some(*symbol as u8)),
                _ => Err(HpackError::Huffman),
            };
        }
        // The code is complete, so this is a beginning of the longest code.
        Ok(None)
    }
}

/// Decodes a string behind the bytes of `into`.
///
/// # Errors
/// The string has the code of its end, or padding other than the beginning of that code, or of more than seven bits.
pub fn decode(text: &[u8], into: &mut BytesMut) -> Result<(), HpackError> {
    let start = into.len();
    // The shortest code has five bits.
    into.resize(start + text.len() * 8 / 5, 0);
    let decoded = decode_into(text, &mut into[start..])?;
    into.truncate(start + decoded);
    Ok(())
}

/// Decodes a string into `found`, which is long enough. Returns the number of bytes.
fn decode_into(text: &[u8], found: &mut [u8]) -> Result<usize, HpackError> {
    let mut bits = WaitingBits {
        bytes: text,
        word: 0,
        count: 0,
    };
    for (decoded, place) in found.iter_mut().enumerate() {
        if bits.count < LONGEST as u32 {
            bits.fill();
        }
        let short = SHORT_CODES[(bits.word >> (64 - SHORT_BITS)) as usize];
        let length = u32::from(short.length);
        if length == 0 {
            match bits.long_code()? {
                Some(symbol) => *place = symbol,
                None => return check_padding(&bits).map(|()| decoded),
            }
        } else if length <= bits.count {
            bits.skip(length);
            *place = short.symbol;
        } else {
            return check_padding(&bits).map(|()| decoded);
        }
    }
    check_padding(&bits).map(|()| found.len())
}

/// Checks the bits behind the last code: RFC 7541 §5.2, they are the highest bits of the code that ends a string, and fewer than eight.
fn check_padding(bits: &WaitingBits<'_>) -> Result<(), HpackError> {
    let is_padding = bits.count < 8 && bits.word.leading_ones() >= bits.count;
    match is_padding {
        true => Ok(()),
        false => Err(HpackError::Huffman),
    }
}

/// Returns the bytes that a string takes when it is encoded.
#[inline]
#[must_use]
pub fn encoded_length(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|byte| code_length(*byte) as usize).sum();
    bits.div_ceil(8)
}

/// Encodes a string.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let mut word = 0_u64;
    let mut count = 0;
    for byte in text {
        let length = code_length(*byte);
        word = word << length | u64::from(CODES[usize::from(*byte)]);
        count += length;
        // The longest code of a byte has 28 bits: 31 and 28 fit into a word.
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((word >> count) as u32).to_be_bytes());
        }
    }
    if count > 0 {
        // The highest bits of the code that ends a string are ones.
        let last = (word << (32 - count)) as u32 | u32::MAX.checked_shr(count).unwrap_or(0);
        let bytes = count.div_ceil(8) as usize;
        out.extend_from_slice(&last.to_be_bytes()[..bytes]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(text: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut into = BytesMut::new();
        decode(text, &mut into).map(|()| into.to_vec())
    }

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, &mut out);
        assert_eq!(out.len(), encoded_length(text));
        out
    }

    /// Goal: the code is that of the RFC. Method: the strings of RFC 7541 Appendix C.4 and C.6, and codes of Appendix B at the ends of
    /// its lengths.
    #[test]
    fn strings_of_the_rfc_are_encoded_as_there() {
        for (text, bytes) in [
            (
                &b"www.example.com"[..],
                &[
                    0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
                ][..],
            ),
            (b"no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
            (b"302", &[0x64, 0x02]),
            (b"private", &[0xae, 0xc3, 0x77, 0x1a, 0x4b]),
        ] {
            assert_eq!(encoded(text), bytes);
            assert_eq!(decoded(bytes).unwrap(), text);
        }
        assert_eq!(CODES[0], 0x1ff8);
        assert_eq!(CODES[usize::from(b'~')], 0x1ffd);
        assert_eq!(CODES[22], 0x3fff_fffe);
        assert_eq!(CODES[usize::from(END_OF_STRING)], 0x3fff_ffff);
    }

    /// Goal: padding is that of the RFC. Method: zeros, a whole byte of ones, the code of the end, and a beginning of a long code.
    #[test]
    fn other_padding_is_rejected() {
        for text in [
            &[0x18_u8][..],
            &[0xff],
            &[0x1f, 0xff],
            &[0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xfc],
            &[0xff, 0xfe],
        ] {
            assert_eq!(decoded(text), Err(HpackError::Huffman), "{text:x?}");
        }
        assert_eq!(decoded(&[0x1f]), Ok(b"a".to_vec()));
        assert_eq!(decoded(&[]), Ok(Vec::new()));
    }

    /// Decodes bit by bit, by the codes alone.
    fn slowly_decoded(text: &[u8]) -> Option<Vec<u8>> {
        let mut found = Vec::new();
        let mut code = 0_u64;
        let mut length = 0;
        for bit in text
            .iter()
            .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        {
            code = code << 1 | u64::from(bit);
            length += 1;
            let is_this = |byte: &u8| {
                code_length(*byte) == length && u64::from(CODES[usize::from(*byte)]) == code
            };
            if let Some(byte) = (0..=255).find(is_this) {
                found.push(byte);
                code = 0;
                length = 0;
            }
            if length >= 30 {
                return None;
            }
        }
        (length < 8 && code == (1 << length) - 1).then_some(found)
    }

    proptest! {
        /// Goal: encoding loses nothing. Method: any strings, there and back.
        #[test]
        fn what_is_encoded_is_decoded(text: Vec<u8>) {
            prop_assert_eq!(decoded(&encoded(&text)), Ok(text));
        }

        /// Goal: the tables are the code. Method: any bytes, and a decoder that compares single bits with it.
        #[test]
        fn any_bytes_are_decoded_as_bit_by_bit(text in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xff)], 0..24)) {
            prop_assert_eq!(decoded(&text).ok(), slowly_decoded(&text));
        }
    }
}
