//! Writes what was measured: a table an answer, to the standard output as it comes, and in the end between two marks of a file.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use crate::load::{Answer, Load, Pace, Threads};
use crate::measure::Figures;
use crate::memory::Bytes;
use crate::peer::{DECISION, FLOOR, GOVERNOR, OURS, PEERS};

const BEGIN: &str = "<!-- decide:begin -->";
const END: &str = "<!-- decide:end -->";

/// The tables so far.
#[derive(Debug)]
pub struct Tables {
    admitted: String,
    refused: String,
    memory: String,
}

impl Tables {
    /// Empty ones.
    pub fn begin() -> Self {
        let names: Vec<_> = PEERS.iter().map(|kind| kind.name).collect();
        let mut head = format!("| clients | threads | rates | {} |", names.join(" | "));
        head.push_str(
            " `decide()` to the floor | Sluicegate to the floor | Sluicegate to governor |\n|",
        );
        head.push_str(&"---|".repeat(PEERS.len() + 6));
        head.push('\n');
        Self {
            admitted: head.clone(),
            refused: head,
            memory: String::new(),
        }
    }

    /// One row.
    pub fn add(
        &mut self,
        load: &Load,
        threads: Threads,
        answer: Answer,
        rates: usize,
        figures: &Figures,
    ) {
        let mut row = format!("| {} | {} | {rates} |", described(load), threads as u8);
        for peer in 0..PEERS.len() {
            match figures.nanos(peer) {
                Some(nanos) if nanos < 10.0 => write!(row, " {nanos:.1} |"),
                Some(nanos) => write!(row, " {nanos:.0} |"),
                None => write!(row, " – |"),
            }
            .expect("a string takes everything");
        }
        for (this, other) in [(DECISION, FLOOR), (OURS, FLOOR), (OURS, GOVERNOR)] {
            let ratio = figures.ratio(this, other);
            let ratio = ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
            write!(row, " {ratio} |").expect("a string takes everything");
        }
        println!("{answer:?} {row}");
        row.push('\n');
        match answer {
            Answer::Admit => self.admitted.push_str(&row),
            Answer::Refuse => self.refused.push_str(&row),
        }
    }

    /// What a million keys take.
    pub fn add_memory(&mut self, bytes: &Bytes) {
        self.memory = "| limiter | 1 rate | 2 rates | 3 rates |\n|---|---|---|---|\n".to_owned();
        for (name, row) in bytes {
            let cells: String = row.iter().map(|bytes| format!(" {bytes:.0} |")).collect();
            writeln!(self.memory, "| {name} |{cells}").expect("a string takes everything");
        }
        println!("\n{}", self.memory);
    }

    /// Replaces what stands between the marks of a file.
    pub fn write(&self, path: &Path) -> Result<(), Box<dyn Error>> {
        let text = std::fs::read_to_string(path)?;
        let (before, rest) = text
            .split_once(BEGIN)
            .ok_or(format!("{} has no {BEGIN}", path.display()))?;
        let (_, after) = rest
            .split_once(END)
            .ok_or(format!("{} has no {END}", path.display()))?;
        let tables = format!(
            "**Admitted**, ns a decision\n\n{}\n**Refused**, ns a decision\n\n{}\n**Memory**, bytes a key, a million keys\n\n{}",
            self.admitted, self.refused, self.memory
        );
        std::fs::write(path, format!("{before}{BEGIN}\n{tables}{END}{after}"))?;
        Ok(())
    }
}

fn described(load: &Load) -> String {
    match load.pace {
        Pace::BackToBack => load.name.to_owned(),
        Pace::OneAtATime => format!("{}, one at a time", load.name),
    }
}
