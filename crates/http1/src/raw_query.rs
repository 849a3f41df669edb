//! Percent-encodes raw bytes of a query that no URI may contain.
//!
//! `curl -g`, Go's `http.NewRequest` and templates send `"`, `<`, `>` and `{` unencoded, for example to Prometheus. RFC 3986
//! §3.4 allows none of them in a query; some origins answer 400, others decode nothing and take them literally, so the
//! percent-encoded form means the same to all. Brackets stay: RFC 3986 forbids them too, yet browsers send `a[]=1` raw and every
//! origin accepts it.
//!
//! A space, a control character and `#` are not encoded: they end the target for one parser and not for another (RFC 9112 §3.2).

use std::borrow::Cow;

/// Returns whether RFC 3986 requires this byte of a query to be percent-encoded, and encoding it changes its meaning for no origin.
pub(crate) const fn is_raw(byte: u8) -> bool {
    matches!(
        byte,
        b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
    ) || byte >= 0x80
}

/// Returns the target of a request, in origin form, with its query as RFC 3986 writes it. Borrows when there is nothing to change.
#[must_use]
pub fn encoded(target: &[u8]) -> Cow<'_, [u8]> {
    let Some(mark) = memchr::memchr(b'?', target) else {
        return Cow::Borrowed(target);
    };
    let (path, query) = target.split_at(mark);
    let raw = query.iter().filter(|&&byte| is_raw(byte)).count();
    if raw == 0 {
        return Cow::Borrowed(target);
    }
    let mut encoded = Vec::with_capacity(target.len() + 2 * raw);
    encoded.extend_from_slice(path);
    for &byte in query {
        if is_raw(byte) {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            let high = usize::from(byte >> 4);
            let low = usize::from(byte & 15);
            encoded.extend([b'%', DIGITS[high], DIGITS[low]]);
        } else {
            encoded.push(byte);
        }
    }
    Cow::Owned(encoded)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: a query is written as RFC 3986 has it, and a path is unchanged. Method: queries that curl and Go send, beside bytes
    /// that must stay.
    #[test]
    fn only_the_query_is_encoded() {
        for (sent, written) in [
            ("/", "/"),
            ("/a\"{b}|c", "/a\"{b}|c"),
            ("/a?b=c&d[]=%3C+e'f()*;~", "/a?b=c&d[]=%3C+e'f()*;~"),
            (
                "/q?query=up{job=\"a\"}>0",
                "/q?query=up%7Bjob=%22a%22%7D%3E0",
            ),
            ("/q?<^`|\\?\"", "/q?%3C%5E%60%7C%5C?%22"),
            ("/q?\u{e9}", "/q?%C3%A9"),
        ] {
            assert_eq!(encoded(sent.as_bytes()), written.as_bytes(), "{sent}");
        }
    }

    proptest! {
        /// Goal: encoding loses nothing and is idempotent. Method: arbitrary bytes, decoded, and encoded twice.
        #[test]
        fn what_is_encoded_means_the_same(target: Vec<u8>) {
            let once = encoded(&target).into_owned();
            let meaning = |bytes: &[u8]| {
                let mut decoded = bytes.to_vec();
                for byte in (0..=u8::MAX).filter(|&byte| is_raw(byte)) {
                    let escape = format!("%{byte:02X}");
                    while let Some(at) = memchr::memmem::find(&decoded, escape.as_bytes()) {
                        decoded.splice(at..at + 3, [byte]);
                    }
                }
                decoded
            };
            prop_assert_eq!(meaning(&once), meaning(&target));
            prop_assert_eq!(encoded(&once).into_owned(), once);
        }
    }
}
