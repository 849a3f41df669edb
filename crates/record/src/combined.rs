//! Writes one outcome as one line of the combined format of Apache and nginx, for programs that read that.
//!
//! ```text
//! 203.0.113.7 - - [21/Nov/2026:07:10:38 +0000] "POST /auth/sendOTP HTTP/1.1" 429 345 "-" "curl/8.5.0"
//! ```
//!
//! Bytes are escaped as nginx does (`ngx_http_log_escape`): `"`, `\`, control characters and all above 0x7e as `\x22`. The time is that of
//! the request's head, in UTC. The user's name is always `-`: the gateway verifies no password. A client
//! that left before an answer has the status 499, which nginx invented for it.

use http::header::{HeaderName, REFERER, USER_AGENT};
use sluicegate_base::address::address_text;
use sluicegate_base::bounds::LOGGED_FIELD;
use sluicegate_base::received::ReceivedFields;
use sluicegate_telemetry::rfc3339::TimeFormatter;

use super::line_values::{MAX_METHOD, MAX_TARGET};
use super::outcome::Outcome;

/// The status of a client that left before an answer.
const CLIENT_CLOSED_REQUEST: u16 = 499;

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Appends the line of `outcome`, with its line feed.
pub(super) fn write(into: &mut Vec<u8>, stamp: &mut TimeFormatter, outcome: &Outcome<'_>) {
    match outcome.client {
        Some(client) => into.extend_from_slice(address_text(client).as_bytes()),
        None => into.push(b'-'),
    }
    into.extend_from_slice(b" - - [");
    time(into, stamp.at(outcome.arrived.as_nanos()));
    into.extend_from_slice(b"] \"");
    request(into, outcome);
    into.extend_from_slice(b"\" ");
    let status = match outcome.status {
        0 => CLIENT_CLOSED_REQUEST,
        status => status,
    };
    let mut number = itoa::Buffer::new();
    into.extend_from_slice(number.format(status).as_bytes());
    into.push(b' ');
    into.extend_from_slice(number.format(outcome.bytes_sent).as_bytes());
    for name in [REFERER, USER_AGENT] {
        into.extend_from_slice(b" \"");
        field(into, outcome.fields, &name);
        into.push(b'"');
    }
    into.push(b'\n');
}

/// Converts `2026-11-21T07:10:38.042Z` to `21/Nov/2026:07:10:38 +0000`.
fn time(into: &mut Vec<u8>, stamp: &[u8; 24]) {
    let month = usize::from((stamp[5] - b'0') * 10 + (stamp[6] - b'0'));
    into.extend_from_slice(&stamp[8..10]);
    into.push(b'/');
    into.extend_from_slice(MONTHS.get(month.wrapping_sub(1)).copied().unwrap_or(b"Jan"));
    into.push(b'/');
    into.extend_from_slice(&stamp[..4]);
    into.push(b':');
    into.extend_from_slice(&stamp[11..19]);
    into.extend_from_slice(b" +0000");
}

fn request(into: &mut Vec<u8>, outcome: &Outcome<'_>) {
    if outcome.method.is_empty() && outcome.target.is_empty() {
        into.push(b'-');
        return;
    }
    escape(into, outcome.method, MAX_METHOD);
    into.push(b' ');
    escape(into, outcome.target, MAX_TARGET);
    into.push(b' ');
    into.extend_from_slice(match outcome.protocol {
        "HTTP/2" => b"HTTP/2.0",
        "HTTP/3" => b"HTTP/3.0",
        other => other.as_bytes(),
    });
}

/// Writes the first line of a field, as nginx does for fields that may not be repeated; an empty one is not an absent one.
fn field(into: &mut Vec<u8>, fields: Option<&ReceivedFields>, name: &HeaderName) {
    match fields.and_then(|fields| fields.get(name)) {
        Some(line) => escape(into, line.as_bytes(), LOGGED_FIELD),
        None => into.push(b'-'),
    }
}

/// Appends at most `cap` of `bytes`, and `...` where something was left out.
fn escape(into: &mut Vec<u8>, bytes: &[u8], cap: usize) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes.iter().take(cap) {
        if (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\' {
            into.push(byte);
        } else {
            into.extend_from_slice(b"\\x");
            into.push(DIGITS[usize::from(byte >> 4)]);
            into.push(DIGITS[usize::from(byte & 0xf)]);
        }
    }
    if bytes.len() > cap {
        into.extend_from_slice(b"...");
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::example::Example;
    use super::*;

    fn line(example: &Example<'_>) -> String {
        let mut into = Vec::new();
        write(&mut into, &mut TimeFormatter::default(), &example.outcome());
        String::from_utf8(into).expect("a line is ASCII")
    }

    /// Goal: the format is that of the documentation of Apache's `combined`. Method: one request with both fields, one without.
    #[test]
    fn a_line_has_the_nine_parts() {
        let mut fields = ReceivedFields::new();
        fields.append(USER_AGENT, HeaderValue::from_static("a \"b\" \\"));
        let latin = HeaderValue::from_bytes(b"\xfcber").expect("a value");
        fields.append(REFERER, latin);
        fields.append(REFERER, HeaderValue::from_static("http://x.test/"));
        let example = Example {
            fields: Some(&fields),
            ..Example::default()
        };
        assert_eq!(
            line(&example),
            "203.0.113.7 - - [21/Nov/2026:07:10:38 +0000] \"POST /auth/sendOTP?x=1 HTTP/1.1\" 200 345 \
             \"\\xFCber\" \"a \\x22b\\x22 \\x5C\"\n"
        );
        let bare = Example {
            client: None,
            method: b"",
            target: b"",
            ..Example::default()
        };
        assert_eq!(
            line(&bare),
            "- - - [21/Nov/2026:07:10:38 +0000] \"-\" 200 345 \"-\" \"-\"\n"
        );
    }

    /// Goal: a client cannot make a line long, or break it. Method: much of what is escaped, everywhere.
    #[test]
    fn a_long_request_is_one_short_line() {
        let long = vec![b'\t'; 1 << 16];
        let mut fields = ReceivedFields::new();
        for name in [USER_AGENT, REFERER] {
            fields.append(name, HeaderValue::from_bytes(&long).expect("a value"));
        }
        let line = line(&Example {
            method: &long,
            target: &long,
            fields: Some(&fields),
            ..Example::default()
        });
        assert!(line.len() < 16 * 1024, "{}", line.len());
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(line.matches('"').count(), 6);
    }
}
