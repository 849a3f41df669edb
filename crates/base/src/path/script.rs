//! Finds names of scripts in a path: `/index.php/auth/sendOTP` is `/auth/sendOTP` for the application behind the script, and the
//! script for its server.
//!
//! RFC 3875 §4.1.5: the part after the name of a CGI script is its `PATH_INFO`, whatever the script makes of it. Servers find
//! the name by its ending; some take the first in a path and others the last. The bare name of a front controller is the root of
//! its application.

/// The endings of script names on servers, in lower case.
pub const ENDINGS: [&str; 19] = [
    "php", "php3", "php4", "php5", "php7", "php8", "phtml", "phar", "cgi", "fcgi", "pl", "py",
    "wsgi", "rb", "asp", "aspx", "ashx", "cfm", "dll",
];

/// Names of scripts that serve a whole application, without their ending.
pub const FRONT_CONTROLLERS: [&str; 6] = ["index", "app", "app_dev", "default", "main", "dispatch"];

/// A path in normal form, cut after the name of a script.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ScriptCut<'a> {
    /// The part up to the script.
    pub(super) script: &'a str,
    /// The path after it; `None` where there is none.
    pub(super) rest: Option<&'a str>,
    /// True if the name is one that front controllers have.
    pub(super) is_front_controller: bool,
}

/// Cuts a path in normal form after its first script and after its last; yields nothing where it names none.
pub(super) fn cuts(path: &str) -> impl Iterator<Item = ScriptCut<'_>> {
    let first = all_cuts(path).next();
    let last = all_cuts(path).last().filter(|last| Some(*last) != first);
    first.into_iter().chain(last)
}

/// Returns whether a path in normal form ends with the name of a front controller that serves `served`: the root, or its own folder.
pub(super) fn is_index_of(path: &str, served: &str) -> bool {
    let is_index = |cut: ScriptCut<'_>| cut.rest.is_none() && cut.is_front_controller;
    let is_folder = served.strip_suffix('/') == Some(folder(path));
    (served == "/" || is_folder) && cuts(path).any(is_index)
}

fn all_cuts(path: &str) -> impl Iterator<Item = ScriptCut<'_>> {
    let ends = memchr::memchr_iter(b'/', path.as_bytes())
        .skip(1)
        .chain([path.len()]);
    let mut start = 0;
    ends.filter_map(move |end| {
        let segment = path.get(start + 1..end).unwrap_or_default();
        start = end;
        let (name, ending) = segment.rsplit_once('.')?;
        is_ending(ending.as_bytes()).then(|| ScriptCut {
            script: &path[..end],
            rest: (end < path.len()).then(|| &path[end..]),
            is_front_controller: FRONT_CONTROLLERS
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name)),
        })
    })
}

/// Yields the parts of a path in normal form behind each name of a front controller that no slash ends, as `auth` of `/index.phpauth`.
///
/// Symfony and Laravel (`getUrlencodedPrefix`), Slim, CodeIgniter 3 and Yii compare the beginning of a path with the script's, and a server
/// leads every path without a file to that script.
pub(super) fn glued(path: &str) -> impl Iterator<Item = &str> {
    memchr::memchr_iter(b'.', path.as_bytes()).flat_map(|dot| {
        let start = path[..dot].rfind('/').map_or(0, |slash| slash + 1);
        let rest = &path[dot + 1..];
        let endings = glued_endings(&path.as_bytes()[start..dot], rest.as_bytes());
        endings.map(|ending| &rest[ending..])
    })
}

/// Returns whether a name before a dot, with what follows the dot, begins with the name of a front controller that goes on.
pub(super) fn begins_glued(name: &[u8], rest: &[u8]) -> bool {
    glued_endings(name, rest).next().is_some()
}

/// Yields the length of each ending that `rest` goes on behind, where `name` is a front controller's; nothing for the name of a script.
fn glued_endings(name: &[u8], rest: &[u8]) -> impl Iterator<Item = usize> {
    let is_front_controller = FRONT_CONTROLLERS
        .iter()
        .any(|known| known.as_bytes().eq_ignore_ascii_case(name));
    let segment = memchr::memchr(b'/', rest).map_or(rest, |slash| &rest[..slash]);
    let endings = is_front_controller
        .then_some(ENDINGS)
        .filter(|_| !is_ending(segment));
    endings.into_iter().flatten().filter_map(move |ending| {
        let begin = segment.get(..ending.len())?;
        begin
            .eq_ignore_ascii_case(ending.as_bytes())
            .then_some(ending.len())
    })
}

/// Returns whether a name with this ending, the part after its last dot, is a script's.
pub(super) fn is_ending(ending: &[u8]) -> bool {
    ENDINGS
        .iter()
        .any(|known| known.as_bytes().eq_ignore_ascii_case(ending))
}

