//! Parses status lines, RFC 9112 §4, whole and partial ones.

use crate::bytes::is_value;
use crate::version::HttpVersion;
use crate::violation::RuleViolation;

/// The parts of a status line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatusLine<'a> {
    pub(crate) version: HttpVersion,
    pub(crate) status: u16,
    /// The reason, which may be empty.
    pub(crate) reason: &'a [u8],
}

/// Bytes of the version, such as `HTTP/1.1`.
const VERSION: usize = 8;
/// Bytes of the version, a space and the status.
const WITH_STATUS: usize = VERSION + 4;

impl<'a> StatusLine<'a> {
    /// Parses a status line without its end.
    pub(crate) fn parse(line: &'a [u8]) -> Result<Self, RuleViolation> {
        check_bytes(line)?;
        let split = line.split_at_checked(WITH_STATUS);
        let (start, reason) = split.ok_or(RuleViolation::StatusLine)?;
        let (version, status) = start.split_at(VERSION);
        Ok(Self {
            version: HttpVersion::named(version).ok_or(RuleViolation::Version)?,
            status: status[1..]
                .iter()
                .fold(0, |status, digit| status * 10 + u16::from(digit - b'0')),
            reason: reason.strip_prefix(b" ").unwrap_or_default(),
        })
    }
}

/// Checks that further bytes can complete the status line.
pub(crate) fn check_beginning(line: &[u8]) -> Result<(), RuleViolation> {
    match line.strip_suffix(b"\r") {
        Some(whole) => StatusLine::parse(whole).map(|_| ()),
        None => check_bytes(line),
    }
}

/// Checks each byte of a status line, of which the end may be missing.
fn check_bytes(line: &[u8]) -> Result<(), RuleViolation> {
    let (version, rest) = line.split_at(line.len().min(VERSION));
    let versions = [HttpVersion::Http11, HttpVersion::Http10].map(HttpVersion::text);
    if !(versions.iter()).any(|whole| whole.as_bytes().starts_with(version)) {
        return Err(if version.starts_with(b"HTTP/") {
            RuleViolation::Version
        } else {
            RuleViolation::NotHttp
        });
    }
    let (status, reason) = rest.split_at(rest.len().min(WITH_STATUS - VERSION));
    // RFC 9110 §15: a status has three digits. One from 600 on is invalid, and recipients treat it as a server error.
    let is_valid = |(at, byte): (usize, &u8)| match at {
        0 => *byte == b' ',
        1 => matches!(byte, b'1'..=b'9'),
        _ => byte.is_ascii_digit(),
    };
    // RFC 9112 §4: a server sends the space without a reason too; where it is missing, no recipient reads another status.
    let is_reason = matches!(reason, [] | [b' ', ..]) && is_value(reason);
    if is_reason && status.iter().enumerate().all(is_valid) {
        Ok(())
    } else {
        Err(RuleViolation::StatusLine)
    }
}
