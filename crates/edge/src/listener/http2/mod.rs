//! Serves the streams of one HTTP/2 connection: `driver` reads and writes its frames, `streams` owns what it shares with the tasks of its
//! streams, each of which serves one request by a `stream`.
//!
//! Frames, fields and windows are those of [`sluicegate_http2`], which bounds what makes work only, and closes a connection whose client
//! causes nothing else.
//!
//! # Limits
//! A connection holds at most `max_streams` requests, and all connections of a client as many as [`ClientStreams`] admits, each with a
//! window of fixed size ([`bounds`]). All answers of a connection share an output of fixed size. The connection ends when the client reads
//! nothing of it, or reads too slowly ([`super::guarded_stream`]).

mod body_input;
mod driver;
mod head;
mod receive_window;
mod report;
mod serving;
mod stream;
mod stream_handle;
mod stream_io;
mod stream_protocol;
mod streams;

use std::borrow::Cow;
use std::fmt::Display;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use pingora::server::ShutdownWatch;
use sluicegate_base::received::{ReceivedFields, ReceivedHead};
use sluicegate_base::{bounds, clock};
use sluicegate_decide::client::{PeerAddress, identify};
use sluicegate_http2::{ConnectionLimits, ExtendedConnect, ServerConnection, StreamEnd};
use tokio::time::timeout;

use super::client_stream::ClientStream;
use super::connection::read_pace;
use super::guarded_stream::GuardedStream;
use crate::gateway::{ConnectionFacts, Gateway};
use sluicegate_budgets::{
    BudgetCap, ClientAccount, ClientConnectionPermit, ClientStreams, StreamCaps, StreamPermit,
};
use sluicegate_config::rules::{ListenerProtocol, ServerRules};
use sluicegate_process::SharedState;
use sluicegate_transport::http2_floods::flood_limits;

pub(super) use body_input::{BodyInput, ReceivedBody, gone};
use driver::ConnectionDriver;
pub(super) use head::received_head;
use receive_window::{BodyWindow, ConnectionWindow};
pub(super) use serving::MALFORMED;
pub(super) use stream::Http2Stream;
pub(super) use stream_io::{BodyRead, StreamIo};
pub(super) use stream_protocol::StreamProtocol;

/// Serves a connection that speaks HTTP/2 until it ends.
pub(super) async fn serve(
    shared: &Arc<SharedState>,
    address: SocketAddr,
    stream: ClientStream,
    permit: ClientConnectionPermit,
    facts: ConnectionFacts,
    shutdown: &ShutdownWatch,
) {
    let (connection, context, pace) = {
        let snapshot = shared.snapshot();
        let rules = &snapshot.compiled.rules.server;
        let connection =
            ServerConnection::new(limits(rules, facts.protocol), clock::now_since_epoch());
        let listener = Gateway(Arc::clone(shared), address);
        let context = Arc::new(StreamContext::new(
            StreamProtocol::Http2,
            listener,
            facts,
            shutdown,
        ));
        (connection, context, read_pace(rules))
    };
    let mut stream = GuardedStream::new(stream);
    stream.begin(pace);
    let mut driver = ConnectionDriver::new(connection, stream, permit, context);
    let mut shutdown = shutdown.clone();
    loop {
        tokio::select! {
            biased;
            () = poll_fn(|context| driver.poll_serve(context)) => break,
            changed = shutdown.changed(), if !driver.is_draining() => match changed {
                Ok(()) => driver.drain(),
                // The process has ended.
                Err(_) => break,
            },
        }
    }
    // A client that reads nothing any more gets no reason.
    let _ = timeout(bounds::LINGER_TIME, driver.finish()).await;
}

/// The facts that the streams of a connection share.
pub(super) struct StreamContext {
    protocol: StreamProtocol,
    gateway: Gateway,
    pub(super) facts: ConnectionFacts,
    caps: StreamCaps,
    window: Arc<ConnectionWindow>,
    shutdown: ShutdownWatch,
}

