//! Draws everything that a seed decides.

/// A generator of numbers (SplitMix64): the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Returns the generator of a seed, for one purpose of it.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose.rotate_left(32));
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `least` to `most`.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// Returns whether one of so many cases occurs.
    pub(crate) fn one_in(&mut self, cases: u64) -> bool {
        self.next().is_multiple_of(cases)
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let index = self.between(0, from.len() as u64 - 1);
        from[index as usize].clone()
    }
}
