//! What does one decision cost, beside every peer and beside the floor of the machine?
//!
//! For one hot client, a thousand, a million and ten million, and for a million of whom few come often (Zipf); from one thread
//! and from two; admitted and refused; under one, two and three rates, and under three limits at once. All that stand in one row
//! of the table take turns, slice by slice, and what is compared was measured within the same second: on a shared machine two
//! minutes differ more than two limiters do, which is why this is not a series of benches that run one after the other.
//!
//! ```sh
//! cargo run --release                       # all rows (about a quarter of an hour)
//! cargo run --release -- --rows hot,1M      # a part
//! cargo run --release -- --write FILE       # puts the tables between the marks in FILE
//! ```
//! Needs 6 GB for the rows of ten million.

mod claims;
mod load;
mod measure;
mod memory;
mod peer;
mod table;

use std::error::Error;
use std::process::ExitCode;

use load::{Answer, Load, ROWS, Threads};
use measure::{Figures, measure};
use peer::{Brief, PEERS, Peer};
use table::Row;

fn main() -> ExitCode {
    let result = match Command::read(std::env::args().skip(1)) {
        Ok(command) => command.run(),
        Err(message) => Err(message.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What is asked for.
enum Command {
    /// Measure these rows, and perhaps write the tables into a file.
    Measure {
        rows: Option<Vec<String>>,
        write: Option<String>,
    },
    /// Hold a million keys in one peer and say what they take: a process of its own for each, so that none leaves memory behind.
    Hold { peer: String, rates: usize },
}

impl Command {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut rows, mut write) = (None, None);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} wants a value"));
            match word.as_str() {
                "--rows" => rows = Some(value()?.split(',').map(str::to_owned).collect()),
                "--write" => write = Some(value()?),
                memory::HOLD => {
                    let peer = value()?;
                    let rates = value()?.parse().map_err(|_| "a number of rates")?;
                    return Ok(Self::Hold { peer, rates });
                }
                // What `cargo bench` adds.
                "--bench" => {}
                _ => return Err(format!("unknown {word}; there are --rows and --write")),
            }
        }
        Ok(Self::Measure { rows, write })
    }

    fn run(self) -> Result<(), Box<dyn Error>> {
        let (rows, write) = match self {
            Self::Hold { peer, rates } => return memory::hold(&peer, rates),
            Self::Measure { rows, write } => (rows, write),
        };
        let wanted = |load: &&Load| match &rows {
            Some(rows) => rows.iter().any(|row| row == load.name),
            None => true,
        };
        let mut tables = table::Tables::begin();
        for load in ROWS.iter().filter(wanted) {
            for answer in [Answer::Admit, Answer::Refuse] {
                for rates in load.rates.iter().copied() {
                    for (threads, figures) in ask_all(load, answer, rates) {
                        tables.add(Row {
                            load,
                            threads,
                            answer,
                            rates,
                            figures,
                        });
                    }
                }
            }
        }
        if rows.is_none() {
            tables.add_memory(memory::compare()?);
        }
        tables.judge();
        match write {
            Some(path) => tables.write(path.as_ref()),
            None => Ok(()),
        }
    }
}

/// Every peer that can, under one load; the same peers for one thread and for two.
fn ask_all(load: &Load, answer: Answer, rates: usize) -> [(Threads, Figures); 2] {
    let brief = Brief {
        clients: load.clients,
        answer,
        limits: load.limits,
        rates,
    };
    let peers: Vec<Option<Box<dyn Peer>>> = PEERS
        .iter()
        .map(|kind| {
            let able = load.clients <= kind.most_clients && load.limits <= kind.most_limits;
            able.then(|| peer::warm(kind, brief))
        })
        .collect();
    measure(&peers, load)
}
