//! Says what time it is for the limiter, across steps of the wall clock, suspends, restarts and reboots.
//!
//! Counters live as long as their windows, so a clock that leaps ahead opens every limit and one that goes back keeps
//! everybody waiting. The wall clock does both. So limiter time *runs* by the time since boot, which no one sets, and
//! the wall clock only says where it should be: small differences are caught up slowly, large ones are believed only
//! when there is a reason to. All of it is arithmetic on readings that the caller took; nothing here reads a clock.
//!
//! # Invariants
//! 1. *Never back.* Along one clock, and from a [`ClockMark`] to the clock that continues it, limiter time never decreases.
//! 2. *No faster than 17/16.* Between two leaps it runs at 15/16 to 17/16 of real time ([`CATCH_UP`]), so no window is
//!    shorter or longer than it says by more than that. (For comparison, chrony slews the system's clock by up to 1/12.)
//! 3. *Leaps are ahead only, and each has its reason*: a reboot that took at most [`LONGEST_AWAY`]; a wall clock that
//!    the system calls synchronized; or a limiter time that cannot be, before [`EARLIEST`].
//!
//! # Cases
//! | what happens | limiter time | effect on limits |
//! |---|---|---|
//! | the wall clock is stepped by up to a day | goes on, catches up within 16 times the step | windows up to 1/16 off |
//! | … back by more than a day | goes on | none; [`ClockDrift`] says so until the wall clock is right again |
//! | … ahead by more than a day, unconfirmed | goes on | none; [`ClockDrift`] |
//! | … ahead by more than a day, and synchronized | leaps to it | what the leap outlasts is past: it opens, once |
//! | suspend, resume | time since boot includes it | windows that passed meanwhile have passed |
//! | restart, upgrade, `kill -9` | time since boot tells how long it took, exactly | none; leaps of the wall clock as above |
//! | reboot, right clock, away up to 62 days | the wall clock | windows that passed meanwhile have passed |
//! | reboot, right and synchronized, away longer | the wall clock | every window has passed |
//! | reboot, clock before the mark, 1970 say | goes on from the mark | the time away has not passed: keys that were refused still are |
//! | reboot, clock in 2099 | goes on from the mark, since nothing confirms it | as in the line above; [`ClockDrift`] |
//! | first start with a clock at 1970, set right later | leaps: no limiter ran before [`EARLIEST`] | what was counted since opens, once |
//! | a virtual machine resumes a snapshot | goes on, then as for a wall clock stepped ahead | counts are those of the snapshot |
//! | … with a mark on disk that is newer than its time since boot | goes on from the mark | none |
//!
//! What is left: a reboot with a clock that is wrong by less than 62 days, and a source of synchronized time that lies.
//! Nothing on the machine contradicts them. They open, once, what their error outlasts, and they block no key.

use std::time::Duration;

use crate::time::Timestamp;

use super::record::{FileRecord, UntrustedFile, digest};

/// The part of real time by which limiter time may be faster or slower to meet the wall clock: 1/16.
const CATCH_UP: u64 = 16;
/// Largest difference in nanoseconds that is caught up rather than leapt over or left: a day takes 16 days.
const NEAR: u64 = 24 * 60 * 60 * 1_000_000_000;
/// Longest time between two boots that an unconfirmed wall clock is believed: twice the longest period. By then every
/// count is past anyway, so believing more would gain nothing.
const LONGEST_AWAY: Duration = Duration::from_secs(2 * crate::rate::MAX_PERIOD as u64);
/// No limiter ran before 2025: a limiter time before it comes from a clock that was never set.
const EARLIEST: Timestamp = Timestamp::from_secs(1_735_689_600);

/// Bytes of a mark in a file.
pub(super) const MARK_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"sluiceCK";

/// Time since the machine was booted, suspends included (Linux: `CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(pub Duration);

/// Tells one boot of a machine from the next (Linux: `/proc/sys/kernel/random/boot_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootId(u64);

impl BootId {
    /// The boot that these bytes name.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let [id, _] = digest(&[b"boot", bytes]);
        Self(id)
    }
}

/// A reading of the wall clock, and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WallClock {
    /// The system says that something outside keeps the clock right (Linux: `adjtimex` without `STA_UNSYNC`).
    Synchronized(Timestamp),
    /// No outside source confirms it.
    Unconfirmed(Timestamp),
}

impl WallClock {
    const fn time(self) -> Timestamp {
        match self {
            Self::Synchronized(time) | Self::Unconfirmed(time) => time,
        }
    }
}

/// The machine's clocks, read at one moment by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The current boot.
    pub boot: BootId,
    /// Time since that boot.
    pub boottime: BootTime,
    /// The wall clock.
    pub wall: WallClock,
}

/// Limiter time at a moment of a boot: what is kept, so that a later process can go on from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockMark {
    boot: BootId,
    boottime: BootTime,
    time: Timestamp,
}

/// The distance between limiter time and the wall clock; differences of up to a day are caught up and not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockDrift {
    /// Within a day.
    Near,
    /// The limiter is ahead by so much: the wall clock is wrong now, or was when the limiter believed it.
    Ahead(Duration),
    /// The limiter is behind by so much: the wall clock leapt, and nothing confirms it.
    Behind(Duration),
}

/// The correction that is still to be caught up, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockCorrection {
    Ahead(u64),
    Back(u64),
}

