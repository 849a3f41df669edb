//! Names what serving a request needs of its client: the bytes of its body, and a way to write the answer.
//!
//! A connection of HTTP/1 and a stream of HTTP/2 implement it.

use std::future::ready;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::HeaderMap;
use sluicegate_decide::client::{PeerAddress, TlsFacts};
use tokio::io::{AsyncRead, AsyncWrite};

use super::head_writer::AnswerHead;
use sluicegate_budgets::ClientAccount;
use sluicegate_config::rules::ListenerProtocol;
use sluicegate_origin::request_failure::ClientFailure;
use sluicegate_transport::body_end::BodyEnd;

/// The facts of a client's connection that its requests share.
#[derive(Clone)]
pub struct ConnectionFacts {
    /// The other end; `None` where the connection has no address.
    pub peer: Option<PeerAddress>,
    /// The facts of the TLS handshake; `None` in clear text.
    pub secured: Option<Arc<TlsFacts>>,
    /// The meaning of its requests.
    pub protocol: ListenerProtocol,
    /// The account of its client.
    pub account: ClientAccount,
}

impl ConnectionFacts {
    /// Returns the facts about the client of its requests: those of a handshake with a proxy that asks for decisions are not its clients'.
    #[must_use]
    pub fn client_secured(&self) -> Option<&Arc<TlsFacts>> {
        self.secured.as_ref().filter(|_| !self.decides_only())
    }

    /// Returns whether its requests ask about those that another proxy received.
    #[must_use]
    pub fn decides_only(&self) -> bool {
        self.protocol != ListenerProtocol::Http
    }
}

/// The client of a request whose head was taken.
pub trait RequestClient: Send {
    /// Returns the account of the connection's client.
    fn account(&self) -> &ClientAccount;

    /// Returns the bytes that were received and not consumed: of the request's body; over HTTP/1 then of later requests.
    fn received(&mut self) -> &mut BytesMut;

    /// Reads once, behind the received bytes. Returns the number of bytes; 0 at the end of the connection of HTTP/1, or of the body of
    /// HTTP/2. Behind the body of HTTP/2 it waits for the client to leave. Dropping the future loses no byte.
    ///
    /// # Errors
    /// The client has left, breaks a rule of HTTP/2, or sends nothing within `patience`.
    fn read_more(
        &mut self,
        patience: Option<Duration>,
    ) -> impl Future<Output = Result<usize, ClientFailure>> + Send;

    /// Begins an answer, interim or final: appends the bytes of its head to `into`, which are to be written before its body, or sends it.
    ///
    /// # Errors
    /// The client has left.
    fn begin_answer(&mut self, into: &mut Vec<u8>, head: AnswerHead<'_>) -> io::Result<()>;

    /// Writes all bytes of an answer, or its last ones: both pieces, one behind the other. Either may be empty.
    ///
    /// # Errors
    /// The client has left, or reads too slowly.
    fn write(
        &mut self,
        pieces: [&[u8]; 2],
        end: BodyEnd,
    ) -> impl Future<Output = Result<(), ClientFailure>> + Send;

    /// Keeps the end of the answer back until [`end_answer`](Self::end_answer), so that the client does not have the whole answer before:
    /// the frame that ends a stream of HTTP/2, or the last byte. A head that ends an answer of HTTP/2 is not kept back.
    fn withhold_end(&mut self) {}

    /// Completes when the bytes of an answer whose end is withheld have left the gateway. Those of other answers, and a head of HTTP/2 that
    /// ends its answer, may lie in buffers.
    ///
    /// # Errors
    /// The client has left, or reads too slowly.
    fn sent(&mut self) -> impl Future<Output = Result<(), ClientFailure>> + Send {
        ready(Ok(()))
    }

    /// Ends an answer whose last bytes were written, with trailers over HTTP/2, if there are some.
    ///
    /// # Errors
    /// The client has left.
    fn end_answer(
        &mut self,
        _trailers: Option<HeaderMap>,
    ) -> impl Future<Output = Result<(), ClientFailure>> + Send {
        ready(Ok(()))
    }

    /// Returns once the client has left.
    fn left(&mut self) -> impl Future<Output = ()> + Send;

    /// Returns the stream for another protocol; `None` where the connection carries other requests beside this one.
    fn stream(&mut self) -> Option<&mut (impl AsyncRead + AsyncWrite + Send + Unpin)>;
}
