//! Decides about a few requests of one client, with time as an argument.
//!
//! Run with `cargo run -p sluicegate-limiter --example decide`.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use sluicegate_limiter::{
    Ask, Capacity, Cost, Limit, Outcome, Period, Rate, Rates, Seed, Timestamp, decide,
};

fn main() -> Result<(), Box<dyn Error>> {
    // "5 per 3s" and "20 per 1m", for up to a thousand clients at once.
    let rates = Rates::new([
        Rate::new(5, Period::from_secs(3)?)?,
        Rate::new(20, Period::from_secs(60)?)?,
    ])?;
    let limit = Limit::new(rates, Capacity::new(1000)?);

    // A seed would come from the operating system's random source.
    let mut hasher = Seed::from_bytes([7; 16]).hasher();
    let key = hasher.part(b"client").part(b"192.0.2.1").finish();

    let mut out = std::io::stdout().lock();
    let start = Timestamp::from_secs(1_800_000_000);
    for request in 0..12 {
        let now = start.saturating_add(Duration::from_millis(400 * request));
        let verdict = decide(
            &[Ask {
                limit: &limit,
                key,
                cost: Cost::ONE,
                payer: None,
            }],
            now,
        );
        write!(out, "{:>5} ms ", 400 * request)?;
        match verdict.outcome() {
            Outcome::Admitted => write!(out, "admitted")?,
            Outcome::Refused { rate, .. } => write!(out, "refused by rate {rate}")?,
        }
        for status in verdict
            .decisions()
            .iter()
            .flat_map(|decision| decision.statuses())
        {
            write!(
                out,
                "; {}: {} left, more in {:?}",
                status.rate, status.remaining, status.next_free
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}
