//! Counts keys by the age of their latest charge: whether a table is full of clients that come and go, or of ones that
//! stay.

use std::time::Duration;

/// Keys that owe something, by how long ago they were last charged; of a large table a sample was looked at and the rest
/// extrapolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyAges {
    /// The first counts those charged less than a second ago, each further one those charged up to twice as long ago as the
    /// one before: 2 s, 4 s, and so on.
    pub keys: [u64; Self::SPANS],
    /// Age of the key whose latest charge is the oldest.
    pub oldest: Duration,
}

impl KeyAges {
    /// Spans of ages, the last of which ends after 97 days: nothing owes for longer than 62.
    pub const SPANS: usize = 24;

    /// The end of the span of this index.
    #[must_use]
    pub fn end_of(span: usize) -> Duration {
        Duration::from_secs(1 << span.min(Self::SPANS - 1))
    }

    pub(crate) fn count(&mut self, age: Duration) {
        // The number of binary digits: 0 for less than a second, 1 for less than two.
        let span = (u64::BITS - age.as_secs().leading_zeros()) as usize;
        self.keys[span.min(Self::SPANS - 1)] += 1;
        self.oldest = self.oldest.max(age);
    }

    pub(crate) fn scaled(self, scale: impl Fn(u64) -> u64) -> Self {
        Self {
            keys: self.keys.map(scale),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every age lies before the end of its span and not before the end of the one below. Method: ages around all
    /// ends, and the longest.
    #[test]
    fn ages_fall_into_their_spans() {
        for span in 0..KeyAges::SPANS {
            let end = KeyAges::end_of(span);
            for (age, expected) in [(end - Duration::from_nanos(1), span), (end, span + 1)] {
                let mut ages = KeyAges::default();
                ages.count(age);
                assert_eq!(ages.keys[expected.min(KeyAges::SPANS - 1)], 1, "{age:?}");
                assert_eq!(ages.oldest, age);
            }
        }
        let mut ages = KeyAges::default();
        ages.count(Duration::MAX);
        assert_eq!(ages.keys[KeyAges::SPANS - 1], 1);
    }
}
