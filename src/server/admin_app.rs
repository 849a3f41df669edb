//! Serves the operator's endpoints on a listener of their own; [`sluicegate_admin`] makes the answers, and the events of streams.
//!
//! Its connections are bounded apart from those of clients: at most [`ADMIN_CONNECTIONS`] descriptors in all, at most
//! [`ADMIN_CONNECTIONS_OF_ONE`] for one address, and a request must arrive within a deadline.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::TRANSFER_ENCODING;
use http::{HeaderValue, Method, Response, Version};
use pingora::http::ResponseHeader;
use pingora::prelude::timeout;
use pingora::protocols::http::ServerSession;
use pingora::protocols::l4::stream::Stream as SocketStream;
use pingora::protocols::{GetSocketDigest, SocketDigest, Stream};
use pingora::server::ShutdownWatch;
use sluicegate_base::bounds::{
    ADMIN_BODY, ADMIN_CHANGE_TURN, ADMIN_CONNECTIONS, ADMIN_CONNECTIONS_OF_ONE, ADMIN_IDLE,
    ADMIN_PATIENCE,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use sluicegate_admin::{AdminResponse, EventHub, EventStream, Operator, RequestSource, answer};
use sluicegate_edge::listener::ConnectionApp;
use sluicegate_process::GatewayProcess;
use sluicegate_tls::client_socket::ClientSocket;

/// Bytes of a body that is too long that are read before the answer.
const READ_AWAY: usize = 64 * ADMIN_BODY;

/// The application of the admin listener.
pub(super) struct AdminApp {
    process: Arc<GatewayProcess>,
    /// Allows one walk through a table at a time, so that the walks of all requests take at most one core; further requests get
    /// a retry answer.
    walks: Arc<Semaphore>,
    /// Allows one change by an operator at a time; further ones wait for it.
    changes: Arc<Semaphore>,
    /// Allows one look into the tables of all limits at a time; further requests wait for it.
    samples: Arc<Semaphore>,
    events: Arc<EventHub>,
    permits: Arc<AdminPermits>,
}

/// A response, or the stream that takes its place.
enum AdminReply {
    Whole(Response<Vec<u8>>),
    Stream(EventStream),
}

/// The number of open connections, by address.
#[derive(Debug, Default)]
struct AdminPermits(Mutex<HashMap<IpAddr, usize>>);

/// The permit of one connection; dropping it releases it.
#[derive(Debug)]
pub(super) struct AdminPermit {
    permits: Arc<AdminPermits>,
    peer: IpAddr,
}

impl AdminApp {
    /// Returns the application for this process.
    #[must_use]
    pub(super) fn new(process: Arc<GatewayProcess>) -> Self {
        Self {
            process,
            walks: Arc::new(Semaphore::new(1)),
            changes: Arc::new(Semaphore::new(1)),
            samples: Arc::new(Semaphore::new(1)),
            events: Arc::default(),
            permits: Arc::default(),
        }
    }

    /// Serves the requests of a connection, one after the other; `None` at its end.
    async fn serve_requests(&self, mut stream: Stream, shutdown: &ShutdownWatch) -> Option<()> {
        stream = self.serve_request(stream, ADMIN_PATIENCE, shutdown).await?;
        loop {
            stream = self.serve_request(stream, ADMIN_IDLE, shutdown).await?;
        }
    }

    /// Serves one request. Returns the connection, where another request may follow.
    async fn serve_request(
        &self,
        stream: Stream,
        patience: Duration,
        shutdown: &ShutdownWatch,
    ) -> Option<Stream> {
        let mut session = ServerSession::new_http1(stream);
        let is_whole = timeout(patience, session.read_request()).await.ok()?.ok()?;
        if !is_whole {
            return None;
        }
        let idle = (!*shutdown.borrow()).then_some(ADMIN_IDLE.as_secs());
        session.set_keepalive(idle);
        let response = match self.reply(&mut session).await {
            AdminReply::Whole(response) => response,
            AdminReply::Stream(stream) => {
                write_events(session, stream).await;
                return None;
            }
        };
        let written = async {
            let (head, body) = response.into_parts();
            let head = ResponseHeader::from(head);
            session.write_response_header(Box::new(head)).await?;
            if !body.is_empty() {
                session.write_response_body(body.into(), true).await?;
            }
            session.finish().await
        };
        let reusable = timeout(ADMIN_IDLE, written).await.ok()?.ok()??;
        Some(reusable.into_parts().0)
    }

    async fn reply(&self, session: &mut ServerSession) -> AdminReply {
        let peer = session
            .client_addr()
            .and_then(|address| address.as_inet())
            .copied();
        let sender = RequestSource {
            operator: Operator { peer, token: None },
            // A body that is late is read as empty, which is no valid JSON.
            body: timeout(ADMIN_PATIENCE, body_of(session))
                .await
                .unwrap_or_default(),
        };
        let (walk, turn) = match answer(session.req_header(), sender, &self.process) {
            AdminResponse::Ready(response) => return AdminReply::Whole(response),
            AdminResponse::Stream(holder) => {
                return match self.events.open(&self.process, holder) {
                    Ok(stream) => AdminReply::Stream(stream),
                    Err(too_many) => AdminReply::Whole(too_many.response()),
                };
            }
            AdminResponse::Walk(walk) => (Arc::new(walk), self.walk_turn()),
            AdminResponse::Change(walk) => (Arc::new(walk), self.change_turn().await),
            AdminResponse::Sample(walk) => {
                let turn = Arc::clone(&self.samples).acquire_owned().await.ok();
                (Arc::new(walk), turn)
            }
        };
        let Some(turn) = turn else {
            return AdminReply::Whole(walk.put_off());
        };
        // Not on this service's only thread, which serves probes and scrapes. The permit moves along: when the client leaves,
        // the walk runs to its end, and no other begins before that.
        let process = Arc::clone(&self.process);
        let walking = Arc::clone(&walk);
        let response = tokio::task::spawn_blocking(move || {
            let response = walking.run(&process);
            drop(turn);
            response
        });
        AdminReply::Whole(response.await.unwrap_or_else(|_| walk.put_off()))
    }
}

impl AdminApp {
    /// Returns the permit of a walk that only reads; `None` while another is under way.
    fn walk_turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.walks).try_acquire_owned().ok()
    }

    /// Returns the permit of a change, once the changes before it are made: no reader holds up an operator.
    async fn change_turn(&self) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.changes).acquire_owned();
        timeout(ADMIN_CHANGE_TURN, turn).await.ok()?.ok()
    }
}

