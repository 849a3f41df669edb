//! Writes to the process log what clients do wrong before there is a request that the access log could have a line for, and where the
//! gateway itself fails.
//!
//! Anybody can make a handshake fail a thousand times a second, so the lines are few, and say how many more there would have been.

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sluicegate_limiter::Timestamp;
use tracing::{error, info};

use crate::bounds;
use crate::clock;

/// The span over which lines are counted.
const SPAN: Duration = Duration::from_secs(60);

/// The lines of one process about clients, and those about its own failures, which are counted apart.
#[derive(Debug, Default)]
pub struct NoticeThrottle {
    clients: Mutex<NoticeCount>,
    failures: Mutex<NoticeCount>,
}

#[derive(Clone, Copy, Debug, Default)]
struct NoticeCount {
    began: Timestamp,
    told: u32,
    untold: u64,
}

/// The fate of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoticeTurn {
    /// It is told; so many were not, before it.
    Told { untold: u64 },
    /// It is counted.
    Untold,
}

impl NoticeCount {
    fn turn(&mut self, now: Timestamp) -> NoticeTurn {
        if now < self.began || now >= self.began.saturating_add(SPAN) {
            *self = Self {
                began: now,
                told: 0,
                untold: self.untold,
            };
        }
        if self.told == bounds::NOTICES {
            self.untold += 1;
            return NoticeTurn::Untold;
        }
        self.told += 1;
        NoticeTurn::Told {
            untold: std::mem::take(&mut self.untold),
        }
    }
}

impl NoticeThrottle {
    /// Tells what a client did, unless enough was told this minute.
    pub fn tell(&self, client: Option<IpAddr>, what: &dyn Display) {
        let Some(untold) = turn(&self.clients) else {
            return;
        };
        if untold > 0 {
            info!(
                "{untold} more lines about clients were left out: at most {} a minute are written",
                bounds::NOTICES
            );
        }
        match client {
            Some(address) => info!("client {address}: {what}"),
            None => info!("a client without an address: {what}"),
        }
    }

    /// Writes a failure of the gateway itself as an error, unless enough were written this minute.
    pub fn fail(&self, what: &dyn Display) {
        let Some(untold) = turn(&self.failures) else {
            return;
        };
        if untold > 0 {
            error!(
                "{untold} more failures of the gateway were left out: at most {} a minute are written",
                bounds::NOTICES
            );
        }
        error!("{what}");
    }
}

/// Returns the number of lines that were left out before one that may be written now; `None` if this one is left out.
fn turn(count: &Mutex<NoticeCount>) -> Option<u64> {
    let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
    match count.turn(clock::now()) {
        NoticeTurn::Told { untold } => Some(untold),
        NoticeTurn::Untold => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a flood writes few lines, and none of it is forgotten. Method: more than may be told in a minute, then one in the next.
    #[test]
    fn a_minute_has_few_lines_and_a_count_of_the_rest() {
        let start = clock::now();
        let mut count = NoticeCount::default();
        for _ in 0..bounds::NOTICES {
            assert_eq!(count.turn(start), NoticeTurn::Told { untold: 0 });
        }
        for _ in 0..312 {
            assert_eq!(count.turn(start), NoticeTurn::Untold);
        }
        let later = start.saturating_add(SPAN);
        assert_eq!(count.turn(later), NoticeTurn::Told { untold: 312 });
        assert_eq!(count.turn(later), NoticeTurn::Told { untold: 0 });
    }
}
