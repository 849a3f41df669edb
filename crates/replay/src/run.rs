//! Runs a log through a configuration, and through an older one beside it.

use std::io;
use std::path::PathBuf;

use sluicegate_access_log::{
    FieldSelection, LogFormat, LogReader, OpenError, ReadOptions, TimeSpread,
};
use sluicegate_limiter::{Seed, Timestamp};

use super::compare::{ConfigComparison, RequestChanges};
use super::coverage::survey_for;
use super::decision_log::DecisionLog;
use super::engine::ReplayEngine;
use super::prepare::MAX_BATCH;
use super::report::{LogSummary, ReplayReport, ReplayedSpan};
use sluicegate_config::rules::Rules;
use sluicegate_decide::admission::KeySeed;
use sluicegate_decide::compiled_rules;

/// Requests between two reports of progress.
const PROGRESS_STEP: u64 = 1 << 16;

/// The configurations of a replay.
pub struct ReplayConfig {
    /// The rules.
    pub rules: Rules,
    /// The rules of the configuration to compare with, and its file.
    pub against: Option<(Rules, String)>,
    /// The host of requests whose line has none.
    pub host: Option<String>,
    /// The times at which requests count, for the report.
    pub spread: TimeSpread,
}

/// A replay.
pub struct ReplayRun {
    reader: LogReader,
    engine: ReplayEngine,
    against: Option<ComparedEngine>,
    decisions: Option<DecisionLog>,
    spread: TimeSpread,
}

/// The configuration to compare with.
struct ComparedEngine {
    engine: ReplayEngine,
    file: String,
    changes: RequestChanges,
}

impl ReplayRun {
    /// Prepares the replay of `logs` under a configuration; `format` is that of all logs, `None` to detect that of each. Each decision is
    /// written to `decisions`.
    ///
    /// # Errors
    /// A log cannot be opened.
    pub fn open(
        logs: &[PathBuf],
        format: Option<LogFormat>,
        config: ReplayConfig,
        decisions: Option<DecisionLog>,
    ) -> Result<Self, OpenError> {
        let against = config.against.iter().map(|(rules, _)| rules);
        let both = against.chain([&config.rules]);
        let options = ReadOptions {
            format,
            spread: config.spread,
            fields: selected_fields(both.clone()),
        };
        let mut reader = LogReader::open(logs, &options)?;
        for rules in both {
            survey_for(rules, &mut reader, config.host.as_deref())?;
        }
        // No client sends requests here, so the seed need not be a secret; a fixed one makes results the same each time.
        let seed = KeySeed::from_seed(Seed::from_bytes(*b"sluicegatereplay"));
        let engine =
            |rules| ReplayEngine::new(rules, &seed, reader.facts(), config.host.as_deref());
        let against = config.against.map(|(rules, file)| ComparedEngine {
            engine: engine(rules),
            file,
            changes: RequestChanges::default(),
        });
        let engine = engine(config.rules);
        Ok(Self {
            reader,
            engine,
            against,
            decisions,
            spread: config.spread,
        })
    }

    /// Replays all requests. `progress` gets the number of requests, and the bytes that were read with those there are.
    ///
    /// # Errors
    /// The decisions cannot be written.
    pub fn run(
        mut self,
        mut progress: impl FnMut(u64, Option<(u64, u64)>),
    ) -> io::Result<ReplayReport> {
        let mut span = ReplayedSpan::default();
        let mut replayed = 0_u64;
        while let Some(batch) = self.reader.next_batch(MAX_BATCH) {
            let outcomes = self.engine.replay(&batch);
            if let Some(compared) = &mut self.against {
                let before = compared.engine.replay(&batch);
                for (before, outcome) in before.iter().zip(&outcomes) {
                    compared.changes.add(*before, *outcome);
                }
            }
            for (request, outcome) in batch.iter().zip(&outcomes) {
                let time = Timestamp::from_nanos(request.time);
                span.ends = Some((span.ends.map_or(time, |(first, _)| first), time));
                if let Some(decisions) = &mut self.decisions {
                    decisions.write(request, *outcome, &self.engine)?;
                }
            }
            let before = replayed / PROGRESS_STEP;
            replayed += outcomes.len() as u64;
            if replayed / PROGRESS_STEP > before {
                progress(replayed, self.reader.progress());
            }
        }
        self.engine.finish();
        if let Some(decisions) = &mut self.decisions {
            decisions.finish()?;
        }
        let stats = self.reader.stats();
        let log = LogSummary::new(self.reader.facts(), &stats, span, self.spread);
        let mut report = ReplayReport::new(&self.engine, log.clone());
        if let Some(mut compared) = self.against {
            compared.engine.finish();
            let before = ReplayReport::new(&compared.engine, log);
            let old = (&compared.engine, before);
            let new = (&self.engine, &report);
            let comparison = ConfigComparison::new(compared.file, compared.changes, old, new);
            report.against = Some(comparison);
        }
        Ok(report)
    }
}

/// Returns the request fields that some of `rules` read.
pub(super) fn selected_fields<'r>(rules: impl IntoIterator<Item = &'r Rules>) -> FieldSelection {
    let fields: Vec<_> = (rules.into_iter())
        .flat_map(compiled_rules::fields_read)
        .collect();
    FieldSelection::new(fields.iter().map(|name| name.as_str()))
}
