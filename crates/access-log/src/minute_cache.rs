//! Keeps the minute of the latest time of a log, since the next time is mostly in the same one.
//!
//! The text of a time up to its minute is compared as a whole; where it is the same, only the seconds and what follows them are parsed.

use crate::time;

/// Bytes of `2026-11-21T07:10:`.
const RFC3339_MINUTE: usize = 17;
/// Bytes of `21/Nov/2026:07:10:`.
const CLF_MINUTE: usize = 18;

/// The minute of the latest time, in each of two forms.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MinuteCache {
    rfc3339: CachedMinute<RFC3339_MINUTE>,
    clf: CachedMinute<CLF_MINUTE>,
}

/// A minute by its text.
#[derive(Clone, Copy, Debug)]
struct CachedMinute<const N: usize> {
    text: [u8; N],
    /// The seconds from the epoch to its begin, were it in UTC.
    seconds: u64,
}

/// A part of a time in seconds since the epoch, and the text behind that part.
type ParsedPart<'a> = Option<(u64, &'a [u8])>;

impl MinuteCache {
    /// Parses a time as [`time::rfc3339`] does.
    #[inline]
    pub(crate) fn rfc3339(&mut self, text: &[u8]) -> Option<u64> {
        let (seconds, rest) = self.rfc3339.date(text, time::rfc3339_date)?;
        time::rfc3339_end(seconds, rest)
    }

    /// Parses a time as [`time::clf`] does.
    #[inline]
    pub(crate) fn clf(&mut self, text: &[u8]) -> Option<u64> {
        let (seconds, rest) = self.clf.date(text, time::clf_date)?;
        time::clf_end(seconds, rest)
    }
}

impl<const N: usize> Default for CachedMinute<N> {
    fn default() -> Self {
        // No time has this text.
        Self {
            text: [0; N],
            seconds: 0,
        }
    }
}

impl<const N: usize> CachedMinute<N> {
    /// Parses date and time of day as `parse` does, which does so where the minute is another one.
    #[inline]
    fn date<'a>(
        &mut self,
        text: &'a [u8],
        parse: fn(&'a [u8]) -> ParsedPart<'a>,
    ) -> ParsedPart<'a> {
        let (minute, behind) = text.split_first_chunk::<N>()?;
        let (second, rest) = behind.split_first_chunk::<2>()?;
        if *minute == self.text {
            let seconds = self.seconds + time::second(*second)?;
            return Some((seconds, rest));
        }
        let (seconds, rest) = parse(text)?;
        *self = Self {
            text: *minute,
            seconds: seconds - time::second(*second)?,
        };
        Some((seconds, rest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: a time is the same with a cache as without. Method: times close to one another in both forms, with slips, one after the
        /// other.
        #[test]
        fn times_are_those_without_a_cache(
            minutes in proptest::collection::vec((0_u64..3, "[0-6][0-9]", "(\\.[0-9]{0,11})?", "(Z|\\+0000|[+-]0[0-9]:?30|.{0,3})"), 1..20),
            slip in proptest::option::of((0_usize..24, any::<u8>())),
        ) {
            let mut cache = MinuteCache::default();
            for (minute, second, fraction, zone) in minutes {
                let mut rfc3339 = format!("2026-11-21T07:1{minute}:{second}{fraction}{zone}").into_bytes();
                let mut clf = format!("21/Nov/2026:07:1{minute}:{second} {zone}").into_bytes();
                if let Some((at, byte)) = slip {
                    rfc3339[at.min(18)] = byte;
                    clf[at.min(20)] = byte;
                }
                for _ in 0..2 {
                    prop_assert_eq!(cache.rfc3339(&rfc3339), time::rfc3339(&rfc3339));
                    prop_assert_eq!(cache.clf(&clf), time::clf(&clf));
                }
            }
        }

        /// Goal: cut texts are no times with a cache, as without. Method: the beginnings of a time whose minute is known.
        #[test]
        fn cut_texts_are_no_times(length in 0_usize..27) {
            let mut cache = MinuteCache::default();
            for whole in [true, false] {
                let (rfc3339, clf) = (b"2026-11-21T07:10:38.042Z", b"21/Nov/2026:07:10:38 +0000");
                let end = |all: usize| if whole { all } else { length.min(all) };
                let (rfc3339, clf) = (&rfc3339[..end(24)], &clf[..end(26)]);
                prop_assert_eq!(cache.rfc3339(rfc3339), time::rfc3339(rfc3339));
                prop_assert_eq!(cache.clf(clf), time::clf(clf));
            }
        }
    }
}
