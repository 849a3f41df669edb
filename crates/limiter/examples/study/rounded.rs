//! The two counters of a sliding window with the previous window's share rounded one way or another, as plainly as possible.

use std::collections::HashMap;
use std::time::Duration;

use sluicegate_limiter::{Rate, Timestamp};

const NANOS_PER_MILLI: u64 = 1_000_000;

/// What becomes of the fraction in `previous · (P − e) / P`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// It counts as a unit. The same as no rounding: `used + cost ≤ count` over the fractions, since all else is whole.
    Up,
    /// It counts as a unit from a half on.
    Nearest,
    /// It counts as nothing: what the crate does. The same as asking whether the count was reached before this request,
    /// `used < count`.
    Down,
}

/// One client's counters.
#[derive(Clone, Copy, Debug, Default)]
struct Windows {
    /// Index of the window that `current` counts.
    index: u64,
    previous: u64,
    current: u64,
}

/// All clients under one rate.
#[derive(Debug)]
pub(crate) struct Rounded {
    rounding: Rounding,
    count: u64,
    /// In milliseconds.
    period: u64,
    clients: HashMap<u32, Windows>,
}

impl Rounded {
    pub(crate) fn new(rate: Rate, rounding: Rounding) -> Self {
        Self {
            rounding,
            count: u64::from(rate.count()),
            period: 1_000 * u64::from(rate.period().as_secs()),
            clients: HashMap::new(),
        }
    }

    /// Takes one unit, if it fits.
    pub(crate) fn admits(&mut self, client: u32, at: Timestamp) -> bool {
        let millis = at.as_nanos() / NANOS_PER_MILLI;
        let mut windows = self.seen(client, millis);
        let fits = self.fits(&windows, millis);
        windows.current += u64::from(fits);
        self.clients.insert(client, windows);
        fits
    }

    /// How long until a unit fits, if nothing else comes.
    pub(crate) fn wait(&self, client: u32, at: Timestamp) -> Duration {
        let now = at.as_nanos() / NANOS_PER_MILLI;
        let fits = |after: u64| self.fits(&self.seen(client, now + after), now + after);
        // Room only grows while nobody asks, and two periods on nothing is left: by halving.
        let (mut no, mut yes) = (0, 2 * self.period);
        while yes - no > 1 {
            let middle = no + (yes - no) / 2;
            if fits(middle) {
                yes = middle;
            } else {
                no = middle;
            }
        }
        Duration::from_millis(yes)
    }

    fn seen(&self, client: u32, millis: u64) -> Windows {
        let index = millis / self.period;
        let windows = self.clients.get(&client).copied().unwrap_or_default();
        let previous = match index - windows.index {
            0 => return windows,
            1 => windows.current,
            _ => 0,
        };
        Windows {
            index,
            previous,
            current: 0,
        }
    }

    fn fits(&self, windows: &Windows, millis: u64) -> bool {
        let period = self.period;
        let share = windows.previous * (period - millis % period);
        let previous = match self.rounding {
            Rounding::Up => share.div_ceil(period),
            Rounding::Nearest => (2 * share + period) / (2 * period),
            Rounding::Down => share / period,
        };
        previous + windows.current < self.count
    }
}
