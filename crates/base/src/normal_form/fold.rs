//! Decides which characters count as one, for the normal form `fold`.
//!
//! Databases and directories compare accounts under rules that ignore accents, width, case and invisible characters: MySQL's
//! `utf8mb4_0900_ai_ci`, for example, compares by the primary weights of the Unicode collation algorithm. A folded text is equal for all
//! texts that such a comparison takes for one. The fold merges more than any single comparison does, and never less; `fold.tsv` says for
//! each character what it folds to ([0066](../../../../docs/decisions/0066-a-generated-table-of-folds.md)).
//!
//! # Invariants
//! 1. A folded text folds to itself.
//! 2. A text folds to what it folds to in lower case.
//!
//! # Limits
//! A text, and what it folds to, has less than [`KEY_VALUE_BYTES`](bounds::KEY_VALUE_BYTES). A longer one may have been cut, so that its
//! beginning would count apart; and a character may fold to eighteen, so a text that grows beyond this costs no more work.

use crate::bounds;

use super::fold_buffer::FoldBuffer;
use super::fold_table::{FoldEntry, FoldTable};

/// Returns the text without case, accents, width and invisible characters, and without white space at its ends; `None` beyond the limits.
#[must_use]
pub fn fold(text: &str) -> Option<String> {
    if text.len() >= bounds::KEY_VALUE_BYTES {
        return None;
    }
    let table = FoldTable::get();
    let mut buffer = FoldBuffer::with_capacity(text.len());
    // The start of the characters that stay as they are, and are not appended yet.
    let mut start = 0;
    for (at, letter) in text.char_indices() {
        // Characters of ASCII are appended together, in lower case.
        let entry = match letter {
            ' '..='~' => FoldEntry::SAME,
            _ => table.entry(letter),
        };
        if entry == FoldEntry::SAME {
            continue;
        }
        if start < at {
            buffer.push_in_lower_case(&text[start..at]);
        }
        start = at + letter.len_utf8();
        table.push(letter, entry, &mut buffer);
        if buffer.len() >= bounds::KEY_VALUE_BYTES {
            return None;
        }
    }
    buffer.push_in_lower_case(&text[start..]);
    let folded = buffer.finish();
    (folded.len() < bounds::KEY_VALUE_BYTES).then(|| folded.trim().to_owned())
}

