//! governor: GCRA states in a DashMap. Several rates are several limiters, asked one after the other; what the first has charged
//! stays charged when the second refuses.

use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock, QuantaUpkeepClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

use super::{Brief, Limiter, Moment, Peer};
use crate::load::Answer;

/// One rate.
type Keyed<S, C> =
    RateLimiter<u32, DashMapStateStore<u32, S>, C, NoOpMiddleware<<C as Clock>::Instant>>;

struct Governor<S: BuildHasher + Clone, C: Clock>(Vec<Keyed<S, C>>);

impl<S, C> Limiter for Governor<S, C>
where
    S: BuildHasher + Clone + Send + Sync,
    C: Clock + Send + Sync,
    C::Instant: Send + Sync,
{
    #[inline]
    fn admits(&self, client: u32, _: Moment) -> bool {
        self.0.iter().all(|rate| rate.check_key(&client).is_ok())
    }
}

/// With the hasher of the standard library, and the clock that it has by default.
pub fn default(brief: Brief) -> Box<dyn Peer> {
    let rate = |answer| RateLimiter::dashmap_with_clock(quota(answer), DefaultClock::default());
    Box::new(Governor(brief.answers().map(rate).collect()))
}

/// With ahash, and a clock that another thread keeps up to the millisecond.
pub fn fastest(brief: Brief) -> Box<dyn Peer> {
    let rate = |answer| {
        RateLimiter::dashmap_with_clock_and_hasher(
            quota(answer),
            upkeep(),
            ahash::RandomState::new(),
        )
    };
    Box::new(Governor(brief.answers().map(rate).collect()))
}

/// The clock of all of them: one thread keeps it, and a second one would be refused.
fn upkeep() -> QuantaUpkeepClock {
    static CLOCK: std::sync::LazyLock<QuantaUpkeepClock> = std::sync::LazyLock::new(|| {
        QuantaUpkeepClock::from_interval(Duration::from_millis(1)).expect("nobody keeps it yet")
    });
    CLOCK.clone()
}

fn quota(answer: Answer) -> Quota {
    match answer {
        Answer::Admit => Quota::per_second(NonZeroU32::new(1_000_000_000).expect("not zero")),
        Answer::Refuse => Quota::with_period(Duration::from_secs(31 * 86_400))
            .expect("not zero")
            .allow_burst(NonZeroU32::MIN),
    }
}
