//! Turns a key's parts into the hash that stands for it: keyed, so that no client can aim at a bucket or at a
//! victim.
//!
//! SipHash-1-3 under a secret seed: 6 ns for an address, and no way to find collisions without the seed,
//! which faster hashes do not promise. Keys themselves are never stored. A table tells keys apart by 63 bits of this
//! hash: at 100,000 new keys a second two of them merge about once in a million years.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// Parts up to this length are written as numbers, which take no loop over their bytes, behind a length of one byte, which leaves an
/// address one block less to hash.
const SHORT: usize = 24;

/// The secret that key hashes depend on: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed([u8; 16]);

impl Seed {
    /// A seed of these bytes; take them from the operating system's random source.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, to be kept where keys must hash the same after a restart. They are a secret.
    #[cfg(feature = "mmap")]
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// A hasher for one key.
    #[must_use]
    #[inline]
    pub fn hasher(&self) -> KeyHasher {
        // As `new_with_key`, which is not compiled into its callers.
        let [first, second] =
            [0, 8].map(|half| u64::from_le_bytes(std::array::from_fn(|byte| self.0[half + byte])));
        KeyHasher(SipHasher13::new_with_keys(first, second))
    }
}

impl fmt::Debug for Seed {
    /// Omits the bytes: they are a secret and logs are not.
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str("Seed(..)")
    }
}

/// Takes a key's parts, in order.
#[derive(Clone)]
pub struct KeyHasher(SipHasher13);

impl KeyHasher {
    /// Adds a part, after its length: ("ab", "c") and ("a", "bc") are different keys.
    #[inline]
    pub fn part(&mut self, bytes: &[u8]) -> &mut Self {
        // The same bytes as with `write` alone, on machines of either byte order: numbers are written as they lie in memory.
        if bytes.len() > SHORT {
            return self.long_part(bytes);
        }
        self.0.write_u8(bytes.len() as u8);
        let (eights, rest) = bytes.as_chunks();
        for eight in eights {
            self.0.write_u64(u64::from_ne_bytes(*eight));
        }
        let (fours, rest) = rest.as_chunks();
        for four in fours {
            self.0.write_u32(u32::from_ne_bytes(*four));
        }
        for one in rest {
            self.0.write_u8(*one);
        }
        self
    }

    /// Its length begins like that of no short part.
    fn long_part(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.write_u8(u8::MAX);
        self.0.write_u64((bytes.len() as u64).to_le());
        self.0.write(bytes);
        self
    }

    /// The hash of the parts so far.
    #[must_use]
    #[inline]
    pub fn finish(&self) -> KeyHash {
        KeyHash(self.0.finish())
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str("KeyHasher(..)")
    }
}

/// The hash that stands for a key in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// The hash with these bits, for keys that were hashed before, under a seed that is as secret.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The 64 bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The bits that tables keep, by which the log and operators name a key: all but the lowest.
    #[must_use]
    pub const fn kept_bits(self) -> u64 {
        self.0 & !1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(seed: u8, parts: &[&str]) -> KeyHash {
        let mut hasher = Seed::from_bytes([seed; 16]).hasher();
        for part in parts {
            hasher.part(part.as_bytes());
        }
        hasher.finish()
    }

    /// Goal: parts do not run into each other. Method: the same bytes cut in other places.
    #[test]
    fn the_cut_between_parts_is_part_of_the_key() {
        assert_eq!(hash(1, &["ab", "c"]), hash(1, &["ab", "c"]));
        assert_ne!(hash(1, &["ab", "c"]), hash(1, &["a", "bc"]));
        assert_ne!(hash(1, &["abc"]), hash(1, &["abc", ""]));
    }

    /// Goal: keys hash as they always did, in files of counters and in stores that outlive a release. Method: two parts of all
    /// short lengths, beside the plain hash of the same bytes.
    #[test]
    fn parts_hash_as_they_always_did() {
        let bytes: Vec<u8> = (0..40).collect();
        let seed: [u8; 16] = std::array::from_fn(|byte| byte as u8 * 11);
        for cut in 0..=bytes.len() {
            let (one, other) = bytes.split_at(cut);
            let mut plain = SipHasher13::new_with_key(&seed);
            for part in [one, other] {
                match part.len() {
                    short @ 0..=24 => plain.write(&[short as u8]),
                    long => plain.write(&[&[255][..], &(long as u64).to_le_bytes()].concat()),
                }
                plain.write(part);
            }
            let mut hasher = Seed::from_bytes(seed).hasher();
            let key = hasher.part(one).part(other).finish();
            assert_eq!(key.bits(), plain.finish(), "cut at {cut}");
        }
    }

    /// Goal: nobody predicts a hash, nor reads the seed in a log. Method: two seeds, and their debug form.
    #[test]
    fn hashes_depend_on_a_seed_that_is_not_shown() {
        assert_ne!(hash(1, &["a"]), hash(2, &["a"]));
        assert_eq!(format!("{:?}", Seed::from_bytes([42; 16])), "Seed(..)");
    }
}
