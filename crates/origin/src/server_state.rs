//! Owns the state of one server: its status, its requests in flight, and the outcomes of attempts.
//!
//! A server keeps its state as long as its address stays in its origin, across reloads and new answers of the resolver, so that
//! neither ends a drain, puts a failed server back or loses the count of requests in flight.
//!
//! # Concurrency
//! Every fact is a separate word, since no two must agree: health is advice, and a request that reads an old value meets the
//! server's failure and is tried elsewhere. So all loads and stores are relaxed. The number in flight is exact all the same:
//! only read-modify-writes change it, which no ordering makes more atomic. Its stages are read one after the other, once a second: a
//! request more or less among those that wait changes no judgment for longer.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use sluicegate_limiter::Timestamp;

use super::adaptive_limit::AdaptiveLimit;
use super::connections::Connections;
use super::failure::{AttemptFailure, AttemptOutcome};
use super::failure_log::FailureLog;
use super::http2_connections::Http2Connections;
use super::idle::{IdleList, PoolGeneration};
use super::recent_attempts::{AttemptCounts, AttemptReading, RecentAttempts, ServerSilence};
use super::server_status::ServerStatus;
use sluicegate_config::rules::{AdaptiveConcurrencyRules, HealthRules, OutlierDetectionRules};

/// The state of a server: health, load, failures.
#[derive(Debug)]
pub struct ServerState {
    /// Its connections, while its origin has a bound for them.
    pub(super) connections: Arc<Connections>,
    /// Its idle connections that every thread may take.
    pub(super) idle: Arc<IdleList>,
    /// Its connections of HTTP/2.
    pub(super) http2: Arc<Http2Connections>,
    /// Its adaptive limit, since its origin first had one.
    adaptive: OnceLock<Arc<AdaptiveLimit>>,
    in_flight: AtomicU32,
    /// Attempts in flight of which the server has not the whole request.
    unsent: AtomicU32,
    /// Attempts in flight whose answer has begun.
    answering: AtomicU32,
    up: AtomicBool,
    /// Check results in a row that contradict `up`.
    streak: AtomicUsize,
    draining: AtomicBool,
    /// Failed attempts in a row.
    failures: AtomicU32,
    /// Ejections in close succession.
    spells: AtomicU32,
    /// The end of the latest ejection, in nanoseconds since the Unix epoch; 0 before the first.
    ejected_until: AtomicU64,
    /// The time at which its share began to grow, in nanoseconds since the Unix epoch; 0 once it has its whole share.
    grows_from: AtomicU64,
    /// The latest failure: an index into [`AttemptOutcome::ALL`] in the upper byte, milliseconds since the epoch below; 0 before the first.
    last_failure: AtomicU64,
    outcomes: [AtomicU64; AttemptOutcome::ALL.len()],
    /// The attempts that ended lately, which the background task reads and requests do not.
    recent: Mutex<RecentAttempts>,
    /// Failed requests by their cause, and the warnings about them.
    pub failure_log: FailureLog,
    ejections: AtomicU64,
    health_changes: AtomicU64,
}

/// The stage of an attempt in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptStage {
    /// The server has not the whole request: the client sends it still, or no connection is free.
    Unsent,
    /// The server has the request, and no head of its answer has come.
    Waiting,
    /// The answer has begun.
    Answering,
}

/// The presence of a health check in the rules of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HealthChecking {
    Configured,
    Absent,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckResult {
    Up,
    Down,
}

/// Thousandths of a server's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShareMille(pub(super) u32);

impl ShareMille {
    pub(super) const WHOLE: Self = Self(1000);
    /// The initial share of a server: a smaller one would take too long to show that it works.
    const LEAST: Self = Self(100);
}

/// The longest time for which a server without further attempts counts as failing.
const FAILING_AT_MOST: Duration = Duration::from_secs(10 * 60);

/// Bits of the time in `last_failure`: milliseconds for two million years.
const TIME_BITS: u32 = 56;