/// Returns a path without the segments in which ASP.NET keeps the data that others keep in cookies, as `/(S(x))/a`; `None` where
/// it has none.
///
/// They are recognized by their beginning, since their value may contain a `;`, where the normal form has cut them.
pub(super) fn without_cookieless_segments(path: &str) -> Option<String> {
    let is_cookieless = |segment: &&str| matches!(segment.as_bytes(), [b'(', tag, b'(', ..] if tag.is_ascii_alphabetic());
    if !path.split('/').any(|segment| is_cookieless(&segment)) {
        return None;
    }
    let kept: Vec<&str> = path
        .split('/')
        .filter(|segment| !is_cookieless(segment))
        .collect();
    let path = kept.join("/");
    Some(if path.is_empty() {
        "/".to_owned()
    } else {
        path
    })
}

/// Returns the path that a query begins with, as CodeIgniter reads it in `/index.php?/auth/sendOTP`; `None` where it begins with
/// none.
pub(super) fn path_in_query(query: &str) -> Option<&str> {
    let end = query.find(['&', '?', '#']).unwrap_or(query.len());
    query.starts_with('/').then(|| &query[..end])
}

/// Returns whether an application may look for its route in the query of `path`: where that is the root or ends in a script.
pub(super) fn leaves_path_to_query(path: &str) -> bool {
    path == "/" || all_cuts(path).any(|cut| matches!(cut.rest, None | Some("/")))
}

/// Returns the folder of the application that `path` leads to: without the name of a front controller and the slash at the end.
pub(super) fn folder(path: &str) -> &str {
    let path = path.strip_suffix('/').unwrap_or(path);
    match all_cuts(path).last() {
        Some(cut) if cut.is_front_controller && cut.rest.is_none() => {
            &path[..path.rfind('/').unwrap_or_default()]
        }
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the first and the last script are found, and no others. Method: paths with several names.
    #[test]
    fn a_path_is_cut_behind_its_scripts() {
        let all = |path| -> Vec<_> { cuts(path).map(|cut| (cut.script, cut.rest)).collect() };
        assert!(all("/a/b.html/c").is_empty());
        assert_eq!(all("/index.php"), [("/index.php", None)]);
        assert_eq!(all("/a/x.PHP/b/"), [("/a/x.PHP", Some("/b/"))]);
        assert_eq!(
            all("/a.php/b.cgi/c.pl/d"),
            [
                ("/a.php", Some("/b.cgi/c.pl/d")),
                ("/a.php/b.cgi/c.pl", Some("/d"))
            ]
        );
    }

    /// Goal: a path goes on behind the name of a front controller without a slash, and behind no other name. Method: paths of each kind.
    #[test]
    fn a_front_controller_may_be_glued_to_a_path() {
        let all = |path| glued(path).collect::<Vec<_>>();
        assert_eq!(all("/index.phpauth/b"), ["auth/b"]);
        assert_eq!(all("/x/INDEX.php5auth.v1"), ["5auth.v1", "auth.v1"]);
        assert_eq!(
            all("/app.phpa/main.cgib/index.pyc"),
            ["a/main.cgib/index.pyc", "b/index.pyc", "c"]
        );
        for path in [
            "/index.php",
            "/index.php/a",
            "/index.php5/a",
            "/default.aspx",
            "/xindex.phpa",
            "/index.html",
            "/a.phpb",
        ] {
            assert!(all(path).is_empty(), "{path}");
        }
        assert!(begins_glued(b"index", b"phpa/b") && !begins_glued(b"index", b"php/b"));
    }

    #[test]
    fn a_query_is_a_path_at_the_root_and_behind_scripts() {
        for (query, found) in [
            ("/a/b&c=d", Some("/a/b")),
            ("/a?b", Some("/a")),
            ("/a", Some("/a")),
            ("a=/b", None),
            ("", None),
        ] {
            assert_eq!(path_in_query(query), found, "{query}");
        }
        for (path, leaves_it, its_folder) in [
            ("/", true, ""),
            ("/x/index.php", true, "/x"),
            ("/index.php/", true, ""),
            ("/x/y.php", true, "/x/y.php"),
            ("/index.php/b", false, "/index.php/b"),
            ("/x/", false, "/x"),
            ("/x", false, "/x"),
        ] {
            assert_eq!(leaves_path_to_query(path), leaves_it, "{path}");
            assert_eq!(folder(path), its_folder, "{path}");
        }
    }

    #[test]
    fn cookieless_segments_vanish() {
        let path = without_cookieless_segments("/(S(lit3py55))/a/(A(x)F(y))");
        assert_eq!(path.as_deref(), Some("/a"));
        let cut = without_cookieless_segments("/(S(lit/a");
        assert_eq!(cut.as_deref(), Some("/a"));
        assert_eq!(without_cookieless_segments("/a/(b)"), None);
    }
}
