//! Lists the rules of HTTP that a request can break, with their texts for the client and the log.

/// A rule of HTTP that a request breaks. The answer is 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpViolation {
    /// The bytes cannot begin an HTTP request.
    NotHttp,
    /// RFC 9112 §2.2: a line of the head ends in CR LF.
    LineEnd,
    /// RFC 9112 §3: method, target and version with one space between each.
    RequestLine,
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
    /// A name that some origins take for `Content-Length` or `Transfer-Encoding`.
    FramingName,
    /// RFC 9112 §6.3: `Content-Length` is one number.
    ContentLength,
    /// RFC 9112 §6.1: `Transfer-Encoding` is `chunked`, once, and not in HTTP/1.0.
    TransferEncoding,
    /// RFC 9112 §6.1: a body is framed by one of the two.
    TwoFramings,
    /// RFC 9112 §7.1: the chunks of a body.
    Chunks,
    /// RFC 9110 §7.6.1: `Connection` names fields that may be removed on the way.
    ConnectionOption,
    /// RFC 9113 §8.1.1: a request of HTTP/2.
    Http2,
    /// Any other rule, which the proxy checks.
    Other,
}

impl HttpViolation {
    /// Returns its name, for programs that read a problem body or the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotHttp => "not-http",
            Self::LineEnd => "line-end",
            Self::RequestLine => "request-line",
            Self::Method => "method",
            Self::Connect => "connect",
            Self::Version => "version",
            Self::Target => "target-form",
            Self::Asterisk => "target-asterisk",
            Self::TargetByte => "target-byte",
            Self::Fragment => "target-fragment",
            Self::UserInformation => "user-information",
            Self::HostCount => "host-count",
            Self::HostMismatch => "host-mismatch",
            Self::FoldedField => "folded-field",
            Self::FieldName => "field-name",
            Self::FieldValue => "field-value",
            Self::FramingName => "framing-name",
            Self::ContentLength => "content-length",
            Self::TransferEncoding => "transfer-encoding",
            Self::TwoFramings => "two-framings",
            Self::Chunks => "chunks",
            Self::ConnectionOption => "connection-option",
            Self::Http2 => "http2",
            Self::Other => "malformed",
        }
    }

    /// Returns the text for the client.
    #[must_use]
    pub const fn detail(self) -> &'static str {
        match self {
            Self::NotHttp => "these bytes do not begin an HTTP request",
            Self::LineEnd => "a line of the request head does not end in CR LF",
            Self::RequestLine => {
                "the request line is not a method, a target and a version with one space between each"
            }
            Self::Method => "the method is not a token",
            Self::Connect => "this server opens no tunnels: CONNECT is not served",
            Self::Version => "the version in the request line is neither HTTP/1.1 nor HTTP/1.0",
            Self::Target => {
                "the target is neither a path nor an absolute URL that begins with http:// or https://"
            }
            Self::Asterisk => {
                "the target `*` names no path, and this server finds what it serves by the path"
            }
            Self::TargetByte => "the target holds a byte that must be percent-encoded",
            Self::Fragment => {
                "the target has a fragment; leave `#` and what follows it out, or send it as %23"
            }
            Self::UserInformation => "the target or the Host field names a user; leave `user@` out",
            Self::HostCount => "the request has no Host field, or more than one",
            Self::HostMismatch => "the Host field and the target name different hosts",
            Self::FoldedField => "a header field is continued on a second line",
            Self::FieldName => {
                "the name of a header field is not a token, or is not followed by a colon at once"
            }
            Self::FieldValue => "the value of a header field holds a control character",
            Self::FramingName => {
                "a header field is named almost like Content-Length or Transfer-Encoding"
            }
            Self::ContentLength => {
                "Content-Length is not one number, or the request has more than one"
            }
            Self::TransferEncoding => {
                "Transfer-Encoding is not `chunked`, is repeated, or stands in a request of HTTP/1.0"
            }
            Self::TwoFramings => "the request has both Content-Length and Transfer-Encoding",
            Self::Chunks => "the chunks of the request body are malformed",
            Self::ConnectionOption => {
                "the Connection field names a field that must not be removed, or too many, or is malformed"
            }
            Self::Http2 => "the request is malformed in a way that HTTP/2 forbids",
            Self::Other => "the request is malformed",
        }
    }
}
