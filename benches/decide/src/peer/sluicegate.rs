//! The crate of this repository: once as it is used, once without hash and clock.
//!
//! Both decide at a time of the bench's own, so that a limit can be made which never refuses at any speed.

use std::hint::black_box;

use quanta::Clock;
use sluicegate_limiter::{
    Ask, Capacity, Cost, KeyHash, Limit, MAX_COUNT, MAX_PERIOD, Outcome, Period, Policy, Rate,
    Rates, Seed, Timestamp, decide,
};

use super::{Brief, Limiter, Moment, hashed, keys};
use crate::load::Answer;

/// What each limit takes.
pub fn bytes<const LIMITS: usize>(brief: Brief) -> [usize; LIMITS] {
    policies(brief).map(|policy| Limit::bytes_for(&policy, capacity(brief)) as usize)
}

/// Limits that admit always, or of which the last never does, and that have as many keys as there are clients.
fn limits<const LIMITS: usize>(brief: Brief) -> [Limit; LIMITS] {
    policies(brief).map(|policy| Limit::new(policy, capacity(brief)))
}

fn policies<const LIMITS: usize>(brief: Brief) -> [Policy; LIMITS] {
    let mut answers = brief.answers();
    std::array::from_fn(|_| {
        // A million in a second or a little more, or one in a month.
        let rates = answers.by_ref().take(brief.rates).zip(1..);
        let rates = rates.map(|(answer, seconds)| {
            let (count, period) = match answer {
                Answer::Admit => (MAX_COUNT, seconds),
                Answer::Refuse => (1, MAX_PERIOD),
            };
            let period = Period::from_secs(period).expect("within the limiter's range");
            Rate::new(count, period).expect("within the limiter's range")
        });
        Rates::new(rates).expect("their periods differ").into()
    })
}

fn capacity(brief: Brief) -> Capacity {
    Capacity::new(u64::from(brief.clients)).expect("within the limiter's range")
}

/// Given the time and the hash.
pub struct Decision<const LIMITS: usize> {
    limits: [Limit; LIMITS],
}

impl<const LIMITS: usize> Decision<LIMITS> {
    pub fn new(brief: Brief) -> Self {
        Self {
            limits: limits(brief),
        }
    }
}

impl<const LIMITS: usize> Limiter for Decision<LIMITS> {
    #[inline]
    fn admits(&self, client: u32, moment: Moment) -> bool {
        let keys = keys(client).map(|key| KeyHash::from_bits(hashed(key)));
        ask(&self.limits, keys, moment)
    }
}

/// What whoever uses a limiter does before each decision: a clock is read and the address hashed under a secret seed.
pub struct Preparation {
    seed: Seed,
    clock: Clock,
}

impl Preparation {
    pub fn new() -> Self {
        Self {
            seed: Seed::from_bytes([7; 16]),
            clock: Clock::new(),
        }
    }

    #[inline]
    pub fn key(&self, client: u32) -> KeyHash {
        self.seed.hasher().part(&client.to_be_bytes()).finish()
    }

    #[inline]
    pub fn read_clock(&self) {
        black_box(self.clock.now());
    }
}

/// As one uses it.
pub struct Sluicegate<const LIMITS: usize> {
    limits: [Limit; LIMITS],
    preparation: Preparation,
}

impl<const LIMITS: usize> Sluicegate<LIMITS> {
    pub fn new(brief: Brief) -> Self {
        Self {
            limits: limits(brief),
            preparation: Preparation::new(),
        }
    }
}

impl<const LIMITS: usize> Limiter for Sluicegate<LIMITS> {
    #[inline]
    fn admits(&self, client: u32, moment: Moment) -> bool {
        let keys = keys(client).map(|key| self.preparation.key(key));
        for (limit, key) in self.limits.iter().zip(keys) {
            limit.prefetch(key);
        }
        self.preparation.read_clock();
        ask(&self.limits, keys, moment)
    }
}

#[inline]
fn ask<const LIMITS: usize>(
    limits: &[Limit; LIMITS],
    keys: [KeyHash; LIMITS],
    moment: Moment,
) -> bool {
    let now = Timestamp::from_nanos(1_800_000_000_000_000_000 + moment.0);
    let asks: [_; LIMITS] = std::array::from_fn(|at| Ask {
        limit: &limits[at],
        key: keys[at],
        cost: Cost::ONE,
        payer: None,
    });
    decide(&asks, now).outcome() == Outcome::Admitted
}
