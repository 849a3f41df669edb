//! Answers a head of which no request can be made: malformed, too large, or too late. The answer has the writer, the fields and
//! the record of any other rejection, but no route: nothing of the head is trusted.

use http::{Method, Uri, Version};
use pingora::server::ShutdownWatch;
use sluicegate_base::received::{ReceivedFields, ReceivedHead};
use sluicegate_decide::response::GatewayProblem;
use sluicegate_http1::{BodyFraming, first_words};

use super::client::{ConnectionFacts, RequestClient};
use super::exchange::ClientExchange;
use super::head_writer::ConnectionPersistence;
use super::received::RequestWire;
use crate::gateway::Gateway;
use crate::gateway::answer::FieldForm;
use crate::gateway::context::Context;
use crate::gateway::decide;
use crate::gateway::forward_auth::ForwardAuthAnswer;
use crate::gateway::record::{ClientResponse, RequestWords};
use crate::gateway::step::answer_to;

/// A head of which no request can be made.
#[derive(Clone, Copy, Debug)]
pub enum UnreadableHead<'a> {
    /// One of HTTP/1.1, with these bytes.
    Http1(&'a [u8]),
    /// One of HTTP/2, of which nothing is kept.
    Http2,
    /// One of HTTP/3, likewise.
    Http3,
}

impl<'a> UnreadableHead<'a> {
    /// Returns the words in place of method and target.
    fn words(self) -> (&'a [u8], &'a [u8]) {
        match self {
            Self::Http1(read) => first_words(read),
            Self::Http2 | Self::Http3 => (b"", b""),
        }
    }

    fn version(self) -> Version {
        match self {
            Self::Http1(_) => Version::HTTP_11,
            Self::Http2 => Version::HTTP_2,
            Self::Http3 => Version::HTTP_3,
        }
    }
}

impl Gateway {
    /// Answers a head that cannot be served with this problem, and records it: appends the answer to `into`. Over HTTP/1 it ends the
    /// connection.
    pub fn answer_unreadable<C: RequestClient>(
        &self,
        problem: GatewayProblem,
        head: UnreadableHead<'_>,
        (client, facts): (&mut C, &ConnectionFacts),
        shutdown: &ShutdownWatch,
        into: &mut Vec<u8>,
    ) {
        let (method, target) = head.words();
        let wire = RequestWire {
            // RFC 9110 §9.3.2: an answer to HEAD has no body, whatever else is wrong with the request.
            method: Method::from_bytes(method).unwrap_or_default(),
            framing: BodyFraming::None,
            persistence: ConnectionPersistence::Close,
            expects_continue: false,
            is_upgrade: false,
        };
        let received = ReceivedHead {
            method: wire.method.clone(),
            uri: Uri::default(),
            version: head.version(),
            headers: ReceivedFields::new(),
        };
        let in_flight = self.0.recorder.metrics.in_flight();
        let mut context = Context::new(self.0.snapshot(), in_flight);
        context.peer.clone_from(&facts.peer);
        context.secured = facts.client_secured().cloned();
        context.forward_auth = ForwardAuthAnswer::from_protocol(facts.protocol);
        let step = decide::reject_unread(problem, &mut context);
        let mut exchange =
            ClientExchange::new(client, &received, &wire, (&self.0, shutdown), &context);
        let answer = answer_to(step, &received, &mut context, FieldForm::Any);
        if let Err(failure) = exchange.append_answer(into, answer, &context) {
            self.note_failure(&failure, &mut context);
        }
        let response = ClientResponse {
            status: exchange.status,
            body_bytes: exchange.body_bytes,
            cache: None,
            origin: None,
        };
        let words = RequestWords { method, target };
        self.record_as(words, &received, &response, &context);
    }
}
