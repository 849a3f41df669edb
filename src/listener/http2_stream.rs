//! Owns one stream of HTTP/2 while its request is served: the bytes of its body, and its answer.
//!
//! RFC 9113 §8.1.1: a body of another length than the announced one makes a request malformed, and only the end of its stream shows that.
//! An origin of HTTP/1.1 takes a request for whole with the last announced byte, so this byte is received with the end of the stream.

use std::future::poll_fn;
use std::io::{self, Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::receive_window::BodyWindow;
use super::sent_bytes::{SentBytes, UnsentBytes};
use crate::body_end::BodyEnd;
use crate::budgets::ClientAccount;
use crate::failure::ClientFailure;
use crate::gateway::{AnswerHead, RequestClient};

/// A stream whose head was taken.
pub(super) struct Http2Stream {
    account: ClientAccount,
    body: RecvStream,
    /// The memory for what comes ahead, until the body was read.
    window: Option<BodyWindow>,
    respond: SendResponse<Bytes>,
    /// The body of the answer, once its head was sent.
    answer: Option<SendStream<Bytes>>,
    /// The time for each write.
    write_timeout: Duration,
    /// Bytes of the body that were received and not consumed.
    received: BytesMut,
    /// Bytes of the body that may be received before the end of the stream.
    before_end: u64,
    /// The last announced byte, until the stream ends.
    last: Option<u8>,
    /// True once the body was read to its end.
    is_read: bool,
    /// True once the end of the answer was sent.
    is_ended: bool,
    /// The counts of the connection, where answers may be counted.
    pub(super) sent: Option<Arc<SentBytes>>,
    /// The bytes of the answer that have not left, if its end is withheld for them.
    unsent: Option<UnsentBytes>,
}

impl Http2Stream {
    /// Returns the stream of this client, whose body has the `announced` length, if any, and each of whose writes has this time.
    pub(super) fn new(
        (body, respond, window): (RecvStream, SendResponse<Bytes>, Option<BodyWindow>),
        account: ClientAccount,
        announced: Option<u64>,
        write_timeout: Duration,
    ) -> Self {
        Self {
            account,
            is_read: body.is_end_stream(),
            body,
            window,
            respond,
            answer: None,
            write_timeout,
            received: BytesMut::new(),
            before_end: announced.map_or(u64::MAX, |bytes| bytes.saturating_sub(1)),
            last: None,
            is_ended: false,
            sent: None,
            unsent: None,
        }
    }

    /// Begins the final answer with this head, which has a body unless `end` is here.
    pub(super) fn begin(&mut self, head: Response<()>, end: BodyEnd) -> io::Result<()> {
        let answer = self.respond.send_response(head, end.is_here());
        self.answer = Some(answer.map_err(Error::other)?);
        self.is_ended = end.is_here();
        Ok(())
    }

    async fn read(&mut self) -> io::Result<usize> {
        if self.is_read {
            self.left().await;
            return Err(ErrorKind::ConnectionReset.into());
        }
        loop {
            match self.body.data().await {
                // A frame without data does not end the body.
                Some(Ok(bytes)) if bytes.is_empty() => {}
                Some(Ok(bytes)) => {
                    let window = self.body.flow_control();
                    window.release_capacity(bytes.len()).map_err(Error::other)?;
                    match self.receive(&bytes) {
                        0 => {}
                        received => return Ok(received),
                    }
                }
                Some(Err(error)) => return Err(Error::other(error)),
                None => {
                    self.is_read = true;
                    self.window = None;
                    let last = self.last.take();
                    self.received.extend(last);
                    return Ok(usize::from(last.is_some()));
                }
            }
        }
    }

    /// Receives bytes of the body, but not the last announced one before the end of the stream. Returns how many were received.
    fn receive(&mut self, bytes: &[u8]) -> usize {
        let mut received = bytes.len();
        self.before_end = match self.before_end.checked_sub(received as u64) {
            Some(left) => left,
            None if self.body.is_end_stream() => 0,
            None => {
                // The h2 crate rejects bytes beyond the announced ones, so this is one byte.
                received = usize::try_from(self.before_end).unwrap_or(received);
                self.last = bytes.last().copied();
                0
            }
        };
        self.received.extend_from_slice(&bytes[..received]);
        received
    }

    /// Sends bytes of the body as the windows of the client and the bound of the send buffer allow.
    async fn send(&mut self, mut bytes: &[u8], end: BodyEnd) -> io::Result<()> {
        let answer = self.answer.as_mut().ok_or(ErrorKind::NotConnected)?;
        while !bytes.is_empty() {
            answer.reserve_capacity(bytes.len());
            let mut free = answer.capacity();
            if free == 0 {
                let freed = poll_fn(|context| answer.poll_capacity(context)).await;
                free = freed
                    .ok_or(ErrorKind::ConnectionReset)?
                    .map_err(Error::other)?;
            }
            // Copied once there is room for it: what waits for the client is in memory once.
            let (piece, rest) = bytes.split_at(free.min(bytes.len()));
            bytes = rest;
            let is_last = end.is_here() && bytes.is_empty();
            if let Some(unsent) = &self.unsent {
                unsent.add(piece.len());
            }
            let sent = answer.send_data(Bytes::copy_from_slice(piece), is_last);
            sent.map_err(Error::other)?;
            self.is_ended |= is_last;
        }
        if end.is_here() && !self.is_ended {
            answer.send_data(Bytes::new(), true).map_err(Error::other)?;
            self.is_ended = true;
        }
        Ok(())
    }
}

impl RequestClient for Http2Stream {
    fn account(&self) -> &ClientAccount {
        &self.account
    }

    fn received(&mut self) -> &mut BytesMut {
        &mut self.received
    }

    async fn read_more(&mut self, patience: Option<Duration>) -> Option<io::Result<usize>> {
        match patience {
            Some(patience) => timeout(patience, self.read()).await.ok(),
            None => Some(self.read().await),
        }
    }

    fn begin_answer(&mut self, _: &mut Vec<u8>, head: AnswerHead<'_>) -> io::Result<()> {
        let is_interim = head.is_interim();
        let end = BodyEnd::here_if(head.is_whole());
        let head = head.for_http2();
        if is_interim {
            return self.respond.send_informational(head).map_err(Error::other);
        }
        self.begin(head, end)
    }

    async fn write(&mut self, pieces: [&[u8]; 2], end: BodyEnd) -> Result<(), ClientFailure> {
        let end = match self.unsent {
            Some(_) => BodyEnd::NotYet,
            None => end,
        };
        if self.is_ended || pieces == [b"", b""] && end == BodyEnd::NotYet {
            return Ok(());
        }
        let [first, second] = pieces;
        let patience = self.write_timeout;
        let sent = timeout(patience, async {
            if second.is_empty() {
                return self.send(first, end).await;
            }
            if !first.is_empty() {
                self.send(first, BodyEnd::NotYet).await?;
            }
            self.send(second, end).await
        });
        match sent.await {
            Ok(sent) => Ok(sent?),
            Err(_) => Err(ClientFailure::Unread),
        }
    }

    fn withhold_end(&mut self) {
        let stream = self.respond.stream_id().as_u32();
        self.unsent = self.sent.as_ref().map(|sent| sent.count(stream));
    }

    async fn sent(&mut self) -> Result<(), ClientFailure> {
        let Some(unsent) = &self.unsent else {
            return Ok(());
        };
        let Some(answer) = &mut self.answer else {
            return Ok(());
        };
        let sent = async {
            tokio::select! {
                biased;
                () = unsent.sent() => Ok(()),
                // What the client did not take is dropped.
                _ = poll_fn(|context| answer.poll_reset(context)) => {
                    Err(ErrorKind::ConnectionReset)
                }
            }
        };
        match timeout(self.write_timeout, sent).await {
            Ok(sent) => Ok(sent.map_err(Error::from)?),
            Err(_) => Err(ClientFailure::Unread),
        }
    }

    async fn end_answer(&mut self, trailers: Option<HeaderMap>) -> Result<(), ClientFailure> {
        self.unsent = None;
        if self.is_ended {
            return Ok(());
        }
        let answer = self
            .answer
            .as_mut()
            .ok_or(Error::from(ErrorKind::NotConnected))?;
        let ended = match trailers {
            Some(trailers) => answer.send_trailers(trailers),
            None => answer.send_data(Bytes::new(), true),
        };
        self.is_ended = true;
        Ok(ended.map_err(Error::other)?)
    }

    async fn left(&mut self) {
        // Either way the stream carries no answer any more.
        let _ = poll_fn(|context| match &mut self.answer {
            Some(answer) => answer.poll_reset(context),
            None => self.respond.poll_reset(context),
        })
        .await;
    }

    fn stream(&mut self) -> Option<&mut (impl AsyncRead + AsyncWrite + Send + Unpin)> {
        None::<&mut TcpStream>
    }
}
