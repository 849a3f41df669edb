//! Makes the texts of a limit that responses have: the items of the RateLimit fields, and the problem bodies of its rejections.
//!
//! The texts follow draft-ietf-httpapi-ratelimit-headers-11. They are made when a snapshot is compiled, so a rejection formats two numbers.
//! The module stands below admission, which compiles the limits, and below response, which writes the texts.

use std::sync::Arc;

use arrayvec::ArrayVec;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use sluicegate_config::rules::{FieldStyle, LimitRules, MeasuredCost, RefusalRules};
use sluicegate_limiter::{Decision, MAX_RATES, Rate, Rates};

use crate::retry_after::whole_seconds;

/// The texts of a limit in fields and bodies, made when its snapshot is compiled.
#[derive(Debug)]
pub struct PolicyItems {
    name: Box<str>,
    items: ArrayVec<PolicyItem, MAX_RATES>,
    style: FieldStyle,
    /// The factor by which counts are shown: the bytes of a unit.
    factor: u64,
    wording: Option<Arc<RefusalRules>>,
    /// The problem body of a banned key; empty where the limit has no ban.
    ban: Bytes,
}

#[derive(Debug)]
struct PolicyItem {
    /// `"otp"` with its quotes.
    quoted: Box<str>,
    /// `"otp";q=5;w=10`.
    policy: Box<str>,
    /// The problem body of a rejection by this rate.
    refusal: Bytes,
}

impl PolicyItems {
    /// Returns the items of the limit `name`, one for each of its rates, in their order.
    #[must_use]
    pub fn new(name: &str, rules: &LimitRules) -> Self {
        Self::of_rates(name, rules.policy.rates(), rules)
    }

    /// Returns the items of the limit `name` for keys that have `rates` instead of its own.
    #[must_use]
    pub fn of_rates(name: &str, rates: &Rates, rules: &LimitRules) -> Self {
        let measured = rules.cost.measured();
        let factor = measured.map_or(1, MeasuredCost::shown_factor);
        let unit = measured.and_then(|measured| measured.quota_unit.as_deref());
        let items = rates
            .iter()
            .map(|rate| PolicyItem::new(&item_name(name, rate, rates.len()), rate, (factor, unit)))
            .collect();
        Self {
            name: name.into(),
            items,
            style: rules.headers,
            factor,
            wording: rules.refusal.clone(),
            ban: rules.ban.map_or(Bytes::new(), |_| {
                violated(name, LimitProblem::Abnormal, StatusCode::TOO_MANY_REQUESTS)
            }),
        }
    }

    /// Returns the items without any field, for a limit that clients do not see.
    #[must_use]
    pub fn hidden(self) -> Self {
        Self {
            style: FieldStyle::None,
            ..self
        }
    }

    /// Returns these items in the style of `own`.
    #[must_use]
    pub fn shown_as(self, own: &Self) -> Self {
        Self {
            style: own.style,
            ..self
        }
    }

    /// Returns the state of the limit in the syntax of `RateLimit`.
    #[must_use]
    pub fn status(&self, decision: &Decision) -> HeaderValue {
        let mut value = Vec::new();
        self.write_status(decision, &mut value);
        HeaderValue::from_maybe_shared(value).expect("names and numbers are visible ASCII")
    }

    /// Appends the state of the limit, after a comma unless it is the first.
    pub fn write_status(&self, decision: &Decision, into: &mut Vec<u8>) {
        let mut number = itoa::Buffer::new();
        for (item, status) in self.items.iter().zip(decision.statuses()) {
            if !into.is_empty() {
                into.extend_from_slice(b", ");
            }
            into.extend_from_slice(item.quoted.as_bytes());
            into.extend_from_slice(b";r=");
            let remaining = self.factor.saturating_mul(status.remaining.into());
            into.extend_from_slice(number.format(remaining).as_bytes());
            into.extend_from_slice(b";t=");
            // Waits may exceed the window by a fraction of a second, or by more for costs above 1: `Retry-After` has those.
            let wait = whole_seconds(status.next_free);
            let window = u64::from(status.rate.period().as_secs());
            into.extend_from_slice(number.format(wait.min(window)).as_bytes());
        }
    }

