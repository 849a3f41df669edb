//! Expects the names of the members of JSON objects in the order of earlier objects.
//!
//! The lines of one log mostly have the same members in the same order. So after a member the name is expected that followed it the last
//! time: bytes that are as expected need no search for the end of the name, nor a comparison with every name that a format knows.
//! Expectations only save time. Where the bytes differ, the name is read like any other.
//!
//! # Limits
//! [`MAX_NAMES`] names of at most [`MAX_NAME`] bytes are expected; others are read each time.

use crate::text::RawText;

/// Names that are expected: more than the gateway's own lines have.
const MAX_NAMES: usize = 96;
/// Bytes of the longest name that is expected, with its quotes and its colon: three words, which are compared without a loop.
const MAX_NAME: usize = 24;
const WORDS: usize = MAX_NAME / 8;

/// The names that objects had, and the one that followed each of them the last time.
#[derive(Debug)]
pub(crate) struct MemberOrder<M> {
    names: Vec<ExpectedName<M>>,
    /// The place of the name behind each place.
    next: [NamePlace; MAX_NAMES + NamePlace::FIRST],
}

/// A place in objects: a name, or one of the constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamePlace(u8);

impl NamePlace {
    /// The begin of an object, which follows no name.
    pub(crate) const BEGIN: Self = Self(0);
    /// Any name that is not expected.
    const OTHER: Self = Self(1);
    /// Number of the first name.
    const FIRST: usize = 2;

    /// Returns the place of the name with this index; [`Self::OTHER`] beyond those that are expected.
    fn of_name(index: usize) -> Self {
        match u8::try_from(index + Self::FIRST) {
            Ok(place) if index < MAX_NAMES => Self(place),
            _ => Self::OTHER,
        }
    }

    /// Returns the index of its name; one beyond all names for the constants.
    fn name(self) -> usize {
        usize::from(self.0).wrapping_sub(Self::FIRST)
    }
}

/// A name as it stands in a line, `"status":`.
#[derive(Debug)]
struct ExpectedName<M> {
    /// Its bytes, and zeros behind them.
    bytes: [u64; WORDS],
    /// Set bits where it has bytes.
    mask: [u64; WORDS],
    length: usize,
    meaning: M,
}

/// A name that is as expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundName<'a, M> {
    pub(crate) place: NamePlace,
    pub(crate) meaning: M,
    /// The text behind its colon.
    pub(crate) rest: &'a [u8],
}

impl<M> Default for MemberOrder<M> {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            next: [NamePlace::BEGIN; MAX_NAMES + NamePlace::FIRST],
        }
    }
}

impl<M: Copy> MemberOrder<M> {
    /// Returns the name at the begin of `text`, if it is the one that is expected behind `before`.
    #[inline(always)]
    pub(crate) fn expected<'a>(
        &self,
        before: NamePlace,
        text: &'a [u8],
    ) -> Option<FoundName<'a, M>> {
        let place = *self.next.get(usize::from(before.0))?;
        let name = self.names.get(place.name())?;
        let begin = match text.first_chunk() {
            Some(begin) => words(begin),
            None => last_words(text),
        };
        let each = begin.iter().zip(&name.mask).zip(&name.bytes);
        let differences = each.fold(0, |all, ((begin, mask), name)| {
            all | ((begin & mask) ^ name)
        });
        (differences == 0).then_some(FoundName {
            place,
            meaning: name.meaning,
            rest: text.get(name.length..)?,
        })
    }

    /// Expects `name` behind `before`. Returns its place.
    #[cold]
    pub(crate) fn learn(&mut self, before: NamePlace, name: RawText<'_>, meaning: M) -> NamePlace {
        let place = self.place(name, meaning);
        if let Some(next) = self.next.get_mut(usize::from(before.0)) {
            *next = place;
        }
        place
    }

    /// Returns the place of a name, which is added if it is new.
    fn place(&mut self, name: RawText<'_>, meaning: M) -> NamePlace {
        let written = [b"\"", name.raw(), b"\":"].concat();
        let length = written.len();
        let Some(mask) = [0xff; MAX_NAME].get(..length).map(last_words) else {
            return NamePlace::OTHER;
        };
        if name.has_escapes() {
            return NamePlace::OTHER;
        }
        let bytes = last_words(&written);
        if let Some(known) = self.names.iter().position(|known| known.bytes == bytes) {
            return NamePlace::of_name(known);
        }
        let place = NamePlace::of_name(self.names.len());
        if place != NamePlace::OTHER {
            self.names.push(ExpectedName {
                bytes,
                mask,
                length,
                meaning,
            });
        }
        place
    }
}

