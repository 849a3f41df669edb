//! Recognizes a text in the notation of another program, so that its author gets one sentence and not an error for each line.
//!
//! A text with the head of a table, `[limit.otp]`, is TOML with mistakes, unless its tables are those of Traefik. Other notations are
//! looked for only in a text that is not TOML.

use std::ops::Range;

use toml::de::Error;

use super::field::quoted;
use super::problem::ParseError;
use super::source::SourceText;
use super::syntax::SyntaxFault;

/// Notations of other configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    Nginx,
    Haproxy,
    Caddyfile,
    /// TOML with the tables of Traefik.
    Traefik,
    Yaml,
    Json,
}

/// The words that begin the sections of HAProxy.
const HAPROXY_SECTIONS: [&str; 19] = [
    "backend",
    "cache",
    "crt-store",
    "defaults",
    "fcgi-app",
    "frontend",
    "global",
    "http-errors",
    "listen",
    "log-forward",
    "mailers",
    "peers",
    "program",
    "resolvers",
    "ring",
    "traces",
    "userlist",
    "acme",
    "log-profile",
];

/// Directives of a Caddyfile, by which one without braces is known.
const CADDY_DIRECTIVES: [&str; 8] = [
    "encode",
    "file_server",
    "handle",
    "import",
    "php_fastcgi",
    "redir",
    "respond",
    "reverse_proxy",
];

/// Names of the tables of Traefik, in lower case.
const TRAEFIK_TABLES: [&str; 13] = [
    "certificatesresolvers",
    "entrypoints",
    "http.middlewares",
    "http.routers",
    "http.services",
    "providers",
    "tcp.routers",
    "tcp.services",
    "tls.certificates",
    "tls.options",
    "tls.stores",
    "udp.routers",
    "udp.services",
];

/// The tables without which a configuration of the gateway is none.
const OWN_TABLES: [&str; 4] = ["limit", "listener", "origin", "route"];

/// Returns the fault of a text in another notation, at its first line; `None` where it may be a configuration. `errors` are those of the
/// TOML parser.
pub(super) fn fault(source: &SourceText<'_>, errors: &[Error]) -> Option<SyntaxFault> {
    let lines: Vec<&str> = significant_lines(source.text).collect();
    let notation = match is_traefik(&lines) {
        true => Notation::Traefik,
        false if errors.is_empty() => return None,
        false => detect(&lines)?,
    };
    Some(SyntaxFault {
        span: first_line(source.text)?,
        mistake: mistake(notation, &source.file(0)),
        hides_the_rest: true,
    })
}

fn mistake(notation: Notation, file: &str) -> ParseError {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    let file = match file {
        "<stdin>" => "-".to_owned(),
        plain if plain.bytes().all(is_plain) => plain.to_owned(),
        other => quoted(other),
    };
    let message = match notation {
        Notation::Nginx => "this is a configuration of nginx, not TOML",
        Notation::Haproxy => "this is a configuration of HAProxy, not TOML",
        Notation::Caddyfile => "this is a Caddyfile, not TOML",
        Notation::Traefik => "this is a configuration of Traefik",
        Notation::Yaml => "this is YAML, not TOML",
        Notation::Json => "this is JSON, not TOML",
    };
    let advice = match notation {
        Notation::Nginx | Notation::Haproxy | Notation::Caddyfile | Notation::Traefik => {
            format!("translate it with `sluicegate import {file}`, and check the result")
        }
        Notation::Yaml | Notation::Json => format!(
            "translate Ingress resources and configurations of Traefik with `sluicegate import {file}`; \
             a configuration of Sluicegate begins with [[listener]]"
        ),
    };
    ParseError::with_advice(message, advice)
}

/// Returns the lines that say something, without the white space around them.
fn significant_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(trimmed)
        .filter(|line| is_significant(line))
}

/// Returns the place of the first line that says something.
fn first_line(text: &str) -> Option<Range<usize>> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if is_significant(trimmed(line)) {
            return Some(start..start + line.trim_end().len());
        }
        start += line.len();
    }
    None
}

/// Returns a line without the white space around it and the mark of Unicode before it.
fn trimmed(line: &str) -> &str {
    line.trim_start_matches('\u{feff}').trim()
}

