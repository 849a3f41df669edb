//! Chooses the number of a rate from the maxima of all keys.

/// The factor above the 99.9th percentile that leaves ordinary keys room to grow, in tenths.
const HEADROOM_TENTHS: u64 = 12;

/// The factor by which the largest maximum exceeds the 99th percentile where a sample probably holds an attack.
const ATTACK_FACTOR: u64 = 20;

/// The largest uses of keys: how many keys used how much, from the least use on. No use is there twice, and none without a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyUses {
    uses: Vec<(u32, u64)>,
}

impl KeyUses {
    /// Returns the uses of so many keys each, in any order.
    pub(super) fn new(mut uses: Vec<(u32, u64)>) -> Self {
        uses.sort_unstable();
        uses.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            is_same
        });
        uses.retain(|(_, keys)| *keys > 0);
        Self { uses }
    }

    /// Returns the uses with so many units more.
    pub(super) fn raised(&self, units: u32) -> Self {
        let uses = self.uses.iter();
        Self::new(
            uses.map(|(used, keys)| (used.saturating_add(units), *keys))
                .collect(),
        )
    }

    /// Returns the number of keys.
    pub(super) fn keys(&self) -> u64 {
        let keys = self.uses.iter().map(|(_, keys)| *keys);
        keys.fold(0, u64::saturating_add)
    }

    /// Returns the keys that used more than this.
    pub(super) fn keys_above(&self, units: u32) -> u64 {
        let above = self.uses.iter().filter(|(used, _)| *used > units);
        above.fold(0, |sum, (_, keys)| sum.saturating_add(*keys))
    }

    /// Returns the largest use.
    pub(super) fn max(&self) -> u32 {
        self.uses.last().map_or(0, |(used, _)| *used)
    }

    /// Returns the use that this share of the keys does not exceed, in thousandths (nearest rank).
    pub(super) fn percentile(&self, thousandths: u16) -> u32 {
        let rank = u128::from(self.keys()) * u128::from(thousandths);
        let rank = rank.div_ceil(1_000).max(1);
        let mut keys = 0;
        let mut uses = self.uses.iter();
        let found = uses.find(|(_, at)| {
            keys += u128::from(*at);
            keys >= rank
        });
        found.map_or(0, |(used, _)| *used)
    }

    /// Returns the count of a rate: the lower edge of the widest gap between uses above 1.2 times the 99.9th percentile.
    pub(super) fn recommended(&self) -> u32 {
        let least = (u64::from(self.percentile(999)) * HEADROOM_TENTHS)
            .div_ceil(10)
            .max(1);
        let least = u32::try_from(least).unwrap_or(u32::MAX);
        let above = self.uses.iter().filter(|(used, _)| *used > least);
        let mut lower = least;
        // The gap above the last use has no end, so it is chosen only where there is no other.
        let mut widest: Option<(u32, u32)> = None;
        for (used, _) in above {
            let gap = used - lower;
            if widest.is_none_or(|(_, width)| gap > width) {
                widest = Some((lower, gap));
            }
            lower = *used;
        }
        let (edge, gap) = widest.unwrap_or((least, least));
        round(edge, edge.saturating_add(gap / 2))
    }

    /// Returns whether the largest use is so far from all others that the sample probably holds an attack.
    pub(super) fn holds_attack(&self) -> bool {
        let ordinary = u64::from(self.percentile(990).max(1));
        self.keys() >= 10 && u64::from(self.max()) >= ordinary * ATTACK_FACTOR
    }
}

/// Returns the least round number from `least` on that is not above `most`, else `least`.
fn round(least: u32, most: u32) -> u32 {
    let digits = least.max(1).ilog10();
    let step = 10_u32.pow(digits.saturating_sub(1)) * if digits > 0 { 5 } else { 1 };
    match least.checked_next_multiple_of(step) {
        Some(round) if round <= most => round,
        _ => least,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(uses: &[(u32, u64)]) -> KeyUses {
        KeyUses::new(uses.to_vec())
    }

    /// Goal: ordinary keys have room, and a gap is used. Method: 2,000 keys that ask up to ten times, with and without two that flood.
    #[test]
    fn the_number_lies_in_the_widest_gap() {
        let ordinary: Vec<(u32, u64)> = (0..2_000).map(|key| (1 + key % 10, 1)).collect();
        let with = |more: &[(u32, u64)]| uses(&[&ordinary, more].concat());
        let all = with(&[]);
        assert_eq!((all.percentile(500), all.percentile(999)), (5, 10));
        assert_eq!((all.keys(), all.keys_above(8), all.max()), (2_000, 400, 10));
        assert_eq!(all.recommended(), 15);
        assert!(!all.holds_attack());
        let flooded = with(&[(400, 1)]);
        assert_eq!(flooded.recommended(), 15);
        assert!(flooded.holds_attack());
        // Between 30 and 400 the gap is wider than between 12 and 30.
        assert_eq!(with(&[(30, 1), (400, 1)]).recommended(), 30);
    }

    /// Goal: few keys are no reason to fail. Method: none, one, and uses at the edges of numbers.
    #[test]
    fn few_keys_have_a_number_too() {
        let none = uses(&[(7, 0)]);
        assert_eq!((none.percentile(500), none.recommended()), (0, 1));
        assert_eq!(uses(&[(1, 1)]).recommended(), 2);
        assert_eq!(uses(&[(100, 1)]).recommended(), 150);
        assert!(uses(&[(u32::MAX, u64::MAX)]).recommended() >= u32::MAX - 1);
        assert_eq!(
            uses(&[(1, 1), (5, 2), (u32::MAX, 1)]).raised(1),
            uses(&[(u32::MAX, 1), (6, 2), (2, 1)])
        );
    }
}
