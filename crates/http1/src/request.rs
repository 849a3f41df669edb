//! Decides where the head of a request ends and how its body is framed, and rejects heads that two parsers could read in two ways
//! (RFC 9112 §11.2, request smuggling).
//!
//! It checks line ends, the form of the request line, the bytes of names and values, and the three fields that frame and address
//! a request. A partial head is checked as far as it goes: bytes that cannot become a request, such as the first message of TLS,
//! are rejected at once rather than at a timeout.

use crate::bytes::is_token;
use crate::fields::{ByteRange, FieldLine, FieldLines};
use crate::framing::{BodyFraming, FramingFields};
use crate::head::{HeadError, HeadLimits, HeadProgress, HeadStage};
use crate::known_field::KnownField;
use crate::lines::{HeadLine, LineEnds, LineScanner};
use crate::request_line::{self, first_words, leading_line_end};
use crate::target::{AbsoluteTarget, RequestTarget};
use crate::version::HttpVersion;
use crate::violation::RuleViolation;

/// The head of a request, as ranges of the bytes in which it was received.
///
/// It is made for one message after the other: [`clear`](Self::clear) keeps its memory. The bytes stay with the caller, who passes
/// them to each method that returns some of them.
///
/// # Example
///
/// ```
/// use sluicegate_http1::{BodyFraming, HeadLimits, HeadProgress, RequestHead};
///
/// let limits = HeadLimits { bytes: 16 * 1024, fields: 100, target: 8 * 1024 };
/// let mut head = RequestHead::new();
/// let mut read = b"POST /a HTTP/1.1\r\nHost: exa".to_vec();
/// assert_eq!(head.parse(&read, &limits), Ok(HeadProgress::Partial));
///
/// read.extend_from_slice(b"mple.com\r\nContent-Length: 5\r\n\r\nhello");
/// assert_eq!(head.parse(&read, &limits), Ok(HeadProgress::Whole(58)));
/// assert_eq!(head.method(&read), b"POST");
/// assert_eq!(head.host(&read), Some(&b"example.com"[..]));
/// assert_eq!(head.framing(), BodyFraming::Length(5));
/// ```
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    stage: HeadStage,
    /// Bytes of the lines that are parsed.
    parsed: usize,
    method: ByteRange,
    target: ByteRange,
    form: TargetForm,
    version: HttpVersion,
    fields: FieldLines,
    framing_fields: FramingFields,
    framing: Option<BodyFraming>,
    hosts: usize,
    host: ByteRange,
}

/// The form of a target, RFC 9112 §3.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetForm {
    /// A path, with or without a query.
    #[default]
    Origin,
    /// A path with a query that holds bytes which RFC 3986 §3.4 wants percent-encoded.
    RawQuery,
    /// An absolute URL.
    Absolute,
}

impl RequestHead {
    /// Returns a head of which nothing has been parsed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Prepares for the next request. Keeps the memory for usual numbers of fields.
    pub fn clear(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = Self {
            fields,
            ..Self::default()
        };
    }

    /// Parses the head at the start of `read`: the bytes of the calls before, since the last [`clear`](Self::clear), and further ones
    /// behind them. Lines that are parsed are not read again; after the end nothing is.
    ///
    /// # Errors
    /// [`HeadError`]; the head begins anew then. A broken rule comes before a size, as far as the bytes are here.
    pub fn parse(&mut self, read: &[u8], limits: &HeadLimits) -> Result<HeadProgress, HeadError> {
        if read.is_empty() {
            // Mostly a head is looked for before its first byte is here.
            return Ok(HeadProgress::Partial);
        }
        let parsed = self.parse_lines(read, limits.fields);
        let progress = parsed.map_err(HeadError::Rule);
        let checked = progress.and_then(|progress| self.check(read, progress, limits));
        if checked.is_err() {
            self.clear();
        }
        checked
    }

