//! Applies a route's rules to requests and answers: header edits, the path that the origin gets, redirects.
//!
//! Edits apply after the other side's fields and before the gateway's own fields: they can override an origin, and cannot
//! override the fields about clients and limits. Templates read the request when they are expanded; routes without templates pay
//! nothing for them.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use sluicegate_base::host;
use sluicegate_base::path::{NormalPath, PathGroups};
use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::response::encoding::{self, EncodingPlan, EncodingRequest};
use sluicegate_decide::response::pages::{self, NegotiatedPage};
use sluicegate_decide::response::template::{TemplateValues, field, location};
use sluicegate_decide::response::{GatewayProblem, cors};
use tracing::warn;

use super::context::Context;
use crate::compression::compressor::BodyCompressor;
use crate::compression::encoder_size::EncoderSize;
use sluicegate_budgets::BytesPermit;
use sluicegate_config::rules::{FieldEdits, RedirectRules, ShapeRules};
use sluicegate_decide::request_head::RequestHead;
use sluicegate_origin::FieldEdit;

/// The kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerKind {
    /// The content that was asked for, or the origin's other answer.
    Content,
    /// An origin's failure with the gateway's page: the origin knows how long it may be cached.
    Intercepted,
    /// A rejection or a failure, with the gateway's page.
    Failure,
}

impl AnswerKind {
    /// Returns whether an edit of this field applies to such an answer: on a failure, fields that describe content or its
    /// lifetime do not apply.
    fn takes(self, name: &HeaderName) -> bool {
        let lasts = [header::CACHE_CONTROL, header::EXPIRES].contains(name);
        match self {
            Self::Content => true,
            Self::Intercepted => !OF_CONTENT.contains(name),
            Self::Failure => !OF_CONTENT.contains(name) && !lasts,
        }
    }
}

/// Fields that describe content.
pub(super) const OF_CONTENT: [HeaderName; 8] = [
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::ETAG,
    header::LAST_MODIFIED,
];

/// The encoder of a body, and the permit for its memory.
pub(super) struct ChargedEncoder {
    pub(super) compressor: BodyCompressor,
    _room: BytesPermit,
}

impl Context {
    /// Returns the shape rules: of the route, or of the whole file.
    pub(super) fn shape(&self) -> Option<&ShapeRules> {
        match &self.located {
            Some(located) => located.route.shape.as_deref(),
            None => self.snapshot.compiled.rules.shape.as_deref(),
        }
    }
}

/// Edits the fields of a request on its way to the origin.
pub(super) fn edit_request(fields: &mut dyn FieldEdit, request: &ReceivedHead, context: &Context) {
    if let Some(shape) = context.shape() {
        edit(
            fields,
            &shape.request,
            AnswerKind::Content,
            request,
            context,
        );
    }
}

/// Edits the fields of an answer on its way to the client, who sent `request`.
pub(super) fn edit_answer(
    fields: &mut HeaderMap,
    kind: AnswerKind,
    request: &ReceivedHead,
    context: &Context,
) {
    let Some(shape) = context.shape() else {
        return;
    };
    edit(fields, &shape.response, kind, request, context);
    let Some(rules) = &shape.cors else {
        return;
    };
    for name in &cors::OWN {
        fields.remove(name);
    }
    let located = context.located.as_ref();
    let cors_fields = match located.and_then(|located| located.preflight.as_ref()) {
        Some(method) => cors::preflight_fields(rules, method, &request.headers),
        None => cors::fields(rules, &request.headers),
    };
    for (name, value) in cors_fields {
        fields.append(name, value);
    }
}

/// Returns whether a page replaces an origin's answer with `status`.
pub(super) fn intercepts(status: StatusCode, context: &Context) -> bool {
    let shape = context.shape();
    shape.is_some_and(|shape| pages::intercepts(&shape.pages, status))
}

/// Returns the error page for this client.
pub(super) fn page(
    status: StatusCode,
    request: &ReceivedHead,
    context: &Context,
) -> NegotiatedPage {
    match context.shape() {
        Some(shape) => pages::choose(&shape.pages, status, &request.headers, context.request_id),
        None => NegotiatedPage::NoPage,
    }
}

