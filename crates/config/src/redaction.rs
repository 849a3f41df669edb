//! Writes what is wrong with a configuration for readers who may not see its secrets: those of the admin listener and of the process log.
//!
//! The place, the fault and the advice stay. Of the texts in quotes those are replaced that have something of a secret, a login, a query or
//! a variable of the environment, and all of the fault where the text is no TOML; where something is left even so, one sentence stands for
//! the fault. The line itself is never shown.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::problem::ParseError;
use super::secrets::{HiddenValue, SECRET, each_value, hidden_values, without_loose_secrets};
use super::source::SourceText;

/// The sentence that stands for one that cannot be shown.
const HIDDEN_FAULT: &str =
    "its value, which is hidden here, is not accepted; `sluicegate check` says why";
/// A shorter text may stand in a sentence by accident.
const TELLING_CHARACTERS: usize = 6;
/// A shorter word may be a part of another one.
const TELLING_WORD: usize = 3;
/// Words that begin URLs, which advice has whatever was written.
const SCHEMES: [&str; 5] = ["http", "https", "redis", "rediss", "unix"];

/// The values of a configuration that readers may not see.
#[derive(Debug, Default)]
pub(super) struct SecretRedaction {
    hidden: Vec<HiddenValue>,
}

/// The text of a value that is wrong, and the part of it that readers may see.
struct WrongValue {
    text: String,
    /// Empty where the whole is a secret.
    shown: String,
}

impl SecretRedaction {
    /// The values of `table`, in which variables of the environment are filled in. In a wrong text `@` may end a login, and `?` or `#` may
    /// begin a query.
    pub(super) fn new(source: &SourceText<'_>, table: &DeTable<'_>) -> Self {
        let mut hidden = hidden_values(table);
        each_value(table, &mut Vec::new(), &mut |_, key_start, value| {
            let span = value.span();
            let DeValue::String(text) = value.get_ref() else {
                return;
            };
            let shown = match source.slice(&span).contains("${") {
                true => SECRET.to_owned(),
                false => without_loose_secrets(text),
            };
            if shown != **text {
                hidden.push(HiddenValue {
                    span,
                    key_start,
                    text: text.to_string(),
                    shown,
                });
            }
        });
        Self { hidden }
    }

    /// Returns message and advice in one sentence, without secrets; `span` is the place of the mistake.
    pub(super) fn sentence(
        &self,
        source: &SourceText<'_>,
        key_path: &str,
        span: Option<&Range<usize>>,
        mistake: &ParseError,
    ) -> String {
        let whole = mistake.to_text();
        let values = span.map_or_else(Vec::new, |span| self.values_at(source, key_path, span));
        if values.is_empty() && !self.tells_a_secret(&whole) {
            return whole;
        }
        let is_partial = !values.is_empty() && values.iter().all(|value| !value.shown.is_empty());
        let fault = match is_partial {
            true => with_quoted(&mistake.message, |text| shown_beside(text, &values)),
            false => with_quoted(&mistake.message, |_| SECRET.to_owned()),
        };
        let advice = mistake.advice.as_deref().unwrap_or_default();
        let advice = match values.is_empty() {
            true => with_quoted(advice, |_| SECRET.to_owned()),
            false => with_quoted(advice, |text| shown_beside(text, &values)),
        };
        let tells = |shown: &str| {
            values.iter().any(|value| value.is_told_by(shown)) || self.tells_a_secret(shown)
        };
        match (tells(&fault), advice.is_empty() || tells(&advice)) {
            (true, true) => HIDDEN_FAULT.to_owned(),
            (true, false) => format!("{HIDDEN_FAULT}; {advice}"),
            (false, true) => fault,
            (false, false) => format!("{fault}; {advice}"),
        }
    }

