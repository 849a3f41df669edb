//! Reads and writes the frames of one connection, and begins the requests that come on it.
//!
//! A request that waits for nothing is answered where its head was read. Every other one is served by a task of its own. What all of them
//! have ready when the thread has gone through its tasks leaves in one write: a poll writes first, then reads, and is polled again behind
//! the tasks that it woke.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Version;
use sluicegate_base::received::ReceivedHead;
use sluicegate_base::{bounds, clock};
use sluicegate_decide::client::PeerAddress;
use sluicegate_decide::response::GatewayProblem;
use sluicegate_http2::{ErrorCode, RuleViolation, ServerConnection, StreamEnd};
use tokio::time::Instant;

use super::head::received_head;
use super::serving::{EnteredStream, MALFORMED};
use super::stream_handle::StreamHandle;
use super::stream_io::StreamIo;
use super::streams::{ConnectionStreams, Standing, StreamEvent};
use super::{StreamContext, report};
use crate::gateway::UnreadableHead;
use crate::listener::connection::IDLE_AFTER;
use crate::listener::grpc;
use crate::listener::guarded_stream::GuardedStream;
use sluicegate_budgets::{BytesPermit, ClientConnectionPermit};
use sluicegate_config::rules::ListenerProtocol;
use sluicegate_process::SharedState;
use sluicegate_transport::reusable_timeout::ReusableTimeout;
use sluicegate_transport::socket_poll::SocketPoll;
use sluicegate_transport::thread_buffer::{
    THREAD_BUFFER, give_read_buffer, poll_read_through, take_read_buffer,
};
use sluicegate_transport::timer;

/// The task of one connection.
pub(super) struct ConnectionDriver {
    stream: Box<GuardedStream>,
    streams: Arc<ConnectionStreams>,
    permit: ClientConnectionPermit,
    context: Arc<StreamContext>,
    /// True once the client has sent its preface.
    is_begun: bool,
    /// The reservation for what the client holds back.
    held: Option<BytesPermit>,
    timeout: ReusableTimeout,
    /// `None` while it has a request.
    idle: Option<IdleTime>,
    is_draining: bool,
}

/// The times of a connection without a request.
#[derive(Clone, Copy, Debug)]
struct IdleTime {
    /// The time at which it releases memory, if that is to come.
    shrinks: Option<Instant>,
    /// The time at which it ends.
    ends: Instant,
}

impl IdleTime {
    fn from_now(patience: Duration) -> Self {
        Self {
            shrinks: Some(timer::deadline(IDLE_AFTER.min(patience))),
            ends: timer::deadline(patience),
        }
    }
}

/// There is no room for what the client holds back.
struct NoRoom;

impl ConnectionDriver {
    /// Returns the task of a connection of which nothing was read.
    pub(super) fn new(
        connection: ServerConnection,
        stream: Box<GuardedStream>,
        permit: ClientConnectionPermit,
        context: Arc<StreamContext>,
    ) -> Self {
        // The preface has the time of a head.
        let first =
            (context.gateway.0.snapshot().compiled.rules.server.defence).client_header_timeout;
        Self {
            stream,
            streams: ConnectionStreams::new(connection),
            permit,
            idle: Some(IdleTime::from_now(first)),
            context,
            is_begun: false,
            held: None,
            timeout: ReusableTimeout::default(),
            is_draining: false,
        }
    }

    /// Returns whether the client was told to open no more streams.
    pub(super) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Tells the client to open no more streams, RFC 9113 §6.8. The connection ends with its last one.
    pub(super) fn drain(&mut self) {
        self.is_draining = true;
        self.streams.lock().connection.drain();
        // A client that does not answer is not waited for.
        self.idle = None;
    }

