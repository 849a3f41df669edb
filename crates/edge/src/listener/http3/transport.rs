//! Owns the settings of QUIC for the connections of a listener.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::crypto::HandshakeTokenKey;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{ServerConfig, TransportConfig, VarInt};
use sluicegate_base::bounds;

use sluicegate_config::rules::ServerRules;

/// Returns the settings of a connection that begins now.
pub(super) fn server_config(
    rules: &ServerRules,
    crypto: &Arc<QuicServerConfig>,
    tokens: &Arc<dyn HandshakeTokenKey>,
) -> Arc<ServerConfig> {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(rules.http2.max_streams.into())
        .max_concurrent_uni_streams(bounds::HTTP3_CLIENT_STREAMS.into())
        .max_idle_timeout(idle_timeout(rules).try_into().ok())
        .stream_receive_window(bounds::CLIENT_STREAM_WINDOW.into())
        // More is granted with the first body.
        .receive_window(bounds::HTTP3_UNRESERVED.into())
        .send_window(bounds::HTTP3_UNACKNOWLEDGED)
        // HTTP/3 has no use for them.
        .datagram_receive_buffer_size(None);
    let mut config = ServerConfig::new(Arc::clone(crypto) as Arc<_>, Arc::clone(tokens));
    config.transport_config(Arc::new(transport));
    Arc::new(config)
}

/// Returns the time for which nothing may come: that of an idle connection, or of a client that acknowledges nothing, each of which the
/// gateway ends itself, and some more.
pub(super) fn idle_timeout(rules: &ServerRules) -> Duration {
    (rules.keepalive_timeout.max(rules.client_write_timeout))
        .saturating_add(bounds::LINGER_TIME)
        .min(Duration::from_secs(u32::MAX.into()))
}

/// Returns the number of a code as QUIC has it.
pub(super) fn error_code(number: u64) -> VarInt {
    VarInt::from_u64(number).unwrap_or(VarInt::MAX)
}
