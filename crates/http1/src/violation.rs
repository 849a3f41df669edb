//! Lists the rules of HTTP/1 that a message can break.

use std::error::Error;
use std::fmt;

/// A rule of HTTP/1 that a message breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleViolation {
    /// The bytes cannot begin an HTTP message.
    NotHttp,
    /// RFC 9112 §2.2: a line of the head ends in CR LF.
    LineEnd,
    /// RFC 9112 §3: method, target and version with one space between each.
    RequestLine,
    /// RFC 9112 §4: version, status from 100 to 999 and reason with one space between each.
    StatusLine,
    /// RFC 9110 §9.1: a method is a token.
    Method,
    /// RFC 9110 §9.3.6: CONNECT asks for a tunnel.
    Connect,
    /// RFC 9112 §2.3: the version is one that is supported here.
    Version,
    /// RFC 9112 §3.2: the target has one of four forms.
    Target,
    /// RFC 9112 §3.2.4: `*` is the target of OPTIONS, and no path.
    Asterisk,
    /// RFC 3986 §2: a target has no spaces, control characters and such.
    TargetByte,
    /// RFC 9112 §3.2: a target has no fragment.
    Fragment,
    /// RFC 9110 §4.2.4: neither target nor `Host` names a user.
    UserInformation,
    /// RFC 9112 §3.2: a request of HTTP/1.1 has one `Host`.
    HostCount,
    /// RFC 9112 §3.2.2: an absolute target and `Host` name the same authority.
    HostMismatch,
    /// RFC 9112 §5.2: a field stands on one line.
    FoldedField,
    /// RFC 9112 §5.1: a field is a token, a colon and a value.
    FieldName,
    /// RFC 9110 §5.5: a value has no control characters but tabs.
    FieldValue,
    /// A name that some recipients take for `Content-Length` or `Transfer-Encoding`.
    FramingName,
    /// RFC 9112 §6.3: `Content-Length` is one number.
    ContentLength,
    /// RFC 9112 §6.1: `Transfer-Encoding` is `chunked`, once, and not in HTTP/1.0 or a response that has no body by its status.
    TransferEncoding,
    /// RFC 9112 §6.1: a body is framed by one of the two.
    TwoFramings,
    /// RFC 9112 §7.1: the chunks of a body.
    Chunks,
    /// RFC 9112 §7.1.2: the trailer of a body in chunks has no more bytes and fields than are read.
    Trailer,
}

impl fmt::Display for RuleViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotHttp => "the bytes cannot begin an HTTP message",
            Self::LineEnd => "a line of the head does not end in CR LF (RFC 9112 §2.2)",
            Self::RequestLine => "malformed request line (RFC 9112 §3)",
            Self::StatusLine => "malformed status line (RFC 9112 §4)",
            Self::Method => "malformed method (RFC 9110 §9.1)",
            Self::Connect => "unsupported method CONNECT (RFC 9110 §9.3.6)",
            Self::Version => "unsupported version (RFC 9112 §2.3)",
            Self::Target => "malformed target (RFC 9112 §3.2)",
            Self::Asterisk => "unsupported target in asterisk form (RFC 9112 §3.2.4)",
            Self::TargetByte => "forbidden byte in the target (RFC 3986 §2)",
            Self::Fragment => "fragment in the target (RFC 9112 §3.2)",
            Self::UserInformation => "user information in the authority (RFC 9110 §4.2.4)",
            Self::HostCount => "no Host or more than one (RFC 9112 §3.2)",
            Self::HostMismatch => "target and Host name different authorities (RFC 9112 §3.2.2)",
            Self::FoldedField => "folded field line (RFC 9112 §5.2)",
            Self::FieldName => "malformed field name (RFC 9112 §5.1)",
            Self::FieldValue => "control character in a field value (RFC 9110 §5.5)",
            Self::FramingName => "field name that resembles a framing field (RFC 9112 §11.2)",
            Self::ContentLength => "Content-Length is not one number (RFC 9112 §6.3)",
            Self::TransferEncoding => {
                "Transfer-Encoding is not one `chunked`, or not allowed here (RFC 9112 §6.1)"
            }
            Self::TwoFramings => "both Content-Length and Transfer-Encoding (RFC 9112 §6.1)",
            Self::Chunks => "malformed chunk (RFC 9112 §7.1)",
            Self::Trailer => "trailer of more bytes or fields than are read (RFC 9112 §7.1.2)",
        })
    }
}

impl Error for RuleViolation {}
