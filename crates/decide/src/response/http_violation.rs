//! Writes the rules of HTTP that a request can break as texts for the client and the log.

use sluicegate_http1::RuleViolation;

/// A rule of HTTP that a request breaks. The answer is 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpViolation {
    /// A rule of the messages of HTTP/1; some of them hold for HTTP/2 too.
    Message(RuleViolation),
    /// RFC 9110 §7.6.1: `Connection` names fields that may be removed on the way.
    ConnectionOption,
    /// RFC 9113 §8.1.1, RFC 9114 §4.1.2: a request of HTTP/2 or HTTP/3.
    Http2,
    /// The listener has calls of gRPC alone, and the request is of HTTP/1.
    NotGrpc,
    /// Any other rule, which the proxy checks.
    Other,
}

impl HttpViolation {
    /// Returns its name, for programs that read a problem body or the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Message(rule) => rule_name(rule),
            Self::ConnectionOption => "connection-option",
            Self::Http2 => "http2",
            Self::NotGrpc => "not-grpc",
            Self::Other => "malformed",
        }
    }

    /// Returns the text for the client.
    #[must_use]
    pub const fn detail(self) -> &'static str {
        match self {
            Self::Message(rule) => rule_detail(rule),
            Self::ConnectionOption => {
                "the Connection field names a field that must not be removed, or too many, or is malformed"
            }
            Self::Http2 => "the request is malformed in a way that HTTP/2 and HTTP/3 forbid",
            Self::NotGrpc => {
                "this listener answers the calls of Envoy's rate limit service: gRPC, over HTTP/2"
            }
            Self::Other => "the request is malformed",
        }
    }
}

impl From<RuleViolation> for HttpViolation {
    fn from(rule: RuleViolation) -> Self {
        Self::Message(rule)
    }
}

/// Returns the name of a rule.
const fn rule_name(rule: RuleViolation) -> &'static str {
    match rule {
        RuleViolation::NotHttp => "not-http",
        RuleViolation::LineEnd => "line-end",
        RuleViolation::RequestLine => "request-line",
        RuleViolation::StatusLine => "status-line",
        RuleViolation::Method => "method",
        RuleViolation::Connect => "connect",
        RuleViolation::Version => "version",
        RuleViolation::Target => "target-form",
        RuleViolation::Asterisk => "target-asterisk",
        RuleViolation::TargetByte => "target-byte",
        RuleViolation::Fragment => "target-fragment",
        RuleViolation::UserInformation => "user-information",
        RuleViolation::HostCount => "host-count",
        RuleViolation::HostMismatch => "host-mismatch",
        RuleViolation::FoldedField => "folded-field",
        RuleViolation::FieldName => "field-name",
        RuleViolation::FieldValue => "field-value",
        RuleViolation::FramingName => "framing-name",
        RuleViolation::ContentLength => "content-length",
        RuleViolation::TransferEncoding => "transfer-encoding",
        RuleViolation::TwoFramings => "two-framings",
        RuleViolation::Chunks => "chunks",
        RuleViolation::Trailer => "trailer",
    }
}

/// Returns the text of a rule for the client.
const fn rule_detail(rule: RuleViolation) -> &'static str {
    match rule {
        RuleViolation::NotHttp => "these bytes do not begin an HTTP request",
        RuleViolation::LineEnd => "a line of the request head does not end in CR LF",
        RuleViolation::RequestLine => {
            "the request line is not a method, a target and a version with one space between each"
        }
        RuleViolation::StatusLine => {
            "the status line is not a version, a status from 100 to 599 and a reason with one space between each"
        }
        RuleViolation::Method => "the method is not a token",
        RuleViolation::Connect => "this server opens no tunnels: CONNECT is not served",
        RuleViolation::Version => {
            "the version in the request line is neither HTTP/1.1 nor HTTP/1.0"
        }
        RuleViolation::Target => {
            "the target is neither a path nor an absolute URL that begins with http:// or https://"
        }
        RuleViolation::Asterisk => {
            "the target `*` names no path, and this server finds what it serves by the path"
        }
        RuleViolation::TargetByte => "the target holds a byte that must be percent-encoded",
        RuleViolation::Fragment => {
            "the target has a fragment; leave `#` and what follows it out, or send it as %23"
        }
        RuleViolation::UserInformation => {
            "the target or the Host field names a user; leave `user@` out"
        }
        RuleViolation::HostCount => "the request has no Host field, or more than one",
        RuleViolation::HostMismatch => "the Host field and the target name different hosts",
        RuleViolation::FoldedField => "a header field is continued on a second line",
        RuleViolation::FieldName => {
            "the name of a header field is not a token, or is not followed by a colon at once"
        }
        RuleViolation::FieldValue => "the value of a header field holds a control character",
        RuleViolation::FramingName => {
            "a header field is named almost like Content-Length or Transfer-Encoding"
        }
        RuleViolation::ContentLength => {
            "Content-Length is not one number, or the request has more than one"
        }
        RuleViolation::TransferEncoding => {
            "Transfer-Encoding is not `chunked`, is repeated, or stands in a request of HTTP/1.0"
        }
        RuleViolation::TwoFramings => "the request has both Content-Length and Transfer-Encoding",
        RuleViolation::Chunks => "the chunks of the request body are malformed",
        RuleViolation::Trailer => "the trailer of the request body has more than 8 KiB",
    }
}
