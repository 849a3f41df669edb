//! Shows counters that outlive the process: run it again, and kill it where you like.
//!
//! Run with `cargo run -p sluicegate-limiter --features mmap --example persist [DIRECTORY]`. Each run asks ten times for
//! the same client, who may ask 25 times in ten minutes; from the third run on it is refused.

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use sluicegate_limiter::{
    Ask, BootId, BootTime, Capacity, ClockReading, Cost, Limit, Outcome, Period, Rate, Rates, Seed,
    StateDir, TableId, Timestamp, WallClock, decide,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let home = std::env::args_os().nth(1).map(PathBuf::from);
    let home = home.unwrap_or_else(|| std::env::temp_dir().join("sluicegate-survive"));

    // What is kept: a seed, a clock, and a file for the limit's counters.
    let state = StateDir::open(&home, random_seed()?)?;
    let (clock, found) = state.clock(read_clocks()?)?;
    writeln!(out, "{}: the clock is {found}", home.display())?;
    let rates = Rates::new([Rate::new(25, Period::from_secs(600)?)?])?;
    let meaning = TableId {
        name: "otp",
        key: "client.ip",
    };
    let now = clock.now(read_clocks()?.boottime);
    let (limit, found) = Limit::open(&state, meaning, rates, Capacity::new(1000)?, now)?;
    writeln!(out, "the counters are {found}")?;

    let key = state.seed().hasher().part(b"192.0.2.1").finish();
    for _ in 0..10 {
        let reading = read_clocks()?;
        let ask = Ask {
            limit: &limit,
            key,
            cost: Cost::ONE,
            payer: None,
        };
        let verdict = decide(&[ask], clock.now(reading.boottime));
        match (verdict.outcome(), verdict.retry_after()) {
            (Outcome::Refused { .. }, Some(wait)) => writeln!(out, "refused for {wait:?}")?,
            _ => {
                let left = verdict.decisions()[0].statuses()[0].remaining;
                writeln!(out, "admitted, {left} left")?;
            }
        }
        // A service does this once a second.
        state.tick(&clock, reading)?;
    }
    Ok(())
}

/// The clocks of this machine; on others than Linux each run counts as a boot.
fn read_clocks() -> Result<ClockReading, Box<dyn Error>> {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let boot = fs::read("/proc/sys/kernel/random/boot_id");
    let boot = boot.unwrap_or_else(|_| std::process::id().to_le_bytes().to_vec());
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_else(|_| "0".to_owned());
    let uptime = uptime.split(' ').next().unwrap_or("0").parse()?;
    Ok(ClockReading {
        boot: BootId::from_bytes(&boot),
        boottime: BootTime(Duration::from_secs_f64(uptime)),
        wall: WallClock::Unconfirmed(Timestamp::default().saturating_add(wall)),
    })
}

fn random_seed() -> Result<Seed, Box<dyn Error>> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(Seed::from_bytes(bytes))
}