#[inline(always)]
fn words(bytes: &[u8; MAX_NAME]) -> [u64; WORDS] {
    let (chunks, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|word| {
        chunks
            .get(word)
            .map_or(0, |chunk| u64::from_ne_bytes(*chunk))
    })
}

/// Returns the first words of a text, with zeros behind its end.
fn last_words(text: &[u8]) -> [u64; WORDS] {
    let mut bytes = [0; MAX_NAME];
    for (into, byte) in bytes.iter_mut().zip(text) {
        *into = *byte;
    }
    words(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::EscapeSyntax;

    fn name(text: &str) -> RawText<'_> {
        RawText::plain(text.as_bytes())
    }

    /// Goal: a name is expected where it was, and only as a whole. Method: two names in turn, beside texts that begin like them or end
    /// early.
    #[test]
    fn a_name_is_expected_behind_the_one_before() {
        let mut order = MemberOrder::default();
        let begin = NamePlace::BEGIN;
        assert_eq!(order.expected(begin, b"\"a\":1,\"bc\":2}"), None);
        let a = order.learn(begin, name("a"), 'a');
        let bc = order.learn(a, name("bc"), 'b');
        let found = order
            .expected(begin, b"\"a\":1,\"bc\":2,\"d\":3456789}")
            .unwrap();
        assert_eq!((found.place, found.meaning), (a, 'a'));
        assert_eq!(found.rest, b"1,\"bc\":2,\"d\":3456789}");
        let found = order.expected(a, b"\"bc\":2}").unwrap();
        assert_eq!((found.place, found.rest), (bc, &b"2}"[..]));
        for other in [
            "\"bc\"",
            "\"bd\":2}",
            "\"b\":2}",
            "\"bcd\":2}",
            "",
            "\"bc\" :2}",
        ] {
            assert_eq!(order.expected(a, other.as_bytes()), None);
        }
        assert_eq!(order.expected(bc, b"\"a\":1}"), None);
    }

    /// Goal: a name has one place, and the latest order is expected. Method: two orders of three names.
    #[test]
    fn the_latest_order_is_expected() {
        let mut order = MemberOrder::default();
        let a = order.learn(NamePlace::BEGIN, name("a"), ());
        let b = order.learn(a, name("b"), ());
        let c = order.learn(a, name("c"), ());
        assert_eq!(order.expected(a, b"\"b\":1"), None);
        let found = order.expected(a, b"\"c\":1");
        assert_eq!(found.map(|found| found.place), Some(c));
        assert_eq!(order.learn(c, name("b"), ()), b);
    }

    /// Goal: names take no memory without bound, and one with escapes is not taken for its bytes. Method: more names than are expected,
    /// long ones, one with a backslash.
    #[test]
    fn names_are_bounded() {
        let mut order = MemberOrder::default();
        let begin = NamePlace::BEGIN;
        let escaped = RawText::new(br"a\u0062", EscapeSyntax::Json);
        assert_eq!(order.learn(begin, escaped, ()), NamePlace::OTHER);
        let long = "x".repeat(MAX_NAME - 3);
        assert_ne!(order.learn(begin, name(&long), ()), NamePlace::OTHER);
        let longer = "x".repeat(MAX_NAME - 2);
        assert_eq!(order.learn(begin, name(&longer), ()), NamePlace::OTHER);
        assert_eq!(order.expected(begin, b"\"xxx\":1"), None);
        for other in 0..2 * MAX_NAMES {
            order.learn(begin, name(&other.to_string()), ());
        }
        assert_eq!(order.names.len(), MAX_NAMES);
    }
}
