//! Rewrites a head that has a form which origins need not understand: an absolute target becomes a path (RFC 9112 §3.2.2), raw
//! bytes of a query are percent-encoded, and an empty line before the request line is removed (§2.2).
//!
//! Whoever judges a request behind it then sees one form of each.

use crate::known_field::KnownField;
use crate::raw_query;
use crate::request::{RequestHead, TargetForm};
use crate::target::AbsoluteTarget;

impl RequestHead {
    /// Returns the bytes of the whole head in `read` in the form that every origin understands.
    #[must_use]
    pub fn respelled(&self, read: &[u8]) -> Vec<u8> {
        let target = self.target(read);
        let absolute = (self.target_form() == TargetForm::Absolute)
            .then(|| AbsoluteTarget::find(target).ok())
            .flatten();
        let path = absolute.map_or(target, |absolute| absolute.rest);
        // RFC 9112 §3.2.1: an empty path is `/`.
        let slash: &[u8] = if path.starts_with(b"/") { b"" } else { b"/" };
        let mut written = Vec::with_capacity(read.len() + 64);
        for piece in [
            self.method(read),
            b" ",
            slash,
            &raw_query::encoded(path),
            b" ",
            self.version().text().as_bytes(),
            b"\r\n",
        ] {
            written.extend_from_slice(piece);
        }
        let fields = self.fields();
        let Some(absolute) = absolute else {
            written.extend_from_slice(fields.lines(read, 0..fields.len()));
            written.extend_from_slice(b"\r\n");
            return written;
        };
        // §3.2.2: the authority of the target overrides `Host`.
        for piece in [b"Host: ", absolute.authority, b"\r\n"] {
            written.extend_from_slice(piece);
        }
        for lines in fields.kept_lines(read, |field| field.known() != KnownField::Host) {
            written.extend_from_slice(lines);
        }
        written.extend_from_slice(b"\r\n");
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{HeadLimits, HeadProgress};

    /// Goal: each form is rewritten as the one that every origin understands, and that form is unchanged. Method: heads of each
    /// kind.
    #[test]
    fn every_form_becomes_a_path() {
        for (sent, written) in [
            (
                "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "GET /?q={\"a\"} HTTP/1.1\r\nHost: a\r\nX: \"{}\"\r\n\r\n",
                "GET /?q=%7B%22a%22%7D HTTP/1.1\r\nHost: a\r\nX: \"{}\"\r\n\r\n",
            ),
            (
                "GET http://A:80/b?c HTTP/1.1\r\nX: y\r\nhost: a\r\nHostile: z\r\n\r\n",
                "GET /b?c HTTP/1.1\r\nHost: A:80\r\nX: y\r\nHostile: z\r\n\r\n",
            ),
            (
                "GET https://a HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "\r\nGET http://a?<b> HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET /?%3Cb%3E HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "GET http://a/b HTTP/1.0\r\n\r\n",
                "GET /b HTTP/1.0\r\nHost: a\r\n\r\n",
            ),
        ] {
            let parsed = |head: &str| {
                let limits = HeadLimits {
                    bytes: 1024,
                    fields: 8,
                    target: 64,
                };
                let mut parsed = RequestHead::new();
                let progress = parsed.parse(head.as_bytes(), &limits);
                assert_eq!(progress, Ok(HeadProgress::Whole(head.len())), "{head:?}");
                parsed
            };
            assert!(parsed(sent).needs_respelling(), "{sent:?}");
            let found = String::from_utf8(parsed(sent).respelled(sent.as_bytes())).unwrap();
            assert_eq!(found, written);
            assert!(!parsed(&found).needs_respelling(), "{found:?}");
        }
    }
}
