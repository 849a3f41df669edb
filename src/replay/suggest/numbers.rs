//! Chooses the number of a rate from the maxima of all keys.

/// The factor above the 99.9th percentile that leaves ordinary keys room to grow, in tenths.
const HEADROOM_TENTHS: u64 = 12;

/// The factor by which the largest maximum exceeds the 99th percentile where a sample probably holds an attack.
const ATTACK_FACTOR: u64 = 20;

/// Returns the value below or at which this share of sorted values lies, in thousandths (nearest rank).
pub(super) fn percentile(sorted: &[u32], thousandths: usize) -> u32 {
    let rank = (sorted.len() * thousandths).div_ceil(1_000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// Returns the count of a rate: the lower edge of the widest gap between maxima above 1.2 times the 99.9th percentile.
pub(super) fn recommended(sorted: &[u32]) -> u32 {
    let least = (u64::from(percentile(sorted, 999)) * HEADROOM_TENTHS)
        .div_ceil(10)
        .max(1);
    let least = u32::try_from(least).unwrap_or(u32::MAX);
    let above = sorted.iter().copied().filter(|most| *most > least);
    let mut lower = least;
    // The gap above the last maximum has no end, so it is chosen only where there is no other.
    let mut widest: Option<(u32, u32)> = None;
    for most in above {
        let gap = most - lower;
        if widest.is_none_or(|(_, width)| gap > width) {
            widest = Some((lower, gap));
        }
        lower = most;
    }
    let (edge, gap) = widest.unwrap_or((least, least));
    round(edge, edge.saturating_add(gap / 2))
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

/// Returns whether the largest maximum is so far from all others that the sample probably holds an attack.
pub(super) fn holds_attack(sorted: &[u32]) -> bool {
    let ordinary = u64::from(percentile(sorted, 990).max(1));
    let largest = u64::from(sorted.last().copied().unwrap_or(0));
    sorted.len() >= 10 && largest >= ordinary * ATTACK_FACTOR
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: ordinary keys have room, and a gap is used. Method: 2,000 keys that ask up to ten times, with and without two that flood.
    #[test]
    fn the_number_lies_in_the_widest_gap() {
        let mut ordinary: Vec<u32> = (0..2_000).map(|key| 1 + key % 10).collect();
        ordinary.sort_unstable();
        assert_eq!(
            (percentile(&ordinary, 500), percentile(&ordinary, 999)),
            (5, 10)
        );
        assert_eq!(recommended(&ordinary), 15);
        assert!(!holds_attack(&ordinary));
        let mut flooded = ordinary.clone();
        flooded.extend([400]);
        assert_eq!(recommended(&flooded), 15);
        assert!(holds_attack(&flooded));
        // Between 30 and 400 the gap is wider than between 12 and 30.
        let mut flooded = ordinary;
        flooded.extend([30, 400]);
        assert_eq!(recommended(&flooded), 30);
    }

    /// Goal: few keys are no reason to fail. Method: none, one, and maxima at the edges of numbers.
    #[test]
    fn few_keys_have_a_number_too() {
        assert_eq!((percentile(&[], 500), recommended(&[])), (0, 1));
        assert_eq!(recommended(&[1]), 2);
        assert_eq!(recommended(&[100]), 150);
        assert!(recommended(&[u32::MAX]) >= u32::MAX - 1);
    }
}