impl Default for ServerState {
    /// Returns the state of a server in service.
    fn default() -> Self {
        let idle = Arc::default();
        Self {
            connections: Arc::new(Connections::new(&idle)),
            idle,
            http2: Arc::default(),
            adaptive: OnceLock::new(),
            in_flight: AtomicU32::new(0),
            unsent: AtomicU32::new(0),
            answering: AtomicU32::new(0),
            up: AtomicBool::new(true),
            streak: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            spells: AtomicU32::new(0),
            ejected_until: AtomicU64::new(0),
            grows_from: AtomicU64::new(0),
            last_failure: AtomicU64::new(0),
            outcomes: Default::default(),
            recent: Mutex::default(),
            failure_log: FailureLog::default(),
            ejections: AtomicU64::new(0),
            health_changes: AtomicU64::new(0),
        }
    }
}

impl ServerState {
    /// Returns the state of a server whose share grows from `now` on.
    pub(super) fn new_at(now: Timestamp) -> Self {
        let server_state = Self::default();
        server_state.grow_from(now);
        server_state
    }

    /// Returns whether it may receive requests at `now`.
    #[must_use]
    pub fn is_usable(&self, now: Timestamp) -> bool {
        self.up.load(Ordering::Relaxed)
            && !self.draining.load(Ordering::Relaxed)
            && self.ejected_until.load(Ordering::Relaxed) <= now.as_nanos()
    }

    /// Returns its status at `now`; `slow_start` and `checking` are those of its origin.
    #[must_use]
    pub(super) fn state(
        &self,
        now: Timestamp,
        slow_start: Option<Duration>,
        checking: HealthChecking,
    ) -> ServerStatus {
        if self.is_draining() {
            ServerStatus::Draining
        } else if !self.is_up() {
            ServerStatus::Down
        } else if self.ejected_until.load(Ordering::Relaxed) > now.as_nanos() {
            ServerStatus::Ejected
        } else if self.is_failing(now) {
            ServerStatus::Failing
        } else if self.share(now, slow_start) < ShareMille::WHOLE {
            ServerStatus::SlowStart
        } else {
            match checking {
                HealthChecking::Configured => ServerStatus::Up,
                HealthChecking::Absent => ServerStatus::Unchecked,
            }
        }
    }

    fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    /// Returns whether the operator drains it.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Begins a drain; returns whether the server was not drained before.
    pub fn drain(&self) -> bool {
        !self.draining.swap(true, Ordering::Relaxed)
    }

    /// Ends a drain; returns whether the server was drained before.
    pub fn undrain(&self, now: Timestamp) -> bool {
        let was = self.draining.swap(false, Ordering::Relaxed);
        if was {
            self.grow_from(now);
            self.forget_attempts();
        }
        was
    }

    // ── connections ──

    /// Keeps connections with this key only, from now on; with `None` none.
    pub(super) fn accept_only(&self, key: Option<u64>, by: PoolGeneration) {
        self.idle.accept_only(key, by);
        self.http2.accept_only(key, by);
    }

    /// Returns its adaptive limit, which begins by these rules where there is none yet.
    pub(super) fn adaptive_limit(&self, rules: &AdaptiveConcurrencyRules) -> Arc<AdaptiveLimit> {
        let limit = || Arc::new(AdaptiveLimit::new(rules));
        Arc::clone(self.adaptive.get_or_init(limit))
    }

    // ── in flight ──

