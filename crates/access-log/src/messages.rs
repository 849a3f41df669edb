//! Recognizes the messages of servers, which containers write beside their access log: a line that no format reads may be one.
//!
//! Only the forms of common servers are messages; any other line stays a broken one, so that no request is passed over.

use crate::time;

/// Bytes at the begin of a line in which the marks of messages are searched.
const SEARCHED_BYTES: usize = 160;

/// Levels of messages, in lower case.
const LEVELS: [&[u8]; 14] = [
    b"trace", b"trc", b"debug", b"dbg", b"info", b"inf", b"notice", b"warn", b"wrn", b"warning",
    b"error", b"err", b"fatal", b"alert",
];

/// Bytes of the longest level.
const LONGEST_LEVEL: usize = 7;

/// Returns whether a line has the form of a message.
#[cold]
pub(crate) fn is_message(line: &[u8]) -> bool {
    is_slashed_date(line)
        || is_spaced_date(line)
        || is_bracketed_date(line)
        || is_level(line)
        || is_timed_level(line)
        || is_logfmt(line)
        || is_klog(line)
        || is_entrypoint(line)
        || is_haproxy(line)
}

/// Returns whether a line is an object of JSON with a message.
#[cold]
pub(crate) fn is_json_message(line: &[u8]) -> bool {
    let members: [&[u8]; 3] = [b"\"msg\":", b"\"message\":", b"\"level\":"];
    line.starts_with(b"{")
        && line.trim_ascii_end().ends_with(b"}")
        && members.iter().any(|member| contains(line, member))
}

/// The error log of nginx, and the standard logger of Go: `2026/11/21 07:10:38 [error] …`.
fn is_slashed_date(line: &[u8]) -> bool {
    has_form(line, b"0000/00/00 00:00:00")
}

/// LiteSpeed: `2026-11-21 07:10:38.042 [NOTICE] …`.
fn is_spaced_date(line: &[u8]) -> bool {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    has_form(line, b"0000-00-00 00:00:00") && words.nth(2).is_some_and(is_level)
}

/// The error log of Apache, and the log of Envoy: `[Sat Nov 21 07:10:38.042 2026] …`, `[2026-11-21 07:10:38.042][12][info] …`.
fn is_bracketed_date(line: &[u8]) -> bool {
    let is_apache = line.starts_with(b"[") && line.get(5..8).and_then(time::month).is_some();
    is_apache || has_form(line, b"[0000-00-00 00:00:00")
}

/// HAProxy at its start, `[NOTICE]   (1) : …`, and plugins of Traefik, `DEBUG: …`.
fn is_level(line: &[u8]) -> bool {
    let inside = line.strip_prefix(b"[").unwrap_or(line);
    let end = inside
        .iter()
        .take(LONGEST_LEVEL + 1)
        .position(|byte| matches!(byte, b']' | b':'));
    let level = end.and_then(|end| inside.get(..end));
    level.is_some_and(is_name_of_level)
}

fn is_name_of_level(word: &[u8]) -> bool {
    LEVELS.contains(&&*word.to_ascii_lowercase())
}

/// Istio, Traefik and other programs that write a level behind the time: `2026-11-21T07:10:38.042Z⇥info⇥…`, `2026-11-21T07:10:38Z INF …`.
fn is_timed_level(line: &[u8]) -> bool {
    let mut words = line.splitn(3, |byte| matches!(byte, b'\t' | b' '));
    let is_time = words.next().and_then(time::rfc3339).is_some();
    is_time && words.next().is_some_and(is_name_of_level)
}

/// Traefik before version 3, Grafana, Prometheus: `time="2026-11-21T07:10:38Z" level=info msg=…`.
fn is_logfmt(line: &[u8]) -> bool {
    let begins: [&[u8]; 4] = [b"time=", b"ts=", b"level=", b"t="];
    begins.iter().any(|begin| line.starts_with(begin)) && contains(line, b"level=")
}

/// Programs of Kubernetes: `I1121 07:10:38.042 …`.
fn is_klog(line: &[u8]) -> bool {
    matches!(line.first(), Some(b'I' | b'W' | b'E' | b'F'))
        && line
            .get(1..)
            .is_some_and(|rest| has_form(rest, b"0000 00:00:00."))
}

/// The scripts that start a container: `/docker-entrypoint.sh: …`.
fn is_entrypoint(line: &[u8]) -> bool {
    line.starts_with(b"/docker-entrypoint") || contains(line, b".sh: info: ")
}

/// HAProxy behind the head of syslog, without a request: `haproxy[1]: Server app/a is DOWN, …`.
fn is_haproxy(line: &[u8]) -> bool {
    contains(line, b"haproxy[") && memchr::memchr(b'"', line).is_none()
}

/// Returns whether a text begins with this form, in which `0` stands for a digit.
fn has_form(text: &[u8], form: &[u8]) -> bool {
    let is_alike = |(byte, form): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => byte == form,
    };
    text.len() >= form.len() && text.iter().zip(form).all(is_alike)
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    let begin = line.get(..SEARCHED_BYTES).unwrap_or(line);
    memchr::memmem::find(begin, part).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: messages of servers are messages, and requests and other lines are none. Method: a line of each kind.
    #[test]
    fn messages_have_known_forms() {
        for line in [
            "2026/11/21 07:10:38 [error] 29#29: *1 limiting requests, client: 192.0.2.1",
            "2026/11/21 07:10:38.042 INFO serving initial configuration",
            "[Sat Nov 21 07:10:38.042123 2026] [core:notice] [pid 1:tid 2] AH00094: Command line: 'httpd'",
            "[2026-11-21 07:10:38.042][12][info][main] starting",
            "[NOTICE]   (1) : New worker (8) forked",
            "DEBUG: Plugin: 2026/11/21 07:10:38 cache updated",
            "2026-11-21 07:10:38.042123 [NOTICE] [1226033] started",
            "2026-11-21T07:10:38.042Z\tinfo\tEnvoy proxy is ready",
            "2026-11-21T07:10:38Z INF Traefik version 3.6 built",
            "time=\"2026-11-21T07:10:38Z\" level=info msg=\"Configuration loaded\"",
            "I1121 07:10:38.042123       7 controller.go:12] Backend successfully reloaded",
            "/docker-entrypoint.sh: Configuration complete; ready for start up",
            "10-listen-on-ipv6-by-default.sh: info: Enabled listen on IPv6",
            "Nov 21 07:10:38 web haproxy[1]: Server app/a is DOWN, reason: Layer4 timeout",
        ] {
            assert!(is_message(line.as_bytes()), "{line}");
        }
        for line in [
            "",
            "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" OK 1",
            "[2016-04-15T20:17:00.310Z] \"GET / HTTP/2\" 204 - 154",
            "haproxy[1]: 10.0.1.2:33317 [06/Feb/2009] a b/c \"GET / HTTP/1.1\"",
            "2026-11-21 07:10:38 10.0.0.5 GET / - 443",
            "2026-11-21 07:10:38 10.0.0.5 GET /[info] - 443",
            "information: GET /",
            "2026-11-21T07:10:38Z GET /",
            "Iam no message",
        ] {
            assert!(!is_message(line.as_bytes()), "{line}");
        }
        assert!(is_json_message(br#"{"level":"info","msg":"started"}"#));
        assert!(!is_json_message(br#"{"level":"info","msg":"sta"#));
        assert!(!is_json_message(br#"{"status":200}"#));
    }
}
