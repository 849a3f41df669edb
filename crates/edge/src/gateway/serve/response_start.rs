//! Begins the answer to the client by the head of an origin's response: judges the head, settles the charges by it, and writes the head of
//! the answer.

use bytes::Buf;
use http::{HeaderMap, Method, StatusCode};
use sluicegate_base::clock;
use sluicegate_base::reported_cost::CostReader;
use sluicegate_http1::{AnsweredMethod, BodyFraming, ConnectionOptions};

use super::after_response::{AfterAttempt, drop_read};
use super::attempt_io::facts;
use super::body_change::{BodyChange, answer_framing, end_at_head};
use super::cached::{self, BodyFill, BodyTap, ClientPart};
use super::client::RequestClient;
use super::field_sink::FieldSink;
use super::head_writer::{ResponseParts, passes_length};
use super::response_body::{ContentWriter, ResponseBody};
use super::response_head::{FinalHead, standard_reason, stated_length};
use super::response_split::{FieldHandling, MappedFields};
use super::session::ProxySession;
use crate::gateway::attempts::AnswerUse;
use crate::gateway::forwarded::OriginHead;
use crate::gateway::intercept::{self, ReplacementPage};
use crate::gateway::shape::{self, AnswerKind};
use crate::gateway::{answer, attempts, unread};
use sluicegate_cache::freshness::BodyState;
use sluicegate_cache::name_case::ReceivedNames;
use sluicegate_config::rules::HeaderCase;
use sluicegate_origin::request_failure::Result;
use sluicegate_origin::{IdleCheck, OriginChannel, strip_hop_by_hop};
use sluicegate_transport::body_end::BodyEnd;
use sluicegate_transport::thread_buffer::WriteBuffer;

/// A response whose head was judged.
pub(super) enum JudgedResponse {
    /// The client gets the stored response instead; the origin's has ended, or its connection is closed.
    Stored(AfterAttempt),
    /// The request is sent again.
    Repeat,
    /// The connection carries another protocol behind this head.
    Tunnel(WriteBuffer),
    /// The client gets the response.
    Passed(PassedResponse),
}

/// A response of the origin by which the charges were settled. The client gets all of it, a part, or a page in its place.
struct SettledResponse<'a> {
    head: &'a FinalHead,
    /// The bytes of the head.
    read: &'a [u8],
    /// The fields of the head that are in `parts`.
    mapped: MappedFields,
    names: ReceivedNames,
    parts: ResponseParts<'a>,
    received: BodyFraming,
    part: ClientPart,
    fill: Option<Box<BodyFill>>,
    costs: Vec<CostReader>,
    /// The decision of the head over the connection, once the body has ended exactly.
    by_head: AfterAttempt,
}

/// A response on its way to the client.
pub(super) struct PassedResponse {
    /// The head, which is written with the first bytes of the body.
    pub(super) out: WriteBuffer,
    pub(super) body: ResponseBody,
    /// The page that stands in for the body.
    pub(super) page: Option<Box<ReplacementPage>>,
    /// The decision of the head over the connection, once the body has ended exactly.
    pub(super) by_head: AfterAttempt,
}

