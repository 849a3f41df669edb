//! Decides where the head of a response ends and how its body is framed, and rejects heads that two parsers could read in two ways
//! (RFC 9112 §11.1, response splitting).
//!
//! An origin that sends such a head makes the gateway take a part of one answer for the next one on the connection, which belongs to
//! another client. So responses are checked as strictly as requests: the form of the status line, the bytes of names and values, and
//! the fields that frame the body. A partial head is checked as far as it goes.
//!
//! One thing is lenient: a line may end in a bare line feed (RFC 9112 §2.2), as scripts and small devices write it. Every recipient of
//! responses takes it for the end of a line, and the client gets each line anew.

use crate::fields::{ByteRange, FieldLines};
use crate::framing::{BodyFraming, FramingFields};
use crate::head::{HeadError, HeadLimits, HeadProgress, HeadStage};
use crate::lines::{HeadLine, LineEnds, LineScanner};
use crate::status_line::{self, StatusLine};
use crate::version::HttpVersion;
use crate::violation::RuleViolation;

/// The head of a response, as ranges of the bytes in which it was received.
///
/// It is made for one message after the other: [`clear`](Self::clear) keeps its memory. The bytes stay with the caller, who passes
/// them to each method that returns some of them. An interim response (1xx) is a head of its own, behind which another one follows,
/// except 101, which ends HTTP on the connection.
///
/// # Example
///
/// ```
/// use sluicegate_http1::{AnsweredMethod, BodyFraming, HeadLimits, HeadProgress, ResponseHead};
///
/// let limits = HeadLimits { bytes: 16 * 1024, fields: 100, target: 0 };
/// let mut head = ResponseHead::new();
/// let mut read = b"HTTP/1.1 200 OK\r\nContent-Le".to_vec();
/// assert_eq!(head.parse(&read, &limits), Ok(HeadProgress::Partial));
///
/// read.extend_from_slice(b"ngth: 5\r\n\r\nhello");
/// assert_eq!(head.parse(&read, &limits), Ok(HeadProgress::Whole(38)));
/// assert_eq!(head.status(), 200);
/// assert_eq!(head.reason(&read), b"OK");
/// assert_eq!(head.framing(AnsweredMethod::Other), BodyFraming::Length(5));
/// assert_eq!(head.framing(AnsweredMethod::Head), BodyFraming::None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    stage: HeadStage,
    /// Bytes of the lines that are parsed.
    parsed: usize,
    version: HttpVersion,
    status: u16,
    reason: ByteRange,
    fields: FieldLines,
    framing_fields: FramingFields,
    framing: Option<BodyFraming>,
}

/// The method of the request that a response answers, as far as the framing depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredMethod {
    /// HEAD, whose answer has the fields of a body and no body.
    Head,
    /// Any other method but CONNECT, which [`crate::RequestHead`] rejects.
    Other,
}

impl ResponseHead {
    /// Returns a head of which nothing has been parsed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Prepares for the next response. Keeps the memory for usual numbers of fields.
    pub fn clear(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = Self {
            fields,
            ..Self::default()
        };
    }

    /// Parses the head at the start of `read`: the bytes of the calls before, since the last [`clear`](Self::clear), and further ones
    /// behind them. Lines that are parsed are not read again; after the end nothing is. [`HeadLimits::target`] is not read.
    ///
    /// # Errors
    /// [`HeadError`], but [`HeadError::TargetTooLong`]; the head begins anew then. A broken rule comes before a size, as far as the
    /// bytes are here.
    pub fn parse(&mut self, read: &[u8], limits: &HeadLimits) -> Result<HeadProgress, HeadError> {
        if read.is_empty() {
            // Mostly a head is looked for before its first byte is here.
            return Ok(HeadProgress::Partial);
        }
        let parsed = self.parse_lines(read, limits.fields);
        let checked = parsed.map_err(HeadError::Rule).and_then(|progress| {
            limits.check(read, progress, self.fields.len())?;
            Ok(progress)
        });
        if checked.is_err() {
            self.clear();
        }
        checked
    }

