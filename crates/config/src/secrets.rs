//! Decides which values of a configuration are secret. Whatever shows a configuration to a reader asks here: `/config` and its files, the
//! changes of a reload, its errors, routes and their names.
//!
//! # Rules
//! 1. A header field or a query parameter that the file writes: its value, whatever its name. A proxy may prove its identity by it. A file
//!    that has the value is named, not shown.
//! 2. A key that is named like a secret: its value. Files and variables of the environment that have a secret are named, not shown.
//! 3. Any other text: login, query and fragment of each URL in it, and of a path.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The text that replaces a secret.
pub const SECRET: &str = "(secret)";

/// Words in the names of keys whose values are secrets.
const SECRET_WORDS: [&str; 9] = [
    "passw",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "authorization",
    "credential",
    "api-key",
    "api_key",
];

/// The tables of header fields and query parameters; `*` stands for a name.
const FIELD_TABLES: [&[&str]; 12] = [
    &["request_headers", "set"],
    &["request_headers", "add"],
    &["response_headers", "set"],
    &["response_headers", "add"],
    &["route", "request_headers", "set"],
    &["route", "request_headers", "add"],
    &["route", "response_headers", "set"],
    &["route", "response_headers", "add"],
    &["route", "headers"],
    &["route", "query"],
    &["route", "respond", "headers"],
    &["tracing", "otlp", "headers"],
];
/// The table of fields in the answer to rejected requests, below a route or a limit.
const REFUSAL_FIELDS: [&str; 2] = ["refusal", "headers"];

/// The tables of the file whose keys are names that an operator chose.
const NAMED_TABLES: [&str; 4] = ["limit", "origin", "list", "crawler"];

/// The keys of the tables around a value, and its own.
pub(super) type KeySteps<'k> = Vec<&'k str>;

/// Takes the keys of a value, the byte at which the last of them begins, and the value.
pub(super) type ValueVisitor<'v> = dyn FnMut(&[&str], usize, &Spanned<DeValue<'_>>) + 'v;

/// A value that is not shown as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HiddenValue {
    /// Its place, with its quotes.
    pub(super) span: Range<usize>,
    /// The byte at which its key begins.
    pub(super) key_start: usize,
    /// The text that it has.
    pub(super) text: String,
    /// The text that is shown in its place.
    pub(super) shown: String,
}

/// Returns what is shown in place of a text or number at these keys; `None` where it is shown as it is.
pub(super) fn replacement(steps: &[&str], text: &str) -> Option<String> {
    if let ["tracing", "otlp", "headers", _, "file"] = steps {
        return None;
    }
    if is_in_field_table(steps) {
        // Any value of a parameter.
        let is_any = text == "*" && steps.starts_with(&["route", "query"]);
        return (!is_any).then(|| SECRET.to_owned());
    }
    if is_named_so(steps) {
        return Some(SECRET.to_owned());
    }
    let shown = without_url_secrets(text);
    (shown != text).then_some(shown)
}

/// Returns the value of a parameter that a route asks for, as readers see it.
#[must_use]
pub fn shown_parameter(value: Option<&str>) -> &str {
    value.map_or("*", |_| SECRET)
}

fn is_in_field_table(steps: &[&str]) -> bool {
    let refusal = match steps {
        ["limit", _, rest @ ..] | ["route", rest @ ..] => rest,
        _ => &[],
    };
    refusal.starts_with(&REFUSAL_FIELDS)
        || FIELD_TABLES.iter().any(|table| steps.starts_with(table))
}

fn is_named_so(steps: &[&str]) -> bool {
    let is_chosen = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| steps.get(before));
        before.is_some_and(|table| *table == "tiers" || (at == 1 && NAMED_TABLES.contains(table)))
    };
    let mut own = (steps.iter().enumerate()).filter(|(at, _)| !is_chosen(*at));
    own.any(|(_, key)| {
        let key = key.to_ascii_lowercase();
        let names_a_place = key.ends_with("_file") || key.ends_with("_env");
        !names_a_place && SECRET_WORDS.iter().any(|word| key.contains(word))
    })
}

/// Returns a text without login, query and fragment of each URL in it, or of the path that it is. A URL ends at a blank.
#[must_use]
pub fn without_url_secrets(text: &str) -> String {
    if text.starts_with('/') && !text.starts_with("//") {
        return without_query(text);
    }
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("//") {
        let (scheme, behind) = rest.split_at(at + "//".len());
        let end = behind.find(char::is_whitespace).unwrap_or(behind.len());
        let (url, behind) = behind.split_at(end);
        shown.push_str(scheme);
        shown.push_str(&without_login(url));
        rest = behind;
    }
    shown + rest
}

/// Returns a text that may be no URL without what stands before an `@`, and behind a `?` or `#`, in each of its words.
pub(super) fn without_loose_secrets(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace);
    let shown = words.map(|word| {
        let plain = word.trim_end();
        let shown = match plain.find("//") {
            Some(_) => without_url_secrets(plain),
            None => without_login(plain),
        };
        shown + &word[plain.len()..]
    });
    shown.collect()
}

/// Returns what stands behind the slashes of a URL, without login and query. All of it is hidden where the two cannot be told apart.
fn without_login(url: &str) -> String {
    let query = url.find(['?', '#']).unwrap_or(url.len());
    match url.rfind('@') {
        None => without_query(url),
        Some(login_end) if login_end > query => SECRET.to_owned(),
        Some(login_end) => format!("{SECRET}{}", without_query(&url[login_end..])),
    }
}

