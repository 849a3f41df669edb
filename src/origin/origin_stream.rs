//! Carries one request and its response on a stream of HTTP/2 to a server.
//!
//! A server may answer, or refuse the stream, before it has the whole request. A request that cannot be written any further therefore is no
//! failure yet: what the stream receives decides.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, HeaderMap};
use http::{Request, response};
use sluicegate_base::bounds::LARGEST_FRAME;

use super::http2_connections::{NewStream, StreamPlace};
use super::interim::InterimHeads;
use crate::body_end::BodyEnd;
use crate::failure::{HeadFailure, OriginFailure, RequestFailure, Result, StreamFailure};

/// A stream for one request.
pub(super) struct OriginStream {
    /// `None` once the request was sent.
    new: Option<h2::client::SendRequest<Bytes>>,
    request: Option<SendStream<Bytes>>,
    response: ResponseState,
    /// True once the end of the request was sent.
    is_sent: bool,
    trailers: Option<HeaderMap>,
    /// Bytes of content that the caller has, and that the server may not send again yet: the client has to take them first.
    unreleased: usize,
    /// Content that came meanwhile.
    collected: BytesMut,
    /// Interim heads that were received and not passed on.
    interim: VecDeque<Box<response::Parts>>,
    counted: InterimHeads,
    /// Declared last: the place is free once the stream is dropped.
    place: StreamPlace,
}

/// The progress of the response.
enum ResponseState {
    /// The request was not sent.
    Unasked,
    Head(ResponseFuture),
    Body(RecvStream),
    Ended,
}

/// A step of the response.
pub(super) enum Received {
    /// A head, interim or final.
    Head(Box<response::Parts>),
    /// So many bytes of content, 0 at the end.
    Content(usize),
}

impl OriginStream {
    /// Returns a stream on which nothing was sent.
    pub(super) fn new(stream: NewStream) -> Self {
        Self {
            new: Some(stream.sender),
            request: None,
            response: ResponseState::Unasked,
            is_sent: false,
            trailers: None,
            unreleased: 0,
            collected: BytesMut::new(),
            interim: VecDeque::new(),
            counted: InterimHeads::default(),
            place: stream.place,
        }
    }

    /// Returns the place of the stream on its connection.
    pub(super) fn place(&self) -> &StreamPlace {
        &self.place
    }

    /// Sends the head of the request, which has a body unless `end` is here.
    ///
    /// # Errors
    /// The connection is closing.
    pub(super) fn send_head(&mut self, request: Request<()>, end: BodyEnd) -> Result<()> {
        let Some(mut sender) = self.new.take() else {
            return Err(RequestFailure::internal("a stream carries one request"));
        };
        let (response, body) = sender
            .send_request(request, end.is_here())
            .map_err(|error| self.unanswered(error))?;
        self.place.note_sent();
        self.response = ResponseState::Head(response);
        self.request = Some(body);
        self.is_sent = end.is_here();
        Ok(())
    }

