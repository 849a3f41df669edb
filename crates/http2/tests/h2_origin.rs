//! Compares the client's side with the server of the h2 crate: over a pipe in memory, each side sees the requests and answers of the other.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod client;
mod exchange;
mod origin;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use exchange::{
    Answer, Exchange, Message, PipeSetting, end_in_time, lines, map_fields, planned, read_body,
    read_fields, send_body, setting, to_map,
};
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response, StatusCode};
use origin::CLIENT_LIMITS;
use proptest::prelude::*;
use sluicegate_http2::{
    ClientConnection, ClientEvent, ClientLimits, ErrorCode, RequestPseudoFields, StreamEnd,
    StreamId,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

/// The whole requests that the server has seen, by the number of their exchange.
type SeenRequests = Arc<Mutex<HashMap<usize, Message>>>;

/// The client's end of a pipe.
struct DuplexOrigin {
    connection: ClientConnection,
    exchanges: Vec<Exchange>,
    /// The number of the next exchange.
    next: usize,
    running: HashMap<StreamId, RunningExchange>,
    results: HashMap<usize, Result<Message, ErrorCode>>,
}

/// An exchange whose request was begun.
#[derive(Default)]
struct RunningExchange {
    number: usize,
    /// Bytes of the body that were sent.
    sent: usize,
    is_sent: bool,
    is_answered: bool,
    response: Message,
}

impl DuplexOrigin {
    /// Makes all exchanges. Returns their results.
    async fn make(mut self, mut pipe: DuplexStream) -> HashMap<usize, Result<Message, ErrorCode>> {
        let mut buffer = [0; 4096];
        loop {
            while self.next < self.exchanges.len() && self.connection.free_streams() > 0 {
                self.begin();
            }
            while let Some(stream) = self.connection.next_ready() {
                self.send_body(stream);
            }
            let is_over = self.next == self.exchanges.len() && self.running.is_empty();
            if is_over && !self.connection.is_closed() {
                assert_eq!(self.connection.open_streams(), 0);
                self.connection.close(ErrorCode::NO_ERROR);
            }
            if !self.connection.output().is_empty() {
                match pipe.write(self.connection.output()).await {
                    Ok(written) => self.connection.advance_output(written),
                    Err(_) => break,
                }
                continue;
            }
            if is_over {
                break;
            }
            match pipe.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(read) => self.receive(&buffer[..read]),
            }
        }
        self.results
    }

    fn begin(&mut self) {
        let number = self.next;
        self.next += 1;
        let planned = &self.exchanges[number];
        let (method, path) = planned.request.first.split_once(' ').unwrap();
        let pseudo = RequestPseudoFields {
            method: method.as_bytes(),
            scheme: Some(b"http"),
            authority: Some(b"a.test"),
            path: Some(path.as_bytes()),
        };
        let text = number.to_string();
        let fields = lines(&planned.request.fields);
        let fields = fields.chain([(&b"x-number"[..], text.as_bytes())]);
        let sent = self
            .connection
            .send_request(pseudo, fields, StreamEnd::NotYet);
        let stream = sent.unwrap();
        if planned.is_cancelled {
            return self.connection.reset(stream, ErrorCode::CANCEL);
        }
        let begun = RunningExchange {
            number,
            ..RunningExchange::default()
        };
        self.running.insert(stream, begun);
        self.send_body(stream);
    }

    fn send_body(&mut self, stream: StreamId) {
        let running = self.running.get_mut(&stream).unwrap();
        let message = &self.exchanges[running.number].request;
        let end = match message.trailers {
            Some(_) => StreamEnd::NotYet,
            None => StreamEnd::Here,
        };
        let rest = &message.body[running.sent..];
        running.sent += self.connection.send_data(stream, rest, end).unwrap();
        if running.sent < message.body.len() {
            return;
        }
        if let Some(trailers) = &message.trailers {
            let sent = self.connection.send_trailers(stream, lines(trailers));
            sent.unwrap();
        }
        running.is_sent = true;
        self.finish(stream);
    }

    fn receive(&mut self, mut input: &[u8]) {
        while let Some(event) = self.connection.receive(&mut input, Duration::ZERO) {
            match event {
                ClientEvent::Response { stream, head, end } => {
                    let running = self.running.get_mut(&stream).unwrap();
                    let response = &mut running.response;
                    match head.is_interim() {
                        true => assert_eq!(head.status(), 103),
                        false => response.first = head.status().to_string(),
                    }
                    response.fields.extend(read_fields(head.fields()).0);
                    self.answer(stream, end);
                }
                ClientEvent::Data { stream, data, end } => {
                    let running = self.running.get_mut(&stream).unwrap();
                    running.response.body.extend_from_slice(data);
                    self.connection.release(stream, data.len());
                    self.answer(stream, end);
                }
                ClientEvent::Trailers { stream, fields } => {
                    let running = self.running.get_mut(&stream).unwrap();
                    running.response.trailers = Some(read_fields(&fields).0);
                    self.answer(stream, StreamEnd::Here);
                }
                ClientEvent::Unprocessed { stream } => self.fail(stream, ErrorCode::REFUSED_STREAM),
                ClientEvent::Reset {
                    stream,
                    code,
                    violation: None,
                } => self.fail(stream, code),
                other => panic!("{other:?}"),
            }
        }
    }

    fn fail(&mut self, stream: StreamId, code: ErrorCode) {
        let running = self.running.remove(&stream).unwrap();
        self.results.insert(running.number, Err(code));
    }

    fn answer(&mut self, stream: StreamId, end: StreamEnd) {
        if end.is_here() {
            self.running.get_mut(&stream).unwrap().is_answered = true;
            self.finish(stream);
        }
    }

    /// Ends an exchange of which both sides have ended.
    fn finish(&mut self, stream: StreamId) {
        let running = &self.running[&stream];
        if running.is_sent && running.is_answered {
            let running = self.running.remove(&stream).unwrap();
            self.results.insert(running.number, Ok(running.response));
        }
    }
}

