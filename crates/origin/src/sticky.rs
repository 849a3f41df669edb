//! Reads and writes the cookie that pins a client to its server.
//!
//! Its value is a keyed hash of the server, so that it reveals neither address nor name to a client, and a client cannot forge it to select
//! a server.

use std::fmt::Write as _;

use arrayvec::ArrayString;
use http::header::{COOKIE, HeaderValue};
use sluicegate_base::received::ReceivedFields;

use sluicegate_config::rules::StickyRules;

/// Bytes of a tag, as hexadecimal digits.
const DIGITS: usize = 16;

/// Longest cookie: a name of 64, a tag, the attributes and a number of seconds.
const LONGEST: usize = 256;

/// The protection of the client's connection against eavesdropping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelSecurity {
    /// It is encrypted.
    Secure,
    /// It is not.
    Clear,
}

/// Returns the tag in the cookie of a request; `None` without a valid one.
#[must_use]
pub fn tag_in(headers: &ReceivedFields, rules: &StickyRules) -> Option<u64> {
    let cookies = headers.get_all(COOKIE);
    cookies
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == &*rules.cookie)
        .and_then(|(_, value)| {
            let whole = value.len() == DIGITS && value.bytes().all(|byte| byte.is_ascii_hexdigit());
            whole.then(|| u64::from_str_radix(value, 16).ok())?
        })
}

/// Returns the `Set-Cookie` that gives a client its tag, RFC 6265 §4.1; `None` for a value that cannot be sent, which the rules
/// exclude.
#[must_use]
pub fn cookie_for(tag: u64, rules: &StickyRules, channel: ChannelSecurity) -> Option<HeaderValue> {
    let mut cookie = ArrayString::<LONGEST>::new();
    write!(
        cookie,
        "{}={tag:016x}; Path=/; HttpOnly; SameSite=Lax",
        rules.cookie
    )
    .ok()?;
    if let Some(ttl) = rules.ttl {
        write!(cookie, "; Max-Age={}", ttl.as_secs()).ok()?;
    }
    if channel == ChannelSecurity::Secure {
        cookie.try_push_str("; Secure").ok()?;
    }
    HeaderValue::from_str(&cookie).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rules(ttl: Option<Duration>) -> StickyRules {
        StickyRules {
            cookie: "srv".into(),
            ttl,
        }
    }

    /// Goal: a tag survives the round trip. Method: a cookie between others, over several lines, and values that are no tags.
    #[test]
    fn a_tag_is_found_among_cookies() {
        let tag = |lines: &[&str]| {
            let mut headers = ReceivedFields::new();
            for line in lines {
                headers.append(COOKIE, line.parse().expect("a value"));
            }
            tag_in(&headers, &rules(None))
        };
        assert_eq!(tag(&["a=1; srv=00000000000000ff"]), Some(255));
        assert_eq!(tag(&["a=1", "b=2;srv=00000000000000ff; c=3"]), Some(255));
        for none in [
            "",
            "xsrv=00000000000000ff",
            "srv=ff",
            "srv=+0000000000000ff",
            "srv",
        ] {
            assert_eq!(tag(&[none]), None, "{none}");
        }
    }

    /// Goal: scripts and other sites do not get the cookie, nor does a clear connection get one of an encrypted one. Method: the
    /// text.
    #[test]
    fn a_cookie_is_kept_close() {
        let text = |ttl, channel| cookie_for(255, &rules(ttl), channel).expect("a cookie");
        let hour = Some(Duration::from_secs(3600));
        assert_eq!(
            text(hour, ChannelSecurity::Secure),
            "srv=00000000000000ff; Path=/; HttpOnly; SameSite=Lax; Max-Age=3600; Secure"
        );
        assert_eq!(
            text(None, ChannelSecurity::Clear),
            "srv=00000000000000ff; Path=/; HttpOnly; SameSite=Lax"
        );
    }
}
