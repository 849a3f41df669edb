//! Decodes names and values of queries, forms and cookies.

use std::borrow::Cow;

/// The meaning of `+`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlusMeaning {
    /// A plus.
    Kept,
    /// A space, as forms write it.
    Space,
}

/// Decodes `%61`, and `%u0061` as ASP.NET does; text that is no escape stays as it is, as the URL standard has it (WHATWG URL §1.3).
#[must_use]
pub fn decode(text: &[u8], plus: PlusMeaning) -> Cow<'_, [u8]> {
    let plain = |byte: &u8| *byte != b'%' && (*byte != b'+' || plus == PlusMeaning::Kept);
    if text.iter().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        rest = behind;
        match (first, escaped(behind)) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                rest = &behind[2..];
            }
            (b'%', None) if let Some(letter) = escaped_letter(behind) => {
                decoded.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &behind[5..];
            }
            (b'+', _) if plus == PlusMeaning::Space => decoded.push(b' '),
            _ => decoded.push(*first),
        }
    }
    Cow::Owned(decoded)
}

/// Returns the byte of two hexadecimal digits.
fn escaped(digits: &[u8]) -> Option<u8> {
    let [high, low, ..] = digits else { return None };
    let digit = |digit: &u8| char::from(*digit).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// Returns the character of `u` and four hexadecimal digits.
fn escaped_letter(text: &[u8]) -> Option<char> {
    let [b'u' | b'U', digits @ ..] = text else {
        return None;
    };
    let (high, low) = (escaped(digits)?, escaped(digits.get(2..)?)?);
    let unit = u32::from(high) << 8 | u32::from(low);
    Some(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: nothing a client sends stops the process, and decoding only shortens. Method: arbitrary bytes.
        #[test]
        fn every_text_decodes(text in "[a%+0-9u;&=#]{0,24}") {
            prop_assert!(decode(text.as_bytes(), PlusMeaning::Space).len() <= text.len());
        }
    }
}
