//! Owns what the stages have learned of one request so far; each stage adds its part, the record stage reads it all.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sluicegate_limiter::{Timestamp, Verdict};

use super::body::Prefix;
use crate::admission::{Admitted, Gaps};
use crate::client::Source;
use crate::clock;
use crate::record::{Disposition, InFlight, RequestId};
use crate::snapshot::{ActiveRoute, Snapshot};

/// One request on its way.
pub struct Context {
    /// When its head was read.
    pub arrived: Timestamp,
    /// The configuration that it sees, taken once.
    pub snapshot: Arc<Snapshot>,
    /// Its identity.
    pub request_id: RequestId,
    /// The other end of the connection.
    pub peer: Option<SocketAddr>,
    /// Who asks, and on whose word.
    pub client: Option<(IpAddr, Source)>,
    /// Its route.
    pub route: Option<Arc<ActiveRoute>>,
    /// The evidence that it passed admission.
    pub admitted: Option<Admitted>,
    /// What its limits said.
    pub verdict: Option<Box<Verdict>>,
    /// What the keys of its limits lack.
    pub gaps: Gaps,
    /// What was read of its body before the decision; `None` where no key asks for it.
    pub(super) body: Option<Prefix>,
    /// What was read of it and does not go to the origin by itself.
    pub(super) held: Option<Bytes>,
    /// Whether the client was told to send its body.
    pub invited: bool,
    /// When the decision began: at once, or when the body was read.
    pub decided_at: Timestamp,
    /// What admission took.
    pub decision: Duration,
    /// How long admission holds it back.
    pub delay: Duration,
    /// What became of it; `None` while it is on its way.
    pub disposition: Option<Disposition>,
    /// The server of the last try.
    pub server: Option<SocketAddr>,
    /// Tries made.
    pub tries: u8,
    /// When the last try began.
    pub tried_at: Timestamp,
    /// How long the origin took to its first byte.
    pub wait: Option<Duration>,
    /// Body bytes received from the client.
    pub received: u64,
    _in_flight: InFlight,
}

impl Context {
    /// A request whose head was just read.
    #[must_use]
    pub fn new(snapshot: Arc<Snapshot>, in_flight: InFlight) -> Self {
        let arrived = clock::now();
        Self {
            arrived,
            snapshot,
            request_id: RequestId::next(),
            peer: None,
            client: None,
            route: None,
            admitted: None,
            verdict: None,
            gaps: Gaps::default(),
            body: None,
            held: None,
            invited: false,
            decided_at: arrived,
            decision: Duration::ZERO,
            delay: Duration::ZERO,
            disposition: None,
            server: None,
            tries: 0,
            tried_at: arrived,
            wait: None,
            received: 0,
            _in_flight: in_flight,
        }
    }
}
