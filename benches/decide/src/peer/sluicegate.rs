//! The crate of this repository: once as it is used, once without hash and clock.
//!
//! Both decide at a time of the bench's own, so that a limit can be made which never refuses at any speed.

use std::hint::black_box;

use quanta::Clock;
use sluicegate_limiter::{
    Ask, Capacity, Cost, KeyHash, Limit, MAX_COUNT, MAX_PERIOD, Outcome, Period, Policy, Rate,
    Rates, Seed, Timestamp, decide,
};

use super::{Brief, Limiter, Moment, hashed};
use crate::load::Answer;

/// A limit that admits always, or never, and has as many keys as there are clients.
pub fn limit(brief: Brief) -> Limit {
    Limit::new(policy(brief), capacity(brief))
}

/// What it takes.
pub fn bytes(brief: Brief) -> usize {
    Limit::bytes_for(&policy(brief), capacity(brief)) as usize
}

fn policy(brief: Brief) -> Policy {
    // A million in a second or a little more, or one in a month.
    let rates = brief.answers().zip(1..).map(|(answer, seconds)| {
        let (count, period) = match answer {
            Answer::Admit => (MAX_COUNT, seconds),
            Answer::Refuse => (1, MAX_PERIOD),
        };
        let period = Period::from_secs(period).expect("within the limiter's range");
        Rate::new(count, period).expect("within the limiter's range")
    });
    Rates::new(rates).expect("their periods differ").into()
}

fn capacity(brief: Brief) -> Capacity {
    Capacity::new(u64::from(brief.clients)).expect("within the limiter's range")
}

/// Given the time and the hash.
pub struct Decision {
    limit: Limit,
}

impl Decision {
    pub fn new(brief: Brief) -> Self {
        Self {
            limit: limit(brief),
        }
    }
}

impl Limiter for Decision {
    #[inline]
    fn admits(&self, client: u32, moment: Moment) -> bool {
        ask(&self.limit, KeyHash::from_bits(hashed(client)), moment)
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
pub struct Sluicegate {
    limit: Limit,
    preparation: Preparation,
}

impl Sluicegate {
    pub fn new(brief: Brief) -> Self {
        Self {
            limit: limit(brief),
            preparation: Preparation::new(),
        }
    }
}

impl Limiter for Sluicegate {
    #[inline]
    fn admits(&self, client: u32, moment: Moment) -> bool {
        let key = self.preparation.key(client);
        self.limit.prefetch(key);
        self.preparation.read_clock();
        ask(&self.limit, key, moment)
    }
}

#[inline]
fn ask(limit: &Limit, key: KeyHash, moment: Moment) -> bool {
    let cost = Cost::ONE;
    let now = Timestamp::from_nanos(1_800_000_000_000_000_000 + moment.0);
    decide(&[Ask { limit, key, cost }], now).outcome() == Outcome::Admitted
}
