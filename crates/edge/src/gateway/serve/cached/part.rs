//! Decides which part of a response the client gets, where the whole of it is stored or fetched for the cache.

use http::header::{ACCEPT_RANGES, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use sluicegate_base::received::ReceivedHead;
use sluicegate_http1::BodyFraming;

use super::transaction::OriginQuestion;
use crate::gateway::forwarded::ForwardedRequest;
use sluicegate_cache::conditions::{NOT_IN_304, is_unchanged};
use sluicegate_cache::ranges::{BodyRanges, RequestedRanges, relabel_unsatisfiable, requested};
use sluicegate_origin::request_failure::Result;

/// The part of a response that the client gets.
#[derive(Debug)]
pub(in super::super) enum ClientPart {
    /// The response as it is.
    AsItIs,
    /// The whole of a body of which ranges could be cut.
    Whole,
    /// The head.
    Head,
    /// The head of a body of which ranges could be cut.
    HeadOfWhole,
    /// A 304: the client has the response.
    NotModified,
    /// Ranges of a body of so many bytes.
    Ranges(BodyRanges, u64),
    /// A 416: the ranges are not in the body of so many bytes.
    Unsatisfiable(u64),
}

impl ClientPart {
    /// Returns the part of the origin's response that the client gets.
    pub(in super::super) fn of_origin(
        request: &ReceivedHead,
        response: (StatusCode, &HeaderMap),
        length: Option<u64>,
        forwarded: &ForwardedRequest,
    ) -> Self {
        match forwarded.cached.as_deref() {
            Some(transaction) if transaction.is_refresh() => Self::Head,
            Some(transaction) if transaction.question == OriginQuestion::Whole => {
                Self::of_whole(request, response, length)
            }
            _ => Self::AsItIs,
        }
    }

    /// Returns the part that the client of `request` gets of a whole response, whose body has so many bytes, if that is known.
    pub(super) fn of_whole(
        request: &ReceivedHead,
        (status, fields): (StatusCode, &HeaderMap),
        length: Option<u64>,
    ) -> Self {
        if is_unchanged(&request.headers, status, fields) {
            return Self::NotModified;
        }
        let Some(length) = length.filter(|_| status == StatusCode::OK) else {
            return match request.method {
                Method::HEAD => Self::Head,
                _ => Self::AsItIs,
            };
        };
        if request.method == Method::HEAD {
            return Self::HeadOfWhole;
        }
        let asked = (&request.method, &request.headers);
        match requested(asked, (status, fields), length) {
            RequestedRanges::Whole => Self::Whole,
            RequestedRanges::Unsatisfiable => Self::Unsatisfiable(length),
            RequestedRanges::Parts(parts) => {
                let ranges = BodyRanges::new(parts, length, fields.get(CONTENT_TYPE), boundary);
                Self::Ranges(ranges, length)
            }
        }
    }

    /// Changes status and fields of the whole response to those of the part.
    pub(in super::super) fn relabel(&self, status: &mut StatusCode, fields: &mut HeaderMap) {
        match self {
            Self::AsItIs | Self::Head => {}
            // RFC 9110 §9.3.2: an answer to HEAD has the fields of that to GET.
            Self::Whole | Self::HeadOfWhole => {
                fields.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
            }
            Self::NotModified => {
                *status = StatusCode::NOT_MODIFIED;
                for name in &NOT_IN_304 {
                    fields.remove(name);
                }
            }
            Self::Ranges(ranges, length) => {
                *status = StatusCode::PARTIAL_CONTENT;
                ranges.relabel(fields, *length);
            }
            Self::Unsatisfiable(length) => {
                *status = StatusCode::RANGE_NOT_SATISFIABLE;
                relabel_unsatisfiable(fields, *length);
            }
        }
    }

    /// Returns the framing of its body; `None` for the framing of the whole.
    pub(in super::super) fn framing(&self) -> Option<BodyFraming> {
        match self {
            Self::AsItIs | Self::Whole => None,
            Self::Head | Self::HeadOfWhole | Self::NotModified => Some(BodyFraming::None),
            Self::Ranges(ranges, _) => Some(BodyFraming::Length(ranges.length())),
            Self::Unsatisfiable(_) => Some(BodyFraming::Length(0)),
        }
    }

    /// Returns whether the client has all of its body.
    pub(in super::super) fn is_over(&self) -> bool {
        match self {
            Self::AsItIs | Self::Whole => false,
            Self::Head | Self::HeadOfWhole | Self::NotModified | Self::Unsatisfiable(_) => true,
            Self::Ranges(ranges, _) => ranges.is_over(),
        }
    }

    /// Passes the bytes on that the client gets of the next piece of the whole body.
    ///
    /// # Errors
    /// Those of `pass`.
    pub(in super::super) fn cut(
        &mut self,
        piece: &[u8],
        mut pass: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::AsItIs | Self::Whole => pass(piece),
            Self::Ranges(ranges, _) => ranges.cut(piece, pass),
            Self::Head | Self::HeadOfWhole | Self::NotModified | Self::Unsatisfiable(_) => Ok(()),
        }
    }
}

/// Returns a line that no body contains, except by chance: nobody can foresee it.
fn boundary() -> String {
    let mut random = [0; 16];
    // Without randomness the id of a request is as good: no body was written for it.
    if getrandom::fill(&mut random).is_err() {
        return sluicegate_decide::request_id::RequestId::next().to_string();
    }
    format!("{:032x}", u128::from_ne_bytes(random))
}
