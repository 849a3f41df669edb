//! The messages of Envoy's rate limit service as its definition has them, and a gateway that answers calls.

use std::collections::BTreeMap;

use prost::Message;

use super::*;

/// `envoy.service.ratelimit.v3.RateLimitRequest`, with texts as the definition has them.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Call {
    #[prost(string, tag = "1")]
    pub(super) domain: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    pub(super) hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    pub(super) entries: Vec<Entry>,
    #[prost(message, optional, tag = "2")]
    pub(super) limit: Option<Override>,
    #[prost(message, optional, tag = "3")]
    pub(super) hits_addend: Option<Hits>,
    #[prost(bool, tag = "4")]
    pub(super) is_negative_hits: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Override {
    #[prost(uint32, tag = "1")]
    pub(super) requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub(super) unit: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Entry {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Hits {
    #[prost(uint64, tag = "1")]
    pub(super) value: u64,
}

/// `envoy.service.ratelimit.v3.RateLimitResponse`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Answer {
    #[prost(int32, tag = "1")]
    pub(super) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(super) statuses: Vec<Status>,
    #[prost(message, repeated, tag = "3")]
    pub(super) response_headers_to_add: Vec<Field>,
    #[prost(message, repeated, tag = "4")]
    pub(super) request_headers_to_add: Vec<Field>,
    #[prost(string, tag = "5")]
    pub(super) raw_body: String,
    #[prost(message, optional, tag = "6")]
    pub(super) dynamic_metadata: Option<Metadata>,
    #[prost(bytes = "vec", optional, tag = "7")]
    pub(super) quota: Option<Vec<u8>>,
}

/// `google.protobuf.Struct` of texts.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(super) fields: BTreeMap<String, Text>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Text {
    #[prost(string, tag = "3")]
    pub(super) text: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) current_limit: Option<Limit>,
    #[prost(uint32, tag = "3")]
    pub(super) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(super) duration_until_reset: Option<Time>,
    #[prost(bytes = "vec", optional, tag = "5")]
    pub(super) quota: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Limit {
    #[prost(uint32, tag = "1")]
    pub(super) requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub(super) unit: i32,
    #[prost(string, tag = "3")]
    pub(super) name: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Time {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Field {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

pub(super) const OK: i32 = 1;
pub(super) const OVER_LIMIT: i32 = 2;
pub(super) const MINUTE: i32 = 2;
pub(super) const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A descriptor with these entries.
pub(super) fn of(entries: &[(&str, &str)]) -> Descriptor {
    let entries = entries.iter().map(|(key, value)| Entry {
        key: (*key).to_owned(),
        value: value.as_bytes().to_vec(),
    });
    Descriptor {
        entries: entries.collect(),
        ..Descriptor::default()
    }
}

pub(super) fn about(descriptors: impl IntoIterator<Item = Descriptor>) -> Call {
    Call {
        domain: "edge".to_owned(),
        descriptors: descriptors.into_iter().collect(),
        hits_addend: 0,
    }
}

/// A gateway whose one listener has the calls.
pub(super) async fn gateway_with(rules: &str) -> Gateway {
    gateway_trusting("127.0.0.1/32", rules).await
}

pub(super) async fn gateway_trusting(proxies: &str, rules: &str) -> Gateway {
    let whole = format!(
        "[[listener]]\naddress = \"{{listener}}\"\nprotocol = \"rls\"\n[client]\ntrusted_proxies = [\"{proxies}\"]\n\
         [admin]\naddress = \"{{admin}}\"\n[log]\naccess = \"{{directory}}/access.log\"\n{rules}"
    );
    Setup::new().whole(&whole).start().await
}

/// Returns a message with the bytes that gRPC has before it.
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend((message.len() as u32).to_be_bytes());
    framed.extend(message);
    framed
}

/// Sends a message to a method. Returns the message of the answer, or status and text of gRPC.
pub(super) async fn send(
    gateway: &Gateway,
    method: &str,
    message: &[u8],
) -> Result<Vec<u8>, (u16, String)> {
    let request = post(method)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(framed(message));
    let answer = gateway.h2c().await.send(request).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/grpc"));
    let told = |name: &str| answer.header(name).unwrap_or_default().to_owned();
    match &*told("grpc-status") {
        "0" => {
            let (prefix, message) = answer.body.split_at(5);
            assert_eq!(prefix[0], 0);
            assert_eq!(prefix[1..], (message.len() as u32).to_be_bytes());
            Ok(message.to_vec())
        }
        status => Err((status.parse().unwrap(), told("grpc-message"))),
    }
}

pub(super) async fn ask(gateway: &Gateway, call: &Call) -> Answer {
    let answer = send(gateway, METHOD, &call.encode_to_vec()).await.unwrap();
    Answer::decode(&*answer).unwrap()
}

impl Answer {
    pub(super) fn codes(&self) -> Vec<i32> {
        self.statuses.iter().map(|status| status.code).collect()
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.response_headers_to_add.iter();
        let field = fields.find(|field| field.key == name)?;
        Some(&field.value)
    }

    pub(super) fn metadata(&self, name: &str) -> Option<&str> {
        let metadata = self.dynamic_metadata.as_ref()?;
        Some(&metadata.fields.get(name)?.text)
    }
}
