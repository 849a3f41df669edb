//! Writes to the process log the errors of clients before there is a request that the access log could have a line for, and the failures
//! of the gateway itself.
//!
//! A client can make a handshake fail a thousand times a second, so the lines are few, and have the number of those left out.

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sluicegate_base::bounds;
use sluicegate_base::clock;
use sluicegate_limiter::Timestamp;
use tracing::{error, info};

/// The window over which lines are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// The lines of one process about clients, and those about its own failures, which are counted apart.
#[derive(Debug, Default)]
pub struct NoticeThrottle {
    clients: Mutex<NoticeCount>,
    failures: Mutex<NoticeCount>,
}

#[derive(Clone, Copy, Debug, Default)]
struct NoticeCount {
    began: Timestamp,
    written: u32,
    left_out: u64,
}

/// The decision over a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoticeTurn {
    /// It is written; so many were left out before it.
    Write { left_out: u64 },
    /// It is counted only.
    LeaveOut,
}

impl NoticeCount {
    fn turn(&mut self, now: Timestamp) -> NoticeTurn {
        if now < self.began || now >= self.began.saturating_add(WINDOW) {
            *self = Self {
                began: now,
                written: 0,
                left_out: self.left_out,
            };
        }
        if self.written == bounds::NOTICES {
            self.left_out += 1;
            return NoticeTurn::LeaveOut;
        }
        self.written += 1;
        NoticeTurn::Write {
            left_out: std::mem::take(&mut self.left_out),
        }
    }
}

impl NoticeThrottle {
    /// Logs an error of a client, unless enough were logged this minute.
    pub fn tell(&self, client: Option<IpAddr>, what: &dyn Display) {
        let Some(left_out) = turn(&self.clients) else {
            return;
        };
        if left_out > 0 {
            info!(
                "{left_out} more lines about clients were left out: at most {} a minute are written",
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
        let Some(left_out) = turn(&self.failures) else {
            return;
        };
        if left_out > 0 {
            error!(
                "{left_out} more failures of the gateway were left out: at most {} a minute are written",
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
        NoticeTurn::Write { left_out } => Some(left_out),
        NoticeTurn::LeaveOut => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a flood writes few lines, and each left-out line is counted. Method: more lines than a minute may have, then one in the next.
    #[test]
    fn a_minute_has_few_lines_and_a_count_of_the_rest() {
        let start = clock::now();
        let mut count = NoticeCount::default();
        for _ in 0..bounds::NOTICES {
            assert_eq!(count.turn(start), NoticeTurn::Write { left_out: 0 });
        }
        for _ in 0..312 {
            assert_eq!(count.turn(start), NoticeTurn::LeaveOut);
        }
        let later = start.saturating_add(WINDOW);
        assert_eq!(count.turn(later), NoticeTurn::Write { left_out: 312 });
        assert_eq!(count.turn(later), NoticeTurn::Write { left_out: 0 });
    }
}
