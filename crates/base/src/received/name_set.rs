//! Tells that a name is not among the names of a head, by one word: most names that are looked for are not there.

/// A number of six bits that is made of a name. Equal names have equal tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameTag(u8);

impl NameTag {
    /// Returns the tag of a name in lower case. The length and the last letter differ most among the names that are in use, the first
    /// letter least: many begin with the same word.
    #[inline]
    pub(super) fn new(name: &[u8]) -> Self {
        let (first, last) = match name {
            [first, .., last] => (*first, *last),
            [only] => (0, *only),
            [] => (0, 0),
        };
        // The lowest bits of the length alone count, which is what a tag is made of.
        let length = name.len() as u8;
        let mixed = length.wrapping_mul(11) ^ first.wrapping_mul(5) ^ last.wrapping_mul(3);
        Self(mixed % 64)
    }
}

/// The tags of a head's names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NameSet(u64);

impl NameSet {
    /// Returns whether there may be a name with this tag.
    #[inline]
    pub(super) fn may_have(self, tag: NameTag) -> bool {
        self.0 & tag.bit() != 0
    }

    /// Adds a tag, and returns whether it was there.
    #[inline]
    pub(super) fn add(&mut self, tag: NameTag) -> bool {
        let was_there = self.may_have(tag);
        self.0 |= tag.bit();
        was_there
    }
}

impl NameTag {
    #[inline]
    fn bit(self) -> u64 {
        1 << self.0
    }
}
