//! Models the parsers of common origins, and compares each with the readings of a path.
//!
//! The models are written from the parsers' sources and standards, in their own order of steps; tests/e2e/frameworks runs the
//! real ones.

use sluicegate_base::received::ReceivedFields;

use super::*;

const LIMITED: &str = "/auth/sendOTP";

/// A parser that returns the path of a target; `None` where it fails.
type Parser = fn(&str) -> Option<String>;

const PARSERS: [(&str, Parser); 34] = [
    ("the target up to its query", |target| {
        Some(path_of(target).to_owned())
    }),
    ("URL(target, base)", |target| {
        Some(whatwg(path_of(target), true))
    }),
    ("URL(host + target)", |target| {
        Some(whatwg(path_of(target), false))
    }),
    ("url.parse(target)", |target| {
        Some(path_of(target).replace('\\', "/"))
    }),
    ("url.parse(target, false, true)", |target| {
        Some(behind_authority(&path_of(target).replace('\\', "/")))
    }),
    ("parse_url, urlsplit, RFC 3986", |target| {
        Some(behind_authority(path_of(target)))
    }),
    ("a second URL(path, base)", |target| {
        Some(whatwg(&whatwg(path_of(target), true), true))
    }),
    ("path.normalize, path.Clean", |target| {
        Some(resolved(path_of(target), '/'))
    }),
    ("path.win32.normalize", |target| {
        Some(resolved(&path_of(target).replace('\\', "/"), '/'))
    }),
    ("HAProxy before nginx", |target| {
        let path = removed_dots(path_of(target));
        Some(resolved(&decoded(&path), '/'))
    }),
    ("HAProxy before a servlet", |target| {
        let path = without_parameters(&removed_dots(path_of(target)));
        Some(resolved(&decoded(&path), '/'))
    }),
    ("nginx", |target| {
        Some(resolved(&decoded(path_of(target)), '/'))
    }),
    ("nginx without merge_slashes", |target| {
        Some(removed_dots(&decoded(path_of(target))))
    }),
    ("servlet", |target| {
        Some(resolved(
            &decoded(&without_parameters(path_of(target))),
            '/',
        ))
    }),
    ("servlet with backslashes", |target| {
        Some(resolved(
            &decoded(&without_parameters(path_of(target))).replace('\\', "/"),
            '/',
        ))
    }),
    ("Fastify", |target| {
        Some(decoded(path_of(target).split(';').next()?))
    }),
    ("Bottle", |target| {
        let bytes = decoded_bytes(path_of(target));
        Some(bytes.utf8_chunks().map(|chunk| chunk.valid()).collect())
    }),
    ("URLMap", |target| Some(merged(path_of(target)))),
    ("IIS", |target| {
        let path = resolved(&decoded(path_of(target)).replace('\\', "/"), '/');
        let kept = path
            .split('/')
            .filter(|segment| !(segment.starts_with("(S(") && segment.ends_with("))")));
        Some(kept.collect::<Vec<_>>().join("/"))
    }),
    ("names of files on Windows", |target| {
        let path = resolved(&decoded(path_of(target)).replace('\\', "/"), '/');
        let names = path
            .split('/')
            .map(|name| name.trim_end_matches(['.', ' ']));
        Some(names.collect::<Vec<_>>().join("/"))
    }),
    ("Rails", |target| {
        let path = merged(path_of(target));
        let path = path.trim_end_matches('/');
        let (name, format) = path.rsplit_once('.')?;
        let is_format = !format.is_empty() && !format.contains('/') && !name.ends_with('/');
        // It decodes nothing of a route's name, and nobody behind it does.
        (is_format && !name.contains('%')).then(|| name.to_owned())
    }),
    ("PATH_INFO", |target| {
        let path = resolved(&decoded(path_of(target)), '/');
        let mut scripts = ["/index.php/", "/a.php/"].into_iter();
        let (_, rest) = scripts.find_map(|script| path.split_once(script))?;
        Some(format!("/{rest}"))
    }),
    ("CodeIgniter", |target| {
        in_query(target, "", |path| path.to_owned())
    }),
    ("CodeIgniter behind nginx", |target| {
        in_query(target, "", |path| resolved(&decoded(path), '/'))
    }),
    ("CodeIgniter behind IIS", |target| {
        in_query(target, "", |path| {
            resolved(&decoded(path).replace('\\', "/"), '/')
        })
    }),
    ("CodeIgniter behind a URL reference", |target| {
        in_query(target, "", behind_authority)
    }),
    ("CodeIgniter below /auth", |target| {
        in_query(target, "/auth", |path| resolved(&decoded(path), '/'))
    }),
    ("PATH_INFO below /auth", |target| {
        let path = resolved(&decoded(path_of(target)), '/');
        let rest = path.strip_prefix("/auth/index.php/")?;
        Some(format!("/auth/{rest}"))
    }),
    ("Laravel", |target| {
        let path = decoded(path_of(target));
        let path = path.strip_prefix("/index.php").unwrap_or(&path);
        Some(format!("/{}", path.trim_start_matches('/')))
    }),
    ("Laravel below /x", |target| {
        let path = decoded(path_of(target));
        let path = path.strip_prefix("/x/index.php")?;
        Some(format!("/{}", path.trim_start_matches('/')))
    }),
    ("CodeIgniter 3", |target| {
        let path = path_of(target);
        let path = path.strip_prefix("/index.php").unwrap_or(path);
        Some(without_empty_names(path, &[".."]))
    }),
    ("CodeIgniter by PATH_INFO", |target| {
        let path = resolved(&decoded(path_of(target)), '/');
        let (_, rest) = path.split_once("/index.php/")?;
        Some(without_empty_names(path_of(rest), &[]))
    }),
    ("parse_url(urldecode(target))", |target| {
        Some(path_of(&decoded(path_of(target))).to_owned())
    }),
    ("RewriteRule ^(.*)$ index.php?url=$1", |target| {
        let path = resolved(&decoded(path_of(target)), '/');
        let value = path
            .rsplit('&')
            .find_map(|piece| piece.strip_prefix("r="))?;
        Some(format!("/{}", value.trim_start_matches('/')))
    }),
];

