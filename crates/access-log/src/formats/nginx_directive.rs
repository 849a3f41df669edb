//! Reads a `log_format` directive as nginx reads it: a name, `escape=`, and strings that are joined.
//!
//! A string stands in double or single quotes or bare, `\t`, `\r`, `\n` are the characters, and a backslash before a quote or a backslash
//! stands for that (nginx 1.29, `ngx_conf_read_token`).

use crate::text::EscapeSyntax;

/// The text of a format, and the escapes that nginx writes in values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FormatText {
    pub(super) text: String,
    pub(super) escapes: EscapeSyntax,
}

/// The rest of a configuration.
struct TokenCursor<'t>(&'t str);

/// Returns the text of the first `log_format` in a part of a configuration, or of the strings of one; any other text is a format itself.
///
/// # Errors
/// The directive has no end.
pub(super) fn format_text(written: &str) -> Result<FormatText, String> {
    let written = written.trim();
    if let Some(arguments) = arguments(written) {
        return directive(&mut TokenCursor(&arguments));
    }
    if written.starts_with('\'') && written.trim_end_matches(';').ends_with('\'') {
        let strings = format!("{};", written.trim_end_matches(';'));
        return joined(&mut TokenCursor(&strings), None);
    }
    Ok(FormatText {
        text: unescaped(written),
        // nginx says `escape=json` in the directive alone, which is not here; in texts of JSON both syntaxes are read.
        escapes: match written.starts_with('{') {
            true => EscapeSyntax::Json,
            false => EscapeSyntax::Backslash,
        },
    })
}

/// Returns what follows the first directive `log_format`; where all of them are commented out, that of the first without its `#`.
fn arguments(written: &str) -> Option<String> {
    const WORD: &str = "log_format";
    let mut commented_out = None;
    for (at, _) in written.match_indices(WORD) {
        let before = written.get(..at)?;
        let rest = written.get(at + WORD.len()..)?;
        let line = before.rsplit('\n').next().unwrap_or_default();
        let begins = line.is_empty() || line.ends_with([' ', '\t', '{', ';', '#']);
        if !begins || !rest.starts_with(char::is_whitespace) {
            continue;
        }
        if !line.trim_start().starts_with('#') {
            return Some(rest.to_owned());
        }
        commented_out.get_or_insert(rest);
    }
    let lines = commented_out?.lines();
    let lines = lines.map(|line| line.trim_start().strip_prefix('#').unwrap_or(line));
    Some(lines.collect::<Vec<_>>().join("\n"))
}

fn directive(cursor: &mut TokenCursor<'_>) -> Result<FormatText, String> {
    if cursor.token()?.is_none() {
        return Err("log_format has no name and no text".to_owned());
    }
    let first = cursor.token()?;
    let option = first
        .as_deref()
        .and_then(|token| token.strip_prefix("escape="));
    let escapes = match option {
        None => None,
        Some("default") => Some(EscapeSyntax::Backslash),
        Some("json") => Some(EscapeSyntax::Json),
        Some("none") => Some(EscapeSyntax::None),
        Some(other) => return Err(format!("escape={other} is none of default, json, none")),
    };
    let mut found = joined(cursor, escapes)?;
    if let (None, Some(first)) = (option, &first) {
        found.text.insert_str(0, first);
    }
    Ok(found)
}

/// Joins the strings up to the end of the directive.
fn joined(
    cursor: &mut TokenCursor<'_>,
    escapes: Option<EscapeSyntax>,
) -> Result<FormatText, String> {
    let mut text = String::new();
    while let Some(token) = cursor.token()? {
        text.push_str(&token);
    }
    Ok(FormatText {
        text,
        escapes: escapes.unwrap_or(EscapeSyntax::Backslash),
    })
}