impl ConnectionApp for AdminApp {
    type Permit = AdminPermit;

    fn admit(&self, peer: SocketAddr) -> Option<AdminPermit> {
        let peer = peer.ip().to_canonical();
        let permit = self.permits.take(peer);
        if permit.is_none() {
            let said = "the operator's listener has as many connections as may be, in all or of this address, and closes this one";
            self.process.shared.recorder.notices.tell(Some(peer), &said);
        }
        permit
    }

    fn note_accept_error(&self, error: &io::Error) {
        self.process.shared.recorder.note_accept_error(error);
    }

    async fn serve(
        self: Arc<Self>,
        socket: ClientSocket,
        _permit: AdminPermit,
        shutdown: ShutdownWatch,
    ) {
        self.serve_requests(session_stream(socket), &shutdown).await;
    }
}

impl AdminPermits {
    /// Returns a permit for a connection from `peer`; `None` at the limit.
    fn take(self: &Arc<Self>, peer: IpAddr) -> Option<AdminPermit> {
        let mut permits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = permits.get(&peer).copied().unwrap_or_default();
        if of_peer >= ADMIN_CONNECTIONS_OF_ONE
            || permits.values().sum::<usize>() >= ADMIN_CONNECTIONS
        {
            return None;
        }
        permits.insert(peer, of_peer + 1);
        Some(AdminPermit {
            permits: Arc::clone(self),
            peer,
        })
    }
}

impl Drop for AdminPermit {
    fn drop(&mut self) {
        let mut permits = self
            .permits
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match permits.get_mut(&self.peer) {
            Some(1) | None => drop(permits.remove(&self.peer)),
            Some(count) => *count -= 1,
        }
    }
}

/// Returns the stream of Pingora's sessions over this socket.
fn session_stream(socket: ClientSocket) -> Stream {
    let peer = socket.peer();
    let socket = socket.into_socket();
    let digest = SocketDigest::from_raw_fd(socket.as_raw_fd());
    // It is new, and has none.
    let _ = digest.peer_addr.set(Some(peer.into()));
    let mut stream = SocketStream::from(socket);
    stream.set_socket_digest(digest);
    Box::new(stream)
}

/// Writes events until the stream ends or the client has not read for [`ADMIN_IDLE`]. The connection ends with it.
async fn write_events(mut session: ServerSession, mut stream: EventStream) {
    session.set_keepalive(None);
    let mut head = stream.head();
    if session.req_header().version == Version::HTTP_11 {
        let chunked = HeaderValue::from_static("chunked");
        head.headers_mut().insert(TRANSFER_ENCODING, chunked);
    }
    let head = Box::new(ResponseHeader::from(head.into_parts().0));
    let mut written = timeout(ADMIN_IDLE, session.write_response_header(head)).await;
    while matches!(written, Ok(Ok(())))
        && let Some(event) = stream.next().await
    {
        written = timeout(ADMIN_IDLE, session.write_response_body(event, false)).await;
    }
    // The task samples for the streams that are left.
    drop(stream);
    if matches!(written, Ok(Ok(()))) {
        // A client that has left needs no end.
        let _ = timeout(ADMIN_PATIENCE, session.finish()).await;
    }
}

/// Reads the body of a request that changes something. Of a body beyond the maximum a byte more is kept, by which it is refused, and so
/// much is read that the client can read the answer.
async fn body_of(session: &mut ServerSession) -> Vec<u8> {
    let mut body = Vec::new();
    let mut read = 0;
    if !matches!(session.req_header().method, Method::PUT | Method::POST) {
        return body;
    }
    while let Ok(Some(piece)) = session.read_request_body().await {
        read += piece.len();
        let room = (ADMIN_BODY + 1).saturating_sub(body.len());
        body.extend_from_slice(piece.get(..room).unwrap_or(&piece));
        if read > READ_AWAY {
            break;
        }
    }
    body
}
