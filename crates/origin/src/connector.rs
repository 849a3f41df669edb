//! Opens and keeps the connections to servers.
//!
//! A request takes a stream of a connection of HTTP/2 ([`super::http2_connections`]), an idle connection of HTTP/1.1 ([`super::idle`]), or
//! a new connection. Pingora's transport opens the sockets, with its TLS and its timeouts; nothing is kept in Pingora's pool. Where
//! connections have a bound, [`super::dialer`] opens only those that have a permit.
//!
//! With `protocol = "auto"`, the TLS handshake decides the protocol of each connection. A request with an upgrade needs HTTP/1.1 (RFC 9113
//! §8.6), so its connection offers that alone; so do the later ones to a server that has asked for it. While a connection is opened, other
//! requests to its server wait for the version that it chooses, unless the latest choice was HTTP/1.1.

use std::sync::Arc;
use std::time::Duration;

use pingora::connectors::{ConnectorOptions, TransportConnector};
use pingora::protocols::{ALPN, Stream};
use sluicegate_limiter::Timestamp;
use tokio::time::timeout;

use super::channel::OriginChannel;
use super::connect_error::ConnectError;
use super::http2_connections::{ConnectionTerms, OpeningTurn, StreamPlace};
use super::idle::{
    ConnectionHome, IdleConnection, IdleConnections, IdleLocation, TakeFrom, thread,
};
use super::origin_stream::OriginStream;
use super::server::OriginServer;
use crate::request_failure::{ConnectFailure, ConnectStep, OriginFailure, StreamFailure};
use sluicegate_config::rules::Protocol;

/// Idle connections of a list that a request takes in turn until one is open. Beyond that the server has most likely closed all.
const IDLE_LOOKS: usize = 16;

/// The error of a server that does not speak the only protocol of its origin.
const NO_HTTP2: &str = "it takes no HTTP/2; write protocol = \"auto\" to speak HTTP/1.1 with it";

/// Opens connections to servers, and keeps idle ones.
pub struct OriginConnector {
    transport: TransportConnector,
    idle: Arc<IdleConnections>,
}

/// The need of a request for one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolNeed {
    /// Any protocol of the origin carries it.
    Any,
    /// It asks for an upgrade, which only HTTP/1.1 has.
    Upgrade,
}

/// A connection to be opened.
struct Opening {
    need: ProtocolNeed,
    opened_since: Option<Timestamp>,
    /// The turn, where requests open connections of HTTP/2 one after the other.
    turn: Option<OpeningTurn>,
}

/// The reason for which an attempt that failed may be repeated without being counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptExcuse {
    /// The connection had been idle, and its server may have closed it.
    StaleConnection,
    /// The server refused the stream, or asks for HTTP/1.1.
    Unprocessed,
}

impl OriginConnector {
    /// Returns a connector that keeps at most `most_idle` idle connections, those of all threads together.
    #[must_use]
    pub fn new(most_idle: usize) -> Self {
        // Nothing is kept in Pingora's pool.
        let options = ConnectorOptions::new(1);
        Self {
            transport: TransportConnector::new(Some(options)),
            idle: IdleConnections::new(most_idle),
        }
    }

    /// Returns a channel to `server`: a stream, an idle connection, or else a new connection. With `opened_since`, connections that are
    /// older are not used.
    ///
    /// # Errors
    /// There is no connection, and nothing was sent.
    pub async fn connect(
        &self,
        server: &OriginServer,
        need: ProtocolNeed,
        opened_since: Option<Timestamp>,
    ) -> Result<OriginChannel, ConnectError> {
        let is_http1 = server.protocol == Protocol::Http1
            || server.protocol == Protocol::Auto && need == ProtocolNeed::Upgrade;
        if !is_http1 {
            // Boxed: a request over HTTP/1.1 should not pay for its size.
            return Box::pin(self.connect_http2(server, opened_since)).await;
        }
        match self.take_idle(server, opened_since) {
            Some(idle) => Ok(idle.into()),
            // Boxed: a request with an idle connection should not pay for the size of the handshakes.
            None => {
                let opening = Opening {
                    need,
                    opened_since,
                    turn: None,
                };
                Box::pin(self.open(server, opening)).await
            }
        }
    }

    /// Connects to a server that may speak HTTP/2.
    async fn connect_http2(
        &self,
        server: &OriginServer,
        opened_since: Option<Timestamp>,
    ) -> Result<OriginChannel, ConnectError> {
        if let Some(open) = self.take_open(server, opened_since).await {
            return Ok(open);
        }
        let connections = &server.server_state.http2;
        let opening = |turn| Opening {
            need: ProtocolNeed::Any,
            opened_since,
            turn,
        };
        if connections.chose_http1(server.reuse_key) {
            return self.open(server, opening(None)).await;
        }
        // Requests that come while a connection is opened, and its server says how many it takes, share it. They wait no longer than for
        // one of their own.
        let patience = server.connect_timeout();
        let Ok(turn) = timeout(patience, connections.turn_to_open()).await else {
            return Err(ConnectFailure::Timeout(ConnectStep::Tcp, patience).into());
        };
        if let Some(open) = self.take_open(server, opened_since).await {
            return Ok(open);
        }
        let is_turn_needed = !connections.chose_http1(server.reuse_key);
        let turn = Some(turn).filter(|_| is_turn_needed);
        self.open(server, opening(turn)).await
    }

    /// Takes a stream, or from a server that may choose HTTP/1.1 an idle connection.
    async fn take_open(
        &self,
        server: &OriginServer,
        opened_since: Option<Timestamp>,
    ) -> Option<OriginChannel> {
        let http2 = &server.server_state.http2;
        let stream = http2.take(server.reuse_key, &self.idle, opened_since);
        if let Some(stream) = stream {
            return Some(of_stream(stream));
        }
        if server.protocol != Protocol::Auto {
            return None;
        }
        self.take_idle(server, opened_since).map(Into::into)
    }

