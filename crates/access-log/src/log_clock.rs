//! Follows the time of one log, and finds lines whose time is far from that of the lines around them.
//!
//! A server writes a line when a request ends, so the times of writing hardly go back, and one line with a broken time must not move the
//! time of its log: all lines behind it would come too late to be sorted, and other logs would be read to their end first. So a line
//! further ahead than the reorder window waits, and moves the time only once more lines are ahead with it than fall back. A pause in the
//! log is confirmed so by the lines behind it. A line that is contradicted stays at its time if that is near, and is left out if it is far.
//!
//! # Limits
//! At most [`CONFIRMING_LINES`] lines of a log wait.

use crate::reorder::{BufferedLine, REORDER_WINDOW};
use crate::time::SECOND;

/// Lines that confirm or contradict a time: more than a burst of broken ones has, and few enough to be read ahead in every log.
pub(crate) const CONFIRMING_LINES: usize = 16;

/// The distance, in nanoseconds, from which a line is left out if lines on both sides contradict it: an hour, since clocks of servers that
/// write one log may differ by less.
const FAR: u64 = 3_600 * SECOND;

/// The distance, in nanoseconds, from which the last lines of a log are left out, and the first, which have lines on one side only: a
/// year, since any shorter pause may be one.
const FAR_AT_AN_END: u64 = 365 * 86_400 * SECOND;

/// The times of a line, in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineTimes {
    /// The begin of the request.
    pub(crate) begun: u64,
    /// The end of the request, at which the line was written.
    pub(crate) written: u64,
}

/// A line that waits to be confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitingLine {
    pub(crate) times: LineTimes,
    /// Its request in the buffer.
    pub(crate) request: BufferedLine,
    /// The number of the line, from 1.
    pub(crate) number: u64,
    /// Its first bytes, if it is so far ahead that it may be left out.
    pub(crate) text: Option<String>,
}

/// Lines that wait no longer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SettledLines {
    /// Lines whose times are those of the log.
    pub(crate) confirmed: Vec<WaitingLine>,
    /// Lines that are far from the times of the log.
    pub(crate) misdated: Vec<WaitingLine>,
}

/// The time of one log.
#[derive(Debug, Default)]
pub(crate) struct LogClock {
    /// The latest times that are confirmed; zero before the first.
    reached: LineTimes,
    waiting: Vec<WaitingLine>,
    /// Lines behind the first of those that wait which are not ahead.
    contradicting: usize,
}

impl LogClock {
    /// Returns the latest begin of a request whose time is confirmed.
    pub(crate) fn begun(&self) -> u64 {
        self.reached.begun
    }

    /// Returns whether a line needs no confirmation, as nearly all do not.
    #[inline]
    pub(crate) fn is_near(&self, times: LineTimes) -> bool {
        times.written <= self.reached.written.saturating_add(window())
    }

    /// Returns whether a line may be left out.
    pub(crate) fn is_far(&self, times: LineTimes) -> bool {
        times.written > self.reached.written.saturating_add(FAR)
    }

    /// Adds a line that [`is_near`](Self::is_near), and returns the lines that wait no longer; `None` where none waited, as nearly always.
    #[inline]
    pub(crate) fn add_near(&mut self, times: LineTimes) -> Option<SettledLines> {
        self.reach(times);
        match self.waiting.is_empty() {
            true => None,
            false => Some(self.contradict()),
        }
    }

    /// Adds a line that is further ahead, and returns the lines that wait no longer.
    pub(crate) fn add_ahead(&mut self, line: WaitingLine) -> SettledLines {
        self.waiting.push(line);
        match self.waiting.len() < CONFIRMING_LINES {
            true => SettledLines::default(),
            false => self.confirm(),
        }
    }

    /// Returns the lines that still wait at the end of the log.
    pub(crate) fn finish(&mut self) -> SettledLines {
        let waiting = std::mem::take(&mut self.waiting);
        let (from, distance) = match self.reached.written {
            0 => (median(&waiting), FAR_AT_AN_END),
            reached if self.contradicting >= waiting.len() => (reached, FAR),
            reached => (reached, FAR_AT_AN_END),
        };
        split(waiting, |line| line.times.written.abs_diff(from) > distance)
    }

