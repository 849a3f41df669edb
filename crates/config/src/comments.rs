//! Decides which comments of a configuration are hidden from readers: those that may have a secret.
//!
//! A comment is shown if it is made of plain words: letters, as they are written in sentences, and short numbers with a unit. A word
//! about secrets hides it. Lines that follow each other and have a comment, or a value that is hidden, are judged together: a secret may
//! stand in the line after the one that announces it.

use std::collections::BTreeMap;
use std::ops::Range;

use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use super::source::SourceText;

/// The text of a hidden comment.
pub(super) const HIDDEN_COMMENT: &str = "# (hidden, since it may hold a secret)";
/// Words about secrets, which may be parts of others.
const SECRET_PARTS: [&str; 9] = [
    "passw",
    "secret",
    "token",
    "credential",
    "authori",
    "bearer",
    "cookie",
    "login",
    "apikey",
];
/// Words about secrets, which are parts of other words too.
const SECRET_WORDS: [&str; 11] = [
    "key",
    "keys",
    "auth",
    "pass",
    "passphrase",
    "pwd",
    "pw",
    "pin",
    "user",
    "username",
    "basic",
];
/// The longest plain word, in characters.
const LONGEST_WORD: usize = 20;
/// The longest plain number, in digits.
const LONGEST_NUMBER: usize = 4;
/// The longest unit of a number, in characters.
const LONGEST_UNIT: usize = 3;
/// The longest word in capitals, in characters.
const LONGEST_CAPITALS: usize = 6;

/// The comment of a line, and whether a value on it is hidden.
#[derive(Default)]
struct LineComment {
    comment: Option<Range<usize>>,
    has_hidden_value: bool,
}

/// Returns the comments to hide, where the values at these places are hidden.
pub(super) fn hidden_comments(
    source: &SourceText<'_>,
    values: &[Range<usize>],
) -> Vec<Range<usize>> {
    let mut lines: BTreeMap<usize, LineComment> = BTreeMap::new();
    let tokens = Source::new(source.text).lex();
    for token in tokens.filter(|token| token.kind() == TokenKind::Comment) {
        let span = token.span().start()..token.span().end();
        let line = lines.entry(source.line_of_all(span.start)).or_default();
        line.comment = Some(span);
    }
    for value in values {
        for line in source.line_of_all(value.start)..=source.line_of_all(value.end) {
            lines.entry(line).or_default().has_hidden_value = true;
        }
    }
    let mut hidden = Vec::new();
    let mut block: Vec<LineComment> = Vec::new();
    let mut last = 0;
    for (number, line) in lines {
        if number > last + 1 {
            add_hidden(source, &mut block, &mut hidden);
        }
        block.push(line);
        last = number;
    }
    add_hidden(source, &mut block, &mut hidden);
    hidden
}

/// Takes the lines of `block`, and adds their comments if one of them is to be hidden.
fn add_hidden(
    source: &SourceText<'_>,
    block: &mut Vec<LineComment>,
    hidden: &mut Vec<Range<usize>>,
) {
    let is_shown = |line: &LineComment| {
        let mut comment = line.comment.iter();
        !line.has_hidden_value && comment.all(|span| is_plain(source.slice(span)))
    };
    let all_shown = block.iter().all(is_shown);
    let comments = block.drain(..).filter_map(|line| line.comment);
    hidden.extend(comments.filter(|_| !all_shown));
}

/// Returns whether a comment is made of plain words, none of which is about secrets.
fn is_plain(comment: &str) -> bool {
    let text = comment.trim_start_matches('#');
    text.split_whitespace().all(is_plain_word)
}

fn is_plain_word(word: &str) -> bool {
    let is_mark = |letter: char| ".,;()!?-–—─…'".contains(letter);
    let mut marks = word.chars();
    let first = marks.next();
    // A line that is drawn.
    if word.len() >= 3
        && "=#*~".contains(first.unwrap_or(' '))
        && marks.all(|mark| Some(mark) == first)
    {
        return true;
    }
    word.split(is_mark)
        .filter(|part| !part.is_empty())
        .all(is_plain_part)
}

fn is_plain_part(part: &str) -> bool {
    let digits = part.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, letters) = part.split_at(digits);
    if !digits.is_empty() {
        let is_unit = letters
            .chars()
            .all(|letter| letter.is_alphabetic() || letter == '%');
        return digits.len() <= LONGEST_NUMBER
            && letters.chars().count() <= LONGEST_UNIT
            && is_unit;
    }
    is_in_sentences(letters) && !is_about_secrets(&letters.to_lowercase())
}

/// Returns whether these letters are written as in a sentence: in small letters but for the first, or an abbreviation in capitals.
fn is_in_sentences(letters: &str) -> bool {
    let length = letters.chars().count();
    let is_capitals = length <= LONGEST_CAPITALS && letters.chars().all(char::is_uppercase);
    let is_word = letters.chars().skip(1).all(|letter| !letter.is_uppercase());
    letters.chars().all(char::is_alphabetic) && length <= LONGEST_WORD && (is_capitals || is_word)
}

fn is_about_secrets(word: &str) -> bool {
    SECRET_PARTS.iter().any(|part| word.contains(part)) || SECRET_WORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a comment that may have a value of a hidden kind is hidden, and sentences are shown. Method: comments of each kind.
    #[test]
    fn comments_of_plain_words_are_shown() {
        for plain in [
            "# for the shop",
            "# as agreed (2026), 5 per 10s, about 20% more: ".trim_end_matches(": "),
            "# ── Limits ──",
            "# =====",
            "# the customer's own URL – don't change it!",
            "#",
        ] {
            assert!(is_plain(plain), "{plain}");
        }
        for hidden in [
            "# login alice / hunter",
            "# login alice hunter",
            "# X-Token hunter",
            "# alice: hunter",
            "# alice = hunter",
            "# set.x-edge = 'hunter'",
            "#headers = { a = \"b\" }",
            "# hunter2",
            "# hQzRtwPlm",
            "# correcthorsebatterystaple",
            "# 0123456789",
            "# PIN 4711",
            "# see https://example.com",
            "# alice@example.com",
            "# the api-key of alice",
        ] {
            assert!(!is_plain(hidden), "{hidden}");
        }
    }

    /// Goal: what stands beside something hidden is hidden too. Method: blocks with a comment that may have a secret, and with a hidden
    /// value, before and behind plain ones.
    #[test]
    fn a_block_of_comments_is_judged_as_a_whole() {
        let text = "# one\n# password\n# two\n\n# three\na = 1\n# four\nb = 'hidden' # five\n# six\n\n# seven\n";
        let start = text.find("'hidden'").unwrap();
        let value = start..start + "'hidden'".len();
        let source = SourceText::new("f", text);
        let hidden = hidden_comments(&source, std::slice::from_ref(&value));
        let hidden: Vec<&str> = hidden.iter().map(|span| source.slice(span)).collect();
        assert_eq!(
            hidden,
            ["# one", "# password", "# two", "# four", "# five", "# six"]
        );
    }
}
