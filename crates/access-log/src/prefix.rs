//! Takes off what collectors put before a line: a time, the name of a container, the head of syslog.

use crate::time;

/// Bytes in which the name of a container ends.
const LONGEST_NAME: usize = 256;

/// A kind of prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinePrefix {
    /// That of Kubernetes' container runtimes: `2026-11-21T07:10:38.042Z stdout F `.
    Cri,
    /// A time, as `docker logs --timestamps` writes it: `2026-11-21T07:10:38.042Z `.
    Time,
    /// The name of a service, as `docker compose logs` writes it: `web-1  | `.
    Compose,
    /// The name of a pod, as `kubectl logs --prefix` writes it: `[pod/web-7d4f/nginx] `.
    Pod,
    /// The head of syslog (RFC 3164 and RFC 5424) and of the journal, with a priority or without.
    Syslog,
}

/// A line, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinePiece<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) end: PieceEnd,
    /// Set if a container wrote it to its standard error.
    pub(crate) is_error_stream: bool,
}

/// The end of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceEnd {
    /// It is that of the line.
    Whole,
    /// The line goes on in a later piece.
    Continued,
}

impl<'a> LinePiece<'a> {
    /// Returns the piece that is a whole line.
    pub(crate) const fn whole(text: &'a [u8]) -> Self {
        Self {
            text,
            end: PieceEnd::Whole,
            is_error_stream: false,
        }
    }
}

impl LinePrefix {
    /// All kinds.
    pub(crate) const ALL: [Self; 5] = [
        Self::Cri,
        Self::Time,
        Self::Compose,
        Self::Pod,
        Self::Syslog,
    ];

    /// Returns the name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cri => "cri",
            Self::Time => "time",
            Self::Compose => "compose",
            Self::Pod => "pod",
            Self::Syslog => "syslog",
        }
    }

    /// Returns the piece behind the prefix; the piece as it is where it does not have one.
    pub(crate) fn strip(self, piece: LinePiece<'_>) -> LinePiece<'_> {
        let stripped = |text| LinePiece { text, ..piece };
        let found = match self {
            Self::Cri => cri(piece),
            Self::Time => time_word(piece.text).map(stripped),
            Self::Compose => compose(piece.text).map(stripped),
            Self::Pod => pod(piece.text).map(stripped),
            // A line of CRI has a time and a word before its tag, as one of syslog without a program.
            Self::Syslog if cri(piece).is_some() => None,
            Self::Syslog => syslog(piece.text).map(stripped),
        };
        found.unwrap_or(piece)
    }
}

/// Returns the first word and what follows the space behind it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b' ', text)?;
    let (word, rest) = text.split_at(at);
    Some((word, rest.get(1..)?))
}

fn time_word(text: &[u8]) -> Option<&[u8]> {
    let (word, rest) = word(text)?;
    time::rfc3339(word).map(|_| rest)
}

