//! Decides which credentials of an `Authorization` field count.
//!
//! The scheme has no case (RFC 9110 §11.1), and frameworks accept any number of blanks behind it, ignore characters that base64 does not
//! have, cut at a comma or a semicolon, and take `token=x` for `x`. So a client could write one key in any number of ways. Only what all
//! of them read alike is a value: one word, without its scheme and its padding.

use std::borrow::Cow;

use crate::normal_form::part;

/// Returns the credentials of a field's value without their scheme; `None` where a framework may read others in it.
#[must_use]
pub fn counted(value: Cow<'_, [u8]>) -> Option<Cow<'_, [u8]>> {
    let text = value.trim_ascii();
    let (scheme, word) = match text.iter().position(u8::is_ascii_whitespace) {
        Some(end) => (&text[..end], text[end..].trim_ascii_start()),
        None => (&text[..0], text),
    };
    let padding = word.iter().rev().take_while(|byte| **byte == b'=').count();
    let word = &word[..word.len() - padding];
    let is_one_word = word
        .iter()
        .all(|byte| byte.is_ascii_graphic() && !b",;=\"".contains(byte));
    let is_unique = if scheme.eq_ignore_ascii_case(b"basic") {
        is_clean(word, *b"+/")
    } else {
        // The signature of a JWT is not signed: decoders that ignore characters read one signature in many texts.
        let parts = word.split(|byte| *byte == b'.');
        parts.clone().count() != 3 || parts.into_iter().all(|part| is_clean(part, *b"-_"))
    };
    if !is_one_word || !is_unique {
        return None;
    }
    // The word ends where the text ends, but for its padding.
    let end = value.trim_ascii_end().len() - padding;
    let kept = end - word.len()..end;
    Some(part(value, kept))
}

/// Returns whether a text is the only one in base64 without padding that decodes to its bytes: RFC 4648 §3.5 has unused bits zero. The
/// alphabet ends in `last`.
fn is_clean(text: &[u8], last: [u8; 2]) -> bool {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        _ if byte == last[0] => Some(62),
        _ if byte == last[1] => Some(63),
        _ => None,
    };
    let unused = match text.len() % 4 {
        0 => 0,
        2 => 0b1111,
        3 => 0b11,
        _ => return false,
    };
    text.iter().all(|byte| digit(*byte).is_some())
        && text
            .last()
            .and_then(|byte| digit(*byte))
            .is_none_or(|digit| digit & unused == 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Option<String> {
        let borrowed = counted(Cow::Borrowed(text.as_bytes()));
        let owned = counted(Cow::Owned(text.as_bytes().to_owned()));
        assert_eq!(borrowed, owned);
        borrowed.map(|value| String::from_utf8(value.into_owned()).unwrap())
    }

    /// Goal: spellings of one key are one value. Method: schemes in any case and none, blanks, padding, characters that are no word.
    #[test]
    fn a_key_is_one_value() {
        for text in [
            "Bearer k1",
            "bearer k1",
            "BEARER  k1",
            "Bearer\t k1 ",
            "Token k1",
            "k1",
            " k1=",
            "Bearer k1==",
        ] {
            assert_eq!(of(text).as_deref(), Some("k1"), "{text:?}");
        }
        assert_eq!(of("Basic dTpw").as_deref(), Some("dTpw"));
        assert_eq!(of("basic  dTpwcA==").as_deref(), Some("dTpwcA"));
        assert_eq!(of("Bearer 1|a:b-c_d").as_deref(), Some("1|a:b-c_d"));
        assert_eq!(of("Bearer aGk.aGk.aGk").as_deref(), Some("aGk.aGk.aGk"));
        assert_eq!(of("").as_deref(), Some(""));
        assert_eq!(of("Bearer").as_deref(), Some("Bearer"));
    }

    /// Goal: what some framework reads as the key, and another as something else, is no value. Method: parameters, further words, base64
    /// with characters or bits that decoders ignore.
    #[test]
    fn what_can_be_read_in_two_ways_is_no_value() {
        for text in [
            "Bearer k1 x",
            "Bearer k1,x",
            "Token token=k1",
            "Token token=\"k1\"",
            "Token k1; nonce=2",
            "Bearer k\u{e9}",
            "Basic dTp!w",
            "Basic dTpwcB==",
            "Basic dTpwc",
            "Basic dTp-",
            "Bearer aGk.aGk.aGl",
            "Bearer aGk.aGk.aG!k",
            "Digest username=\"u\", nonce=\"n\"",
        ] {
            assert_eq!(of(text), None, "{text:?}");
        }
    }

    proptest! {
        /// Goal: nothing a client sends stops the process, and a value is its own value. Method: texts of the characters that matter.
        #[test]
        fn a_value_is_its_own(text in "[Bb=asic .,;k1!\t-]{0,16}") {
            if let Some(value) = of(&text) {
                prop_assert_eq!(of(&value), Some(value.clone()));
            }
        }
    }
}
