//! Posts the records of a signal to the collector: a task in the background, for whatever collector is in force.
//!
//! One batch is under way at a time, and stays until the collector has accepted it, rejected it, or is no longer configured. A batch that
//! the collector cannot accept now is posted again after a pause that doubles, or that it asks for; meanwhile the buffers fill to their cap
//! and drop newer records. So memory is bounded whatever the collector does, and the records that led to an outage are kept in favor of
//! those that came of it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tracing::{info, warn};

use super::answer::ReplyMeaning;
use super::batch::{body, first_batch};
use super::collector::CollectorClient;
use super::settings::ExportSettings;
use super::wire::FieldReader;
use super::{CallResult, ExportQueue, RecordResult, bounds};

/// The target of process logs: the module of the gateway that this file was part of, so that filters by module go on as they are.
const LOG_TARGET: &str = "sluicegate::record::otlp::export";

/// The interval at which the task checks whether a collector is configured.
const WITHOUT_COLLECTOR: Duration = Duration::from_millis(250);
/// The longest pause between two calls of a process that drains.
const DRAINING_PAUSE: Duration = Duration::from_millis(50);
/// The first pause of a collector that cannot accept anything.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The parts of the program that the export depends on.
pub trait ExportContext: Send + Sync {
    /// Returns the settings in force; `None` where no collector is configured.
    fn settings(&self) -> Option<Arc<ExportSettings>>;
    /// Reads the pause that the headers of a response ask for.
    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration>;
    /// Returns a random number, for jitter.
    fn random(&self) -> u64;
}

/// Exports the records of `queue` for as long as the future is polled. It hurries once `drain` ends, and goes on: a process that drains
/// still serves requests.
pub async fn export(
    queue: &ExportQueue,
    context: &dyn ExportContext,
    drain: impl Future<Output = ()> + Send,
) {
    let mut drain = pin!(drain);
    let mut exporter = SignalExporter::default();
    let mut draining = false;
    loop {
        let Some(settings) = context.settings() else {
            exporter.discard(queue);
            tokio::time::sleep(WITHOUT_COLLECTOR).await;
            continue;
        };
        let pause = exporter.pause.unwrap_or(settings.interval);
        let pause = if draining {
            pause.min(DRAINING_PAUSE)
        } else {
            pause
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = queue.watermark.notified(), if exporter.pause.is_none() => {}
            () = &mut drain, if !draining => draining = true,
        }
        exporter.round(queue, context).await;
    }
}

/// The state of the task.
#[derive(Default)]
struct SignalExporter {
    collector: CollectorClient,
    /// Records out of one buffer, of which the first `done` bytes have a result.
    waiting: Vec<u8>,
    done: usize,
    /// The pause before the next call; `None` while the collector accepts records.
    pause: Option<Duration>,
    /// The last pause before jitter, which the next one doubles; zero once the collector accepted or rejected records.
    last_pause: Duration,
    error: CollectorError,
    /// Records dropped before the error.
    dropped_before: u64,
}

/// The collector's latest error that was logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CollectorError {
    #[default]
    None,
    Unavailable,
    Rejecting,
}

impl SignalExporter {
    /// Posts what is left from the last round, then each buffer. The settings are loaded after each buffer is taken: a reload may come at
    /// any moment, and the records of a request that it lets in go to the collector of the new configuration.
    async fn round(&mut self, queue: &ExportQueue, context: &dyn ExportContext) {
        self.pause = None;
        for buffer in 0..=queue.buffers.count() {
            let Some(settings) = context.settings() else {
                return;
            };
            self.post_waiting(queue, context, &settings).await;
            if self.pause.is_some() || buffer == queue.buffers.count() {
                return;
            }
            self.take(queue, buffer);
        }
    }

    /// Posts the waiting records up to the first batch that the collector cannot accept now. Each turn but the last settles one at least.
    async fn post_waiting(
        &mut self,
        queue: &ExportQueue,
        context: &dyn ExportContext,
        settings: &ExportSettings,
    ) {
        while let Some(rest) = self
            .waiting
            .get(self.done..)
            .filter(|rest| !rest.is_empty())
        {
            let batch = first_batch(rest);
            let bytes = batch.records.len();
            let count = batch.count;
            let body = body(batch, &settings.attributes, settings.software).into();
            let reply = self.collector.post(settings, context, body).await;
            let meaning = match reply {
                Ok(reply) => reply.meaning(count),
                Err(reason) => ReplyMeaning::Later(reason, None),
            };
            match meaning {
                ReplyMeaning::Accepted => {
                    queue.count_records(RecordResult::Sent, count);
                    self.report(queue, settings, CollectorError::None, "");
                }
                ReplyMeaning::PartlyRejected(rejected, reason) => {
                    queue.count_records(RecordResult::Sent, count - rejected);
                    queue.count_records(RecordResult::Rejected, rejected);
                    let reason = format!("it leaves out {rejected} of {count}: {reason}");
                    self.report(queue, settings, CollectorError::Rejecting, &reason);
                }
                ReplyMeaning::Rejected(reason) => {
                    queue.count_records(RecordResult::Rejected, count);
                    self.report(queue, settings, CollectorError::Rejecting, &reason);
                }
                ReplyMeaning::Later(reason, requested) => {
                    self.report(queue, settings, CollectorError::Unavailable, &reason);
                    self.back_off(requested, context.random());
                    return;
                }
            }
            self.last_pause = Duration::ZERO;
            // A batch without a record would be posted for ever; nothing that is written makes one.
            self.done = if bytes == 0 {
                self.waiting.len()
            } else {
                self.done + bytes
            };
        }
        self.waiting.clear();
        self.done = 0;
    }

