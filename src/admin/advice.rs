//! Decides which capacity to advise for a limit whose table was too small (contract C3: honest at the bound).

use super::view::LimitView;

/// The largest capacity that can be configured.
const LARGEST: u64 = 1 << 30;

/// The `capacity` to set instead; `None` while the table was large enough, or when nothing larger can be set.
///
/// How many keys share an overflow cannot be known, since they are not told apart. So: twice what is configured or counted,
/// whichever is more, rounded up to a power of two; an operator who follows it again arrives in a few steps.
pub(super) fn capacity(limit: &LimitView) -> Option<u64> {
    let too_small = limit.overflow_active || limit.overflow_decisions > 0;
    let configured = limit.capacity.keys();
    let advised = limit
        .keys
        .max(configured)
        .saturating_mul(2)
        .min(LARGEST)
        .next_power_of_two();
    (too_small && advised > configured).then_some(advised)
}

#[cfg(test)]
mod tests {
    use sluicegate_limiter::Capacity;

    use super::super::tests::limit_view;
    use super::*;

    /// Goal: advice appears with the first overflow and is always larger. Method: tables around the corner cases.
    #[test]
    fn advice_is_given_once_a_table_was_too_small() {
        for (configured, keys, decisions, advised) in [
            (1_000, 900, 0, None),
            (1_000, 900, 1, Some(2_048)),
            (1_000, 5_000, 1, Some(16_384)),
            (1 << 29, 1, 1, Some(1 << 30)),
            (1 << 30, 1 << 30, 1, None),
        ] {
            let view = LimitView {
                capacity: Capacity::new(configured).expect("a capacity"),
                keys,
                overflow_decisions: decisions,
                overflow_active: false,
                ..limit_view("ip")
            };
            assert_eq!(capacity(&view), advised, "{configured} {keys} {decisions}");
        }
    }
}
