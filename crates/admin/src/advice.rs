//! Computes the advice for a limit whose table was too small, for all or for one client (contract C3: honest at the bound).

use super::limit_view::LimitView;

/// The largest capacity that can be configured.
const LARGEST: u64 = 1 << 30;

/// Returns the `capacity` to set instead; `None` while the table was large enough, or when no larger one can be set.
///
/// Decisions before the present capacity was set do not count against it. Keys that were in overflow then are still rejected by the
/// counters that they shared, so a table that was enlarged counts as too small only while it is nearly full, too.
///
/// The number of keys that share an overflow is unknown, since the table does not tell them apart. So the advice is twice the capacity or
/// the counted keys, whichever is more, rounded up to a power of two; an operator who follows it again arrives in a few steps.
pub(super) fn capacity(limit: &LimitView) -> Option<u64> {
    let before = limit.overflow_decisions_before;
    let configured = limit.capacity.keys();
    let too_small = if before == 0 {
        limit.overflow_active || limit.overflow_decisions > 0
    } else {
        limit.overflow_decisions > before && limit.keys > configured / 10 * 9
    };
    let advised = limit
        .keys
        .max(configured)
        .saturating_mul(2)
        .min(LARGEST)
        .next_power_of_two();
    (too_small && advised > configured).then_some(advised)
}

/// Returns advice about clients that exceeded their share of new keys; `None` where no client did.
///
/// One client that invents keys and many clients with one key each look the same behind one address, so the operator decides.
pub(super) fn share(limit: &LimitView) -> Option<String> {
    let share = limit.share.as_ref().filter(|share| share.refused > 0)?;
    let who = match share.latest {
        Some(latest) => latest.client.to_string(),
        None => "one client".to_owned(),
    };
    let more = limit.capacity.keys().saturating_mul(2);
    let capacity = match more.next_power_of_two().min(LARGEST) {
        larger if larger > limit.capacity.keys() => {
            format!(" If many users share that address, set capacity = {larger}.")
        }
        _ => String::new(),
    };
    Some(format!(
        "{who} sends ever new keys and has its share, {} of {} slots: block it, or limit its address too (key = \"client.ip\").{capacity}",
        share.slots,
        limit.capacity.keys()
    ))
}

#[cfg(test)]
mod tests {
    use sluicegate_limiter::{Capacity, Timestamp};

    use super::super::limit_view::ShareView;
    use super::super::tests::limit_view;
    use super::*;
    use sluicegate_decide::admission::OverShare;

    /// Goal: advice appears with the first overflow and is always larger. Method: tables around the corner cases.
    #[test]
    fn advice_is_given_once_a_table_was_too_small() {
        for (configured, keys, (before, decisions), is_active, advised) in [
            (1_000, 900, (0, 0), false, None),
            (1_000, 900, (0, 1), false, Some(2_048)),
            (1_000, 5_000, (0, 1), false, Some(16_384)),
            (1_000, 900, (0, 0), true, Some(2_048)),
            (2_048, 900, (7, 8), true, None),
            (2_048, 2_000, (7, 7), true, None),
            (2_048, 2_000, (7, 8), false, Some(4_096)),
            (1 << 29, 1, (0, 1), false, Some(1 << 30)),
            (1 << 30, 1 << 30, (0, 1), true, None),
        ] {
            let view = LimitView {
                capacity: Capacity::new(configured).expect("a capacity"),
                keys,
                overflow_decisions: decisions,
                overflow_decisions_before: before,
                overflow_active: is_active,
                ..limit_view("ip")
            };
            assert_eq!(capacity(&view), advised, "{configured} {keys} {decisions}");
        }
    }

    /// Goal: refusals by share come with who it was and what to do, and no others do. Method: no share, an idle one, a refusal with and
    /// without a known client, the largest table.
    #[test]
    fn advice_names_who_takes_more_than_its_share() {
        let advice = |configured, share| {
            super::share(&LimitView {
                capacity: Capacity::new(configured).expect("a capacity"),
                share,
                ..limit_view("session")
            })
        };
        let share = |refused, latest| {
            Some(ShareView {
                slots: 4,
                refused,
                latest,
            })
        };
        let latest = Some(OverShare {
            client: [203, 0, 113, 9].into(),
            at: Timestamp::from_secs(1),
        });
        assert_eq!(advice(1_000, None), None);
        assert_eq!(advice(1_000, share(0, latest)), None);
        let told = advice(1_000, share(1, latest)).expect("advice");
        assert!(
            told.starts_with("203.0.113.9 ") && told.ends_with("set capacity = 2048."),
            "{told}"
        );
        let told = advice(1 << 30, share(1, None)).expect("advice");
        assert!(
            told.starts_with("one client ") && told.ends_with("\"client.ip\")."),
            "{told}"
        );
    }
}
