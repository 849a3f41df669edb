//! Cuts endings of names, and spaces before names, as origins do that look for a route or a file by a name without them.
//!
//! | as sent | is also | for |
//! |---|---|---|
//! | `/a.`, `/a%20`, `/a./b` | `/a`, `/a/b` | Windows, which drops dots and spaces at the end of a file's name |
//! | `/%20a`, `/a%20` | `/a` | CodeIgniter, which trims the parts of `PATH_INFO` |
//! | `/a%3Bx` | `/a` | servlet containers behind a server that decoded once |
//! | `/a.json`, `/a.x/` | `/a` | Rails, Grails, older Spring, which take the ending for a format |
//!
//! All but the last are readings as others are. Names of pages and images have endings too, so the route table looks at formats for
//! requests with unsafe methods alone, and compares nothing but limits, lists and the size of bodies.
//!
//! # Limits
//!
//! The last name of a path is cut at its first [`FORMAT_CUTS`] dots.

use super::characters::merged;

/// Number of dots at which the last name of a path is cut. One with more dots before its format is longer than names of routes are.
const FORMAT_CUTS: usize = 8;

/// A space in normal form.
const SPACE: &str = "%20";

/// A semicolon that a server may decode.
const PARAMETER: &str = "%3B";

/// Yields the paths before each format that the last name of `path` may have.
pub(super) fn formats(path: &str) -> impl Iterator<Item = &str> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    // A name may begin with a dot.
    let dots = memchr::memchr_iter(b'.', &path.as_bytes()[name..]).filter(|dot| *dot > 0);
    dots.take(FORMAT_CUTS).map(move |dot| &path[..name + dot])
}

/// Returns a path in normal form without dots and parameters at the ends of its names and spaces at both ends; `None` where there are
/// none.
pub(super) fn bare(path: &str) -> Option<String> {
    let is_same = |name: &str| bare_name(name).len() == name.len();
    if path.split('/').all(is_same) {
        return None;
    }
    let names: Vec<&str> = path.split('/').map(bare_name).collect();
    Some(merged(&names.join("/")))
}

/// Returns a name without its ending and spaces before it; nothing is left of dots and spaces alone, but for a dot segment that some
/// origins keep.
fn bare_name(name: &str) -> &str {
    if matches!(name, "." | "..") {
        return name;
    }
    let mut rest = name.find(PARAMETER).map_or(name, |at| &name[..at]);
    while let Some(shorter) = rest.strip_suffix('.').or_else(|| rest.strip_suffix(SPACE)) {
        rest = shorter;
    }
    while let Some(shorter) = rest.strip_prefix(SPACE) {
        rest = shorter;
    }
    rest
}

/// Returns whether a name ends behind an escaped space, before `rest`.
pub(super) fn ends_in_space(rest: &[u8]) -> bool {
    matches!(rest, [] | [b'/' | b'.' | b'%', ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each ending is cut where an origin may cut it, and nothing else. Method: paths in normal form with the paths that remain.
    #[test]
    fn endings_are_cut() {
        for (path, short, before) in [
            ("/", None, &[][..]),
            ("/a/b", None, &[]),
            ("/a/b.json", None, &["/a/b"]),
            ("/a/b.json/", None, &["/a/b"]),
            ("/a.x/b", None, &[]),
            ("/a.b.c", None, &["/a", "/a.b"]),
            ("/.well-known", None, &[]),
            ("/.a.b", None, &["/.a"]),
            ("/a.", Some("/a"), &["/a"]),
            ("/a%20/b.%20.", Some("/a/b"), &["/a%20/b", "/a%20/b.%20"]),
            ("/a%3Bx%20/", Some("/a/"), &[]),
            ("/a%20b", None, &[]),
            ("/%20%20a/%20b%20c", Some("/a/b%20c"), &[]),
            ("/.../a/%20/%3Bx", Some("/a/"), &[]),
            ("/a/../.", None, &[]),
        ] {
            assert_eq!(bare(path).as_deref(), short, "{path}");
            assert_eq!(formats(path).collect::<Vec<_>>(), before, "{path}");
        }
    }

    /// Goal: a name of dots has a bounded cost. Method: ten thousand dots.
    #[test]
    fn formats_are_bounded() {
        let path = format!("/a{}b", ".x".repeat(10_000));
        assert_eq!(formats(&path).count(), FORMAT_CUTS);
    }
}