/// Decides whether an answer of `status`, whose body has so many bytes if that is known, is compressed, and changes its fields accordingly.
/// Returns the encoder of its body, if it has one. `reserve` takes the memory of the encoder; without room the answer is sent as it is.
pub(super) fn begin_compression(
    fields: &mut HeaderMap,
    (status, length): (StatusCode, Option<u64>),
    request: &ReceivedHead,
    context: &Context,
    reserve: impl FnOnce(u64) -> Option<BytesPermit>,
) -> Option<ChargedEncoder> {
    let rules = context.shape()?.compress.as_ref()?;
    if status == StatusCode::NOT_MODIFIED {
        if let Some(weak) = encoding::validator_of_compressed(rules, &request.headers, fields) {
            fields.insert(header::ETAG, weak);
            vary_by_coding(fields);
        }
        return None;
    }
    let asked = EncodingRequest {
        version: request.version,
        headers: &request.headers,
    };
    let plan = encoding::plan(rules, &asked, (status, length), fields);
    if plan == EncodingPlan::LeaveAlone {
        return None;
    }
    vary_by_coding(fields);
    let EncodingPlan::Compress(coding) = plan else {
        return None;
    };
    let size = EncoderSize::new(coding, rules.level, length);
    // RFC 9110 §9.3.2: an answer to HEAD has the fields of that to GET, and no body.
    let encoder = match request.method {
        Method::HEAD => None,
        _ => {
            let room = reserve(size.bytes())?;
            match BodyCompressor::new(size) {
                Ok(compressor) => Some(ChargedEncoder {
                    compressor,
                    _room: room,
                }),
                Err(error) => {
                    warn!("an answer goes as it is, since there is no coder for it: {error}");
                    return None;
                }
            }
        }
    };
    let rewritten = encoding::rewrite(coding, fields);
    for name in rewritten.remove {
        fields.remove(name);
    }
    for (name, value) in rewritten.insert {
        fields.insert(name, value);
    }
    encoder
}

fn vary_by_coding(fields: &mut HeaderMap) {
    if let Some((name, value)) = encoding::vary(fields, "accept-encoding") {
        fields.append(name, value);
    }
}

/// Writes the target of a redirect.
pub(super) fn redirect(
    fields: &mut HeaderMap,
    rules: &RedirectRules,
    request: &ReceivedHead,
    context: &Context,
) -> Result<(), GatewayProblem> {
    let sent = RequestHead::from(request).path();
    let to = with_values(request, context, rules.groups.as_ref(), |values| {
        location(rules, values, sent)
    });
    let to = HeaderValue::try_from(to?).map_err(|_| GatewayProblem::Internal)?;
    fields.insert(header::LOCATION, to);
    Ok(())
}

fn edit(
    fields: &mut dyn FieldEdit,
    edits: &FieldEdits,
    kind: AnswerKind,
    request: &ReceivedHead,
    context: &Context,
) {
    if edits.is_empty() {
        return;
    }
    let groups = context.shape().and_then(|shape| shape.groups.as_ref());
    let is_meant = |name: &HeaderName| kind.takes(name);
    with_values(request, context, groups, |values| {
        for name in edits.remove.iter().filter(|name| is_meant(name)) {
            fields.remove(name);
        }
        for (name, template) in edits.set.iter().filter(|(name, _)| is_meant(name)) {
            match field(template, values) {
                Some(value) => fields.insert(name.clone(), value),
                // An invalid template result removes the field, so that the other side's value does not pass for the operator's.
                None => fields.remove(name),
            }
        }
        for (name, template) in edits.add.iter().filter(|(name, _)| is_meant(name)) {
            if let Some(value) = field(template, values) {
                fields.append(name.clone(), value);
            }
        }
    });
}

/// Calls `then` with the request's values for templates.
fn with_values<T>(
    request: &ReceivedHead,
    context: &Context,
    groups: Option<&PathGroups>,
    then: impl FnOnce(&TemplateValues<'_>) -> T,
) -> T {
    let head = RequestHead::from(request);
    let path = NormalPath::parse(head.target).ok();
    let (client, _) = context.client_or_unspecified();
    then(&TemplateValues {
        client,
        host: &host::normalize(head.host()).unwrap_or_default(),
        path: path.as_ref().map_or("", NormalPath::as_str),
        query: head.query(),
        route: (context.located.as_ref()).map_or("", |located| &located.route.name),
        request_id: context.request_id,
        groups,
    })
}
