//! Writes the history, each figure as an array over its steps.

use std::collections::BTreeMap;

use serde::Serialize;
use sluicegate_base::bounds::HISTORY_STEP;
use sluicegate_decide::rfc3339;

use sluicegate_history::{HistoryMark, HistoryStep, MarkKind, SeriesView, millis};
use sluicegate_process::GatewayProcess;

/// The figures of the steps, and the marks.
#[derive(Serialize)]
pub(crate) struct HistoryPage {
    /// The start of the process, whose steps are numbered from 0.
    started: String,
    /// Seconds of a finished step.
    step_seconds: u64,
    /// The number of the first step.
    first: u64,
    steps: StepColumns,
    limits: BTreeMap<String, LimitColumns>,
    limits_complete: bool,
    origins: BTreeMap<String, OriginColumns>,
    origins_complete: bool,
    marks: Vec<MarkRow>,
}

/// The figures of the gateway. The last element is that of the step that is not finished.
#[derive(Default, Serialize)]
struct StepColumns {
    /// Milliseconds since 1970.
    ended: Vec<u64>,
    seconds: Vec<f64>,
    all: Vec<u64>,
    rejected: Vec<u64>,
    failed_by_gateway: Vec<u64>,
    failed_by_origins: Vec<u64>,
    clients_gone: Vec<u64>,
    p50: Vec<Option<f64>>,
    p90: Vec<Option<f64>>,
    p99: Vec<Option<f64>>,
    connections: Vec<u64>,
    in_flight: Vec<u64>,
}

#[derive(Serialize)]
struct LimitColumns {
    admitted: Vec<u32>,
    rejected: Vec<u32>,
    shadow_rejected: Vec<u32>,
}

#[derive(Serialize)]
struct OriginColumns {
    attempts: Vec<u32>,
    failed: Vec<u32>,
}

#[derive(Serialize)]
struct MarkRow {
    id: u64,
    at: String,
    kind: MarkKind,
    name: String,
    text: String,
    count: u64,
}

impl HistoryPage {
    /// Returns the unfinished step, all before it that ended later than `since`, in milliseconds since 1970, and the marks since then.
    pub(crate) fn since(since: u64, process: &GatewayProcess) -> Self {
        process.shared.look_at_history();
        let history = &process.shared.history;
        let view = history.steps(since);
        Self {
            started: rfc3339::format(process.lifecycle.started),
            step_seconds: HISTORY_STEP.as_secs(),
            first: view.first,
            steps: StepColumns::new(&view.steps),
            limits_complete: view.limits.is_complete,
            limits: columns(&view.limits, LimitColumns::new),
            origins_complete: view.origins.is_complete,
            origins: columns(&view.origins, OriginColumns::new),
            marks: history.marks(since).into_iter().map(MarkRow::new).collect(),
        }
    }

    /// Returns the end of the last finished step, in milliseconds since 1970; `None` where there is none.
    pub(crate) fn last_end(&self) -> Option<u64> {
        let ends = &self.steps.ended;
        ends.len()
            .checked_sub(2)
            .and_then(|at| ends.get(at))
            .copied()
    }
}

fn columns<const N: usize, T>(
    series: &SeriesView<N>,
    column: fn(&[[u32; N]]) -> T,
) -> BTreeMap<String, T> {
    let rows = series.rows.iter();
    rows.map(|(name, rows)| (name.to_string(), column(rows)))
        .collect()
}

fn column<const N: usize>(rows: &[[u32; N]], at: usize) -> Vec<u32> {
    rows.iter().map(|counts| counts[at]).collect()
}

impl StepColumns {
    fn new(steps: &[HistoryStep]) -> Self {
        let mut columns = Self::default();
        for step in steps {
            let requests = step.requests;
            columns.ended.push(millis(step.ended));
            columns
                .seconds
                .push(step.duration.as_millis() as f64 / 1_000.0);
            columns.all.push(requests.all);
            columns.rejected.push(requests.rejected);
            columns.failed_by_gateway.push(requests.failed_by_gateway);
            columns.failed_by_origins.push(requests.failed_by_origins);
            columns.clients_gone.push(requests.clients_gone);
            columns.p50.push(step.latency.map(|latency| latency.p50));
            columns.p90.push(step.latency.map(|latency| latency.p90));
            columns.p99.push(step.latency.map(|latency| latency.p99));
            columns.connections.push(step.connections);
            columns.in_flight.push(step.in_flight);
        }
        columns
    }
}

impl LimitColumns {
    fn new(rows: &[[u32; 3]]) -> Self {
        Self {
            admitted: column(rows, 0),
            rejected: column(rows, 1),
            shadow_rejected: column(rows, 2),
        }
    }
}

impl OriginColumns {
    fn new(rows: &[[u32; 2]]) -> Self {
        Self {
            attempts: column(rows, 0),
            failed: column(rows, 1),
        }
    }
}

impl MarkRow {
    fn new(mark: HistoryMark) -> Self {
        Self {
            id: mark.id,
            at: rfc3339::format(mark.at),
            kind: mark.kind,
            name: mark.name,
            text: mark.text,
            count: mark.count,
        }
    }
}
