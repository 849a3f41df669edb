//! The messages of Envoy's rate limit service, version 3, as far as they are read or written here.
//!
//! Source: `envoy/service/ratelimit/v3/rls.proto` and `envoy/extensions/common/ratelimit/v3/ratelimit.proto`. Texts of descriptors are read
//! as bytes, which have the same form: Envoy copies them from what clients send, and a call that could not be read would let its request
//! pass where `failure_mode_deny` is off.

use std::collections::BTreeMap;

use prost::{Enumeration, Message};

/// A call of `ShouldRateLimit`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitRequest {
    /// The domain, which the configuration of Envoy names.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) domain: Vec<u8>,
    /// The descriptors, each of which is limited.
    #[prost(message, repeated, tag = "2")]
    pub(super) descriptors: Vec<RateLimitDescriptor>,
    /// The number of requests that each descriptor counts as; 0 is one.
    #[prost(uint32, tag = "3")]
    pub(super) hits_addend: u32,
}

/// One descriptor.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitDescriptor {
    /// Its entries, in order.
    #[prost(message, repeated, tag = "1")]
    pub(super) entries: Vec<DescriptorEntry>,
    /// The limit to apply in place of the configured one.
    #[prost(message, optional, tag = "2")]
    pub(super) limit: Option<LimitOverride>,
    /// The number of requests that it counts as, in place of the call's: 0 only asks whether there is room.
    #[prost(message, optional, tag = "3")]
    pub(super) hits_addend: Option<HitsAddend>,
    /// True where this number is to be given back.
    #[prost(bool, tag = "4")]
    pub(super) is_negative_hits: bool,
}

/// A limit that a descriptor brings along.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct LimitOverride {
    /// Its count.
    #[prost(uint32, tag = "1")]
    pub(super) requests_per_unit: u32,
    /// Its period.
    #[prost(enumeration = "RateUnit", tag = "2")]
    pub(super) unit: i32,
}

/// An entry of a descriptor.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DescriptorEntry {
    /// Its key.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    /// Its value.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}

/// `google.protobuf.UInt64Value`
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct HitsAddend {
    /// The number.
    #[prost(uint64, tag = "1")]
    pub(super) value: u64,
}

/// The answer to a call.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitResponse {
    /// Over the limit, if one descriptor is.
    #[prost(enumeration = "ResponseCode", tag = "1")]
    pub(super) overall_code: i32,
    /// One for each descriptor, in order.
    #[prost(message, repeated, tag = "2")]
    pub(super) statuses: Vec<DescriptorStatus>,
    /// Fields of the response to the client.
    #[prost(message, repeated, tag = "3")]
    pub(super) response_headers_to_add: Vec<HeaderToAdd>,
    /// Fields of the request to the origin.
    #[prost(message, repeated, tag = "4")]
    pub(super) request_headers_to_add: Vec<HeaderToAdd>,
    /// The body of the response to a client that is over a limit.
    #[prost(bytes = "vec", tag = "5")]
    pub(super) raw_body: Vec<u8>,
    /// The texts about a rejection that Envoy's log can show.
    #[prost(message, optional, tag = "6")]
    pub(super) dynamic_metadata: Option<MetadataStruct>,
}

/// `google.protobuf.Struct`
#[derive(Clone, PartialEq, Message)]
pub(super) struct MetadataStruct {
    /// Its values by their names.
    #[prost(btree_map = "string, message", tag = "1")]
    pub(super) fields: BTreeMap<String, MetadataText>,
}

/// `google.protobuf.Value` that is a text, which is not empty.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MetadataText {
    /// The text.
    #[prost(string, tag = "3")]
    pub(super) text: String,
}

/// The answer about one descriptor.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DescriptorStatus {
    /// Its result.
    #[prost(enumeration = "ResponseCode", tag = "1")]
    pub(super) code: i32,
    /// The rate nearest to rejection.
    #[prost(message, optional, tag = "2")]
    pub(super) current_limit: Option<CurrentLimit>,
    /// Requests that this rate still admits.
    #[prost(uint32, tag = "3")]
    pub(super) limit_remaining: u32,
    /// The time until this rate admits one more.
    #[prost(message, optional, tag = "4")]
    pub(super) duration_until_reset: Option<ProtoDuration>,
}

/// A rate.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CurrentLimit {
    /// Its count.
    #[prost(uint32, tag = "1")]
    pub(super) requests_per_unit: u32,
    /// Its period.
    #[prost(enumeration = "RateUnit", tag = "2")]
    pub(super) unit: i32,
    /// Its name, that of `RateLimit-Policy`.
    #[prost(string, tag = "3")]
    pub(super) name: String,
}

/// `google.protobuf.Duration`
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ProtoDuration {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    /// The rest.
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

/// `envoy.config.core.v3.HeaderValue`
#[derive(Clone, PartialEq, Message)]
pub(super) struct HeaderToAdd {
    /// Its name.
    #[prost(string, tag = "1")]
    pub(super) key: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

/// The result for a descriptor, or for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum ResponseCode {
    Unknown = 0,
    Ok = 1,
    OverLimit = 2,
}

/// A period that the service has a name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum RateUnit {
    /// Any other.
    Unknown = 0,
    Second = 1,
    Minute = 2,
    Hour = 3,
    Day = 4,
    /// Only of a limit that a descriptor brings along, as the next one: no rate here has a period by the calendar.
    Month = 5,
    Year = 6,
}

impl RateUnit {
    /// Returns its name in the service's definition, in lower case.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}