    /// Returns the number of attempts in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts an attempt in flight; returns false where there are `most` already.
    #[must_use]
    pub(super) fn enter(&self, most: u32) -> bool {
        // Each failed round is a place that another request took or released, and only so many can be taken before this one is
        // refused.
        self.in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < most).then_some(count + 1)
            })
            .is_ok()
    }

    /// Ends an attempt in flight, and counts its outcome; `None` where nothing was sent.
    pub(super) fn leave(&self, outcome: Option<AttemptOutcome>) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Some(outcome) = outcome {
            self.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts an attempt in flight as one in stage `to` instead of `from`.
    pub(super) fn move_stage(&self, from: AttemptStage, to: AttemptStage) {
        if let Some(count) = self.stage_count(from) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(count) = self.stage_count(to) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of attempts in a stage; those that wait are all others.
    fn stage_count(&self, stage: AttemptStage) -> Option<&AtomicU32> {
        match stage {
            AttemptStage::Unsent => Some(&self.unsent),
            AttemptStage::Waiting => None,
            AttemptStage::Answering => Some(&self.answering),
        }
    }

    // ── checks ──

    /// Counts a check's result; true when it takes the server out of use or puts it back.
    pub(super) fn observe(&self, result: CheckResult, rules: &HealthRules, now: Timestamp) -> bool {
        let wanted = result == CheckResult::Up;
        let needed = match result {
            CheckResult::Up => rules.healthy_after,
            CheckResult::Down => rules.unhealthy_after,
        };
        // One check of a pool runs at a time, so nothing else writes these.
        let streak = if wanted == self.is_up() {
            0
        } else {
            self.streak.load(Ordering::Relaxed) + 1
        };
        let flips = streak >= needed.max(1);
        self.streak
            .store(if flips { 0 } else { streak }, Ordering::Relaxed);
        if flips {
            if wanted {
                self.grow_from(now);
                self.forget_attempts();
            }
            self.up.store(wanted, Ordering::Relaxed);
            self.health_changes.fetch_add(1, Ordering::Relaxed);
        }
        flips
    }

    // ── ejection ──

    /// Records a failure; returns true when so many followed each other that the rules eject the server.
    pub(super) fn fail(
        &self,
        failure: AttemptFailure,
        rules: Option<&OutlierDetectionRules>,
        at: Timestamp,
    ) -> bool {
        let kind = AttemptOutcome::from(failure) as u64;
        let millis = at.as_nanos() / 1_000_000;
        self.last_failure
            .store(kind << TIME_BITS | millis, Ordering::Relaxed);
        let Some(rules) = rules else {
            return false;
        };
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        before.saturating_add(1) >= rules.consecutive_failures
    }

    /// Records a success.
    pub(super) fn succeed(&self) {
        // Nearly always 0 already, and all cores share a cache line that is only read.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Ejects the server from `now` on; returns for how long. The caller holds the pool's lock on ejections.
    pub(super) fn eject(&self, rules: &OutlierDetectionRules, now: Timestamp) -> Duration {
        let before = Timestamp::from_nanos(self.ejected_until.load(Ordering::Relaxed));
        let soon = before.as_nanos() != 0 && now.saturating_since(before) < rules.max_ejection_time;
        let spells = if soon {
            self.spells.load(Ordering::Relaxed).saturating_add(1)
        } else {
            1
        };
        let length = rules
            .base_ejection_time
            .saturating_mul(spells)
            .min(rules.max_ejection_time);
        let until = now.saturating_add(length);
        self.spells.store(spells, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        // Its share grows from its return.
        self.grow_from(until);
        self.ejected_until
            .store(until.as_nanos(), Ordering::Relaxed);
        self.ejections.fetch_add(1, Ordering::Relaxed);
        length
    }

    // ── slow start ──

    fn grow_from(&self, from: Timestamp) {
        self.grows_from.store(from.as_nanos(), Ordering::Relaxed);
    }

    /// Returns the part of its share that it gets at `now`.
    pub(super) fn share(&self, now: Timestamp, slow_start: Option<Duration>) -> ShareMille {
        let Some(whole) = slow_start else {
            return ShareMille::WHOLE;
        };
        let from = self.grows_from.load(Ordering::Relaxed);
        if from == 0 {
            return ShareMille::WHOLE;
        }
        let grown = now.saturating_since(Timestamp::from_nanos(from));
        if grown >= whole {
            // A growth that began meanwhile stays.
            let _ = self
                .grows_from
                .compare_exchange(from, 0, Ordering::Relaxed, Ordering::Relaxed);
            return ShareMille::WHOLE;
        }
        let thousandths = grown.as_micros() * 1000 / whole.as_micros().max(1);
        let share = u32::try_from(thousandths).map_or(ShareMille::WHOLE, ShareMille);
        share.clamp(ShareMille::LEAST, ShareMille::WHOLE)
    }

    // ── statistics ──

    /// Returns the number of attempts that ended with `outcome`.
    #[must_use]
    pub fn count(&self, outcome: AttemptOutcome) -> u64 {
        self.outcomes[outcome as usize].load(Ordering::Relaxed)
    }

    /// Returns the attempts that ended since its state began.
    #[must_use]
    pub fn attempt_counts(&self) -> AttemptCounts {
        let mut counts = AttemptCounts::default();
        for outcome in AttemptOutcome::ALL {
            counts.add(outcome, self.count(outcome));
        }
        counts
    }

    /// Reads the counts of its attempts. The background task calls it once a second.
    pub(super) fn look_at_attempts(&self, now: Timestamp) {
        let [unsent, answering] =
            [&self.unsent, &self.answering].map(|count| count.load(Ordering::Relaxed));
        let waiting = (self.in_flight()).saturating_sub(unsent.saturating_add(answering));
        let reading = AttemptReading {
            counts: self.attempt_counts(),
            abandoned: self.count(AttemptOutcome::Abandoned),
            waiting: waiting.into(),
            answering: answering.into(),
        };
        self.lock_recent().look(reading, now);
    }

    /// Judges it by later attempts alone, since it is back in service.
    fn forget_attempts(&self) {
        self.lock_recent().forget();
    }

    /// Returns the attempts of the latest ten seconds in which one ended.
    #[must_use]
    pub fn recent_attempts(&self) -> AttemptCounts {
        self.lock_recent().latest()
    }

    /// Returns the time in which it has answered nobody until `now`, where that is a failure.
    #[must_use]
    pub fn silence(&self, now: Timestamp) -> Option<ServerSilence> {
        self.lock_recent().silence(now, FAILING_AT_MOST)
    }

    /// Returns whether its latest attempts fail. A server that gets none is no longer failing after a while, since it may be well by then.
    fn is_failing(&self, now: Timestamp) -> bool {
        let is_remembered =
            |(_, at): (AttemptOutcome, Timestamp)| now.saturating_since(at) < FAILING_AT_MOST;
        let fails =
            self.recent_attempts().are_failing() && self.last_failure().is_some_and(is_remembered);
        fails || self.silence(now).is_some()
    }

    /// Poison is ignored: one reading more or less changes a judgment for a second.
    fn lock_recent(&self) -> MutexGuard<'_, RecentAttempts> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of its ejections.
    #[must_use]
    pub fn ejections(&self) -> u64 {
        self.ejections.load(Ordering::Relaxed)
    }

    /// Returns the number of times that checks took it out of use or put it back.
    #[must_use]
    pub fn health_changes(&self) -> u64 {
        self.health_changes.load(Ordering::Relaxed)
    }

    /// Returns its latest failure; `None` before the first.
    #[must_use]
    pub fn last_failure(&self) -> Option<(AttemptOutcome, Timestamp)> {
        let word = self.last_failure.load(Ordering::Relaxed);
        let kind = usize::try_from(word >> TIME_BITS).ok()?;
        let millis = word & ((1 << TIME_BITS) - 1);
        let outcome = *AttemptOutcome::ALL.get(kind)?;
        (millis != 0).then(|| {
            let at = Timestamp::from_nanos(millis.saturating_mul(1_000_000));
            (outcome, at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_config::rules::{FailureClass, Percent};

    const RULES: OutlierDetectionRules = OutlierDetectionRules {
        consecutive_failures: 3,
        on: Vec::new(),
        base_ejection_time: Duration::from_secs(10),
        max_ejection_time: Duration::from_secs(25),
        max_percent: Percent(50),
    };

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000 + secs)
    }

    fn state(server: &ServerState, now: Timestamp) -> ServerStatus {
        server.state(now, None, HealthChecking::Absent)
    }

    /// Goal: a server that nothing checks is not said to be up, and failing while its requests fail. Method: no request; failures; an
    /// answer; a failure and ten minutes without a request; the same server with checks, and out of service.
    #[test]
    fn requests_say_what_no_check_does() {
        let server = ServerState::default();
        let end = |outcome, secs| {
            if let AttemptOutcome::Reset = outcome {
                server.fail(AttemptFailure::Reset, None, at(secs));
            }
            server.leave(Some(outcome));
            server.look_at_attempts(at(secs));
        };
        server.look_at_attempts(at(0));
        assert_eq!(state(&server, at(0)), ServerStatus::Unchecked);
        end(AttemptOutcome::Reset, 1);
        assert_eq!(state(&server, at(1)), ServerStatus::Failing);
        assert!(server.is_usable(at(1)), "it is asked all the same");
        end(AttemptOutcome::Success, 20);
        assert_eq!(state(&server, at(20)), ServerStatus::Unchecked);
        end(AttemptOutcome::Reset, 40);
        let checked = server.state(at(41), None, HealthChecking::Configured);
        assert_eq!(checked, ServerStatus::Failing);
        assert_eq!(state(&server, at(40 + 600)), ServerStatus::Unchecked);
        server.drain();
        assert_eq!(state(&server, at(41)), ServerStatus::Draining);
    }

    /// Goal: a server that is back in service is not judged by those who left before. Method: clients that left, a drain and its end, and
    /// one request that waits.
    #[test]
    fn a_server_that_is_back_is_judged_anew() {
        let server = ServerState::default();
        for secs in 0..20 {
            assert!(server.enter(9));
            server.leave(Some(AttemptOutcome::Abandoned));
            server.look_at_attempts(at(secs));
        }
        assert_eq!(state(&server, at(20)), ServerStatus::Failing);
        server.drain();
        server.undrain(at(20));
        assert!(server.enter(9));
        (21..60).for_each(|secs| server.look_at_attempts(at(secs)));
        assert_eq!(state(&server, at(60)), ServerStatus::Unchecked);
    }

    /// Goal: only failures in a row eject. Method: two, a success, then three.
    #[test]
    fn a_success_resets_failures() {
        let server = ServerState::default();
        let fail = || server.fail(AttemptFailure::Reset, Some(&RULES), at(0));
        assert!(!fail() && !fail());
        server.succeed();
        assert!(!fail() && !fail() && fail());
        assert_eq!(server.last_failure(), Some((AttemptOutcome::Reset, at(0))));
    }

    /// Goal: ejections end by themselves, last longer in close succession, and are short again after a long pause. Method: three
    /// in a row, one much later.
    #[test]
    fn ejections_grow_up_to_a_bound_and_are_forgotten() {
        let server = ServerState::default();
        let secs = Duration::from_secs;
        assert_eq!(server.eject(&RULES, at(0)), secs(10));
        assert!(!server.is_usable(at(9)) && server.is_usable(at(10)));
        assert_eq!(state(&server, at(9)), ServerStatus::Ejected);
        assert_eq!(server.eject(&RULES, at(11)), secs(20));
        assert_eq!(server.eject(&RULES, at(32)), secs(25));
        assert_eq!(server.eject(&RULES, at(32 + 25 + 25)), secs(10));
    }

    /// Goal: a share grows from the server's return to the whole, and then costs nothing any more. Method: moments of a slow
    /// start after an ejection.
    #[test]
    fn a_share_grows_after_an_ejection() {
        let server = ServerState::default();
        let slow = Some(Duration::from_secs(100));
        assert_eq!(server.share(at(0), slow), ShareMille::WHOLE);
        server.eject(&RULES, at(0));
        for (secs, share) in [(10, 100), (15, 100), (60, 500), (109, 990), (110, 1000)] {
            assert_eq!(server.share(at(secs), slow), ShareMille(share), "{secs}");
        }
        assert_eq!(
            server.state(at(110), slow, HealthChecking::Configured),
            ServerStatus::Up
        );
        assert_eq!(server.share(at(11), None), ShareMille::WHOLE);
    }

    /// Goal: a server never exceeds its bound on requests in flight. Method: three attempts in two places.
    #[test]
    fn places_are_bounded() {
        let server = ServerState::default();
        assert!(server.enter(2) && server.enter(2) && !server.enter(2));
        server.leave(Some(AttemptOutcome::Success));
        assert!(server.enter(2));
        assert_eq!(server.in_flight(), 2);
        assert_eq!(server.count(AttemptOutcome::Success), 1);
    }

    /// Goal: each class in the rules covers its failures. Method: every class beside every failure.
    #[test]
    fn failures_are_classified() {
        use AttemptFailure::{Connect, Reset, Status, Timeout};
        let classes = [FailureClass::Connect, FailureClass::Status(502..=503)];
        assert!(Connect.is_among(&classes) && Status(503).is_among(&classes));
        for other in [Timeout, Reset, Status(504)] {
            assert!(!other.is_among(&classes), "{other:?}");
        }
        for (index, outcome) in AttemptOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, index);
        }
    }
}
