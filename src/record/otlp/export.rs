//! Brings spans to the collector: a task in the background, for whatever collector the snapshot in force names.
//!
//! One batch is under way at a time, and stays until the collector has taken it, refused it, or is named no more. What the collector
//! cannot take now is brought again after a pause that doubles, or that it asks for; meanwhile the shards fill to their cap and drop what
//! is newer. So memory is bounded whatever the collector does, and what led to an outage is not thrown away for what came of it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use tracing::{info, warn};

use super::answer::ReplyMeaning;
use super::batch::{body, cut};
use super::collector::CollectorClient;
use super::wire::FieldReader;
use super::{ExportCallResult, SpanQueue, SpanResult};
use crate::bounds;
use crate::config::rules::OtlpRules;
use crate::in_force::InForce;
use crate::request_id::draw;

/// The interval at which the task checks whether a collector is configured.
const WITHOUT_COLLECTOR: Duration = Duration::from_millis(250);
/// The pause between two calls of a process that drains.
const HURRY: Duration = Duration::from_millis(50);
/// The first pause of a collector that cannot take anything.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest that one may ask for: its clock may be wrong, and nobody waits for a day.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// The background service.
pub struct SpanExportService {
    /// The spans of all requests.
    pub spans: Arc<SpanQueue>,
    /// The collector in force; `None` where there is none.
    pub collector: InForce<Option<Arc<OtlpRules>>>,
}

#[async_trait]
impl BackgroundService for SpanExportService {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let spans = &*self.spans;
        let mut exporter = SpanExporter::default();
        let mut draining = false;
        // Until the process ends: who drains still serves requests.
        loop {
            let Some(rules) = self.collector.load() else {
                exporter.forget(spans);
                tokio::time::sleep(WITHOUT_COLLECTOR).await;
                continue;
            };
            let pause = exporter.pause.unwrap_or(rules.interval);
            let pause = if draining { pause.min(HURRY) } else { pause };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = spans.crowded.notified(), if exporter.pause.is_none() => {}
                _ = shutdown.changed(), if !draining => draining = true,
            }
            exporter.round(spans, &self.collector).await;
        }
    }
}

/// The task's own part.
#[derive(Default)]
struct SpanExporter {
    collector: CollectorClient,
    /// Spans out of one shard, of which so many bytes have found their fate.
    waiting: Vec<u8>,
    done: usize,
    /// The pause between calls; `None` while the collector accepts spans.
    pause: Option<Duration>,
    /// The pause before that, as it was doubled; zero once something was taken.
    last_pause: Duration,
    trouble: CollectorError,
    /// Spans left out before it began.
    dropped_before: u64,
}

/// The collector's latest error that was logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CollectorError {
    #[default]
    None,
    Away,
    Refusing,
}

impl SpanExporter {
    /// Brings what waits, what is left from the last round first. Whom to is asked behind each taking: a reload may come at any moment,
    /// and a request that it lets in is told to whom the reload names.
    async fn round(&mut self, spans: &SpanQueue, collector: &InForce<Option<Arc<OtlpRules>>>) {
        self.pause = None;
        for shard in 0..=spans.shards.count() {
            let Some(rules) = collector.load() else {
                return;
            };
            self.bring(spans, &rules).await;
            if self.pause.is_some() || shard == spans.shards.count() {
                return;
            }
            self.take(spans, shard);
        }
    }

    /// Brings all of what waits, or up to what cannot be taken now. Each turn but the last settles a span at least.
    async fn bring(&mut self, spans: &SpanQueue, rules: &OtlpRules) {
        while let Some(rest) = self
            .waiting
            .get(self.done..)
            .filter(|rest| !rest.is_empty())
        {
            let batch = cut(rest);
            let (bytes, count) = (batch.spans.len(), batch.count);
            let answer = self
                .collector
                .post(rules, body(batch, &rules.attributes).into())
                .await;
            let meaning = match answer {
                Ok(answer) => answer.meaning(count),
                Err(why) => ReplyMeaning::Later(why, None),
            };
            match meaning {
                ReplyMeaning::Taken => {
                    spans.note(SpanResult::Sent, count);
                    self.tell(spans, rules, CollectorError::None, "");
                }
                ReplyMeaning::TakenBut(rejected, why) => {
                    spans.note(SpanResult::Sent, count - rejected);
                    spans.note(SpanResult::Refused, rejected);
                    let why = format!("it leaves out {rejected} of {count}: {why}");
                    self.tell(spans, rules, CollectorError::Refusing, &why);
                }
                ReplyMeaning::Refused(why) => {
                    spans.note(SpanResult::Refused, count);
                    self.tell(spans, rules, CollectorError::Refusing, &why);
                }
                ReplyMeaning::Later(why, asked) => {
                    self.tell(spans, rules, CollectorError::Away, &why);
                    self.put_off(asked);
                    return;
                }
            }
            self.last_pause = Duration::ZERO;
            // A batch without a span would be brought for ever; nothing that is written makes one.
            self.done = if bytes == 0 {
                self.waiting.len()
            } else {
                self.done + bytes
            };
        }
        self.waiting.clear();
        self.done = 0;
    }

