//! Owns how path patterns are written: `/auth/sendOTP`, `/users/{id}`, `/static/*`.
//!
//! A text that begins with `~` is a regular expression, which the route table matches.
//!
//! Text is kept in the normal form that requests are compared in, that of [`sluicegate_base::path`]. A pattern that no request
//! in normal form could equal is an error, because a limit on it would never be asked.
//!
//! `/` is one empty segment, and so is the end of `/a/`.

use std::sync::Arc;

use sluicegate_base::bounds::{PATH_REGEX_BYTES, PATH_SEGMENTS};
use sluicegate_base::path as spelling;
use sluicegate_base::path::{PathRegex, RegexError};

use super::field::quoted;
use super::host;
use super::problem::ParseError;
use super::rules::{PathPattern, Segment, Tail};

/// Most bytes: a longer path is no request that a server takes.
const BYTES: usize = 4096;

/// The mark before a regular expression, the same as in nginx.
const REGEX: char = '~';

/// The path of a route: a pattern, or a regular expression over all paths.
pub(super) fn path(text: &str) -> Result<(PathPattern, Option<PathRegex>), ParseError> {
    let Some(expression) = text.strip_prefix(REGEX) else {
        return Ok((pattern(text)?, None));
    };
    // nginx's mark of an expression that is matched in any case.
    if let Some(expression) = expression.strip_prefix('*') {
        return Err(ParseError::with_advice(
            format!("{} begins with ~*", quoted(text)),
            format!(
                "write {}: paths match in any case of their letters",
                quoted(&format!("{REGEX} {}", expression.trim()))
            ),
        ));
    }
    let regex = regex(expression.trim())?;
    let all = PathPattern {
        text: text.into(),
        segments: Vec::new(),
        tail: Tail::Any,
    };
    Ok((all, Some(regex)))
}

/// Returns a pattern with `{name}` in place of the parameters that other routers write as `:name` and `<name>`, and that are plain text
/// here; `None` where it has none.
pub(super) fn with_own_parameters(text: &str) -> Option<String> {
    if text.starts_with(REGEX) || !text.contains([':', '<']) {
        return None;
    }
    let own = |segment: &str| match other_parameter(segment) {
        Some(name) => format!("{{{name}}}"),
        None => segment.to_owned(),
    };
    let rewritten = text.split('/').map(own).collect::<Vec<_>>().join("/");
    (rewritten != text).then_some(rewritten)
}

/// The name of a parameter of Express, Rails, Go and others, `:id`, or of Flask and Django, `<int:id>`.
fn other_parameter(segment: &str) -> Option<&str> {
    let name = match segment.strip_prefix('<') {
        Some(rest) => rest.strip_suffix('>')?.rsplit(':').next()?,
        None => segment.strip_prefix(':')?,
    };
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some(name)
}

fn regex(text: &str) -> Result<PathRegex, ParseError> {
    let wrong = |what: &str, advice: String| {
        let message = format!("the expression {} {what}", quoted(text));
        ParseError::with_advice(message, advice)
    };
    let written = |text: &str| format!("write {}", quoted(&format!("{REGEX} {text}")));
    PathRegex::new(text).map_err(|error| match error {
        RegexError::NotAscii => wrong(
            "is not ASCII, as paths are matched",
            "write %C3%A9 for é".to_owned(),
        ),
        RegexError::Syntax(reason) => wrong(
            &format!("cannot be read: {reason}"),
            written("^/v[0-9]+/otp$"),
        ),
        RegexError::NoBeginning => wrong(
            "does not say where it begins",
            format!(
                "{}; each alternative needs its own ^",
                written(&format!("^{text}"))
            ),
        ),
        RegexError::NoEnd => wrong(
            "does not say where it ends",
            format!(
                "{}, or .*$ at its end for all that follows; each alternative needs its own $",
                written(&format!("{text}$"))
            ),
        ),
        RegexError::NoSlash => wrong(
            "takes no path, since all begin with a slash",
            written(&text.replacen('^', "^/", 1)),
        ),
        RegexError::TooLarge => wrong(
            &format!("compiles to more than {PATH_REGEX_BYTES} bytes"),
            "repeat less in it, or write several routes".to_owned(),
        ),
    })
}