fn cri(piece: LinePiece<'_>) -> Option<LinePiece<'_>> {
    let (stream, rest) = word(time_word(piece.text)?)?;
    let is_error_stream = match stream {
        b"stdout" => false,
        b"stderr" => true,
        _ => return None,
    };
    let (tags, text) = word(rest)?;
    let end = match tags.split(|byte| *byte == b':').next() {
        Some(b"F") => PieceEnd::Whole,
        Some(b"P") => PieceEnd::Continued,
        _ => return None,
    };
    Some(LinePiece {
        text,
        end,
        is_error_stream,
    })
}

/// Skips the codes by which a terminal changes colors and clears lines (ECMA-48 §5.4).
fn without_codes(mut text: &[u8]) -> &[u8] {
    while let Some(code) = text.strip_prefix(b"\x1b[") {
        let end = code.iter().take(16).position(u8::is_ascii_alphabetic);
        let Some(end) = end else { return text };
        text = code.get(end + 1..).unwrap_or_default();
    }
    text
}

fn compose(text: &[u8]) -> Option<&[u8]> {
    let text = without_codes(text);
    let begin = text.get(..LONGEST_NAME).unwrap_or(text);
    let bar = memchr::memchr(b'|', begin)?;
    let (name, rest) = text.split_at(bar);
    let name = name.strip_suffix(b" ")?.trim_ascii_end();
    if !is_name(name) {
        return None;
    }
    Some(without_codes(rest.strip_prefix(b"| ")?))
}

fn is_name(name: &[u8]) -> bool {
    let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./".contains(byte);
    !name.is_empty() && name.iter().all(in_name)
}

fn pod(text: &[u8]) -> Option<&[u8]> {
    let inside = text.strip_prefix(b"[pod/")?;
    let begin = inside.get(..LONGEST_NAME).unwrap_or(inside);
    let end = memchr::memchr(b']', begin)?;
    let (name, rest) = inside.split_at(end);
    is_name(name).then(|| rest.strip_prefix(b"] "))?
}

fn syslog(text: &[u8]) -> Option<&[u8]> {
    let text = priority(text).unwrap_or(text);
    let message = match text.strip_prefix(b"1 ") {
        Some(rest) => structured(rest)?,
        None => tagged(rest_of_time(text)?)?,
    };
    // A mark of structured text, which some servers write (CEE).
    Some(
        message
            .strip_prefix(b"@cee:")
            .map_or(message, <[u8]>::trim_ascii_start),
    )
}

/// Returns what follows `<190>`.
fn priority(text: &[u8]) -> Option<&[u8]> {
    let inside = text.strip_prefix(b"<")?;
    let digits = inside.iter().take(4).position(|byte| *byte == b'>')?;
    let (number, rest) = inside.split_at(digits);
    time::number(number)?;
    rest.get(1..)
}

/// Returns the message behind the fields and the data of RFC 5424 §6.
fn structured(text: &[u8]) -> Option<&[u8]> {
    let mut rest = time_word(text)?;
    // Host, application, process, kind of message.
    for _ in 0..4 {
        rest = word(rest)?.1;
    }
    if let Some(rest) = rest.strip_prefix(b"- ") {
        return Some(rest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rest));
    }
    while rest.first() == Some(&b'[') {
        rest = rest.get(element_length(rest)?..)?;
    }
    let rest = rest.strip_prefix(b" ")?;
    Some(rest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rest))
}

/// Returns the length of the element that begins a text, `[name key="value"]`; a bracket in a value has a backslash before it.
fn element_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        let found = memchr::memchr2(b']', b'\\', text.get(at..)?)?;
        at += found;
        match text.get(at) {
            Some(b']') => return Some(at + 1),
            _ => at += 2,
        }
    }
}

/// Returns what follows a time as syslog and the journal write it: `Nov 21 07:10:38`, RFC 3339 or one like it, seconds since the epoch.
fn rest_of_time(text: &[u8]) -> Option<&[u8]> {
    let is_short = text.get(..3).and_then(time::month).is_some();
    if is_short {
        let behind = text.get(15..)?;
        let end = memchr::memchr(b' ', behind)?;
        // A fraction of a second may follow.
        let is_time =
            text.get(3) == Some(&b' ') && text.get(9) == Some(&b':') && text.get(12) == Some(&b':');
        return is_time.then(|| behind.get(end + 1..))?;
    }
    let (first, rest) = word(text)?;
    let is_time = time::rfc3339(first).is_some()
        || time::seconds(first).is_some_and(|nanos| nanos > 1_000_000_000 * time::SECOND);
    is_time.then_some(rest)
}

