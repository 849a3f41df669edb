//! Checks the target of an HTTP/1 request, RFC 9112 §3.2: a path, or an absolute URL whose authority `Host` must name too.

use crate::authority::Authority;
use crate::bytes::alphanumerics_and;
use crate::raw_query;
use crate::violation::RuleViolation;

/// A target that a route may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestTarget<'a> {
    /// A path, with or without a query, which is passed on unchanged.
    Path,
    /// A path whose query is percent-encoded first.
    RawQuery,
    /// An absolute URL, which becomes a path.
    Absolute(AbsoluteTarget<'a>),
}

/// An absolute URL, RFC 9112 §3.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AbsoluteTarget<'a> {
    /// Its host and port, as sent.
    pub(crate) authority: &'a [u8],
    /// The part after the authority; may be empty, or begin with the query.
    pub(crate) rest: &'a [u8],
    default_port: u16,
}

/// The bytes of most requests' targets.
const PLAIN: [bool; 256] = alphanumerics_and(b"/?&=%-._~+,:;@!$'()*");

impl<'a> RequestTarget<'a> {
    /// Checks a target that was sent with this method.
    pub(crate) fn judge(target: &'a [u8], method: &[u8]) -> Result<Self, RuleViolation> {
        match target {
            [] => Err(RuleViolation::RequestLine),
            [b'/', rest @ ..] if rest.iter().all(|&byte| PLAIN[usize::from(byte)]) => {
                Ok(Self::Path)
            }
            _ if target.iter().any(|byte| matches!(byte, 0..=b' ' | 0x7f)) => {
                Err(RuleViolation::TargetByte)
            }
            // §3.2: a target has no fragment. Where one is sent, some origins cut it off and others take it for a part of the
            // path.
            _ if target.contains(&b'#') => Err(RuleViolation::Fragment),
            [b'/', ..] => Self::judge_path(target),
            b"*" => Err(RuleViolation::Asterisk),
            _ => {
                let absolute = AbsoluteTarget::find(target)?;
                if absolute.rest.is_empty() && method == b"OPTIONS" {
                    // §3.2.4: this is how a client asks a proxy for `OPTIONS *`.
                    return Err(RuleViolation::Asterisk);
                }
                if !absolute.rest.is_empty() {
                    Self::judge_path(absolute.rest)?;
                }
                Ok(Self::Absolute(absolute))
            }
        }
    }

    /// Checks a path and its query, or a query alone, which have no spaces, control characters and fragments. RFC 3986 §3.3 allows
    /// fewer bytes in a path; clients send the others, but for these three, and origins read them in one way.
    fn judge_path(target: &'a [u8]) -> Result<Self, RuleViolation> {
        let mark = memchr::memchr(b'?', target).unwrap_or(target.len());
        let (path, query) = target.split_at(mark);
        if path.iter().any(|byte| matches!(byte, b'<' | b'>' | b'`'))
            || std::str::from_utf8(path).is_err()
        {
            Err(RuleViolation::TargetByte)
        } else if query.iter().any(|&byte| raw_query::is_raw(byte)) {
            Ok(Self::RawQuery)
        } else {
            Ok(Self::Path)
        }
    }
}

impl<'a> AbsoluteTarget<'a> {
    /// Parses an absolute URL whose host is valid.
    pub(crate) fn find(target: &'a [u8]) -> Result<Self, RuleViolation> {
        let colon = memchr::memmem::find(target, b"://").ok_or(RuleViolation::Target)?;
        let scheme = &target[..colon];
        let rest = &target[colon + 3..];
        let default_port = match scheme {
            _ if scheme.eq_ignore_ascii_case(b"http") => 80,
            _ if scheme.eq_ignore_ascii_case(b"https") => 443,
            _ => return Err(RuleViolation::Target),
        };
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
        let (authority, rest) = rest.split_at(end.unwrap_or(rest.len()));
        // RFC 9110 §4.2.4
        if authority.contains(&b'@') {
            return Err(RuleViolation::UserInformation);
        }
        let absolute = Self {
            authority,
            rest,
            default_port,
        };
        Authority::parse(authority, default_port).ok_or(RuleViolation::Target)?;
        Ok(absolute)
    }