/// A path pattern.
fn pattern(text: &str) -> Result<PathPattern, ParseError> {
    let shown = quoted(text);
    let Some(path) = text.strip_prefix('/') else {
        let message = format!("{shown} does not begin with a slash");
        if let Some((_, rest)) = text.split_once("://") {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            return Err(ParseError::with_advice(
                format!("{shown} is a URL"),
                format!(
                    "write path = {}, and host = {} beside it",
                    quoted(&format!("/{path}")),
                    quoted(host)
                ),
            ));
        }
        if let Some((host, path)) = host_and_path(text) {
            return Err(ParseError::with_advice(
                format!("{shown} begins with a host"),
                format!(
                    "write path = {}, and host = {} beside it",
                    quoted(&path),
                    quoted(host)
                ),
            ));
        }
        let advice = match text.starts_with('^') {
            true => format!(
                "write {} if it is an expression",
                quoted(&format!("{REGEX} {text}"))
            ),
            false => format!("write {}", quoted(&slashed(text))),
        };
        return Err(ParseError::with_advice(message, advice));
    };
    for (mark, what) in [('?', "query"), ('#', "fragment")] {
        if let Some((before, _)) = text.split_once(mark) {
            let message = format!("{shown} has a {what}, which paths are matched without");
            return Err(ParseError::with_advice(
                message,
                format!("write {}", quoted(before)),
            ));
        }
    }
    if text.len() > BYTES {
        return Err(ParseError::with_advice(
            format!("a pattern of {} bytes is too long", text.len()),
            format!("the most is {BYTES}; end it earlier with /*"),
        ));
    }
    let (path, tail) = match path.strip_suffix('*') {
        Some("") => (None, Tail::Any),
        Some(before) if before.ends_with('/') => (before.strip_suffix('/'), Tail::Any),
        _ => (Some(path), Tail::Exact),
    };
    let mut segments = Vec::new();
    let mut pieces = path.into_iter().flat_map(|path| path.split('/')).peekable();
    while let Some(piece) = pieces.next() {
        let is_last = pieces.peek().is_none() && tail == Tail::Exact;
        segments.push(segment(text, piece, is_last, &segments)?);
    }
    if segments.len() > PATH_SEGMENTS {
        return Err(ParseError::with_advice(
            format!("{} segments are too many", segments.len()),
            format!("the most is {PATH_SEGMENTS}; end it earlier with /*"),
        ));
    }
    Ok(PathPattern {
        text: text.into(),
        segments,
        tail,
    })
}

/// Extensions of files: a text that ends in one is the name of a file, not a host.
const FILE_EXTENSIONS: [&str; 20] = [
    "asp", "aspx", "cgi", "css", "gif", "htm", "html", "ico", "jpg", "js", "json", "jsp", "map",
    "pdf", "php", "png", "svg", "txt", "webp", "xml",
];

/// Returns the host that a text begins with, without its port, and the path behind it; `None` where the text is a path without a slash.
fn host_and_path(text: &str) -> Option<(&str, String)> {
    let (host, path) = match text.split_once('/') {
        Some((host, path)) => (host, slashed(&format!("/{path}"))),
        None => (text, "/*".to_owned()),
    };
    let (name, port) = match host.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let (_, top) = name.rsplit_once('.').unwrap_or(("", ""));
    let is_top = |top: &str| {
        let is_file = path == "/*" && !text.contains('/') && FILE_EXTENSIONS.contains(&top);
        top.len() >= 2 && top.bytes().all(|byte| byte.is_ascii_alphabetic()) && !is_file
    };
    let is_host = is_top(top) || name == "localhost" || port.is_some_and(is_port);
    (is_host && port.is_none_or(is_port) && host::matched(name).is_ok()).then_some((name, path))
}

