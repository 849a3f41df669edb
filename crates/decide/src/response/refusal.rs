//! Makes the answer to a rejected request: a status, `Retry-After`, and a body. The state of the limits is added as to other answers.
//!
//! Route or limit may define its text; the route's text precedes the limit's, and without either it is 429 with a problem body.
//! gRPC clients get a gRPC status, whatever the text. A challenge has a page of its own, whatever the text.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    SET_COOKIE, VARY,
};
use sluicegate_base::received::ReceivedFields;
use sluicegate_config::rules::RefusalRules;
use sluicegate_limiter::NEVER;

use super::grpc::{GrpcDialect, GrpcStatus};
use super::negotiate;
use super::problem::PROBLEM_JSON;
use super::wording::{WordingValues, fill_in};
use crate::challenge::ChallengePage;
use crate::policy_items::{LimitProblem, PolicyItems, never_admitted, violated};
use crate::rejection::{LimitRejection, RejectionReason};
use crate::request_id::RequestId;
use crate::retry_after::whole_seconds;

/// The response to a rejected request; the caller writes it as HTTP.
#[derive(Debug)]
pub struct RefusalResponse {
    /// 429 unless it is worded otherwise; 200 for callers that speak gRPC.
    pub status: StatusCode,
    /// `Retry-After` in whole seconds, rounded up, at least 1 (RFC 9110 §10.2.3); `None` where no waiting helps.
    pub retry_after: Option<u64>,
    /// The body; empty for callers that speak gRPC.
    pub body: Bytes,
    content: RefusalContent,
}

/// The rest of the response.
#[derive(Debug)]
enum RefusalContent {
    /// The type of the body, and the fields that the wording adds.
    Body(HeaderValue, Option<Arc<RefusalRules>>),
    /// The cookie of a page with a challenge; `None` where it needs none.
    Page(Option<HeaderValue>),
    /// The fields of a gRPC status.
    Grpc([(HeaderName, HeaderValue); 3]),
}

/// The parts of a request that its rejection depends on.
#[derive(Clone, Debug)]
pub struct RefusalContext<'a> {
    /// The name of the route.
    pub route: &'a str,
    /// The route's wording of rejections.
    pub wording: Option<&'a Arc<RefusalRules>>,
    /// The fields of the request.
    pub headers: &'a ReceivedFields,
    /// The request id.
    pub request_id: RequestId,
}

impl RefusalResponse {
    /// Returns the response to a request that a limit rejects; `limit` are that limit's items.
    #[must_use]
    pub fn new(
        rejection: &LimitRejection,
        limit: Option<&PolicyItems>,
        scene: &RefusalContext<'_>,
    ) -> Self {
        let reason = rejection.reason;
        let retry_after = rejection.wait_that_helps();
        let retry_after = retry_after.map(|wait| whole_seconds(wait).max(1));
        let name = limit.map_or("", PolicyItems::name);
        if let Some(grpc) = GrpcDialect::from_headers(scene.headers) {
            let message = message(reason, name, retry_after);
            return Self {
                status: StatusCode::OK,
                retry_after,
                body: Bytes::new(),
                content: RefusalContent::Grpc(grpc.fields(grpc_status(reason), &message)),
            };
        }
        let rules = scene.wording.or(limit.and_then(PolicyItems::wording));
        // The operator's text is about requests that exceed a limit.
        let rules = rules.filter(|_| reason.is_caused_by_client());
        let status = rules.map_or(reason.status(), |rules| rules.status);
        let told = WordingValues {
            limit: name,
            route: scene.route,
            retry_after: retry_after.unwrap_or(NEVER.as_secs()),
            request_id: scene.request_id,
        };
        let own = rules.and_then(|rules| worded(rules, scene.headers, &told));
        let (content_type, body) =
            own.unwrap_or_else(|| (PROBLEM_JSON, problem_body(rejection, limit, status)));
        Self {
            status,
            retry_after,
            body,
            content: RefusalContent::Body(content_type, rules.cloned()),
        }
    }