    /// Returns the method, a token.
    #[must_use]
    pub fn method<'a>(&self, read: &'a [u8]) -> &'a [u8] {
        self.method.of_bytes(read)
    }

    /// Returns the target, as sent.
    #[must_use]
    pub fn target<'a>(&self, read: &'a [u8]) -> &'a [u8] {
        self.target.of_bytes(read)
    }

    /// Returns the form of the target.
    #[must_use]
    pub fn target_form(&self) -> TargetForm {
        self.form
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

    /// Returns the value of `Host`; `None` without one, which only HTTP/1.0 allows.
    #[must_use]
    pub fn host<'a>(&self, read: &'a [u8]) -> Option<&'a [u8]> {
        (self.hosts > 0).then(|| self.host.of_bytes(read))
    }

    /// Returns the framing of the body; that of no body before the head is whole.
    #[must_use]
    pub fn framing(&self) -> BodyFraming {
        self.framing.unwrap_or(BodyFraming::None)
    }

    /// Returns whether origins need not understand the form in which the head was sent: its target is no plain path, or an empty
    /// line stands before it. [`respelled`](Self::respelled) writes the form that they do understand.
    #[must_use]
    pub fn needs_respelling(&self) -> bool {
        self.form != TargetForm::Origin || self.method.start > 0
    }

    fn parse_lines(&mut self, read: &[u8], most: usize) -> Result<HeadProgress, RuleViolation> {
        if self.stage == HeadStage::StartLine {
            let start = leading_line_end(read);
            let mut lines = LineScanner::new(read, start, LineEnds::CrLf);
            match lines.next()? {
                HeadLine::Partial(line) => {
                    request_line::check_beginning(line)?;
                    return Ok(HeadProgress::Partial);
                }
                HeadLine::Whole(line) => self.request_line(line, start)?,
            }
            self.parsed = lines.at;
            self.stage = HeadStage::Fields;
        }
        if self.stage == HeadStage::Fields {
            let mut lines = LineScanner::new(read, self.parsed, LineEnds::CrLf);
            let progress = lines.fields(|line, start| self.field(line, start, most))?;
            self.parsed = lines.at;
            if progress == HeadProgress::Partial {
                return Ok(progress);
            }
            self.end(read)?;
            self.stage = HeadStage::Over;
        }
        Ok(HeadProgress::Whole(self.parsed))
    }

    /// Parses a request line, RFC 9112 §3: method, target and version with one space between each. A space within the target would
    /// end it for one parser and not for another.
    fn request_line(&mut self, line: &[u8], start: usize) -> Result<(), RuleViolation> {
        // A second space would be part of the target, which may contain none.
        let (method, target, version) = request_line::words(line).ok_or_else(|| match line {
            // A byte that no method contains means that this is not HTTP.
            [] => RuleViolation::RequestLine,
            _ => request_line::check_beginning(line)
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
        self.form = match RequestTarget::judge(target, method)? {
            RequestTarget::Path => TargetForm::Origin,
            RequestTarget::RawQuery => TargetForm::RawQuery,
            RequestTarget::Absolute(_) => TargetForm::Absolute,
        };
        self.version = HttpVersion::named(version).ok_or(RuleViolation::Version)?;
        self.method = ByteRange::new(start, method.len());
        self.target = ByteRange::new(start + method.len() + 1, target.len());
        Ok(())
    }

    /// Adds a field line.
    ///
    /// # Errors
    /// The field contradicts an earlier one.
    fn field(
        &mut self,
        line: FieldLine<'_>,
        start: usize,
        most: usize,
    ) -> Result<(), RuleViolation> {
        let value = self.fields.add(line, start, most);
        if line.field.known() == KnownField::Host {
            self.hosts += 1;
            self.host = value;
            return Ok(());
        }
        self.framing_fields.add(line.field)
    }

    /// Checks the fields together. RFC 9112 §3.2: HTTP/1.1 has exactly one `Host`.
    fn end(&mut self, read: &[u8]) -> Result<(), RuleViolation> {
        let is_addressed = match self.version {
            HttpVersion::Http11 => self.hosts == 1,
            HttpVersion::Http10 => self.hosts <= 1,
        };
        if !is_addressed {
            return Err(RuleViolation::HostCount);
        }
        let host = self.host.of_bytes(read);
        // RFC 9110 §4.2.4
        if host.contains(&b'@') {
            return Err(RuleViolation::UserInformation);
        }
        self.framing = Some(self.framing_fields.of_request(self.version)?);
        // §3.2.2: a target in absolute form names the same host as `Host`.
        if self.form == TargetForm::Absolute
            && self.hosts == 1
            && !AbsoluteTarget::find(self.target(read))?.names(host)
        {
            return Err(RuleViolation::HostMismatch);
        }
        Ok(())
    }

    /// Checks the sizes of a head that breaks no rule.
    fn check(
        &self,
        read: &[u8],
        progress: HeadProgress,
        limits: &HeadLimits,
    ) -> Result<HeadProgress, HeadError> {
        // Only a head that is longer can have such a target.
        if read.len() > limits.target {
            let target = match self.stage {
                HeadStage::StartLine => first_words(read).1.len(),
                HeadStage::Fields | HeadStage::Over => self.target.len(),
            };
            if target > limits.target {
                return Err(HeadError::TargetTooLong);
            }
        }
        limits.check(read, progress, self.fields.len())?;
        Ok(progress)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::framing_names::is_framing_lookalike;

    const LIMITS: HeadLimits = HeadLimits {
        bytes: 1024,
        fields: 8,
        target: 64,
    };

    fn judge(read: &[u8]) -> Result<HeadProgress, HeadError> {
        RequestHead::new().parse(read, &LIMITS)
    }

    const USUAL: &[u8] = b"GET /a?b HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";

    /// Goal: ordinary requests pass. Method: one of each framing, with bytes of the next after it.
    #[test]
    fn a_whole_head_has_its_length_and_framing() {
        let cases: [(&[u8], usize, BodyFraming); 6] = [
            (USUAL, 2, BodyFraming::None),
            (
                b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 12\r\n\r\n",
                2,
                BodyFraming::Length(12),
            ),
            (
                b"POST / HTTP/1.1\r\nHost:a\r\nTransfer-Encoding: Chunked\r\n\r\n",
                2,
                BodyFraming::Chunked,
            ),
            (b"GET / HTTP/1.0\r\n\r\n", 0, BodyFraming::None),
            (
                b"GET http://a:80?b HTTP/1.1\r\nHost: a:80\r\n\r\n",
                1,
                BodyFraming::None,
            ),
            (
                b"GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~9Z: \tb\xc3\xa9\t\r\n\r\n",
                2,
                BodyFraming::None,
            ),
        ];
        for (head, fields, body) in cases {
            let read = [head, b"GET"].concat();
            let bytes = head.len();
            let mut parsed = RequestHead::new();
            let progress = parsed.parse(&read, &LIMITS);
            assert_eq!(
                progress,
                Ok(HeadProgress::Whole(bytes)),
                "{}",
                head.escape_ascii()
            );
            assert_eq!((parsed.fields().len(), parsed.framing()), (fields, body));
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
            let found = judge(head.as_bytes());
            assert!(
                matches!(found, Err(HeadError::Rule(_))),
                "{head:?}: {found:?}"
            );
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
            let found = judge(head.as_bytes());
            assert_eq!(found, Err(RuleViolation::FramingName.into()), "{name}");
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
            assert_eq!(judge(read), Err(rule.into()), "{shown}");
        }
        assert_eq!(judge(b"\r"), Ok(HeadProgress::Partial));
        assert_eq!(judge(b"\r\nGET"), Ok(HeadProgress::Partial));
    }

    /// Goal: sizes are bounded, and a broken rule comes before them. Method: a head at each bound, and one beyond it.
    #[test]
    fn sizes_are_bounded() {
        let head = |target: usize, fields: usize, value: usize| {
            let (target, value) = ("t".repeat(target - 1), "v".repeat(value));
            format!(
                "GET /{target} HTTP/1.1\r\nHost: a\r\n{}\r\n",
                format!("a:{value}\r\n").repeat(fields - 1)
            )
        };
        let bytes = head(64, 8, 0).len();
        assert_eq!(
            judge(head(64, 8, 0).as_bytes()),
            Ok(HeadProgress::Whole(bytes))
        );
        for (found, error) in [
            (head(65, 8, 0), HeadError::TargetTooLong),
            (head(64, 9, 0), HeadError::TooLarge),
            (head(1, 2, 1024), HeadError::TooLarge),
            (head(65, 9, 1024), HeadError::TargetTooLong),
            (
                head(65, 9, 1024).replace("Host: a", "Host : a"),
                RuleViolation::FieldName.into(),
            ),
        ] {
            assert_eq!(judge(found.as_bytes()), Err(error), "{found}");
        }
        let partial = [
            (format!("GET /{}", "t".repeat(64)), HeadError::TargetTooLong),
            (
                format!("GET / HTTP/1.1\r\na:{}", "v".repeat(1024)),
                HeadError::TooLarge,
            ),
        ];
        for (found, error) in partial {
            assert_eq!(judge(found.as_bytes()), Err(error), "{found}");
        }
    }

    /// Goal: what a head says is read from the bytes in which it came. Method: one in absolute form behind an empty line.
    #[test]
    fn parts_are_those_of_the_bytes() {
        let read = b"\r\nPUT http://A:80/b?c HTTP/1.0\r\nX:y\r\nhost:\ta\r\n\r\nbody";
        let mut head = RequestHead::new();
        assert_eq!(
            head.parse(read, &LIMITS),
            Ok(HeadProgress::Whole(read.len() - 4))
        );
        assert_eq!(head.method(read), b"PUT");
        assert_eq!(head.target(read), b"http://A:80/b?c");
        assert_eq!(head.target_form(), TargetForm::Absolute);
        assert_eq!(head.version(), HttpVersion::Http10);
        assert_eq!(head.host(read), Some(&b"a"[..]));
        assert_eq!(head.fields().get(read, 0).unwrap().name, b"X");
        head.clear();
        assert_eq!((head.host(read), head.method(read)), (None, &b""[..]));
    }

    proptest! {
        /// Goal: the result does not depend on how bytes arrive. Method: a head with a byte changed, whole, and in three pieces.
        #[test]
        fn cuts_change_nothing(at in 0..USUAL.len(), byte: u8, cuts in prop::array::uniform2(0..USUAL.len())) {
            let mut read = USUAL.to_vec();
            read[at] = byte;
            let mut once = RequestHead::new();
            let expected = once.parse(&read, &LIMITS);
            let mut pieces = RequestHead::new();
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

        /// Goal: no bytes from the network cause a panic. Method: any bytes.
        #[test]
        fn any_bytes_are_judged(read: Vec<u8>) {
            let _ = judge(&read);
        }

        /// Goal: the result does not depend on how bytes arrive. Method: every prefix of a plain head is partial.
        #[test]
        fn a_prefix_of_a_head_is_partial(end in 0..USUAL.len()) {
            prop_assert_eq!(judge(&USUAL[..end]), Ok(HeadProgress::Partial));
        }

        /// Goal: the check of a partial head rejects nothing that the check of the whole head accepts. Method: every prefix of a
        /// whole head with a byte changed is whole or partial.
        #[test]
        fn no_prefix_of_a_whole_head_is_malformed(at in 0..USUAL.len(), byte: u8, end in 0..USUAL.len()) {
            let mut head = USUAL.to_vec();
            head[at] = byte;
            if let Ok(HeadProgress::Whole(_)) = judge(&head) {
                prop_assert!(judge(&head[..end]).is_ok());
            }
        }
    }
}
