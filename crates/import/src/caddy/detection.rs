//! Recognizes a Caddyfile by its first lines.

/// Directives that sites without braces begin with.
const DIRECTIVES: [&str; 16] = [
    "basic_auth",
    "bind",
    "encode",
    "file_server",
    "handle",
    "handle_path",
    "header",
    "import",
    "log",
    "php_fastcgi",
    "redir",
    "respond",
    "reverse_proxy",
    "root",
    "route",
    "tls",
];

/// Returns true if a text begins with global options, a snippet, an import, or the address of a site.
pub(crate) fn begins(text: &str) -> bool {
    let mut lines = text
        .trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let Some(first) = lines.next() else {
        return false;
    };
    let second = lines.next().unwrap_or_default();
    if first == "{" {
        // JSON has the name of a member in quotes.
        return !second.is_empty() && !second.starts_with(['"', '{', '[', '\'']);
    }
    if first.ends_with(';') {
        return false;
    }
    let head = first.strip_suffix('{').map(str::trim_end);
    let words: Vec<&str> = head.unwrap_or(first).split_whitespace().collect();
    let is_snippet = |word: &str| {
        let inside = word.trim_start_matches('&').strip_prefix('(');
        inside.is_some_and(|it| it.ends_with(')'))
    };
    match words.as_slice() {
        ["import", _, ..] => true,
        [name] if is_snippet(name) => head.is_some(),
        [] => false,
        words => {
            let continues = head.is_some() || first.ends_with(',');
            let word = second.split_whitespace().next().unwrap_or_default();
            let is_directive = word.starts_with('@') || DIRECTIVES.contains(&word);
            words.iter().all(|word| is_address(word)) && (continues || is_directive)
        }
    }
}

/// Returns true for a word that can be the address of a site, and is no directive of nginx.
fn is_address(word: &str) -> bool {
    let word = word.trim_end_matches(',');
    let host = word.split_once("://").map_or(word, |(_, host)| host);
    let is_part = |c: char| c.is_alphanumeric() || ".-_*:[]{}$/".contains(c);
    let is_named = word.contains("://")
        || host.starts_with("{$")
        || host.starts_with("localhost")
        || host.contains('.')
        || host
            .split_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    host.chars().all(is_part) && is_named && !word.ends_with(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: Caddyfiles are recognized, and files of others are not taken for them. Method: first lines of each kind.
    #[test]
    fn caddyfiles_are_recognized() {
        for text in [
            "# x\n{\n\temail a@b.test\n}\n",
            "(snippet) {\n\tencode gzip\n}\n",
            "example.com {\n}\n",
            "example.com\n\nreverse_proxy :3000\n",
            ":80 {\n",
            ":2015\nrespond hi\n",
            "localhost {\n",
            "http://a.test, http://b.test {\n",
            "a.test,\nb.test {\n",
            "{$DOMAIN} {\n",
            "*.example.com:8443 {\n",
            "import sites/*\n",
        ] {
            assert!(begins(text), "{text}");
        }
        for text in [
            "server {\n listen 80;\n}\n",
            "user www;\n",
            "{\n  \"apps\": {}\n}\n",
            "{\"a\": 1}\n",
            "http:\n  routers: {\n",
            "a.b = 1\n",
            "resource \"x\" \"y\" {\n}\n",
            "",
        ] {
            assert!(!begins(text), "{text}");
        }
    }
}
