//! Owns what the threads of one address share.

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use quinn_proto::EndpointConfig;
use quinn_proto::crypto::{HandshakeTokenKey, HmacKey};
use tokio::sync::watch;

use super::connection_ids::{QuicIdentity, ThreadPlace};
use super::datagram_routes::DatagramRoutes;

/// An address at which HTTP/3 is spoken.
pub struct Http3Address {
    pub(super) address: SocketAddr,
    pub(super) routes: DatagramRoutes,
    /// The key of the tokens by which clients prove their addresses.
    pub(super) tokens: Arc<dyn HandshakeTokenKey>,
    resets: Arc<dyn HmacKey>,
    /// Handshakes that are not complete.
    pub(super) handshakes: Arc<AtomicUsize>,
    /// True once another process reads here.
    handed_over: watch::Sender<bool>,
}

impl Http3Address {
    /// Returns an address of this process, with the ways to its threads and to those of processes before it.
    pub fn new(
        address: SocketAddr,
        identity: &QuicIdentity,
        relays: impl IntoIterator<Item = (ThreadPlace, UnixDatagram)>,
    ) -> Arc<Self> {
        Arc::new(Self {
            address,
            routes: DatagramRoutes::new(identity, relays),
            tokens: Arc::new(identity.token_key()),
            resets: Arc::new(identity.reset_key()),
            handshakes: Arc::default(),
            handed_over: watch::Sender::default(),
        })
    }

    /// Returns the ways to all threads, for a process that takes over.
    ///
    /// # Errors
    /// There is no descriptor for a duplicate.
    pub fn relays(&self) -> io::Result<Vec<(ThreadPlace, UnixDatagram)>> {
        self.routes.duplicates()
    }

    /// Stops reading at the address, since another process does. What is for connections of this one comes from there.
    pub fn hand_over(&self) {
        self.handed_over.send_replace(true);
    }

    /// Returns whether another process reads here.
    pub(super) fn is_handed_over(&self) -> bool {
        *self.handed_over.borrow()
    }

    /// Waits until another process reads here.
    pub(super) async fn wait_for_handover(&self) {
        let mut handed_over = self.handed_over.subscribe();
        // The sender lives as long as this.
        let _ = handed_over.wait_for(|handed_over| *handed_over).await;
    }

    /// Returns the settings of QUIC for the endpoint of one thread.
    pub(super) fn endpoint_config(&self, place: ThreadPlace) -> EndpointConfig {
        let mut config = EndpointConfig::new(Arc::clone(&self.resets));
        let ids = self.routes.ids().clone();
        config.cid_generator(move || ids.at(place));
        config
    }
}
