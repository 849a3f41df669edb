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
    /// The names of a pod and its container, as stern writes them: `web-7d4f nginx `.
    Stern,
    /// The head of syslog (RFC 3164 and RFC 5424) and of the journal, with a priority or without.
    Syslog,
}

/// A line, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinePiece<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) end: PieceEnd,
    /// The service that wrote the line, as its envelope names it; empty where it names none.
    pub(crate) service: &'a [u8],
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

/// The text behind a prefix that names a service.
#[derive(Clone, Copy, Debug)]
struct NamedText<'a> {
    text: &'a [u8],
    /// The name; empty where the prefix lacks it.
    service: &'a [u8],
}

impl<'a> LinePiece<'a> {
    /// Returns the piece that is a whole line.
    pub(crate) const fn whole(text: &'a [u8]) -> Self {
        Self {
            text,
            end: PieceEnd::Whole,
            service: b"",
            is_error_stream: false,
        }
    }
}

impl LinePrefix {
    /// All kinds.
    pub(crate) const ALL: [Self; 6] = [
        Self::Cri,
        Self::Time,
        Self::Compose,
        Self::Pod,
        Self::Stern,
        Self::Syslog,
    ];

    /// Returns the name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cri => "cri",
            Self::Time => "time",
            Self::Compose => "compose",
            Self::Pod => "pod",
            Self::Stern => "stern",
            Self::Syslog => "syslog",
        }
    }

    /// Returns the piece behind the prefix; the piece as it is where it does not have one.
    pub(crate) fn strip<'a>(self, piece: LinePiece<'a>) -> LinePiece<'a> {
        let stripped = |text| LinePiece { text, ..piece };
        let named = |named: NamedText<'a>| LinePiece {
            text: named.text,
            service: named.service,
            ..piece
        };
        let found = match self {
            Self::Cri => cri(piece),
            Self::Time => time_word(piece.text).map(stripped),
            Self::Compose => compose(piece.text).map(named),
            Self::Pod => pod(piece.text).map(named),
            Self::Stern => stern(piece.text).map(named),
            // A line of CRI has a time and a word before its tag, as one of syslog without a program.
            Self::Syslog if cri(piece).is_some() => None,
            Self::Syslog => syslog(piece.text).map(named),
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
        ..piece
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

/// Returns a name, which may have codes of a terminal around it, and what follows it.
fn name(text: &[u8]) -> Option<NamedText<'_>> {
    let text = without_codes(text);
    let begin = text.get(..LONGEST_NAME).unwrap_or(text);
    let length = begin.iter().take_while(|byte| in_name(byte)).count();
    let (service, rest) = text.split_at(length);
    (length > 0).then(|| NamedText {
        text: without_codes(rest),
        service,
    })
}

fn compose(text: &[u8]) -> Option<NamedText<'_>> {
    let NamedText { text, service } = name(text)?;
    let spaces = text.iter().take_while(|byte| **byte == b' ').count();
    let behind = without_codes(text.get(spaces..)?).strip_prefix(b"|")?;
    let rest = without_codes(behind).strip_prefix(b" ")?;
    (spaces > 0).then(|| NamedText {
        text: without_codes(rest),
        service,
    })
}

fn stern(text: &[u8]) -> Option<NamedText<'_>> {
    let pod = name(text)?;
    let container = name(pod.text.strip_prefix(b" ")?)?;
    let begins_name = |name: &[u8]| name.first().is_some_and(u8::is_ascii_alphanumeric);
    if !begins_name(pod.service) || !begins_name(container.service) {
        return None;
    }
    // Both names, and the codes around them.
    let length = text.len() - container.text.len();
    Some(NamedText {
        text: container.text.strip_prefix(b" ")?,
        service: text.get(..length)?,
    })
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(in_name)
}

fn in_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_./".contains(byte)
}

fn pod(text: &[u8]) -> Option<NamedText<'_>> {
    let inside = text.strip_prefix(b"[pod/")?;
    let begin = inside.get(..LONGEST_NAME).unwrap_or(inside);
    let end = memchr::memchr(b']', begin)?;
    let (service, rest) = inside.split_at(end);
    let text = rest.strip_prefix(b"] ")?;
    is_name(service).then_some(NamedText { text, service })
}

fn syslog(text: &[u8]) -> Option<NamedText<'_>> {
    let text = priority(text).unwrap_or(text);
    let message = match text.strip_prefix(b"1 ") {
        Some(rest) => structured(rest)?,
        None => tagged(rest_of_time(text)?)?,
    };
    // A mark of structured text, which some servers write (CEE).
    let text = match message.text.strip_prefix(b"@cee:") {
        Some(text) => text.trim_ascii_start(),
        None => message.text,
    };
    Some(NamedText { text, ..message })
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
fn structured(text: &[u8]) -> Option<NamedText<'_>> {
    // The host.
    let (_, rest) = word(time_word(text)?)?;
    let (program, rest) = word(rest)?;
    // The process, the kind of message.
    let (_, rest) = word(word(rest)?.1)?;
    let mut text = rest;
    if let Some(rest) = text.strip_prefix(b"- ") {
        text = rest;
    } else {
        while text.first() == Some(&b'[') {
            text = text.get(element_length(text)?..)?;
        }
        text = text.strip_prefix(b" ")?;
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    Some(NamedText {
        text,
        service: program,
    })
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
fn tagged(text: &[u8]) -> Option<NamedText<'_>> {
    let (first, text) = word(text)?;
    if let Some(service) = program(first) {
        return Some(NamedText { text, service });
    }
    let tagged = word(text).and_then(|(tag, text)| {
        let service = program(tag)?;
        Some(NamedText { text, service })
    });
    Some(tagged.unwrap_or(NamedText { text, service: b"" }))
}

/// Returns the program of a tag: `nginx` of `nginx[12]:`.
fn program(tag: &[u8]) -> Option<&[u8]> {
    let tag = tag.strip_suffix(b":")?;
    let end = memchr::memchr(b'[', tag).unwrap_or(tag.len());
    tag.get(..end)
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
            (LinePrefix::Compose, "\u{1b}[36;1mweb_1  |\u{1b}[0m "),
            (LinePrefix::Compose, "\u{1b}[36mweb-1\u{1b}[0m  | "),
            (LinePrefix::Compose, "\u{1b}[38;5;81mweb-1  \u{1b}[0m| "),
            (LinePrefix::Stern, "web-7d4f nginx "),
            (
                LinePrefix::Stern,
                "\u{1b}[91mweb-7d4f\u{1b}[0m \u{1b}[32mnginx\u{1b}[0m ",
            ),
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
