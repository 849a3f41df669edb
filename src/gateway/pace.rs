//! Decides how long a client that is sending a body is still waited for.
//!
//! A timeout for each read bounds silence, not slowness: a byte every minute would hold a request, its permits and a connection to the
//! origin for ever. So patience is a bucket. It holds as much as one read may wait; time empties it, and every byte fills in what it
//! takes at the least rate that is asked for. A client that stays above that rate on average is waited for as before; one below is
//! answered with 408.
//!
//! Time that the origin lets the client wait is counted too, and does no harm: what the client sent meanwhile lies in the kernel's
//! buffers, comes in one large piece, and pays for it.

use std::time::Duration;

use sluicegate_limiter::Timestamp;

use crate::clock;

/// The patience with one body.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// What is left, and since when the last piece is there; `None` before the first. Where nothing is asked, all is left.
    left: Option<(Duration, Timestamp)>,
}

/// What is asked of a client that sends a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// How long one read may wait.
    pub(super) read: Duration,
    /// Bytes a second; 0 asks for none.
    pub(super) rate: u64,
}

impl Pace {
    /// A piece of `bytes` came at `now`. How long the next may take; `None` when the client is too slow.
    pub(super) fn went_on(
        &mut self,
        bytes: usize,
        now: Timestamp,
        asked: Asked,
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

    /// When the last piece came; `None` before the first.
    pub(super) fn heard_at(&self) -> Option<Timestamp> {
        self.left.map(|(_, at)| at)
    }
}

/// How long `bytes` take at `rate`, which is not 0.
pub(crate) fn worth(bytes: usize, rate: u64) -> Duration {
    let nanos = (bytes as u64).saturating_mul(1_000_000_000) / rate;
    Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked = Asked {
        read: Duration::from_secs(60),
        rate: 240,
    };

    /// For how many seconds, up to an hour, a client is waited for that sends `bytes` every `every` seconds.
    fn endured(bytes: usize, every: u64, asked: Asked) -> u64 {
        let mut pace = Pace::default();
        for at in (0..3600).step_by(every as usize) {
            let now = Timestamp::from_nanos(at * 1_000_000_000);
            match pace.went_on(bytes, now, asked) {
                Some(patience) if patience >= Duration::from_secs(every) => {}
                Some(_) | None => return at,
            }
        }
        3600
    }

    /// Goal: slow is cut off after about one timeout, slow enough never. Method: a byte every few seconds, the least rate in bursts
    /// with gaps, and a little less than it.
    #[test]
    fn a_drip_is_cut_off_and_the_least_rate_is_not() {
        assert!(endured(1, 1, ASKED) <= 61);
        assert!(endured(1, 50, ASKED) <= 60);
        assert_eq!(endured(240, 1, ASKED), 3600);
        assert_eq!(endured(240 * 50, 50, ASKED), 3600);
        assert!(endured(200, 1, ASKED) < 400);
    }

    /// Goal: what was sent fast buys no more than one timeout. Method: a gigabyte, then a byte a second.
    #[test]
    fn a_burst_is_no_credit_for_ever() {
        let mut pace = Pace::default();
        let second = |at: u64| Timestamp::from_nanos(at * 1_000_000_000);
        assert_eq!(pace.went_on(1 << 30, second(0), ASKED), Some(ASKED.read));
        assert_eq!(pace.went_on(1 << 30, second(1), ASKED), Some(ASKED.read));
        let cut = (2..200).find(|&at| pace.went_on(1, second(at), ASKED).is_none());
        assert!(cut.is_some_and(|at| at <= 62), "{cut:?}");
    }

    /// Goal: an origin that does not take a body is not its client's fault. Method: pieces of 64 KiB, each after four minutes.
    #[test]
    fn a_slow_origin_is_not_held_against_the_client() {
        let mut pace = Pace::default();
        for at in 0..20 {
            let now = Timestamp::from_nanos(at * 240_000_000_000);
            assert!(pace.went_on(64 * 1024, now, ASKED).is_some());
        }
    }

    /// Goal: 0 asks for nothing. Method: a byte an hour.
    #[test]
    fn no_rate_asks_for_none() {
        let none = Asked { rate: 0, ..ASKED };
        assert_eq!(endured(1, 50, none), 3600);
    }
}
