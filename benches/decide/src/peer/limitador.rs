//! limitador in memory: fixed windows, chosen by expressions over what a request says of itself.

use std::collections::HashMap;

use limitador::RateLimiter;
use limitador::limit::{Context, Limit, Namespace};

use super::{Brief, Limiter, Moment};
use crate::load::Answer;

/// A limiter with a limit a rate, each counting by one variable.
pub struct InMemory {
    limiter: RateLimiter,
    namespace: Namespace,
}

impl InMemory {
    pub fn new(brief: Brief) -> Self {
        let limiter = RateLimiter::new(u64::from(brief.clients) * brief.rates as u64 * 2);
        for (answer, seconds) in brief.answers().zip(1..) {
            let (count, seconds) = match answer {
                Answer::Admit => (u64::MAX / 2, seconds),
                Answer::Refuse => (1, 31 * 86_400),
            };
            let by = ["client".try_into().expect("a variable")];
            let limit = Limit::new("bench", count, seconds, [], by);
            limiter.add_limit(limit);
        }
        Self {
            limiter,
            namespace: "bench".into(),
        }
    }
}

impl Limiter for InMemory {
    #[inline]
    fn admits(&self, client: u32, _: Moment) -> bool {
        let values = HashMap::from([("client".to_owned(), client.to_string())]);
        self.limiter
            .check_rate_limited_and_update(&self.namespace, &Context::from(values), 1)
            .is_ok_and(|answer| !answer.limited)
    }
}