fn path_of(target: &str) -> &str {
    target.split(['?', '#']).next().unwrap_or_default()
}

/// Returns the names of a path that are left of blanks at their ends, but for `dropped`.
fn without_empty_names(path: &str, dropped: &[&str]) -> String {
    let kept = path
        .split('/')
        .filter(|name| !dropped.contains(name))
        .map(|name| name.trim_matches(' '))
        .filter(|name| !name.is_empty());
    format!("/{}", kept.collect::<Vec<_>>().join("/"))
}

/// Returns the path that an application served at `base` finds in its query, where nothing of the path is left after the base
/// and its script.
fn in_query(target: &str, base: &str, read: fn(&str) -> String) -> Option<String> {
    let (path, query) = target.split_once('?')?;
    let path = read(path);
    let left = path.strip_prefix(base)?;
    let left = left.strip_prefix("/index.php").unwrap_or(left);
    let path_in_query = query.split('&').next()?.split('?').next()?;
    let is_found = left.trim_matches('/').is_empty() && path_in_query.starts_with('/');
    is_found.then(|| format!("{base}{}", merged(&decoded(path_in_query))))
}

/// Implements WHATWG URL §4.4, from "relative state" on for a special scheme; hosts are not checked.
fn whatwg(path: &str, is_reference: bool) -> String {
    let is_slash = |character| matches!(character, '/' | '\\');
    let has_authority = is_reference
        && path
            .chars()
            .take(2)
            .filter(|character| is_slash(*character))
            .count()
            == 2;
    let path = if has_authority {
        let rest = path.trim_start_matches(is_slash);
        &rest[rest.find(is_slash).unwrap_or(rest.len())..]
    } else {
        path
    };
    let path = path.strip_prefix(is_slash).unwrap_or(path);
    let mut stack = Vec::new();
    let segments: Vec<&str> = path.split(is_slash).collect();
    for (at, segment) in segments.iter().enumerate() {
        let is_last = at + 1 == segments.len();
        match segment.to_ascii_lowercase().replace("%2e", ".").as_str() {
            ".." => {
                stack.pop();
                stack.extend(is_last.then_some(""));
            }
            "." => stack.extend(is_last.then_some("")),
            _ => stack.push(segment),
        }
    }
    format!("/{}", stack.join("/"))
}

