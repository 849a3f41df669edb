//! Says what a million keys take in each limiter: what the process grows by, in a process of its own for each.

use std::error::Error;
use std::process::Command;

use crate::load::Answer;
use crate::peer::{Brief, OURS, PEERS, warm};

/// The word on the command line that makes this process hold keys.
pub const HOLD: &str = "--hold";

const KEYS: u32 = 1_000_000;

/// Numbers of rates that the keys are held under.
pub const RATES: [usize; 3] = [1, 2, 3];

/// Bytes a key, by peer and number of rates.
pub type Bytes = Vec<(&'static str, Vec<f64>)>;

/// Asks a process for each peer and number of rates.
pub fn compare() -> Result<Bytes, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let mut bytes = Bytes::new();
    for kind in PEERS.iter().skip(OURS) {
        let mut row = Vec::new();
        for rates in RATES {
            let output = Command::new(&program)
                .args([HOLD, kind.name, &rates.to_string()])
                .output()?;
            let grown: f64 = String::from_utf8(output.stdout)?.trim().parse()?;
            row.push(grown / f64::from(KEYS));
        }
        bytes.push((kind.name, row));
    }
    Ok(bytes)
}

/// Holds a million keys and prints how many bytes that took.
pub fn hold(peer: &str, rates: usize) -> Result<(), Box<dyn Error>> {
    let kind = PEERS
        .iter()
        .find(|kind| kind.name == peer)
        .ok_or("no such peer")?;
    // What everybody loads once is not the limiter's.
    let brief = |clients| Brief {
        clients,
        answer: Answer::Admit,
        limits: 1,
        rates,
    };
    drop(warm(kind, brief(1)));
    let before = resident()?;
    let held = warm(kind, brief(KEYS));
    println!("{}", resident()?.saturating_sub(before));
    drop(held);
    Ok(())
}

/// Bytes of memory that this process really uses.
fn resident() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .ok_or("the system does not say how large this process is")?;
    let kilobytes: u64 = line.trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1024)
}
