//! Decides where the head of an HTTP/1 request ends and how its body is framed, and rejects heads that two parsers could read in
//! two ways (RFC 9112 §11.2, request smuggling).
//!
//! It checks line ends, the form of the request line, the bytes of names and values, and the three fields that frame and address
//! a request. The proxy's parser runs after this one, on the same bytes; a rejection by that parser has no line in the access
//! log, so little is left to it.
//!
//! A partial head is checked as far as it goes: bytes that cannot become a request, such as the first message of TLS, are
//! rejected at once rather than at the timeout.

use crate::bytes::{is_token, is_value};
use crate::framing_names::{CONTENT_LENGTH, TRANSFER_ENCODING, is_framing_lookalike};
use crate::target::{Absolute, Target};
use crate::violation::RuleViolation;

/// The result of parsing the bytes read so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// A partial head.
    Partial,
    /// A whole head.
    Whole {
        /// Its length in bytes, with the empty line.
        bytes: usize,
        /// The number of its fields.
        fields: usize,
        /// The framing of its body.
        body: Body,
        /// The form in which it is passed on.
        spelling: HeadForm,
    },
    /// A malformed or ambiguous head.
    Malformed(RuleViolation),
}

/// The framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many bytes.
    Length(usize),
    /// Chunks, whose end only the proxy finds.
    Chunked,
}

/// The form in which a head is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadForm {
    /// The form in which it was sent.
    AsSent,
    /// The form that [`crate::respell`] writes.
    Respelled,
}

impl Head {
    /// Parses a head at the start of `read`.
    #[must_use]
    pub fn find(read: &[u8]) -> Self {
        match Self::judge(read) {
            Ok(head) => head,
            Err(rule) => Self::Malformed(rule),
        }
    }

    fn judge(read: &[u8]) -> Result<Self, RuleViolation> {
        let at = leading_line_end(read);
        let mut lines = Lines {
            rest: &read[at..],
            at,
        };
        let (version, target) = match lines.next()? {
            Line::Partial(line) => {
                check_beginning_of_request(line)?;
                return Ok(Self::Partial);
            }
            Line::Whole(line) => request_line(line)?,
        };
        let mut framing = FramingFields::default();
        loop {
            match lines.next()? {
                Line::Partial(line) => {
                    check_beginning_of_field(line)?;
                    return Ok(Self::Partial);
                }
                Line::Whole([]) => break,
                Line::Whole(line) => framing.add(line)?,
            }
        }
        let body = framing.body(version)?;
        if let Target::Absolute(absolute) = &target {
            framing.check_host(absolute)?;
        }
        Ok(Self::Whole {
            bytes: lines.at,
            fields: framing.fields,
            body,
            spelling: if at == 0 && target == Target::Path {
                HeadForm::AsSent
            } else {
                HeadForm::Respelled
            },
        })
    }
}

