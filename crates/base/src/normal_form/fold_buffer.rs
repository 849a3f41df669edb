//! Appends folded characters to a text, where some join or pass the ones in front of them.
//!
//! Letters of Hangul that follow each other are one syllable. Vowels that Thai, Lao, New Tai Lue and Tai Viet write in front of a
//! consonant have their weight behind it, but not in every comparison, so both orders may be one text. Here such vowels go behind all
//! consonants around them.

use std::ops::RangeInclusive;

/// Vowels that go behind the consonants around them. `tests/collation/fold.py` has the same lists.
pub(super) const LATER: [RangeInclusive<char>; 7] = [
    '\u{e40}'..='\u{e44}',
    '\u{ec0}'..='\u{ec4}',
    '\u{19b5}'..='\u{19b7}',
    '\u{19ba}'..='\u{19ba}',
    '\u{aab5}'..='\u{aab6}',
    '\u{aab9}'..='\u{aab9}',
    '\u{aabb}'..='\u{aabc}',
];

/// Consonants that go in front of such vowels.
pub(super) const EARLIER: [RangeInclusive<char>; 5] = [
    '\u{e01}'..='\u{e2e}',
    '\u{e81}'..='\u{eae}',
    '\u{ede}'..='\u{edf}',
    '\u{1980}'..='\u{19ab}',
    '\u{aa80}'..='\u{aaaf}',
];

/// Characters that may join the one in front of them: the dot of `ŀ`, and vowels and trailing consonants of modern Hangul.
pub(super) const JOINING: [RangeInclusive<char>; 3] = [
    '\u{b7}'..='\u{b7}',
    '\u{1161}'..='\u{1175}',
    '\u{11a8}'..='\u{11c2}',
];

/// Syllables of Hangul and the letters of which they are composed (The Unicode Standard, section 3.12).
const SYLLABLE: u32 = 0xac00;
const LAST_SYLLABLE: u32 = 0xd7a3;
const LEADING: u32 = 0x1100;
const LAST_LEADING: u32 = 0x1112;
const VOWEL: u32 = 0x1161;
const VOWELS: u32 = 21;
/// One less than the first trailing consonant: a syllable may have none.
const TRAILING: u32 = 0x11a7;
const TRAILINGS: u32 = 28;

/// A text to which folded characters are appended.
pub(super) struct FoldBuffer {
    folded: String,
    /// The vowels that go behind the consonants that come.
    later: String,
}

impl FoldBuffer {
    /// Returns an empty text with room for so many bytes.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self {
            folded: String::with_capacity(bytes),
            later: String::new(),
        }
    }

    /// Returns the number of bytes so far.
    pub(super) fn len(&self) -> usize {
        self.folded.len() + self.later.len()
    }

    /// Appends a text none of whose characters changes its place or joins others.
    #[inline]
    pub(super) fn push_str(&mut self, text: &str) {
        self.end_later();
        self.folded.push_str(text);
    }

    /// Appends such a text, with ASCII in lower case.
    #[inline]
    pub(super) fn push_in_lower_case(&mut self, text: &str) {
        if !text.is_empty() {
            self.end_later();
            let start = self.folded.len();
            self.folded.push_str(text);
            self.folded[start..].make_ascii_lowercase();
        }
    }

    /// Appends such a character.
    #[inline]
    pub(super) fn push(&mut self, letter: char) {
        self.end_later();
        self.folded.push(letter);
    }

    /// Appends a consonant of [`EARLIER`].
    #[inline]
    pub(super) fn push_earlier(&mut self, letter: char) {
        self.folded.push(letter);
    }

    /// Appends a vowel of [`LATER`].
    #[inline]
    pub(super) fn push_later(&mut self, letter: char) {
        self.later.push(letter);
    }

    /// Appends a character of [`JOINING`].
    pub(super) fn push_joining(&mut self, letter: char) {
        self.end_later();
        let last = self.folded.chars().next_back();
        if (last, letter) == (Some('l'), '\u{b7}') {
            return;
        }
        match last.and_then(|last| syllable(last.into(), letter.into())) {
            Some(syllable) => {
                self.folded.pop();
                self.folded.push(syllable);
            }
            None => self.folded.push(letter),
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.end_later();
        self.folded
    }

    #[inline]
    fn end_later(&mut self) {
        if !self.later.is_empty() {
            self.folded.push_str(&self.later);
            self.later.clear();
        }
    }
}

/// Returns the syllable that two characters make.
fn syllable(last: u32, letter: u32) -> Option<char> {
    let syllable = match (last, letter) {
        (LEADING..=LAST_LEADING, VOWEL..TRAILING) => {
            SYLLABLE + ((last - LEADING) * VOWELS + letter - VOWEL) * TRAILINGS
        }
        (SYLLABLE..=LAST_SYLLABLE, TRAILING..) if (last - SYLLABLE).is_multiple_of(TRAILINGS) => {
            last + letter - TRAILING
        }
        _ => return None,
    };
    char::from_u32(syllable)
}
