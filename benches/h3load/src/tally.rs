//! Counts answers by their status, and requests without one.

use std::collections::BTreeMap;
use std::fmt;

use crate::Failure;
use crate::answer::Answer;

/// The answers to the requests of one stream after another, or of all.
#[derive(Default)]
pub struct Tally {
    statuses: BTreeMap<u16, u64>,
    body_bytes: u64,
    /// Requests without a whole answer.
    pub failures: u64,
    /// The cause of the first of them.
    pub first_failure: Option<String>,
}

impl Tally {
    /// Counts a request.
    pub fn count(&mut self, result: Result<Answer, Failure>) {
        match result {
            Ok(answer) => {
                *self.statuses.entry(answer.status).or_default() += 1;
                self.body_bytes += answer.body_bytes;
            }
            Err(failure) => {
                self.failures += 1;
                self.first_failure
                    .get_or_insert_with(|| failure.to_string());
            }
        }
    }

    /// Adds the requests of another stream.
    pub fn add(&mut self, other: Self) {
        for (status, answers) in other.statuses {
            *self.statuses.entry(status).or_default() += answers;
        }
        self.body_bytes += other.body_bytes;
        self.failures += other.failures;
        self.first_failure = self.first_failure.take().or(other.first_failure);
    }
}

/// A line for each figure: its name and its value.
impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answers: u64 = self.statuses.values().sum();
        writeln!(out, "requests {}", answers + self.failures)?;
        writeln!(out, "failures {}", self.failures)?;
        for (status, answers) in &self.statuses {
            writeln!(out, "status {status} {answers}")?;
        }
        writeln!(out, "body_bytes {}", self.body_bytes)
    }
}
