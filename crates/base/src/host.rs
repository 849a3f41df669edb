//! Owns the normal form of a host, which routes, keys and the log use.
//!
//! It is lower case, without port, without the root dot; an IPv6 address keeps its brackets and is written as in RFC 5952. A
//! text that cannot be a host is an error, so that no client selects a route by a spelling that an origin would read
//! differently.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv6Addr;

use crate::bounds;

/// The reason for which a host has no normal form. The client is to blame: answer 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// Nothing is left beside port and dot, or a label of the name is empty.
    Empty,
    /// It is longer than [`HOST_BYTES`](crate::bounds::HOST_BYTES).
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// A byte that is invalid in hosts; letters outside ASCII must come as punycode.
    Byte(u8),
    /// The text in brackets is no IPv6 address.
    Address,
    /// The text after the colon is no port.
    Port,
}

/// Returns the normal form of a `Host` field or an authority without user information.
///
/// Borrows when there is nothing to change but the port and the dot.
///
/// # Errors
///
/// [`HostError`] when the text is not a host with an optional port. The empty text is one too: a request without a host has none
/// to normalize.
pub fn normalize(authority: &str) -> Result<Cow<'_, str>, HostError> {
    if let Some(inner) = authority.strip_prefix('[') {
        let (address, port) = inner.split_once(']').ok_or(HostError::Address)?;
        if !port.is_empty() {
            check_port(port.strip_prefix(':').ok_or(HostError::Port)?)?;
        }
        let parsed: Ipv6Addr = address.parse().map_err(|_| HostError::Address)?;
        let normal = format!("[{parsed}]");
        let as_sent = &authority[..address.len() + 2];
        return Ok(if normal == as_sent {
            Cow::Borrowed(as_sent)
        } else {
            Cow::Owned(normal)
        });
    }
    // Most authorities are too short for vector instructions.
    let host = match authority.bytes().position(|byte| byte == b':') {
        Some(colon) => {
            check_port(&authority[colon + 1..])?;
            &authority[..colon]
        }
        None => authority,
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.len() > bounds::HOST_BYTES {
        return Err(HostError::TooLong { length: host.len() });
    }
    // Without a branch for each byte: nearly all hosts are lower case and valid.
    let mut classes = 0;
    let mut pairs = 0;
    let mut previous = DOT;
    for byte in host.bytes() {
        let class = CLASSES[usize::from(byte)];
        classes |= class;
        pairs |= class & previous;
        previous = class;
    }
    // A dot at either end, or behind another one, leaves a label empty.
    if classes & INVALID != 0 || (pairs | previous) & DOT != 0 {
        return Err(first_error(host));
    }
    Ok(if classes & UPPER != 0 {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    })
}

/// The class of an upper-case letter.
const UPPER: u8 = 1;
/// The class of a byte that is invalid in names.
const INVALID: u8 = 2;

/// The class of the dot between two labels.
const DOT: u8 = 4;

/// The class of each byte; 0 for those that a label in normal form may contain.
const CLASSES: [u8; 256] = {
    let mut classes = [INVALID; 256];
    let mut byte = 0;
    while byte < classes.len() {
        match byte as u8 {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => classes[byte] = 0,
            b'.' => classes[byte] = DOT,
            b'A'..=b'Z' => classes[byte] = UPPER,
            _ => {}
        }
        byte += 1;
    }
    classes
};

/// Returns the error of an invalid name at its first invalid place.
#[cold]
fn first_error(host: &str) -> HostError {
    let mut previous = b'.';
    for byte in host.bytes() {
        match byte {
            b'.' if previous == b'.' => return HostError::Empty,
            _ if CLASSES[usize::from(byte)] == INVALID => return HostError::Byte(byte),
            _ => previous = byte,
        }
    }
    HostError::Empty
}

/// Returns the normal form of a host that a route names; the parser rejects one without, and stored unchanged, it matches no
/// request.
#[must_use]
pub fn literal(host: &str) -> Box<str> {
    normalize(host).map_or_else(|_| host.into(), Into::into)
}

/// Checks a port, which RFC 3986 §3.2.3 allows to be empty.
fn check_port(port: &str) -> Result<(), HostError> {
    // Four digits are below the largest port.
    if port.bytes().all(|byte| byte.is_ascii_digit())
        && (port.len() <= 4 || port.parse::<u16>().is_ok())
    {
        Ok(())
    } else {
        Err(HostError::Port)
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the host or one of its labels is empty"),
            Self::TooLong { length } => {
                write!(
                    f,
                    "the host has {length} bytes, at most {} are accepted",
                    bounds::HOST_BYTES
                )
            }
            Self::Byte(byte) => {
                write!(
                    f,
                    "the host holds the byte 0x{byte:02x}; letters, digits, '-', '_', '~' and '.' are accepted"
                )
            }
            Self::Address => f.write_str("the host opens a bracket that holds no IPv6 address"),
            Self::Port => f.write_str("the port is not a number up to 65535"),
        }
    }
}

impl std::error::Error for HostError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_host_has_one_normal_form() {
        for (text, normal) in [
            ("example.com", "example.com"),
            ("EXAMPLE.Com", "example.com"),
            ("example.com.", "example.com"),
            ("example.com:8080", "example.com"),
            ("Example.com.:80", "example.com"),
            ("example.com:", "example.com"),
            ("localhost", "localhost"),
            ("my_service-1", "my_service-1"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("[2001:DB8::1]:443", "[2001:db8::1]"),
            ("[0:0:0:0:0:0:0:1]", "[::1]"),
        ] {
            assert_eq!(normalize(text).as_deref(), Ok(normal), "{text}");
        }
        assert!(matches!(normalize("example.com.:80"), Ok(Cow::Borrowed(_))));
        assert!(matches!(normalize("[::1]:80"), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn what_cannot_be_a_host_is_refused() {
        for (text, error) in [
            ("", HostError::Empty),
            (".", HostError::Empty),
            (":80", HostError::Empty),
            ("a..b", HostError::Empty),
            (".a", HostError::Empty),
            ("a..", HostError::Empty),
            ("a b", HostError::Byte(b' ')),
            ("a/b", HostError::Byte(b'/')),
            ("a,b", HostError::Byte(b',')),
            ("user@a", HostError::Byte(b'@')),
            ("ex%61mple.com", HostError::Byte(b'%')),
            ("\u{e9}.com", HostError::Byte(0xc3)),
            ("a\0", HostError::Byte(0)),
            ("a:b", HostError::Port),
            ("a:+1", HostError::Port),
            ("a:65536", HostError::Port),
            ("::1", HostError::Port),
            ("[::1", HostError::Address),
            ("[127.0.0.1]", HostError::Address),
            ("[v1.x]", HostError::Address),
            ("[::1]80", HostError::Port),
        ] {
            assert_eq!(normalize(text), Err(error), "{text}");
        }
        assert_eq!(
            normalize(&"a".repeat(256)),
            Err(HostError::TooLong { length: 256 })
        );
    }

    proptest! {
        #[test]
        fn a_normal_form_is_its_own(text in "[a-cA-C0-9.:\\[\\]_-]{0,20}") {
            if let Ok(normal) = normalize(&text) {
                prop_assert_eq!(normalize(&normal), Ok(Cow::Borrowed(&*normal)));
            }
        }
    }
}
