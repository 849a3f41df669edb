//! Maps letters beyond ASCII to the ASCII letters that some origins equate with them when they ignore case.
//!
//! Expressions that ignore case in Python (`(?i)` in Django), Ruby, Go and PHP (`/iu`) compare by Unicode's case folding: `ſ` is an `s`
//! and the Kelvin sign a `k`. Python takes `ı` and `İ` for an `i`, too.

/// The letters in their normal form, and the ASCII letter of each.
const LETTERS: [(&str, &str); 4] = [
    ("%C5%BF", "s"),
    ("%E2%84%AA", "k"),
    ("%C4%B0", "i"),
    ("%C4%B1", "i"),
];

/// Returns a path in normal form, or a part of it, with ASCII letters in place of these; `None` where it has none.
pub(super) fn folded(path: &str) -> Option<String> {
    let mut folded: Option<String> = None;
    for (letter, base) in LETTERS {
        let text = folded.as_deref().unwrap_or(path);
        if text.contains(letter) {
            folded = Some(text.replace(letter, base));
        }
    }
    folded
}

/// Returns whether the escapes of `text` begin with such a letter.
pub(super) fn is_letter(text: &[u8]) -> bool {
    LETTERS
        .iter()
        .any(|(letter, _)| text.starts_with(letter.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each letter is found, and no other. Method: a path with all of them, one with neighbors.
    #[test]
    fn letters_become_those_of_ascii() {
        let path = "/%C5%BFend/%E2%84%AAey/%C4%B0d/%C4%B1d";
        assert_eq!(folded(path).as_deref(), Some("/send/key/id/id"));
        assert_eq!(folded("/%C5%BE/%C4%B2/%E2%84%AB"), None);
    }
}
