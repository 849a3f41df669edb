//! Decides which characters count as one, for the normal form `fold` and for names that origins take for one another.
//!
//! Databases and directories compare accounts under rules that ignore accents, width, case and invisible characters (MySQL's
//! `utf8mb4_0900_ai_ci`, for example). A folded text is equal for all texts that such a comparison takes for one. The fold merges more than
//! any single comparison does, and never less.
//!
//! # Invariants
//! 1. A folded text folds to itself.

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup};
use icu_properties::{CodePointMapData, CodePointSetData};

/// Letters that have no decomposition, and that the Unicode collation algorithm compares equal to other letters but for accents.
/// In pairs: the letters, and what each becomes.
const LETTERS: [(&str, &str); 49] = [
    ("æᴭ𐞃", "ae"),
    ("ðđᶞꝺ", "d"),
    ("øꞝ𐞢", "o"),
    ("ħꟸ𐞕", "h"),
    ("ŀł", "l"),
    ("œꟹ", "oe"),
    ("ƾʦ𐞬", "ts"),
    ("ȸ", "db"),
    ("ȹ", "qp"),
    ("ʣ𐞇", "dz"),
    ("ʪ𐞙", "ls"),
    ("ʫ𐞚", "lz"),
    ("ıɪ", "i"),
    ("ᵹꞡ", "g"),
    ("ᵺþ", "th"),
    ("ỻ", "ll"),
    ("ꜩ", "tz"),
    ("ꜳ", "aa"),
    ("ꜵ", "ao"),
    ("ꜷ", "au"),
    ("ꜹꜻ", "av"),
    ("ꜽ", "ay"),
    ("ꝏ", "oo"),
    ("ꝡ", "vy"),
    ("ꝼ", "f"),
    ("ꞃꞧɍ", "r"),
    ("ꞅꞩ", "s"),
    ("ꞇŧ", "t"),
    ("ꞛⱥ", "a"),
    ("ꞟ", "u"),
    ("ꞣ", "k"),
    ("ꞥ", "n"),
    ("ƀ", "b"),
    ("ɇ", "e"),
    ("ɨ", "i"),
    ("ɉ", "j"),
    ("ᵽ", "p"),
    ("ʉ", "u"),
    ("ɏ", "y"),
    ("ƶ", "z"),
    ("ǥ", "g"),
    ("ȼ", "c"),
    ("ɵ", "o"),
    ("🆋", "ic"),
    ("🆎", "ab"),
    ("🆑", "cl"),
    ("🆔", "id"),
    ("🆗", "ok"),
    ("\u{640}\u{7fa}\u{180a}", ""),
];

/// Letters in black circles and squares: the first character of a run, and how many letters it has.
const LETTER_RUNS: [(u32, u32); 2] = [(0x1f150, 26), (0x1f170, 26)];

/// Digits in circles that have no decomposition: the first character of a run, and its digit.
const DIGIT_RUNS: [(u32, u32, u32); 5] = [
    (0x2776, 1, 9),
    (0x2780, 1, 9),
    (0x278a, 1, 9),
    (0x24f5, 1, 9),
    (0x3021, 1, 9),
];

/// Returns the text without case, accents, width and invisible characters, and without white space at its ends.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        let visible = text.chars().filter(|letter| !is_invisible_ascii(*letter));
        let folded: String = visible.map(|letter| letter.to_ascii_lowercase()).collect();
        return folded.trim().to_owned();
    }
    // A letter may fold to one that decomposes, and a decomposition may have letters that fold.
    let once = letters(text);
    let twice = letters(&once);
    let composed = ComposingNormalizerBorrowed::new_nfc().normalize_iter(twice.chars());
    composed.collect::<String>().trim().to_owned()
}

/// Returns whether a character is a control character other than white space: comparisons ignore these.
fn is_invisible_ascii(letter: char) -> bool {
    letter.is_ascii_control() && !letter.is_ascii_whitespace() && letter != '\u{b}'
}

