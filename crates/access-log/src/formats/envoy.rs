//! Parses Envoy's default format of text.
//!
//! ```text
//! [2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" "cc21d9b0" "locations"
//! "tcp://10.0.2.1:80"
//! ```
//!
//! The time is that of the begin, durations are in milliseconds. The default format has no peer: the client is the last address of
//! `X-Forwarded-For`, to which Envoy appends the peer (`use_remote_address`).

use super::words::WordCursor;
use crate::address::last_address;
use crate::line::{LineError, ParsedLine};
use crate::text::RawText;
use crate::time;

/// Parses a line in the default format.
pub(crate) fn parse<'a>(line: &'a [u8], into: &mut ParsedLine<'a>) -> Result<(), LineError> {
    let malformed =
        || LineError::Malformed("the line does not have the words of Envoy's default format");
    let mut words = WordCursor(line.strip_prefix(b"[").ok_or_else(malformed)?);
    let time = words.until(b']').and_then(time::rfc3339);
    into.time = time.ok_or(LineError::Malformed(
        "the [time] is not like 2016-04-15T20:17:00.310Z",
    ))?;
    into.set_request_line(words.next_quoted().ok_or_else(malformed)?);
    into.status = status(words.next().ok_or_else(malformed)?.raw());
    // The flags of the response, and the bytes received.
    words.skip(2).ok_or_else(malformed)?;
    into.bytes = time::number(words.next().ok_or_else(malformed)?.raw());
    into.duration = time::millis(words.next().ok_or_else(malformed)?.raw());
    into.first_byte = time::millis(words.next().ok_or_else(malformed)?.raw());
    set_forwarded(words.next_quoted().ok_or_else(malformed)?, into);
    into.add_request_field(b"user-agent", words.next_quoted().ok_or_else(malformed)?);
    into.id = words.next_quoted().ok_or_else(malformed)?;
    into.host = words.next_quoted().ok_or_else(malformed)?;
    Ok(())
}

fn status(digits: &[u8]) -> u16 {
    let status = time::number(digits).and_then(|status| u16::try_from(status).ok());
    status.unwrap_or(0)
}

fn set_forwarded<'a>(chain: RawText<'a>, into: &mut ParsedLine<'a>) {
    into.client = last_address(chain.raw());
    into.add_forwarded_for(chain);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the line of Envoy's documentation is read. Method: that line (envoyproxy.io, "Access logging", default format string).
    #[test]
    fn the_line_of_envoys_documentation_is_read() {
        let line = include_bytes!("samples/envoy.log").trim_ascii_end();
        let mut into = ParsedLine::default();
        parse(line, &mut into).unwrap();
        assert_eq!(into.time, 1_460_751_420_310_000_000);
        assert_eq!(into.client, Some("10.0.35.28".parse().unwrap()));
        assert_eq!(
            (into.method.raw(), into.target.raw()),
            (&b"POST"[..], &b"/api/v1/locations"[..])
        );
        assert_eq!((into.status, into.bytes), (204, Some(0)));
        assert_eq!(
            (into.duration, into.first_byte),
            (Some(226_000_000), Some(100_000_000))
        );
        assert_eq!(into.host.raw(), b"locations");
    }
}
