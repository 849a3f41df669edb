//! Owns the adaptive concurrency limit of one server: the requests that wait for it, and the window of latencies that decides its next
//! limit.
//!
//! Only requests whose server has everything and has not begun to answer count: from the moment in which the whole request is sent to the
//! head of the response. A download, a stream of events or a WebSocket takes no place, and no sample of a latency contains the time in
//! which a client reads or writes. Latency and number agree by Little's law, as both end with the head.
//!
//! A client that waits for most of the places is rejected before the limit is reached: it may have [`HEAVY`] times as many requests as
//! places are free (the dynamic threshold of Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches",
//! IEEE/ACM Transactions on Networking 6(2), 1998). So `h` clients that take all they get leave `limit / (1 + 2 h)` places to those with
//! fewer requests, and the limit, which follows the latency, grows by what stays free.
//!
//! # Concurrency
//! Requests read and change a few separate words, relaxed: none publishes anything. The number that waits never exceeds the limit by
//! requests that it admits, since only compare-and-swaps add to it. The count and the sum of latencies are one word. The request that ends
//! a window computes the next limit under a lock that no other request waits for.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use sluicegate_base::clock;
use sluicegate_limiter::Timestamp;

use super::client_counts::{ClientCounts, ClientTag, CountedAt};
use super::gradient::{self, GradientState, LatencyWindow};
use sluicegate_config::rules::AdaptiveConcurrencyRules;

/// Requests that one client may have for each place that is free.
const HEAVY: u32 = 2;
/// The least length of a window, in latencies without a queue.
const LATENCIES: u32 = 3;
/// Bits of the sum of latencies, in microseconds, of which twelve days fit: the latencies of a window's requests are parts of that window,
/// so their sum is at most its length times the limit, a minute times 10,000.
const SUM_BITS: u32 = 40;
const SUM: u64 = (1 << SUM_BITS) - 1;

/// The limit of one server and what it is made of. It outlives reloads.
#[derive(Debug)]
pub(super) struct AdaptiveLimit {
    limit: AtomicU32,
    waiting: AtomicU32,
    clients: ClientCounts,
    window: WindowCounts,
    state: Mutex<GradientState>,
    /// The latency without a queue, in microseconds, for readers without the lock; 0 before the first window.
    baseline: AtomicU64,
}

/// The counts of the present window.
#[derive(Debug)]
struct WindowCounts {
    /// In nanoseconds since the Unix epoch.
    began: AtomicU64,
    /// The number of answered requests above [`SUM_BITS`] bits of the sum of their latencies.
    answered: AtomicU64,
    failed: AtomicU32,
    peak: AtomicU32,
}

/// The limit of a server under the rules of one configuration.
#[derive(Debug)]
pub(super) struct ServerLimit {
    pub(super) rules: AdaptiveConcurrencyRules,
    pub(super) limit: Arc<AdaptiveLimit>,
    pub(super) heavy: HeavyClients,
}

/// The treatment of clients with most of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeavyClients {
    /// They are rejected first.
    Rejected,
    /// They wait in the queue of the origin, whose order decides.
    Queued,
}

/// The reason for which a server takes no further request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitRefusal {
    /// So many requests wait for it, which is its limit.
    Reached(u32),
    /// The client has so many of those.
    Heavy(u32),
}

/// The place of one request among those that wait for a server.
#[derive(Debug)]
pub(super) struct LimitPermit {
    limit: Arc<AdaptiveLimit>,
    rules: AdaptiveConcurrencyRules,
    counted: Option<CountedAt>,
    began: Timestamp,
    stage: PlaceStage,
}

/// The stage of a request that has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceStage {
    /// The server has the whole request, and has it since the beginning.
    Waits,
    /// The server waits for the gateway: the place is left.
    Paused,
    /// The server has everything by now.
    Resumed,
    /// The head has come, or none will.
    Over,
}