    fn reach(&mut self, times: LineTimes) {
        self.reached.begun = self.reached.begun.max(times.begun);
        self.reached.written = self.reached.written.max(times.written);
    }

    /// Counts a line that is not ahead against those that wait.
    fn contradict(&mut self) -> SettledLines {
        let mut settled = self.take_near();
        self.contradicting += 1;
        if self.waiting.is_empty() {
            self.contradicting = 0;
        } else if self.contradicting >= CONFIRMING_LINES {
            self.contradicting = 0;
            let waiting = std::mem::take(&mut self.waiting);
            settled.misdated = waiting;
            settled.misdated.retain(|line| self.is_far(line.times));
        }
        settled
    }

    /// Moves the time of the log to that of most lines that wait.
    fn confirm(&mut self) -> SettledLines {
        self.contradicting = 0;
        let median = median(&self.waiting);
        let is_first = self.reached.written == 0;
        let waiting = std::mem::take(&mut self.waiting);
        let (reached, ahead) = waiting
            .into_iter()
            .partition(|line: &WaitingLine| line.times.written <= median);
        let mut settled = split(reached, |line| {
            is_first && median - line.times.written > FAR_AT_AN_END
        });
        for line in &settled.confirmed {
            self.reach(line.times);
        }
        self.waiting = ahead;
        settled.confirmed.extend(self.take_near().confirmed);
        settled
    }

    /// Takes the lines that the time of the log has reached.
    fn take_near(&mut self) -> SettledLines {
        let mut settled = SettledLines::default();
        while let Some(at) = (self.waiting.iter()).position(|line| self.is_near(line.times)) {
            let line = self.waiting.remove(at);
            self.reach(line.times);
            settled.confirmed.push(line);
        }
        settled
    }
}

/// Returns the time from which a log begins, by the begins of the requests of its first lines; `None` without one.
pub(crate) fn begin_of(begins: &[u64]) -> Option<u64> {
    let mut first: Vec<u64> = begins.iter().copied().take(CONFIRMING_LINES).collect();
    first.sort_unstable();
    let median = first.get(first.len().checked_sub(1)? / 2)?;
    let near = first.iter().find(|time| median - **time <= FAR_AT_AN_END);
    near.copied()
}

/// Returns the time of the line in the middle, the earlier of two.
fn median(lines: &[WaitingLine]) -> u64 {
    let mut written: Vec<u64> = lines.iter().map(|line| line.times.written).collect();
    written.sort_unstable();
    let middle = written.len().saturating_sub(1) / 2;
    written.get(middle).copied().unwrap_or(0)
}

fn split(lines: Vec<WaitingLine>, is_misdated: impl FnMut(&WaitingLine) -> bool) -> SettledLines {
    let (misdated, confirmed) = lines.into_iter().partition(is_misdated);
    SettledLines {
        confirmed,
        misdated,
    }
}