impl<C: RequestClient> ProxySession<'_, '_, C> {
    /// Judges the head, whose bytes were read, settles the charges by it, and writes the head for the client.
    pub(super) fn begin_response(
        &mut self,
        origin: &mut OriginChannel,
        head: FinalHead,
    ) -> Result<JudgedResponse> {
        let read = &origin.read[..head.bytes()];
        let options = head.options(read);
        let status = head.status()?;
        let request = self.exchange.head;
        let mapped = MappedFields::needed((status, options), self.forwarded, self.context);
        let received = head.framing(self.answered_method(), request.version);
        if received == BodyFraming::None || !is_empty(self.exchange.body.framing) {
            // A server that misreads the end of a body, or sends one that nobody expects, sends bytes behind its response.
            origin.idle_check = IdleCheck::Socket;
        }
        origin.announced_idle = head.announced_idle(read);
        let names = match self.forwarded.pool.rules.header_case {
            HeaderCase::AsSent => head.names(read),
            HeaderCase::Lower => ReceivedNames::default(),
        };
        let mut fields = head.mapped_fields(read, mapped);
        let mapped = mapped.found(fields.len());
        let answer = OriginHead {
            status,
            length: received.length(),
            ahead: origin.ahead(),
        };
        if self.note_response(answer) == AnswerUse::Repeat {
            return Ok(JudgedResponse::Repeat);
        }
        strip_hop_by_hop(&mut fields, status);
        if self.sends_stored(status, (&fields, &names))? {
            origin.read.advance(head.bytes());
            let after = drop_read(origin, received, after_head(&head, received, options))?;
            return Ok(JudgedResponse::Stored(after));
        }
        let length = received.length();
        let part = ClientPart::of_origin(request, (status, &fields), length, self.forwarded);
        let costs = self.settle_charges(status, &mut fields, head_end(received, &part))?;
        let parts = ResponseParts {
            status,
            reason: head.reason(read, status),
            fields,
        };
        let body_state = if received == BodyFraming::UntilClose && !origin.is_http2() {
            BodyState::UntilClose
        } else {
            BodyState::Delimited
        };
        let fill = self.begin_fill((&parts, &names), body_state)?;
        let settled = SettledResponse {
            head: &head,
            read,
            mapped,
            names,
            parts,
            received,
            part,
            fill,
            costs,
            by_head: after_head(&head, received, options),
        };
        let passed = self.begin_answer(settled)?;
        origin.read.advance(head.bytes());
        Ok(match status {
            StatusCode::SWITCHING_PROTOCOLS => JudgedResponse::Tunnel(passed.out),
            _ => JudgedResponse::Passed(passed),
        })
    }

    /// Makes of a settled response the answer to the client: writes its head, and begins its body.
    fn begin_answer(&mut self, settled: SettledResponse<'_>) -> Result<PassedResponse> {
        let SettledResponse {
            head,
            read,
            mapped,
            mut parts,
            received,
            part,
            ..
        } = settled;
        // Fields of the gateway's own that are merged with none of the origin's are written as bytes.
        let writes_own = mapped == MappedFields::None;
        let status = parts.status;
        part.relabel(&mut parts.status, &mut parts.fields);
        let sent = parts.status;
        if sent != status {
            parts.reason = standard_reason(sent);
        }
        let shaped = (sent, stated_length(received, &parts.fields));
        let change = self.shape_response(shaped, &mut parts.fields);
        if !writes_own {
            if change.page.is_some() {
                // A page of the gateway may name the id of the request.
                parts.fields.remove("x-request-id");
            }
            let other_id = answer::other_request_id(&parts.fields, self.context);
            self.forwarded.origin_id = other_id.cloned();
            answer::add_own_fields(&mut parts.fields, self.context);
        }
        let framing = answer_framing(&change, &part, received, self.exchange);
        let encoder = (change.encoder).filter(|_| part.framing().is_none());
        let encoder = ContentWriter::new(framing, encoder);
        let tap = BodyTap::new(settled.fill, part, settled.costs);
        let mut out = WriteBuffer::take();
        let length = match passes_length(sent, framing) {
            true => FieldHandling::Copied,
            false => FieldHandling::Dropped,
        };
        let context = &*self.context;
        let write_others = |into: &mut dyn FieldSink| {
            let has_date = head.write_others(into, read, mapped, length);
            if writes_own {
                answer::write_own_fields(into, context);
            }
            has_date
        };
        self.exchange
            .begin_answer(&mut out, parts, framing, &write_others)?;
        settled.names.restore(&mut out);
        let received = head.received_framing(received);
        let body = ResponseBody::begin(received, encoder, tap, &mut out)?;
        Ok(PassedResponse {
            out,
            body,
            page: change.page,
            by_head: settled.by_head,
        })
    }

