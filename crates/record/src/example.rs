//! Makes outcomes for tests of what is recorded: one request, of which a test varies what it is about.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use sluicegate_base::received::ReceivedFields;
use sluicegate_decide::client::TlsFacts;
use sluicegate_decide::outcome::{CacheUse, RequestDisposition};
use sluicegate_decide::rejection::{LimitRejection, MissingKey, RejectionReason};
use sluicegate_decide::request_id::RequestId;
use sluicegate_limiter::{
    Ask, Capacity, Cost, KeyHash, Limit, Outcome as Answer, Period, Rate, Rates, Seed, Timestamp,
    Verdict, decide,
};

use super::metrics::RequestMetrics;
use super::outcome::{OriginUse, Outcome};
use super::route_metrics::RouteMetrics;
use sluicegate_decide::admission::ReportDetails;

/// The time of the request.
pub(crate) const NOW: Timestamp = Timestamp::from_nanos(1_795_245_038_042_000_000);

static KEY_VALUES: LazyLock<[String; 1]> = LazyLock::new(|| ["+49151\"*****78".to_owned()]);

/// An outcome to vary.
pub(crate) struct Example<'a> {
    pub(crate) client: Option<IpAddr>,
    pub(crate) secured: Option<&'a TlsFacts>,
    pub(crate) method: &'a [u8],
    pub(crate) host: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) route: Option<&'a RouteMetrics>,
    pub(crate) verdict: Option<&'a Verdict>,
    pub(crate) list: Option<&'a str>,
    pub(crate) details: Option<&'a ReportDetails>,
    pub(crate) fields: Option<&'a ReceivedFields>,
    pub(crate) missing_keys: &'a [MissingKey],
    pub(crate) rejection: Option<LimitRejection>,
    pub(crate) origin: Option<OriginUse<'a>>,
    pub(crate) reason: Option<&'a str>,
}

impl Default for Example<'_> {
    fn default() -> Self {
        Self {
            client: Some(Ipv4Addr::new(203, 0, 113, 7).into()),
            method: b"POST",
            host: b"example.com",
            secured: None,
            target: b"/auth/sendOTP?x=1",
            fields: None,
            route: None,
            verdict: None,
            list: None,
            details: None,
            missing_keys: &[],
            rejection: None,
            origin: None,
            reason: None,
        }
    }
}

impl Example<'_> {
    pub(crate) fn outcome(&self) -> Outcome<'_> {
        let by_rate = self.verdict.and_then(|verdict| match verdict.outcome() {
            Answer::Admitted => None,
            Answer::Refused { ask, rate } => Some(LimitRejection {
                limit: match self.details {
                    Some(details) => details.asked[ask],
                    None => u8::try_from(ask).expect("few limits"),
                },
                key: KeyHash::from_bits(0xabcd),
                reason: RejectionReason::RateLimited(rate),
                wait: verdict.retry_after().expect("it refuses"),
            }),
        });
        let rejection = self.rejection.or(by_rate);
        let refused = by_rate.is_some();
        Outcome {
            client: self.client,
            peer: Some(Ipv6Addr::LOCALHOST.into()),
            secured: self.secured,
            method: self.method,
            host: self.host,
            target: self.target,
            fields: self.fields,
            route: self.route,
            verdict: self.verdict,
            list: self.list,
            details: self.details,
            missing_keys: self.missing_keys,
            rejection,
            key_values: if refused { &*KEY_VALUES } else { &[] },
            disposition: match (rejection, self.origin, self.route) {
                (Some(by), ..) => RequestDisposition::rejected_by_limit(by.reason),
                (_, Some(_), _) => RequestDisposition::Forwarded,
                (_, _, Some(_)) => RequestDisposition::Responded,
                _ => RequestDisposition::NoRoute,
            },
            status: if rejection.is_some() { 429 } else { 200 },
            bytes_received: 12,
            bytes_sent: 345,
            total: Duration::from_nanos(12_345_678),
            decision: Duration::from_nanos(412),
            cache: self.origin.map(|_| CacheUse::Miss),
            origin: self.origin,
            failure: self.reason.map(|_| "truncated"),
            reason: self.reason,
            ..Outcome::unhandled(NOW, RequestId::from_bits(0xabc), "HTTP/1.1")
        }
    }
}

/// A limit of one a minute.
pub(crate) fn limit() -> Limit {
    let rate = Rate::new(1, Period::from_secs(60).expect("a period")).expect("a rate");
    Limit::new(
        Rates::new([rate]).expect("one rate"),
        Capacity::new(64).expect("a capacity"),
    )
}

/// A route with the limit `otp`, and the verdict over its `requests`-th request.
pub(crate) fn verdict_of(requests: usize) -> (RouteMetrics, Verdict) {
    let limit = limit();
    let key = Seed::from_bytes([7; 16]).hasher().part(b"client").finish();
    let ask = || {
        [Ask {
            limit: &limit,
            key,
            cost: Cost::ONE,
            payer: None,
        }]
    };
    for _ in 1..requests {
        let _ = decide(&ask(), NOW);
    }
    let route = RequestMetrics::new().route(&Arc::from("POST /auth/sendOTP"), &[Arc::from("otp")]);
    (route, decide(&ask(), NOW))
}

/// A route with the limit `otp`, and the verdict over a request that it rejects.
pub(crate) fn refused() -> (RouteMetrics, Verdict) {
    verdict_of(2)
}