    /// Serves until the connection ends.
    pub(super) fn poll_serve(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.streams.set_driver(context);
        if self.permit.poll_reclaimed(context).is_ready() {
            self.streams.close(ErrorCode::NO_ERROR);
        }
        let written = self.poll_write(context);
        if written == SocketPoll::Broken {
            return Poll::Ready(());
        }
        let read = self.poll_read(context);
        if read == SocketPoll::Broken {
            return Poll::Ready(());
        }
        let standing = self.streams.wake_ready();
        if standing.is_over || self.is_idle_too_long(standing, context) {
            return Poll::Ready(());
        }
        let may_write = standing.has_output && written == SocketPoll::Progressed;
        if read == SocketPoll::Progressed || may_write {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> SocketPoll {
        match (self.streams).poll_write(Pin::new(&mut *self.stream), context) {
            Poll::Ready(Ok(())) => {
                if self.streams.served() == 0 {
                    // Its answers have left too.
                    self.permit.wait();
                }
                SocketPoll::Progressed
            }
            Poll::Ready(Err(_)) => SocketPoll::Broken,
            Poll::Pending => {
                // One that is closed for another one ends anyway.
                let _ = self.permit.begin();
                SocketPoll::Waits
            }
        }
    }

    /// Reads once, and acts on what came.
    fn poll_read(&mut self, context: &mut Context<'_>) -> SocketPoll {
        if !self.streams.lock().connection.wants_input() {
            // The next write that makes room wakes the task.
            return SocketPoll::Waits;
        }
        let mut read = take_read_buffer();
        let polled = poll_read_through(&mut *self.stream, context, &mut read, THREAD_BUFFER);
        let polled = match polled {
            Poll::Ready(Ok(0) | Err(_)) => SocketPoll::Broken,
            Poll::Ready(Ok(_)) => {
                self.receive(&read);
                // A head that is whole now is charged by its request.
                let charged = match self.held {
                    Some(_) => self.charge_held_back(),
                    None => Ok(()),
                };
                charged.map_or(SocketPoll::Broken, |()| SocketPoll::Progressed)
            }
            Poll::Pending => {
                let charged = self.charge_held_back();
                charged.map_or(SocketPoll::Broken, |()| SocketPoll::Waits)
            }
        };
        give_read_buffer(read);
        polled
    }

    /// Acts on bytes that were read.
    fn receive(&mut self, read: &[u8]) {
        let mut input = read;
        let now = clock::now_since_epoch();
        while let Some(event) = self.streams.receive(&mut input, now) {
            match event {
                StreamEvent::Request { handle, head, end } => {
                    match received_head(head, Version::HTTP_2) {
                        Some(head) => self.begin(handle, head, end),
                        None => self.answer_malformed(handle, MALFORMED),
                    }
                }
                StreamEvent::Malformed(handle, RuleViolation::FieldListSize) => {
                    self.answer_malformed(handle, GatewayProblem::HeadTooLarge);
                }
                StreamEvent::Malformed(handle, _) => {
                    self.answer_malformed(handle, MALFORMED);
                }
                StreamEvent::Closed(rule) => {
                    report::broke(self.shared(), self.peer(), rule);
                    self.streams.close(rule.code());
                }
            }
        }
        if !self.is_begun && self.streams.lock().connection.has_received_preface() {
            self.is_begun = true;
            self.idle = None;
        }
    }

    fn answer_malformed(&self, handle: StreamHandle, problem: GatewayProblem) {
        (self.context).answer_malformed(handle, problem, UnreadableHead::Http2);
    }

    /// Charges what the client holds back of frames that are not whole, while nothing comes.
    fn charge_held_back(&mut self) -> Result<(), NoRoom> {
        let held = self.streams.lock().connection.held_back() as u64;
        if held <= bounds::UNCHARGED_BODY {
            self.held = None;
            return Ok(());
        }
        if let Some(permit) = &mut self.held {
            permit.shrink(held);
        }
        let shared = &self.context.gateway.0;
        let configured = shared
            .snapshot()
            .compiled
            .rules
            .server
            .defence
            .max_received_bytes;
        let account = &self.context.facts.account;
        let charged = (shared.received).extend(&mut self.held, account, held, configured);
        charged.map_err(|cap| {
            let most = shared.received.most(configured);
            report::exceeds(shared, self.peer(), cap, most);
            NoRoom
        })
    }

    /// Returns whether the connection has been without a request, and without an answer that waits, for as long as it may be.
    fn is_idle_too_long(&mut self, standing: Standing, context: &mut Context<'_>) -> bool {
        if standing.served > 0 {
            self.idle = None;
        }
        if standing.served > 0 || standing.has_output {
            return false;
        }
        let patience = || IdleTime::from_now(self.idle_patience());
        let mut idle = self.idle.unwrap_or_else(patience);
        if let Some(at) = idle.shrinks
            && self.timeout.is_over(at, context)
        {
            self.streams.shrink();
            idle.shrinks = None;
        }
        self.idle = Some(idle);
        let is_over = idle.shrinks.is_none() && self.timeout.is_over(idle.ends, context);
        if is_over {
            self.streams.close(ErrorCode::NO_ERROR);
        }
        is_over
    }

    /// Returns the time for which the connection may be without a request from now on.
    fn idle_patience(&self) -> Duration {
        let snapshot = self.shared().snapshot();
        let rules = &snapshot.compiled.rules.server;
        if self.is_draining {
            return bounds::LINGER_TIME;
        }
        match self.streams.lock().connection.has_begun() {
            true => rules.keepalive_timeout,
            false => rules.keepalive_timeout.min(rules.client_read_timeout),
        }
    }

    /// Begins a request.
    fn begin(&mut self, handle: StreamHandle, head: ReceivedHead, end: StreamEnd) {
        self.idle = None;
        if !self.permit.begin() {
            handle.refuse();
            return self.streams.close(ErrorCode::NO_ERROR);
        }
        let Some(entered) = self.context.enter_stream(handle, &head, end) else {
            return;
        };
        if self.context.facts.protocol == ListenerProtocol::RateLimitService {
            return self.serve_call(head, entered);
        }
        self.context.serve(entered, head, end);
    }

    /// Serves a call of the rate limit service by a task.
    fn serve_call(&self, head: ReceivedHead, entered: EnteredStream<StreamHandle>) {
        let context = Arc::clone(&self.context);
        let patience = self
            .shared()
            .snapshot()
            .compiled
            .rules
            .server
            .client_write_timeout;
        let (mut stream, permit) = entered.begin(None, patience);
        self.context.spawn(
            permit,
            Box::pin(async move {
                let StreamContext {
                    gateway,
                    facts,
                    shutdown,
                    ..
                } = &*context;
                grpc::serve(gateway, facts, shutdown, &head, &mut stream).await;
            }),
        );
    }

    /// Writes what is left, and ends the connection. With TLS it sends close_notify, RFC 8446 §6.1.
    pub(super) async fn finish(&mut self) {
        let written = std::future::poll_fn(|context| {
            self.streams
                .poll_write(Pin::new(&mut *self.stream), context)
        });
        let written: io::Result<()> = written.await;
        if written.is_ok() {
            // A client that has left needs no end.
            let _ = tokio::io::AsyncWriteExt::shutdown(&mut *self.stream).await;
        }
    }

    fn shared(&self) -> &Arc<SharedState> {
        &self.context.gateway.0
    }

    fn peer(&self) -> Option<IpAddr> {
        self.context.facts.peer.as_ref().map(PeerAddress::ip)
    }
}

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        // Their tasks learn that the client has left.
        self.streams.close(ErrorCode::NO_ERROR);
    }
}
