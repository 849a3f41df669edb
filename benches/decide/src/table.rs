//! Writes what was measured: a table an answer, to the standard output as it comes, and in the end between two marks of a file.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::claims;
use crate::load::{Answer, Load, Spread, Threads};
use crate::measure::Figures;
use crate::memory::Bytes;
use crate::peer::{DECISION, FASTEST_GOVERNOR, FLOOR, FLOOR_AS_USED, GOVERNOR, OURS, PEERS};

const BEGIN: &str = "<!-- decide:begin -->";
const END: &str = "<!-- decide:end -->";

/// What was measured under one load.
pub struct Row<'l> {
    pub load: &'l Load,
    pub threads: Threads,
    pub answer: Answer,
    pub rates: usize,
    pub figures: Figures,
}

impl Row<'_> {
    /// Whether all clients come alike.
    pub fn is_even(&self) -> bool {
        matches!(self.load.spread, Spread::Even)
    }
}

/// The tables so far.
pub struct Tables<'l> {
    rows: Vec<Row<'l>>,
    bytes: Bytes,
    started: Instant,
}

/// Ratios at the end of a row.
const RATIOS: [(&str, usize, usize); 5] = [
    ("`decide()` to the floor", DECISION, FLOOR),
    ("Sluicegate to the floor, as used", OURS, FLOOR_AS_USED),
    ("the floor, as used, to governor", FLOOR_AS_USED, GOVERNOR),
    ("Sluicegate to governor", OURS, GOVERNOR),
    ("to governor, fastest", OURS, FASTEST_GOVERNOR),
];

impl<'l> Tables<'l> {
    /// Empty ones.
    pub fn begin() -> Self {
        Self {
            rows: Vec::new(),
            bytes: Bytes::new(),
            started: Instant::now(),
        }
    }

    /// One row.
    pub fn add(&mut self, row: Row<'l>) {
        println!("{:?} {}", row.answer, line(&row));
        self.rows.push(row);
    }

    /// What a million keys take.
    pub fn add_memory(&mut self, bytes: Bytes) {
        println!("\n{}", memory(&bytes));
        self.bytes = bytes;
    }

    /// Says which claims hold.
    pub fn judge(&self) {
        println!("\n{}", self.claims());
    }

    fn claims(&self) -> String {
        let mut table = "| claim | at most | worst measured | |\n|---|---|---|---|\n".to_owned();
        for claim in claims::judged(&self.rows, &self.bytes) {
            let worst = claim
                .worst
                .map_or("–".to_owned(), |worst| format!("{worst:.2}"));
            let (text, aim, verdict) = (claim.text, claim.aim, claim.verdict());
            table.push_str(&format!("| {text} | {aim} | {worst} | {verdict} |\n"));
        }
        table
    }

    fn of(&self, answer: Answer) -> String {
        let names = PEERS.iter().map(|kind| kind.name);
        let ratios = RATIOS.iter().map(|(name, ..)| *name);
        let heads: Vec<_> = ["clients", "threads", "rates"]
            .into_iter()
            .chain(names)
            .chain(ratios)
            .collect();
        let mut table = format!(
            "| {} |\n|{}\n",
            heads.join(" | "),
            "---|".repeat(heads.len())
        );
        for row in self.rows.iter().filter(|row| row.answer == answer) {
            table.push_str(&line(row));
            table.push('\n');
        }
        table
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
            "{}\n\n**Claims**\n\n{}\n**Admitted**, ns a decision\n\n{}\n**Refused**, ns a decision\n\n{}\n\
             {}",
            self.circumstances(),
            self.claims(),
            self.of(Answer::Admit),
            self.of(Answer::Refuse),
            memory(&self.bytes)
        );
        std::fs::write(path, format!("{before}{BEGIN}\n{tables}{END}{after}"))?;
        Ok(())
    }

    /// When, of what, and where this was measured.
    fn circumstances(&self) -> String {
        let says = |program: &str, words: &[&str]| {
            let output = Command::new(program).args(words).output().ok()?;
            Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
        };
        let date = says("date", &["+%F"]).unwrap_or_default();
        let commit = says("git", &["rev-parse", "--short", "HEAD"]).unwrap_or_default();
        let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = processors
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map_or("unknown processor", |(_, model)| model);
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let minutes = self.started.elapsed().as_secs_f64() / 60.0;
        format!(
            "Measured {date} at commit {commit}, {cores} cores, {model}, in {minutes:.0} minutes."
        )
    }
}

fn line(row: &Row<'_>) -> String {
    let Row {
        load,
        threads,
        rates,
        figures,
        ..
    } = row;
    let mut line = format!("| {} | {} | {rates} |", load.name, *threads as u8);
    for peer in 0..PEERS.len() {
        line.push_str(&match figures.nanos(peer) {
            Some(nanos) if nanos < 10.0 => format!(" {nanos:.1} |"),
            Some(nanos) => format!(" {nanos:.0} |"),
            None => " – |".to_owned(),
        });
    }
    for (_, this, other) in RATIOS {
        let ratio = figures.ratio(this, other);
        line.push_str(&ratio.map_or(" – |".to_owned(), |ratio| format!(" {ratio:.2} |")));
    }
    line
}

fn memory(bytes: &Bytes) -> String {
    if bytes.is_empty() {
        return String::new();
    }
    let mut table = "**Memory**, bytes a key, a million keys\n\n| limiter | 1 rate | 2 rates | 3 rates |\n|---|---|---|---|\n".to_owned();
    for (name, row) in bytes {
        let cells: String = row.iter().map(|bytes| format!(" {bytes:.0} |")).collect();
        table.push_str(&format!("| {name} |{cells}\n"));
    }
    table
}
