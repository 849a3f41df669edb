//! Decodes names and values of queries, forms, paths and cookies.

use std::borrow::Cow;

/// The meaning of `+`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlusMeaning {
    /// A plus.
    Kept,
    /// A space, as forms write it.
    Space,
}

/// Decodes `%61`. `None` where a `%` is not followed by two hexadecimal digits: parsers keep, drop or refuse such a text, and ASP.NET
/// reads `%u0061`.
#[must_use]
pub fn decode(text: &[u8], plus: PlusMeaning) -> Option<Cow<'_, [u8]>> {
    let is_plain = match plus {
        PlusMeaning::Kept => memchr::memchr(b'%', text).is_none(),
        PlusMeaning::Space => memchr::memchr2(b'%', b'+', text).is_none(),
    };
    if is_plain {
        return Some(Cow::Borrowed(text));
    }
    let mut decoded = Vec::with_capacity(text.len());
    for byte in decoded_bytes(text, plus) {
        decoded.push(byte?);
    }
    Some(Cow::Owned(decoded))
}

/// Returns the bytes that `text` encodes, and `None` for each `%` that is no escape.
pub fn decoded_bytes(text: &[u8], plus: PlusMeaning) -> impl Iterator<Item = Option<u8>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (first, behind) = rest.split_first()?;
        rest = behind;
        Some(match first {
            b'%' => escaped(behind).inspect(|_| rest = &behind[2..]),
            b'+' if plus == PlusMeaning::Space => Some(b' '),
            _ => Some(*first),
        })
    })
}

/// The value of each byte as a hexadecimal digit; 16 for all that are none.
const DIGITS: [u8; 256] = {
    let mut digits = [16; 256];
    let mut value = 0;
    while value < 16 {
        let digit = b"0123456789ABCDEF"[value as usize];
        digits[digit as usize] = value;
        digits[digit.to_ascii_lowercase() as usize] = value;
        value += 1;
    }
    digits
};

/// Returns the byte of two hexadecimal digits.
fn escaped(digits: &[u8]) -> Option<u8> {
    let [high, low, ..] = digits else { return None };
    let high = DIGITS[usize::from(*high)];
    let low = DIGITS[usize::from(*low)];
    (high < 16 && low < 16).then_some(high << 4 | low)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: a text has one decoding or none. Method: escapes, plus signs, and what is no escape.
    #[test]
    fn a_text_decodes_in_one_way_or_not() {
        let decoded = |text: &'static str, plus| decode(text.as_bytes(), plus).map(Cow::into_owned);
        assert_eq!(
            decoded("a%2B+%61", PlusMeaning::Space).as_deref(),
            Some(&b"a+ a"[..])
        );
        assert_eq!(
            decoded("a+", PlusMeaning::Kept).as_deref(),
            Some(&b"a+"[..])
        );
        for text in ["%", "%4", "%zz", "%u0061", "a%"] {
            assert_eq!(decoded(text, PlusMeaning::Space), None, "{text}");
        }
    }

    proptest! {
        /// Goal: nothing a client sends stops the process, and decoding only shortens. Method: arbitrary texts.
        #[test]
        fn every_text_decodes_or_not(text in "[a%+0-9u;&=#]{0,24}") {
            let decoded = decode(text.as_bytes(), PlusMeaning::Space);
            prop_assert!(decoded.is_none_or(|decoded| decoded.len() <= text.len()));
        }
    }
}
