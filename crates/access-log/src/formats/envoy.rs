//! Parses Envoy's default format of text, and that of Istio.
//!
//! ```text
//! [2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" "cc21d9b0" "locations"
//! "tcp://10.0.2.1:80"
//! ```
//!
//! The time is that of the begin, durations are in milliseconds. The default format has no peer: the client is the last address of
//! `X-Forwarded-For`, to which Envoy appends the peer (`use_remote_address`). Istio's format has the client's address behind the origin's,
//! and the details of the response before the bytes (istio.io, "Envoy access logs").

use super::words::WordCursor;
use crate::address::{client_address, last_address};
use crate::line::{LineError, ParsedLine};
use crate::text::RawText;
use crate::time;

/// Most words of Istio's details behind the first one: of the connection's end and of the origin's failure.
const MAX_DETAILS: usize = 3;

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
    // The flags of the response.
    words.skip(1).ok_or_else(malformed)?;
    let is_istio = skip_to_bytes_received(&mut words).ok_or_else(malformed)?;
    into.bytes = time::number(words.next().ok_or_else(malformed)?.raw());
    into.duration = time::millis(words.next().ok_or_else(malformed)?.raw());
    into.first_byte = time::millis(words.next().ok_or_else(malformed)?.raw());
    set_forwarded(words.next_quoted().ok_or_else(malformed)?, into);
    into.add_request_field(b"user-agent", words.next_quoted().ok_or_else(malformed)?);
    into.id = words.next_quoted().ok_or_else(malformed)?;
    into.host = words.next_quoted().ok_or_else(malformed)?;
    if is_istio {
        // The origin with its cluster, and the addresses on this side of both connections.
        let remote = words.skip(4).and_then(|()| words.next());
        into.client = remote
            .and_then(|remote| client_address(remote.raw()))
            .or(into.client);
    }
    Ok(())
}

/// Skips the bytes received, and the details of the response that Istio writes before them: the first word that is a number. Returns
/// whether there are details.
fn skip_to_bytes_received(words: &mut WordCursor<'_>) -> Option<bool> {
    let mut is_number = || Some(time::number(words.next()?.raw()).is_some());
    if is_number()? {
        return Some(false);
    }
    for _ in 0..MAX_DETAILS {
        if is_number()? {
            return Some(true);
        }
    }
    None
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

    /// Goal: lines of Istio are read, with the client that Istio found. Method: an answered request, one that no origin got, and one of a
    /// version that writes the status of Mixer.
    #[test]
    fn lines_of_istio_are_read() {
        const BEGIN: &str = "[2026-11-21T07:10:38.042Z] \"GET /a?b=c HTTP/1.1\"";
        const END: &str = "\"-\" \"curl/8\" \"d8ec5b52\" \"shop:9080\" \"192.0.2.9:80\" inbound|9080|| 127.0.0.6:4 192.0.2.9:80 \
                           203.0.113.7:39 outbound_.9080_ default";
        for (status, details) in [
            (200, "200 - via_upstream - \"-\" 0 178 2 1"),
            (
                503,
                "503 UF,URX upstream_reset - \"delayed connect error: 111\" 0 178 2 -",
            ),
            (200, "200 - \"-\" \"-\" 0 178 2 1"),
        ] {
            let line = format!("{BEGIN} {details} {END}");
            let mut into = ParsedLine::default();
            parse(line.as_bytes(), &mut into).unwrap();
            assert_eq!(
                into.client,
                Some("203.0.113.7".parse().unwrap()),
                "{details}"
            );
            assert_eq!((into.status, into.bytes), (status, Some(178)), "{details}");
            assert_eq!(into.duration, Some(2_000_000), "{details}");
            assert_eq!(
                (into.target.raw(), into.host.raw()),
                (&b"/a?b=c"[..], &b"shop:9080"[..])
            );
        }
    }
}
