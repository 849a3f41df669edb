//! Decides where the head of an HTTP/1 request ends and how its body is framed, and refuses heads that two parsers could read in
//! two ways (RFC 9112 §11.2, request smuggling).
//!
//! It looks at line ends, at the shape of the request line, at the bytes of names and values, and at the three fields that frame and
//! address a request. The proxy's parser runs after this one, on the same bytes; what that alone refuses is answered without a line in the
//! access log, so little is left to it.

use http::uri::PathAndQuery;
use http::{Method, Uri};

/// What the bytes read so far hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// Not a whole head yet.
    Partial,
    /// A whole head.
    Whole {
        /// Its length in bytes, with the empty line.
        bytes: usize,
        /// How many fields it has.
        fields: usize,
        /// What follows it.
        body: Body,
    },
    /// One that no server should guess about.
    Malformed,
}

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// So many bytes.
    Length(usize),
    /// Chunks, whose end only the proxy finds.
    Chunked,
}

impl Head {
    /// Looks for a head at the start of `read`.
    pub(crate) fn find(read: &[u8]) -> Self {
        let mut lines = Lines { rest: read, at: 0 };
        let (version, target) = match lines.next() {
            Line::Partial => return Self::Partial,
            Line::Broken => return Self::Malformed,
            Line::Whole(line) => match request_line(line) {
                Some(known) => known,
                None => return Self::Malformed,
            },
        };
        let mut framing = Framing::default();
        loop {
            match lines.next() {
                Line::Partial => return Self::Partial,
                Line::Broken => return Self::Malformed,
                Line::Whole([]) => break,
                Line::Whole(line) => {
                    if framing.add(line).is_none() {
                        return Self::Malformed;
                    }
                }
            }
        }
        match framing
            .body(version)
            .filter(|_| framing.agrees_with(target))
        {
            Some(body) => Self::Whole {
                bytes: lines.at,
                fields: framing.fields,
                body,
            },
            None => Self::Malformed,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
}

/// RFC 9112 §3: method, target and version with one space between each. A space within the target would end it for one parser and
/// not for another.
fn request_line(line: &[u8]) -> Option<(Version, &[u8])> {
    // One space more would lie in the target, which holds none.
    let (first, last) = (memchr::memchr(b' ', line)?, memchr::memrchr(b' ', line)?);
    let (method, target, version) = (
        &line[..first],
        line.get(first + 1..last)?,
        &line[last + 1..],
    );
    // RFC 9110 §9.1: a method is a token. CONNECT asks for a tunnel, which a gateway to origins does not dig.
    let known = Method::from_bytes(method).is_ok_and(|method| method != Method::CONNECT);
    if !known || !is_target(target) {
        return None;
    }
    match version {
        b"HTTP/1.1" => Some((Version::Http11, target)),
        b"HTTP/1.0" => Some((Version::Http10, target)),
        _ => None,
    }
}

/// Whether the proxy will take the target. It answers others itself, and no line of the access log would tell.
fn is_target(target: &[u8]) -> bool {
    match target {
        [b'/', rest @ ..] if rest.iter().all(|&byte| PLAIN[usize::from(byte)]) => true,
        // RFC 9112 §3.2: a target has no fragment. Where one is sent, some origins cut it off and others take it for a part of the path.
        _ if target.iter().any(|byte| matches!(byte, b'#' | 0..=b' ')) => false,
        [b'/', ..] => PathAndQuery::try_from(target).is_ok(),
        _ => Uri::try_from(target).is_ok(),
    }
}

/// The authority of a target in absolute form, RFC 9112 §3.2.2.
fn authority(target: &[u8]) -> Option<&[u8]> {
    if target.starts_with(b"/") {
        return None;
    }
    let behind = memchr::memmem::find(target, b"://")? + 3;
    target[behind..]
        .split(|byte| matches!(byte, b'/' | b'?'))
        .next()
}

/// The fields that frame and address a request, and how many there are in all.
#[derive(Default)]
struct Framing<'a> {
    fields: usize,
    hosts: usize,
    host: &'a [u8],
    length: Option<usize>,
    chunked: bool,
}

impl<'a> Framing<'a> {
    /// Takes a field line; `None` when it is folded, has no name, holds what no field may, or contradicts what came before.
    fn add(&mut self, line: &'a [u8]) -> Option<()> {
        // A token has neither colon nor space. RFC 9112 §5.1: none stands before the colon; §5.2: a line that starts with one continues
        // the last, which is obsolete.
        let end = line.iter().position(|&byte| !TOKEN[usize::from(byte)])?;
        let (name, [b':', value @ ..]) = line.split_at(end) else {
            return None;
        };
        if name.is_empty() || !is_value(value) {
            return None;
        }
        let value = value.trim_ascii();
        self.fields += 1;
        // The length first: most fields differ from all three in it.
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                self.hosts += 1;
                self.host = value;
            }
            // Origins that speak CGI's language read `_` as `-`, and would frame the body by what nobody before them looked at.
            14 if name.eq_ignore_ascii_case(b"content_length") => return None,
            17 if name.eq_ignore_ascii_case(b"transfer_encoding") => return None,
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                // One length, digits only: no sign, no list, no repetition.
                if self.length.is_some() || !value.iter().all(u8::is_ascii_digit) {
                    return None;
                }
                self.length = Some(std::str::from_utf8(value).ok()?.parse().ok()?);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                // Other codings would have to be undone by somebody who knows them all.
                if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return None;
                }
                self.chunked = true;
            }
            _ => {}
        }
        Some(())
    }

    /// RFC 9112 §3.2.2: a target in absolute form names the host that `Host` names; neither names a user, RFC 9110 §4.2.4.
    fn agrees_with(&self, target: &[u8]) -> bool {
        !self.host.contains(&b'@')
            && authority(target).is_none_or(|named| {
                !named.contains(&b'@') && (self.hosts == 0 || named == self.host)
            })
    }

    /// RFC 9112 §6.1, §6.3: not both framings, no chunks in HTTP/1.0; §3.2: exactly one `Host` in HTTP/1.1.
    fn body(&self, version: Version) -> Option<Body> {
        let addressed = match version {
            Version::Http11 => self.hosts == 1,
            Version::Http10 => self.hosts <= 1,
        };
        if !addressed {
            return None;
        }
        match (self.length, self.chunked) {
            (Some(_), true) => None,
            (None, true) => (version == Version::Http11).then_some(Body::Chunked),
            (length, false) => Some(Body::Length(length.unwrap_or(0))),
        }
    }
}