/// Returns whether nobody sees a character at the end of a text: white space, control characters, and invisible ones.
pub(super) fn is_margin(letter: char) -> bool {
    letter.is_whitespace() || FoldTable::get().entry(letter) == FoldEntry::INVISIBLE
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Texts that a collation compares equal, written by `tests/collation/fold.py`: a text, a tab, then characters and contractions.
    const EQUAL: &str = include_str!("../../../../tests/collation/equal.tsv");

    fn folded(text: &str) -> String {
        fold(text).unwrap()
    }

    fn every_character() -> impl Iterator<Item = char> {
        '\0'..=char::MAX
    }

    /// Goal: spellings of one account are one text. Method: accents, width, case, ligatures, digits of other scripts, and characters that
    /// nobody sees.
    #[test]
    fn look_alikes_of_an_account_are_one() {
        for text in [
            "victim1@a.test",
            "Victim1@A.TEST",
            "v\u{ed}ctim1@a.test",
            "vi\u{301}ctim1@a.test",
            "vic\u{ad}tim1@a.test",
            "vic\u{200b}ti\u{2060}m\u{fe0f}1@a.test",
            "vict\u{e0020}im1@a.test",
            "\u{feff}victim1@a.test \u{a0}",
            "ｖｉｃｔｉｍ１＠ａ．ｔｅｓｔ",
            "vi\u{200d}ct\u{131}m\u{661}@a.te\u{17f}t",
            "𝓿ictim①@a.test",
            "vi\u{1}ctim1@a.test",
            "🅥ictim❶@a.test",
            "vic\u{1cd3}tim1@a.test",
            "victim\u{10107}@a.test",
            "vi\u{368}\u{36d}im1@\u{363}.test",
        ] {
            assert_eq!(folded(text), "victim1@a.test", "{text:?}");
        }
        assert_eq!(folded("Straße ŁÓDŹ Ærø ﬁ"), "strasse lodz aero fi");
        assert_eq!(folded("ΣΑΣ"), folded("σας"));
        assert_ne!(folded("ann"), folded("anna"));
    }

    /// Goal: every digit of every script is its own value. Method: all rows of ten.
    #[test]
    fn digits_of_all_scripts_are_digits() {
        for zero in ['٠', '۰', '߀', '०', '০', '๐', '０', '𑁦', '𞥐', '𝟎', '𝟘', '𝟶']
        {
            let row: String = (0..10)
                .filter_map(|digit| char::from_u32(u32::from(zero) + digit))
                .collect();
            assert_eq!(folded(&row), "0123456789", "{zero}");
        }
    }

    /// Goal: no two texts that a collation compares equal are apart. Method: every character and every contraction of DUCET 5.2 to 10.0
    /// and of the root collation of CLDR, each with a text of the same primary weights.
    #[test]
    fn what_a_collation_compares_equal_is_one() {
        let text = |codes: &str| -> String {
            let code = |code| u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
            codes.split(['+', ' ']).filter_map(code).collect()
        };
        let mut compared = 0;
        for line in EQUAL.lines().skip(1) {
            let (one, others) = line.split_once('\t').expect(line);
            let one = if one == "nothing" {
                String::new()
            } else {
                text(one)
            };
            for other in others.split(' ') {
                let (first, last) = other.split_once('-').unwrap_or((other, other));
                let first = text(first);
                let last = text(last);
                let run = match (first.chars().next(), last.chars().next()) {
                    (Some(first), Some(last)) if first != last => first..=last,
                    _ => '\u{1}'..='\0',
                };
                let run = run.map(String::from);
                for other in run.chain([first]) {
                    assert_eq!(folded(&one), folded(&other), "{one:?} {other:?}");
                    // Nothing beside it changes that.
                    let within = |text: &str| folded(&format!("a{text}l{text}"));
                    assert_eq!(within(&one), within(&other), "{one:?} {other:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 10_000, "{compared}");
    }

    /// Goal: invariants 1 and 2. Method: every character, between letters.
    #[test]
    fn a_folded_text_folds_to_itself() {
        for letter in every_character() {
            let text = format!("a{letter}b");
            let once = folded(&text);
            assert_eq!(folded(&once), once, "{letter:?}");
            assert_eq!(folded(&text.to_lowercase()), once, "{letter:?}");
        }
    }

    /// Goal: a syllable of Hangul is one with its letters, and stays one character. Method: all of them, composed of each leading
    /// consonant, vowel and trailing consonant, and letters that make no syllable.
    #[test]
    fn letters_of_hangul_are_syllables() {
        let mut syllables = '가'..='힣';
        for leading in '\u{1100}'..='\u{1112}' {
            for vowel in '\u{1161}'..='\u{1175}' {
                let open = format!("{leading}{vowel}");
                assert_eq!(folded(&open), syllables.next().unwrap().to_string());
                for trailing in '\u{11a8}'..='\u{11c2}' {
                    let syllable = syllables.next().unwrap().to_string();
                    assert_eq!(folded(&format!("{open}{trailing}")), syllable);
                    assert_eq!(folded(&syllable), syllable);
                }
            }
        }
        assert_eq!(syllables.next(), None);
        assert_eq!(folded("ㅎㅏᆫ국"), "한국");
        assert_eq!(folded("\u{1161}\u{11a8}가가"), "\u{1161}\u{11a8}가가");
    }

    /// Goal: no text costs more than what it keeps, and none counts by its beginning. Method: texts at the bound, and one that grows.
    #[test]
    fn long_texts_have_no_form() {
        let most = bounds::KEY_VALUE_BYTES - 1;
        assert_eq!(fold(&"A".repeat(most)), Some("a".repeat(most)));
        assert_eq!(fold(&"A".repeat(most + 1)), None);
        assert_eq!(fold(&"\u{ad}".repeat(most / 2)).as_deref(), Some(""));
        assert_eq!(fold(&"\u{fdfa}".repeat(most / 3)), None);
        assert!(fold(&"\u{fdfa}".repeat(200)).is_some());
    }

    proptest! {
        /// Goal: the order of `lower` and `fold` does not matter, and texts fold to themselves. Method: arbitrary texts, and texts of the
        /// letters that join or pass others.
        #[test]
        fn lower_changes_nothing_about_a_fold(
            text in prop_oneof!["\\PC{0,8}", "[aLlŀ·ءاوٵЉเแกขລໄໜᄀ가각ᅡᆨ㈀\u{ad}\u{301} ]{0,10}"]
        ) {
            let once = folded(&text);
            prop_assert_eq!(&folded(&text.to_lowercase()), &once);
            prop_assert_eq!(folded(&once), once);
        }

        /// Goal: what is merged alone is merged in any text. Method: texts of such letters, with each replaced by one that is compared
        /// equal.
        #[test]
        fn equal_letters_fold_alike_everywhere(
            letters in prop::collection::vec(prop::sample::select(vec![
                ("l", "ŀ"), ("l", "l·"), ("\u{675}", "\u{627}\u{621}"), ("\u{675}", "\u{621}\u{627}"),
                ("ໜ", "ຫນ"), ("ໄໜ", "ຫໄນ"), ("เก", "กเ"),
                ("a", "ͣ"), ("", "\u{1cd3}"), ("가", "\u{1100}\u{1161}"), ("각", "가\u{11a8}"), ("æ", "ae"), ("·", "\u{387}"),
            ]), 0..8)
        ) {
            let one: String = letters.iter().map(|(one, _)| *one).collect();
            let other: String = letters.iter().map(|(_, other)| *other).collect();
            prop_assert_eq!(folded(&one), folded(&other));
        }
    }
}