/// Serves one request with the answer that was planned for it, behind an interim head where its number is odd.
async fn serve(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    exchanges: Vec<Exchange>,
    seen: SeenRequests,
) -> Result<(), h2::Error> {
    let (head, body) = request.into_parts();
    let mut fields = head.headers;
    let number = fields.remove("x-number").unwrap();
    let number: usize = number.to_str().unwrap().parse().unwrap();
    let message = Message {
        first: format!("{} {}", head.method, head.uri.path_and_query().unwrap()),
        fields: map_fields(&fields),
        ..Message::default()
    };
    assert_eq!(head.uri.authority().unwrap(), "a.test");
    match &exchanges[number].answer {
        Answer::Reset(code) => respond.send_reset(Reason::from(*code)),
        Answer::Late(answer) => {
            read_request(body, message, number, seen).await?;
            send_answer(respond, answer, number).await?;
        }
        Answer::Early(answer) => {
            let read = read_request(body, message, number, seen);
            let (read, sent) = tokio::join!(read, send_answer(respond, answer, number));
            read.and(sent)?;
        }
    }
    Ok(())
}

async fn read_request(
    body: RecvStream,
    mut message: Message,
    number: usize,
    seen: SeenRequests,
) -> Result<(), h2::Error> {
    read_body(body, &mut message).await?;
    seen.lock().unwrap().insert(number, message);
    Ok(())
}

async fn send_answer(
    mut respond: SendResponse<Bytes>,
    answer: &Message,
    number: usize,
) -> Result<(), h2::Error> {
    if number % 2 == 1 {
        let mut interim = Response::new(());
        *interim.status_mut() = StatusCode::from_u16(103).unwrap();
        respond.send_informational(interim)?;
    }
    let mut response = Response::new(());
    *response.status_mut() = answer.first.parse().unwrap();
    *response.headers_mut() = to_map(&answer.fields);
    send_body(respond.send_response(response, false)?, answer).await
}

/// Makes the exchanges at the same time, and compares what each side has seen.
async fn compare(exchanges: Vec<Exchange>, setting: PipeSetting) {
    let (ours, mut theirs) = duplex(setting.pipe);
    let limits = ClientLimits {
        max_streams: setting.own_streams,
        first_streams: 1,
        stream_window: setting.own_window,
        connection_window: setting.own_window,
        output_bytes: setting.own_output,
        ..CLIENT_LIMITS
    };
    let origin = DuplexOrigin {
        connection: ClientConnection::new(limits, Duration::ZERO),
        exchanges: exchanges.clone(),
        next: 0,
        running: HashMap::new(),
        results: HashMap::new(),
    };
    let made = tokio::spawn(origin.make(ours));
    let seen = SeenRequests::default();
    let mut builder = Builder::new();
    builder
        .initial_window_size(setting.stream_window)
        .initial_connection_window_size(setting.connection_window)
        .max_concurrent_streams(setting.max_streams)
        .max_frame_size(setting.max_frame_size)
        .header_table_size(setting.table);
    let mut connection = builder.handshake::<_, Bytes>(&mut theirs).await.unwrap();
    let mut tasks = Vec::new();
    while let Some(accepted) = connection.accept().await {
        let (request, respond) = match accepted {
            Ok(request) => request,
            // The client has left when it had all answers.
            Err(error) => {
                assert!(error.is_io(), "{error}");
                break;
            }
        };
        let served = serve(request, respond, exchanges.clone(), Arc::clone(&seen));
        tasks.push(tokio::spawn(served));
    }
    for task in tasks {
        // Of a request that was cancelled the server sees the end.
        let _ = task.await.unwrap();
    }
    let results = made.await.unwrap();
    let seen = seen.lock().unwrap();
    for (number, planned) in exchanges.iter().enumerate() {
        let result = results.get(&number);
        match &planned.answer {
            _ if planned.is_cancelled => assert!(result.is_none()),
            Answer::Reset(code) => assert_eq!(result, Some(&Err(ErrorCode::from_number(*code)))),
            Answer::Early(answer) | Answer::Late(answer) => {
                assert_eq!(result, Some(&Ok(answer.sorted())));
                assert_eq!(seen.get(&number), Some(&planned.request.sorted()));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Goal: the server of the h2 crate and the connection agree on each request and answer. Method: exchanges at the same time, with
    /// fields, bodies, trailers, interim heads, cancellations and resets, in windows, tables, frames and pipes of many sizes.
    #[test]
    fn both_sides_see_the_same(exchanges in prop::collection::vec(planned(), 1..12), setting in setting()) {
        prop_assert!(end_in_time(compare(exchanges, setting)), "they wait for each other");
    }
}
