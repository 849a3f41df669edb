//! Keeps the case of field names, for origins with `header_case = "as-sent"`.

use sluicegate_http1::FieldLines;

/// The names of the fields of a head, as they were received.
#[derive(Default)]
pub(crate) struct ReceivedNames(Vec<Box<[u8]>>);

impl ReceivedNames {
    /// Returns the names of the head in `read`.
    pub(crate) fn of(fields: &FieldLines, read: &[u8]) -> Self {
        Self(fields.iter(read).map(|field| field.name.into()).collect())
    }

    /// Restores the case of the names in a written head.
    pub(crate) fn restore(&self, head: &mut [u8]) {
        for line in head.split_mut(|&byte| byte == b'\n') {
            let Some(colon) = memchr::memchr(b':', line) else {
                continue;
            };
            let name = &mut line[..colon];
            if let Some(received) = self.0.iter().find(|own| own.eq_ignore_ascii_case(name)) {
                name.copy_from_slice(received);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_http1::{HeadLimits, ResponseHead};

    use super::*;

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
        let names = ReceivedNames::of(parsed.fields(), received);
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
