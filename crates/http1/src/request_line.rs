//! Splits request lines, RFC 9112 §3, whole and partial ones.

use crate::bytes::is_token;
use crate::violation::RuleViolation;

/// Returns the length of one empty line before the request line, which RFC 9112 §2.2 ignores.
#[must_use]
pub fn leading_line_end(read: &[u8]) -> usize {
    match read {
        [b'\r', b'\n', ..] => 2,
        // The other byte may follow.
        b"\r" => 1,
        _ => 0,
    }
}

/// Returns the first two words of a head that may be malformed: its method and target, for a log.
#[must_use]
pub fn first_words(read: &[u8]) -> (&[u8], &[u8]) {
    let read = &read[leading_line_end(read)..];
    let line = read.split(|&byte| matches!(byte, b'\r' | b'\n')).next();
    let mut words = line.unwrap_or_default().split(|&byte| byte == b' ');
    (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    )
}

/// Splits a request line into its three words.
pub(crate) fn words(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    // Method and version are too short for vector instructions.
    let first = line.iter().position(|&byte| byte == b' ')?;
    let last = line.iter().rposition(|&byte| byte == b' ')?;
    Some((
        &line[..first],
        line.get(first + 1..last)?,
        &line[last + 1..],
    ))
}

/// Checks that further bytes can complete the request line, RFC 9112 §3.
pub(crate) fn check_beginning(line: &[u8]) -> Result<(), RuleViolation> {
    const VERSIONS: [&[u8]; 2] = [b"HTTP/1.1\r", b"HTTP/1.0\r"];
    let mut words = line.splitn(3, |&byte| byte == b' ');
    let method = words.next().unwrap_or_default();
    if let Some(&byte) = method.iter().find(|&&byte| !is_token(byte)) {
        return Err(if byte.is_ascii_graphic() {
            RuleViolation::Method
        } else {
            RuleViolation::NotHttp
        });
    }
    let Some(target) = words.next() else {
        return Ok(());
    };
    if method.is_empty() || target.starts_with(b" ") {
        return Err(RuleViolation::RequestLine);
    }
    if target.iter().any(|byte| matches!(byte, 0..b' ' | 0x7f)) {
        return Err(RuleViolation::TargetByte);
    }
    let Some(version) = words.next() else {
        return Ok(());
    };
    if target.is_empty() {
        return Err(RuleViolation::RequestLine);
    }
    if VERSIONS.iter().any(|whole| whole.starts_with(version)) {
        Ok(())
    } else if version.starts_with(b"HTTP/") && !version.contains(&b' ') {
        Err(RuleViolation::Version)
    } else {
        Err(RuleViolation::RequestLine)
    }
}