/// Whether a token may hold this byte.
pub(super) fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

/// RFC 9110 §5.6.2: what a token, such as the name of a field, is made of.
const TOKEN: [bool; 256] = alphanumerics_and(b"!#$%&'*+-.^_`|~");

/// What the targets of most requests are made of.
const PLAIN: [bool; 256] = alphanumerics_and(b"/?&=%-._~+,:;@!$'()*");

const fn alphanumerics_and(marks: &[u8]) -> [bool; 256] {
    let mut members = [false; 256];
    let mut byte = 0;
    while byte < members.len() {
        members[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut mark = 0;
    while mark < marks.len() {
        members[marks[mark] as usize] = true;
        mark += 1;
    }
    members
}

/// RFC 9110 §5.5: a value has no control characters but tabs. Every byte is looked at, so that many are at once.
fn is_value(value: &[u8]) -> bool {
    let is_control = |byte: u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
    !value
        .iter()
        .fold(false, |found, &byte| found | is_control(byte))
}

/// Cuts bytes into lines.
struct Lines<'a> {
    rest: &'a [u8],
    /// Bytes passed.
    at: usize,
}

enum Line<'a> {
    Partial,
    Whole(&'a [u8]),
    /// Its end is a bare line feed.
    Broken,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Line<'a> {
        let Some(feed) = memchr::memchr(b'\n', self.rest) else {
            return Line::Partial;
        };
        let (line, rest) = self.rest.split_at(feed + 1);
        self.rest = rest;
        self.at += line.len();
        match line {
            // A bare carriage return within belongs to no method, target, version, name or value.
            [text @ .., b'\r', b'\n'] => Line::Whole(text),
            _ => Line::Broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const USUAL: &[u8] = b"GET /a?b HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";

    /// Goal: ordinary requests pass. Method: one of each framing, with bytes of the next behind it.
    #[test]
    fn a_whole_head_tells_its_length_and_framing() {
        let cases: [(&[u8], usize, Body); 6] = [
            (USUAL, 2, Body::Length(0)),
            (
                b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 12\r\n\r\n",
                2,
                Body::Length(12),
            ),
            (
                b"POST / HTTP/1.1\r\nHost:a\r\nTransfer-Encoding: Chunked\r\n\r\n",
                2,
                Body::Chunked,
            ),
            (b"GET / HTTP/1.0\r\n\r\n", 0, Body::Length(0)),
            (
                b"GET http://a:80?b HTTP/1.1\r\nHost: a:80\r\n\r\n",
                1,
                Body::Length(0),
            ),
            (
                b"GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~9Z: \tb\xc3\xa9\t\r\n\r\n",
                2,
                Body::Length(0),
            ),
        ];
        for (head, fields, body) in cases {
            let read = [head, b"GET"].concat();
            let bytes = head.len();
            let whole = Head::Whole {
                bytes,
                fields,
                body,
            };
            assert_eq!(Head::find(&read), whole);
        }
    }

    /// Goal: what proxies and origins are known to read in two ways is refused. Method: one shape a line.
    #[test]
    fn ambiguous_heads_are_malformed() {
        let heads = [
            "GET / HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: b\rY: c\r\n\r\n",
            "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /a\rb HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://a/\rb HTTP/1.1\r\nHost: a\r\n\r\n",
            "G\rT / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX\"Y: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX\u{e9}: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: b\x7f\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /?a=\"<> HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://a/#b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://b?/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://a:80/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://u@a/ HTTP/1.1\r\nHost: u@a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n\r\n",
            "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
            "G\"T / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET  HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "\r\n\r\n",
        ];
        for head in heads {
            assert_eq!(Head::find(head.as_bytes()), Head::Malformed, "{head:?}");
        }
    }

    proptest! {
        /// Goal: nothing from the network panics. Method: any bytes.
        #[test]
        fn any_bytes_are_judged(read: Vec<u8>) {
            let _ = Head::find(&read);
        }

        /// Goal: how bytes arrive does not matter. Method: every prefix of a plain head is partial.
        #[test]
        fn a_prefix_of_a_head_is_partial(end in 0..USUAL.len()) {
            prop_assert_eq!(Head::find(&USUAL[..end]), Head::Partial);
        }
    }
}