    /// Swaps the records of a buffer for the memory of those that were posted.
    fn take(&mut self, queue: &ExportQueue, buffer: usize) {
        queue.buffers.take(buffer, &mut self.waiting);
    }

    /// Drops every record, since no collector is configured.
    fn discard(&mut self, queue: &ExportQueue) {
        self.drop_waiting(queue);
        for buffer in 0..queue.buffers.count() {
            self.take(queue, buffer);
            self.drop_waiting(queue);
        }
        *self = Self {
            waiting: std::mem::take(&mut self.waiting),
            ..Self::default()
        };
    }

    fn drop_waiting(&mut self, queue: &ExportQueue) {
        let rest = self.waiting.get(self.done..).unwrap_or_default();
        queue.count_records(RecordResult::Dropped, FieldReader(rest).count() as u64);
        self.waiting.clear();
        self.done = 0;
    }

    /// Sets the pause to twice the last one, or to the requested one. Takes three quarters to all of it, so that processes do not
    /// return together.
    fn back_off(&mut self, requested: Option<Duration>, random: u64) {
        let doubled = (self.last_pause * 2).clamp(FIRST_PAUSE, bounds::PAUSE);
        self.last_pause = doubled;
        let pause = requested.map_or(doubled, |requested| {
            requested.min(bounds::REQUESTED_PAUSE).max(doubled)
        });
        let thousandths = 750 + (random % 251) as u32;
        self.pause = Some(pause * thousandths / 1_000);
    }

    /// Counts a call, and logs a change of state.
    fn report(
        &mut self,
        queue: &ExportQueue,
        settings: &ExportSettings,
        error: CollectorError,
        reason: &str,
    ) {
        queue.count_call(match error {
            CollectorError::None => CallResult::Accepted,
            CollectorError::Rejecting => CallResult::Rejected,
            CollectorError::Unavailable => CallResult::Failed,
        });
        if error == self.error {
            return;
        }
        let to = settings.collector.authority.to_str().unwrap_or_default();
        let what = queue.what;
        let dropped = queue.records(RecordResult::Dropped);
        match error {
            CollectorError::Unavailable => warn!(
                target: LOG_TARGET,
                "otlp: the collector at {to} is unavailable: {reason}; {what} are buffered in memory, then dropped"
            ),
            CollectorError::Rejecting => warn!(
                target: LOG_TARGET,
                "otlp: the collector at {to} rejected {what}: {reason}; they are dropped"
            ),
            CollectorError::None => {
                let lost = dropped.saturating_sub(self.dropped_before);
                info!(
                    target: LOG_TARGET,
                    "otlp: the collector at {to} is available again; {lost} {what} were dropped"
                );
            }
        }
        self.dropped_before = dropped;
        self.error = error;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a collector that is unavailable is called ever more seldom, one that asks for a pause gets it, and neither for ever. Method:
    /// ten failures, then pauses that are asked for, each with the shortest and the longest jitter.
    #[test]
    fn pauses_double_to_a_bound_and_a_requested_pause_is_granted() {
        for (random, quarters) in [(0, 3), (250, 4)] {
            let mut exporter = SignalExporter::default();
            let mut pause = |requested| {
                exporter.back_off(requested, random);
                exporter.pause.unwrap_or_default()
            };
            let share = |of: Duration| of * quarters / 4;
            assert_eq!(pause(None), share(FIRST_PAUSE));
            for _ in 0..10 {
                assert!(pause(None) <= share(bounds::PAUSE));
            }
            assert_eq!(pause(None), share(bounds::PAUSE));
            let requested = Duration::from_secs(100);
            assert_eq!(pause(Some(requested)), share(requested));
            let day = Some(Duration::from_secs(86_400));
            assert_eq!(pause(day), share(bounds::REQUESTED_PAUSE));
            assert_eq!(pause(Some(Duration::ZERO)), share(bounds::PAUSE));
        }
    }
}
