//! Shows the files of a configuration as their author wrote them, in order and with comments, without their secrets.
//!
//! Each value that [`secrets`](super::secrets) hides is replaced at its place in the text. [`comments`](super::comments) decides which
//! comments are hidden.

use std::ops::Range;

use toml::de::DeTable;

use super::comments::{HIDDEN_COMMENT, hidden_comments};
use super::secrets::hidden_values;
use super::source::SourceText;

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
    let hidden = hidden_values(table);
    let spans: Vec<Range<usize>> = hidden.iter().map(|value| value.span.clone()).collect();
    let comments = hidden_comments(source, &spans);
    let values = hidden.into_iter().map(|value| Replacement {
        span: value.span,
        shown: quoted(&value.shown),
    });
    let comments = comments.into_iter().map(|span| Replacement {
        span,
        shown: HIDDEN_COMMENT.to_owned(),
    });
    let mut replacements: Vec<Replacement> = values.chain(comments).collect();
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

    /// Goal: what holds no secret is shown byte for byte. Method: a file with blanks, comments and strings of each kind.
    #[test]
    fn a_file_is_shown_as_its_author_wrote_it() {
        let text = "# for the shop\n[limit.otp] # the first bucket\nrates   = ['5 per 10s',   # short\n \"20 per 1h\"]\r\n\n\n[origin.a]\n\
                    servers = [\"127.0.0.1:1\"]\n\"üñ\" = 'ü # no comment: password'\n";
        assert_eq!(shown(text), text);
    }

    /// Goal: no secret of any place is shown. Method: one in each place, in each kind of string, and in comments.
    #[test]
    fn secrets_are_replaced_at_their_places() {
        let text = "[store]\nurl = 'redis://u:hunter2@h:1/0' # u is the password of hunter\npassword = \"\"\"\nhunter2\"\"\"\n\
                    nodes = [\"redis://u:hunter2\\u0040h:1\", { url = \"http://hunter2@h/\" }]\n\n\
                    #password = 'hunter2'\n\n# X-Key: hunter2\n\n# see https://u:hunter2@h/\n\n\
                    [request_headers]\nset.X-Api-Key = 'hunter2'\nadd.X-Plain = 'hunter2'\n\
                    [tracing.otlp]\nheaders = { x-team = 'hunter2', other = 'hunter2', authorization = { file = \"otlp\" } }\n\
                    [[route]]\npath = '/x'\nheaders.x-proof = 'hunter2'\n[[route]]\nheaders = { a = ['hunter2', # alice\n 'hunter2'] }\n\
                    query = { debug = '*', key = 'hunter2' }\nredirect = { to = 'https://h/?token=hunter2' }\n\
                    [[route]]\n[route.headers.b]\nnot = 'hunter2'\n";
        let shown = shown(text);
        assert!(!shown.contains("hunter"), "{shown}");
        for kept in [
            "url = \"redis://(secret)@h:1/0\" # (hidden",
            "password = \"(secret)\"\n",
            "[\"redis://(secret)@h:1\", { url = \"http://(secret)@h/\" }]",
            "set.X-Api-Key = \"(secret)\"\nadd.X-Plain = \"(secret)\"",
            "{ x-team = \"(secret)\", other = \"(secret)\", authorization = { file = \"otlp\" } }",
            "path = '/x'\nheaders.x-proof = \"(secret)\"",
            "{ a = [\"(secret)\", # (hidden",
            "query = { debug = '*', key = \"(secret)\" }\nredirect = { to = \"https://h/?(secret)\" }",
        ] {
            assert!(shown.contains(kept), "{kept} in {shown}");
        }
        assert!(DeTable::parse(&shown).is_ok(), "{shown}");
    }
}
