//! Keeps readings of a counter that only grows, from which the growth of the last seconds follows.

use std::collections::VecDeque;

use sluicegate_base::bounds::{LOAD_READING, LOAD_WINDOW};
use sluicegate_limiter::Timestamp;

/// Readings of one counter, the oldest first: one for each [`LOAD_READING`] of the last [`LOAD_WINDOW`].
#[derive(Clone, Debug)]
pub struct ReadingWindow<T> {
    readings: VecDeque<(Timestamp, T)>,
}

impl<T> Default for ReadingWindow<T> {
    fn default() -> Self {
        Self {
            readings: VecDeque::new(),
        }
    }
}

impl<T: Clone> ReadingWindow<T> {
    /// Returns the reading that begins the window which ends with `reading` at `now`, and its time: the latest that is as old as the
    /// window, or the first of all. Keeps `reading` if it is due. A clock that went back begins a new window.
    pub fn begin(&mut self, reading: &T, now: Timestamp) -> (Timestamp, T) {
        if self.readings.back().is_some_and(|(at, _)| *at > now) {
            self.readings.clear();
        }
        let is_due = |(at, _): &(Timestamp, T)| now.saturating_since(*at) >= LOAD_READING;
        if self.readings.back().is_none_or(is_due) {
            self.readings.push_back((now, reading.clone()));
        }
        let is_whole = |(at, _): &(Timestamp, T)| now.saturating_since(*at) >= LOAD_WINDOW;
        while self.readings.get(1).is_some_and(is_whole) {
            self.readings.pop_front();
        }
        let first = self.readings.front();
        first.map_or_else(|| (now, reading.clone()), Clone::clone)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000).saturating_add(Duration::from_millis(millis))
    }

    /// Goal: the growth is that of the last ten to eleven seconds, of the whole time before, and the readings are bounded. Method: a
    /// counter that grows by one a look, every 250 ms for a minute; then a clock that goes back.
    #[test]
    fn a_window_has_the_growth_of_its_time() {
        let mut window = ReadingWindow::default();
        for look in 0..240_u64 {
            let (began, reading) = window.begin(&look, at(look * 250));
            let covered = at(look * 250).saturating_since(began);
            assert_eq!(look - reading, covered.as_millis() as u64 / 250);
            assert!(covered < LOAD_WINDOW + LOAD_READING, "{covered:?}");
            assert!(look < 40 || covered >= LOAD_WINDOW, "{covered:?}");
            assert!(window.readings.len() <= 11);
        }
        assert_eq!(window.begin(&500, at(0)), (at(0), 500));
    }
}
