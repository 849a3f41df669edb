//! Reads a path as a network-path reference, RFC 3986 §4.2: `//name/path`, where the first segment is an authority.
//!
//! A request's target is a path (RFC 9112 §3.2.1), yet many applications give it to a parser of URL references: `new URL(target,
//! base)` and `url.parse(target, false, true)` of Node, `parse_url` of PHP, `urlsplit` of Python, with which CherryPy splits it.
//! These parsers return `/path`.

/// Returns the path after the authority, for each way in which parsers find its end; nothing for a path that begins with a
/// single slash.
///
/// RFC 3986 ends the authority at a slash, WHATWG URL §4.4 at a backslash too. The latter skips any number of either before it.
/// Escaped ones count at the beginning, since a server before the application may decode them.
pub(super) fn behind(path: &str) -> impl Iterator<Item = &str> {
    let begin = separators(path);
    let named = begin
        .and_then(|begin| path.get(begin..))
        .unwrap_or_default();
    let slash = named.find('/');
    let either = named
        .find(['/', '\\'])
        .filter(|_| slash != named.find(['/', '\\']));
    let ends = [Some(slash), either.map(Some)];
    ends.into_iter()
        .flatten()
        .filter(move |_| begin.is_some())
        .map(move |end| end.map_or("/", |end| &named[end..]))
}

/// Returns the length in bytes of the separators that `path` begins with; `None` where there are fewer than two.
fn separators(path: &str) -> Option<usize> {
    let mut rest = path;
    let mut count = 0;
    while let Some(width) = separator(rest) {
        rest = &rest[width..];
        count += 1;
    }
    (count > 1).then_some(path.len() - rest.len())
}

/// Returns the length in bytes of the separator that `text` begins with.
fn separator(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    match bytes.first()? {
        b'/' | b'\\' => Some(1),
        b'%' if matches!(bytes.get(1..3)?, b"2f" | b"2F" | b"5c" | b"5C") => Some(3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the authority ends wherever some parser ends it. Method: targets of each kind.
    #[test]
    fn the_path_follows_the_first_segment() {
        let all = |path| behind(path).collect::<Vec<_>>();
        assert!(all("/x/a").is_empty());
        assert!(all("/").is_empty());
        assert_eq!(all("//x/a"), ["/a"]);
        assert_eq!(all("//x"), ["/"]);
        assert_eq!(all("//"), ["/"]);
        assert_eq!(all("///u:p@x:80/a/b"), ["/a/b"]);
        assert_eq!(all("/\\x\\y/a"), ["/a", "\\y/a"]);
        assert_eq!(all("/%2fx\\a"), ["/", "\\a"]);
    }
}
