//! Those who judge the traffic: every algorithm of the crate, and the exact log that they are measured by.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use sluicegate_limiter::{
    Algorithm, Alignment, Ask, Capacity, Cost, Limit, Outcome, Policy, Rate, Rates, Refill, Seed,
    decide,
};

use super::traffic::{Request, Trail};

/// Who judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// The truth: every admission in a list, and never more than the count in any period.
    ExactLog,
    SlidingWindow,
    FixedWindow,
    FromFirstRequest,
    /// With a burst of the count.
    Gcra,
    /// With a burst of 3.
    SmallBurst,
    /// With a burst of the count and a greedy refill.
    TokenBucket,
    /// With a burst of the count, which comes back at once.
    IntervalBucket,
    LeakyBucket,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It passes after this delay.
    Admitted(Duration),
    Refused,
}

impl Contender {
    /// As the documents call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ExactLog => "exact log",
            Self::SlidingWindow => "sliding-window",
            Self::FixedWindow => "fixed-window",
            Self::FromFirstRequest => "fixed-window, first request",
            Self::Gcra => "gcra, token-bucket",
            Self::SmallBurst => "gcra, burst 3",
            Self::TokenBucket => "token-bucket",
            Self::IntervalBucket => "token-bucket, interval",
            Self::LeakyBucket => "leaky-bucket",
        }
    }

    fn algorithm(self, rate: Rate) -> Option<Algorithm> {
        let burst = None;
        Some(match self {
            Self::ExactLog => return None,
            Self::SlidingWindow => Algorithm::SlidingWindow,
            Self::FixedWindow => Algorithm::FixedWindow(Alignment::Epoch),
            Self::FromFirstRequest => Algorithm::FixedWindow(Alignment::FirstRequest),
            Self::Gcra => Algorithm::Gcra { burst },
            Self::SmallBurst => Algorithm::Gcra { burst: Some(3) },
            Self::TokenBucket => Algorithm::TokenBucket {
                burst,
                refill: Refill::Greedy,
            },
            Self::IntervalBucket => Algorithm::TokenBucket {
                burst,
                refill: Refill::Interval,
            },
            // As much at once as the others, but one after the other.
            Self::LeakyBucket => Algorithm::LeakyBucket {
                queue: rate.count() - 1,
                max_wait: Duration::from_secs(u64::from(rate.period().as_secs())),
            },
        })
    }

    /// One who knows so many clients and has seen nobody yet.
    ///
    /// # Errors
    /// None for the rates of the studies.
    pub(crate) fn ready(self, rate: Rate, clients: u32) -> Result<Judge, Box<dyn Error>> {
        let Some(algorithm) = self.algorithm(rate) else {
            return Ok(Judge::Log(rate, HashMap::new()));
        };
        let policy = Policy::new(algorithm, Rates::new([rate])?)?;
        // Nobody is to share a slot: how a full table errs is another matter.
        let capacity = Capacity::new(4 * u64::from(clients) + 64)?;
        Ok(Judge::Limit(Limit::new(policy, capacity)))
    }
}

/// A contender at work.
#[derive(Debug)]
pub(crate) enum Judge {
    Limit(Limit),
    Log(Rate, HashMap<u32, Trail>),
}

impl Judge {
    /// Decides about a request; time never goes back.
    pub(crate) fn decide(&mut self, request: &Request) -> Fate {
        match self {
            Self::Limit(limit) => {
                let verdict = decide(&[ask(limit, request.client, Cost::ONE)], request.at);
                match verdict.outcome() {
                    Outcome::Admitted => Fate::Admitted(verdict.delay()),
                    Outcome::Refused { .. } => Fate::Refused,
                }
            }
            Self::Log(rate, trails) => {
                let span = Duration::from_secs(u64::from(rate.period().as_secs()));
                let trail = trails.entry(request.client).or_default();
                if trail.within(span, request.at) < rate.count() {
                    trail.push(request.at);
                    Fate::Admitted(Duration::ZERO)
                } else {
                    Fate::Refused
                }
            }
        }
    }
}

/// What a client asks of a limit.
pub(crate) fn ask(limit: &Limit, client: u32, cost: Cost) -> Ask<'_> {
    let mut hasher = Seed::from_bytes([5; 16]).hasher();
    let key = hasher.part(&client.to_le_bytes()).finish();
    Ask {
        limit,
        key,
        cost,
        payer: None,
    }
}
