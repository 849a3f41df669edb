//! Answers a head of HTTP/1.1 of which no request can be made: malformed, too large, or too late. The answer has the writer, the fields and
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
use crate::gateway::context::Context;
use crate::gateway::decide;
use crate::gateway::forward_auth::ForwardAuthAnswer;
use crate::gateway::record::{ClientResponse, RequestWords};
use crate::gateway::step::answer_to;

impl Gateway {
    /// Answers a head that cannot be served, whose bytes are `read`, with this problem, and records it: appends the answer to `into`. The
    /// connection ends with it.
    pub fn answer_unreadable<C: RequestClient>(
        &self,
        problem: GatewayProblem,
        read: &[u8],
        (client, facts): (&mut C, &ConnectionFacts),
        shutdown: &ShutdownWatch,
        into: &mut Vec<u8>,
    ) {
        let (method, target) = first_words(read);
        let wire = RequestWire {
            // RFC 9110 §9.3.2: an answer to HEAD has no body, whatever else is wrong with the request.
            method: Method::from_bytes(method).unwrap_or_default(),
            framing: BodyFraming::None,
            persistence: ConnectionPersistence::Close,
            expects_continue: false,
            is_upgrade: false,
        };
        let head = ReceivedHead {
            method: wire.method.clone(),
            uri: Uri::default(),
            version: Version::HTTP_11,
            headers: ReceivedFields::new(),
        };
        let in_flight = self.0.recorder.metrics.in_flight();
        let mut context = Context::new(self.0.snapshot(), in_flight);
        context.peer.clone_from(&facts.peer);
        context.secured = facts.client_secured().cloned();
        context.forward_auth = ForwardAuthAnswer::of(facts.protocol);
        let step = decide::reject_unread(problem, &mut context);
        let mut exchange = ClientExchange::new(client, &head, &wire, (&self.0, shutdown), &context);
        let answer = answer_to(step, &head, &mut context, exchange.field_form());
        if let Err(failure) = exchange.append_answer(into, answer) {
            self.note_failure(&failure, &mut context);
        }
        let response = ClientResponse {
            status: exchange.status,
            body_bytes: exchange.body_bytes,
            cache: None,
            origin: None,
        };
        let words = RequestWords { method, target };
        self.record_as(words, &head, &response, &context);
    }
}
