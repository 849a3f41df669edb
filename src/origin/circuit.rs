//! Owns the place before an origin whose servers have all the requests that they may: so many wait, for so long, and no more.
//!
//! A server that is slow under load gets slower with every request more, so what it does not get at once waits here, where waiting
//! costs nothing. Who waits is not promised his turn: whoever comes when a place is left may take it. That wastes no place, and the
//! wait is bounded either way.
//!
//! # Concurrency
//! A place is left before the bell rings, and who waits listens for the bell before he looks for a place: one of them sees the other.
//! `Notify` keeps one ring for who comes later, and passes on that of a waiter who is dropped.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::pool::Choice;
use crate::clock;
use crate::config::rules::CircuitRules;

/// How long whoever waits goes without a look, rung for or not: after a reload others may leave places, and ring elsewhere.
const GLANCE: Duration = Duration::from_millis(250);

/// Requests of one origin that wait for a place at a server.
#[derive(Debug)]
pub struct Queue {
    /// How many may wait, how long, and for what.
    pub rules: CircuitRules,
    bell: Notify,
    waiting: AtomicU32,
    refused: AtomicU64,
}

/// One of them.
struct Place<'q>(&'q Queue);

impl Queue {
    pub(super) fn new(rules: CircuitRules) -> Self {
        Self {
            rules,
            bell: Notify::new(),
            waiting: AtomicU32::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Says that a place at a server was left.
    pub(super) fn ring(&self) {
        self.bell.notify_one();
    }

    /// When whoever begins to wait now has waited long enough.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        clock::deadline(self.rules.patience)
    }

    /// Waits until `choose` finds a place or no server at all; [`Choice::Full`] where too many wait already, or at the `end`.
    pub async fn wait(&self, end: Instant, mut choose: impl FnMut() -> Choice) -> Choice {
        let chosen = match self.enter() {
            Some(_place) => loop {
                let mut ring = pin!(self.bell.notified());
                ring.as_mut().enable();
                match choose() {
                    Choice::Full => {}
                    chosen => break chosen,
                }
                let glance = clock::deadline(GLANCE);
                let rang = tokio::time::timeout_at(glance.min(end), ring).await;
                if rang.is_err() && end <= glance {
                    break Choice::Full;
                }
            },
            None => Choice::Full,
        };
        if matches!(chosen, Choice::Full) {
            self.refuse();
        }
        chosen
    }

    /// Counts a request that gets no place.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self) -> Option<Place<'_>> {
        // Relaxed, here and below: the count bounds memory and publishes nothing.
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let place = Place(self);
        (before < self.rules.pending).then_some(place)
    }

    /// How many wait.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How many were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