impl StreamContext {
    /// Returns those of a connection of this protocol that begins now.
    pub(super) fn new(
        protocol: StreamProtocol,
        gateway: Gateway,
        facts: ConnectionFacts,
        shutdown: &ShutdownWatch,
    ) -> Self {
        let shared = &gateway.0;
        let snapshot = shared.snapshot();
        let rules = &snapshot.compiled.rules.server;
        let received = rules.defence.max_received_bytes;
        let account = facts.account.clone();
        let window =
            ConnectionWindow::new(protocol, Arc::clone(&shared.received), account, received);
        Self {
            protocol,
            caps: StreamCaps::new(rules),
            gateway,
            facts,
            window: Arc::new(window),
            shutdown: shutdown.clone(),
        }
    }

    /// Returns the account of the client of a stream with these fields: that of the connection, or of the client that a trusted proxy
    /// names.
    fn account(&self, fields: &ReceivedFields) -> Cow<'_, ClientAccount> {
        let of_connection = &self.facts.account;
        let (true, Some(peer)) = (of_connection.is_exempt(), &self.facts.peer) else {
            return Cow::Borrowed(of_connection);
        };
        let shared = &self.gateway.0;
        let rules = &shared.snapshot().compiled.rules.client;
        let client = identify(peer.ip(), fields, rules).address;
        if of_connection.is_of(client) {
            return Cow::Borrowed(of_connection);
        }
        Cow::Owned(shared.accounts.find(client, rules))
    }

    /// Returns a permit for one more stream; `None` where its client, or all, have as many as may be.
    fn enter(&self, account: &ClientAccount) -> Option<StreamPermit> {
        let shared = &self.gateway.0;
        let entered = (shared.client_streams).enter(account, self.caps);
        let log = |cap: &BudgetCap| {
            let name = ClientStreams::KEYS[*cap as usize];
            let most = self.caps.value(*cap);
            self.log_refused(&format_args!("{name} = {most}"), account);
        };
        entered.inspect_err(log).ok()
    }

    /// Reserves memory for what the client may send ahead of this body, if any; `None` where there is no room.
    fn reserve(
        &self,
        head: &ReceivedHead,
        end: StreamEnd,
        account: &ClientAccount,
    ) -> Option<Option<BodyWindow>> {
        if end.is_here() {
            return Some(None);
        }
        // Other bytes than the announced ones are rejected.
        let announced = head.headers.get(CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
        let is_named = !std::ptr::eq(account, &self.facts.account);
        let named = is_named.then_some(account);
        let reserved = self.window.reserve(announced, named);
        let log = |cap: &BudgetCap| {
            let whose = cap.clients();
            let most = self.window.most();
            let why = format_args!("bodies of {whose} are sent ahead; max_received_bytes = {most}");
            self.log_refused(&why, account);
        };
        reserved.inspect_err(log).ok()
    }

    /// Reports in the process log why a stream of the client with this account is refused.
    fn log_refused(&self, why: &dyn Display, account: &ClientAccount) {
        let peer = self.facts.peer.as_ref().map(PeerAddress::ip);
        let notices = &self.gateway.0.recorder.notices;
        let protocol = self.protocol.name();
        if self.facts.account.is_exempt() {
            let why = format_args!("its {protocol} stream for client {account} is refused: {why}");
            notices.tell(peer, &why);
        } else {
            notices.tell(
                peer,
                &format_args!("its {protocol} stream is refused: {why}"),
            );
        }
    }
}

/// Returns the bounds of a new connection.
fn limits(rules: &ServerRules, protocol: ListenerProtocol) -> ConnectionLimits {
    ConnectionLimits {
        max_streams: rules.http2.max_streams,
        // A longer head is answered with 431 without being kept.
        max_field_list: u32::try_from(rules.max_header_bytes).unwrap_or(u32::MAX),
        stream_window: bounds::CLIENT_STREAM_WINDOW,
        connection_window: bounds::CLIENT_CONNECTION_WINDOW,
        output_bytes: bounds::CLIENT_OUTPUT,
        extended_connect: match protocol {
            ListenerProtocol::Http => ExtendedConnect::Allowed,
            ListenerProtocol::ForwardAuth { .. } | ListenerProtocol::RateLimitService => {
                ExtendedConnect::Refused
            }
        },
        floods: flood_limits(bounds::CLIENT_GIVEN_UP),
    }
}
