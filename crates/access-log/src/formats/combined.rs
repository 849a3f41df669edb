//! Parses the combined and the common format of Apache and nginx.
//!
//! ```text
//! 203.0.113.7 - - [21/Nov/2026:07:10:38 +0000] "POST /auth/sendOTP HTTP/1.1" 429 345 "-" "curl/8.5.0"
//! ```
//!
//! Without the last two words a line is in the common format. Apache logs the begin of a request, nginx its end; neither logs the duration
//! here, so the time counts as it stands. Words behind the last one that the format has are left alone: operators append their own.

use super::words::WordCursor;
use crate::address::{address, last_address};
use crate::line::{LineError, ParsedLine};
use crate::minute_cache::MinuteCache;
use crate::text::RawText;
use crate::time;

/// Parses a line in the combined format, or in the common one where `Referer` and `User-Agent` are absent.
pub(crate) fn parse<'a>(
    line: &'a [u8],
    minute: &mut MinuteCache,
    into: &mut ParsedLine<'a>,
) -> Result<(), LineError> {
    let mut words = WordCursor(line);
    into.client = match words.until(b' ').and_then(address) {
        Some(client) => Some(client),
        None => {
            let malformed = LineError::Malformed("the first word is not an address");
            words.0 = set_chain(line, into).ok_or(malformed)?;
            into.client
        }
    };
    // The identity of RFC 1413, and the user, who may have spaces in the name.
    let bracket =
        memchr::memchr(b'[', words.0).ok_or(LineError::Malformed("there is no [time]"))?;
    words.0 = words.0.get(bracket + 1..).unwrap_or_default();
    let time = words.until(b']').and_then(|time| minute.clf(time));
    into.time = time.ok_or(LineError::Malformed(
        "the [time] is not like 21/Nov/2026:07:10:38 +0000",
    ))?;
    let request = words.next_quoted().ok_or(LineError::Malformed(
        "there is no \"request\" behind the time",
    ))?;
    into.set_request_line(request);
    // Traefik and Apache write `-` where the client has gone before there was one.
    let status = words.next().and_then(|word| match word.raw() {
        b"-" => Some(0),
        digits => u16::try_from(time::number(digits)?).ok(),
    });
    into.status = status.ok_or(LineError::Malformed(
        "there is no status behind the request",
    ))?;
    // Apache writes `-` for none.
    into.bytes = words.next().and_then(|word| time::number(word.raw()));
    if !into.keeps_request_fields() {
        return Ok(());
    }
    if let Some(referer) = words.next_quoted() {
        into.add_request_field(b"referer", referer);
        if let Some(agent) = words.next_quoted() {
            into.add_request_field(b"user-agent", agent);
        }
    }
    Ok(())
}

/// Reads the addresses of a line that begins with `X-Forwarded-For`, which servers behind a proxy write in the place of the client or
/// before the address of the proxy, or with an address that has its port. Returns the rest of the line.
#[cold]
fn set_chain<'a>(line: &'a [u8], into: &mut ParsedLine<'a>) -> Option<&'a [u8]> {
    let text = line.strip_prefix(b"\"").unwrap_or(line);
    let mut chain = 0;
    let mut is_open = true;
    let mut rest = text;
    loop {
        let end = memchr::memchr(b' ', rest)?;
        let (word, behind) = rest.split_at(end);
        let address = word.strip_suffix(b",").unwrap_or(word);
        let address = last_address(address.strip_suffix(b"\"").unwrap_or(address));
        let Some(client) = address else { break };
        into.client = Some(client);
        rest = behind.get(1..)?;
        if !is_open {
            // The address of the proxy, behind the chain.
            break;
        }
        chain = text.len() - behind.len();
        is_open = word.ends_with(b",");
    }
    let chain = text.get(..chain)?;
    let chain = chain.strip_suffix(b"\"").unwrap_or(chain);
    let is_chain = memchr::memchr(b',', chain).is_some();
    if is_chain {
        into.add_forwarded_for(RawText::plain(chain));
    }
    // Two addresses without a comma are a virtual host and a client.
    let is_one = text.len() - rest.len() == chain.len() + 1;
    (is_chain || is_one && into.client.is_some()).then_some(rest)
}

