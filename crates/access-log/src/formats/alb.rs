//! Parses the access logs of AWS Application Load Balancers, and those of Classic ones, whose lines lack the first word and the last ones.
//!
//! ```text
//! http 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.000 0.001 0.000 200 200
//! 34 366 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.46.0" - - …
//! ```
//!
//! The time at the begin of a line is that of the response; the creation time of the request stands behind. Of the three durations each
//! may be -1.

use super::words::WordCursor;
use crate::address::address_and_port;
use crate::line::{LineError, LoggedTreatment, ParsedLine};
use crate::skipped::SkippedKind;
use crate::text::RawText;
use crate::time;

/// Words between the user agent and the creation time: cipher, protocol, target group, trace id, domain, certificate, rule.
const TO_CREATION_TIME: usize = 7;

/// Parses a line.
pub(crate) fn parse<'a>(line: &'a [u8], into: &mut ParsedLine<'a>) -> Result<(), LineError> {
    let malformed =
        || LineError::Malformed("the line does not have the words of a load balancer's log");
    let mut words = WordCursor(line);
    let first = words.next().ok_or_else(malformed)?.raw();
    let end = match first {
        b"http" | b"https" | b"h2" | b"grpcs" | b"ws" | b"wss" => {
            let end = words.next().and_then(|time| time::rfc3339(time.raw()));
            end.ok_or(LineError::Malformed(
                "the second word is not a time like 2018-07-02T22:23:00.186641Z",
            ))?
        }
        _ => time::rfc3339(first).ok_or_else(malformed)?,
    };
    words.skip(1).ok_or_else(malformed)?;
    let client = words
        .next()
        .and_then(|client| address_and_port(client.raw()));
    into.client = Some(client.ok_or(LineError::Malformed(
        "there is no address behind the name of the balancer",
    ))?);
    words.skip(1).ok_or_else(malformed)?;
    let mut took = || Some(time::seconds(words.next()?.raw()));
    let durations = [took(), took(), took()];
    let known = durations.iter().flatten().flatten();
    let sum = known.fold(0_u64, |sum, nanos| sum.saturating_add(*nanos));
    if durations.iter().any(Option::is_none) {
        return Err(malformed());
    }
    let status = time::number(words.next().ok_or_else(malformed)?.raw());
    into.status = status
        .and_then(|status| u16::try_from(status).ok())
        .unwrap_or(0);
    // The status of the target, and the bytes received.
    words.skip(2).ok_or_else(malformed)?;
    into.bytes = words.next().and_then(|bytes| time::number(bytes.raw()));
    let request = words.next_quoted().ok_or_else(malformed)?;
    if request.raw().starts_with(b"- - -") {
        return Err(LineError::NoRequest(SkippedKind::Connection));
    }
    if request.raw().starts_with(b"- ") {
        into.treatment = LoggedTreatment::Malformed;
    } else {
        into.set_request_line(request);
    }
    into.add_request_field(
        b"user-agent",
        words.next_quoted().unwrap_or(RawText::plain(b"-")),
    );
    let created = words.skip(TO_CREATION_TIME).and_then(|()| words.next());
    let begin = created
        .and_then(|time| time::rfc3339(time.raw()))
        .unwrap_or(end.saturating_sub(sum));
    into.time = begin;
    into.duration = Some(end.saturating_sub(begin));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the line of AWS' documentation is read. Method: that line ("Access logs for your Application Load Balancer").
    #[test]
    fn the_line_of_albs_documentation_is_read() {
        let line = include_bytes!("samples/alb.log").trim_ascii_end();
        let mut into = ParsedLine::default();
        parse(line, &mut into).unwrap();
        into.split_absolute_target();
        assert_eq!(into.time, 1_530_570_168_364_000_000);
        assert_eq!(into.duration, Some(11_822_641_000));
        assert_eq!(into.client, Some("192.168.131.39".parse().unwrap()));
        assert_eq!(
            (into.host.raw(), into.target.raw()),
            (&b"www.example.com:80"[..], &b"/"[..])
        );
        assert_eq!((into.status, into.bytes), (200, Some(366)));
    }

    /// Goal: the target of a WebSocket is a path. Method: the line of a request with each kind of connection as its scheme.
    #[test]
    fn the_kind_of_the_connection_is_a_scheme() {
        let line = include_str!("samples/alb.log").trim_end();
        for kind in ["http", "https", "ws", "wss", "h2", "grpcs"] {
            let text = line.replace("GET http://", &format!("GET {kind}://"));
            let mut into = ParsedLine::default();
            parse(text.as_bytes(), &mut into).unwrap();
            into.split_absolute_target();
            let parts = (into.host.raw(), into.target.raw());
            assert_eq!(parts, (&b"www.example.com:80"[..], &b"/"[..]), "{kind}");
        }
    }

    /// Goal: a request that the balancer did not understand is one that met no limit. Method: the words that it writes then.
    #[test]
    fn malformed_requests_are_told_apart() {
        let line = include_bytes!("samples/alb-malformed.log").trim_ascii_end();
        let mut into = ParsedLine::default();
        parse(line, &mut into).unwrap();
        assert_eq!(
            (into.treatment, into.status),
            (LoggedTreatment::Malformed, 400)
        );
        assert!(parse(b"ftp x", &mut ParsedLine::default()).is_err());
    }

    /// Goal: lines of Classic Load Balancers are read, and their connections of TCP are none. Method: both forms of AWS' documentation
    /// ("Access logs for your Classic Load Balancer"), with the end of a request as the only time.
    #[test]
    fn lines_of_classic_balancers_are_read() {
        let begin = "2026-11-21T07:10:38.042Z my-balancer 192.0.2.1:2817 10.0.0.1:80 0.001000 0.040000 0.001000";
        let line =
            format!("{begin} 200 200 0 29 \"GET http://a.test:80/a?b=c HTTP/1.1\" \"curl/8\" - -");
        let mut into = ParsedLine::default();
        parse(line.as_bytes(), &mut into).unwrap();
        into.split_absolute_target();
        assert_eq!(
            (into.time, into.duration),
            (1_795_245_038_000_000_000, Some(42_000_000))
        );
        assert_eq!((into.target.raw(), into.status), (&b"/a?b=c"[..], 200));
        let connection = format!("{begin} - - 82 305 \"- - - \" \"-\" - -");
        assert_eq!(
            parse(connection.as_bytes(), &mut ParsedLine::default()),
            Err(LineError::NoRequest(SkippedKind::Connection))
        );
    }
}