fn segment(
    pattern: &str,
    piece: &str,
    is_last: bool,
    before: &[Segment],
) -> Result<Segment, ParseError> {
    let wrong = |what: String, advice: String| {
        Err(ParseError::with_advice(
            format!("{} {what}", quoted(pattern)),
            advice,
        ))
    };
    match piece {
        "" if is_last => return Ok(Segment::Literal("".into())),
        "" => {
            let merged = slashed(pattern);
            return wrong(
                "has an empty segment, and requests lose theirs".to_owned(),
                format!("write {}", quoted(&merged)),
            );
        }
        "." | ".." => {
            return wrong(
                format!("has the segment {piece:?}, which is resolved in requests"),
                "write the path that it leads to".to_owned(),
            );
        }
        _ => {}
    }
    if let Some(name) = piece
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
    {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(allowed) {
            return wrong(
                format!("has a parameter {piece:?} that is no name"),
                "write 1 to 64 of the characters a-z A-Z 0-9 _ - in braces: {id}".to_owned(),
            );
        }
        let same =
            |earlier: &Segment| matches!(earlier, Segment::Parameter(other) if **other == *name);
        if before.iter().any(same) {
            return wrong(
                format!("has the parameter {{{name}}} twice"),
                format!("give the second a name of its own, such as {{{name}2}}"),
            );
        }
        return Ok(Segment::Parameter(Arc::from(name)));
    }
    if piece.contains(['{', '}']) {
        return wrong(
            "has braces within a segment".to_owned(),
            "a parameter is a whole segment: write /users/{id}, or %7B and %7D for braces"
                .to_owned(),
        );
    }
    if piece.contains('*') {
        return wrong(
            "has a `*` that is not its whole last segment".to_owned(),
            "write /prefix/* for all that follows, /a/{any}/b for any one segment, or %2A for a star"
                .to_owned(),
        );
    }
    match literal(piece) {
        Ok(text) => Ok(Segment::Literal(text.into())),
        Err((what, advice)) => wrong(what, advice),
    }
}

/// The normal form of a segment's text, or why no request has it, with what to write.
fn literal(piece: &str) -> Result<String, (String, String)> {
    for (at, byte) in piece.bytes().enumerate() {
        match byte {
            b'%' => check_escape(piece.get(at..at + 3).unwrap_or_default())?,
            b';' | b'\\' | 0..=0x1f | 0x7f => {
                let character = char::from(byte);
                return Err((
                    format!(
                        "has the character {character:?}, which requests are never matched with"
                    ),
                    "leave it out: what follows a ; is cut, and backslashes are refused".to_owned(),
                ));
            }
            _ => {}
        }
    }
    spelling::literal(piece).map_err(|_| {
        let message = format!("has the segment {piece:?}, which no request has");
        (
            message,
            "write it as it is sent, for example /caf%C3%A9".to_owned(),
        )
    })
}

/// Checks that an escape in a pattern can be in a request and has to be escaped.
fn check_escape(escape: &str) -> Result<(), (String, String)> {
    let digits = escape.get(1..).filter(|digits| digits.len() == 2);
    let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
        let message = "has a `%` that is not followed by two hexadecimal digits";
        return Err((
            message.to_owned(),
            "write %25 for a percent sign".to_owned(),
        ));
    };
    match byte {
        b'/' | b'\\' | 0..=0x1f | 0x7f => Err((
            format!("has the escape {escape}, which requests are never matched with"),
            "leave it out: who sends it gets another reading of the path, or an error".to_owned(),
        )),
        // RFC 3986 §3.3: what a segment holds plainly. A star stays, because plain it would be a tail.
        plain if plain.is_ascii_alphanumeric() || b"-._~!$&'()+,=:@".contains(&plain) => {
            let character = char::from(plain);
            Err((
                format!("has the escape {escape} for {character:?}, which needs none"),
                format!("write {character} instead"),
            ))
        }
        _ => Ok(()),
    }
}

