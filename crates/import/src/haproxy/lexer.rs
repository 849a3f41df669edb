//! Cuts a line of an HAProxy configuration into words.
//!
//! Words end at blanks. A backslash takes the next character as it is; double quotes hold blanks and escapes, single quotes everything. `#`
//! begins a comment where no quote or backslash is before it.

use crate::bounds;
use crate::position::{Position, SyntaxError};

/// Returns the words of a line.
pub(super) fn words(line: &str, position: &Position) -> Result<Vec<String>, SyntaxError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '\\') => {
                let next = characters.next().unwrap_or('\\');
                let escaped = match next {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                };
                word.get_or_insert_default().push(escaped);
            }
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
        if words.len() > bounds::WORDS {
            let most = bounds::WORDS;
            return Err(position.error(format!("more than {most} words")));
        }
    }
    if let Some(open) = quote {
        return Err(position.error(format!("a text has no end; write {open} behind it")));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(line: &str) -> Vec<String> {
        words(line, &Position::start(&"h".into())).unwrap()
    }

    /// Goal: words are those of HAProxy. Method: quotes of both kinds, escapes, comments, blanks.
    #[test]
    fn words_are_cut_as_haproxy_cuts_them() {
        assert_eq!(cut("  a  b\tc # d"), ["a", "b", "c"]);
        assert_eq!(
            cut(r#"a "b c" 'd \ e' f\ g "#),
            ["a", "b c", r"d \ e", "f g"]
        );
        assert_eq!(cut(r"a\#b ''"), ["a#b", ""]);
        assert_eq!(cut("# all"), Vec::<String>::new());
        let open = words("a 'b", &Position::start(&"h".into())).unwrap_err();
        assert_eq!(
            open.to_string(),
            "h:1:1: a text has no end; write ' behind it"
        );
    }
}
