//! Measures how many keys find no slot of their own when all keys of a capacity are alive: the numbers that
//! `table::layout` cites.
//!
//! Run with `cargo run --release -p sluicegate-limiter --example loads [KEYS [BUCKETS RATES]]`.

use std::error::Error;
use std::io::Write;

use sluicegate_limiter::{
    Ask, Capacity, Cost, KeyHash, KeyPlacement, Limit, Period, Rate, Rates, Seed, Timestamp, decide,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let arguments: Vec<u64> = std::env::args()
        .skip(1)
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    if let [keys, buckets, count] = arguments[..] {
        let limit = Limit::with_buckets(rates(count as u32)?, buckets as usize);
        report(&mut out, &limit, count, keys)?;
        return Ok(());
    }
    let keys = arguments.first().copied().unwrap_or(1_000_000);
    for count in 1..=4 {
        report(
            &mut out,
            &Limit::new(rates(count as u32)?, Capacity::new(keys)?),
            count,
            keys,
        )?;
    }
    Ok(())
}

/// Lets `keys` keys ask once and says how many of them shared a counter, as the mean over a few seeds.
fn report(
    out: &mut impl Write,
    limit: &Limit,
    count: u64,
    keys: u64,
) -> Result<(), Box<dyn Error>> {
    const SEEDS: u8 = 4;
    let mut shared = 0;
    // The moments are far enough apart for every slot to owe nothing again.
    for seed in 0..SEEDS {
        let now = Timestamp::from_secs(1_800_000_000 + 1_000_000 * u64::from(seed));
        shared += (0..keys)
            .filter(|number| ask(limit, key(seed, *number), now) == KeyPlacement::Overflow)
            .count();
    }
    let slots = limit.occupancy(Timestamp::from_secs(0)).slots;
    writeln!(
        out,
        "{count} rates, {keys} keys: {:.1} in overflow, {:.3} keys a slot, {:.1} bytes a key and rate",
        shared as f64 / f64::from(SEEDS),
        keys as f64 / slots as f64,
        limit.bytes() as f64 / (keys * count) as f64,
    )?;
    Ok(())
}

fn ask(limit: &Limit, key: KeyHash, now: Timestamp) -> KeyPlacement {
    let verdict = decide(
        &[Ask {
            limit,
            key,
            cost: Cost::ONE,
            payer: None,
        }],
        now,
    );
    verdict
        .decisions()
        .first()
        .map_or(KeyPlacement::OwnSlot, |decision| decision.placement())
}

fn key(seed: u8, number: u64) -> KeyHash {
    Seed::from_bytes([seed; 16])
        .hasher()
        .part(&number.to_le_bytes())
        .finish()
}

fn rates(count: u32) -> Result<Rates, Box<dyn Error>> {
    let rates: Result<Vec<Rate>, _> = (1..=count)
        .map(|rate| Rate::new(1000, Period::from_secs(600 * rate)?))
        .collect();
    Ok(Rates::new(rates?)?)
}