/// Returns the length of one empty line before the request line, which RFC 9112 §2.2 ignores.
#[must_use]
pub fn leading_line_end(read: &[u8]) -> usize {
    match read {
        [b'\r', b'\n', ..] => 2,
        // The other byte may follow.
        b"\r" => 1,
        _ => 0,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HttpVersion {
    Http10,
    Http11,
}

/// Parses a request line, RFC 9112 §3: method, target and version with one space between each. A space within the target would
/// end it for one parser and not for another.
fn request_line(line: &[u8]) -> Result<(HttpVersion, Target<'_>), RuleViolation> {
    // A second space would be part of the target, which may contain none.
    let (method, target, version) = words(line).ok_or_else(|| match line {
        // A byte that no method contains means that this is not HTTP.
        [] => RuleViolation::RequestLine,
        _ => check_beginning_of_request(line)
            .err()
            .unwrap_or(RuleViolation::RequestLine),
    })?;
    // RFC 9110 §9.1: a method is a token. CONNECT asks for a tunnel, which a gateway to origins does not open.
    if method.is_empty() || !method.iter().all(|&byte| is_token(byte)) {
        return Err(RuleViolation::Method);
    }
    if method == b"CONNECT" {
        return Err(RuleViolation::Connect);
    }
    let target = Target::judge(target, method)?;
    match version {
        b"HTTP/1.1" => Ok((HttpVersion::Http11, target)),
        b"HTTP/1.0" => Ok((HttpVersion::Http10, target)),
        _ => Err(RuleViolation::Version),
    }
}

/// Splits a request line into its three words.
fn words(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (first, last) = (memchr::memchr(b' ', line)?, memchr::memrchr(b' ', line)?);
    Some((
        &line[..first],
        line.get(first + 1..last)?,
        &line[last + 1..],
    ))
}

/// Checks that further bytes can complete the request line, RFC 9112 §3.
fn check_beginning_of_request(line: &[u8]) -> Result<(), RuleViolation> {
    const VERSIONS: [&[u8]; 2] = [b"HTTP/1.1\r", b"HTTP/1.0\r"];
    let mut words = line.splitn(3, |&byte| byte == b' ');
    let method = words.next().unwrap_or_default();
    if let Some(&byte) = method.iter().find(|&&byte| !is_token(byte)) {
        return Err(if byte.is_ascii_graphic() {
            RuleViolation::Method
        } else {
            RuleViolation::NotHttp
        });
    }
    let Some(target) = words.next() else {
        return Ok(());
    };
    if method.is_empty() || target.starts_with(b" ") {
        return Err(RuleViolation::RequestLine);
    }
    if target.iter().any(|byte| matches!(byte, 0..b' ' | 0x7f)) {
        return Err(RuleViolation::TargetByte);
    }
    let Some(version) = words.next() else {
        return Ok(());
    };
    if target.is_empty() {
        return Err(RuleViolation::RequestLine);
    }
    if VERSIONS.iter().any(|whole| whole.starts_with(version)) {
        Ok(())
    } else if version.starts_with(b"HTTP/") && !version.contains(&b' ') {
        Err(RuleViolation::Version)
    } else {
        Err(RuleViolation::RequestLine)
    }
}

/// Checks that further bytes can complete a field, or the end of the head.
fn check_beginning_of_field(line: &[u8]) -> Result<(), RuleViolation> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.iter().position(|&byte| !is_token(byte)) {
        None => Ok(()),
        Some(end) => field(line, end).map(|_| ()),
    }
}

/// Returns name and value of a field line, in which the byte at `end` is the first that a token may not contain.
fn field(line: &[u8], end: usize) -> Result<(&[u8], &[u8]), RuleViolation> {
    match line.split_at(end) {
        // RFC 9112 §5.2: a line that starts with a blank continues the previous one, which is obsolete.
        ([], [b' ' | b'\t', ..]) => Err(RuleViolation::FoldedField),
        // §5.1: no blank stands before the colon.
        ([], _) => Err(RuleViolation::FieldName),
        (name, [b':', value @ ..]) if is_value(value) => Ok((name, value)),
        (_, [b':', ..]) => Err(RuleViolation::FieldValue),
        _ => Err(RuleViolation::FieldName),
    }
}

/// The fields that frame and address a request, and the number of all fields.
#[derive(Default)]
struct FramingFields<'a> {
    fields: usize,
    hosts: usize,
    host: &'a [u8],
    length: Option<usize>,
    chunked: bool,
}

