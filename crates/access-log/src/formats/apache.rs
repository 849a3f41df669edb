//! Reads Apache's `LogFormat`, and parses the lines of `vhost_combined`, which Debian writes for all virtual hosts.
//!
//! ```text
//! LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" vhost_combined
//! ```
//!
//! Apache logs the begin of a request, unless a format says `%{end:…}t` (httpd.apache.org/docs/2.4/mod/mod_log_config.html).

use super::combined;
use crate::address::address;
use crate::calendar::CalendarPart;
use crate::line::{LineError, ParsedLine};
use crate::minute_cache::MinuteCache;
use crate::template::{LogTemplate, TemplateBuilder, TemplateNotation};
use crate::text::{EscapeSyntax, RawText};
use crate::values::{DurationUnit, RequestEdge, ValueMeaning};

/// Directives that have a format, in lower case, with the number of words before it.
const DIRECTIVES: [(&str, usize); 4] = [
    ("logformat", 0),
    ("customlog", 1),
    ("globallog", 1),
    ("transferlog", 0),
];

/// A directive of a format: `%>s`, `%{User-Agent}i`.
struct FormatDirective<'t> {
    argument: Option<&'t str>,
    letter: char,
    /// The directive without its `%`.
    text: &'t str,
}

/// Parses a line whose first word is a host, with a port or without, and the rest of which is in the combined or in the common format.
pub(crate) fn vhost_combined<'a>(
    line: &'a [u8],
    minute: &mut MinuteCache,
    into: &mut ParsedLine<'a>,
) -> Result<(), LineError> {
    let end = memchr::memchr(b' ', line)
        .ok_or(LineError::Malformed("there is no word behind the host"))?;
    let (host, rest) = line.split_at(end);
    if !is_host(host) {
        return Err(LineError::Malformed("the first word is not a host"));
    }
    into.host = RawText::plain(host);
    combined::parse(rest.get(1..).unwrap_or_default(), minute, into)
}

/// Returns whether a word may be a host, with a port or without.
fn is_host(word: &[u8]) -> bool {
    let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._*".contains(byte);
    let colon = memchr::memrchr(b':', word).unwrap_or(word.len());
    let (name, port) = word.split_at(colon);
    let is_port = port.iter().skip(1).all(u8::is_ascii_digit);
    let in_brackets = name
        .strip_prefix(b"[")
        .and_then(|name| name.strip_suffix(b"]"));
    let is_v6 = in_brackets.is_some_and(|name| address(name).is_some());
    is_port && (is_v6 || name.iter().all(in_name))
}

/// Returns whether a text is a directive of Apache's configuration that has a format.
pub(crate) fn is_directive(written: &str) -> bool {
    directive(written).is_some()
}

/// Returns whether a text is a format of Apache, or a directive with one.
pub(crate) fn is_format(written: &str) -> bool {
    is_directive(written) || written.contains('%')
}

/// Compiles a format: the text with its directives, or the line of a configuration that declares it.
///
/// # Errors
/// The reason why no request can be read by it, and what to write instead.
pub(crate) fn template(written: &str) -> Result<LogTemplate, String> {
    let text = match directive(written) {
        Some(arguments) => arguments?,
        None => unescaped(written.trim()),
    };
    let mut builder = TemplateBuilder::new();
    let mut rest = &*text;
    while let Some((literal, behind)) = rest.split_once('%') {
        builder.text(literal.as_bytes());
        let (directive, behind) = next_directive(behind)?;
        add(&mut builder, &directive)?;
        rest = behind;
    }
    builder.text(rest.as_bytes());
    builder.finish(TemplateNotation::Apache, EscapeSyntax::Backslash)
}

/// Returns the format of the first directive in a part of Apache's configuration; `None` where the text has none.
fn directive(written: &str) -> Option<Result<String, String>> {
    let joined = written.replace("\r\n", "\n").replace("\\\n", "");
    joined.lines().find_map(format_of_line)
}

