//! Writes the gateway's own answers, and adds the request id and the RateLimit fields to those of the origin.
//!
//! A rejection keeps the connection: a small body that was already sent is drained, a large one is not read to its end.

use bytes::Bytes;
use http::header::{
    ALLOW, ALT_SVC, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
    STRICT_TRANSPORT_SECURITY, VARY,
};
use http::{HeaderMap, Method, StatusCode};
use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::rejection::RejectionReason;
use sluicegate_decide::response::pages::NegotiatedPage;
use sluicegate_decide::response::{
    GatewayProblem, GrpcDialect, GrpcStatus, LimitFields, MergeRule, PROBLEM_JSON, RATE_LIMIT,
    RATE_LIMIT_POLICY, RefusalResponse, XRateLimit, key_missing, merge, rate_limit,
};
use sluicegate_http1::BodyFraming;

use super::context::Context;
use super::labels;
use super::serve::FieldSink;
use super::shape::{self, AnswerKind};
use super::step::RefusedRequest;
use sluicegate_config::rules::{FixedResponse, RedirectRules};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Fields for which an answer has room from the beginning: most have no more.
const USUAL_FIELDS: usize = 12;

/// The form of the fields of an answer that its receiver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldForm {
    /// Fields in any form, or a map.
    Any,
    /// A map.
    Map,
}

/// A rejection whose fields no edit of the route changes.
struct UneditedRefusal {
    response: RefusalResponse,
    reason: RejectionReason,
}

/// An answer that the gateway writes itself.
pub(super) struct OwnAnswer {
    /// Its status.
    pub(super) status: StatusCode,
    /// Its fields, without those that frame it.
    pub(super) fields: HeaderMap,
    /// The rejection whose fields are written by [`OwnAnswer::write_others`]: none of them is in the map or is `Date`.
    unedited: Option<UneditedRefusal>,
    /// Its body, which a request with HEAD does not get.
    pub(super) body: Bytes,
}

impl OwnAnswer {
    /// Returns an answer with this status and the fields that each answer has.
    fn with_status(status: StatusCode, context: &Context) -> Self {
        let mut fields = HeaderMap::with_capacity(USUAL_FIELDS);
        fields.insert(X_REQUEST_ID, context.request_id.as_header_value());
        if let Some(value) = strict_transport(context) {
            fields.insert(STRICT_TRANSPORT_SECURITY, value.clone());
        }
        if let Some(value) = alternative_service(context) {
            fields.insert(ALT_SVC, value.clone());
        }
        Self {
            status,
            fields,
            unedited: None,
            body: Bytes::new(),
        }
    }

    /// Returns the answer of a rejection whose fields no edit of the route changes.
    fn unedited(response: RefusalResponse, reason: RejectionReason) -> Self {
        Self {
            status: response.status,
            fields: HeaderMap::new(),
            body: response.body.clone(),
            unedited: Some(UneditedRefusal { response, reason }),
        }
    }

    /// Writes the fields that are not in the map.
    pub(super) fn write_others(&self, into: &mut dyn FieldSink, context: &Context) {
        let Some(UneditedRefusal { response, reason }) = &self.unedited else {
            return;
        };
        write_fields_of_each(into, context);
        if let Some(seconds) = response.retry_after {
            write_number(into, &RETRY_AFTER, seconds);
        }
        if reason.shows_status() {
            write_limit_fields(into, context);
        }
        response.each_field(|name, value| into.write(name.as_str().as_bytes(), value));
    }

    /// Returns the answer to `request` with the edits of the route.
    fn edited(mut self, kind: AnswerKind, request: &ReceivedHead, context: &Context) -> Self {
        shape::edit_answer(&mut self.fields, kind, request, context);
        if let Some(asked) = &context.forward_auth {
            asked.adapt(&mut self.status, &mut self.fields, kind);
        }
        self
    }

    /// Returns the framing of its body.
    pub(super) fn framing(&self) -> BodyFraming {
        match is_bodiless(self.status) {
            true => BodyFraming::None,
            false => BodyFraming::Length(self.body.len() as u64),
        }
    }