    /// Swaps what a shard holds for what was brought.
    fn take(&mut self, spans: &SpanQueue, shard: usize) {
        spans.shards.take(shard, &mut self.waiting);
    }

    /// Nobody is to be told any more.
    fn forget(&mut self, spans: &SpanQueue) {
        self.drop_waiting(spans);
        for shard in 0..spans.shards.count() {
            self.take(spans, shard);
            self.drop_waiting(spans);
        }
        *self = Self {
            waiting: std::mem::take(&mut self.waiting),
            ..Self::default()
        };
    }

    fn drop_waiting(&mut self, spans: &SpanQueue) {
        let rest = self.waiting.get(self.done..).unwrap_or_default();
        spans.note(SpanResult::Dropped, FieldReader(rest).count() as u64);
        self.waiting.clear();
        self.done = 0;
    }

    /// Twice the pause before, or what was asked for; three quarters to all of it, so that gateways do not come back together.
    fn put_off(&mut self, asked: Option<Duration>) {
        let doubled = (self.last_pause * 2).clamp(FIRST_PAUSE, bounds::OTLP_PAUSE);
        self.last_pause = doubled;
        let pause = asked.map_or(doubled, |asked| asked.min(LONGEST_ASKED).max(doubled));
        let thousandths = 750 + (draw() % 251) as u32;
        self.pause = Some(pause * thousandths / 1_000);
    }

    /// Counts a call, and logs a change of state.
    fn tell(&mut self, spans: &SpanQueue, rules: &OtlpRules, trouble: CollectorError, why: &str) {
        spans.called(match trouble {
            CollectorError::None => ExportCallResult::Ok,
            CollectorError::Refusing => ExportCallResult::Refused,
            CollectorError::Away => ExportCallResult::Failed,
        });
        if trouble == self.trouble {
            return;
        }
        let to = rules.collector.authority.to_str().unwrap_or_default();
        match trouble {
            CollectorError::Away => warn!(
                "otlp: the collector at {to} is unavailable: {why}; spans are buffered in memory, then dropped"
            ),
            CollectorError::Refusing => {
                warn!("otlp: the collector at {to} rejected spans: {why}; they are dropped");
            }
            CollectorError::None => {
                let lost = spans.dropped().saturating_sub(self.dropped_before);
                info!("otlp: the collector at {to} is available again; {lost} spans were dropped");
            }
        }
        self.dropped_before = spans.dropped();
        self.trouble = trouble;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a collector that is away is asked ever more seldom, one that asks for a pause gets it, and neither for ever. Method: ten
    /// failures, then pauses that are asked for.
    #[test]
    fn pauses_double_to_a_bound_and_what_is_asked_for_is_granted() {
        let mut exporter = SpanExporter::default();
        let mut pause = |asked| {
            exporter.put_off(asked);
            exporter.pause.unwrap_or_default()
        };
        let first = pause(None);
        assert!(first >= FIRST_PAUSE * 3 / 4 && first <= FIRST_PAUSE);
        for _ in 0..10 {
            assert!(pause(None) <= bounds::OTLP_PAUSE);
        }
        assert!(pause(None) >= bounds::OTLP_PAUSE * 3 / 4);
        let asked = pause(Some(Duration::from_secs(100)));
        assert!(asked >= Duration::from_secs(75) && asked <= Duration::from_secs(100));
        assert!(pause(Some(Duration::from_secs(86_400))) <= LONGEST_ASKED);
        assert!(pause(Some(Duration::ZERO)) >= bounds::OTLP_PAUSE * 3 / 4);
    }
}