/// Returns the format of a directive, which may be commented out; `None` where the line is none of those with a format.
fn format_of_line(line: &str) -> Option<Result<String, String>> {
    let mut rest = line.trim_start_matches([' ', '\t', '#']);
    let name = word(&mut rest)?;
    let lower = name.to_ascii_lowercase();
    let (_, before) = DIRECTIVES
        .iter()
        .find(|(directive, _)| *directive == lower)?;
    for _ in 0..*before {
        word(&mut rest)?;
    }
    let format = word(&mut rest).filter(|format| format.contains('%'));
    Some(format.map(|format| unescaped(&format)).ok_or_else(|| {
        format!("{name} has no format with directives like %h; write the LogFormat that it names")
    }))
}

/// Takes the next word of a configuration, without the quotes around it and the backslashes before quotes and backslashes.
fn word(rest: &mut &str) -> Option<String> {
    let text = rest.trim_start();
    let first = text.chars().next()?;
    let quote = matches!(first, '"' | '\'').then_some(first);
    let inside = quote.map_or(text, |_| text.get(1..).unwrap_or_default());
    let mut word = String::new();
    let mut characters = inside.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let is_end = match quote {
            Some(quote) => character == quote,
            None => character.is_whitespace(),
        };
        if is_end {
            *rest = inside.get(at + 1..).unwrap_or_default();
            return Some(word);
        }
        match (character, characters.peek()) {
            ('\\', Some((_, next))) if Some(*next) == quote || *next == '\\' => {
                word.push(*next);
                characters.next();
            }
            _ => word.push(character),
        }
    }
    *rest = "";
    Some(word)
}

/// Returns a format without its escapes.
fn unescaped(text: &str) -> String {
    let controls = text
        .replace("\\t", "\t")
        .replace("\\n", "\n")
        .replace("\\r", "\r");
    controls.replace("\\\"", "\"")
}

/// Returns the directive behind a `%`, and what follows it.
fn next_directive(text: &str) -> Result<(FormatDirective<'_>, &str), String> {
    // The statuses for which a value is logged, and which of two requests is meant after an internal redirect.
    let is_modifier = |c: char| c.is_ascii_digit() || matches!(c, '!' | ',' | '<' | '>');
    let mut rest = text.trim_start_matches(is_modifier);
    let mut argument = None;
    if let Some((name, behind)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        argument = Some(name);
        rest = behind;
    }
    // `%^ti` and `%^to` are trailers.
    let rest = rest.strip_prefix("^t").unwrap_or(rest);
    let mut characters = rest.chars();
    let letter = characters.next();
    let letter = letter.filter(|letter| letter.is_ascii_alphabetic() || *letter == '%');
    let letter = letter
        .ok_or("a `%` in the format has no letter behind it; write %h, or %% for the sign")?;
    let behind = characters.as_str();
    let length = text.len() - behind.len();
    let directive = FormatDirective {
        argument,
        letter,
        text: text.get(..length).unwrap_or_default(),
    };
    Ok((directive, behind))
}

/// Adds the value of a directive, or its text.
fn add(builder: &mut TemplateBuilder, directive: &FormatDirective<'_>) -> Result<(), String> {
    let argument = directive.argument.unwrap_or_default();
    let meaning = match (directive.letter, argument) {
        ('%', _) => {
            builder.text(b"%");
            return Ok(());
        }
        ('t', format) => return add_time(builder, format, directive.text),
        ('a', "c") => ValueMeaning::Peer,
        ('a' | 'h', _) => ValueMeaning::Client,
        ('v' | 'V', _) => ValueMeaning::Host,
        ('r', _) => ValueMeaning::RequestLine,
        ('m', _) => ValueMeaning::Method,
        ('U', _) => ValueMeaning::Path,
        ('q', _) => ValueMeaning::Query,
        ('s', _) => ValueMeaning::Status,
        ('b' | 'B' | 'O', _) => ValueMeaning::Bytes,
        ('D', _) | ('T', "us") => ValueMeaning::Duration(DurationUnit::Micros),
        ('T', "ms") => ValueMeaning::Duration(DurationUnit::Millis),
        ('T', _) => ValueMeaning::Duration(DurationUnit::Seconds),
        ('e', "UNIQUE_ID") => ValueMeaning::Id,
        ('i', name) if name.eq_ignore_ascii_case("host") => ValueMeaning::Host,
        ('i', _) => ValueMeaning::FieldBehind(0),
        _ => ValueMeaning::Other,
    };
    let shown = format!("%{}", directive.text);
    builder.value(argument.as_bytes(), meaning, &shown)
}