    /// Returns the body for a request that was sent with `method`; `None` where the head ends the answer.
    pub(super) fn body_for(&self, method: &Method) -> Option<&Bytes> {
        let is_silent = is_bodiless(self.status) || self.body.is_empty() || *method == Method::HEAD;
        (!is_silent).then_some(&self.body)
    }
}

/// Returns the answer to a request that a limit rejects.
pub(super) fn refusal(
    refused: &RefusedRequest,
    request: &ReceivedHead,
    context: &Context,
    form: FieldForm,
) -> OwnAnswer {
    let RefusedRequest { route, by } = refused;
    let report = context.report();
    let id = context.request_id;
    let scheme = context.scheme();
    let refusal = route.refusal(by, report, &request.headers, id, scheme);
    let is_unedited = context.shape().is_none() && context.forward_auth.is_none();
    if form == FieldForm::Any && is_unedited && refusal.has_distinct_fields() {
        return OwnAnswer::unedited(refusal, by.reason);
    }
    let mut answer = OwnAnswer::with_status(refusal.status, context);
    if let Some(seconds) = refusal.retry_after {
        answer.fields.insert(RETRY_AFTER, seconds.into());
    }
    if by.reason.shows_status() {
        add_limit_fields(&mut answer.fields, context);
    }
    refusal.each_field(|name, value| {
        // Values of the program, of names and numbers, and of the operator's wording, are valid.
        if let Ok(value) = HeaderValue::from_bytes(value) {
            answer.fields.insert(name.clone(), value);
        }
    });
    answer.body = refusal.body.clone();
    let mut answer = answer.edited(AnswerKind::Failure, request, context);
    refusal.each_protected_field(|name, value| {
        answer.fields.insert(name, value);
    });
    answer
}

/// Returns an answer with a problem body of the gateway.
pub(super) fn problem(
    request: &ReceivedHead,
    context: &Context,
    problem: GatewayProblem,
) -> OwnAnswer {
    if context.forward_auth.is_none()
        && let Some(grpc) = GrpcDialect::from_headers(&request.headers)
    {
        let mut answer = OwnAnswer::with_status(StatusCode::OK, context);
        for (name, value) in grpc.fields(GrpcStatus::from_http(problem.status()), problem.detail())
        {
            answer.fields.insert(name, value);
        }
        return answer.edited(AnswerKind::Failure, request, context);
    }
    let mut answer = OwnAnswer::with_status(problem.status(), context);
    let chosen = shape::page(problem.status(), request, context);
    if chosen != NegotiatedPage::NoPage {
        let accept = HeaderValue::from_static("accept");
        answer.fields.insert(VARY, accept);
    }
    let (content_type, body) = match chosen {
        NegotiatedPage::Page(content_type, body) => (content_type, body),
        NegotiatedPage::Problem | NegotiatedPage::NoPage => (PROBLEM_JSON, problem.body()),
    };
    answer.fields.insert(CONTENT_TYPE, content_type);
    answer.body = body;
    if let Some(seconds) = problem.retry_after() {
        let seconds = HeaderValue::from(seconds);
        answer.fields.insert(RETRY_AFTER, seconds);
    }
    answer.edited(AnswerKind::Failure, request, context)
}

/// Returns the answer to a request that lacks a key of a limit: 400, with what to send.
pub(super) fn missing_key(request: &ReceivedHead, context: &Context) -> OwnAnswer {
    let Some(missing_key) = context.missing_keys.refusing() else {
        return problem(request, context, GatewayProblem::Internal);
    };
    let mut answer = OwnAnswer::with_status(StatusCode::BAD_REQUEST, context);
    answer.fields.insert(CONTENT_TYPE, PROBLEM_JSON);
    answer.body = key_missing(missing_key);
    answer.edited(AnswerKind::Failure, request, context)
}

/// Returns a permanent redirect, 308 (RFC 9110 §15.4.9), which keeps method and body.
pub(super) fn permanent_redirect(
    request: &ReceivedHead,
    context: &Context,
    location: HeaderValue,
) -> OwnAnswer {
    let mut answer = OwnAnswer::with_status(StatusCode::PERMANENT_REDIRECT, context);
    answer.fields.insert(LOCATION, location);
    answer.edited(AnswerKind::Failure, request, context)
}