    /// Returns the response with a page that has a challenge. It tells nothing of the limits: their state is that of a solution, not of
    /// the client.
    #[must_use]
    pub fn of_page(page: ChallengePage) -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            retry_after: Some(page.retry_after),
            body: page.body,
            content: RefusalContent::Page(page.cookie),
        }
    }

    /// Calls `write` with each field that no edit of the operator may change: a page needs its own policy, and must not be stored.
    pub fn each_protected_field(&self, mut write: impl FnMut(HeaderName, HeaderValue)) {
        if let RefusalContent::Page(_) = &self.content {
            write(CONTENT_SECURITY_POLICY, ChallengePage::policy());
            write(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            write(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        }
    }

    /// Returns whether each field is written once, and none is protected from edits.
    #[must_use]
    pub fn has_distinct_fields(&self) -> bool {
        match &self.content {
            RefusalContent::Body(_, rules) => {
                (rules.as_ref()).is_none_or(|rules| rules.headers.is_empty())
            }
            RefusalContent::Page(_) => false,
            RefusalContent::Grpc(_) => true,
        }
    }

    /// Calls `write` with every field of the answer behind `Retry-After` and the fields of the limits, but its length, in order.
    pub fn each_field(&self, mut write: impl FnMut(&HeaderName, &[u8])) {
        match &self.content {
            RefusalContent::Body(content_type, rules) => {
                for (name, value) in rules.iter().flat_map(|rules| &rules.headers) {
                    write(name, value.as_bytes());
                }
                if rules.as_ref().is_some_and(|rules| varies(rules)) {
                    write(&VARY, b"accept");
                }
                write(&CONTENT_TYPE, content_type.as_bytes());
            }
            RefusalContent::Page(cookie) => {
                write(&VARY, b"accept, cookie, sec-fetch-dest");
                write(&CONTENT_TYPE, b"text/html; charset=utf-8");
                if let Some(cookie) = cookie {
                    write(&SET_COOKIE, cookie.as_bytes());
                }
            }
            RefusalContent::Grpc(fields) => {
                for (name, value) in fields {
                    write(name, value.as_bytes());
                }
            }
        }
    }
}

fn grpc_status(reason: RejectionReason) -> GrpcStatus {
    match reason {
        RejectionReason::RateLimited(_)
        | RejectionReason::Challenged(_)
        | RejectionReason::Concurrency(_) => GrpcStatus::RESOURCE_EXHAUSTED,
        RejectionReason::Banned(_) | RejectionReason::BanStarted(_) => {
            GrpcStatus::PERMISSION_DENIED
        }
        RejectionReason::StoreUnavailable => GrpcStatus::from_http(reason.status()),
    }
}

fn message(reason: RejectionReason, limit: &str, retry_after: Option<u64>) -> String {
    let Some(retry_after) = retry_after else {
        return format!("the limit {limit} never admits so much at once");
    };
    match reason {
        RejectionReason::RateLimited(_) | RejectionReason::Challenged(_) => {
            format!("the limit {limit} refuses; retry after {retry_after} s")
        }
        RejectionReason::Banned(_) | RejectionReason::BanStarted(_) => {
            format!("banned by the limit {limit}; retry after {retry_after} s")
        }
        RejectionReason::Concurrency(_) => {
            format!("as many requests as the limit {limit} allows are in flight")
        }
        RejectionReason::StoreUnavailable => {
            format!(
                "nobody can say whether the limit {limit} has room; retry after {retry_after} s"
            )
        }
    }
}

/// Returns the problem body; most are written when the snapshot is compiled.
fn problem_body(
    rejection: &LimitRejection,
    limit: Option<&PolicyItems>,
    status: StatusCode,
) -> Bytes {
    let usual = limit.filter(|_| status == StatusCode::TOO_MANY_REQUESTS);
    let name = limit.map_or("", PolicyItems::name);
    let helps = rejection.wait_that_helps();
    match (rejection.reason, usual) {
        (RejectionReason::RateLimited(rate), _) if helps.is_none() => {
            never_admitted(limit.map_or("", |limit| limit.item_name(rate)), status)
        }
        (RejectionReason::RateLimited(rate), Some(limit)) => limit.refusal_body(rate),
        (RejectionReason::RateLimited(rate), None) => {
            let name = limit.map_or("", |limit| limit.item_name(rate));
            violated(name, LimitProblem::Quota, status)
        }
        (RejectionReason::Banned(_) | RejectionReason::BanStarted(_), Some(limit)) => {
            limit.ban_body()
        }
        (RejectionReason::Banned(_) | RejectionReason::BanStarted(_), None) => {
            violated(name, LimitProblem::Abnormal, status)
        }
        (RejectionReason::StoreUnavailable, _) => violated(name, LimitProblem::Reduced, status),
        // Callers have a page for it.
        (RejectionReason::Challenged(_), _) => violated(name, LimitProblem::Quota, status),
        (RejectionReason::Concurrency(_), _) => {
            violated(&format!("{name}-concurrency"), LimitProblem::Quota, status)
        }
    }
}

/// Returns whether `Accept` selects the body.
#[must_use]
pub fn varies(rules: &RefusalRules) -> bool {
    !rules.alternatives.is_empty()
}

/// Returns the body that `rules` have for a client with these fields; `None` is the problem body.
fn worded(
    rules: &RefusalRules,
    headers: &ReceivedFields,
    told: &WordingValues<'_>,
) -> Option<(HeaderValue, Bytes)> {
    let first = rules.body.as_ref();
    let default = first
        .map_or(&PROBLEM_JSON, |wording| &wording.content_type)
        .clone();
    let others = rules
        .alternatives
        .iter()
        .map(|wording| &wording.content_type);
    let types = std::iter::once(&default)
        .chain(others)
        .map(|media_type| media_type.to_str().unwrap_or_default());
    let chosen = if varies(rules) {
        negotiate::choose(headers, types)
    } else {
        0
    };
    let wording = match chosen.checked_sub(1) {
        None => first?,
        Some(other) => rules.alternatives.get(other)?,
    };
    Some((wording.content_type.clone(), fill_in(wording, told)))
}
