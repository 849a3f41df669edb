//! Finds the day, week or month that a moment lies in, somewhere on earth.
//!
//! A [`CalendarZone`] is data: the offset from UTC before the first transition, and from each transition on. The caller that makes one
//! takes it from a library of time zones. A window begins at the first moment whose local time has reached its first
//! midnight: a midnight that is skipped begins with the first moment after the gap, one that comes twice with its first
//! coming. So days of 23 and 25 hours are windows of 23 and 25 hours, and every moment lies in exactly one window.

use std::fmt;

use crate::time::Timestamp;

use super::fixed_window::WindowGrid;

const DAY: i64 = 24 * 60 * 60;
/// Most transitions of a zone: four a year for a thousand years.
const MOST_TRANSITIONS: usize = 4096;

/// The offsets of a place from UTC.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CalendarZone {
    before: i32,
    /// From which second of the Unix epoch on, how many seconds local time is ahead of UTC; by rising second.
    transitions: Vec<(i64, i32)>,
}

/// The span of a calendar window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// From local midnight to local midnight.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first of a month to the first of the next.
    Month,
}

/// The error of making a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneError {
    /// The offset is a day or more.
    Offset {
        /// Seconds ahead of UTC.
        got: i32,
    },
    /// The transition with this index is not later than the one before it.
    Order {
        /// The index.
        at: usize,
    },
    /// More transitions than 4096.
    TooMany {
        /// The rejected number of transitions.
        got: usize,
    },
}

impl fmt::Display for ZoneError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset { got } => write!(into, "an offset is less than a day, not {got} seconds"),
            Self::Order { at } => write!(into, "transition {at} is not later than the one before"),
            Self::TooMany { got } => {
                write!(
                    into,
                    "a zone has at most {MOST_TRANSITIONS} transitions, not {got}"
                )
            }
        }
    }
}

impl std::error::Error for ZoneError {}

impl CalendarZone {
    /// A zone without transitions, at UTC.
    #[must_use]
    pub const fn utc() -> Self {
        Self {
            before: 0,
            transitions: Vec::new(),
        }
    }

    /// A zone that is `before` seconds ahead of UTC, and from each transition's Unix second on as many as it says.
    ///
    /// # Errors
    /// An offset of a day or more, transitions out of order, or more than 4096 of them.
    pub fn new(
        before: i32,
        transitions: impl IntoIterator<Item = (i64, i32)>,
    ) -> Result<Self, ZoneError> {
        let transitions: Vec<_> = transitions.into_iter().collect();
        if transitions.len() > MOST_TRANSITIONS {
            return Err(ZoneError::TooMany {
                got: transitions.len(),
            });
        }
        let mut offsets =
            std::iter::once(before).chain(transitions.iter().map(|(_, offset)| *offset));
        if let Some(got) = offsets.find(|offset| i64::from(*offset).abs() >= DAY) {
            return Err(ZoneError::Offset { got });
        }
        let unordered = |pair: &[(i64, i32)]| matches!(pair, [one, two] if two.0 <= one.0);
        if let Some(at) = transitions.windows(2).position(unordered) {
            return Err(ZoneError::Order { at: at + 1 });
        }
        Ok(Self {
            before,
            transitions,
        })
    }

    /// The offsets as bytes, the same for the same zone only.
    #[cfg(any(test, feature = "mmap"))]
    pub(super) fn bytes(&self) -> impl Iterator<Item = u8> {
        let transition = |(from, offset): &(i64, i32)| {
            let from = from.to_le_bytes();
            let offset = offset.to_le_bytes();
            from.into_iter().chain(offset)
        };
        let transitions = self.transitions.iter().flat_map(transition);
        self.before.to_le_bytes().into_iter().chain(transitions)
    }

    /// Seconds that local time is ahead of UTC at a Unix second.
    fn offset(&self, second: i64) -> i64 {
        let passed = self
            .transitions
            .partition_point(|(from, _)| *from <= second);
        i64::from(self.offset_after(passed))
    }

    /// The offset when so many transitions have passed.
    fn offset_after(&self, passed: usize) -> i32 {
        match passed.checked_sub(1) {
            Some(last) => self.transitions[last].1,
            None => self.before,
        }
    }

    /// The first Unix second at which local time has reached `local`.
    fn first(&self, local: i64) -> i64 {
        // Local time is less than a day away from UTC: no transition before this one matters.
        let earliest = local.saturating_sub(DAY);
        let mut passed = self
            .transitions
            .partition_point(|(from, _)| *from <= earliest);
        let mut from = earliest;
        // At most once for each transition of two days, and at most as often as there are any.
        loop {
            let reached = from.max(local - i64::from(self.offset_after(passed)));
            match self.transitions.get(passed) {
                Some((until, _)) if reached >= *until => (from, passed) = (*until, passed + 1),
                _ => return reached,
            }
        }
    }

    /// The window of `unit` that a moment lies in.
    pub(crate) fn window(&self, unit: CalendarUnit, now: Timestamp) -> WindowGrid {
        // Below 2^35.
        let now = now.as_secs() as i64;
        let mut ordinal = unit.ordinal((now + self.offset(now)).div_euclid(DAY));
        // Local time may have gone back over a midnight: then the window that began first goes on. At most one step.
        if self.first(unit.first_day(ordinal + 1) * DAY) <= now {
            ordinal += 1;
        }
        if self.first(unit.first_day(ordinal) * DAY) > now {
            ordinal -= 1;
        }
        let start = self.first(unit.first_day(ordinal) * DAY);
        let end = self.first(unit.first_day(ordinal + 1) * DAY);
        WindowGrid::Span {
            start,
            // 33 days at most.
            length: (end - start).clamp(1, 33 * DAY) as u32,
        }
    }
}