    /// Sends `bytes` of the body, and its end if that is here, as far as the windows allow.
    ///
    /// # Errors
    /// The stream takes no more of the request; what it receives says why.
    pub(super) fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        bytes: &mut BytesMut,
        end: BodyEnd,
    ) -> Poll<io::Result<()>> {
        let Some(body) = self.request.as_mut().filter(|_| !self.is_sent) else {
            return Poll::Ready(Ok(()));
        };
        while !bytes.is_empty() {
            body.reserve_capacity(bytes.len());
            let mut free = body.capacity();
            if free == 0 {
                match ready!(body.poll_capacity(context)) {
                    Some(Ok(bytes)) => free = bytes,
                    Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                    None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                }
            }
            let piece = bytes.split_to(free.min(bytes.len())).freeze();
            self.place.note_data(piece.len());
            let is_last = end.is_here() && bytes.is_empty();
            body.send_data(piece, is_last).map_err(io::Error::other)?;
            self.is_sent |= is_last;
        }
        if end.is_here() && !self.is_sent {
            body.send_data(Bytes::new(), true)
                .map_err(io::Error::other)?;
            self.is_sent = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Receives the next step of the response; at most `most` bytes of content, which is a frame at least, are appended to `into`. Then the
    /// server may send as much as the step before had.
    ///
    /// # Errors
    /// The server reset the stream, or the connection failed.
    pub(super) fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        into: &mut BytesMut,
        most: usize,
    ) -> Poll<Result<Received>> {
        self.poll_interim(context)?;
        if let Some(interim) = self.interim.pop_front() {
            return Poll::Ready(Ok(Received::Head(interim)));
        }
        match &mut self.response {
            ResponseState::Unasked => Poll::Pending,
            ResponseState::Head(response) => {
                let answer = ready!(Pin::new(response).poll(context));
                let (head, body) = answer.map_err(|error| self.unanswered(error))?.into_parts();
                check_head(&head)?;
                self.response = if body.is_end_stream() {
                    ResponseState::Ended
                } else {
                    ResponseState::Body(body)
                };
                Poll::Ready(Ok(Received::Head(Box::new(head))))
            }
            ResponseState::Body(_) => {
                let content = ready!(self.poll_content(context, into, most))?;
                Poll::Ready(Ok(Received::Content(content)))
            }
            ResponseState::Ended => Poll::Ready(Ok(Received::Content(0))),
        }
    }

    /// Takes the interim heads that came from the h2 crate, which keeps any number of them.
    ///
    /// # Errors
    /// They are too many, or the stream failed.
    pub(super) fn poll_interim(&mut self, context: &mut Context<'_>) -> Result<()> {
        while let ResponseState::Head(response) = &mut self.response
            && let Poll::Ready(Some(interim)) = response.poll_informational(context)
        {
            let (head, ()) = interim
                .map_err(|error| self.unanswered(error))?
                .into_parts();
            self.counted
                .count(&head.headers)
                .map_err(OriginFailure::from)?;
            self.interim.push_back(Box::new(head));
        }
        Ok(())
    }

    fn poll_content(
        &mut self,
        context: &mut Context<'_>,
        into: &mut BytesMut,
        most: usize,
    ) -> Poll<Result<usize>> {
        let ResponseState::Body(body) = &mut self.response else {
            return Poll::Ready(Ok(0));
        };
        let released = mem::take(&mut self.unreleased);
        if released > 0 {
            // A stream that has ended since then has nothing to release; what it receives says why.
            let _ = body.flow_control().release_capacity(released);
        }
        if !self.collected.is_empty() {
            let bytes = self.collected.len().min(most);
            if into.is_empty() && bytes == self.collected.len() {
                *into = mem::take(&mut self.collected);
            } else {
                into.extend_from_slice(&self.collected[..bytes]);
                self.collected.advance(bytes);
            }
            self.unreleased = bytes;
            return Poll::Ready(Ok(bytes));
        }
        let before = into.len();
        let here = body.flow_control().used_capacity().min(most);
        if into.is_empty() && into.try_reclaim(here + LARGEST_FRAME) {
            // The content may wait for its client: a larger buffer would wait with it.
            *into = BytesMut::with_capacity(here);
        } else {
            // At once: what grows by doubling has room for more than it gets.
            into.reserve(here);
        }
        // Of the frames that are here, those that are read together.
        while into.len() - before + LARGEST_FRAME <= most {
            match body.poll_data(context) {
                Poll::Ready(Some(Ok(data))) => {
                    into.extend_from_slice(&data);
                    self.unreleased += data.len();
                }
                Poll::Ready(Some(Err(error))) if into.len() == before => {
                    return Poll::Ready(Err(broken(error).into()));
                }
                // The next call gets it again.
                Poll::Ready(Some(Err(_))) => break,
                Poll::Ready(None) => {
                    let trailers = match body.poll_trailers(context) {
                        Poll::Ready(trailers) => trailers,
                        Poll::Pending if into.len() > before => break,
                        Poll::Pending => return Poll::Pending,
                    };
                    self.trailers = match trailers {
                        Ok(trailers) => trailers,
                        // The server wants no more of the request, RFC 9113 §8.1.
                        Err(error) if is_graceful(&error) => None,
                        Err(error) => return Poll::Ready(Err(broken(error).into())),
                    };
                    self.response = ResponseState::Ended;
                    break;
                }
                Poll::Pending if into.len() > before => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(into.len() - before))
    }

    /// Takes the content that came from the h2 crate, where a frame may hold twice its bytes, for the next call of
    /// [`Self::poll_receive`], which gets the end of the content and errors. The window bounds it.
    pub(super) fn collect(&mut self, context: &mut Context<'_>) {
        let ResponseState::Body(body) = &mut self.response else {
            return;
        };
        while let Poll::Ready(Some(Ok(data))) = body.poll_data(context) {
            if self.collected.is_empty() {
                // What the window allows beside the bytes that the client has not taken.
                let window = self.place.window as usize;
                self.collected = BytesMut::with_capacity(window.saturating_sub(self.unreleased));
            }
            self.collected.extend_from_slice(&data);
        }
    }

    /// Gives up the response, of which nothing more is received: the stream is reset.
    pub(super) fn cancel(&mut self) {
        self.request = None;
        self.response = ResponseState::Unasked;
        self.interim.clear();
    }

    /// Returns whether the response has ended; its last bytes may have been received with its end.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.response, ResponseState::Ended)
    }

    /// Takes the trailers of a response that has ended.
    pub(super) fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }

    /// Returns the failure of a stream without a final head.
    fn unanswered(&self, error: h2::Error) -> OriginFailure {
        let reason = error.reason();
        let is_reset = error.is_reset() && error.is_remote();
        let is_goaway = error.is_go_away();
        if is_goaway || error.is_io() {
            self.place.close_connection();
        }
        if error.is_io() && self.place.is_flooded() {
            return OriginFailure::Stream(StreamFailure::Flooded, error);
        }
        if error.is_io() {
            return broken(error);
        }
        let failure = if error.is_remote() && reason == Some(Reason::HTTP_1_1_REQUIRED)
            || is_goaway && error.is_library() && is_malformed(reason)
        {
            StreamFailure::NotHttp2
        } else if is_goaway && error.is_remote()
            || is_reset && reason == Some(Reason::REFUSED_STREAM)
        {
            StreamFailure::Unprocessed
        } else if error.is_library() {
            StreamFailure::BrokenRule
        } else {
            StreamFailure::Reset
        };
        OriginFailure::Stream(failure, error)
    }
}

/// Returns whether the other side ends a stream or a connection without an error.
fn is_graceful(error: &h2::Error) -> bool {
    error.is_remote() && error.reason() == Some(Reason::NO_ERROR)
}

/// Returns whether the h2 crate ends a connection for this reason because the bytes of the other side are not HTTP/2. The first bytes of
/// an answer of HTTP/1 are the length of too large a frame.
fn is_malformed(reason: Option<Reason>) -> bool {
    matches!(
        reason,
        Some(Reason::PROTOCOL_ERROR | Reason::FRAME_SIZE_ERROR)
    )
}

/// Checks what a final head must be beyond the rules of HTTP/2, which the h2 crate checks: RFC 9110 §8.6 forbids two lengths.
fn check_head(head: &response::Parts) -> Result<(), OriginFailure> {
    let mut lengths = head.headers.get_all(CONTENT_LENGTH).iter();
    let first = lengths.next();
    if lengths.any(|other| Some(other) != first) {
        return Err(HeadFailure::TwoLengths.into());
    }
    Ok(())
}

/// Returns the failure of a stream that broke.
fn broken(error: h2::Error) -> OriginFailure {
    OriginFailure::Broken(io::Error::other(error))
}
