//! Writes what is wrong with a configuration for readers who may not see its secrets: those of the admin listener and of the process log.
//!
//! The place and the fault stay. Texts in quotes are replaced where a secret, a login, a variable of the environment or a text that is no
//! TOML is meant; where something of the value is left even so, one sentence stands for all. The line itself is never shown.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::problem::ParseError;
use super::secrets::{HiddenValue, SECRET, each_value, hidden_values};
use super::source::SourceText;

/// The sentence that stands for one that cannot be shown.
const HIDDEN_FAULT: &str =
    "its value, which is hidden here, is not accepted; `sluicegate check` says why";
/// A shorter text may stand in a sentence by accident.
const TELLING_CHARACTERS: usize = 6;
/// A shorter word may be a part of another one.
const TELLING_WORD: usize = 3;

/// The values of a configuration that readers may not see.
#[derive(Debug, Default)]
pub(super) struct SecretRedaction {
    hidden: Vec<HiddenValue>,
}

impl SecretRedaction {
    /// The values of `table`, in which variables of the environment are filled in. In a wrong text `@` may end a login.
    pub(super) fn new(source: &SourceText<'_>, table: &DeTable<'_>) -> Self {
        let mut hidden = hidden_values(table);
        each_value(table, &mut Vec::new(), &mut |_, key_start, value| {
            let span = value.span();
            if let DeValue::String(text) = value.get_ref()
                && (source.slice(&span).contains("${") || text.contains('@'))
            {
                hidden.push(HiddenValue {
                    span,
                    key_start,
                    text: text.to_string(),
                    shown: SECRET.to_owned(),
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
        let shown = without_quoted(&whole);
        let is_left = |value: &String| words(value).any(|word| shown.contains(word));
        if values.iter().any(is_left) || self.tells_a_secret(&shown) {
            return HIDDEN_FAULT.to_owned();
        }
        shown
    }

    /// Returns the texts at this place that readers may not see.
    fn values_at(
        &self,
        source: &SourceText<'_>,
        key_path: &str,
        span: &Range<usize>,
    ) -> Vec<String> {
        if key_path.is_empty() {
            // The text is not TOML, so nobody knows which key it belongs to.
            let line = source.slice(&source.line_span(span.start));
            let value = line.split_once('=').map_or(line, |(_, value)| value);
            let is_header = line.trim_start().starts_with('[');
            return vec![if is_header {
                String::new()
            } else {
                value.to_owned()
            }];
        }
        let hidden = self.hidden.iter();
        let meant = hidden.filter(|value| is_meant(value, span));
        meant.map(|value| value.text.clone()).collect()
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

/// Returns the words of a value that a reader would recognize.
fn words(value: &str) -> impl Iterator<Item = &str> {
    let words = value.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| word.chars().count() >= TELLING_WORD)
}

/// Returns a sentence with a sign in place of each text in double quotes. One that has no end takes the rest along.
fn without_quoted(sentence: &str) -> String {
    let mut shown = String::new();
    let mut rest = sentence;
    while let Some((before, behind)) = rest.split_once('"') {
        shown.push_str(before);
        shown.push_str(SECRET);
        rest = behind_quote(behind);
    }
    shown + rest
}

/// Returns what follows the end of a text in quotes, in which a backslash escapes the next character.
fn behind_quote(text: &str) -> &str {
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                characters.next();
            }
            '"' => return &text[at + 1..],
            _ => {}
        }
    }
    ""
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
}
