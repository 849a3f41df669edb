//! Drops bytes of a path that are no UTF-8, as Bottle does before it looks for a route: `/auth/send%FFOTP` is `/auth/sendOTP`.
//!
//! Most origins keep such bytes, replace them or answer 400; a page whose name is in an older encoding, as `/caf%E9`, has them too.

use super::characters::unescape;

/// Returns a path in normal form without the escapes that spell no character; `None` where there are none.
pub(super) fn dropped(path: &str) -> Option<String> {
    let mut kept: Option<String> = None;
    let mut at = 0;
    let mut copied = 0;
    while let Some(next) = memchr::memchr(b'%', &path.as_bytes()[at..]) {
        at += next;
        match character_width(&path.as_bytes()[at..]) {
            Some(width) => at += width,
            None => {
                kept.get_or_insert_default().push_str(&path[copied..at]);
                at = (at + ESCAPE).min(path.len());
                copied = at;
            }
        }
    }
    let mut kept = kept?;
    kept.push_str(&path[copied..]);
    Some(kept)
}

/// The length of an escape.
const ESCAPE: usize = 3;

/// Returns the bytes of `text`, which begins with an escape, that spell its first character; `None` where the escapes spell none (RFC 3629
/// §4).
pub(super) fn character_width(text: &[u8]) -> Option<usize> {
    let byte = |index: usize| match text.get(index * ESCAPE..)? {
        [b'%', digits @ ..] => unescape(digits),
        _ => None,
    };
    let count = match byte(0)? {
        0..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return None,
    };
    let mut bytes = [0; 4];
    for (index, target) in bytes[..count].iter_mut().enumerate() {
        *target = byte(index)?;
    }
    std::str::from_utf8(&bytes[..count]).ok()?;
    Some(count * ESCAPE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: what Python's `decode("utf8", "ignore")` drops is dropped. Method: bytes that begin nothing, cut characters, surrogates,
    /// characters beyond Unicode, beside plain ones.
    #[test]
    fn bytes_of_no_character_are_dropped() {
        for (path, kept) in [
            ("/a", None),
            ("/%C3%A9/%F0%9F%92%A9/%25/%2F", None),
            ("/a%FF", Some("/a")),
            ("/%FFa%80/b%C3", Some("/a/b")),
            ("/caf%E9/x", Some("/caf/x")),
            ("/a%E2%82b", Some("/ab")),
            ("/a%ED%A0%80b", Some("/ab")),
            ("/%F8%88%80%80%80/%F4%90%80%80", Some("//")),
            ("/%C3%C3%A9", Some("/%C3%A9")),
            ("/%C3", Some("/")),
            ("/%C3%", Some("/")),
        ] {
            assert_eq!(dropped(path).as_deref(), kept, "{path}");
        }
    }

    proptest! {
        /// Goal: the same bytes remain as by the decoder of the standard library. Method: arbitrary bytes, all of them escaped.
        #[test]
        fn the_rest_is_what_decodes(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let escaped = |bytes: &[u8]| bytes.iter().map(|byte| format!("%{byte:02X}")).collect::<String>();
            let valid: Vec<u8> = bytes.utf8_chunks().flat_map(|chunk| chunk.valid().bytes()).collect();
            let path = escaped(&bytes);
            let expected = (valid.len() < bytes.len()).then(|| escaped(&valid));
            prop_assert_eq!(dropped(&path), expected);
        }
    }
}