impl AdaptiveLimit {
    /// Returns the limit of a server of which nothing is known.
    pub(super) fn new(rules: &AdaptiveConcurrencyRules) -> Self {
        Self {
            limit: AtomicU32::new(rules.first_limit()),
            waiting: AtomicU32::new(0),
            clients: ClientCounts::default(),
            window: WindowCounts {
                // The first window ends with its first requests.
                began: AtomicU64::new(0),
                answered: AtomicU64::new(0),
                failed: AtomicU32::new(0),
                peak: AtomicU32::new(0),
            },
            state: Mutex::new(GradientState::new(rules)),
            baseline: AtomicU64::new(0),
        }
    }

    /// Counts the answer to a request that began at `began`, unless that was in an earlier window.
    fn note_answer(&self, began: Timestamp, rules: &AdaptiveConcurrencyRules, now: Timestamp) {
        if began.as_nanos() >= self.window.began.load(Ordering::Relaxed) {
            let micros = u64::try_from(clock::between(began, now).as_micros()).unwrap_or(SUM);
            let sample = (1 << SUM_BITS) | micros.min(SUM);
            self.window.answered.fetch_add(sample, Ordering::Relaxed);
        }
        self.end_window(rules, now);
    }

    fn note_failure(&self, rules: &AdaptiveConcurrencyRules, now: Timestamp) {
        self.window.failed.fetch_add(1, Ordering::Relaxed);
        self.end_window(rules, now);
    }

    /// Ends the window and sets the next limit, if the window has its time and its requests.
    fn end_window(&self, rules: &AdaptiveConcurrencyRules, now: Timestamp) {
        let counts = &self.window;
        let began = counts.began.load(Ordering::Relaxed);
        let length = clock::between(Timestamp::from_nanos(began), now);
        let requests = counts.answered.load(Ordering::Relaxed) >> SUM_BITS;
        let requests = requests + u64::from(counts.failed.load(Ordering::Relaxed));
        // Of a shorter window, only the fastest requests that began in it would have been answered by its end.
        let least = rules.window.max(self.baseline() * LATENCIES);
        if length < least || requests < gradient::SAMPLES.into() {
            return;
        }
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another request ends the window.
            Err(TryLockError::WouldBlock) => return,
        };
        if counts.began.load(Ordering::Relaxed) != began {
            return;
        }
        let is_short = length < least * gradient::PROBE_WINDOWS;
        if state.is_probe() && is_short && requests < gradient::PROBE_SAMPLES.into() {
            return;
        }
        let peak = counts.peak.swap(self.waiting(), Ordering::Relaxed);
        let failed = counts.failed.swap(0, Ordering::Relaxed);
        let answered = counts.answered.swap(0, Ordering::Relaxed);
        *state = state.next(&window_of(answered, failed, peak), rules);
        self.limit.store(state.limit(), Ordering::Relaxed);
        let baseline = state.baseline().unwrap_or_default().as_micros();
        let baseline = u64::try_from(baseline).unwrap_or(u64::MAX);
        self.baseline.store(baseline, Ordering::Relaxed);
        // Requests that begin from now on meet the new limit, and only their latencies count for it.
        counts.began.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Returns the latency without a queue; zero before the first window.
    fn baseline(&self) -> Duration {
        Duration::from_micros(self.baseline.load(Ordering::Relaxed))
    }

    fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }
}

impl ServerLimit {
    /// Returns the limit in force.
    pub(super) fn most(&self) -> u32 {
        let limit = self.limit.limit.load(Ordering::Relaxed);
        limit.clamp(self.rules.min, self.rules.max)
    }

    /// Returns the number of requests that wait for the head of their response.
    pub(super) fn waiting(&self) -> u32 {
        self.limit.waiting()
    }

    /// Returns the latency of the server without a queue; `None` before the first window.
    pub(super) fn baseline(&self) -> Option<Duration> {
        let baseline = self.limit.baseline();
        (!baseline.is_zero()).then_some(baseline)
    }

