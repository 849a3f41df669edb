//! Makes messages for exchanges with the h2 crate, and reads them on both sides.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test uses a part, and says what is wrong by panicking"
)]

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use sluicegate_http2::FieldLines;
use tokio::runtime;
use tokio::time::timeout;

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

/// Returns fields as names and values.
pub(crate) fn lines(fields: &Fields) -> impl Iterator<Item = (&[u8], &[u8])> {
    let fields = fields.iter();
    fields.map(|(name, value)| (name.as_bytes(), &value[..]))
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

/// Reads the body of a message to its end.
pub(crate) async fn read_body(
    mut body: RecvStream,
    message: &mut Message,
) -> Result<(), h2::Error> {
    while let Some(bytes) = body.data().await {
        let bytes = bytes?;
        message.body.extend_from_slice(&bytes);
        body.flow_control().release_capacity(bytes.len())?;
    }
    message.trailers = body.trailers().await?.map(|trailers| map_fields(&trailers));
    Ok(())
}

/// Makes exchanges. Returns false where the sides wait for each other.
pub(crate) fn end_in_time(exchanges: impl Future<Output = ()>) -> bool {
    let mut builder = runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().build().unwrap();
    let in_time = async { timeout(Duration::from_secs(20), exchanges).await };
    runtime.block_on(in_time).is_ok()
}

/// The settings of the h2 crate's side, the bounds of the other side, and the size of the pipe between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PipeSetting {
    pub(crate) stream_window: u32,
    pub(crate) connection_window: u32,
    pub(crate) max_streams: u32,
    pub(crate) max_frame_size: u32,
    pub(crate) table: u32,
    pub(crate) pipe: usize,
    pub(crate) own_window: u32,
    pub(crate) own_streams: u32,
    pub(crate) own_output: usize,
}

pub(crate) fn setting() -> impl Strategy<Value = PipeSetting> {
    let window = || prop_oneof![Just(65_535_u32), 1000_u32..200_000];
    let table = prop_oneof![Just(4096_u32), Just(0), 0_u32..8192];
    let pipe = prop_oneof![Just(64 * 1024_usize), 100_usize..5000];
    let frame = prop_oneof![Just(16_384_u32), 16_384_u32..100_000];
    let theirs = (window(), window(), 1_u32..20, frame, table);
    let own = (window(), 1_u32..20, 1000_usize..100_000);
    (theirs, pipe, own).prop_map(|(theirs, pipe, own)| PipeSetting {
        stream_window: theirs.0,
        connection_window: theirs.1.max(65_535),
        max_streams: theirs.2,
        max_frame_size: theirs.3,
        table: theirs.4,
        pipe,
        own_window: own.0,
        own_streams: own.1,
        own_output: own.2,
    })
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