/// Returns the message behind a host and a tag that ends with a colon: `web nginx[12]: `, or one of both.
fn tagged(text: &[u8]) -> Option<&[u8]> {
    let (first, rest) = word(text)?;
    if first.ends_with(b":") {
        return Some(rest);
    }
    match word(rest) {
        Some((tag, message)) if tag.ends_with(b":") => Some(message),
        _ => Some(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(prefix: LinePrefix, line: &str) -> String {
        let piece = prefix.strip(LinePiece::whole(line.as_bytes()));
        String::from_utf8(piece.text.to_vec()).unwrap()
    }

    /// Goal: the line is found behind each prefix. Method: the forms of collectors around one text.
    #[test]
    fn prefixes_are_taken_off() {
        const TEXT: &str =
            "192.0.2.1 - - [21/Nov/2026:07:10:38 +0000] \"GET /a|b: HTTP/1.1\" 200 1";
        for (prefix, written) in [
            (LinePrefix::Cri, "2026-11-21T07:10:38.042123456Z stdout F "),
            (LinePrefix::Cri, "2026-11-21T07:10:38.042+02:00 stderr F:x "),
            (LinePrefix::Time, "2026-11-21T07:10:38.042123456Z "),
            (LinePrefix::Compose, "web-1  | "),
            (LinePrefix::Compose, "my_app_1 | "),
            (LinePrefix::Compose, "\u{1b}[36mweb-1  | \u{1b}[0m"),
            (LinePrefix::Compose, "\u{1b}[2Kweb-1  | "),
            (LinePrefix::Pod, "[pod/web-7d4f/nginx] "),
            (LinePrefix::Syslog, "<190>Nov 21 07:10:38 web nginx: "),
            (LinePrefix::Syslog, "<190>Nov  1 07:10:38 nginx: "),
            (LinePrefix::Syslog, "Nov 21 07:10:38 web caddy[123]: "),
            (
                LinePrefix::Syslog,
                "Nov 21 07:10:38.042123 web caddy[123]: ",
            ),
            (LinePrefix::Syslog, "Nov 21 07:10:38 web "),
            (
                LinePrefix::Syslog,
                "2026-11-21T07:10:38.042+00:00 web nginx[1]: ",
            ),
            (
                LinePrefix::Syslog,
                "2026-11-21T07:10:38+0000 web nginx[1]: ",
            ),
            (LinePrefix::Syslog, "1795245038.042123 web nginx[1]: "),
            (
                LinePrefix::Syslog,
                "2026-11-21T07:10:38.042+00:00 heroku[router]: ",
            ),
            (
                LinePrefix::Syslog,
                "<134>1 2026-11-21T07:10:38.042Z web nginx 12 - - ",
            ),
            (
                LinePrefix::Syslog,
                "<134>1 2026-11-21T07:10:38.042Z web nginx 12 - - \u{feff}",
            ),
            (
                LinePrefix::Syslog,
                "<134>1 2026-11-21T07:10:38.042Z web nginx 12 a [b@1 c=\"d\\] e\"][f] ",
            ),
        ] {
            assert_eq!(
                stripped(prefix, &format!("{written}{TEXT}")),
                TEXT,
                "{written}"
            );
        }
        let cee = "<190>Nov 21 07:10:38 web nginx: @cee: {\"a\":1}";
        assert_eq!(stripped(LinePrefix::Syslog, cee), "{\"a\":1}");
    }

    /// Goal: a line without a prefix stays as it is. Method: lines of other kinds, cut prefixes.
    #[test]
    fn other_lines_stay() {
        for line in [
            "",
            " ",
            "|",
            "a b | c",
            "[pod/web-7d4f",
            "<190>",
            "<190>Nov 21",
            "Nov 21 07:10:38",
            "<134>1 2026-11-21T07:10:38.042Z web nginx 12 - [a",
            "2026-11-21T07:10:38.042Z stdout X a",
            "2026-11-21T07:10:38.042Z stderr P a",
            "192.0.2.1 - - [21/Nov/2026:07:10:38 +0000]",
        ] {
            for prefix in [
                LinePrefix::Cri,
                LinePrefix::Compose,
                LinePrefix::Pod,
                LinePrefix::Syslog,
            ] {
                let expected = match (prefix, line) {
                    // A time, a host, and no tag.
                    (LinePrefix::Syslog, "2026-11-21T07:10:38.042Z stdout X a") => "X a",
                    (LinePrefix::Cri, "2026-11-21T07:10:38.042Z stderr P a") => "a",
                    _ => line,
                };
                assert_eq!(stripped(prefix, line), expected, "{prefix:?} {line}");
            }
        }
    }

    proptest::proptest! {
        /// Goal: no bytes panic. Method: bytes out of the alphabet of prefixes.
        #[test]
        fn any_bytes_are_a_piece(
            text in "[<>0-9TZ:.| \\[\\]\\\\a-c\u{1b}m-]{0,60}",
            begin in "(<1>|<1>1 |Nov 21 07:10:3|2026-11-21T07:10:38Z |\\[pod/)?",
        ) {
            let line = format!("{begin}{text}");
            for prefix in LinePrefix::ALL {
                assert!(line.ends_with(&stripped(prefix, &line)));
            }
        }
    }
}
