//! Decides how the body of a response changes on its way to the client, and the framing and the end that follow from it.

use http::Method;
use sluicegate_http1::BodyFraming;

use super::cached::ClientPart;
use super::client::RequestClient;
use super::exchange::ClientExchange;
use crate::gateway::intercept::ReplacementPage;
use crate::gateway::shape::ChargedEncoder;
use sluicegate_transport::body_end::BodyEnd;

/// The changes of a response's body on its way to the client.
pub(super) struct BodyChange {
    pub(super) encoder: Option<Box<ChargedEncoder>>,
    pub(super) page: Option<Box<ReplacementPage>>,
}

/// Returns the position of a head in its message, whose body has this framing.
pub(super) fn end_at_head(body: BodyFraming) -> BodyEnd {
    BodyEnd::here_if(matches!(body, BodyFraming::None | BodyFraming::Length(0)))
}

/// Returns the framing of the answer that the client gets of a response, from the origin or stored, whose whole body has the framing
/// `whole`.
pub(super) fn answer_framing<C: RequestClient>(
    change: &BodyChange,
    part: &ClientPart,
    whole: BodyFraming,
    exchange: &mut ClientExchange<'_, C>,
) -> BodyFraming {
    match (&change.page, part.framing()) {
        // RFC 9110 §9.3.2: an answer to HEAD has no body.
        (Some(_), _) if exchange.head.method == Method::HEAD => BodyFraming::None,
        (Some(page), _) => BodyFraming::Length(page.body.len() as u64),
        (None, Some(framing)) => framing,
        (None, None) if change.encoder.is_some() => exchange.client_framing(BodyFraming::Chunked),
        (None, None) => exchange.client_framing(whole),
    }
}
