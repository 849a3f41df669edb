//! Rewrites a head that has a form which origins need not understand: an absolute target becomes a path (RFC 9112 §3.2.2), raw
//! bytes of a query are percent-encoded, and an empty line before the request line is removed (§2.2).
//!
//! All later stages, the limits included, then see one form of each request.

use crate::raw_query;
use crate::request::leading_line_end;
use crate::target::Target;

/// Returns a head that [`crate::request`] found whole, in the form in which it is passed on.
#[must_use]
pub fn respell(head: &[u8]) -> Vec<u8> {
    let head = &head[leading_line_end(head)..];
    let line_end = memchr::memchr(b'\r', head).unwrap_or(head.len());
    let (line, fields) = head.split_at(line_end);
    let mut words = line.split(|&byte| byte == b' ');
    let mut word = || words.next().unwrap_or_default();
    let (method, target, version) = (word(), word(), word());
    let judged = Target::judge(target, method).ok();
    let mut written = Vec::with_capacity(head.len() + 64);
    let mut request_line = |path: [&[u8]; 2]| {
        for piece in [
            method,
            b" ",
            path[0],
            &raw_query::encoded(path[1]),
            b" ",
            version,
        ] {
            written.extend_from_slice(piece);
        }
    };
    let Some(Target::Absolute(absolute)) = judged else {
        request_line([b"", target]);
        written.extend_from_slice(fields);
        return written;
    };
    // RFC 9112 §3.2.1: an empty path is `/`.
    let slash: &[u8] = if absolute.rest.starts_with(b"/") {
        b""
    } else {
        b"/"
    };
    request_line([slash, absolute.rest]);
    // §3.2.2: the authority of the target overrides `Host`.
    written.extend_from_slice(b"\r\nHost: ");
    written.extend_from_slice(absolute.authority);
    for line in lines(fields.get(2..).unwrap_or_default()) {
        let is_host = line
            .split(|&byte| byte == b':')
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case(b"host"));
        if !is_host {
            written.extend_from_slice(b"\r\n");
            written.extend_from_slice(line);
        }
    }
    // The empty line is one of them, and ends like the others.
    written.extend_from_slice(b"\r\n");
    written
}

/// Splits fields, whose lines end in CR LF, into lines without their ends.
fn lines(fields: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = fields.strip_suffix(b"\r\n").unwrap_or(fields);
    whole
        .split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Head, HeadForm};

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
            let is_respelled = |head: &str| match Head::find(head.as_bytes()) {
                Head::Whole {
                    spelling, bytes, ..
                } => {
                    assert_eq!(bytes, head.len());
                    spelling == HeadForm::Respelled
                }
                other => panic!("{head:?}: {other:?}"),
            };
            assert!(is_respelled(sent), "{sent:?}");
            let found = String::from_utf8(respell(sent.as_bytes())).unwrap();
            assert_eq!(found, written);
            assert!(!is_respelled(&found), "{found:?}");
        }
    }
}
