//! Writes the decision over each request, one JSON object a line, for comparison with what a gateway did.

use std::io::{self, Write};

use serde::Serialize;
use sluicegate_access_log::LoggedRequest;

use super::engine::{ReplayEngine, ReplayOutcome};

/// Takes the decisions of a replay.
pub struct DecisionLog(Box<dyn Write>);

/// The decision over one request.
#[derive(Serialize)]
struct DecisionLine<'a> {
    /// The time at which it was decided, in nanoseconds since the Unix epoch.
    time_ns: u64,
    /// The id of the request, where its line has one.
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    client: String,
    /// `admitted`, `not-replayed`, or the outcome that the access log would have.
    outcome: &'static str,
    /// The limit that rejects.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'a str>,
}

impl DecisionLog {
    /// Writes to `target`.
    #[must_use]
    pub fn new(target: Box<dyn Write>) -> Self {
        Self(target)
    }

    /// Writes the decision over a request.
    ///
    /// # Errors
    /// The error of the target.
    pub(super) fn write(
        &mut self,
        request: &LoggedRequest<'_>,
        outcome: ReplayOutcome,
        engine: &ReplayEngine,
    ) -> io::Result<()> {
        let (text, limit) = match outcome {
            ReplayOutcome::Admitted => ("admitted", None),
            ReplayOutcome::NotReplayed => ("not-replayed", None),
            ReplayOutcome::Rejected(disposition, limit) => (disposition.as_str(), limit),
        };
        let line = DecisionLine {
            time_ns: request.time,
            id: std::str::from_utf8(request.id).unwrap_or_default(),
            client: request.client.to_string(),
            outcome: text,
            limit: limit.map(|limit| engine.limit_name(limit)),
        };
        serde_json::to_writer(&mut self.0, &line)?;
        self.0.write_all(b"\n")
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// The error of the target.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
