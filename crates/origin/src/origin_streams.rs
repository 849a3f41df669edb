//! Owns what a server has sent on each stream of a connection and its requests have not taken.

use std::collections::VecDeque;

use bytes::BytesMut;
use sluicegate_http2::{FieldLines, ResponseHead, StreamEnd, StreamId};

use super::interim::InterimHeads;
use crate::request_failure::{HeadFailure, OriginFailure};
use sluicegate_transport::task_waker::TaskWaker;

/// The streams of the requests of one connection.
#[derive(Debug, Default)]
pub(super) struct ResponseStreams(Vec<ResponseStream>);

/// A stream on which a request was sent.
#[derive(Debug)]
pub(super) struct ResponseStream {
    id: StreamId,
    /// Heads that were not taken: interim ones, and the final one.
    pub(super) heads: VecDeque<ResponseHead>,
    interim: InterimHeads,
    /// Content that was not taken. The window bounds it.
    pub(super) content: BytesMut,
    pub(super) trailers: Option<FieldLines>,
    pub(super) response: ReceivedResponse,
    /// The task that waits for an event of the stream.
    pub(super) waker: TaskWaker,
}

/// The progress of a response.
#[derive(Debug)]
pub(super) enum ReceivedResponse {
    /// More may come.
    Open,
    /// It has ended.
    Whole,
    /// Nothing more comes. The failure is there until it is taken.
    Failed(Option<OriginFailure>),
}

impl ResponseStreams {
    /// Adds a stream, whose number is greater than those before.
    pub(super) fn add(&mut self, id: StreamId) {
        self.0.push(ResponseStream {
            id,
            heads: VecDeque::new(),
            interim: InterimHeads::default(),
            content: BytesMut::new(),
            trailers: None,
            response: ReceivedResponse::Open,
            waker: TaskWaker::default(),
        });
    }

    /// Returns a stream.
    pub(super) fn find(&mut self, stream: StreamId) -> Option<&mut ResponseStream> {
        let at = self.0.binary_search_by_key(&stream, |open| open.id).ok()?;
        self.0.get_mut(at)
    }

    /// Removes a stream, whose request has ended.
    pub(super) fn remove(&mut self, stream: StreamId) {
        if let Ok(at) = self.0.binary_search_by_key(&stream, |open| open.id) {
            self.0.remove(at);
        }
    }

    /// Ends a stream with this failure.
    pub(super) fn fail(&mut self, stream: StreamId, failure: OriginFailure) {
        if let Some(open) = self.find(stream) {
            open.fail(failure);
        }
    }

    /// Ends all streams.
    pub(super) fn fail_all(&mut self, failure: impl Fn() -> OriginFailure) {
        for open in &mut self.0 {
            open.fail(failure());
        }
    }

    /// Releases memory that is not needed.
    pub(super) fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }
}

impl ResponseStream {
    /// Keeps a head until the request takes it.
    ///
    /// # Errors
    /// The interim heads are too many.
    pub(super) fn receive_head(
        &mut self,
        head: ResponseHead,
        end: StreamEnd,
    ) -> Result<(), HeadFailure> {
        if head.is_interim() {
            self.interim.count(head.fields().iter())?;
        }
        self.heads.push_back(head);
        self.receive_end(end);
        Ok(())
    }

    /// Keeps content until the request takes it.
    pub(super) fn receive_content(&mut self, content: &[u8], end: StreamEnd) {
        self.content.extend_from_slice(content);
        self.receive_end(end);
    }

    /// Returns whether the response has ended, and everything of it was taken but its trailers.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self.response, ReceivedResponse::Whole)
            && self.heads.is_empty()
            && self.content.is_empty()
    }

    fn receive_end(&mut self, end: StreamEnd) {
        if end.is_here() {
            self.response = ReceivedResponse::Whole;
        }
        self.waker.wake();
    }

    /// Ends the stream with this failure, unless its response is whole: then only the request is cut short.
    pub(super) fn fail(&mut self, failure: OriginFailure) {
        if let ReceivedResponse::Open = self.response {
            self.response = ReceivedResponse::Failed(Some(failure));
        }
        self.waker.wake();
    }
}
