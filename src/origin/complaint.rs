//! Tells the operator why an origin cannot be spoken with: its certificate is not believed, ours is refused, or it speaks something
//! else than the configuration says.
//!
//! The client learns 502 and no more. Requests fail by the thousand for one reason, so it is told once a minute.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use log::warn;
use pingora::{Error, ErrorType};

use crate::clock;

/// How long nothing more is told of one origin.
const SILENCE: Duration = Duration::from_secs(60);

/// What is told of one origin, and when.
#[derive(Default)]
pub struct Complaints {
    /// When the next may be told, in nanoseconds since the Unix epoch.
    next: AtomicU64,
}

impl Complaints {
    /// Tells of a connection that failed, where an operator has to mend it: a server that is down tells by itself.
    pub fn connection(&self, origin: &str, server: Option<SocketAddr>, error: &Error) {
        if matches!(
            error.etype(),
            ErrorType::TLSHandshakeFailure
                | ErrorType::TLSHandshakeTimedout
                | ErrorType::InvalidCert
                | ErrorType::HandshakeError
        ) {
            let why = error.context.as_ref().map(|context| context.as_str());
            self.tell(origin, server, why.unwrap_or("the handshake fails"));
        }
    }

    /// Tells why the server cannot be spoken with.
    pub fn tell(&self, origin: &str, server: Option<SocketAddr>, why: &str) {
        let now = clock::now();
        let next = self.next.load(Ordering::Relaxed);
        let after = now.saturating_add(SILENCE).as_nanos();
        // Relaxed: who wins the exchange tells, and nothing else is published by it.
        let won = now.as_nanos() >= next
            && self
                .next
                .compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if won {
            let server = server.map_or_else(String::new, |address| format!(" {address}"));
            warn!("origin {origin}: server{server} cannot be spoken with: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a flood of failures fills no log. Method: tell twice; the time of the next is a minute off and stays.
    #[test]
    fn a_second_complaint_within_a_minute_is_not_told() {
        let complaints = Complaints::default();
        complaints.tell("app", None, "one");
        let next = complaints.next.load(Ordering::Relaxed);
        assert!(next > clock::now().as_nanos());
        complaints.tell("app", None, "two");
        assert_eq!(complaints.next.load(Ordering::Relaxed), next);
    }
}
