//! Carries one request and its response on a stream of HTTP/2 to a server.
//!
//! A server may answer, or refuse the stream, before it has the whole request. A request that cannot be written any further therefore is no
//! failure yet: what the stream receives decides.

use std::io::{self, ErrorKind};
use std::mem;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use sluicegate_http2::{ErrorCode, FieldLines, RequestPseudoFields, ResponseHead, StreamId};

use super::http2_connections::StreamPlace;
use super::origin_streams::ReceivedResponse;
use crate::request_failure::{OriginFailure, RequestFailure, Result, StreamFailure};
use sluicegate_transport::body_end::BodyEnd;

/// A stream for one request.
pub(super) struct OriginStream {
    /// `None` until the request was sent.
    id: Option<StreamId>,
    /// True once the end of the request was sent.
    is_sent: bool,
    /// True once the final head was received.
    has_head: bool,
    /// True once the response was received to its end.
    is_ended: bool,
    trailers: Option<FieldLines>,
    /// Bytes of content that the caller has, and that the server may not send again yet: the client has to take them first.
    unreleased: usize,
    /// Declared last: the place is free once the stream is dropped.
    place: StreamPlace,
}

/// A step of the response.
pub(super) enum Received {
    /// A head, interim or final.
    Head(ResponseHead),
    /// So many bytes of content, 0 at the end.
    Content(usize),
}

impl OriginStream {
    /// Returns a stream on which nothing was sent.
    pub(super) fn new(place: StreamPlace) -> Self {
        Self {
            id: None,
            is_sent: false,
            has_head: false,
            is_ended: false,
            trailers: None,
            unreleased: 0,
            place,
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
    pub(super) fn send_head<'f>(
        &mut self,
        pseudo: RequestPseudoFields<'f>,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: BodyEnd,
    ) -> Result<()> {
        if self.id.is_some() {
            return Err(RequestFailure::internal("a stream carries one request"));
        }
        self.place.note_sent();
        let mut state = self.place.connection.lock();
        let sent = (state.connection).send_request(pseudo, fields, end.into());
        // The server has begun to close the connection, or takes fewer streams meanwhile.
        let refused = StreamFailure::Unprocessed(ErrorCode::REFUSED_STREAM);
        let id = sent.map_err(|_| OriginFailure::from(refused))?;
        state.streams.add(id);
        state.wake_driver();
        drop(state);
        self.id = Some(id);
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
        let Some(id) = self.id.filter(|_| !self.is_sent) else {
            return Poll::Ready(Ok(()));
        };
        if bytes.is_empty() && end == BodyEnd::NotYet {
            return Poll::Ready(Ok(()));
        }
        let mut state = self.place.connection.lock();
        let taken = (state.connection).send_data(id, bytes, end.into());
        let taken = taken.map_err(|_| io::Error::from(ErrorKind::BrokenPipe))?;
        state.wake_driver();
        bytes.advance(taken);
        if !bytes.is_empty() {
            if let Some(open) = state.streams.find(id) {
                open.waker.wait(context);
            }
            return Poll::Pending;
        }
        self.is_sent = end.is_here();
        Poll::Ready(Ok(()))
    }

    /// Receives the next step of the response; at most `most` bytes of content are appended to `into`. Then the server may send as much as
    /// the step before had.
    ///
    /// # Errors
    /// The server reset the stream, or the connection failed.
    pub(super) fn poll_receive(
        &mut self,
        context: &Context<'_>,
        into: &mut BytesMut,
        most: usize,
    ) -> Poll<Result<Received>> {
        let Some(id) = self.id else {
            return Poll::Pending;
        };
        let mut state = self.place.connection.lock();
        let released = mem::take(&mut self.unreleased);
        if released > 0 {
            state.connection.release(id, released);
            if !state.connection.output().is_empty() {
                state.wake_driver();
            }
        }
        let Some(open) = state.streams.find(id) else {
            return Poll::Ready(Err(RequestFailure::internal("a stream is not open")));
        };
        if let Some(head) = open.heads.pop_front() {
            self.has_head = !head.is_interim();
            self.is_ended = self.has_head && open.is_taken() && open.trailers.is_none();
            drop(state);
            return Poll::Ready(Ok(Received::Head(head)));
        }
        if open.content.is_empty() {
            match &mut open.response {
                ReceivedResponse::Open => {
                    open.waker.wait(context);
                    return Poll::Pending;
                }
                ReceivedResponse::Whole => {}
                ReceivedResponse::Failed(failure) => {
                    let failure = failure.take();
                    drop(state);
                    return Poll::Ready(Err(self.failed(failure).into()));
                }
            }
        }
        let bytes = open.content.len().min(most);
        if into.is_empty() && bytes == open.content.len() {
            mem::swap(into, &mut open.content);
        } else {
            into.extend_from_slice(&open.content[..bytes]);
            open.content.advance(bytes);
        }
        self.unreleased = bytes;
        self.is_ended = open.is_taken();
        if self.is_ended {
            self.trailers = open.trailers.take();
        }
        Poll::Ready(Ok(Received::Content(bytes)))
    }

    /// Returns whether the response has ended; its last bytes may have been received with its end.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Takes the trailers of a response that has ended.
    pub(super) fn take_trailers(&mut self) -> Option<HeaderMap> {
        header_map(self.trailers.take()?)
    }

    /// Returns the failure of the stream. That of one with a final head is a response that breaks off.
    fn failed(&self, failure: Option<OriginFailure>) -> OriginFailure {
        let failure =
            failure.unwrap_or_else(|| OriginFailure::Broken(ErrorKind::ConnectionReset.into()));
        match failure {
            OriginFailure::Broken(_) => failure,
            failure if self.has_head => {
                OriginFailure::Broken(io::Error::other(failure.to_string()))
            }
            failure => failure,
        }
    }
}

impl Drop for OriginStream {
    fn drop(&mut self) {
        let Some(id) = self.id else {
            return;
        };
        let mut state = self.place.connection.lock();
        state.connection.reset(id, ErrorCode::CANCEL);
        state.streams.remove(id);
        state.wake_driver();
    }
}

/// Returns the fields as a map; `None` where the http crate has no such field.
fn header_map(fields: FieldLines) -> Option<HeaderMap> {
    let (bytes, places) = fields.into_parts();
    let bytes: Bytes = bytes.freeze();
    let mut map = HeaderMap::with_capacity(places.len());
    for places in places {
        let name = HeaderName::from_bytes(bytes.get(places.name)?).ok()?;
        let value = HeaderValue::from_maybe_shared(bytes.slice(places.value)).ok()?;
        map.append(name, value);
    }
    Some(map)
}
