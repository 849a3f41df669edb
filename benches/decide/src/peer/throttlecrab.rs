//! throttlecrab: GCRA states in a map with strings for keys. It wants to be borrowed mutably, so threads need a lock.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use throttlecrab::{AdaptiveStore, RateLimiter};

use super::{Brief, Limiter, Moment};
use crate::load::Answer;

/// A limiter a rate, all behind one lock.
pub struct Locked {
    rates: Mutex<Vec<(RateLimiter<AdaptiveStore>, Setting)>>,
}

/// What one rate allows, and takes.
#[derive(Clone, Copy)]
struct Setting {
    burst: i64,
    count: i64,
    seconds: i64,
    cost: i64,
}

impl Locked {
    pub fn new(brief: Brief) -> Self {
        let rate = |answer| {
            let store = AdaptiveStore::with_capacity(brief.clients as usize);
            (RateLimiter::new(store), Setting::of(answer))
        };
        Self {
            rates: Mutex::new(brief.answers().map(rate).collect()),
        }
    }
}

impl Setting {
    fn of(answer: Answer) -> Self {
        match answer {
            Answer::Admit => Self {
                burst: 1_000_000_000,
                count: 1_000_000_000,
                seconds: 1,
                cost: 1,
            },
            // It forgets at once a key whose burst is 1.
            Answer::Refuse => Self {
                burst: 2,
                count: 1,
                seconds: 31 * 86_400,
                cost: 2,
            },
        }
    }
}

impl Limiter for Locked {
    #[inline]
    fn admits(&self, client: u32, _: Moment) -> bool {
        // Its keys are text; hexadecimal digits are the cheapest that one can make.
        let digits: [u8; 8] =
            std::array::from_fn(|at| b"0123456789abcdef"[(client >> (28 - 4 * at) & 15) as usize]);
        let key = std::str::from_utf8(&digits).expect("digits");
        let now = SystemTime::now();
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates.iter_mut().all(|(rate, setting)| {
            let Setting {
                burst,
                count,
                seconds,
                cost,
            } = *setting;
            let answer = rate.rate_limit(key, burst, count, seconds, cost, now);
            matches!(answer, Ok((true, _)))
        })
    }
}