impl CalendarUnit {
    /// The period that a rate of such windows has, in seconds: a month counts as its longest, 31 days.
    #[must_use]
    pub const fn secs(self) -> u32 {
        match self {
            Self::Day => DAY as u32,
            Self::Week => 7 * DAY as u32,
            Self::Month => 31 * DAY as u32,
        }
    }

    /// The number of the unit that a day since the epoch lies in.
    fn ordinal(self, day: i64) -> i64 {
        match self {
            Self::Day => day,
            // 1970-01-01 was a Thursday, three days after a Monday.
            Self::Week => (day + 3).div_euclid(7),
            Self::Month => month_of(day),
        }
    }

    /// The first day since the epoch of the unit with this number.
    fn first_day(self, ordinal: i64) -> i64 {
        match self {
            Self::Day => ordinal,
            Self::Week => ordinal * 7 - 3,
            Self::Month => first_of(ordinal),
        }
    }
}

/// Days from 1970-01-01 to the first of a month, counted from January 1970; proleptic Gregorian.
fn first_of(month: i64) -> i64 {
    // Years from March on, so that the leap day comes last: the months' lengths then follow (153 m + 2) / 5.
    let months = month + 1970 * 12 - 2;
    let year = months.div_euclid(12);
    let month = months.rem_euclid(12);
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leaps + (153 * month + 2) / 5 - 719_468
}

/// The month, counted from January 1970, that a day since 1970-01-01 lies in.
fn month_of(day: i64) -> i64 {
    // A month has 30.436875 days on average and never begins more than two days off: one step mends the guess.
    let guess = (day * 10_000).div_euclid(304_369);
    if first_of(guess) > day {
        guess - 1
    } else if first_of(guess + 1) <= day {
        guess + 1
    } else {
        guess
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(zone: &CalendarZone, unit: CalendarUnit, second: i64) -> (i64, i64) {
        match zone.window(unit, Timestamp::from_secs(second as u64)) {
            WindowGrid::Span { start, length } => (start, i64::from(length)),
            other => unreachable!("a calendar has spans, not {other:?}"),
        }
    }

    /// Berlin around the transitions of 2026: 29 March 01:00 UTC and 25 October 01:00 UTC.
    fn berlin() -> CalendarZone {
        CalendarZone::new(3600, [(1_774_746_000, 7200), (1_792_890_000, 3600)]).expect("a zone")
    }

    /// Goal: daylight saving. Method: the two odd days of a year, from a moment inside each.
    #[test]
    fn days_of_23_and_25_hours_are_windows_of_their_own() {
        let (start, length) = span(&berlin(), CalendarUnit::Day, 1_774_746_000);
        assert_eq!((start, length), (1_774_738_800, 23 * 3600));
        let (start, length) = span(&berlin(), CalendarUnit::Day, 1_792_890_000);
        assert_eq!((start, length), (1_792_879_200, 25 * 3600));
    }

    /// Goal: midnights that are skipped or come twice. Method: a zone that jumps over midnight and back over another;
    /// every second around is in one window, and windows touch.
    #[test]
    fn every_moment_lies_in_exactly_one_window() {
        const STEP: usize = if cfg!(miri) { 3_600 } else { 60 };
        let zone =
            CalendarZone::new(0, [(10 * DAY - 1800, 3600), (20 * DAY - 1800, 0)]).expect("a zone");
        assert_eq!(
            span(&zone, CalendarUnit::Day, 10 * DAY).0,
            10 * DAY - 1800,
            "the gap ends there"
        );
        for around in [10 * DAY, 20 * DAY] {
            let mut last = span(&zone, CalendarUnit::Day, around - 2 * DAY);
            for second in (around - 2 * DAY..around + 2 * DAY).step_by(STEP) {
                let here = span(&zone, CalendarUnit::Day, second);
                assert!(here.0 <= second && second < here.0 + here.1);
                assert!(here == last || here.0 == last.0 + last.1);
                last = here;
            }
        }
    }

    /// Goal: the calendar. Method: months against their known lengths over 800 years, a Monday.
    #[test]
    fn months_and_weeks_are_those_of_the_calendar() {
        let mut day = 0;
        for year in 1970..if cfg!(miri) { 1980 } else { 2500 } {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let days = [
                31,
                28 + i64::from(leap),
                31,
                30,
                31,
                30,
                31,
                31,
                30,
                31,
                30,
                31,
            ];
            for (month, days) in days.into_iter().enumerate() {
                let ordinal = (year - 1970) * 12 + month as i64;
                assert_eq!(first_of(ordinal), day);
                assert_eq!(
                    (month_of(day), month_of(day + days - 1)),
                    (ordinal, ordinal)
                );
                day += days;
            }
        }
        // 2026-11-21 was a Saturday; its Monday was the 16th.
        let (start, length) = span(&CalendarZone::utc(), CalendarUnit::Week, 1_795_219_200);
        assert_eq!((start, length), (1_795_219_200 - 5 * DAY, 7 * DAY));
    }

    /// Goal: no zone that cannot be. Method: each error.
    #[test]
    fn zones_that_cannot_be_are_refused() {
        assert_eq!(
            CalendarZone::new(86_400, []),
            Err(ZoneError::Offset { got: 86_400 })
        );
        assert_eq!(
            CalendarZone::new(0, [(5, 0), (5, 1)]),
            Err(ZoneError::Order { at: 1 })
        );
        assert!(CalendarZone::new(0, (0..5000).map(|at| (at, 0))).is_err());
    }
}