    /// Returns why no further request of `client` is let in; `None` where one is.
    pub(super) fn refusal(&self, client: ClientTag) -> Option<LimitRefusal> {
        let most = self.most();
        let free = most.saturating_sub(self.waiting());
        if free == 0 {
            return Some(LimitRefusal::Reached(most));
        }
        if self.heavy == HeavyClients::Queued {
            return None;
        }
        let own = self.limit.clients.count(client);
        (own >= free.saturating_mul(HEAVY)).then_some(LimitRefusal::Heavy(own))
    }

    /// Lets a request of `client` in at `now`; `None` where it has to go.
    pub(super) fn enter(&self, client: ClientTag, now: Timestamp) -> Option<LimitPermit> {
        if self.refusal(client).is_some() {
            return None;
        }
        let limit = &self.limit;
        let most = self.most();
        let add = |waiting: u32| (waiting < most).then(|| waiting + 1);
        // Each failed round is a place that another request took or left.
        let before = limit
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .ok()?;
        let peak = &limit.window.peak;
        if before + 1 > peak.load(Ordering::Relaxed) {
            peak.fetch_max(before + 1, Ordering::Relaxed);
        }
        Some(LimitPermit {
            limit: Arc::clone(limit),
            rules: self.rules,
            counted: limit.clients.add(client),
            began: now,
            stage: PlaceStage::Waits,
        })
    }
}

impl LimitPermit {
    /// Leaves the place while the server waits for a part of the request.
    pub(super) fn pause(&mut self) {
        if self.stage == PlaceStage::Waits {
            self.stage = PlaceStage::Paused;
            self.limit.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes a place again once the server has the whole request, even beyond the limit, since the request is on its way.
    pub(super) fn resume(&mut self) {
        if self.stage == PlaceStage::Paused {
            self.stage = PlaceStage::Resumed;
            self.limit.waiting.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records the head of the response at `now`, and leaves the place.
    pub(super) fn answered(&mut self, now: Timestamp) {
        let is_sample = self.stage == PlaceStage::Waits;
        self.leave();
        if is_sample {
            self.limit.note_answer(self.began, &self.rules, now);
        }
    }

    /// Records a failure at `now` that an overloaded server may cause, and leaves the place.
    pub(super) fn failed(&mut self, now: Timestamp) {
        if self.stage != PlaceStage::Over {
            self.leave();
            self.limit.note_failure(&self.rules, now);
        }
    }

    /// Leaves the place without a sample: the head says nothing about the time that the server takes.
    pub(super) fn leave(&mut self) {
        if matches!(self.stage, PlaceStage::Waits | PlaceStage::Resumed) {
            self.limit.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        self.stage = PlaceStage::Over;
        if let Some(counted) = self.counted.take() {
            self.limit.clients.remove(counted);
        }
    }

    /// Returns whether a request that nobody waits for any more had waited for longer than is tolerated.
    fn is_late(&self, now: Timestamp) -> bool {
        let baseline = self.limit.baseline();
        let tolerated = baseline * (100 + u32::from(self.rules.tolerance.0)) / 100;
        !baseline.is_zero() && clock::between(self.began, now) > tolerated
    }
}

impl Drop for LimitPermit {
    /// Leaves the place. A client that gives up on a slow server shows that it is slow: its time is a sample, the least that it can be.
    fn drop(&mut self) {
        if self.stage != PlaceStage::Waits {
            self.leave();
            return;
        }
        let now = clock::now();
        if self.is_late(now) {
            self.answered(now);
        } else {
            self.leave();
        }
    }
}

fn window_of(answered: u64, failed: u32, peak: u32) -> LatencyWindow {
    let count = u32::try_from(answered >> SUM_BITS).unwrap_or(u32::MAX);
    LatencyWindow {
        answered: count,
        failed,
        latency: Duration::from_micros((answered & SUM) / u64::from(count.max(1))),
        peak,
    }
}

#[cfg(test)]
#[path = "adaptive_limit_tests.rs"]
mod tests;
