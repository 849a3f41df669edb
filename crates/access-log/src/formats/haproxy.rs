//! Parses the HTTP log format of HAProxy (`option httplog`), with the head that syslog puts before it or without.
//!
//! ```text
//! haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0
//! {1wt.eu} {} "GET /index.html HTTP/1.1"
//! ```
//!
//! The time is that of the begin. It has no zone: it is read as UTC, so all of a log may be off by the same hours, which only limits with
//! calendar windows notice. The last timer is the duration. Captured fields have no names here, so they are not read.

use super::words::WordCursor;
use crate::address::address_and_port;
use crate::line::{LineError, LoggedTreatment, ParsedLine};
use crate::skipped::SkippedKind;
use crate::time;

/// Length of `06/Feb/2009:12:14:14.655`.
const TIME: usize = 24;

/// Parses a line.
pub(crate) fn parse<'a>(line: &'a [u8], into: &mut ParsedLine<'a>) -> Result<(), LineError> {
    let (at, time) = time_in(line).ok_or(LineError::Malformed(
        "there is no [time] like 06/Feb/2009:12:14:14.655",
    ))?;
    into.time = time;
    let before = line.get(..at).unwrap_or_default().trim_ascii_end();
    let client = before
        .rsplit(|byte| *byte == b' ')
        .next()
        .and_then(address_and_port);
    into.client = Some(client.ok_or(LineError::Malformed(
        "there is no address before the [time]",
    ))?);
    let behind = line.get(at + TIME + 2..).unwrap_or_default();
    let quote =
        memchr::memchr(b'"', behind).ok_or(LineError::NoRequest(SkippedKind::Connection))?;
    let malformed =
        || LineError::Malformed("the words behind the [time] are not those of the HTTP log format");
    let mut words = WordCursor(behind.get(..quote).unwrap_or_default());
    // Frontend, and backend with server.
    words.skip(2).ok_or_else(malformed)?;
    let timers = words.next().ok_or_else(malformed)?.raw();
    // Request, queue, connection, response, all; -1 where the request did not get so far, and `+` before one of an unfinished response.
    let mut timers = timers
        .split(|byte| *byte == b'/')
        .map(|timer| timer.strip_prefix(b"+").unwrap_or(timer));
    let mut first_byte = Some(0_u64);
    for timer in timers.by_ref().take(4) {
        first_byte = first_byte.and_then(|sum| Some(sum.saturating_add(time::millis(timer)?)));
    }
    into.first_byte = first_byte;
    into.duration = timers.next().and_then(time::millis);
    let status = time::number(words.next().ok_or_else(malformed)?.raw());
    // -1 where there was no response.
    into.status = status
        .and_then(|status| u16::try_from(status).ok())
        .unwrap_or(0);
    into.bytes = words.next().and_then(|bytes| time::number(bytes.raw()));
    let mut request = WordCursor(behind.get(quote..).unwrap_or_default());
    let request = request.next_quoted().ok_or_else(malformed)?;
    if request.raw() == b"<BADREQ>" {
        into.treatment = LoggedTreatment::Malformed;
    } else {
        into.set_request_line(request);
    }
    Ok(())
}

/// Finds the first bracket that holds a time; the name of the program has brackets too.
fn time_in(line: &[u8]) -> Option<(usize, u64)> {
    memchr::memchr_iter(b'[', line).find_map(|at| {
        let inside = line.get(at + 1..=at + TIME)?;
        (line.get(at + TIME + 1) == Some(&b']')).then_some(())?;
        Some((at, time::clf_millis(inside)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the line of HAProxy's manual is read. Method: that line (configuration.txt, section 8.2.3), and others that it explains.
    #[test]
    fn the_lines_of_haproxys_manual_are_read() {
        let line = include_bytes!("samples/haproxy-http.log").trim_ascii_end();
        let mut into = ParsedLine::default();
        parse(line, &mut into).unwrap();
        assert_eq!(into.time, 1_233_922_454_655_000_000);
        assert_eq!(into.client, Some("10.0.1.2".parse().unwrap()));
        assert_eq!(
            (into.method.raw(), into.target.raw()),
            (&b"GET"[..], &b"/index.html"[..])
        );
        assert_eq!((into.status, into.bytes), (200, Some(2_750)));
        assert_eq!(
            (into.duration, into.first_byte),
            (Some(109_000_000), Some(109_000_000))
        );
        let broken = include_bytes!("samples/haproxy-bad-request.log").trim_ascii_end();
        let mut into = ParsedLine::default();
        parse(broken, &mut into).unwrap();
        assert_eq!(
            (into.treatment, into.duration, into.first_byte),
            (LoggedTreatment::Malformed, Some(50_001_000_000), None)
        );
    }

    /// Goal: lines of TCP are no requests, and no broken lines. Method: the line of section 8.2.2.
    #[test]
    fn connections_are_no_requests() {
        let line = include_bytes!("samples/haproxy-tcp.log").trim_ascii_end();
        assert_eq!(
            parse(line, &mut ParsedLine::default()),
            Err(LineError::NoRequest(SkippedKind::Connection))
        );
        assert!(matches!(
            parse(b"haproxy[1]: started", &mut ParsedLine::default()),
            Err(LineError::Malformed(_))
        ));
    }
}