    /// Makes of the fields of a response, of the origin or stored, those for the client. Its body has so many bytes, if that is known.
    pub(super) fn shape_response(
        &self,
        (status, length): (StatusCode, Option<u64>),
        fields: &mut HeaderMap,
    ) -> BodyChange {
        let request = self.exchange.head;
        let forwarded = &*self.forwarded;
        let context = &*self.context;
        let page = intercept::page(request, status, context).map(Box::new);
        let mut kind = AnswerKind::Content;
        if let Some(page) = &page {
            intercept::relabel(fields, page);
            kind = AnswerKind::Intercepted;
        }
        if let Some(transaction) = &forwarded.cached {
            transaction.write_status(fields);
        }
        shape::edit_answer(fields, kind, request, context);
        let shared = &self.gateway.0;
        let reserve = |bytes| unread::reserve_encoder(shared, bytes, forwarded, context);
        let encoder = match page {
            Some(_) => None,
            None => {
                let answer = (status, length);
                shape::begin_compression(fields, answer, request, context, reserve).map(Box::new)
            }
        };
        attempts::give_cookie(fields, facts(self.exchange), forwarded, context);
        BodyChange { encoder, page }
    }

    /// Notes the final head of an origin, and judges the server by it.
    fn note_response(&mut self, answer: OriginHead) -> AnswerUse {
        let exchange = &*self.exchange;
        let forwarded = &mut *self.forwarded;
        forwarded.attempt.answer = Some(answer);
        let started = forwarded.attempt.started;
        // A client that sends its body slowly says nothing of the server.
        if exchange.body.is_over() {
            (forwarded.pool.latency).record(|| exchange.body.server_time(started));
        }
        let answer_use = attempts::judge(facts(exchange), answer.status, forwarded, self.context);
        if answer_use == AnswerUse::Pass && forwarded.wait.is_none() {
            forwarded.wait = Some(clock::since(started));
        }
        answer_use
    }

    /// Returns the method whose response the origin sends.
    fn answered_method(&self) -> AnsweredMethod {
        match *cached::sent_method(self.exchange.head, self.forwarded) {
            Method::HEAD => AnsweredMethod::Head,
            _ => AnsweredMethod::Other,
        }
    }

    /// Settles the charges by a response, once its client's unread bytes have room, and removes the fields that no client gets. Returns the
    /// readers of the costs in its body, for the charges that wait for its end.
    ///
    /// # Errors
    /// There is no room.
    fn settle_charges(
        &mut self,
        status: StatusCode,
        fields: &mut HeaderMap,
        head_end: BodyEnd,
    ) -> Result<Vec<CostReader>> {
        let gateway = self.gateway;
        let request = self.exchange.head;
        if head_end == BodyEnd::NotYet {
            unread::reserve_announced(&gateway.0, request.version, self.forwarded, self.context)?;
        }
        gateway.invalidate(request, status, self.context);
        self.context.settle(status, fields);
        let limits = &self.forwarded.route.compiled.limits;
        for name in limits.confidential() {
            fields.remove(name);
        }
        Ok(match self.context.is_pending() {
            true => limits.cost_readers(fields),
            false => Vec::new(),
        })
    }
}

/// Returns the decision of a head over the connection, on which a body with this framing follows.
fn after_head(head: &FinalHead, body: BodyFraming, options: ConnectionOptions) -> AfterAttempt {
    if body != BodyFraming::UntilClose && head.keeps_connection(options) {
        AfterAttempt::Keep
    } else {
        AfterAttempt::Close
    }
}

/// Returns whether the head ends the answer that the client gets of a response with this framing.
fn head_end(framing: BodyFraming, part: &ClientPart) -> BodyEnd {
    end_at_head(part.framing().unwrap_or(framing))
}

fn is_empty(framing: BodyFraming) -> bool {
    end_at_head(framing).is_here()
}
