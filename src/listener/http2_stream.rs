//! Owns one stream of HTTP/2 while its request is served: the bytes of its body, and its answer.

use std::io::{Error, ErrorKind, Result};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use pingora::protocols::http::v2::server::HttpSession;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::gateway::{AnswerHead, BodyEnd, RequestClient};

/// A stream whose head was taken.
pub(super) struct Http2Stream {
    session: HttpSession,
    /// Bytes of the body that were received and not consumed.
    received: BytesMut,
    /// True once the body was read to its end.
    is_read: bool,
    /// True once the end of the answer was sent.
    is_ended: bool,
}

impl Http2Stream {
    /// Returns the stream of a session, each of whose writes has this time.
    pub(super) fn new(mut session: HttpSession, write_timeout: Duration) -> Self {
        session.set_write_timeout(Some(write_timeout));
        Self {
            is_read: session.is_body_done(),
            is_ended: false,
            session,
            received: BytesMut::new(),
        }
    }

    async fn read(&mut self) -> Result<usize> {
        if self.is_read {
            self.left().await;
            return Err(ErrorKind::ConnectionReset.into());
        }
        loop {
            match self.session.read_body_bytes().await {
                // A frame without data does not end the body.
                Ok(Some(bytes)) if bytes.is_empty() => {}
                Ok(Some(bytes)) => {
                    self.received.extend_from_slice(&bytes);
                    return Ok(bytes.len());
                }
                Ok(None) => {
                    self.is_read = true;
                    return Ok(0);
                }
                Err(error) => return Err(Error::other(error)),
            }
        }
    }
}

impl RequestClient for Http2Stream {
    fn received(&mut self) -> &mut BytesMut {
        &mut self.received
    }

    async fn read_more(&mut self, patience: Option<Duration>) -> Option<Result<usize>> {
        match patience {
            Some(patience) => timeout(patience, self.read()).await.ok(),
            None => Some(self.read().await),
        }
    }

    fn begin_answer(&mut self, _: &mut Vec<u8>, head: AnswerHead<'_>) -> Result<()> {
        let is_whole = head.is_whole();
        let head = Box::new(head.for_http2().map_err(Error::other)?);
        // Pingora drops interim answers.
        self.session
            .write_response_header(head, is_whole)
            .map_err(Error::other)?;
        self.is_ended |= is_whole;
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8], end: BodyEnd) -> Result<()> {
        let is_last = end == BodyEnd::Here;
        if self.is_ended || bytes.is_empty() && !is_last {
            return Ok(());
        }
        let bytes = Bytes::copy_from_slice(bytes);
        self.session
            .write_body(bytes, is_last)
            .await
            .map_err(Error::other)?;
        self.is_ended = is_last;
        Ok(())
    }

    fn write_trailers(&mut self, trailers: HeaderMap) -> Result<()> {
        self.is_ended = true;
        self.session.write_trailers(trailers).map_err(Error::other)
    }

    async fn left(&mut self) {
        // Either way the stream carries no answer any more.
        let _ = self.session.idle().await;
    }

    fn stream(&mut self) -> Option<&mut (impl AsyncRead + AsyncWrite + Send + Unpin)> {
        None::<&mut TcpStream>
    }
}
