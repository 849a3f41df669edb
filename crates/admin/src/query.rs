//! Decodes the texts in the target of an admin request.

/// Decodes percent-encoding; `None` where an escape lacks a digit, or the bytes are not UTF-8. A plus stands for itself: telephone numbers
/// begin with it, and so it does in a URL that is typed in.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let high = digit(rest.next()?)?;
                let low = digit(rest.next()?)?;
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: only whole escapes of UTF-8 are decoded. Method: texts on both sides of each rule.
    #[test]
    fn escapes_are_whole_and_utf8() {
        for (text, expected) in [
            ("a%20b", Some("a b")),
            ("+49%2B", Some("+49+")),
            ("%C3%a4\u{e4}", Some("\u{e4}\u{e4}")),
            ("%2525", Some("%25")),
            ("%", None),
            ("%4", None),
            ("%4g", None),
            ("%+4", None),
            ("%\u{e4}", None),
            ("%ff", None),
        ] {
            assert_eq!(decoded(text).as_deref(), expected, "{text}");
        }
    }

    proptest! {
        /// Goal: every text can be asked for. Method: texts of which each byte is escaped.
        #[test]
        fn what_is_escaped_is_decoded(text: String) {
            let escaped: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
            prop_assert_eq!(decoded(&escaped), Some(text));
        }
    }
}
