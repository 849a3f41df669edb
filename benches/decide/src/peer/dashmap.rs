//! What one writes with a concurrent map: two counters a rate, behind the lock of a shard.

use dashmap::DashMap;
use quanta::{Clock, Instant};

use super::{Brief, Limiter, Moment};
use crate::load::Answer;

/// Two counters of a rate.
#[derive(Clone, Copy, Default)]
struct Window {
    index: u32,
    previous: u32,
    current: u32,
}

/// A map of windows, as many a client as there are rates.
pub struct Map {
    clients: DashMap<u32, Box<[Window]>, ahash::RandomState>,
    /// How much passes in how many seconds.
    rates: Vec<(f64, f64)>,
    clock: Clock,
    start: Instant,
}

impl Map {
    pub fn new(brief: Brief) -> Self {
        let rate = |answer| match answer {
            Answer::Admit => (f64::INFINITY, 1.0),
            Answer::Refuse => (1.0, 31.0 * 86_400.0),
        };
        let clock = Clock::new();
        let start = clock.now();
        Self {
            clients: DashMap::default(),
            rates: brief.answers().map(rate).collect(),
            clock,
            start,
        }
    }
}

impl Limiter for Map {
    #[inline]
    fn admits(&self, client: u32, _: Moment) -> bool {
        let elapsed = self.clock.now().duration_since(self.start);
        let mut windows = self
            .clients
            .entry(client)
            .or_insert_with(|| vec![Window::default(); self.rates.len()].into());
        let mut admitted = true;
        for (window, (most, seconds)) in windows.iter_mut().zip(&self.rates) {
            let position = elapsed.as_secs_f64() / seconds;
            let index = position as u32;
            (window.previous, window.current) = match index - window.index {
                0 => (window.previous, window.current),
                1 => (window.current, 0),
                _ => (0, 0),
            };
            window.index = index;
            let previous = f64::from(window.previous) * (1.0 - position.fract());
            admitted &= previous + f64::from(window.current) + 1.0 <= *most;
        }
        if admitted {
            windows.iter_mut().for_each(|window| window.current += 1);
        }
        admitted
    }
}
