//! Compares authorities, the host and port of an absolute target and of `Host`, RFC 9110 §4.2.3: case and a default port make no
//! difference.
//!
//! A host is a name of labels, or an IPv6 address in brackets. RFC 3986 §3.2.2 allows more bytes in a name; two servers would not
//! read the same name from these.

use std::net::Ipv6Addr;

use crate::bytes::alphanumerics_and;

/// Maximum bytes of a host without its port: RFC 1035 §2.3.4 gives names 255 bytes.
const HOST_BYTES: usize = 255;

/// The bytes of the labels of a name.
const LABEL: [bool; 256] = alphanumerics_and(b"-_~");

/// A host with its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    host: HostText<'a>,
    port: u16,
}

/// The host of an authority, in either form.
#[derive(Clone, Copy, Debug, Eq)]
enum HostText<'a> {
    /// A name, without the root dot.
    Name(&'a [u8]),
    Address(Ipv6Addr),
}

impl<'a> Authority<'a> {
    /// Parses an authority without user information. An absent or empty port is `default_port`. Returns `None` for an invalid one.
    #[must_use]
    pub fn parse(text: &'a [u8], default_port: u16) -> Option<Self> {
        let (host, port) = match text.strip_prefix(b"[") {
            Some(inner) => {
                let end = memchr::memchr(b']', inner)?;
                let address = std::str::from_utf8(&inner[..end]).ok()?;
                let host = HostText::Address(address.parse().ok()?);
                (host, &inner[end + 1..])
            }
            None => {
                let end = memchr::memchr(b':', text).unwrap_or(text.len());
                (HostText::Name(name(&text[..end])?), &text[end..])
            }
        };
        let port = match port {
            [] | b":" => default_port,
            // RFC 3986 §3.2.3: digits, no sign.
            [b':', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => {
                std::str::from_utf8(digits).ok()?.parse().ok()?
            }
            _ => return None,
        };
        Some(Self { host, port })
    }
}

impl PartialEq for HostText<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Name(one), Self::Name(other)) => one.eq_ignore_ascii_case(other),
            (Self::Address(one), Self::Address(other)) => one == other,
            (Self::Name(_), Self::Address(_)) | (Self::Address(_), Self::Name(_)) => false,
        }
    }
}

/// Returns a name without the root dot; `None` for one that is too long or has an empty label or a forbidden byte.
fn name(text: &[u8]) -> Option<&[u8]> {
    let name = text.strip_suffix(b".").unwrap_or(text);
    let is_label =
        |label: &[u8]| !label.is_empty() && label.iter().all(|&byte| LABEL[usize::from(byte)]);
    (name.len() <= HOST_BYTES && name.split(|&byte| byte == b'.').all(is_label)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: authorities have host and port, or are invalid. Method: the forms of both.
    #[test]
    fn an_authority_is_a_host_with_an_optional_port() {
        for (text, port) in [
            ("a", 80),
            ("a.b.", 80),
            ("a.:81", 81),
            ("a:", 80),
            ("my_service-1~", 80),
            ("127.0.0.1:8080", 8080),
            ("[::1]", 80),
            ("[::1]:81", 81),
            ("[::1]:", 80),
        ] {
            let authority = Authority::parse(text.as_bytes(), 80);
            assert_eq!(authority.map(|found| found.port), Some(port), "{text}");
        }
        for text in [
            "",
            ".",
            ":80",
            "a..b",
            ".a",
            "a b",
            "a/b",
            "u@a",
            "a%62",
            "\u{e9}",
            "a:b",
            "a:+1",
            "a:65536",
            "a:1:2",
            "::1",
            "[::1",
            "[127.0.0.1]",
            "[v1.x]",
            "[::1]80",
            "[::1]x:80",
        ] {
            assert_eq!(Authority::parse(text.as_bytes(), 80), None, "{text}");
        }
        let label = "a".repeat(HOST_BYTES);
        assert!(Authority::parse(format!("{label}.:80").as_bytes(), 80).is_some());
        assert!(Authority::parse(format!("{label}a").as_bytes(), 80).is_none());
    }
}
