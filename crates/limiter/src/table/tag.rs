//! Names the key that a slot belongs to: 63 bits of its hash, and one bit for "changing hands".

use crate::key::KeyHash;

/// A key's name in a table: never 0, never with the busy bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag(u64);

/// Set while a claim is under way; the other bits go on naming the old owner, which gets the slot back if the claim
/// fails or never ends.
pub(super) const BUSY: u64 = 1;

/// The state of a slot by its tag word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SlotOwner {
    /// The slot never had an owner.
    Nobody,
    /// The slot belongs to this key.
    Key(Tag),
    /// A new key is claiming it; it may still go back to its old owner.
    Changing,
}

impl Tag {
    #[inline]
    pub(crate) fn new(key: KeyHash) -> Self {
        match key.bits() & !BUSY {
            // The one hash in 2^63 that would mean "nobody".
            0 => Self(2),
            bits => Self(bits),
        }
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// A hash that has this tag.
    pub(crate) const fn key(self) -> KeyHash {
        KeyHash::from_bits(self.0)
    }

    /// The points of the key's two buckets. A table uses the highest bits of a point, as many as its buckets need,
    /// and a tag's are as good as random (`key`): each half of the tag names a bucket.
    #[inline]
    pub(crate) const fn points(self) -> [u64; 2] {
        [self.0, self.0.rotate_left(32)]
    }

    /// The bits that select where the key's search in a bucket begins: neither bucket depends on them in tables of up
    /// to 2^23 buckets.
    #[inline]
    pub(crate) const fn lot(self) -> u64 {
        self.0.rotate_right(8)
    }
}

impl SlotOwner {
    pub(super) const fn from_bits(bits: u64) -> Self {
        match bits {
            0 => Self::Nobody,
            bits if bits & BUSY != 0 => Self::Changing,
            bits => Self::Key(Tag(bits)),
        }
    }

    /// Returns whether one of the tag words that were joined by "or" to `bits` is changing hands.
    pub(super) const fn hides(bits: u64) -> bool {
        bits & BUSY != 0
    }

    /// The tag word that says so.
    pub(super) const fn bits(self) -> u64 {
        match self {
            Self::Nobody => 0,
            Self::Key(tag) => tag.bits(),
            Self::Changing => BUSY,
        }
    }

    /// The tag word of a slot that is being claimed from this owner.
    pub(super) const fn busy(self) -> u64 {
        self.bits() | BUSY
    }
}