    /// Returns the status, from 100 to 999; 0 before the status line is parsed.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns the reason as sent, which may be empty.
    #[must_use]
    pub fn reason<'a>(&self, read: &'a [u8]) -> &'a [u8] {
        self.reason.of_bytes(read)
    }

    /// Returns the version.
    #[must_use]
    pub fn version(&self) -> HttpVersion {
        self.version
    }

    /// Returns the fields.
    #[must_use]
    pub fn fields(&self) -> &FieldLines {
        &self.fields
    }

    /// Returns the framing of the body that answers this method; that of no body before the head is whole.
    #[must_use]
    pub fn framing(&self, request: AnsweredMethod) -> BodyFraming {
        match (request, self.framing) {
            // RFC 9112 §6.3: an answer to HEAD ends with its head, whatever its fields say.
            (AnsweredMethod::Head, _) | (_, None) => BodyFraming::None,
            (AnsweredMethod::Other, Some(framing)) => framing,
        }
    }

    fn parse_lines(&mut self, read: &[u8], most: usize) -> Result<HeadProgress, RuleViolation> {
        let mut lines = LineScanner::new(read, self.parsed, LineEnds::CrLfOrLf);
        if self.stage == HeadStage::StartLine {
            match lines.next()? {
                HeadLine::Partial(line) => {
                    status_line::check_beginning(line)?;
                    return Ok(HeadProgress::Partial);
                }
                HeadLine::Whole(line) => self.status_line(line)?,
            }
            self.parsed = lines.at;
            self.stage = HeadStage::Fields;
        }
        if self.stage == HeadStage::Fields {
            let progress = lines.fields(|line, start| {
                self.fields.add(line, start, most);
                self.framing_fields.add(line.field)
            })?;
            self.parsed = lines.at;
            if progress == HeadProgress::Partial {
                return Ok(progress);
            }
            self.framing = Some(self.framing_fields.of_response(self.version, self.status)?);
            self.stage = HeadStage::Over;
        }
        Ok(HeadProgress::Whole(self.parsed))
    }

    fn status_line(&mut self, line: &[u8]) -> Result<(), RuleViolation> {
        let StatusLine {
            version,
            status,
            reason,
        } = StatusLine::parse(line)?;
        (self.version, self.status) = (version, status);
        self.reason = ByteRange::new(line.len() - reason.len(), reason.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use httparse::{EMPTY_HEADER, Response, Status};
    use proptest::prelude::*;

    use super::*;

    const LIMITS: HeadLimits = HeadLimits {
        bytes: 1024,
        fields: 8,
        target: 0,
    };

    const USUAL: &[u8] = b"HTTP/1.1 200 All right\r\nContent-Length: 5\nServer: a\r\n\r\n";

    fn judge(read: &[u8]) -> Result<HeadProgress, HeadError> {
        ResponseHead::new().parse(read, &LIMITS)
    }

    /// Goal: the body is framed as RFC 9112 §6.3 says, for HEAD too. Method: status lines and fields of each kind, with bytes behind
    /// them.
    #[test]
    fn a_whole_head_has_its_length_and_framing() {
        use BodyFraming::{Chunked, Length, None, UntilClose};
        for (head, status, framing) in [
            ("HTTP/1.1 200 OK\r\n\r\n", 200, UntilClose),
            ("HTTP/1.0 200 OK\r\n\r\n", 200, UntilClose),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
                200,
                Length(5),
            ),
            (
                "HTTP/1.0 200 OK\r\ncontent-length:5\r\n\r\n",
                200,
                Length(5),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                200,
                Length(0),
            ),
            (
                "HTTP/1.1 999 \r\nTransfer-Encoding: Chunked\r\n\r\n",
                999,
                Chunked,
            ),
            ("HTTP/1.1 100\r\n\r\n", 100, None),
            (
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\n\r\n",
                101,
                None,
            ),
            ("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", 103, None),
            (
                "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
                204,
                None,
            ),
            (
                "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
                304,
                None,
            ),
            (
                "HTTP/1.1 304 \r\nTransfer-Encoding: chunked\r\n\r\n",
                304,
                None,
            ),
            ("HTTP/1.1 205 Reset Content\r\n\r\n", 205, UntilClose),
        ] {
            let read = [head, "HTTP/1.1 200 OK\r\n\r\n"].concat();
            let mut parsed = ResponseHead::new();
            let progress = parsed.parse(read.as_bytes(), &LIMITS);
            assert_eq!(progress, Ok(HeadProgress::Whole(head.len())), "{head:?}");
            assert_eq!(parsed.status(), status, "{head:?}");
            assert_eq!(parsed.framing(AnsweredMethod::Other), framing, "{head:?}");
            assert_eq!(parsed.framing(AnsweredMethod::Head), None, "{head:?}");
        }
    }

    /// Goal: the parts of a head are read from the bytes in which it came. Method: one with a reason that is no ASCII.
    #[test]
    fn parts_are_those_of_the_bytes() {
        let read = b"HTTP/1.0 404  Not\tf\xf6und \r\nA: b\r\nC:\td \r\n\r\nbody";
        let mut head = ResponseHead::new();
        assert_eq!(
            (head.status(), head.framing(AnsweredMethod::Other)),
            (0, BodyFraming::None)
        );
        assert_eq!(
            head.parse(read, &LIMITS),
            Ok(HeadProgress::Whole(read.len() - 4))
        );
        assert_eq!(head.version(), HttpVersion::Http10);
        assert_eq!(head.status(), 404);
        assert_eq!(head.reason(read), b" Not\tf\xf6und ");
        assert_eq!(head.fields().get(read, 1).unwrap().value, b"d");
        head.clear();
        assert_eq!((head.status(), head.reason(read)), (0, &b""[..]));
        assert_eq!(
            head.parse(b"HTTP/1.1 200\r\n\r\n", &LIMITS),
            Ok(HeadProgress::Whole(16))
        );
        assert_eq!(head.reason(read), b"");
    }

    /// Goal: a bare line feed ends a line as CR LF does, and no line of it is copied as it came. Method: heads with line feeds alone, with
    /// both kinds of line ends, and an empty line of either, with a body behind them that begins with a line feed.
    #[test]
    fn a_bare_line_feed_ends_a_line() {
        for head in [
            "HTTP/1.1 200 OK\nA: b\nContent-Length: 5\n\n",
            "HTTP/1.1 200 OK\nA: b\r\nContent-Length: 5\r\n\n",
            "HTTP/1.1 200 OK\r\nA:b\nContent-Length:5 \n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\n\n",
        ] {
            let read = [head, "\nbody"].concat();
            let read = read.as_bytes();
            let mut parsed = ResponseHead::new();
            let progress = parsed.parse(read, &LIMITS);
            assert_eq!(progress, Ok(HeadProgress::Whole(head.len())), "{head:?}");
            assert_eq!(parsed.reason(read), b"OK", "{head:?}");
            assert_eq!(
                parsed.framing(AnsweredMethod::Other),
                BodyFraming::Length(5)
            );
            let fields: Vec<_> = (parsed.fields().iter(read))
                .map(|field| (field.name, field.value))
                .collect();
            let expected = [(&b"A"[..], &b"b"[..]), (b"Content-Length", b"5")];
            assert_eq!(fields, expected, "{head:?}");
            for index in 0..fields.len() {
                let line = parsed.fields().usual_line(read, index);
                assert!(line.is_none_or(|line| line.ends_with(b"\r\n")), "{head:?}");
            }
        }
        assert_eq!(judge(b"HTTP/1.1 200\n"), Ok(HeadProgress::Partial));
        assert_eq!(judge(b"HTTP/1.1 200\n\n"), Ok(HeadProgress::Whole(14)));
    }

    /// Goal: forms that proxies and clients are known to read in two ways are rejected, by the rule that they break. Method: one form
    /// a line.
    #[test]
    fn ambiguous_heads_are_malformed() {
        use RuleViolation as Rule;
        for (head, rule) in [
            ("HTTP/1.1 200 OK\n B: c\n\n", Rule::FoldedField),
            ("HTTP/1.1 200 OK\nA: b\r\r\n\n", Rule::FieldValue),
            ("HTTP/1.1 200 OK\n\r\r\n", Rule::FieldName),
            ("\nHTTP/1.1 200 OK\n\n", Rule::StatusLine),
            ("HTTP/1.1 200 O\rK\r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1 200 O\0K\r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1 200 OK\r\r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1  200 OK\r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1\t200 OK\r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1 200\tOK\r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1 200OK\r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1 20 OK\r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1 20\r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1 2000 OK\r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1 +20 OK\r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1 099 OK\r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1 099 OK\r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1 \r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1\r\n\r\n", Rule::StatusLine),
            ("HTTP/2 200 OK\r\n\r\n", Rule::Version),
            ("HTTP/1.2 200 OK\r\n\r\n", Rule::Version),
            ("HTTP/01.1 200 OK\r\n\r\n", Rule::Version),
            ("http/1.1 200 OK\r\n\r\n", Rule::NotHttp),
            ("ICY 200 OK\r\n\r\n", Rule::NotHttp),
            (" HTTP/1.1 200 OK\r\n\r\n", Rule::NotHttp),
            ("\r\nHTTP/1.1 200 OK\r\n\r\n", Rule::StatusLine),
            ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", Rule::FoldedField),
            ("HTTP/1.1 200 OK\r\n A: b\r\n\r\n", Rule::FoldedField),
            ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", Rule::FieldName),
            ("HTTP/1.1 200 OK\r\n: b\r\n\r\n", Rule::FieldName),
            ("HTTP/1.1 200 OK\r\nA\r\n\r\n", Rule::FieldName),
            ("HTTP/1.1 200 OK\r\nA\u{e9}: b\r\n\r\n", Rule::FieldName),
            ("HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", Rule::FieldValue),
            ("HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n", Rule::FieldValue),
            (
                "HTTP/1.1 200 OK\r\nContent_Length: 5\r\n\r\n",
                Rule::FramingName,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransferEncoding: chunked\r\n\r\n",
                Rule::FramingName,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
                Rule::ContentLength,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
                Rule::ContentLength,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
                Rule::ContentLength,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
                Rule::ContentLength,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                Rule::TwoFramings,
            ),
            (
                "HTTP/1.1 204 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                Rule::TwoFramings,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                Rule::TransferEncoding,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                Rule::TransferEncoding,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
                Rule::TransferEncoding,
            ),
            (
                "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                Rule::TransferEncoding,
            ),
            (
                "HTTP/1.1 204 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                Rule::TransferEncoding,
            ),
            (
                "HTTP/1.1 103 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                Rule::TransferEncoding,
            ),
        ] {
            assert_eq!(judge(head.as_bytes()), Err(rule.into()), "{head:?}");
        }
    }

    /// Goal: bytes that cannot become a response are rejected at once. Method: beginnings, and the rule that each breaks.
    #[test]
    fn a_beginning_of_no_response_is_malformed_at_once() {
        use RuleViolation as Rule;
        for (read, rule) in [
            (&b"\x15\x03\x01"[..], Rule::NotHttp),
            (b"SSH-2.0", Rule::NotHttp),
            (b"HTTQ", Rule::NotHttp),
            (b"\r", Rule::StatusLine),
            (b"HTTP/2", Rule::Version),
            (b"HTTP/1.1\r", Rule::StatusLine),
            (b"HTTP/1.1 0", Rule::StatusLine),
            (b"HTTP/1.1 20\r", Rule::StatusLine),
            (b"HTTP/1.1 2000", Rule::StatusLine),
            (b"HTTP/1.1 200 O\0", Rule::StatusLine),
            (b"HTTP/1.1 200 OK\r\n ", Rule::FoldedField),
            (b"HTTP/1.1 200 OK\r\nA\0", Rule::FieldName),
        ] {
            assert_eq!(judge(read), Err(rule.into()), "{}", read.escape_ascii());
        }
        for read in [
            "",
            "H",
            "HTTP/1.",
            "HTTP/1.1 ",
            "HTTP/1.1 200\r",
            "HTTP/1.1 200 \r",
        ] {
            assert_eq!(
                judge(read.as_bytes()),
                Ok(HeadProgress::Partial),
                "{read:?}"
            );
        }
    }

    /// Goal: sizes are bounded, and a broken rule comes before them. Method: a head at each bound, and one beyond it.
    #[test]
    fn sizes_are_bounded() {
        let head = |fields: usize, reason: usize| {
            let (fields, reason) = ("a:\r\n".repeat(fields), "r".repeat(reason));
            format!("HTTP/1.1 200 {reason}\r\n{fields}\r\n")
        };
        let most = LIMITS.bytes - head(8, 0).len();
        assert_eq!(
            judge(head(8, most).as_bytes()),
            Ok(HeadProgress::Whole(LIMITS.bytes))
        );
        for beyond in [
            head(8, most + 1),
            head(9, 0),
            "HTTP/1.1 200 ".to_owned() + &"r".repeat(1024),
        ] {
            assert_eq!(
                judge(beyond.as_bytes()),
                Err(HeadError::TooLarge),
                "{beyond}"
            );
        }
        let folded = head(9, 0).replace("200 \r\n", "200 \r\n x\r\n");
        assert_eq!(
            judge(folded.as_bytes()),
            Err(RuleViolation::FoldedField.into())
        );
    }

    proptest! {
        /// Goal: the result does not depend on how bytes arrive. Method: a head with a byte changed, whole, and in three pieces.
        #[test]
        fn cuts_change_nothing(at in 0..USUAL.len(), byte: u8, cuts in prop::array::uniform2(0..USUAL.len())) {
            let mut read = USUAL.to_vec();
            read[at] = byte;
            let mut once = ResponseHead::new();
            let expected = once.parse(&read, &LIMITS);
            let mut pieces = ResponseHead::new();
            let mut found = Ok(HeadProgress::Partial);
            for end in [cuts[0].min(cuts[1]), cuts[0].max(cuts[1]), read.len()] {
                if found == Ok(HeadProgress::Partial) {
                    found = pieces.parse(&read[..end], &LIMITS);
                }
            }
            // The rule that is named is the first that the bytes break so far.
            prop_assert_eq!(found.ok(), expected.ok());
            prop_assert_eq!(format!("{pieces:?}"), format!("{once:?}"));
        }

        /// Goal: the check of a partial head rejects nothing that the check of the whole head accepts. Method: every prefix of a
        /// whole head with a byte changed is partial.
        #[test]
        fn a_prefix_of_a_whole_head_is_partial(at in 0..USUAL.len(), byte: u8, end in 0..USUAL.len()) {
            let mut head = USUAL.to_vec();
            head[at] = byte;
            if let Ok(HeadProgress::Whole(bytes)) = judge(&head) {
                prop_assert_eq!(judge(&head[..end.min(bytes - 1)]), Ok(HeadProgress::Partial));
            }
        }

        /// Goal: no bytes from the network cause a panic. Method: any bytes behind a status line.
        #[test]
        fn any_bytes_are_judged(version in "(HTTP/1.1 200 OK\r\n)?", rest: Vec<u8>) {
            let _ = judge(&[version.as_bytes(), &rest].concat());
        }

        /// Goal: a head that passes is one that `httparse` takes, with the same parts. Method: heads whose parts may be valid, with a
        /// byte changed.
        #[test]
        fn a_head_that_passes_is_that_of_httparse(
            line in "HTTP/1\\.[01] [1-6][0-9]{2}( [ -~]{0,5})?",
            fields in prop::collection::vec("[A-Za-z-]{1,3} ?: ?[!-~]{0,3}[ \t]?", 0..4),
            end in "\r?\n",
            change in prop::option::of((0_usize..40, any::<u8>())),
        ) {
            let mut read = format!("{line}{end}{}{end}body", fields.join(&end) + &end).into_bytes();
            if let Some((at, byte)) = change && let Some(place) = read.get_mut(at) {
                *place = byte;
            }
            let mut head = ResponseHead::new();
            let Ok(HeadProgress::Whole(bytes)) = head.parse(&read, &LIMITS) else {
                return Ok(());
            };
            let mut room = [EMPTY_HEADER; 8];
            let mut theirs = Response::new(&mut room);
            prop_assert_eq!(theirs.parse(&read), Ok(Status::Complete(bytes)));
            let version = HttpVersion::named(format!("HTTP/1.{}", theirs.version.unwrap()).as_bytes());
            prop_assert_eq!(Some(head.version()), version);
            prop_assert_eq!(Some(head.status()), theirs.code);
            // It has no reason that is not ASCII.
            let reason = std::str::from_utf8(head.reason(&read)).ok().filter(|reason| reason.is_ascii());
            prop_assert_eq!(reason.unwrap_or_default(), theirs.reason.unwrap());
            let found: Vec<_> = head.fields().iter(&read).map(|field| (field.name, field.value)).collect();
            let expected: Vec<_> = theirs.headers.iter().map(|field| (field.name.as_bytes(), field.value)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