    /// Returns whether `host`, a value of `Host`, names the same authority, RFC 9110 §4.2.3: case and a default port make no
    /// difference.
    pub(crate) fn names(&self, host: &[u8]) -> bool {
        Authority::parse(host, self.default_port)
            .is_some_and(|named| Some(named) == Authority::parse(self.authority, self.default_port))
    }
}

#[cfg(test)]
mod tests {
    use http::uri::PathAndQuery;
    use proptest::prelude::*;

    use super::*;

    fn absolute(target: &[u8]) -> AbsoluteTarget<'_> {
        match RequestTarget::judge(target, b"GET") {
            Ok(RequestTarget::Absolute(absolute)) => absolute,
            other => panic!("{}: {other:?}", target.escape_ascii()),
        }
    }

    /// Goal: authorities are compared as RFC 9110 §4.2.3 requires, and no wider. Method: pairs on both sides.
    #[test]
    fn case_and_default_port_make_no_difference() {
        for (target, host) in [
            ("http://a/", "a"),
            ("http://A.test/", "a.TEST"),
            ("HTTP://a:80/", "a"),
            ("http://a/", "a:80"),
            ("http://a:/", "a"),
            ("https://a:443", "a"),
            ("http://a:8080?b", "a:8080"),
            ("http://[::1]:80/", "[0:0:0:0:0:0:0:1]"),
        ] {
            assert!(
                absolute(target.as_bytes()).names(host.as_bytes()),
                "{target}"
            );
        }
        for (target, host) in [
            ("http://a/", "b"),
            ("http://a/", ""),
            ("http://a/", "a:443"),
            ("https://a/", "a:80"),
            ("http://a:81/", "a"),
            ("http://a/", "a/b"),
            ("http://a/", "\u{e9}"),
        ] {
            assert!(
                !absolute(target.as_bytes()).names(host.as_bytes()),
                "{target}"
            );
        }
    }

    proptest! {
        /// Goal: a target that passes is one that `http` takes, by which the proxy reads it, and no other is rejected for its bytes.
        /// Method: arbitrary bytes without those that are rejected before.
        #[test]
        fn a_path_passes_where_the_proxy_takes_it(text in "[/?]([a-c<>`\"{}|\\\\^~%?]|[\u{80}-\u{ff}]){0,8}", high: Option<u8>) {
            let mut target = text.into_bytes();
            target.extend(high.map(|byte| byte | 0x80));
            let taken = PathAndQuery::try_from(&*raw_query::encoded(&target)).is_ok();
            prop_assert_eq!(RequestTarget::judge_path(&target).is_ok(), taken);
        }
    }

    /// Goal: an invalid target is rejected for its own reason. Method: one of each.
    #[test]
    fn a_refused_target_breaks_a_named_rule() {
        for (target, rule) in [
            ("*", RuleViolation::Asterisk),
            ("a", RuleViolation::Target),
            ("a:80", RuleViolation::Target),
            ("ftp://a/", RuleViolation::Target),
            ("http:///a", RuleViolation::Target),
            ("http://a b/", RuleViolation::TargetByte),
            ("http://a\\b/", RuleViolation::Target),
            ("http://a:99999/", RuleViolation::Target),
            ("http://u@a/", RuleViolation::UserInformation),
            ("/a#b", RuleViolation::Fragment),
            ("/a\x7f", RuleViolation::TargetByte),
            ("/<a>", RuleViolation::TargetByte),
            ("/a?b c", RuleViolation::TargetByte),
        ] {
            let judged = RequestTarget::judge(target.as_bytes(), b"GET");
            assert_eq!(judged, Err(rule), "{target}");
        }
        let of_options = RequestTarget::judge(b"http://a", b"OPTIONS");
        assert_eq!(of_options, Err(RuleViolation::Asterisk));
    }
}
