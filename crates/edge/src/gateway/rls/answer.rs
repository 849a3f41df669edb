//! Writes the answer to a call: a status for each descriptor, and the fields and the body for the client.

use std::cmp::Reverse;
use std::time::Duration;

use http::header::{DATE, HeaderName, HeaderValue};
use prost::Message;
use sluicegate_decide::outcome::RequestDisposition;
use sluicegate_decide::rejection::Rejection;
use sluicegate_limiter::{Outcome, RateStatus};

use super::messages::{
    CurrentLimit, DescriptorStatus, HeaderToAdd, MetadataStruct, MetadataText, ProtoDuration,
    RateLimitResponse, RateUnit, ResponseCode,
};
use super::{DescriptorResult, OwnAnswer};
use crate::gateway::context::Context;
use crate::gateway::labels;

/// Fields of an answer that belong to the response of the proxy itself.
const OF_PROXY: [HeaderName; 2] = [DATE, HeaderName::from_static("x-request-id")];

/// The answer to a call, as far as its descriptors are decided.
#[derive(Debug, Default)]
pub(super) struct CallAnswer(RateLimitResponse);

/// Returns the answer to a call of so many descriptors that none of them is decided.
pub(super) fn over_without_decision(descriptors: usize) -> Vec<u8> {
    let status = DescriptorStatus {
        code: ResponseCode::OverLimit.into(),
        ..DescriptorStatus::default()
    };
    RateLimitResponse {
        overall_code: ResponseCode::OverLimit.into(),
        statuses: vec![status; descriptors],
        ..RateLimitResponse::default()
    }
    .encode_to_vec()
}

impl CallAnswer {
    /// Adds the status of a descriptor whose decision is in `context`.
    pub(super) fn add_status(&mut self, result: DescriptorResult, context: &Context) {
        let code = code(result);
        self.0.overall_code = self.0.overall_code.max(code.into());
        let nearest = nearest(context);
        let wait = match (&nearest, context.rejection()) {
            (_, Some(Rejection::ByLimit(by))) => by.wait_that_helps(),
            (nearest, _) => nearest.as_ref().map(|(_, status)| status.next_free),
        };
        self.0.statuses.push(DescriptorStatus {
            code: code.into(),
            limit_remaining: nearest.as_ref().map_or(0, |(_, status)| status.remaining),
            current_limit: nearest.map(|(name, status)| CurrentLimit {
                requests_per_unit: status.rate.count(),
                unit: unit(status.rate.period().as_secs()).into(),
                name,
            }),
            duration_until_reset: wait.map(period),
        });
    }

    /// Adds the fields of an answer about a descriptor: for a call that is over, only of descriptors that are, with their body.
    pub(super) fn add_fields(
        &mut self,
        result: DescriptorResult,
        call: DescriptorResult,
        own: &OwnAnswer,
        context: &Context,
    ) {
        if result != call {
            return;
        }
        let is_mark = |name: &HeaderName| labels::marks(context).any(|mark| mark.field == name);
        for (name, value) in &own.fields {
            if is_mark(name) {
                self.0.request_headers_to_add.extend(field(name, value));
            } else if !OF_PROXY.contains(name) {
                self.0.response_headers_to_add.extend(field(name, value));
            }
        }
        if result == DescriptorResult::Within {
            return;
        }
        if self.0.raw_body.is_empty() {
            self.0.raw_body = own.body.to_vec();
        }
        (self.0.dynamic_metadata).get_or_insert_with(|| metadata(context));
    }

    /// Returns the message.
    pub(super) fn encode(&self) -> Vec<u8> {
        self.0.encode_to_vec()
    }
}

/// Returns what the log says of a rejection, for the log of Envoy.
fn metadata(context: &Context) -> MetadataStruct {
    let outcome = context.disposition.unwrap_or(RequestDisposition::Rejected);
    let limit = match (context.rejection(), &context.located) {
        (Some(Rejection::ByLimit(by)), Some(located)) => {
            let limit = located.route.limits.get(usize::from(by.limit));
            limit.map(|limit| ("limit", limit.name.to_string()))
        }
        _ => None,
    };
    let texts = [
        ("outcome", outcome.as_str().to_owned()),
        ("id", context.request_id.text().to_string()),
    ];
    let fields = texts.into_iter().chain(limit);
    MetadataStruct {
        fields: fields
            .map(|(name, text)| (name.to_owned(), MetadataText { text }))
            .collect(),
    }
}

fn code(result: DescriptorResult) -> ResponseCode {
    match result {
        DescriptorResult::Within => ResponseCode::Ok,
        DescriptorResult::Over => ResponseCode::OverLimit,
    }
}

/// Returns the rate nearest to rejection with its name: of a rejected descriptor the one that rejects, else the one with the least room.
fn nearest(context: &Context) -> Option<(String, RateStatus)> {
    let located = context.located.as_ref()?;
    let report = context.report()?;
    let decisive = match report.verdict.outcome() {
        Outcome::Refused { ask, rate } => Some((ask, rate)),
        Outcome::Admitted => None,
    };
    let items = report.items(&located.route.limits);
    let decided = items.zip(report.verdict.decisions()).enumerate();
    let rates = decided.flat_map(|(ask, (limit, decision))| {
        let statuses = decision.statuses();
        let statuses: Vec<RateStatus> = statuses.iter().copied().collect();
        let named = statuses.into_iter().enumerate();
        named.map(move |(rate, status)| ((ask, rate), limit.item_name(rate).to_owned(), status))
    });
    rates
        .min_by_key(|(at, _, status)| {
            (
                Some(*at) != decisive,
                status.remaining,
                Reverse(status.next_free),
            )
        })
        .map(|(_, name, status)| (name, status))
}

fn unit(seconds: u32) -> RateUnit {
    match seconds {
        1 => RateUnit::Second,
        60 => RateUnit::Minute,
        3_600 => RateUnit::Hour,
        86_400 => RateUnit::Day,
        _ => RateUnit::Unknown,
    }
}

fn period(time: Duration) -> ProtoDuration {
    ProtoDuration {
        seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(time.subsec_nanos()).unwrap_or(0),
    }
}

/// Returns a field as text; `None` where its value is none, which none of the gateway's own is.
fn field(name: &HeaderName, value: &HeaderValue) -> Option<HeaderToAdd> {
    Some(HeaderToAdd {
        key: name.to_string(),
        value: value.to_str().ok()?.to_owned(),
    })
}
