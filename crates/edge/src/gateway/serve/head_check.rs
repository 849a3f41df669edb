//! Checks the final head of a response of HTTP/1.1 beyond what its parser does, before anything of it is passed on.

use http::Method;
use sluicegate_http1::{
    AnsweredMethod, BodyFraming, ChunkDecoder, KnownField, ResponseHead, RuleViolation,
};

use super::chunk_limits::CHUNK_LIMITS;
use sluicegate_origin::request_failure::HeadFailure;

/// Checks the chunks that came with the head of a response to `method`: a malformed one is a failure of which the client gets 502, since
/// nothing was sent yet.
///
/// # Errors
/// The rule that they break.
pub(super) fn check_chunks(
    head: &ResponseHead,
    behind: &[u8],
    method: &Method,
) -> Result<(), RuleViolation> {
    let method = match *method {
        Method::HEAD => AnsweredMethod::Head,
        _ => AnsweredMethod::Other,
    };
    if !behind.is_empty() && head.framing(method) == BodyFraming::Chunked {
        return match ChunkDecoder::new(CHUNK_LIMITS).check(behind) {
            // The body is whole: its trailer is dropped.
            Ok(_) | Err(RuleViolation::Trailer) => Ok(()),
            Err(rule) => Err(rule),
        };
    }
    Ok(())
}

/// Checks that 101 switches to the protocol that the client asked for, which is WebSocket (RFC 9110 §7.8).
///
/// # Errors
/// It names another protocol, several or none.
pub(super) fn check_switch(head: &ResponseHead, read: &[u8]) -> Result<(), HeadFailure> {
    let fields = head.fields().iter(read);
    let mut protocols = fields.filter(|field| field.known() == KnownField::Upgrade);
    let first = protocols.next();
    if first.is_some_and(|first| first.value.eq_ignore_ascii_case(b"websocket"))
        && protocols.next().is_none()
    {
        return Ok(());
    }
    Err(HeadFailure::OtherProtocol)
}