/// Settles an OPTIONS or TRACE whose `Max-Forwards` is used up, RFC 9110 §7.6.2, and returns its answer. A TRACE would be sent back with
/// its cookies.
pub(super) fn end_here(request: &ReceivedHead, context: &mut Context) -> OwnAnswer {
    let status = if request.method == Method::OPTIONS {
        StatusCode::OK
    } else {
        StatusCode::METHOD_NOT_ALLOWED
    };
    context.settle(status, &HeaderMap::new());
    let mut answer = OwnAnswer::with_status(status, context);
    let allowed = HeaderValue::from_static("OPTIONS");
    answer.fields.insert(ALLOW, allowed);
    add_limit_fields(&mut answer.fields, context);
    answer.edited(AnswerKind::Content, request, context)
}

/// Returns the answer to a CORS preflight, with only the fields that it asked about.
pub(super) fn preflight(request: &ReceivedHead, context: &Context) -> OwnAnswer {
    let answer = OwnAnswer::with_status(StatusCode::NO_CONTENT, context);
    answer.edited(AnswerKind::Failure, request, context)
}

/// Returns the route's redirect.
pub(super) fn redirect(
    request: &ReceivedHead,
    context: &Context,
    rules: &RedirectRules,
) -> OwnAnswer {
    let mut answer = OwnAnswer::with_status(rules.status, context);
    if let Err(why) = shape::redirect(&mut answer.fields, rules, request, context) {
        return problem(request, context, why);
    }
    add_limit_fields(&mut answer.fields, context);
    answer.edited(AnswerKind::Content, request, context)
}

/// Returns the answer to a proxy that may forward the request, with the state of its limits.
pub(super) fn allowed(request: &ReceivedHead, context: &Context) -> OwnAnswer {
    let mut answer = OwnAnswer::with_status(StatusCode::NO_CONTENT, context);
    add_limit_fields(&mut answer.fields, context);
    add_marks(&mut answer.fields, context);
    answer.edited(AnswerKind::Content, request, context)
}

/// Adds the marks of exceeded limits to the answer to a proxy, which can copy them into the request.
fn add_marks(fields: &mut HeaderMap, context: &Context) {
    if context.forward_auth.is_some() {
        for mark in labels::marks(context) {
            fields.append(mark.field.clone(), mark.value.clone());
        }
    }
}

/// Returns the route's fixed response.
pub(super) fn fixed(request: &ReceivedHead, context: &Context, fixed: &FixedResponse) -> OwnAnswer {
    let mut answer = OwnAnswer::with_status(fixed.status, context);
    if let Some(content_type) = &fixed.content_type {
        answer.fields.insert(CONTENT_TYPE, content_type.clone());
    }
    if fixed.status == StatusCode::METHOD_NOT_ALLOWED {
        // RFC 9110 §15.5.6 requires the field; an empty list means that no method is allowed.
        answer.fields.insert(ALLOW, HeaderValue::from_static(""));
    }
    for (name, value) in &fixed.headers {
        answer.fields.insert(name.clone(), value.clone());
    }
    add_limit_fields(&mut answer.fields, context);
    add_marks(&mut answer.fields, context);
    answer.body = fixed.body.clone();
    answer.edited(AnswerKind::Content, request, context)
}

/// Returns the proof that an ACME server asks for. RFC 8555 §8.3 leaves the media type open; this is the one of its example.
pub(super) fn proof(request: &ReceivedHead, context: &Context, proof: &str) -> OwnAnswer {
    let mut answer = OwnAnswer::with_status(StatusCode::OK, context);
    let content_type = HeaderValue::from_static("application/octet-stream");
    answer.fields.insert(CONTENT_TYPE, content_type);
    answer.body = Bytes::copy_from_slice(proof.as_bytes());
    answer.edited(AnswerKind::Failure, request, context)
}

fn is_bodiless(status: StatusCode) -> bool {
    matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Returns the id of a response that has another one than that of the request.
pub(super) fn other_request_id<'f>(
    fields: &'f HeaderMap,
    context: &Context,
) -> Option<&'f HeaderValue> {
    let id = fields.get(X_REQUEST_ID)?;
    (*id != context.request_id.as_header_value()).then_some(id)
}

