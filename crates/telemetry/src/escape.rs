//! Decides how bytes that a client chose become the inside of a JSON string (RFC 8259 §7), whatever they are.
//!
//! Printable text stays readable, everything else is written so that no line breaks, no terminal obeys, and no reader sees
//! another order of characters than the bytes have:
//!
//! * printable ASCII and printable UTF-8: as they are, `"` and `\` behind a backslash;
//! * control characters (C0, DEL, C1) and the invisible ones that reorder or hide text: `\u001b`, `\u202e`;
//! * bytes that are no UTF-8: the four characters `\x9f`, the backslash itself escaped, as nginx and Apache write them.

/// Appends `bytes`, escaped, without the quotes around them.
#[inline]
pub fn escape(into: &mut Vec<u8>, bytes: &[u8]) {
    if are_plain(bytes) {
        into.extend_from_slice(bytes);
    } else {
        escape_slowly(into, bytes);
    }
}

/// Appends at most `cap` of `bytes`, escaped, and `…` where something was left out.
pub fn escape_cut(into: &mut Vec<u8>, bytes: &[u8], cap: usize) -> ValueTruncation {
    if bytes.len() <= cap {
        escape(into, bytes);
        return ValueTruncation::Whole;
    }
    // A UTF-8 character has at most three bytes after its first: step back over them rather than split it.
    let continues = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let at = (cap.saturating_sub(3)..=cap)
        .rev()
        .find(|at| !continues(at))
        .unwrap_or(cap);
    escape(into, bytes.get(..at).unwrap_or_default());
    into.extend_from_slice("…".as_bytes());
    ValueTruncation::Short
}

/// The result of writing a value: whole, or cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueTruncation {
    /// Nothing was left out.
    Whole,
    /// The end was left out.
    Short,
}

/// Bytes of a value for which a look into a table at each costs less than vector instructions.
const SHORT: usize = 16;

/// The bytes that stand for themselves.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < plain.len() {
        plain[byte] = is_plain(byte as u8);
        byte += 1;
    }
    plain
};

/// Returns whether every byte stands for itself.
fn are_plain(bytes: &[u8]) -> bool {
    if bytes.len() < SHORT {
        return bytes.iter().all(|&byte| PLAIN[usize::from(byte)]);
    }
    // Looks at every byte instead of stopping at the first: without a branch the loop becomes vector instructions.
    bytes.iter().fold(true, |all, &byte| all & is_plain(byte))
}

/// Returns whether a byte stands for itself.
const fn is_plain(byte: u8) -> bool {
    (0x20 <= byte) & (byte < 0x7f) & (byte != b'"') & (byte != b'\\')
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

fn escape_slowly(into: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' => into.extend_from_slice(b"\\\""),
                '\\' => into.extend_from_slice(b"\\\\"),
                _ if is_hidden(character) => escape_unit(into, character as u32),
                _ => into.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for &byte in chunk.invalid() {
            into.extend_from_slice(b"\\\\x");
            into.push(DIGITS[usize::from(byte >> 4)]);
            into.push(DIGITS[usize::from(byte & 0xf)]);
        }
    }
}

/// Returns whether a character would act on a terminal or hide: all of these are below U+10000, one `\u` escape each.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(character, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

fn escape_unit(into: &mut Vec<u8>, unit: u32) {
    into.extend_from_slice(b"\\u");
    for shift in [12, 8, 4, 0] {
        into.push(DIGITS[(unit >> shift & 0xf) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escaped(bytes: &[u8]) -> String {
        let mut into = Vec::new();
        escape(&mut into, bytes);
        String::from_utf8(into).expect("escaped text is UTF-8")
    }

    fn parsed(bytes: &[u8]) -> String {
        serde_json::from_str(&format!("\"{}\"", escaped(bytes)))
            .expect("escaped text is a JSON string")
    }

    /// Goal: each class of bytes is written as the file doc says. Method: one example a class.
    #[test]
    fn every_class_of_bytes_is_written_as_documented() {
        assert_eq!(escaped(b"/a?b=c d"), "/a?b=c d");
        assert_eq!(escaped(b"a\"b\\c"), r#"a\"b\\c"#);
        assert_eq!(escaped(b"\r\n\x1b[2J\x7f"), r"\u000d\u000a\u001b[2J\u007f");
        assert_eq!(escaped("grüße/漢字/🚰".as_bytes()), "grüße/漢字/🚰");
        assert_eq!(escaped("a\u{202e}b\u{9b}c".as_bytes()), r"a\u202eb\u009bc");
        assert_eq!(escaped(b"a\x9f\xffb\xe6\xbc"), r"a\\x9f\\xffb\\xe6\\xbc");
    }

    /// Goal: a cut never splits a character and is visible. Method: cut inside a two-, three- and four-byte character.
    #[test]
    fn a_cut_falls_between_characters_and_is_marked() {
        for (text, cap, expected) in [
            ("abcdef", 3, "abc…"),
            ("abü", 3, "ab…"),
            ("a漢x", 3, "a…"),
            ("🚰🚰", 7, "🚰…"),
            ("abc", 3, "abc"),
        ] {
            let mut into = Vec::new();
            let cut = escape_cut(&mut into, text.as_bytes(), cap);
            assert_eq!(String::from_utf8_lossy(&into), expected);
            assert_eq!(cut == ValueTruncation::Short, expected.ends_with('…'));
        }
        let mut into = Vec::new();
        assert_eq!(
            escape_cut(&mut into, &[0x80; 9], 6),
            ValueTruncation::Short,
            "nothing but continuation bytes still ends"
        );
    }

    proptest! {
        /// Goal: any bytes become one line of one JSON string. Method: parse it back; where the bytes are UTF-8 without a
        /// hidden meaning, they must come back as they were.
        #[test]
        fn any_bytes_become_one_json_string_on_one_line(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let text = escaped(&bytes);
            prop_assert!(!text.chars().any(char::is_control));
            let back = parsed(&bytes);
            if let Ok(utf8) = std::str::from_utf8(&bytes) {
                prop_assert_eq!(back, utf8);
            }
        }

        /// Goal: text survives exactly. Method: any string goes through escape and a JSON parser.
        #[test]
        fn any_text_comes_back_from_a_json_parser(text in any::<String>()) {
            prop_assert_eq!(parsed(text.as_bytes()), text);
        }
    }
}
