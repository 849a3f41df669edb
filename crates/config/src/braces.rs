//! Cuts a text at its words in braces: `"wait {retry_after} s"`.
//!
//! Only braces around a word count, so that JSON and style sheets keep theirs; doubled ones write such a word as text: `{{limit}}` is
//! `{limit}`. What a word may be made of, and what it stands for, is for who asks: refusals ([`super::refusal`]) and templates
//! ([`super::template`]) have different ones, and must not differ in anything else.

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BracedPart<'t> {
    /// A text that is sent unchanged; never empty.
    Text(String),
    /// The text between two braces.
    Word(&'t str),
}

/// The pieces of a text, no two of [`BracedPart::Text`] side by side.
pub(super) fn cut(text: &str, is_in_word: fn(u8) -> bool) -> Vec<BracedPart<'_>> {
    let mut cuts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((word, after)) = doubled(rest, is_in_word) {
            plain.push('{');
            plain.push_str(word);
            plain.push('}');
            rest = after;
        } else if let Some((word, after)) = braced(rest, is_in_word) {
            if !plain.is_empty() {
                cuts.push(BracedPart::Text(std::mem::take(&mut plain)));
            }
            cuts.push(BracedPart::Word(word));
            rest = after;
        } else {
            plain.push('{');
            rest = &rest[1..];
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        cuts.push(BracedPart::Text(plain));
    }
    cuts
}

/// The word of `{{word}}` at the beginning, and what follows.
fn doubled(text: &str, is_in_word: fn(u8) -> bool) -> Option<(&str, &str)> {
    let (word, after) = braced(text.strip_prefix('{')?, is_in_word)?;
    Some((word, after.strip_prefix('}')?))
}

/// The word of `{word}` at the beginning, and what follows.
fn braced(text: &str, is_in_word: fn(u8) -> bool) -> Option<(&str, &str)> {
    let (word, after) = text.strip_prefix('{')?.split_once('}')?;
    (!word.is_empty() && word.bytes().all(is_in_word)).then_some((word, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> BracedPart<'_> {
        BracedPart::Text(text.to_owned())
    }

    /// Goal: words are found, and everything else stays as it was written. Method: words at the ends and side by side, braces that hold
    /// none, doubled, tripled and lone ones.
    #[test]
    fn only_words_in_single_braces_are_cut_out() {
        let read = |text| cut(text, |byte| byte.is_ascii_lowercase());
        let word = BracedPart::Word;
        assert_eq!(read(""), []);
        assert_eq!(read("{a}{b}"), [word("a"), word("b")]);
        assert_eq!(read("é{a}é"), [text("é"), word("a"), text("é")]);
        assert_eq!(read("{\"a\":{a}}"), [text("{\"a\":"), word("a"), text("}")]);
        for same in [
            "p{color:red}",
            "{}",
            "{A}",
            "a { b } {",
            "}{",
            "{{",
            "{{{}}",
        ] {
            assert_eq!(read(same), [text(same)]);
        }
        assert_eq!(read("{{a}} is {a}"), [text("{a} is "), word("a")]);
        assert_eq!(read("{{{a}}}"), [text("{{a}}")]);
        assert_eq!(read("{{a}"), [text("{"), word("a")]);
    }
}
