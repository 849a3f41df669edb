//! Shows in `/status` the clients that hold most of the process's resources.

use serde::Serialize;

use sluicegate_budgets::{ClientAccount, ClientAccounts, Resource};

/// The most clients that are shown.
const SHOWN: usize = 10;

/// The resources that one client holds.
#[derive(Debug, Serialize)]
pub(super) struct ClientSection {
    client: String,
    trusted_proxy: bool,
    connections: u64,
    http2_streams: u64,
    origin_requests: u64,
    tls_handshakes: u64,
    unread_bytes: u64,
    received_bytes: u64,
}

impl ClientSection {
    /// Returns the clients with most connections; between equals those with most streams, then requests, then unread bytes.
    pub(super) fn largest(accounts: &ClientAccounts) -> Vec<Self> {
        let order = [
            Resource::Connections,
            Resource::Streams,
            Resource::OriginRequests,
            Resource::UnreadBytes,
        ];
        let held = |account: &ClientAccount| order.map(|resource| account.held(resource));
        let largest = accounts.largest(SHOWN, held);
        largest.iter().map(Self::new).collect()
    }

    fn new(account: &ClientAccount) -> Self {
        Self {
            client: account.to_string(),
            trusted_proxy: account.is_exempt(),
            connections: account.held(Resource::Connections),
            http2_streams: account.held(Resource::Streams),
            origin_requests: account.held(Resource::OriginRequests),
            tls_handshakes: account.held(Resource::Handshakes),
            unread_bytes: account.held(Resource::UnreadBytes),
            received_bytes: account.held(Resource::ReceivedBytes),
        }
    }
}
