//! Sends a stored response, whole or the part that the client asked for.
//!
//! The body is shared with the cache and with other clients, so its unread bytes need no permit; an encoder needs one.

use bytes::Bytes;
use http::StatusCode;
use http::header::{AGE, HeaderValue};
use sluicegate_base::{bounds, clock};
use sluicegate_http1::BodyFraming;

use super::super::body_change::answer_framing;
use super::super::client::RequestClient;
use super::super::head_writer::{NO_OTHERS, ResponseParts};
use super::super::response_body::{ContentWriter, JOINED_PIECE};
use super::super::session::ProxySession;
use super::ClientPart;
use super::transaction::StoredValidation;
use crate::gateway::answer;
use sluicegate_cache::memory_storage::StoredResponse;
use sluicegate_cache::moment;
use sluicegate_decide::admission::ResponseSource;
use sluicegate_origin::request_failure::Result;
use sluicegate_transport::body_end::BodyEnd;
use sluicegate_transport::thread_buffer::WriteBuffer;

impl<C: RequestClient> ProxySession<'_, '_, C> {
    /// Sends a stored response, and settles the charges by it.
    pub(super) async fn send_stored(
        &mut self,
        by: ResponseSource,
        (stored, validation): (StoredResponse, StoredValidation),
    ) -> Result<()> {
        let mut status = stored.head.status();
        self.context.settle_as(by, status, stored.head.fields());
        let mut fields = stored.head.fields().clone();
        if validation == StoredValidation::None {
            // RFC 9111 §4: a response that is served without validation has its age.
            let now = moment(clock::wall());
            let age = now.duration_since(stored.head.born()).unwrap_or_default();
            fields.insert(AGE, HeaderValue::from(age.as_secs()));
        }
        let length = Some(stored.body.len() as u64);
        let part = ClientPart::of_whole(self.exchange.head, (status, &fields), length);
        part.relabel(&mut status, &mut fields);
        let change = self.shape_response((status, length), &mut fields);
        answer::add_own_fields(&mut fields, self.context);
        // The origin has answered, or was not asked.
        self.forwarded.release_server();
        let reason = match status == stored.head.status() {
            true => stored.head.header().get_reason_phrase(),
            false => status.canonical_reason(),
        };
        let whole = match status {
            StatusCode::NO_CONTENT => BodyFraming::None,
            _ => BodyFraming::Length(stored.body.len() as u64),
        };
        let framing = answer_framing(&change, &part, whole, self.exchange);
        let mut out = WriteBuffer::take();
        let head = ResponseParts {
            status,
            reason: reason.unwrap_or_default().as_bytes(),
            fields,
        };
        self.exchange
            .begin_answer(&mut out, head, framing, NO_OTHERS)?;
        if self.forwarded.route.action.keeps_case() {
            stored.head.names().restore(&mut out);
        }
        let (body, part) = match change.page {
            Some(page) if framing == BodyFraming::None => (page.body, ClientPart::Head),
            Some(page) => (page.body, ClientPart::AsItIs),
            None => (stored.body, part),
        };
        let encoder = (change.encoder).filter(|_| part.framing().is_none());
        let encoder = ContentWriter::new(framing, encoder);
        self.send_body((out, body), part, encoder).await
    }

    /// Writes the head, which is in `out`, and the part of the body that the client gets.
    async fn send_body(
        &mut self,
        (mut out, mut body): (WriteBuffer, Bytes),
        mut part: ClientPart,
        mut encoder: ContentWriter,
    ) -> Result<()> {
        loop {
            let piece = body.split_to(body.len().min(bounds::STORED_PIECE));
            let is_copied = !encoder.passes_as_it_is()
                || !matches!(part, ClientPart::AsItIs | ClientPart::Whole)
                || piece.len() <= JOINED_PIECE;
            if is_copied {
                part.cut(&piece, |bytes| encoder.push(bytes, &mut out))?;
            } else {
                encoder.count(&piece);
            }
            let is_last = body.is_empty() || part.is_over();
            if is_last {
                encoder.finish(&mut out)?;
            }
            let end = if is_last {
                BodyEnd::Here
            } else {
                BodyEnd::NotYet
            };
            let as_stored = if is_copied { &[][..] } else { &piece[..] };
            self.exchange.write_pieces([&out, as_stored], end).await?;
            out.clear();
            self.exchange.body_bytes = encoder.content();
            if is_last {
                self.exchange.release_permits(self.context).await?;
                return self.exchange.end_answer(None).await;
            }
        }
    }
}
