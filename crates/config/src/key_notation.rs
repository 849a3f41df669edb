//! Translates values of a request in the notations of other products into parts of a key: `header:X-Api-Key`, `req.hdr(x-api-key)`,
//! `http.request.headers["x-api-key"]`, `{http.request.header.X-Api-Key}`.
//!
//! They share one shape: a word for the kind of value, a sign, and the name of the value.

use super::field::shortened;

/// Words for the kinds of values, and the kind that each is here.
const KINDS: [(&str, &str); 36] = [
    ("header", "header"),
    ("headers", "header"),
    ("http_header", "header"),
    ("http-header", "header"),
    ("hdr", "header"),
    ("fhdr", "header"),
    ("req.hdr", "header"),
    ("req.fhdr", "header"),
    ("req.header", "header"),
    ("req.headers", "header"),
    ("request.header", "header"),
    ("request.headers", "header"),
    ("request_header", "header"),
    ("http.request.header", "header"),
    ("http.request.headers", "header"),
    ("cookie", "cookie"),
    ("cookies", "cookie"),
    ("cook", "cookie"),
    ("req.cook", "cookie"),
    ("http.request.cookie", "cookie"),
    ("http.request.cookies", "cookie"),
    ("request.cookies", "cookie"),
    ("query", "query"),
    ("arg", "query"),
    ("args", "query"),
    ("param", "query"),
    ("url_param", "query"),
    ("urlp", "query"),
    ("query_param", "query"),
    ("query_parameter", "query"),
    ("http.request.uri.query", "query"),
    ("http.request.uri.args", "query"),
    ("path_param", "path"),
    ("jwt", "jwt"),
    ("claim", "jwt"),
    ("jwt.claim", "jwt"),
];

/// Words for a client's address in placeholders of Caddy.
const ADDRESSES: [&str; 5] = [
    "remote_host",
    "client_ip",
    "remote_ip",
    "http.request.remote.host",
    "http.vars.client_ip",
];

/// Returns the part of a key that a text means in the notation of another product; `None` where it is in none.
pub(super) fn part(text: &str) -> Option<String> {
    let braced = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let text = braced.unwrap_or(text).trim();
    if ADDRESSES.contains(&text) {
        return Some("client.ip".to_owned());
    }
    let (kind, name) = split(text)?;
    let kind = kind.trim().to_ascii_lowercase();
    let (_, own) = KINDS.iter().find(|(word, _)| *word == kind)?;
    let name = name.trim().trim_matches(['"', '\'']);
    let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control());
    let name = match *own {
        "header" => name.to_ascii_lowercase(),
        _ => name.to_owned(),
    };
    is_name.then(|| format!("{own}.{}", shortened(&name)))
}

/// Splits a text into the word for a kind and a name: `kind:name`, `kind=name`, `kind(name)`, `kind["name"]` and, where the kind has
/// dots itself, `kind.name`.
fn split(text: &str) -> Option<(&str, &str)> {
    for (open, close) in [('(', ")"), ('[', "]")] {
        if let Some((kind, rest)) = text.split_once(open) {
            // Further arguments say which of several values is meant.
            let name = rest.strip_suffix(close)?.split([',', ']']).next()?;
            return Some((kind, name));
        }
    }
    if let Some(parts) = text.split_once([':', '=']) {
        return Some(parts);
    }
    text.rsplit_once('.')
}

#[cfg(test)]
mod tests {
    use super::part;

    /// Goal: whoever comes from another product is told the part here. Method: one text in each notation, and texts of none.
    #[test]
    fn notations_of_other_products_are_translated() {
        for (text, expected) in [
            ("header:X-Api-Key", Some("header.x-api-key")),
            ("header=X-Api-Key", Some("header.x-api-key")),
            ("headers[\"X-Api-Key\"]", Some("header.x-api-key")),
            ("req.hdr(X-Api-Key)", Some("header.x-api-key")),
            ("hdr(x-api-key,1)", Some("header.x-api-key")),
            (
                "http.request.headers[\"x-api-key\"][0]",
                Some("header.x-api-key"),
            ),
            ("{http.request.header.X-Api-Key}", Some("header.x-api-key")),
            ("cookie:SID", Some("cookie.SID")),
            ("url_param(Page)", Some("query.Page")),
            ("{remote_host}", Some("client.ip")),
            ("jwt:sub", Some("jwt.sub")),
            ("header:", None),
            ("header: a b", None),
            ("client.pi", None),
            ("heder.x", None),
            ("authorization", None),
            ("(", None),
            ("", None),
        ] {
            assert_eq!(part(text).as_deref(), expected, "{text}");
        }
    }
}
