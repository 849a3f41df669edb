//! Keeps the case of field names, for origins with `header_case = "as-sent"`.

use http::HeaderMap;
use sluicegate_http1::FieldLines;

/// The names of the fields of a head, as they were received; none where their case does not matter.
#[derive(Clone, Debug, Default)]
pub struct ReceivedNames(Vec<Box<[u8]>>);

impl ReceivedNames {
    /// Returns the names of the head in `read`.
    pub fn new(fields: &FieldLines, read: &[u8]) -> Self {
        Self(fields.iter(read).map(|field| field.name.into()).collect())
    }

    /// Restores the case of the names in a written head.
    pub fn restore(&self, head: &mut [u8]) {
        if self.0.is_empty() {
            return;
        }
        let mut next = 0;
        for line in head.split_mut(|&byte| byte == b'\n') {
            let Some(colon) = memchr::memchr(b':', line) else {
                continue;
            };
            let name = &mut line[..colon];
            if let Some(received) = self.find(name, &mut next) {
                name.copy_from_slice(received);
            }
        }
    }

    /// Returns the names of these fields, as `newer` has them, or else these names.
    pub fn updated(&self, newer: &Self, fields: &HeaderMap) -> Self {
        let mut next = 0;
        let mut next_newer = 0;
        let names = fields.keys().filter_map(|name| {
            let name = name.as_str().as_bytes();
            let received = newer.find(name, &mut next_newer);
            received.or_else(|| self.find(name, &mut next))
        });
        Self(names.map(Box::from).collect())
    }

    /// Returns the number of names, and of their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.0.len(), self.0.iter().map(|name| name.len()).sum())
    }

    /// Returns a name as it was received. Begins at `next`, which becomes the place behind it: names are mostly sought in their order.
    fn find(&self, name: &[u8], next: &mut usize) -> Option<&[u8]> {
        let (before, behind) = self.0.split_at(*next);
        let mut from_next = behind.iter().chain(before);
        let distance = from_next.position(|own| own.eq_ignore_ascii_case(name))?;
        let index = (*next + distance) % self.0.len();
        *next = index + 1;
        Some(&self.0[index])
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_http1::{HeadLimits, ResponseHead};

    use super::*;

    fn names(of: &[&str]) -> ReceivedNames {
        ReceivedNames(of.iter().map(|name| name.as_bytes().into()).collect())
    }

    /// Goal: a name is found in whatever order names are sought, and twice. Method: every order of pairs, and a name that is not there.
    #[test]
    fn names_are_found_in_every_order() {
        let received = names(&["A", "B", "C"]);
        for first in ["a", "b", "c"] {
            for second in ["a", "b", "c"] {
                let mut head = format!("{first}: {second}\nd: a\n{second}: {first}\n").into_bytes();
                received.restore(&mut head);
                let [upper, other] = [first, second].map(str::to_ascii_uppercase);
                let expected = format!("{upper}: {second}\nd: a\n{other}: {first}\n");
                assert_eq!(String::from_utf8(head).unwrap(), expected);
            }
        }
    }

    /// Goal: an update names the fields that there are, the newer ones as they came last. Method: names that are kept, replaced, added and
    /// left out.
    #[test]
    fn an_update_has_the_latest_names() {
        let mut fields = HeaderMap::new();
        for name in ["x-kept", "x-both", "x-new", "x-own"] {
            fields.insert(name, http::HeaderValue::from_static("a"));
        }
        let old = names(&["X-Both", "X-GONE", "X-Kept"]);
        let updated = old.updated(&names(&["X-NEW", "X-BOTH"]), &fields);
        assert_eq!(updated.size(), (3, 17));
        let mut head = b"x-own: a\nx-kept: a\nx-both: a\nx-gone: a\nx-new: a\n".to_vec();
        updated.restore(&mut head);
        let found = String::from_utf8(head).unwrap();
        assert_eq!(
            found,
            "x-own: a\nX-Kept: a\nX-BOTH: a\nx-gone: a\nX-NEW: a\n"
        );
    }

    /// Goal: names get the case in which they came, and nothing else changes. Method: known and new names, and a name as a value.
    #[test]
    fn only_the_case_of_names_changes() {
        let limits = HeadLimits {
            bytes: 1024,
            fields: 8,
            target: 0,
        };
        let received = b"HTTP/1.1 200 OK\r\nX-OwN: a\r\nETag: b\r\n\r\n";
        let mut parsed = ResponseHead::new();
        parsed.parse(received, &limits).unwrap();
        let names = ReceivedNames::new(parsed.fields(), received);
        let mut head =
            b"HTTP/1.1 200 x-own: y\r\nx-own: etag: 1\r\nx-new: z\r\netag: b\r\n\r\n".to_vec();
        names.restore(&mut head);
        let found = String::from_utf8(head).unwrap();
        assert_eq!(
            found,
            "HTTP/1.1 200 x-own: y\r\nX-OwN: etag: 1\r\nx-new: z\r\nETag: b\r\n\r\n"
        );
    }
}
