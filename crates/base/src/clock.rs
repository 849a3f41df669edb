//! Reads the clock; no other file does, but for that of tokio's timers in `crates/transport/src/timer.rs`.
//!
//! Without a state directory time is the wall clock at the start of the process plus the monotonic time since: windows are
//! aligned to the Unix epoch, yet a step of the wall clock (NTP, an operator) neither refills nor blocks anything while the
//! process lives. With one, time is the directory's [`Clock`], which continues from process to process and from boot to boot;
//! and a new process that took over the counters of the old one continues with the time by which they were counted. Such a clock
//! runs by the time since boot, and approaches a wall clock that was stepped little by little.
//!
//! There is one time for limits, durations and the log, so that none is mistaken for another. The price: while a step of the
//! wall clock is caught up, durations are up to 1/16 off, and the rare leap (see [`Clock`]) appears in those that span it.
//! Timers have a clock of their own, which neither affects.
//!
//! # Concurrency
//! [`now`] goes back, if it does at all, by no more than an eighth of the time between a tick's reading and its publishing, some
//! microseconds; all arithmetic on times saturates.

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use rustix::time::ClockId;
use sluicegate_limiter::{BootId, BootTime, Clock, ClockMark, ClockReading, Timestamp, WallClock};

/// The time of the wall clock minus that of the monotonic clock, modulo 2^64 ns: one reading of both, taken at the first call.
static OFFSET: LazyLock<u64> = LazyLock::new(|| {
    let monotonic = read(ClockId::Monotonic);
    wall().as_nanos().wrapping_sub(monotonic)
});

/// The clock of the state directory or of the old process, once there is one.
static FOLLOWED: OnceLock<ArcSwap<Clock>> = OnceLock::new();

/// The identity of the boot of this machine. Where the system does not report it, every process counts as a boot: the wall clock
/// then determines how long it was down.
static BOOT: LazyLock<BootId> = LazyLock::new(|| {
    let named = std::fs::read("/proc/sys/kernel/random/boot_id");
    let named = named.ok().filter(|name| !name.is_empty());
    BootId::from_bytes(&named.unwrap_or_else(|| {
        let started = wall().as_nanos();
        format!("{} {started}", std::process::id()).into_bytes()
    }))
});

/// Touched by systemd-timesyncd whenever it has synchronized (systemd-timesyncd.service(8), "Files"). Other daemons inform the
/// kernel only, and no safe interface reads that: their clocks count as unconfirmed, which is the careful side.
const SYNCHRONISED: &str = "/run/systemd/timesync/synchronized";
/// The time for which the file confirms the clock: twice the longest pause between two of them (timesyncd.conf(5),
/// `PollIntervalMaxSec`).
const VOUCHED_FOR: Duration = Duration::from_secs(2 * 2048);

/// Returns the time, in nanoseconds since the Unix epoch.
#[must_use]
pub fn now() -> Timestamp {
    match FOLLOWED.get() {
        // One number of nanoseconds: an `Instant` would be subtracted and added in two parts, with checks, several times a request.
        None => Timestamp::from_nanos(read(ClockId::Monotonic).wrapping_add(*OFFSET)),
        // The clock first: a later one would be asked about a time before it begins, an older one never is.
        Some(followed) => {
            let clock = followed.load();
            clock.now(boottime())
        }
    }
}

/// Returns the time as a duration since the Unix epoch, for state machines whose times are durations.
#[must_use]
pub fn now_since_epoch() -> Duration {
    since(Timestamp::default())
}

/// Returns the time from `earlier` to `later`, zero if they are the other way round.
#[must_use]
pub fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    later.saturating_since(earlier)
}

/// Returns the time since `earlier`.
#[must_use]
pub fn since(earlier: Timestamp) -> Duration {
    between(earlier, now())
}

/// Makes `clock` the time of this process.
pub fn follow(clock: Clock) {
    FOLLOWED
        .get_or_init(|| ArcSwap::from_pointee(clock))
        .store(Arc::new(clock));
}

/// Returns the clock that is followed; `None` before the first.
#[must_use]
pub fn followed() -> Option<Clock> {
    FOLLOWED.get().map(|followed| **followed.load())
}

/// Returns the current mark, from which another process can continue.
#[must_use]
pub fn mark() -> ClockMark {
    let reading = reading();
    match followed() {
        Some(clock) => clock.mark(reading),
        None => ClockMark::new(now(), reading),
    }
}

/// Returns the time of the wall clock, right or wrong.
#[must_use]
pub fn wall() -> Timestamp {
    Timestamp::from_nanos(read(ClockId::Realtime))
}

/// Reads the machine's clocks at one moment. Reads the file system: for a tick, not for a request.
#[must_use]
pub fn reading() -> ClockReading {
    let now = SystemTime::now();
    let time = since_epoch(now);
    let touched = std::fs::metadata(SYNCHRONISED).and_then(|file| file.modified());
    ClockReading {
        boot: *BOOT,
        boottime: boottime(),
        wall: match touched {
            Ok(touched) if is_near(now, touched) => WallClock::Synchronized(time),
            _ => WallClock::Unconfirmed(time),
        },
    }
}

/// Returns whether the clock was confirmed at about this time: false if it was set since.
fn is_near(now: SystemTime, vouched: SystemTime) -> bool {
    let apart = match now.duration_since(vouched) {
        Ok(ago) => ago,
        Err(ahead) => ahead.duration(),
    };
    apart <= VOUCHED_FOR
}

fn since_epoch(time: SystemTime) -> Timestamp {
    Timestamp::default().saturating_add(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Returns the time since boot, suspends included.
#[cfg(target_os = "linux")]
fn boottime() -> BootTime {
    BootTime(Duration::from_nanos(read(ClockId::Boottime)))
}

/// Returns the time of the monotonic clock: on other systems every process counts as a boot.
#[cfg(not(target_os = "linux"))]
fn boottime() -> BootTime {
    BootTime(Duration::from_nanos(read(ClockId::Monotonic)))
}

/// Reads a clock that is never negative, in nanoseconds; no system call where the kernel maps it.
fn read(clock: ClockId) -> u64 {
    let read = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(read.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(read.tv_nsec).unwrap_or_default();
    // 584 years fit.
    seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a clock that was set by hand is not confirmed by a synchronization before that. Method: distances both ways.
    #[test]
    fn a_synchronisation_vouches_for_times_near_it_only() {
        let at = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let near = VOUCHED_FOR;
        let far = VOUCHED_FOR + Duration::from_nanos(1);
        assert!(is_near(at, at) && is_near(at + near, at) && is_near(at - near, at));
        assert!(!is_near(at + far, at) && !is_near(at - far, at));
    }

    /// Goal: readings of one boot can be counted from. Method: two of them, and the wall clock beside.
    #[test]
    fn readings_go_on() {
        let (first, second) = (reading(), reading());
        assert_eq!(first.boot, second.boot);
        assert!(first.boottime <= second.boottime && first.boottime.0 > Duration::ZERO);
        let clock = Clock::started(first);
        assert!(clock.now(second.boottime).saturating_since(wall()) < Duration::from_secs(1));
    }
}