fn without_query(url: &str) -> String {
    match url.find(['?', '#']) {
        Some(at) => format!("{}{SECRET}", &url[..=at]),
        None => url.to_owned(),
    }
}

/// Returns the values of these tables that are not shown as they are written, in the order of the keys.
pub(super) fn hidden_values(table: &DeTable<'_>) -> Vec<HiddenValue> {
    let mut hidden = Vec::new();
    each_value(table, &mut Vec::new(), &mut |steps, key_start, value| {
        let (text, shown) = match value.get_ref() {
            DeValue::String(text) => (text.to_string(), replacement(steps, text)),
            DeValue::Integer(number) => (number.to_string(), replacement(steps, "")),
            DeValue::Float(number) => (number.to_string(), replacement(steps, "")),
            DeValue::Datetime(time) => (time.to_string(), replacement(steps, "")),
            _ => return,
        };
        if let Some(shown) = shown {
            hidden.push(HiddenValue {
                span: value.span(),
                key_start,
                text,
                shown,
            });
        }
    });
    hidden
}

/// Calls `visit` with each value that is no list or table.
pub(super) fn each_value<'t>(
    table: &'t DeTable<'_>,
    steps: &mut KeySteps<'t>,
    visit: &mut ValueVisitor<'_>,
) {
    for (key, value) in table {
        steps.push(key.get_ref());
        each_in_value(value, key.span().start, steps, visit);
        steps.pop();
    }
}

fn each_in_value<'t>(
    value: &'t Spanned<DeValue<'_>>,
    key_start: usize,
    steps: &mut KeySteps<'t>,
    visit: &mut ValueVisitor<'_>,
) {
    match value.get_ref() {
        DeValue::Table(table) => each_value(table, steps, visit),
        DeValue::Array(elements) => {
            for element in elements {
                each_in_value(element, key_start, steps, visit);
            }
        }
        _ => visit(steps, key_start, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str, text: &str) -> String {
        let steps: Vec<&str> = path.split('.').collect();
        replacement(&steps, text).unwrap_or_else(|| text.to_owned())
    }

    /// Goal: one rule for each kind of value. Method: keys of each rule, and keys that only resemble them.
    #[test]
    fn values_are_hidden_by_the_path_of_their_key() {
        for secret in [
            "request_headers.set.x-plain",
            "request_headers.add.x-origin-verify",
            "response_headers.set.x-edge",
            "route.request_headers.add.authorization",
            "route.response_headers.add.x-edge",
            "route.headers.x-proof",
            "route.headers.x-proof.not",
            "route.headers",
            "route.query.key",
            "route.respond.headers.x-proof",
            "route.refusal.headers.x-proof",
            "limit.otp.refusal.headers.x-proof",
            "tracing.otlp.headers.x-team",
            "tracing.otlp.headers.x-team.file.inner",
            "tracing.otlp.headers.file",
            "route.headers.x-proof.file",
            "tracing.otlp.attributes.api-key",
            "store.password",
            "store.sentinel.Password",
            "store.secret.inner",
        ] {
            assert_eq!(shown(secret, "hunter2"), SECRET, "{secret}");
        }
        for plain in [
            "store.password_file",
            "store.password_env",
            "tracing.otlp.headers.authorization.file",
            "admin.token_file",
            "limit.token.rates",
            "limit.refusal.headers",
            "limit.otp.tiers.token-users",
            "limit.otp.key",
            "origin.secret.servers",
            "origin.a.sticky.cookie",
            "cors.headers",
            "route.cors.headers",
            "route.path",
        ] {
            assert_eq!(shown(plain, "text"), "text", "{plain}");
        }
        assert_eq!(shown("route.query.debug", "*"), "*");
    }

    /// Goal: no URL of a text shows a login or a query. Method: texts with several of them, and texts that have none.
    #[test]
    fn urls_are_shown_without_login_and_query() {
        for (text, expected) in [
            ("redis://u:p@h:1/0", "redis://(secret)@h:1/0"),
            (
                "redis://u:p@h:1 redis://v:q@i",
                "redis://(secret)@h:1 redis://(secret)@i",
            ),
            ("a://h,b://u:p@i", "a://(secret)@i"),
            ("redis://u:p/a'b\"c@h/", "redis://(secret)@h/"),
            ("https://h/x?token=p&y", "https://h/x?(secret)"),
            ("https://h/x#p", "https://h/x#(secret)"),
            ("https://h/?next=https://u:p@i/&token=p", "https://(secret)"),
            ("redis://u:p?a@h/", "redis://(secret)"),
            ("redis://u:p/a@h/?b", "redis://(secret)@h/?(secret)"),
            ("/x?token=p", "/x?(secret)"),
            ("//u:p@h/x?token=p", "//(secret)@h/x?(secret)"),
            ("https://{host}/new/{rest}", "https://{host}/new/{rest}"),
            ("~ ^/a?b$", "~ ^/a?b$"),
            ("/users/{id}/*", "/users/{id}/*"),
            ("5 per 10s", "5 per 10s"),
        ] {
            assert_eq!(without_url_secrets(text), expected);
        }
    }
}