/// Returns whether a line that [`parse`] accepts has the fields of the combined format.
pub(crate) fn is_combined(line: &[u8]) -> bool {
    let quotes = memchr::memchr_iter(b'"', line).count();
    quotes >= 6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::FieldKind;
    use crate::text::value;

    fn parsed(line: &str) -> Result<ParsedLine<'_>, LineError> {
        let mut into = ParsedLine::default();
        parse(line.as_bytes(), &mut MinuteCache::default(), &mut into)?;
        Ok(into)
    }

    /// Goal: the example of Apache's documentation is read whole. Method: its combined and its common line
    /// (httpd.apache.org/docs/2.4/logs.html).
    #[test]
    fn the_lines_of_apaches_documentation_are_read() {
        let combined = include_str!("samples/combined.log").trim_end();
        let line = parsed(combined).unwrap();
        assert_eq!(line.client, Some("127.0.0.1".parse().unwrap()));
        assert_eq!(line.time, 971_211_336_000_000_000);
        assert_eq!(
            (value(line.method), value(line.target)),
            ("GET".to_owned(), "/apache_pb.gif".to_owned())
        );
        assert_eq!((line.status, line.bytes), (200, Some(2326)));
        let fields: Vec<_> = line
            .fields
            .iter()
            .map(|field| (field.kind, value(field.name), value(field.value)))
            .collect();
        let field =
            |name: &str, value: &str| (FieldKind::RequestField, name.to_owned(), value.to_owned());
        assert_eq!(
            fields,
            [
                field("referer", "http://www.example.com/start.html"),
                field("user-agent", "Mozilla/4.08 [en] (Win98; I ;Nav)")
            ]
        );
        assert!(is_combined(combined.as_bytes()));
        let common =
            r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 -"#;
        let line = parsed(common).unwrap();
        assert_eq!((line.status, line.bytes, line.fields.len()), (200, None, 0));
        assert!(!is_combined(common.as_bytes()));
    }

    /// Goal: requests that are odd are read all the same. Method: no request, one without a protocol, quotes and spaces in a target, IPv6,
    /// a user with a space.
    #[test]
    fn odd_requests_are_read() {
        let line = |request: &str| {
            format!(
                "2001:db8::1 - a b [17/May/2015:10:05:03 +0000] \"{request}\" 400 0 \"-\" \"-\""
            )
        };
        let target = |request: &str| {
            let text = line(request);
            let line = parsed(&text).unwrap();
            (value(line.method), value(line.target))
        };
        let pair = |method: &str, target: &str| (method.to_owned(), target.to_owned());
        assert_eq!(target("-"), pair("-", ""));
        assert_eq!(target("GET /"), pair("GET", "/"));
        assert_eq!(
            target(r#"GET /a b\x22\" HTTP/1.1"#),
            pair("GET", "/a b\"\"")
        );
        assert_eq!(target(""), pair("", ""));
        let unanswered = line("GET / HTTP/1.1").replace("400 0", "- -");
        assert_eq!(parsed(&unanswered).unwrap().status, 0);
        let text = line("GET / HTTP/1.1");
        assert_eq!(
            parsed(&text).unwrap().client,
            Some("2001:db8::1".parse().unwrap())
        );
        assert!(parsed(&text).unwrap().fields.is_empty());
    }

    /// Goal: the client of a line that begins with a chain of addresses is the last of them, and the chain is kept. Method: chains as nginx
    /// and Apache write `X-Forwarded-For`, with the proxy's address behind them, in quotes; an address with its port.
    #[test]
    fn a_chain_may_stand_in_the_place_of_the_client() {
        for (words, client, chain) in [
            (
                "198.51.100.9, 192.0.2.1",
                "192.0.2.1",
                "198.51.100.9, 192.0.2.1",
            ),
            (
                "198.51.100.9,192.0.2.1",
                "192.0.2.1",
                "198.51.100.9,192.0.2.1",
            ),
            (
                "2001:db8::9, 192.0.2.1 10.0.0.1",
                "10.0.0.1",
                "2001:db8::9, 192.0.2.1",
            ),
            (
                "\"198.51.100.9, 192.0.2.1\" 10.0.0.1",
                "10.0.0.1",
                "198.51.100.9, 192.0.2.1",
            ),
            ("198.51.100.9:4711", "198.51.100.9", ""),
            ("[2001:db8::9]:4711", "2001:db8::9", ""),
        ] {
            let text =
                format!("{words} - a [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 1");
            let line = parsed(&text).unwrap();
            assert_eq!(line.client, Some(client.parse().unwrap()), "{words}");
            let field = line
                .fields
                .first()
                .map_or(String::new(), |field| value(field.value));
            assert_eq!(field, chain, "{words}");
            assert_eq!(value(line.target), "/a");
        }
        for words in ["192.0.2.1:80 198.51.100.9", "host.test, 192.0.2.1"] {
            let text =
                format!("{words} - a [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 1");
            assert!(parsed(&text).is_err(), "{words}");
        }
    }

    /// Goal: a log of nothing but connections that sent no request is not misread. Method: TLS on a port without it, a connection that was
    /// closed, and a line whose words have another order.
    #[test]
    fn unreadable_requests_are_known_as_such() {
        for (request, status, is_known) in [
            (r"\x16\x03\x01", 400, true),
            ("\u{16}\u{3}\u{1}", 400, true),
            ("-", 408, true),
            ("-", 200, false),
            ("Mozilla/5.0 (X11)", 400, false),
        ] {
            let text =
                format!("192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"{request}\" {status} 0");
            assert_eq!(
                parsed(&text).unwrap().names_resource(),
                is_known,
                "{request}"
            );
        }
    }

    /// Goal: a broken line says what is wrong with it. Method: a line cut at each part.
    #[test]
    fn a_broken_line_says_where() {
        for (line, part) in [
            ("", "the first word is not an address"),
            (
                "host.test - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1",
                "the first word is not an address",
            ),
            ("192.0.2.1 - -", "there is no [time]"),
            (
                "192.0.2.1 - - [yesterday] \"GET / HTTP/1.1\" 200 1",
                "the [time] is not like 21/Nov/2026:07:10:38 +0000",
            ),
            (
                "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET /",
                "there is no \"request\" behind the time",
            ),
            (
                "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET /\" OK 1",
                "there is no status behind the request",
            ),
        ] {
            assert_eq!(
                parsed(line).err(),
                Some(LineError::Malformed(part)),
                "{line}"
            );
        }
    }
}