impl<'a> FramingFields<'a> {
    /// Adds a field line.
    ///
    /// # Errors
    /// The line is folded, has no name, contains a forbidden byte, or contradicts an earlier field.
    fn add(&mut self, line: &'a [u8]) -> Result<(), RuleViolation> {
        let end = line.iter().position(|&byte| !is_token(byte));
        let (name, value) = field(line, end.ok_or(RuleViolation::FieldName)?)?;
        let value = value.trim_ascii();
        self.fields += 1;
        // The length first: most fields differ from all three in it.
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                self.hosts += 1;
                self.host = value;
            }
            14 if name.eq_ignore_ascii_case(CONTENT_LENGTH) => {
                // One length, digits only: no sign, no list, no repetition.
                if self.length.is_some() || !value.iter().all(u8::is_ascii_digit) {
                    return Err(RuleViolation::ContentLength);
                }
                let length = std::str::from_utf8(value).ok();
                let length = length.and_then(|length| length.parse().ok());
                self.length = Some(length.ok_or(RuleViolation::ContentLength)?);
            }
            17 if name.eq_ignore_ascii_case(TRANSFER_ENCODING) => {
                // Other codings would have to be decoded by every recipient.
                if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(RuleViolation::TransferEncoding);
                }
                self.chunked = true;
            }
            _ if is_framing_lookalike(name) => return Err(RuleViolation::FramingName),
            _ => {}
        }
        Ok(())
    }

    /// Checks that a target in absolute form names the same host as `Host`, RFC 9112 §3.2.2.
    fn check_host(&self, target: &Absolute<'_>) -> Result<(), RuleViolation> {
        if self.hosts == 0 || target.names(self.host) {
            Ok(())
        } else {
            Err(RuleViolation::HostMismatch)
        }
    }

    /// Returns the framing. RFC 9112 §6.1, §6.3: not both framings, no chunks in HTTP/1.0; §3.2: exactly one `Host` in HTTP/1.1.
    fn body(&self, version: HttpVersion) -> Result<Body, RuleViolation> {
        let addressed = match version {
            HttpVersion::Http11 => self.hosts == 1,
            HttpVersion::Http10 => self.hosts <= 1,
        };
        if !addressed {
            return Err(RuleViolation::HostCount);
        }
        // RFC 9110 §4.2.4
        if self.host.contains(&b'@') {
            return Err(RuleViolation::UserInformation);
        }
        match (self.length, self.chunked) {
            (Some(_), true) => Err(RuleViolation::TwoFramings),
            (None, true) if version == HttpVersion::Http11 => Ok(Body::Chunked),
            (None, true) => Err(RuleViolation::TransferEncoding),
            (length, false) => Ok(Body::Length(length.unwrap_or(0))),
        }
    }
}

/// An iterator over the lines of some bytes.
struct Lines<'a> {
    rest: &'a [u8],
    /// Bytes passed.
    at: usize,
}