/// A text as a path with single slashes: what was probably meant.
fn slashed(text: &str) -> String {
    let mut path = String::from("/");
    for character in text.chars() {
        if character != '/' || !path.ends_with('/') {
            path.push(character);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: a host is told from a path without a slash. Method: some of each.
    #[test]
    fn hosts_before_paths_are_found() {
        for (text, expected) in [
            ("example.com/*", Some(("example.com", "/*"))),
            ("api.example.com:8080/v1", Some(("api.example.com", "/v1"))),
            ("*.example.com/", Some(("*.example.com", "/"))),
            ("example.com", Some(("example.com", "/*"))),
            ("localhost/x", Some(("localhost", "/x"))),
            ("index.html", None),
            ("auth", None),
            ("auth/sendOTP", None),
            ("v1.2/users", None),
            ("user:id/x", None),
            ("^/a.b$", None),
            ("*", None),
        ] {
            let found = host_and_path(text);
            let found = found.as_ref().map(|(host, path)| (*host, &**path));
            assert_eq!(found, expected, "{text}");
        }
    }

    /// Goal: parameters of other routers are found, and nothing else. Method: some of each.
    #[test]
    fn parameters_of_other_routers_are_found() {
        for (text, own) in [
            ("/users/:id/otp", Some("/users/{id}/otp")),
            ("/users/<int:user_id>", Some("/users/{user_id}")),
            ("/users/<id>/*", Some("/users/{id}/*")),
            ("/v1/{name}:predict", None),
            ("/v1/models/x:predict", None),
            ("/:/a:b/:1", None),
            ("~ ^/(?:a|b)$", None),
        ] {
            assert_eq!(with_own_parameters(text).as_deref(), own, "{text}");
        }
    }

    fn read(text: &str) -> String {
        match pattern(text) {
            Ok(pattern) => {
                let segments = pattern.segments.iter().map(|segment| match segment {
                    Segment::Literal(text) => format!("/{text}"),
                    Segment::Parameter(name) => format!("/<{name}>"),
                });
                let tail = if pattern.tail == Tail::Any { "+" } else { "" };
                format!("{}{tail}", segments.collect::<String>())
            }
            Err(mistake) => format!(
                "{}; {}",
                mistake.message,
                mistake.advice.unwrap_or_default()
            ),
        }
    }

    /// Goal: segments, parameters and tails mean what the rules say. Method: one pattern of each kind.
    #[test]
    fn a_pattern_is_segments_and_perhaps_a_tail() {
        assert_eq!(read("/"), "/");
        assert_eq!(read("/*"), "+");
        assert_eq!(read("/a"), "/a");
        assert_eq!(read("/a/"), "/a/");
        assert_eq!(read("/a/*"), "/a+");
        assert_eq!(read("/users/{id}/posts/{post}"), "/users/<id>/posts/<post>");
        assert_eq!(read("/{tenant}/*"), "/<tenant>+");
    }

    /// Goal: a pattern equals the requests that mean it. Method: characters that requests carry encoded.
    #[test]
    fn text_is_kept_in_normal_form() {
        assert_eq!(read("/café"), "/caf%C3%A9");
        assert_eq!(read("/caf%c3%a9"), "/caf%C3%A9");
        assert_eq!(read("/a b"), "/a%20b");
        assert_eq!(read("/%7Bid%7D"), "/%7Bid%7D");
        assert_eq!(read("/glob%2A"), "/glob*");
        assert_eq!(read("/@me:all"), "/@me:all");
    }

    /// Goal: what no request could equal is refused. Method: one pattern of each kind.
    #[test]
    fn patterns_that_match_nothing_are_refused() {
        assert_eq!(
            read("auth"),
            "\"auth\" does not begin with a slash; write \"/auth\""
        );
        assert!(read("/a?b=1").ends_with("write \"/a\""));
        assert!(read("/a#b").ends_with("write \"/a\""));
        assert!(read("/a//b").ends_with("write \"/a/b\""));
        assert!(read("//").ends_with("write \"/\""));
        assert!(read("/a//*").ends_with("write \"/a/*\""));
        assert!(read("/%61").ends_with("write a instead"));
        for wrong in [
            "", "*", "/./a", "/a/..", "/a*", "/*/b", "/**", "/{}", "/x{id}", "/{a}/{a}", "/{a b}",
            "/%", "/%zz", "/%2f", "/a%00", "/a\\b", "/a;b", "/%é",
        ] {
            assert!(pattern(wrong).is_err(), "{wrong}");
        }
        assert!(pattern(&"/a".repeat(129)).is_err());
        assert!(pattern(&"/a".repeat(128)).is_ok());
    }

    proptest! {
        /// Goal: nothing an operator writes stops the process, and text is always in normal form. Method: arbitrary patterns.
        #[test]
        fn every_text_is_a_pattern_in_normal_form_or_a_mistake(text in "/([a-z%{}*/.é;]|%[0-9a-f]{2}){0,12}") {
            if let Ok(pattern) = pattern(&text) {
                for segment in &pattern.segments {
                    let Segment::Literal(text) = segment else { continue };
                    let again = if text.is_empty() { Ok(String::new()) } else { spelling::literal(text) };
                    prop_assert_eq!(again.as_deref(), Ok(&**text));
                }
            }
        }
    }
}