impl TokenCursor<'_> {
    /// Returns the next string; `None` at the `;` that ends the directive.
    fn token(&mut self) -> Result<Option<String>, String> {
        self.0 = self.0.trim_start();
        while self.0.starts_with('#') {
            let end = self.0.find('\n').unwrap_or(self.0.len());
            self.0 = self.0.get(end..).unwrap_or_default().trim_start();
        }
        let unended = || {
            "the directive does not end: it goes up to its `;`, over several lines where it has them".to_owned()
        };
        let Some(first) = self.0.chars().next() else {
            return Err(unended());
        };
        match first {
            ';' => Ok(None),
            '"' | '\'' => {
                let inside = self.0.get(1..).unwrap_or_default();
                let end = end_of(inside, |c| c == first).ok_or_else(unended)?;
                Ok(Some(self.take(1, end, 1)))
            }
            _ => {
                let end = end_of(self.0, |c| c.is_whitespace() || c == ';').ok_or_else(unended)?;
                Ok(Some(self.take(0, end, 0)))
            }
        }
    }

    /// Takes a string of `length` bytes with the quotes before and behind it.
    fn take(&mut self, before: usize, length: usize, behind: usize) -> String {
        let text = self.0.get(before..before + length).unwrap_or_default();
        let text = unescaped(text);
        self.0 = self.0.get(before + length + behind..).unwrap_or_default();
        text
    }
}

/// Returns the place of the first character that is an end and has no backslash before it.
fn end_of(text: &str, is_end: impl Fn(char) -> bool) -> Option<usize> {
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        if is_end(character) {
            return Some(at);
        }
        if character == '\\' {
            characters.next();
        }
    }
    None
}

/// Returns a string without its escapes. A backslash before any other character stands for itself.
fn unescaped(text: &str) -> String {
    let mut found = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\\') {
        found.push_str(before);
        let character = match behind.chars().next() {
            Some('t') => '\t',
            Some('r') => '\r',
            Some('n') => '\n',
            Some(quoted @ ('"' | '\'' | '\\')) => quoted,
            _ => {
                found.push('\\');
                rest = behind;
                continue;
            }
        };
        found.push(character);
        rest = behind.get(1..).unwrap_or_default();
    }
    found.push_str(rest);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a directive is read as nginx reads it. Method: the forms in which operators write one, each with the same text.
    #[test]
    fn directives_are_read_as_nginx_reads_them() {
        let expected = "a:$remote_addr\t\"$request\" 'x' \\d";
        for written in [
            r#"log_format main 'a:$remote_addr\t"$request" \'x\' \d';"#,
            r#"log_format main "a:$remote_addr\t\"$request\" 'x' \d";"#,
            "    log_format  main  'a:$remote_addr\\t' # the client;\n        \"\\\"$request\\\"\"\n    ' \\'x\\' \\\\d' ;\n  server {",
            "http {\n#log_format main 'a:$remote_addr\\t\"$request\" '\n#    '\\'x\\' \\d';\n",
            "log_format main a:$remote_addr\\t\\\"$request\\\" \" 'x' \\d\"; log_format other '$msec';",
            "log_format main escape=default 'a:$remote_addr\t\"$request\" \\'x\\' \\d';",
            "'a:$remote_addr\\t' '\"$request\" \\'x\\' \\d';",
            "a:$remote_addr\\t\\\"$request\\\" 'x' \\d",
        ] {
            let found = format_text(written).unwrap();
            assert_eq!(found.text, expected, "{written}");
            assert_eq!(found.escapes, EscapeSyntax::Backslash, "{written}");
        }
    }

    /// Goal: the escapes of values are those that the directive says. Method: each option, and a text of JSON alone.
    #[test]
    fn the_option_says_the_escapes() {
        for (written, escapes) in [
            (
                "log_format a escape=json '{\"a\":\"$b\"}';",
                EscapeSyntax::Json,
            ),
            ("log_format a escape=none $b;", EscapeSyntax::None),
            ("log_format a '{\"a\":\"$b\"}';", EscapeSyntax::Backslash),
            ("{\"a\":\"$b\"}", EscapeSyntax::Json),
        ] {
            assert_eq!(format_text(written).unwrap().escapes, escapes, "{written}");
        }
    }

    /// Goal: a part of a directive is not taken for the whole. Method: its first line, an open quote, no text, a wrong option.
    #[test]
    fn a_cut_directive_is_refused() {
        for (written, part) in [
            ("log_format main '$remote_addr - '", "goes up to its `;`"),
            ("log_format main '$remote_addr", "goes up to its `;`"),
            ("log_format ;", "no name"),
            ("log_format a escape=xml '$b';", "default, json, none"),
        ] {
            let error = format_text(written).unwrap_err();
            assert!(error.contains(part), "{written}: {error}");
        }
    }
}
