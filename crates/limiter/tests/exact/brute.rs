//! A million short lives, each checked by counting.

use sluicegate_limiter::exact::{LogCharge, LogTable};
use sluicegate_limiter::{Rates, Timestamp};

use super::{Random, cost, key, rates};

/// Lives in all.
const TRACES: u64 = 1_000_000;
/// Nanoseconds of a millisecond.
const MILLI: u64 = 1_000_000;

/// One unit that was admitted.
type Admission = u64;

/// Goal: C1, no span of any rate's period ever holds more than its count; and tightness, nothing is refused that would
/// have kept it so. Method: random traces of bursts and pauses under small rates, in nanoseconds; every admission is
/// counted against all spans that end with it, every refusal against the span that would, rounded by the 1 ms that the
/// contract allows.
#[test]
fn no_span_of_a_million_traces_holds_more_than_its_count() {
    let shapes: Vec<Rates> = [
        &[(1, 1)][..],
        &[(2, 1)],
        &[(3, 2)],
        &[(5, 3)],
        &[(2, 1), (3, 4)],
        &[(1, 1), (2, 3), (4, 10)],
        &[(4, 1), (5, 2), (6, 3), (7, 4)],
    ]
    .iter()
    .map(|numbers| rates(numbers))
    .collect();
    let tables: Vec<LogTable> = shapes
        .iter()
        .map(|rates| LogTable::with_buckets(1, rates))
        .collect();
    let mut random = Random(0x5EED);
    let (mut now, mut admitted, mut refused) = (1_800_000_000_000 * MILLI, 0_u64, 0_u64);
    let mut admissions: Vec<Admission> = Vec::new();
    for trace in 0..TRACES {
        let shape = random.below(shapes.len() as u64) as usize;
        let (rates, table) = (&shapes[shape], &tables[shape]);
        // Long enough for all logs to be expired: every trace begins from nothing, in whatever slot.
        now += 11_000 * MILLI + random.below(MILLI);
        admissions.clear();
        for _ in 0..4 + random.below(12) {
            now += match random.below(6) {
                0 | 1 => 0,
                2 => random.below(3 * MILLI),
                3 => 1_000 * MILLI,
                4 => random.below(1_200 * MILLI),
                _ => random.below(3_000) * MILLI,
            };
            let units = 1 + random.below(8) / 6;
            let charged = table.charge(
                key(trace % 16),
                rates,
                cost(units as u32),
                Timestamp::from_nanos(now),
            );
            match charged {
                LogCharge::Admitted(..) => {
                    admitted += 1;
                    admissions.extend((0..units).map(|_| now));
                    assert!(
                        rates
                            .iter()
                            .all(|rate| within(&admissions, now, period(rate), 0)
                                <= u64::from(rate.count())),
                        "{rates:?}: {admissions:?}"
                    );
                }
                LogCharge::Refused(_) => {
                    refused += 1;
                    assert!(
                        rates
                            .iter()
                            .any(|rate| within(&admissions, now, period(rate), MILLI) + units
                                > u64::from(rate.count())),
                        "{rates:?}: {units} refused at {now} after {admissions:?}"
                    );
                }
            }
        }
    }
    assert!(
        admitted > TRACES && refused > TRACES,
        "{admitted} admitted, {refused} refused"
    );
}

fn period(rate: &sluicegate_limiter::Rate) -> u64 {
    u64::from(rate.period().as_secs()) * 1_000 * MILLI
}

/// Units admitted in the span of length `period` and `slack` that ends with `now`, its beginning excluded.
fn within(admissions: &[Admission], now: u64, period: u64, slack: u64) -> u64 {
    admissions
        .iter()
        .filter(|at| **at + period + slack > now)
        .count() as u64
}