fn is_significant(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

fn detect(lines: &[&str]) -> Option<Notation> {
    let first = lines.first()?;
    let is_toml = lines.iter().any(|line| is_table_head(line)) || is_assignment(first);
    if is_toml {
        return None;
    }
    let word = first.split_whitespace().next()?;
    let ends_in = |end: char| lines.iter().filter(|line| line.ends_with(end)).count();
    let is_json = first.starts_with('{') && lines.iter().take(2).any(|line| line.contains("\":"));
    if is_json {
        Some(Notation::Json)
    } else if HAPROXY_SECTIONS.contains(&word) && !first.ends_with(['{', ';', ':']) {
        Some(Notation::Haproxy)
    } else if *first == "---" || is_yaml(first) {
        Some(Notation::Yaml)
    } else if ends_in(';') > 0 && 2 * (ends_in(';') + ends_in('{') + ends_in('}')) > lines.len() {
        Some(Notation::Nginx)
    } else {
        let begins_directive = |line: &&str| {
            let word = line.split_whitespace().next();
            word.is_some_and(|word| CADDY_DIRECTIVES.contains(&word))
        };
        let is_caddy =
            lines.iter().any(begins_directive) && !lines.iter().any(|line| is_assignment(line));
        is_caddy.then_some(Notation::Caddyfile)
    }
}

/// Returns whether tables of Traefik stand in a text, and none of the gateway.
fn is_traefik(lines: &[&str]) -> bool {
    let begins_with = |line: &str, names: &[&str]| {
        let name = table_name(line).unwrap_or_default().to_ascii_lowercase();
        let rests = names.iter().filter_map(|known| name.strip_prefix(known));
        rests
            .into_iter()
            .any(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let has = |names: &[&str]| lines.iter().any(|line| begins_with(line, names));
    has(&TRAEFIK_TABLES) && !has(&OWN_TABLES)
}

/// Returns whether a line is the head of a table: `[limit.otp]`, `[[route]]`.
fn is_table_head(line: &str) -> bool {
    table_name(line).is_some()
}

/// Returns the name of a table, of which a line is the head.
fn table_name(line: &str) -> Option<&str> {
    let line = line.split('#').next().unwrap_or_default().trim_end();
    let inside = line.strip_prefix('[')?.strip_suffix(']')?;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-. []\"'".contains(&byte);
    let is_name = !inside.is_empty() && inside.bytes().all(is_part);
    is_name.then(|| inside.trim_matches(['[', ']', ' ']))
}

/// Returns whether a line begins with a key of TOML and `=`.
fn is_assignment(line: &str) -> bool {
    let Some((key, _)) = line.split_once('=') else {
        return false;
    };
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.\"'".contains(&byte);
    let key = key.trim_end();
    !key.is_empty() && key.bytes().all(is_part)
}

/// Returns whether a line is an element of a list of YAML, or a key with a colon.
fn is_yaml(line: &str) -> bool {
    if line.starts_with("- ") {
        return true;
    }
    let key = match line.split_once(": ") {
        Some((key, _)) => Some(key),
        None => line.strip_suffix(':'),
    };
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./\"'".contains(&byte);
    key.is_some_and(|key| !key.is_empty() && key.bytes().all(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notation(text: &str) -> Option<Notation> {
        let lines: Vec<&str> = significant_lines(text).collect();
        detect(&lines)
    }

    /// Goal: TOML of Traefik is known by its tables, and a mistake in a file of the gateway is no such. Method: static and dynamic files,
    /// and tables of the gateway beside one that could be Traefik's.
    #[test]
    fn toml_of_traefik_is_known() {
        for (text, expected) in [
            ("[entryPoints.web]\naddress = \":80\"\n", true),
            ("[log]\nlevel = \"INFO\"\n[[tls.certificates]]\n", true),
            ("[http.routers.a]\n  rule = \"Path(`/`)\"\n", true),
            ("[http]\n  [http.routers] # x\n", true),
            ("[[listener]]\n[tls.certificates]\n", false),
            ("[limit.x]\n[http.routers.a]\n", false),
            ("[httpx]\n[entrypoints2]\n", false),
            ("[log]\nlevel = \"x\"\n", false),
        ] {
            let lines: Vec<&str> = significant_lines(text).collect();
            assert_eq!(is_traefik(&lines), expected, "{text}");
        }
    }

    /// Goal: each notation is known by its own signs, and TOML with mistakes is none of them. Method: small files of each.
    #[test]
    fn notations_are_told_apart() {
        for (text, expected) in [
            (
                "user www;\nhttp {\n  server {\n    listen 80;\n  }\n}\n",
                Some(Notation::Nginx),
            ),
            (
                "upstream app { server 127.0.0.1:3000; }\nserver {\n  listen 80;\n}\n",
                Some(Notation::Nginx),
            ),
            (
                "# x\nglobal\n    maxconn 100\ndefaults\n    mode http\n",
                Some(Notation::Haproxy),
            ),
            (
                "resolvers dns\n    nameserver a 10.0.0.1:53\n",
                Some(Notation::Haproxy),
            ),
            (
                "example.com {\n\treverse_proxy localhost:3000\n}\n",
                Some(Notation::Caddyfile),
            ),
            (
                "{\n\temail a@b.test\n}\n:8080 {\n\trespond \"x\"\n}\n",
                Some(Notation::Caddyfile),
            ),
            (
                "example.com\n\nreverse_proxy :9000\n",
                Some(Notation::Caddyfile),
            ),
            ("apiVersion: v1\nkind: Ingress\n", Some(Notation::Yaml)),
            ("---\nhttp:\n  routers:\n", Some(Notation::Yaml)),
            ("{\n  \"apps\": {}\n}\n", Some(Notation::Json)),
            ("[[listener]]\naddress: \"x\"\n", None),
            ("listener = [{ address: 'x' }]\n", None),
            ("threads = 4;\n", None),
            ("[server] # x\nthreads = 4;\nx = 5;\n", None),
            ("'''", None),
            ("", None),
            ("resource \"a\" \"b\" {\n  x = 1\n}\n", None),
        ] {
            assert_eq!(notation(text), expected, "{text}");
        }
    }
}