/// Limiter time as a function of the time since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    since: BootTime,
    at: Timestamp,
    owed: ClockCorrection,
}

impl Clock {
    /// The clock of a limiter that has nothing to go on from.
    #[must_use]
    pub fn started(reading: ClockReading) -> Self {
        Self::from(reading.wall.time(), reading)
    }

    /// The clock that goes on from what an earlier process kept.
    #[must_use]
    pub fn continued(mark: ClockMark, reading: ClockReading) -> Self {
        let wall = reading.wall.time();
        let time = if mark.boot == reading.boot {
            // Saturating: a snapshot may have put the time since boot back, which nobody can count from.
            mark.time
                .saturating_add(reading.boottime.0.saturating_sub(mark.boottime.0))
        } else if wall.saturating_since(mark.time) <= LONGEST_AWAY {
            // Invariant 1: a wall clock behind the mark is not believed at all.
            wall.max(mark.time)
        } else {
            mark.time
        };
        Self::from(time, reading)
    }

    /// Limiter time when `boottime` has passed since boot.
    #[must_use]
    #[inline]
    pub fn now(&self, boottime: BootTime) -> Timestamp {
        let passed = boottime.0.saturating_sub(self.since.0);
        let most = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX) / CATCH_UP;
        let now = self.at.saturating_add(passed);
        match self.owed {
            ClockCorrection::Ahead(owed) => {
                now.saturating_add(Duration::from_nanos(owed.min(most)))
            }
            // Never back: one nanosecond of correction takes sixteen of time.
            ClockCorrection::Back(owed) => now.saturating_sub(Duration::from_nanos(owed.min(most))),
        }
    }

    /// The clock that goes on from this one on the same boot, with a new look at the wall clock. Once a second or a
    /// minute is often enough.
    #[must_use]
    pub fn retuned(&self, reading: ClockReading) -> Self {
        Self::from(self.now(reading.boottime), reading)
    }

    /// The mark to keep for the next process.
    #[must_use]
    pub fn mark(&self, reading: ClockReading) -> ClockMark {
        ClockMark {
            boot: reading.boot,
            boottime: reading.boottime,
            time: self.now(reading.boottime),
        }
    }

    /// The distance between limiter time and the wall clock.
    #[must_use]
    pub fn drift(&self, reading: ClockReading) -> ClockDrift {
        let now = self.now(reading.boottime);
        let wall = reading.wall.time();
        let ahead = now.saturating_since(wall);
        let behind = wall.saturating_since(now);
        if ahead.max(behind) <= Duration::from_nanos(NEAR) {
            ClockDrift::Near
        } else if now > wall {
            ClockDrift::Ahead(ahead)
        } else {
            ClockDrift::Behind(behind)
        }
    }

    /// The clock that is at `time` at `reading`, unless there is a reason to leap (invariant 3).
    fn from(time: Timestamp, reading: ClockReading) -> Self {
        let wall = reading.wall.time();
        let ahead = wall.as_nanos().saturating_sub(time.as_nanos());
        let back = time.as_nanos().saturating_sub(wall.as_nanos());
        let confirmed = match reading.wall {
            WallClock::Synchronized(_) => true,
            WallClock::Unconfirmed(_) => time < EARLIEST && wall >= EARLIEST,
        };
        let (at, owed) = match (ahead, back) {
            (far, _) if far > NEAR && confirmed => (wall, ClockCorrection::Ahead(0)),
            (far, _) if far > NEAR => (time, ClockCorrection::Ahead(0)),
            (_, far) if far > NEAR => (time, ClockCorrection::Ahead(0)),
            (ahead, 0) => (time, ClockCorrection::Ahead(ahead)),
            (_, back) => (time, ClockCorrection::Back(back)),
        };
        Self {
            since: reading.boottime,
            at,
            owed,
        }
    }
}

impl ClockMark {
    /// Bytes of a mark that is told to another process.
    pub const BYTES: usize = MARK_BYTES;

    /// Limiter time at a reading, of a process that goes by another clock than [`Clock`].
    #[must_use]
    pub fn new(time: Timestamp, reading: ClockReading) -> Self {
        Self {
            boot: reading.boot,
            boottime: reading.boottime,
            time,
        }
    }

    /// Writes the bytes that [`from_bytes`](Self::from_bytes) reads.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        *self.sealed().bytes()
    }

    /// The mark that another process told.
    ///
    /// # Errors
    /// When it is not whole.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, UntrustedFile> {
        Self::opened(bytes)
    }

    pub(super) fn time(&self) -> Timestamp {
        self.time
    }

    pub(super) fn sealed(&self) -> FileRecord<MARK_BYTES> {
        let boottime = u64::try_from(self.boottime.0.as_nanos()).unwrap_or(u64::MAX);
        FileRecord::sealed(MAGIC, &[self.boot.0, boottime, self.time.as_nanos()])
    }

    pub(super) fn opened(bytes: &[u8]) -> Result<Self, UntrustedFile> {
        let [boot, boottime, time] = FileRecord::<MARK_BYTES>::opened(bytes, MAGIC)?.fields();
        Ok(Self {
            boot: BootId(boot),
            boottime: BootTime(Duration::from_nanos(boottime)),
            time: Timestamp::from_nanos(time),
        })
    }
}

#[cfg(test)]
mod tests;
