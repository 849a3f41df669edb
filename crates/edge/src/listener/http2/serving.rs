//! Serves the requests that come on streams: at once where a request waits for nothing, or else by a task of its own.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::response::{GatewayProblem, HttpViolation};
use sluicegate_http2::StreamEnd;

use super::StreamContext;
use super::receive_window::BodyWindow;
use super::stream::Http2Stream;
use super::stream_io::StreamIo;
use crate::gateway::{
    AnsweredRequest, DecidedRequest, RequestClient, ServingCourse, UnreadableHead,
};
use sluicegate_budgets::{ClientAccount, StreamPermit};
use sluicegate_transport::body_end::BodyEnd;
use sluicegate_transport::thread_buffer::WriteBuffer;

/// The problem of a head that breaks a rule of HTTP/2 or HTTP/3.
pub(crate) const MALFORMED: GatewayProblem = GatewayProblem::BadRequest(HttpViolation::Http2);

/// A stream for which there is room, in the account of its client and in all.
pub(crate) struct EnteredStream<S> {
    handle: S,
    window: Option<BodyWindow>,
    account: ClientAccount,
    permit: StreamPermit,
}

impl<S: StreamIo> EnteredStream<S> {
    /// Returns whether memory is reserved for its body.
    pub(crate) fn has_window(&self) -> bool {
        self.window.is_some()
    }

    /// Begins to serve it: its body has the `announced` length, if any, and each of its writes has this time.
    pub(super) fn begin(
        self,
        announced: Option<u64>,
        write_timeout: Duration,
    ) -> (Http2Stream<S>, StreamPermit) {
        let Self {
            handle,
            window,
            account,
            permit,
        } = self;
        let stream = Http2Stream::new(handle, window, account, announced, write_timeout);
        (stream, permit)
    }
}

impl StreamContext {
    /// Enters a stream whose head came; `None` where there is no room for it, and it was refused.
    pub(crate) fn enter_stream<S: StreamIo>(
        &self,
        handle: S,
        head: &ReceivedHead,
        end: StreamEnd,
    ) -> Option<EnteredStream<S>> {
        let account = self.account(&head.headers);
        let permit = self.enter(&account);
        let window = || self.reserve(head, end, &account);
        let Some((permit, window)) = permit.and_then(|permit| Some((permit, window()?))) else {
            handle.refuse();
            return None;
        };
        Some(EnteredStream {
            handle,
            window,
            account: account.into_owned(),
            permit,
        })
    }

    /// Serves the request of a stream.
    pub(crate) fn serve<S: StreamIo>(
        self: &Arc<Self>,
        entered: EnteredStream<S>,
        head: ReceivedHead,
        end: StreamEnd,
    ) {
        let decided = (self.gateway).decide_stream(head, end.is_here(), &self.facts);
        let patience = decided.server_rules().client_write_timeout;
        let (stream, permit) = entered.begin(decided.body_length(), patience);
        match decided.course(&[]) {
            ServingCourse::AtOnce(request) => self.answer(request, stream, permit),
            ServingCourse::Waits(request) => self.serve_request(request, stream, permit),
        }
    }

    /// Answers a head that breaks a rule.
    pub(crate) fn answer_malformed<S: StreamIo>(
        self: &Arc<Self>,
        handle: S,
        problem: GatewayProblem,
        head: UnreadableHead<'_>,
    ) {
        let facts = &self.facts;
        let patience = self
            .gateway
            .0
            .snapshot()
            .compiled
            .rules
            .server
            .client_write_timeout;
        let mut stream = Http2Stream::new(handle, None, facts.account.clone(), None, patience);
        let mut body = WriteBuffer::take();
        (self.gateway).answer_unreadable(
            problem,
            head,
            (&mut stream, facts),
            &self.shutdown,
            &mut body,
        );
        self.end(stream, &body, None);
    }

    /// Answers a request that waits for nothing.
    fn answer<S: StreamIo>(
        self: &Arc<Self>,
        request: AnsweredRequest,
        mut stream: Http2Stream<S>,
        permit: StreamPermit,
    ) {
        let mut body = WriteBuffer::take();
        (self.gateway).answer_at_once(request, &mut stream, &self.shutdown, &mut body);
        self.end(stream, &body, Some(permit));
    }

    /// Ends an answer with these bytes; where the client does not take them at once, by a task.
    fn end<S: StreamIo>(
        self: &Arc<Self>,
        mut stream: Http2Stream<S>,
        body: &[u8],
        permit: Option<StreamPermit>,
    ) {
        let Some(rest) = stream.end_now(body) else {
            return;
        };
        let rest = rest.to_vec();
        let shared = Arc::clone(&self.gateway.0);
        // A drain waits for it: the request was recorded, and its answer has not left.
        let in_flight = shared.recorder.metrics.in_flight();
        tokio::spawn(async move {
            let mut written = Box::pin(stream.write([&rest, b""], BodyEnd::Here));
            shared.cut_off.stream(written.as_mut()).await;
            drop((permit, in_flight));
        });
    }

    /// Serves a request by a task.
    fn serve_request<S: StreamIo>(
        self: &Arc<Self>,
        request: DecidedRequest,
        mut stream: Http2Stream<S>,
        permit: StreamPermit,
    ) {
        let context = Arc::clone(self);
        // Boxed: a task, which is copied several times, is as large as its largest state.
        self.spawn(
            permit,
            Box::pin(async move {
                let served =
                    (context.gateway).serve_request(request, &mut stream, &context.shutdown);
                served.await;
            }),
        );
    }

    /// Serves a stream, to whose end this permit is kept, by a task.
    pub(super) fn spawn(
        &self,
        permit: StreamPermit,
        mut served: Pin<Box<dyn Future<Output = ()> + Send>>,
    ) {
        let shared = Arc::clone(&self.gateway.0);
        tokio::spawn(async move {
            shared.cut_off.stream(served.as_mut()).await;
            drop(permit);
        });
    }
}
