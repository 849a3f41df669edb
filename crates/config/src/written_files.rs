//! Shows the files of a configuration as their author wrote them, in order and with comments, without their secrets.
//!
//! Each secret is replaced at its place in the text by what the tables of [`written`](super::written) show, and the values of headers that
//! routes ask for with them. A comment that may hold a secret is hidden as a whole.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use super::source::SourceText;
use super::written::{SECRET, has_secret_values, is_secret, without_login};

/// The text of a hidden comment.
const HIDDEN_COMMENT: &str = "# (hidden, since it may hold a secret)";
/// Words of comments that are hidden.
const HIDDEN_WORDS: [&str; 5] = ["passw", "secret", "credential", "authorization", "bearer"];
/// Words of comments that are hidden where a value may follow them.
const HIDDEN_NAMES: [&str; 6] = ["token", "cookie", "key", "auth", "pass", "pwd"];

/// A file as it is written, without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// Its name, as the gateway opened it.
    pub file: String,
    /// Its text.
    pub text: String,
}

/// A part of the text, and what is shown in its place.
struct Replacement {
    span: Range<usize>,
    shown: String,
}

/// Returns the files of `source`, whose tables are `table`.
pub(super) fn written_files(source: &SourceText<'_>, table: &DeTable<'_>) -> Vec<WrittenFile> {
    let mut replacements = hidden_comments(source.text);
    add_secrets("", table, &mut replacements);
    replacements.sort_by_key(|replacement| replacement.span.start);
    let files = source.files().map(|(file, span)| WrittenFile {
        file: file.to_owned(),
        text: replaced(source, span, &replacements),
    });
    files.collect()
}

/// Returns the text of this span with those of the replacements that lie in it.
fn replaced(source: &SourceText<'_>, span: Range<usize>, replacements: &[Replacement]) -> String {
    let mut text = String::new();
    let mut shown_to = span.start;
    let begin_in_it = |replacement: &&Replacement| span.contains(&replacement.span.start);
    for replacement in replacements.iter().filter(begin_in_it) {
        // A comment within a secret is gone with it.
        if replacement.span.start < shown_to {
            continue;
        }
        text.push_str(source.slice(&(shown_to..replacement.span.start)));
        text.push_str(&replacement.shown);
        shown_to = replacement.span.end;
    }
    text.push_str(source.slice(&(shown_to..span.end)));
    text
}

fn hidden_comments(text: &str) -> Vec<Replacement> {
    let comments = Source::new(text)
        .lex()
        .filter(|token| token.kind() == TokenKind::Comment);
    let spans = comments.map(|token| token.span().start()..token.span().end());
    let hidden = spans.filter(|span| text.get(span.clone()).is_none_or(may_hold_secret));
    let replacements = hidden.map(|span| Replacement {
        span,
        shown: HIDDEN_COMMENT.to_owned(),
    });
    replacements.collect()
}

fn may_hold_secret(comment: &str) -> bool {
    let comment = comment.to_lowercase();
    let has = |word: &&str| comment.contains(*word);
    HIDDEN_WORDS.iter().any(has)
        || comment.contains(['=', ':']) && HIDDEN_NAMES.iter().any(has)
        || comment.contains("://") && comment.contains('@')
}

/// Adds the secrets of a table that stands in one named `within`.
fn add_secrets(within: &str, table: &DeTable<'_>, replacements: &mut Vec<Replacement>) {
    for (key, value) in table {
        let key = key.get_ref();
        let are_conditions = (within, &**key) == ("route", "headers");
        match value.get_ref() {
            DeValue::Table(fields) if are_conditions || has_secret_values(within, key) => {
                fields.values().for_each(|value| hide(value, replacements));
            }
            DeValue::Table(table) => add_secrets(key, table, replacements),
            _ if is_secret(within, key) => hide(value, replacements),
            _ => add_logins(key, value, replacements),
        }
    }
}

fn hide(value: &Spanned<DeValue<'_>>, replacements: &mut Vec<Replacement>) {
    // A table may have its values in several places.
    if let DeValue::Table(table) = value.get_ref() {
        return table.values().for_each(|value| hide(value, replacements));
    }
    replacements.push(Replacement {
        span: value.span(),
        shown: quoted(SECRET),
    });
}

/// Adds the texts of a value that have a login, and the secrets of the tables in a list.
fn add_logins(key: &str, value: &Spanned<DeValue<'_>>, replacements: &mut Vec<Replacement>) {
    match value.get_ref() {
        DeValue::String(text) => {
            let shown = without_login(text);
            if shown != **text {
                replacements.push(Replacement {
                    span: value.span(),
                    shown: quoted(&shown),
                });
            }
        }
        DeValue::Array(elements) => {
            let elements = elements.iter();
            elements.for_each(|element| add_logins(key, element, replacements));
        }
        DeValue::Table(table) => add_secrets(key, table, replacements),
        _ => {}
    }
}

/// Returns a text as a TOML string: JSON's escapes are TOML's too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let source = SourceText::new("gateway.toml", text);
        let table = DeTable::parse(text).unwrap();
        let mut files = written_files(&source, table.get_ref());
        assert_eq!(files.len(), 1);
        files.remove(0).text
    }

    /// Goal: what holds no secret is shown byte for byte. Method: the reference without its comments that may.
    #[test]
    fn a_file_is_shown_as_its_author_wrote_it() {
        let text = "# for the shop\n[limit.otp] # token bucket\nrates   = ['5 per 10s',   # short\n \"20 per 1h\"]\r\n\n\n[origin.a]\n\
                    servers = [\"127.0.0.1:1\"]\n\"üñ\" = 'ü # no comment: password'\n";
        assert_eq!(shown(text), text);
    }

    /// Goal: no secret of any place is shown. Method: one in each place, in each kind of string, and in comments.
    #[test]
    fn secrets_are_replaced_at_their_places() {
        let text = "[store]\nurl = 'redis://u:hunter2@h:1/0' # u:hunter2 is the password\npassword = \"\"\"\nhunter2\"\"\"\n\
                    nodes = [\"redis://u:hunter2\\u0040h:1\", { url = \"http://hunter2@h/\" }]\n\
                    #password = 'hunter2'\n# X-Key: hunter2\n# see https://u:hunter2@h/\n\
                    [request_headers]\nset.X-Api-Key = 'hunter2'\nset.X-Plain = 'shown'\n\
                    [tracing.otlp]\nheaders = { x-team = 'hunter2', other = 'hunter2' }\n\
                    [[route]]\npath = '/x'\nheaders.x-proof = 'hunter2'\n[[route]]\nheaders = { a = ['hunter2', # key: x\n 'hunter2'] }\n\
                    [[route]]\n[route.headers.b]\nnot = 'hunter2'\n";
        let shown = shown(text);
        assert!(!shown.contains("hunter2"), "{shown}");
        for kept in [
            "url = \"redis://(secret)@h:1/0\" # (hidden",
            "password = \"(secret)\"\n",
            "[\"redis://(secret)@h:1\", { url = \"http://(secret)@h/\" }]",
            "set.X-Api-Key = \"(secret)\"\nset.X-Plain = 'shown'",
            "{ x-team = \"(secret)\", other = \"(secret)\" }",
            "path = '/x'\nheaders.x-proof = \"(secret)\"",
            "{ a = \"(secret)\" }",
        ] {
            assert!(shown.contains(kept), "{kept} in {shown}");
        }
        assert!(DeTable::parse(&shown).is_ok(), "{shown}");
    }
}
