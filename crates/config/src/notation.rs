//! Recognizes a text in the notation of another program, so that its author gets one sentence and not an error for each line.
//!
//! A text with the head of a table, `[limit.otp]`, is TOML with mistakes, unless its tables are those of Traefik. Other notations are
//! looked for only in a text that is not TOML.

use std::ops::Range;

use toml::de::Error;

use super::field::quoted;
use super::problem::{ParseError, SyntaxFault};
use super::source::SourceText;

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

/// Words that begin lines of HAProxy alone, by which a part of a section is known.
const HAPROXY_DIRECTIVES: [&str; 8] = [
    "acl",
    "bind",
    "default_backend",
    "http-request",
    "http-response",
    "stick-table",
    "tcp-request",
    "use_backend",
];

/// The words that begin the blocks of nginx.
const NGINX_BLOCKS: [&str; 11] = [
    "events",
    "geo",
    "http",
    "if",
    "limit_except",
    "location",
    "map",
    "server",
    "split_clients",
    "stream",
    "upstream",
];

/// Directives of a Caddyfile, by which one without braces is known.
const CADDY_DIRECTIVES: [&str; 13] = [
    "basic_auth",
    "encode",
    "file_server",
    "forward_auth",
    "handle",
    "handle_path",
    "import",
    "php_fastcgi",
    "rate_limit",
    "redir",
    "request_body",
    "respond",
    "reverse_proxy",
];

/// Keys that begin resources of Kubernetes, in which a text with the heads of tables may stand.
const RESOURCE_KEYS: [&str; 2] = ["apiVersion:", "kind:"];

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
    let word = first.split_whitespace().next()?;
    if *first == "---" || RESOURCE_KEYS.contains(&word) {
        return Some(Notation::Yaml);
    }
    if lines.iter().any(|line| is_table_head(line)) {
        return None;
    }
    if begins_nginx_block(lines) {
        return Some(Notation::Nginx);
    }
    if is_assignment(first) {
        return None;
    }
    let is_json = first.starts_with('{') && lines.iter().take(2).any(|line| line.contains("\":"));
    let begins_haproxy = HAPROXY_SECTIONS.contains(&word) || HAPROXY_DIRECTIVES.contains(&word);
    if is_json {
        Some(Notation::Json)
    } else if begins_haproxy && !first.ends_with(['{', ';', ':']) {
        Some(Notation::Haproxy)
    } else if is_yaml(first) {
        Some(Notation::Yaml)
    } else if consists_of_directives(lines) {
        Some(Notation::Nginx)
    } else {
        is_caddyfile(lines).then_some(Notation::Caddyfile)
    }
}

/// Returns whether the first line begins a block of nginx: `location = /status {`, `upstream app { server 10.0.0.1; }`.
fn begins_nginx_block(lines: &[&str]) -> bool {
    let Some((head, _)) = lines.first().and_then(|line| line.split_once('{')) else {
        return false;
    };
    let word = head.split_whitespace().next().unwrap_or_default();
    // The table `map = {…}` of TOML.
    let is_inline_table = head.trim_end().ends_with('=');
    let has_directive = || lines.iter().any(|line| line.contains(';'));
    NGINX_BLOCKS.contains(&word) && !is_inline_table && has_directive()
}

/// Returns whether most lines are directives of nginx, or begin or end blocks of them.
fn consists_of_directives(lines: &[&str]) -> bool {
    let code = |line: &&str| match line.split_once(" #") {
        Some((code, _)) => code.trim_end().to_owned(),
        None => (*line).to_owned(),
    };
    let code: Vec<String> = lines.iter().map(code).collect();
    let ends_in = |end: char| code.iter().filter(|line| line.ends_with(end)).count();
    ends_in(';') > 0 && 2 * (ends_in(';') + ends_in('{') + ends_in('}')) > lines.len()
}

/// Returns whether the first line begins the block of a site, or some line is a directive that Caddy alone has.
fn is_caddyfile(lines: &[&str]) -> bool {
    let is_directive = |line: &&str| {
        let word = line.split_whitespace().next();
        word.is_some_and(|word| CADDY_DIRECTIVES.contains(&word))
    };
    let begins_site = lines.first().is_some_and(|line| begins_site(line));
    (begins_site || lines.iter().any(is_directive)) && !lines.iter().any(|line| is_assignment(line))
}

/// Returns whether a line begins the block of a site or a snippet of a Caddyfile: `example.com, *.example.com {`, `:8080 {`, `(common) {`.
fn begins_site(line: &str) -> bool {
    let Some(addresses) = line.strip_suffix('{') else {
        return false;
    };
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*:/[]".contains(&byte);
    let is_address = |address: &str| {
        let is_plain = !address.is_empty() && address.bytes().all(is_part);
        is_plain && (address == "localhost" || address.contains(['.', ':']))
    };
    let is_snippet = |name: &str| name.starts_with('(') && name.ends_with(')');
    let addresses = addresses.trim();
    is_snippet(addresses) || addresses.split(',').map(str::trim).all(is_address)
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
            (
                "upstream app { server 127.0.0.1:3000; }\n",
                Some(Notation::Nginx),
            ),
            (
                "map $http_upgrade $connection {\n  default upgrade;\n  '' close;\n}\n",
                Some(Notation::Nginx),
            ),
            (
                "location = /x { # exact\n  return 204; # none\n}\n",
                Some(Notation::Nginx),
            ),
            (
                "location ~ \\.php$ { fastcgi_pass unix:/run/php.sock; }\n",
                Some(Notation::Nginx),
            ),
            (
                "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s; # x\n",
                Some(Notation::Nginx),
            ),
            (
                "backend app\n    server a 10.0.0.1:80 check\n",
                Some(Notation::Haproxy),
            ),
            (
                "    acl api path_beg /api\n    use_backend api if api\n",
                Some(Notation::Haproxy),
            ),
            (
                "example.com, *.example.com {\n\ttls internal\n}\n",
                Some(Notation::Caddyfile),
            ),
            ("(common) {\n\theader X-A b\n}\n", Some(Notation::Caddyfile)),
            (
                "http:\n  routers:\n    a:\n      rule: Host(`a`)\n",
                Some(Notation::Yaml),
            ),
            (
                "- \"traefik.http.routers.a.rule=Host(`a`)\"\n",
                Some(Notation::Yaml),
            ),
            (
                "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    [server]\n",
                Some(Notation::Yaml),
            ),
            ("map = {\n a = 1;\n}\n", None),
            ("server = 4;\n", None),
            ("include: [\"a\"]\n[[route]]\n", None),
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