/// Folds once: decomposed, without marks and invisible characters, in lower case.
fn letters(text: &str) -> String {
    let decompose = DecomposingNormalizerBorrowed::new_nfkd();
    let categories = CodePointMapData::<GeneralCategory>::new();
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let unseen = GeneralCategoryGroup::Mark
        .union(GeneralCategoryGroup::Format)
        .union(GeneralCategoryGroup::Control);
    let mut folded = String::with_capacity(text.len());
    for letter in decompose.normalize_iter(text.chars()) {
        let category = categories.get(letter);
        let unseen = unseen.contains(category) && !letter.is_whitespace();
        if unseen || ignorable.contains(letter) {
            continue;
        }
        if category == GeneralCategory::DecimalNumber {
            folded.push(digit(letter, categories));
            continue;
        }
        // Upper case first: `ſ`, `ς` and the Kelvin sign have a lower case of their own, and share an upper case.
        for letter in letter.to_uppercase().flat_map(char::to_lowercase) {
            push_base(letter, &mut folded);
        }
    }
    folded
}

/// Decimal digits of a script stand in a row, of which the first is zero.
fn digit(
    letter: char,
    categories: icu_properties::CodePointMapDataBorrowed<'_, GeneralCategory>,
) -> char {
    if letter.is_ascii_digit() {
        return letter;
    }
    let code = u32::from(letter);
    let is_digit = |code: u32| {
        char::from_u32(code)
            .is_some_and(|letter| categories.get(letter) == GeneralCategory::DecimalNumber)
    };
    // Rows follow each other without a gap in a few blocks, where each begins at a multiple of ten from the block's first digit.
    let mut first = code;
    while code - first < 100 && first > 0 && is_digit(first - 1) {
        first -= 1;
    }
    char::from_digit((code - first) % 10, 10).unwrap_or(letter)
}

/// Appends the letters that collation compares `letter` equal to.
fn push_base(letter: char, folded: &mut String) {
    if letter.is_ascii() {
        folded.push(letter);
        return;
    }
    let code = u32::from(letter);
    if let Some((_, base)) = LETTERS.iter().find(|(from, _)| from.contains(letter)) {
        folded.push_str(base);
        return;
    }
    let in_run = LETTER_RUNS
        .iter()
        .find(|(first, count)| (*first..first + count).contains(&code));
    if let Some((first, _)) = in_run {
        folded.extend(char::from_u32(u32::from('a') + code - first));
        return;
    }
    let in_run = DIGIT_RUNS
        .iter()
        .find(|(first, _, count)| (*first..first + count).contains(&code));
    match in_run {
        Some((first, digit, _)) => folded.extend(char::from_digit(digit + code - first, 10)),
        None => folded.push(letter),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        ] {
            assert_eq!(fold(text), "victim1@a.test", "{text:?}");
        }
        assert_eq!(fold("Straße ŁÓDŹ Ærø ﬁ"), "strasse lodz aero fi");
        assert_eq!(fold("ΣΑΣ"), fold("σας"));
        assert_eq!(fold("한국"), "한국");
        assert_ne!(fold("ann"), fold("anna"));
    }

    /// Goal: every digit of every script is its own value. Method: all rows of ten.
    #[test]
    fn digits_of_all_scripts_are_digits() {
        for zero in ['٠', '۰', '߀', '०', '০', '๐', '０', '𑁦', '𞥐', '𝟎', '𝟘', '𝟶']
        {
            let row: String = (0..10)
                .filter_map(|digit| char::from_u32(u32::from(zero) + digit))
                .collect();
            assert_eq!(fold(&row), "0123456789", "{zero}");
        }
    }

    /// Goal: invariant 1, and independence of other forms. Method: every character of the first two planes between letters.
    #[test]
    fn a_folded_text_folds_to_itself() {
        for letter in (0..0x2_0000u32).filter_map(char::from_u32) {
            let folded = fold(&format!("a{letter}b"));
            assert_eq!(fold(&folded), folded, "{letter:?}");
        }
    }

    proptest! {
        /// Goal: the order of `lower` and `fold` does not matter, and texts fold to themselves. Method: arbitrary texts.
        #[test]
        fn lower_changes_nothing_about_a_fold(text in "\\PC{0,8}") {
            let folded = fold(&text);
            prop_assert_eq!(&fold(&text.to_lowercase()), &folded);
            prop_assert_eq!(fold(&folded), folded);
        }
    }
}