/// Returns the part after the authority of a reference that has one, RFC 3986 §3.
fn behind_authority(path: &str) -> String {
    match path.strip_prefix("//") {
        Some(rest) => rest[rest.find('/').unwrap_or(rest.len())..].to_owned(),
        None => path.to_owned(),
    }
}

/// Merges separators, then resolves dots.
fn resolved(path: &str, separator: char) -> String {
    let mut stack = Vec::new();
    for segment in path.split(separator) {
        match segment {
            "" | "." => {}
            ".." => drop(stack.pop()),
            _ => stack.push(segment),
        }
    }
    format!("/{}", stack.join("/"))
}

/// Removes dot segments, RFC 3986 §5.2.4.
fn removed_dots(path: &str) -> String {
    let mut stack = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(stack.pop()),
            _ => stack.push(segment),
        }
    }
    format!("/{}", stack.join("/"))
}

fn without_parameters(path: &str) -> String {
    let cut = path
        .split('/')
        .map(|segment| segment.split(';').next().unwrap_or_default());
    cut.collect::<Vec<_>>().join("/")
}

fn merged(path: &str) -> String {
    let mut merged = path.to_owned();
    while merged.contains("//") {
        merged = merged.replace("//", "/");
    }
    merged
}

fn decoded(path: &str) -> String {
    String::from_utf8_lossy(&decoded_bytes(path)).into_owned()
}

fn decoded_bytes(path: &str) -> Vec<u8> {
    let bytes = path.as_bytes();
    let mut plain = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let escaped = path.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 3;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    plain
}

/// Generates the text between the pieces of the limited path.
fn noise() -> impl Strategy<Value = String> {
    let pieces = [
        "/",
        "/",
        "/",
        "\\",
        "%2f",
        "%5C",
        "..",
        ".",
        "%2e%2E",
        ".%2e",
        "/..",
        "/.%2e",
        "/.;",
        ";",
        ";x",
        "x",
        "x:80",
        "u@h",
        "@",
        "%252f",
        "%252e",
        "%3b",
        "index.php",
        "a.php",
        "(S(x))",
        "(S(",
        "))",
        "%61",
        "%FF",
        "%C3",
        "%20",
        ".json",
        "auth",
        "sendOTP",
        "%3f",
        "%23",
        "?",
        "&",
        "%26r=",
        "http:",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..5)
        .prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn no_parser_finds_the_limited_path_where_its_route_is_not(
        (before, between, behind) in (noise(), noise(), noise()),
        is_plain_between: bool,
    ) {
        // Goal: a target that some parser takes for the limited path has its limit, or is rejected. Method: targets that are
        // mostly that path, and every parser alone, and decoded again as often as servers may follow each other.
        let between = if is_plain_between { "/" } else { &between };
        let target = format!("/{before}/auth{between}sendOTP{behind}").replace("/?/", "?/");
        let mut rules = [route(None, &[], LIMITED), route(None, &[], "/*")];
        rules[1].limits.clear();
        let Ok(path) = NormalPath::parse(&target) else { return Ok(()) };
        let found = RouteTable::compile(&rules, USUAL_BODY).find("", &path, &asked(&Method::POST, &ReceivedFields::new()));
        if matches!(found, Err(_) | Ok(Some(0))) {
            return Ok(());
        }
        for (name, parser) in PARSERS {
            let mut reading = parser(&target);
            for decodings in 0..3 {
                let is_limited = reading.as_ref().is_some_and(|path| path.trim_end_matches('/') == LIMITED);
                prop_assert!(!is_limited, "{} reads {target:?} as {reading:?}, decoded {decodings} times", name);
                reading = reading.map(|path| decoded(&path));
            }
        }
    }
}
