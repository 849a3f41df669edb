//! Removes unescaped dot segments, like servers that decode nothing: `path.normalize` of Node and `path.Clean` of Go on a raw
//! target, HAProxy's `normalize-uri path-strip-dotdot`.
//!
//! To them an escaped dot segment, or one with parameters, is a name, which a plain `..` removes: `/auth/%2e/../sendOTP` and
//! `/auth/.;/../sendOTP` are `/auth/sendOTP` after such a server, and `/sendOTP` for one that decodes and cuts first.

use super::spelling::DotDotRule;

/// Removes the plain dot segments of `path`; `None` where none of them can remove another dot segment. Separators are the slash
/// and those that `is_separator` accepts; unless `..` removes empty segments too, slashes are merged first.
pub(super) fn resolved(
    path: &str,
    climbs: DotDotRule,
    is_separator: fn(char) -> bool,
) -> Option<String> {
    let has_other_dots = || [";", "%2e", "%2E"].iter().any(|text| path.contains(text));
    if !path.split(is_separator).any(|segment| segment == "..") || !has_other_dots() {
        return None;
    }
    let mut stack: Vec<&str> = Vec::new();
    let mut is_open = false;
    for segment in path.split(is_separator).skip(1) {
        is_open = match segment {
            "." => true,
            ".." => {
                stack.pop();
                true
            }
            "" if climbs != DotDotRule::OverEmpty => true,
            _ => {
                stack.push(segment);
                false
            }
        };
    }
    if is_open {
        stack.push("");
    }
    Some(format!("/{}", stack.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: plain dots remove the segment before them, even if it is an escaped dot segment. Method: paths with both kinds of
    /// dots, with slashes merged and kept.
    #[test]
    fn an_escaped_dot_segment_is_a_name() {
        for (path, merged, kept) in [
            ("/a/%2e/../b", "/a/b", "/a/b"),
            ("//a/b/.%2e/..", "/a/b/", "//a/b/"),
            ("/a//../%2E/b", "/%2E/b", "/a/%2E/b"),
            ("/../%2e%2e/./..", "/", "/"),
        ] {
            let found = |climbs| resolved(path, climbs, |one| one == '/');
            assert_eq!(
                found(DotDotRule::Resolved).as_deref(),
                Some(merged),
                "{path}"
            );
            assert_eq!(
                found(DotDotRule::OverEmpty).as_deref(),
                Some(kept),
                "{path}"
            );
        }
        let backslash = resolved("/a\\%2e\\..\\b", DotDotRule::Resolved, |one| {
            matches!(one, '/' | '\\')
        });
        assert_eq!(backslash.as_deref(), Some("/a/b"));
        for path in ["/a/../b", "/a/%2e%2e/b", "/a/%2e/b..", "/a/%2e\\..\\b"] {
            assert_eq!(resolved(path, DotDotRule::Resolved, |one| one == '/'), None);
        }
    }
}