    /// Returns the texts at this place that readers may not see.
    fn values_at(
        &self,
        source: &SourceText<'_>,
        key_path: &str,
        span: &Range<usize>,
    ) -> Vec<WrongValue> {
        if key_path.is_empty() {
            // The text is not TOML, so nobody knows which key it belongs to.
            let line = source.slice(&source.line_span(span.start));
            let value = line.split_once('=').map_or(line, |(_, value)| value);
            let is_header = line.trim_start().starts_with('[');
            let text = if is_header { "" } else { value };
            return vec![WrongValue::new(text, SECRET)];
        }
        let hidden = self.hidden.iter();
        let meant = hidden.filter(|value| is_meant(value, span));
        meant
            .map(|value| WrongValue::new(&value.text, &value.shown))
            .collect()
    }

    fn tells_a_secret(&self, sentence: &str) -> bool {
        self.hidden.iter().any(|value| {
            value.text.chars().count() >= TELLING_CHARACTERS && sentence.contains(&*value.text)
        })
    }
}

/// Returns whether the bytes of a problem and those of key and value have some in common.
fn is_meant(value: &HiddenValue, span: &Range<usize>) -> bool {
    let start = value.key_start.min(value.span.start);
    span.start < value.span.end && start <= span.end.max(span.start)
}

impl WrongValue {
    fn new(text: &str, shown: &str) -> Self {
        let shown = if shown == SECRET { "" } else { shown };
        Self {
            text: text.to_owned(),
            shown: shown.replace(SECRET, " "),
        }
    }

    /// Returns whether a text has a word of the secret that a reader would recognize.
    fn is_told_by(&self, text: &str) -> bool {
        let shown: Vec<&str> = words(&self.shown).collect();
        let mut secret = words(&self.text).filter(|word| !shown.contains(word));
        secret.any(|word| text.contains(word))
    }

    /// Returns whether a text is a piece of the secret.
    fn contains(&self, text: &str) -> bool {
        !text.is_empty() && self.text.contains(text) && !self.shown.contains(text)
    }
}

/// Returns a text in quotes as it is shown beside these values.
fn shown_beside(text: &str, values: &[WrongValue]) -> String {
    let plain = text.replace("\\\"", "\"").replace("\\\\", "\\");
    let shown = without_loose_secrets(&plain);
    let is_secret = |value: &WrongValue| value.is_told_by(&shown) || value.contains(&shown);
    match shown == plain {
        _ if values.iter().any(is_secret) => SECRET.to_owned(),
        true => format!("\"{text}\""),
        false => format!("\"{shown}\""),
    }
}

/// Returns the words of a value that a reader would recognize.
fn words(value: &str) -> impl Iterator<Item = &str> {
    let words = value.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| word.chars().count() >= TELLING_WORD && !SCHEMES.contains(word))
}

/// Returns a sentence with another text in place of each in double quotes. One that has no end takes the rest along.
fn with_quoted(sentence: &str, shown: impl Fn(&str) -> String) -> String {
    let mut all = String::new();
    let mut rest = sentence;
    while let Some((before, behind)) = rest.split_once('"') {
        let end = quoted_length(behind);
        all.push_str(before);
        all.push_str(&shown(&behind[..end]));
        rest = behind.get(end + 1..).unwrap_or_default();
    }
    all + rest
}

