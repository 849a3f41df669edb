//! Decides which datagrams reach a connection that come from another IP address than its client's.
//!
//! QUIC asks each address at which a connection appears to prove itself, and answers each question, by datagrams of 1,200 bytes (RFC 9000
//! §8.2.1, §8.2.2). A client that sends small datagrams in the name of others would have it send them forty times as much. So one that is
//! smaller than a third of the answer, which is what the RFC allows (§8.1), has to be rare.

use tokio::time::Instant;

/// A third of the answer.
const LARGE: usize = 400;
/// Small datagrams from elsewhere that may come at once: what a client sends that has moved, before QUIC follows it. Each second one more
/// may come.
const MOST: u32 = 16;

/// The small datagrams from elsewhere of one connection.
#[derive(Debug)]
pub(super) struct ForeignDatagrams {
    left: u32,
    since: Instant,
}

impl ForeignDatagrams {
    /// Returns the state of a connection that begins now.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            left: MOST,
            since: now,
        }
    }

    /// Returns whether one of so many bytes is passed on.
    pub(super) fn admits(&mut self, bytes: usize, now: Instant) -> bool {
        if bytes >= LARGE {
            return true;
        }
        let gained = now.saturating_duration_since(self.since).as_secs();
        if gained > 0 {
            let gained = u32::try_from(gained).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(gained).min(MOST);
            self.since = now;
        }
        let admitted = self.left.checked_sub(1);
        self.left = admitted.unwrap_or_default();
        admitted.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Goal: small datagrams from elsewhere are as rare as their pace. Method: a hundred at once, and a hundred some seconds later.
    #[test]
    fn small_datagrams_from_elsewhere_are_rare() {
        let now = Instant::now();
        let mut foreign = ForeignDatagrams::new(now);
        let mut admitted = |seconds| {
            let now = now + Duration::from_secs(seconds);
            (0..100).filter(|_| foreign.admits(40, now)).count()
        };
        assert_eq!(admitted(0), MOST as usize);
        assert_eq!(admitted(3), 3);
        assert_eq!(admitted(1000), MOST as usize);
        assert!(foreign.admits(LARGE, now));
    }
}