/// Adds the parts of a time: `%t`, `%{msec}t`, or a format of `strftime`.
fn add_time(builder: &mut TemplateBuilder, format: &str, shown: &str) -> Result<(), String> {
    let shown = format!("%{shown}");
    let (edge, format) = match (format.strip_prefix("begin:"), format.strip_prefix("end:")) {
        (Some(format), _) => (RequestEdge::Begin, format),
        (_, Some(format)) => (RequestEdge::End, format),
        _ => (RequestEdge::Begin, format),
    };
    let fraction = match format {
        "" => {
            builder.text(b"[");
            builder.value(b"t", ValueMeaning::Time(edge), &shown)?;
            builder.text(b"]");
            return Ok(());
        }
        "sec" | "msec" | "usec" => return builder.value(b"t", ValueMeaning::Time(edge), &shown),
        "msec_frac" => Some(3),
        "usec_frac" => Some(6),
        _ => None,
    };
    if let Some(digits) = fraction {
        let part = CalendarPart::Fraction(digits);
        return builder.value(b"t", ValueMeaning::Calendar(edge, part), &shown);
    }
    let expanded = expanded(format);
    let mut rest = &*expanded;
    while let Some((literal, behind)) = rest.split_once('%') {
        builder.text(literal.as_bytes());
        let mut characters = behind.chars();
        let letter = characters.next().unwrap_or_default();
        rest = characters.as_str();
        if letter == '%' {
            builder.text(b"%");
            continue;
        }
        let meaning = match (letter, calendar_part(letter)) {
            ('s', _) => ValueMeaning::Time(edge),
            (_, Some(part)) => ValueMeaning::Calendar(edge, part),
            _ => {
                return Err(format!(
                    "{shown}: %{letter} is no part of a time that can be read; write %{{%Y-%m-%dT%H:%M:%S%z}}t, or %t"
                ));
            }
        };
        builder.value(b"t", meaning, &shown)?;
    }
    builder.text(rest.as_bytes());
    Ok(())
}

/// Returns a format of `strftime` with the parts of those that stand for several.
fn expanded(format: &str) -> String {
    let format = format.replace("%T", "%H:%M:%S").replace("%R", "%H:%M");
    format.replace("%F", "%Y-%m-%d").replace("%D", "%m/%d/%y")
}