    /// Returns the item of each rate in the syntax of `RateLimit-Policy`.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|item| &*item.policy)
    }

    /// Returns the limit's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the factor by which counts are shown in fields.
    #[must_use]
    pub fn factor(&self) -> u64 {
        self.factor
    }

    /// Returns the fields in which it is shown.
    #[must_use]
    pub fn style(&self) -> FieldStyle {
        self.style
    }

    /// Returns the wording of its rejections; `None` means the problem body.
    #[must_use]
    pub fn wording(&self) -> Option<&Arc<RefusalRules>> {
        self.wording.as_ref()
    }

    /// Returns the problem body of a rejection with 429 by the rate at `index`.
    #[must_use]
    pub fn refusal_body(&self, index: usize) -> Bytes {
        self.items
            .get(index)
            .map(|item| item.refusal.clone())
            .unwrap_or_default()
    }

    /// Returns the problem body of a rejection with 429 by a ban.
    #[must_use]
    pub fn ban_body(&self) -> Bytes {
        self.ban.clone()
    }

    /// Returns the name of the rate at `index` in fields and problem bodies.
    #[must_use]
    pub fn item_name(&self, index: usize) -> &str {
        self.items
            .get(index)
            .map_or(&*self.name, |item| item.quoted.trim_matches('"'))
    }
}

impl PolicyItem {
    /// Returns the item of a rate whose counts are shown times `factor`, in `unit` if it is not requests.
    fn new(name: &str, rate: &Rate, (factor, unit): (u64, Option<&str>)) -> Self {
        let quoted = format!("\"{name}\"");
        let quota = factor.saturating_mul(rate.count().into());
        // draft-ietf-httpapi-ratelimit-headers-11, "Quota Unit Parameter": requests where there is none.
        let unit = unit.map_or_else(String::new, |unit| format!(";qu=\"{unit}\""));
        Self {
            policy: format!("{quoted};q={quota}{unit};w={}", rate.period().as_secs()).into(),
            refusal: violated(name, LimitProblem::Quota, StatusCode::TOO_MANY_REQUESTS),
            quoted: quoted.into(),
        }
    }
}

/// Returns the name that fields have for `rate` of the limit, which has so many `rates`.
fn item_name(limit: &str, rate: &Rate, rates: usize) -> String {
    if rates == 1 {
        limit.to_owned()
    } else {
        format!("{limit}-{}s", rate.period().as_secs())
    }
}

/// The reason of a limit's rejection, as a problem type of draft-ietf-httpapi-ratelimit-headers-11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitProblem {
    /// A quota is used up, of requests in a time or of requests in flight.
    Quota,
    /// The client exceeded a limit so often that it is banned.
    Abnormal,
    /// The limit cannot be evaluated, so it rejects; the client is not the cause.
    Reduced,
}

impl LimitProblem {
    fn type_and_title(self) -> (&'static str, &'static str) {
        match self {
            Self::Quota => (
                "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "Too many requests",
            ),
            Self::Abnormal => (
                "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
                "Abnormal usage detected",
            ),
            Self::Reduced => (
                "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
                "Temporarily reduced capacity",
            ),
        }
    }
}

/// Returns the body of a rejection by the policy item `policy`, sent with `status`.
///
/// The draft, "Problem Types": both name the violated policies.
pub fn violated(policy: &str, excess: LimitProblem, status: StatusCode) -> Bytes {
    Bytes::from(violation(policy, excess, status).to_string())
}

/// Returns the body of a rejection of a request that takes more than the policy item `policy` ever admits.
pub fn never_admitted(policy: &str, status: StatusCode) -> Bytes {
    let mut body = violation(policy, LimitProblem::Quota, status);
    body["detail"] = "the request takes more than the limit ever admits".into();
    Bytes::from(body.to_string())
}

fn violation(policy: &str, excess: LimitProblem, status: StatusCode) -> Value {
    let (kind, title) = excess.type_and_title();
    json!({
        "type": kind,
        "title": title,
        "status": status.as_u16(),
        "violated-policies": [policy],
    })
}
