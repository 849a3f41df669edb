//! Makes messages for exchanges with the h2 crate, and reads them on both sides.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test uses a part, and says what is wrong by panicking"
)]

use std::future::poll_fn;

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use sluicegate_http2::FieldLines;

pub(crate) type Fields = Vec<(String, Vec<u8>)>;

/// One direction of an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// The method and the path, or the status.
    pub(crate) first: String,
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<Fields>,
}

impl Message {
    /// Returns the message with its fields in order.
    pub(crate) fn sorted(&self) -> Self {
        let mut message = self.clone();
        message.fields.sort();
        if let Some(trailers) = &mut message.trailers {
            trailers.sort();
        }
        message
    }
}

/// A request, and the answer to it.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Message,
    pub(crate) answer: Answer,
    /// True if the client cancels before it reads the answer.
    pub(crate) is_cancelled: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Behind the end of the request.
    Late(Message),
    /// With the head of the request.
    Early(Message),
    Reset(u32),
}

/// The fields of the server's side, without the number of the exchange, sorted.
pub(crate) fn read_fields(fields: &FieldLines) -> (Fields, Option<usize>) {
    let mut number = None;
    let mut found = Fields::new();
    for (name, value) in fields.iter() {
        match name {
            b"x-number" => number = String::from_utf8_lossy(value).parse().ok(),
            _ => found.push((String::from_utf8(name.to_vec()).unwrap(), value.to_vec())),
        }
    }
    found.sort();
    (found, number)
}

/// The fields of the client's side, sorted.
pub(crate) fn map_fields(map: &HeaderMap) -> Fields {
    let fields = map.iter();
    let fields = fields.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
    let mut fields: Fields = fields.collect();
    fields.sort();
    fields
}

pub(crate) fn to_map(fields: &Fields) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::try_from(name).unwrap();
        map.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    map
}

/// Sends the body of a request as the windows of the server allow.
pub(crate) async fn send_body(
    mut stream: SendStream<Bytes>,
    message: &Message,
) -> Result<(), h2::Error> {
    let mut rest = Bytes::from(message.body.clone());
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        let free = poll_fn(|context| stream.poll_capacity(context)).await;
        let free = free.unwrap_or(Err(Reason::CANCEL.into()))?;
        stream.send_data(rest.split_to(free.min(rest.len())), false)?;
    }
    match &message.trailers {
        Some(trailers) => stream.send_trailers(to_map(trailers)),
        None => stream.send_data(Bytes::new(), true),
    }
}

pub(crate) fn fields() -> impl Strategy<Value = Fields> {
    let name = prop_oneof![
        Just("accept".to_owned()),
        Just("cookie".to_owned()),
        Just("content-type".to_owned()),
        "x-[a-z]{1,3}",
    ];
    let value = prop_oneof![
        Just("text/html".to_owned()),
        "[!-~]{0,30}",
        "[!-~]([ -~]{0,200}[!-~])?",
    ];
    prop::collection::vec((name, value.prop_map(String::into_bytes)), 0..8)
}

pub(crate) fn body() -> impl Strategy<Value = Vec<u8>> {
    (0_usize..5, 0_usize..40_000, any::<u8>()).prop_map(|(size, bytes, byte)| match size {
        0 => Vec::new(),
        1 => vec![byte; bytes % 100],
        _ => (0..bytes).map(|at| byte.wrapping_add(at as u8)).collect(),
    })
}

pub(crate) fn message(first: impl Strategy<Value = String>) -> impl Strategy<Value = Message> {
    let trailers =
        prop::option::weighted(0.3, prop::collection::vec(("x-t[a-z]", "[!-~]{1,9}"), 1..3));
    (first, fields(), body(), trailers).prop_map(|(first, fields, body, trailers)| {
        let bytes = |(name, value): (String, String)| (name, value.into_bytes());
        let trailers = trailers.map(|fields| fields.into_iter().map(bytes).collect());
        Message {
            first,
            fields,
            body,
            trailers,
        }
    })
}

pub(crate) fn planned() -> impl Strategy<Value = Exchange> {
    let request = message("(GET|POST|PUT) /[a-z]{0,8}(\\?[a-z=]{0,8})?");
    let status = prop_oneof![
        Just("200".to_owned()),
        Just("404".to_owned()),
        // Neither 204 nor 304, which have no body.
        "[2-5][1-9][0-9]"
    ];
    let answer = prop_oneof![
        4 => message(status.clone()).prop_map(Answer::Late),
        3 => message(status).prop_map(Answer::Early),
        1 => (1_u32..14).prop_map(Answer::Reset),
    ];
    (request, answer, prop::bool::weighted(0.1)).prop_map(|(request, answer, is_cancelled)| {
        Exchange {
            request,
            answer,
            is_cancelled,
        }
    })
}
