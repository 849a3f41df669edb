//! Cuts a line of an HAProxy configuration into words.
//!
//! Words end at blanks. A backslash takes a blank, a quote, `#` or another backslash as it is, and stands for itself before any other
//! character, as in `\d` of an expression. Double quotes hold blanks, escapes and variables of the environment, single quotes everything.
//! `#` begins a comment where no quote or backslash is before it.

use std::iter::Peekable;
use std::str::Chars;

use crate::bounds;
use crate::position::{Position, SyntaxError};

/// The words of a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LineWords {
    pub(super) words: Vec<String>,
    /// True if HAProxy takes a part of them from its environment.
    pub(super) has_variable: bool,
}

/// Cuts a line into its words.
pub(super) fn cut(line: &str, position: &Position) -> Result<LineWords, SyntaxError> {
    let mut cut = LineWords::default();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '\\') => {
                let c = escaped(&mut characters, quote);
                word.get_or_insert_default().push(c);
            }
            (Some(_), c) => {
                cut.has_variable |= c == '$';
                word.get_or_insert_default().push(c);
            }
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') => break,
            (None, c) if c.is_whitespace() => cut.words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
        if cut.words.len() > bounds::WORDS {
            let most = bounds::WORDS;
            return Err(position.error(format!("more than {most} words")));
        }
    }
    if let Some(open) = quote {
        return Err(position.error(format!("a text has no end; write {open} behind it")));
    }
    cut.words.extend(word);
    Ok(cut)
}

/// Returns the character that a backslash and those behind it stand for: the backslash where they mean nothing together.
fn escaped(characters: &mut Peekable<Chars<'_>>, quote: Option<char>) -> char {
    let is_taken =
        |c: &char| matches!(c, ' ' | '\\' | '#' | '"' | '\'') || (quote.is_some() && *c == '$');
    if let Some(c) = characters.next_if(is_taken) {
        return c;
    }
    if let Some(name) = characters.next_if(|c| matches!(c, 'n' | 'r' | 't')) {
        return match name {
            'n' => '\n',
            'r' => '\r',
            _ => '\t',
        };
    }
    let mut ahead = characters.clone();
    let digits: String = ahead.by_ref().skip(1).take(2).collect();
    if characters.peek() == Some(&'x')
        && digits.len() == 2
        && let Ok(byte) = u8::from_str_radix(&digits, 16)
        && byte.is_ascii()
    {
        *characters = ahead;
        return char::from(byte);
    }
    '\\'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        cut(line, &Position::start(&"h".into())).unwrap().words
    }

    /// Goal: words are those of HAProxy. Method: quotes of both kinds, escapes, comments, blanks.
    #[test]
    fn words_are_cut_as_haproxy_cuts_them() {
        assert_eq!(words("  a  b\tc # d"), ["a", "b", "c"]);
        assert_eq!(
            words(r#"a "b c" 'd \ e' f\ g "#),
            ["a", "b c", r"d \ e", "f g"]
        );
        assert_eq!(words(r"a\#b ''"), ["a#b", ""]);
        assert_eq!(words("# all"), Vec::<String>::new());
        let open = cut("a 'b", &Position::start(&"h".into())).unwrap_err();
        assert_eq!(
            open.to_string(),
            "h:1:1: a text has no end; write ' behind it"
        );
    }

    /// Goal: expressions keep their backslashes, as in HAProxy 2.6. Method: escapes of expressions without quotes and in both kinds, the
    /// escapes that HAProxy has, and hexadecimal ones.
    #[test]
    fn a_backslash_before_another_character_stays() {
        assert_eq!(words(r"^/v\d+\.(a|b)$"), [r"^/v\d+\.(a|b)$"]);
        assert_eq!(words(r#""^/d\d+\$" '^/s\d$'"#), [r"^/d\d+$", r"^/s\d$"]);
        assert_eq!(words(r#"\\. \" \x41\x4 \$"#), [r"\.", "\"", r"A\x4", r"\$"]);
        assert_eq!(words(r"a\"), [r"a\"]);
    }

    /// Goal: a value of HAProxy's environment is told apart from a text. Method: a dollar sign in all places.
    #[test]
    fn variables_stand_in_double_quotes() {
        let has_variable = |line: &str| {
            cut(line, &Position::start(&"h".into()))
                .unwrap()
                .has_variable
        };
        assert!(has_variable(r#"acl a path_beg "$ADMIN""#));
        assert!(has_variable(r#"acl a path_beg "/x${ADMIN}/y""#));
        assert!(!has_variable(r#"acl a path_reg ^/a$ '$b' "c\$""#));
    }
}