/// Returns the bytes of a text before the quote that ends it, in which a backslash escapes the next character; all of them without one.
fn quoted_length(text: &str) -> usize {
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                characters.next();
            }
            '"' => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use crate::environment::NoEnvironment;
    use crate::file::parse_in;
    use crate::route_review::no_review;

    /// Goal: a reader learns the place and the fault, and never the value. Method: mistakes of each kind at places that can have a secret,
    /// and one at a place that has none.
    #[test]
    fn an_error_is_told_without_the_value() {
        for (text, told) in [
            (
                "[store]\nurl = 'redi://u:hunter2@h:1/0'\n",
                "gateway.toml:2:7: store.url: ",
            ),
            (
                "[store]\npassword = 'hunter2'\n",
                "gateway.toml:2:1: store.password: ",
            ),
            (
                "[store]\npassword = hunter2\n",
                "gateway.toml:2:12: (secret) is not a value",
            ),
            (
                "[store]\npassword = 'hunter2\n",
                "gateway.toml:2:12: the string does not end",
            ),
            (
                "[[route]]\npath = '/x'\nheaders = 'hunter2'\n",
                "gateway.toml:3:11: route[0].headers: ",
            ),
            (
                "[[route]]\npath = '/x'\nheaders.x-proof = \"hunter2\\u0001\"\n",
                "route[0].headers.x-proof: ",
            ),
            (
                "[request_headers]\nset = { x-proof = \"hunter2 {none}\" }\n",
                "request_headers.set.x-proof: ",
            ),
            (
                "[request_headers]\nadd = { x-proof = [\"hunter2\"] }\n",
                "request_headers.add.x-proof: ",
            ),
            (
                "[[route]]\npath = '/x'\nredirect = { to = 'ftp://h/?k=hunter2' }\n",
                "route[0].redirect.to: ",
            ),
            (
                "[[route]]\npath = '/x'\nquery = { key = ['hunter2'] }\n",
                "route[0].query.key: ",
            ),
            ("[stor]\npassword = 'hunter2'\n", "gateway.toml:1:2: stor: "),
            (
                "[origin.b]\nservers = ['u:hunter2@h:1']\n",
                "origin.b.servers[0]: ",
            ),
            (
                "[origin.b]\nservers = ['127.0.0.1:1/p?k=hunter2']\n",
                "origin.b.servers[0]: \"127.0.0.1:1/p?(secret)\" has a path; write the server alone, \"127.0.0.1:1\", ",
            ),
            (
                "[origin.b]\nservers = ['127.0.0.1:1/p#hunter2']\n",
                "origin.b.servers[0]: \"127.0.0.1:1/p#(secret)\" has a path",
            ),
            (
                "[server]\nstate_dir = 's'\n[acme]\naccept_terms = true\ndirectory = 'acme.example.com/d?k=hunter2'\n",
                "acme.directory: \"acme.example.com/d?(secret)\" is not the URL of a directory; write \"letsencrypt\", \
                 \"letsencrypt-staging\", or a URL such as \"https://acme.example.com/directory\"",
            ),
            (
                "[store]\nurl = 'redis:u:hunter2@h'\n",
                "write \"redis://127.0.0.1:6379\", \"rediss://…\" for TLS, or \"unix:///run/redis/redis.sock\"",
            ),
            (
                "[[listener]]\naddress = '0.0.0.0'\n",
                "listener[0].address: \"0.0.0.0\" ",
            ),
        ] {
            let problems = parse_in("gateway.toml", text, &NoEnvironment, no_review).unwrap_err();
            let shown = problems.for_readers();
            assert!(shown.contains(told), "{told} in {shown}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    /// Goal: the name of a route tells no value that is hidden, by no hash either, and names differ. Method: routes without names that
    /// differ in such values alone.
    #[test]
    fn derived_names_of_routes_have_no_hidden_value() {
        let route = |lines: &str| {
            format!("[[route]]\npath = '/a'\nrespond = {{ status = 200 }}\n{lines}\n")
        };
        let mut text = "[[listener]]\naddress = '127.0.0.1:1'\n".to_owned();
        for lines in [
            "headers = { x-plan = 'free' }",
            "headers = { x-plan = 'paid' }",
            "query = { key = '1234' }",
            "query = { debug = '*' }",
            "",
        ] {
            text.push_str(&route(lines));
        }
        let loaded = parse_in("gateway.toml", &text, &NoEnvironment, no_review).unwrap();
        let names = loaded.rules.routes.iter().map(|route| &*route.name);
        assert_eq!(
            names.collect::<Vec<_>>(),
            [
                "/a x-plan=(secret)",
                "/a x-plan=(secret) 2",
                "/a ?key=(secret)",
                "/a ?debug=*",
                "/a"
            ]
        );
    }
}