/// Returns the reorder window in nanoseconds.
fn window() -> u64 {
    u64::try_from(REORDER_WINDOW.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_245_000;
    const DAY: u64 = 86_400;
    /// The year 2099, and the time at which a clock without a battery begins.
    const FUTURE: u64 = 4_070_908_800;
    const PAST: u64 = 300;

    /// Adds a line for each second, and returns the numbers of those that are left out and the second that is reached before the end.
    fn follow(seconds: &[u64]) -> (Vec<u64>, u64) {
        let mut clock = LogClock::default();
        let mut misdated = Vec::new();
        for (second, number) in seconds.iter().zip(1..) {
            let time = second * SECOND;
            let times = LineTimes {
                begun: time,
                written: time,
            };
            let settled = match clock.is_near(times) {
                true => clock.add_near(times).unwrap_or_default(),
                false => clock.add_ahead(WaitingLine {
                    times,
                    request: BufferedLine::default(),
                    number,
                    text: None,
                }),
            };
            assert!(clock.waiting.len() < CONFIRMING_LINES);
            misdated.extend(settled.misdated);
        }
        let reached = clock.begun() / SECOND;
        misdated.extend(clock.finish().misdated);
        (misdated.iter().map(|line| line.number).collect(), reached)
    }

    /// A second for each of so many lines, from `begin` on.
    fn seconds(begin: u64, lines: u64) -> Vec<u64> {
        (begin..begin + lines).collect()
    }

    /// Goal: a line with a broken time is left out wherever it is, and moves no other. Method: a time far ahead, and one far back, as the
    /// first line, the second, in the middle, and the last of a long log and a short one.
    #[test]
    fn one_line_of_another_time_is_left_out() {
        for lines in [5, 100] {
            for at in [0, 1, lines as usize / 2, lines as usize] {
                let mut log = seconds(NOW, lines);
                log.insert(at, FUTURE);
                let (misdated, reached) = follow(&log);
                assert_eq!(misdated, [at as u64 + 1], "{lines} lines, at {at}");
                assert!(lines < 16 || reached == NOW + lines - 1);
            }
            let mut log = seconds(NOW, lines);
            log.insert(0, PAST);
            assert_eq!(follow(&log).0, [1]);
        }
    }

    /// Goal: some broken lines in a row are left out like one, and a line of next month like one of the next century. Method: runs of both
    /// that are shorter than what confirms a time.
    #[test]
    fn a_short_run_of_other_times_is_left_out() {
        for far in [FUTURE, NOW + 30 * DAY, NOW + 7_200] {
            let log = [seconds(NOW, 50), seconds(far, 15), seconds(NOW + 50, 50)];
            let (misdated, reached) = follow(&log.concat());
            assert_eq!(misdated, (51..66).collect::<Vec<u64>>(), "{far}");
            assert_eq!(reached, NOW + 99);
        }
    }

    /// Goal: a pause is none of that, however long. Method: lines that go on after a day and after a year, lines a day apart, a last line
    /// after a month, and requests of before the pause that end behind it.
    #[test]
    fn a_pause_is_believed() {
        for pause in [DAY, 400 * DAY] {
            let log = [seconds(NOW, 50), seconds(NOW + pause, 50)].concat();
            assert_eq!(follow(&log), (Vec::new(), NOW + pause + 49));
        }
        let apart: Vec<u64> = (0..100).map(|day| NOW + day * DAY).collect();
        let (misdated, reached) = follow(&apart);
        assert_eq!(misdated, Vec::<u64>::new());
        assert!(reached >= NOW + (100 - CONFIRMING_LINES as u64) * DAY);
        let last = [seconds(NOW, 50), vec![NOW + 30 * DAY]].concat();
        assert_eq!(follow(&last).0, Vec::<u64>::new());
        let mut slow = [seconds(NOW, 50), seconds(NOW + DAY, 50)].concat();
        for at in [51, 54, 57] {
            slow.insert(at, NOW + 10);
        }
        assert_eq!(follow(&slow), (Vec::new(), NOW + DAY + 49));
    }

    /// Goal: a server whose clock is minutes ahead of the others in one log loses no line and makes none of theirs late. Method: each
    /// fourth line half an hour ahead.
    #[test]
    fn a_clock_that_is_a_little_ahead_does_not_move_the_log() {
        let log: Vec<u64> = (0..400)
            .map(|line| NOW + line + if line % 4 == 3 { 1_800 } else { 0 })
            .collect();
        let (misdated, reached) = follow(&log);
        assert_eq!(misdated, Vec::<u64>::new());
        assert_eq!(reached, NOW + 398);
    }

    /// Goal: a log begins where most of its first lines are. Method: first lines with a broken one ahead, one back, out of order, and none.
    #[test]
    fn the_begin_is_that_of_most_first_lines() {
        for broken in [FUTURE * SECOND, PAST * SECOND] {
            let begins = [broken, (NOW + 1) * SECOND, NOW * SECOND, (NOW + 2) * SECOND];
            assert_eq!(begin_of(&begins), Some(NOW * SECOND));
        }
        assert_eq!(begin_of(&[7]), Some(7));
        assert_eq!(begin_of(&[]), None);
    }
}
