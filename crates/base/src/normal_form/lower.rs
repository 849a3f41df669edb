//! Puts texts into lower case, for the normal form `lower`.

use std::sync::LazyLock;

use super::code_points::CodePointMap;

/// The last characters with a lower case are in the second plane.
const LAST: char = '\u{1ffff}';

/// The lower 16 bits of each letter's lower case, which lies in the plane of the letter.
static LOWER: LazyLock<CodePointMap> = LazyLock::new(|| {
    let mut lower = CodePointMap::new();
    for letter in '\u{80}'..=LAST {
        let mut letters = letter.to_lowercase();
        if let (Some(single), None) = (letters.next(), letters.next())
            && single != letter
        {
            lower.insert(letter, low_bits(single));
        }
    }
    // A sigma is `ς` or `σ` by its place in a word, and libraries differ in where a word ends.
    lower.insert('ς', low_bits('σ'));
    lower
});

/// Returns the text in lower case.
pub(super) fn lower(text: &str) -> String {
    let table = &*LOWER;
    let mut lower = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\0'..='\u{7f}' => lower.push(letter.to_ascii_lowercase()),
            // The only letter whose lower case is two characters.
            'İ' => lower.push_str("i\u{307}"),
            _ => lower.push(match table.get(letter) {
                0 => letter,
                bits => in_plane_of(letter, bits),
            }),
        }
    }
    lower
}

fn low_bits(letter: char) -> u16 {
    (u32::from(letter) & 0xffff) as u16
}

fn in_plane_of(letter: char, bits: u16) -> char {
    char::from_u32(u32::from(letter) & !0xffff | u32::from(bits)).unwrap_or(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the table is what the standard library says, but for the sigma. Method: every character, and words with a sigma at their end.
    #[test]
    fn every_letter_has_its_lower_case() {
        for letter in '\0'..=char::MAX {
            let expected = match letter {
                'ς' => "σ".to_owned(),
                _ => letter.to_lowercase().collect::<String>(),
            };
            assert_eq!(lower(letter.encode_utf8(&mut [0; 4])), expected);
        }
        assert_eq!(lower("ΟΔΟΣ"), lower("οδος"));
        assert_eq!(lower("Straße"), "straße");
    }
}