/// Adds the request id, unless there is one, and the state of the limits to an origin's response, merged with the RateLimit fields that
/// the origin sends.
pub(super) fn add_own_fields(fields: &mut HeaderMap, context: &Context) {
    // The limits first: the fields of the origin that they are merged with are mostly none, and then nothing is looked up.
    add_limit_fields(fields, context);
    // An origin's own is that by which its operators find the request.
    fields
        .entry(X_REQUEST_ID)
        .or_insert_with(|| context.request_id.as_header_value());
    if let Some(value) = strict_transport(context) {
        fields.insert(STRICT_TRANSPORT_SECURITY, value.clone());
    }
    if let Some(value) = alternative_service(context) {
        fields.insert(ALT_SVC, value.clone());
    }
}

/// Writes the fields that [`add_own_fields`] adds to a head that has none of these names.
pub(super) fn write_own_fields(into: &mut dyn FieldSink, context: &Context) {
    write_limit_fields(into, context);
    write_fields_of_each(into, context);
}

/// Writes the fields that [`add_limit_fields`] adds to a head that has none of these names.
fn write_limit_fields(into: &mut dyn FieldSink, context: &Context) {
    let (Some(located), Some(report)) = (&context.located, context.report()) else {
        return;
    };
    let route = &located.route;
    let verdict = &report.verdict;
    let items = report.items(&route.limits);
    if let Some(policy) = route.policy(report) {
        into.write(RATE_LIMIT_POLICY.as_str().as_bytes(), policy.as_bytes());
    }
    rate_limit(items.clone(), verdict, |text| {
        into.write(RATE_LIMIT.as_str().as_bytes(), text);
    });
    let numbers = XRateLimit::nearest(items, verdict).into_iter();
    for (name, number) in numbers.flat_map(XRateLimit::named) {
        write_number(into, name, number);
    }
}

fn write_number(into: &mut dyn FieldSink, name: &HeaderName, number: u64) {
    let mut digits = itoa::Buffer::new();
    into.write(name.as_str().as_bytes(), digits.format(number).as_bytes());
}

/// Writes the fields that each answer has.
fn write_fields_of_each(into: &mut dyn FieldSink, context: &Context) {
    into.write(
        X_REQUEST_ID.as_str().as_bytes(),
        context.request_id.as_bytes(),
    );
    if let Some(value) = strict_transport(context) {
        let name = STRICT_TRANSPORT_SECURITY.as_str();
        into.write(name.as_bytes(), value.as_bytes());
    }
    if let Some(value) = alternative_service(context) {
        into.write(ALT_SVC.as_str().as_bytes(), value.as_bytes());
    }
}

fn add_limit_fields(fields: &mut HeaderMap, context: &Context) {
    let (Some(located), Some(report)) = (&context.located, context.report()) else {
        return;
    };
    let route = &located.route;
    let items = report.items(&route.limits);
    let ours = LimitFields::new(route.policy(report), items, &report.verdict);
    let merged = merge(fields, ours);
    for (name, change) in [
        (&RATE_LIMIT_POLICY, merged.policy),
        (&RATE_LIMIT, merged.status),
    ] {
        match change {
            MergeRule::Keep => {}
            MergeRule::Append(value) => {
                fields.append(name.clone(), value);
            }
            MergeRule::Replace(value) => {
                fields.insert(name.clone(), value);
            }
        }
    }
    for (name, number) in merged.x.into_iter().flat_map(XRateLimit::named) {
        fields.insert(name.clone(), HeaderValue::from(number));
    }
}

/// Returns the `Alt-Svc` value. An origin's own is about the origin, and is replaced.
fn alternative_service(context: &Context) -> Option<&HeaderValue> {
    context.secured.as_ref()?.alternative_service.as_ref()
}

/// Returns the `Strict-Transport-Security` value. RFC 6797 §7.2: never in clear text, where anybody could have written it.
fn strict_transport(context: &Context) -> Option<&HeaderValue> {
    context.secured.as_ref()?.strict_transport.as_ref()
}