const fn calendar_part(letter: char) -> Option<CalendarPart> {
    Some(match letter {
        'Y' => CalendarPart::Year,
        'y' => CalendarPart::ShortYear,
        'm' => CalendarPart::Month,
        'b' | 'h' => CalendarPart::MonthName,
        'd' | 'e' => CalendarPart::Day,
        'H' => CalendarPart::Hour,
        'M' => CalendarPart::Minute,
        'S' => CalendarPart::Second,
        'z' => CalendarPart::Zone,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value;

    /// Time, client, host, target, status and duration of a line by a format.
    fn read(written: &str, line: &str) -> (u64, String, String, String, u16, Option<u64>) {
        let template = template(written).unwrap();
        let mut into = ParsedLine::default();
        template.line(line.as_bytes(), &mut into).unwrap();
        let client = into.client.unwrap().to_string();
        (
            into.time,
            client,
            value(into.host),
            value(into.target),
            into.status,
            into.duration,
        )
    }

    const TIME: u64 = 1_795_245_038_000_000_000;

    /// Goal: a directive out of a configuration reads the lines that Apache writes by it. Method: the formats of Debian's apache2.conf and
    /// others, as they stand there, as their text alone, and as the argument of a `CustomLog`.
    #[test]
    fn formats_read_their_lines() {
        let vhost = r#"LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" vhost_combined"#;
        let line = r#"a.test:80 192.0.2.1 - - [21/Nov/2026:07:10:38 +0000] "GET /a\"b HTTP/1.1" 200 7 "-" "curl\\8""#;
        let expected = |target: &str, duration| {
            let text = |text: &str| text.to_owned();
            (
                TIME,
                text("192.0.2.1"),
                text("a.test"),
                text(target),
                200,
                duration,
            )
        };
        let custom = vhost.replace("LogFormat", "customlog ${APACHE_LOG_DIR}/a.log");
        let alone = r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#;
        let among_others = format!(
            "ServerName a.test\n    {}\nLogFormat \"%h\" h",
            vhost.replace(" %O", " \\\n%O")
        );
        for written in [
            vhost,
            &custom,
            &among_others,
            alone,
            &alone.replace('"', "\\\""),
        ] {
            assert_eq!(read(written, line), expected("/a\"b", None), "{written}");
        }
        let with_duration =
            r#"LogFormat '%{%Y-%m-%dT%H:%M:%S%z}t\t%a\t%{Host}i\t%m\t%U%q\t%>s\t%T\t%D' tabs"#;
        let line = "2026-11-21T07:10:38+0000\t192.0.2.1\ta.test\tGET\t/a?b=c\t200\t0\t1500";
        assert_eq!(
            read(with_duration, line),
            expected("/a?b=c", Some(1_500_000))
        );
        let parts = r#""%{%d/%b/%Y %T}t.%{msec_frac}t %{%z}t" %{c}a %h %V "%r" %!200,304s %s"#;
        let line = r#""21/Nov/2026:08:10:38"#;
        assert!(
            template(parts)
                .unwrap()
                .line(line.as_bytes(), &mut ParsedLine::default())
                .is_err()
        );
        let line =
            r#""21/Nov/2026 08:10:38.000 +0100" 10.0.0.1 192.0.2.1 a.test "GET /a HTTP/1.1" - 200"#;
        assert_eq!(read(parts, line), expected("/a", None));
        let end = "%h %{end:usec}t %D %v %U %s";
        let line = "192.0.2.1 1795245038500000 500000 a.test /a 200";
        assert_eq!(read(end, line), expected("/a", Some(500_000_000)));
    }

    /// Goal: a format without an address reads the client out of the forwarded chain. Method: formats of servers behind a proxy, in both
    /// notations.
    #[test]
    fn the_forwarded_chain_says_the_client() {
        let line = "198.51.100.9, 192.0.2.1 [21/Nov/2026:07:10:38 +0000] \"GET /a HTTP/1.1\" 200";
        let apache = template(r#"%{X-Forwarded-For}i %t "%r" %>s"#).unwrap();
        let nginx = r#"$http_x_forwarded_for [$time_local] "$request" $status"#;
        let nginx = crate::formats::nginx::template(nginx).unwrap();
        for format in [apache, nginx] {
            let mut into = ParsedLine::default();
            format.line(line.as_bytes(), &mut into).unwrap();
            assert_eq!(into.client, Some("192.0.2.1".parse().unwrap()));
            assert_eq!(value(into.fields[0].value), "198.51.100.9, 192.0.2.1");
        }
    }

    /// Goal: a format that cannot be used says why. Method: formats without a client, a time and a path, a nickname alone, and times that
    /// cannot be read.
    #[test]
    fn a_useless_format_is_refused() {
        for (written, part) in [
            ("%t %r", "%h or %a"),
            ("%h %r", "%t"),
            ("%h %t", "%r or %U"),
            ("%h%t", "%r or %U"),
            ("%h%l %t %r", "nothing separates %l"),
            ("LogFormat combined", "write the LogFormat that it names"),
            ("%h %{%c}t %r", "%c is no part of a time"),
            ("%h %t %", "has no letter"),
        ] {
            let error = template(written).unwrap_err();
            assert!(error.contains(part), "{written}: {error}");
        }
    }

    /// Goal: the lines of all virtual hosts are read. Method: one with a port, one without, and with an address as the host.
    #[test]
    fn lines_of_virtual_hosts_are_read() {
        for host in ["a.test:443", "a.test", "192.0.2.9:80", "[2001:db8::9]:80"] {
            let line = format!(
                "{host} 2001:db8::1 - - [21/Nov/2026:07:10:38 +0000] \"GET /a HTTP/1.1\" 200 7 \"-\" \"curl\""
            );
            let mut into = ParsedLine::default();
            vhost_combined(line.as_bytes(), &mut MinuteCache::default(), &mut into).unwrap();
            assert_eq!((into.time, value(into.host)), (TIME, host.to_owned()));
            assert_eq!(into.client, Some("2001:db8::1".parse().unwrap()));
            assert_eq!(value(into.target), "/a");
        }
    }
}