enum Line<'a> {
    /// A line whose end is not here yet.
    Partial(&'a [u8]),
    Whole(&'a [u8]),
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Result<Line<'a>, RuleViolation> {
        let Some(feed) = memchr::memchr(b'\n', self.rest) else {
            return Ok(Line::Partial(self.rest));
        };
        let (line, rest) = self.rest.split_at(feed + 1);
        self.rest = rest;
        self.at += line.len();
        match line {
            // A bare carriage return is valid in no method, target, version, name or value.
            [text @ .., b'\r', b'\n'] => Ok(Line::Whole(text)),
            _ => Err(RuleViolation::LineEnd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const USUAL: &[u8] = b"GET /a?b HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";

    /// Goal: ordinary requests pass. Method: one of each framing, with bytes of the next after it.
    #[test]
    fn a_whole_head_has_its_length_and_framing() {
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
            let Head::Whole {
                bytes: found,
                fields: counted,
                body: framed,
                ..
            } = Head::find(&read)
            else {
                panic!("{} is not whole", head.escape_ascii());
            };
            assert_eq!((found, counted, framed), (bytes, fields, body));
        }
    }

    /// Goal: forms that proxies and origins are known to read in two ways are rejected. Method: one form a line.
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
            "GET /\"<> HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://a/#b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://b?/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://u@a/ HTTP/1.1\r\nHost: u@a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n\r\n",
            "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
            "G\"T / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET  HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\r\n\r\n",
        ];
        for head in heads {
            let found = Head::find(head.as_bytes());
            assert!(matches!(found, Head::Malformed(_)), "{head:?}: {found:?}");
        }
    }

    /// Goal: a name that some origin may take for a framing field is rejected, and no other name. Method: names that fold to one
    /// of the two, beside the two and names that only look similar.
    #[test]
    fn names_that_fold_to_a_framing_field_are_refused() {
        for name in [
            "Content_Length",
            "Content--Length",
            "Content.Length",
            "ContentLength",
            "-content-length",
            "Content-Length_",
            "Transfer---Encoding",
            "Transfer_Encoding",
            "Transfer.Encoding",
            "TRANSFERENCODING",
            "!Transfer-Encoding",
        ] {
            assert!(is_framing_lookalike(name.as_bytes()), "{name}");
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: 5\r\n\r\n");
            let found = Head::find(head.as_bytes());
            assert_eq!(found, Head::Malformed(RuleViolation::FramingName), "{name}");
        }
        for name in [
            "Content-Length",
            "transfer-encoding",
            "Content-Length-Hint",
            "X-Content-Length",
            "Content-Encoding",
            "Transfer-Encodings",
            "TE",
        ] {
            assert!(!is_framing_lookalike(name.as_bytes()), "{name}");
        }
    }

    /// Goal: bytes that cannot become a request are rejected at once. Method: beginnings, and the rule that each breaks.
    #[test]
    fn a_beginning_of_no_request_is_malformed_at_once() {
        for (read, rule) in [
            (&b"\x16\x03\x01\x02\x00\x01"[..], RuleViolation::NotHttp),
            (b"\0", RuleViolation::NotHttp),
            (b"\xff\xfe", RuleViolation::NotHttp),
            (b"\x05\x01", RuleViolation::NotHttp),
            (b"\n", RuleViolation::LineEnd),
            (b" GET", RuleViolation::RequestLine),
            (b"{\"a\"", RuleViolation::Method),
            (b"GET  ", RuleViolation::RequestLine),
            (b"GET /\0", RuleViolation::TargetByte),
            (b"GET / x", RuleViolation::RequestLine),
            (b"GET / HTTP/2", RuleViolation::Version),
            (b"GET / HTTP/1.1\r\nHost\0", RuleViolation::FieldName),
            (b"GET / HTTP/1.1\r\nHost: \x01", RuleViolation::FieldValue),
            (b"GET / HTTP/1.1\r\n x", RuleViolation::FoldedField),
            (b"\r\n\r", RuleViolation::NotHttp),
        ] {
            let shown = read.escape_ascii();
            assert_eq!(Head::find(read), Head::Malformed(rule), "{shown}");
        }
        assert_eq!(Head::find(b"\r"), Head::Partial);
        assert_eq!(Head::find(b"\r\nGET"), Head::Partial);
    }

    proptest! {
        /// Goal: no bytes from the network cause a panic. Method: any bytes.
        #[test]
        fn any_bytes_are_judged(read: Vec<u8>) {
            let _ = Head::find(&read);
        }

        /// Goal: the result does not depend on how bytes arrive. Method: every prefix of a plain head is partial.
        #[test]
        fn a_prefix_of_a_head_is_partial(end in 0..USUAL.len()) {
            prop_assert_eq!(Head::find(&USUAL[..end]), Head::Partial);
        }

        /// Goal: the check of a partial head rejects nothing that the check of the whole head accepts. Method: every prefix of a
        /// whole head with a byte changed is whole or partial.
        #[test]
        fn no_prefix_of_a_whole_head_is_malformed(at in 0..USUAL.len(), byte: u8, end in 0..USUAL.len()) {
            let mut head = USUAL.to_vec();
            head[at] = byte;
            if let Head::Whole { .. } = Head::find(&head) {
                prop_assert!(!matches!(Head::find(&head[..end]), Head::Malformed(_)));
            }
        }
    }
}
