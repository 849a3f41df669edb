//! Finds the path that an application reads after a server before it has decoded the path, and made another URL of it.
//!
//! | as sent | is also | for |
//! |---|---|---|
//! | `/a%3Fx`, `/a%23x` | `/a` | CodeIgniter 4 by `PATH_INFO`, `parse_url(urldecode($uri))`, rewriting by Apache or nginx |
//! | `/x&url=a/b`, `/x%26url=a/b` | `/a/b` | applications behind `RewriteRule ^(.*)$ index.php?url=$1`, for which the last copy counts |

/// Returns whether this character ends the path of a URL.
pub(super) fn is_end(byte: u8) -> bool {
    matches!(byte, b'?' | b'#')
}

/// Returns the part of a path up to the first escaped character that ends one; `None` where there is none.
pub(super) fn before_end(path: &str) -> Option<&str> {
    let mut escapes = memchr::memchr_iter(b'%', path.as_bytes());
    let end = escapes.find(|at| {
        matches!(
            path.as_bytes().get(at + 1..at + 3),
            Some(b"3F" | b"3f" | b"23")
        )
    })?;
    Some(if end == 0 { "/" } else { &path[..end] })
}

/// Yields the values of the parameters that a path has behind its first `&`, escaped or not.
pub(super) fn parameters(path: &str) -> impl Iterator<Item = &str> {
    let plain = path.split('&');
    let pieces = plain.flat_map(|piece| piece.split("%26")).skip(1);
    pieces.filter_map(|piece| {
        let signs = ["=", "%3D", "%3d"];
        let cuts = signs.iter().filter_map(|sign| piece.split_once(sign));
        let (_, value) = cuts.min_by_key(|(name, _)| name.len())?;
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a path ends at its first escaped end, however that is written. Method: paths with one, several and none.
    #[test]
    fn a_path_ends_at_an_escaped_end() {
        for (path, before) in [
            ("/a%3Fx/y", Some("/a")),
            ("/a%23%3fx", Some("/a")),
            ("/a/%3f", Some("/a/")),
            ("/a%253Fx", None),
            ("/a%2", None),
            ("/a", None),
        ] {
            assert_eq!(before_end(path), before, "{path}");
        }
    }

    /// Goal: every parameter of such a query is found. Method: paths with several and none.
    #[test]
    fn parameters_follow_an_ampersand() {
        let all = |path| parameters(path).collect::<Vec<_>>();
        assert_eq!(all("/x&url=a/b&c&d=/e=f"), ["a/b", "/e=f"]);
        assert_eq!(all("/x%26url%3da%3Db=c%26&d%3D="), ["a%3Db=c", "="]);
        assert!(all("/r&d").is_empty());
        assert!(all("/a=b").is_empty());
    }
}
