//! Cuts what frameworks cut at both ends of a value before an application sees it.
//!
//! Forms of Django and Symfony, Laravel's `TrimStrings` and Tornado's `get_argument` drop white space there, and some of them control and
//! invisible characters. A limit that counted ` ann` and `ann` apart would give a client a fresh counter for each blank.

use std::borrow::Cow;
use std::ops::Range;

use super::fold::is_margin;

/// Returns the value without white space, control and invisible characters at its ends.
#[must_use]
pub fn trimmed(value: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let is_visible = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_graphic);
    if is_visible(value.first()) && is_visible(value.last()) {
        return value;
    }
    let kept = match std::str::from_utf8(&value) {
        Ok(text) => {
            let behind = text.trim_start_matches(is_margin);
            let start = text.len() - behind.len();
            start..start + behind.trim_end_matches(is_margin).len()
        }
        // No framework shows an application such bytes as they are.
        Err(_) => {
            let is_text = |byte: &u8| *byte > b' ' && *byte != 0x7f;
            let start = value.iter().position(is_text).unwrap_or(value.len());
            let end = value
                .iter()
                .rposition(is_text)
                .map_or(start, |last| last + 1);
            start..end
        }
    };
    part(value, kept)
}

/// Returns a part of `value`.
pub(crate) fn part(value: Cow<'_, [u8]>, kept: Range<usize>) -> Cow<'_, [u8]> {
    match value {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[kept]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(kept.end);
            bytes.drain(..kept.start);
            Cow::Owned(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &[u8]) -> Vec<u8> {
        let borrowed = trimmed(Cow::Borrowed(text)).into_owned();
        assert_eq!(trimmed(Cow::Owned(text.to_owned())).as_ref(), borrowed);
        borrowed
    }

    /// Goal: one value remains of all that frameworks trim to it, and nothing is cut within. Method: blanks of ASCII and beyond, control
    /// characters, invisible ones, bytes that are no UTF-8.
    #[test]
    fn margins_are_cut() {
        for text in [
            " ann",
            "ann\t\r\n",
            "\0ann\u{1}\u{1f}",
            "\u{a0}ann\u{2003}",
            "\u{feff}ann\u{200b}",
            "\u{85}ann\u{200e}\u{ad}",
            "\u{b}\u{1c}ann\u{3000}",
            "ann",
        ] {
            assert_eq!(cut(text.as_bytes()), b"ann", "{text:?}");
        }
        assert_eq!(cut("a\u{200b} b".as_bytes()), "a\u{200b} b".as_bytes());
        assert_eq!(cut(b" a\xff "), b"a\xff");
        assert_eq!(cut(b"\xff"), b"\xff");
        assert_eq!(cut(b" \0 "), b"");
        assert_eq!(cut(b""), b"");
        assert_eq!(cut("\u{e9}".as_bytes()), "\u{e9}".as_bytes());
    }

    proptest! {
        /// Goal: a trimmed value is its own trimmed value. Method: arbitrary bytes with many blanks.
        #[test]
        fn nothing_is_left_to_cut(bytes in prop::collection::vec(prop::sample::select(b" \t\0a\xc2\xa0\xff\xe2\x80\x8b".to_vec()), 0..8)) {
            let once = cut(&bytes);
            prop_assert_eq!(cut(&once), once);
        }
    }
}