    fn take_idle(
        &self,
        server: &OriginServer,
        opened_since: Option<Timestamp>,
    ) -> Option<IdleConnection> {
        if opened_since.is_some() {
            return None;
        }
        let from = match server.idle_location() {
            IdleLocation::Thread => match thread::take(server.reuse_key, &self.idle) {
                Ok(idle) => return Some(idle),
                Err(from) => from,
            },
            IdleLocation::List => TakeFrom::AllThreads,
        };
        take_listed(server, from)
    }

    async fn open(
        &self,
        server: &OriginServer,
        opening: Opening,
    ) -> Result<OriginChannel, ConnectError> {
        let Opening {
            need,
            opened_since,
            turn,
        } = opening;
        let http2 = &server.server_state.http2;
        let offers_http1 = server.protocol == Protocol::Auto
            && (need == ProtocolNeed::Upgrade || http2.requires_http1(server.reuse_key));
        let opened = if offers_http1 {
            let mut peer = server.peer.clone();
            peer.options.alpn = ALPN::H1;
            server.open_stream(&self.transport, &peer).await
        } else {
            server.open_stream(&self.transport, &server.peer).await
        };
        match opened.map_err(|error| ConnectError::from_error(&error, server)) {
            Ok(stream) => Ok(self.begin((stream, turn), need, server)?),
            Err(error @ ConnectError::AtBound) => {
                // A connection may have become idle meanwhile. If not, idle ones are of no use to this request, and make room.
                if opened_since.is_none()
                    && let Some(idle) = take_listed(server, TakeFrom::AllThreads)
                {
                    return Ok(idle.into());
                }
                if need == ProtocolNeed::Any
                    && let Some(stream) = http2.take(server.reuse_key, &self.idle, opened_since)
                {
                    return Ok(of_stream(stream));
                }
                server.close_one_idle();
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Begins the protocol that was negotiated on a new connection.
    fn begin(
        &self,
        (stream, turn): (Stream, Option<OpeningTurn>),
        need: ProtocolNeed,
        server: &OriginServer,
    ) -> Result<OriginChannel, ConnectFailure> {
        let is_http2 = match (server.protocol, stream.selected_alpn_proto()) {
            (Protocol::H2c, _) | (Protocol::H2 | Protocol::Auto, Some(ALPN::H2)) => true,
            (Protocol::H2, _) => {
                return Err(ConnectFailure::Protocol(NO_HTTP2.to_owned()));
            }
            (Protocol::Http1 | Protocol::Auto, _) => false,
        };
        if !is_http2 {
            if server.protocol == Protocol::Auto && need == ProtocolNeed::Any {
                // Before the turn ends, so that the requests behind it need none.
                server.server_state.http2.note_http1(server.reuse_key);
            }
            let home = ConnectionHome {
                key: server.reuse_key,
                list: Arc::downgrade(&server.server_state.idle),
                thread: thread::number(),
                location: server.idle_location(),
            };
            return Ok(OriginChannel::of_connection(stream, home));
        }
        let connections = &server.server_state.http2;
        let terms = ConnectionTerms {
            key: server.reuse_key,
            window: server.stream_window,
            idle_timeout: server.idle_timeout(),
        };
        Ok(of_stream(connections.open(
            (stream, turn),
            terms,
            &self.idle,
        )))
    }

    /// Keeps the connection of a channel whose last message has ended exactly, for at most `timeout`.
    pub fn keep(&self, channel: OriginChannel, timeout: Option<Duration>) {
        let Some(idle) = channel.into_idle(timeout) else {
            return;
        };
        match idle.home.location {
            IdleLocation::Thread => thread::keep(idle, &self.idle),
            IdleLocation::List => self.idle.put(idle),
        }
    }

    /// Returns why another attempt may follow this failure without being counted: the server closed a connection that was idle, did not
    /// process the request, or speaks HTTP/1.1 alone, which a server of `protocol = "auto"` is offered from now on.
    pub fn excuse(
        &self,
        failure: &OriginFailure,
        channel: &OriginChannel,
        server: &OriginServer,
    ) -> Option<AttemptExcuse> {
        match failure {
            OriginFailure::Closed(_) | OriginFailure::Broken(_) => {
                (channel.may_be_stale()).then_some(AttemptExcuse::StaleConnection)
            }
            OriginFailure::Stream(StreamFailure::Unprocessed(_)) => {
                Some(AttemptExcuse::Unprocessed)
            }
            OriginFailure::Stream(StreamFailure::NotHttp2) if server.protocol == Protocol::Auto => {
                server.server_state.http2.require_http1(server.reuse_key);
                // Another attempt would take a stream of one of them.
                server.server_state.http2.remove_all();
                Some(AttemptExcuse::Unprocessed)
            }
            _ => None,
        }
    }
}

fn of_stream(place: StreamPlace) -> OriginChannel {
    OriginChannel::of_stream(OriginStream::new(place))
}

/// Takes an open connection from the list of a server; closes those that it finds closed, or idle for too long.
fn take_listed(server: &OriginServer, from: TakeFrom) -> Option<IdleConnection> {
    let list = &server.server_state.idle;
    for _ in 0..IDLE_LOOKS {
        let mut idle = list.take(server.reuse_key, from)?;
        if idle.is_usable_now() {
            return Some(idle);
        }
    }
    None
}

#[cfg(test)]
#[path = "connector_tests.rs"]
mod tests;
