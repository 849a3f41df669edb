//! Says what the states of a policy mean, in bytes that a file can be named after.
//!
//! The bytes are the same for two policies exactly if one keeps the states of the other (`Policy::keeps_states_of`), so
//! that what an edit keeps while the process runs, a restart keeps too. They never change for a policy, from one version
//! to the next, unless its words do: then another name must stand here, since a file under the old one is not to be read.

use super::calendar::CalendarUnit;
use super::policy::{Algorithm, Alignment, Policy, Refill};

impl Policy {
    /// Algorithm, alignment and refill as far as states depend on them, and the periods, of `exact` only the longest. Not
    /// counts, bursts, queues and waits.
    pub(crate) fn meaning_of_states(&self) -> Vec<u8> {
        let mut meaning = Vec::new();
        let rates = self.rates().as_slice();
        let rates = match self.algorithm() {
            // Moments mean the same whatever the rates are; how long they may count is told by the longest, the last.
            Algorithm::Exact => &rates[rates.len() - 1..],
            _ => rates,
        };
        // Periods first: their number is their length in front of them, so what follows cannot be taken for one.
        meaning.push(rates.len() as u8);
        for rate in rates {
            meaning.extend(rate.period().as_secs().to_le_bytes());
        }
        meaning.extend(name(self.algorithm()));
        if let Some((zone, unit)) = self.calendar() {
            meaning.push(match unit {
                CalendarUnit::Day => b'd',
                CalendarUnit::Week => b'w',
                CalendarUnit::Month => b'm',
            });
            meaning.extend(zone.bytes());
        }
        meaning
    }
}

/// The name of what a word holds; no name begins another.
fn name(algorithm: &Algorithm) -> &'static [u8] {
    match algorithm {
        Algorithm::SlidingWindow => b"sliding-window",
        Algorithm::Exact => b"exact",
        Algorithm::FixedWindow(Alignment::Epoch) => b"fixed-window:epoch",
        Algorithm::FixedWindow(Alignment::FirstRequest) => b"fixed-window:first-request",
        Algorithm::FixedWindow(Alignment::Key) => b"fixed-window:key",
        Algorithm::FixedWindow(Alignment::Calendar { .. }) => b"fixed-window:calendar:",
        Algorithm::TokenBucket {
            refill: Refill::Interval,
            ..
        } => b"token-bucket:interval",
        // One debt that drains; an edit keeps it (`drain`).
        Algorithm::TokenBucket {
            refill: Refill::Greedy,
            ..
        }
        | Algorithm::Gcra { .. }
        | Algorithm::LeakyBucket { .. } => b"debt",
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::CalendarZone;
    use crate::rate::{Period, Rate, Rates};

    const DAY: u32 = 24 * 60 * 60;
    const CASES: u32 = if cfg!(miri) { 20 } else { 2_000 };

    fn algorithm() -> impl Strategy<Value = Algorithm> {
        let burst = || prop_oneof![Just(None), (1_u32..9).prop_map(Some)];
        let refill = prop_oneof![Just(Refill::Greedy), Just(Refill::Interval)];
        let zone = prop_oneof![
            Just(CalendarZone::utc()),
            Just(CalendarZone::new(3_600, []).expect("a zone")),
            Just(CalendarZone::new(0, [(7, 3_600)]).expect("a zone")),
        ];
        let alignment = prop_oneof![
            Just(Alignment::Epoch),
            Just(Alignment::FirstRequest),
            Just(Alignment::Key),
            zone.prop_map(|zone| Alignment::Calendar {
                zone: Arc::new(zone),
                unit: CalendarUnit::Day
            }),
        ];
        prop_oneof![
            Just(Algorithm::SlidingWindow),
            Just(Algorithm::Exact),
            alignment.prop_map(Algorithm::FixedWindow),
            (burst(), refill).prop_map(|(burst, refill)| Algorithm::TokenBucket { burst, refill }),
            burst().prop_map(|burst| Algorithm::Gcra { burst }),
            (0_u32..9, 0_u64..9).prop_map(|(queue, millis)| Algorithm::LeakyBucket {
                queue,
                max_wait: Duration::from_millis(millis)
            }),
        ]
    }

    fn policy() -> impl Strategy<Value = Policy> {
        let periods = prop_oneof![
            4 => Just(vec![DAY]),
            1 => Just(vec![60]),
            1 => Just(vec![60, DAY]),
        ];
        (algorithm(), periods, 1_u32..9).prop_filter_map(
            "cannot be",
            |(algorithm, periods, count)| {
                let rate = |(rank, secs): (usize, &u32)| {
                    Rate::new(
                        count + rank as u32,
                        Period::from_secs(*secs).expect("a period"),
                    )
                    .expect("a rate")
                };
                let rates = Rates::new(periods.iter().enumerate().map(rate)).expect("rates");
                Policy::new(algorithm, rates).ok()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

        /// Goal: a restart keeps what an edit keeps, and nothing else. Method: any two policies.
        #[test]
        fn states_mean_the_same_exactly_if_an_edit_keeps_them(one in policy(), two in policy()) {
            prop_assert_eq!(
                one.meaning_of_states() == two.meaning_of_states(),
                one.keeps_states_of(&two)
            );
        }
    }
}
