//! Enforces the minimum rate at which a client must send a body.
//!
//! A timeout for each read bounds silence, not slowness: a byte every minute would hold a request, its permits and a connection
//! to the origin forever. So the remaining time is a bucket. It holds at most one read timeout; time empties it, and every byte
//! adds the time that it takes at the minimum rate. A client whose average rate is above the minimum gets the full read timeout;
//! one below it is answered with 408.
//!
//! Time during which the origin does not read is counted too, and does no harm: the bytes that the client sent meanwhile are in
//! the kernel's buffers, arrive in one large piece, and refill the bucket.

use std::time::Duration;

use sluicegate_base::clock;
use sluicegate_limiter::Timestamp;

/// The remaining time of one body.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UploadPace {
    /// The time that is left, and the arrival of the last piece; `None` before the first. Without a minimum rate it stays full.
    left: Option<(Duration, Timestamp)>,
}

/// The minimum body rate and the read timeout of a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinBodyRate {
    /// Maximum duration of one read.
    pub(super) read: Duration,
    /// Bytes per second; 0 for no minimum.
    pub(super) rate: u64,
}

impl UploadPace {
    /// Records a piece of `bytes` at `now`. Returns the timeout of the next read; `None` when the client is too slow.
    pub(super) fn refill(
        &mut self,
        bytes: usize,
        now: Timestamp,
        asked: MinBodyRate,
    ) -> Option<Duration> {
        let left = match self.left {
            Some((left, since)) if asked.rate > 0 => {
                let filled = left.saturating_add(worth(bytes, asked.rate));
                filled
                    .checked_sub(clock::between(since, now))?
                    .min(asked.read)
            }
            _ => asked.read,
        };
        self.left = Some((left, now));
        (!left.is_zero()).then_some(left)
    }

    /// Returns the time of the last piece; `None` before the first.
    pub(super) fn heard_at(&self) -> Option<Timestamp> {
        self.left.map(|(_, at)| at)
    }
}

/// Returns how long `bytes` take at `rate`, which is not 0.
pub fn worth(bytes: usize, rate: u64) -> Duration {
    let nanos = (bytes as u64).saturating_mul(1_000_000_000) / rate;
    Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: MinBodyRate = MinBodyRate {
        read: Duration::from_secs(60),
        rate: 240,
    };

    /// Returns for how many seconds, up to an hour, a client passes that sends `bytes` every `every` seconds.
    fn endured(bytes: usize, every: u64, asked: MinBodyRate) -> u64 {
        let mut pace = UploadPace::default();
        for at in (0..3600).step_by(every as usize) {
            let now = Timestamp::from_nanos(at * 1_000_000_000);
            match pace.refill(bytes, now, asked) {
                Some(patience) if patience >= Duration::from_secs(every) => {}
                Some(_) | None => return at,
            }
        }
        3600
    }

    /// Goal: a client below the minimum rate is cut off after about one timeout, one above it never. Method: a byte every few
    /// seconds, the minimum rate in bursts with gaps, and a little less than it.
    #[test]
    fn a_drip_is_cut_off_and_the_least_rate_is_not() {
        assert!(endured(1, 1, ASKED) <= 61);
        assert!(endured(1, 50, ASKED) <= 60);
        assert_eq!(endured(240, 1, ASKED), 3600);
        assert_eq!(endured(240 * 50, 50, ASKED), 3600);
        assert!(endured(200, 1, ASKED) < 400);
    }

    /// Goal: a fast start buys no more than one timeout. Method: a gigabyte, then a byte a second.
    #[test]
    fn a_burst_is_no_credit_for_ever() {
        let mut pace = UploadPace::default();
        let second = |at: u64| Timestamp::from_nanos(at * 1_000_000_000);
        assert_eq!(pace.refill(1 << 30, second(0), ASKED), Some(ASKED.read));
        assert_eq!(pace.refill(1 << 30, second(1), ASKED), Some(ASKED.read));
        let cut = (2..200).find(|&at| pace.refill(1, second(at), ASKED).is_none());
        assert!(cut.is_some_and(|at| at <= 62), "{cut:?}");
    }

    /// Goal: a client does not fail because its origin reads slowly. Method: pieces of 64 KiB, each after four minutes.
    #[test]
    fn a_slow_origin_is_not_held_against_the_client() {
        let mut pace = UploadPace::default();
        for at in 0..20 {
            let now = Timestamp::from_nanos(at * 240_000_000_000);
            assert!(pace.refill(64 * 1024, now, ASKED).is_some());
        }
    }

    /// Goal: a rate of 0 sets no minimum. Method: a byte an hour.
    #[test]
    fn no_minimum_rate_cuts_nothing() {
        let none = MinBodyRate { rate: 0, ..ASKED };
        assert_eq!(endured(1, 50, none), 3600);
    }
}
