//! Compares the connection with the client of the h2 crate: over a pipe in memory, each side sees the requests and answers of the other.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod client;
mod exchange;

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use client::LIMITS;
use exchange::{
    Answer, Exchange, Message, PipeSetting, end_in_time, lines, map_fields, planned, read_body,
    read_fields, send_body, setting, to_map,
};
use h2::Reason;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::{HeaderValue, Request};
use proptest::prelude::*;
use sluicegate_http2::{
    ConnectionEvent, ConnectionLimits, ErrorCode, ServerConnection, StreamEnd, StreamId,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

/// The server's end of a pipe.
struct DuplexServer {
    connection: ServerConnection,
    exchanges: Vec<Exchange>,
    /// The requests that came, by the number of their exchange.
    seen: HashMap<usize, Message>,
    /// The number of each stream's exchange.
    numbers: HashMap<StreamId, usize>,
    /// Bytes of answers that were sent.
    sent: HashMap<StreamId, usize>,
    complete: Vec<usize>,
}

impl DuplexServer {
    /// Serves until the client leaves. Returns the whole requests.
    async fn serve(mut self, mut pipe: DuplexStream) -> HashMap<usize, Message> {
        let mut buffer = [0; 4096];
        loop {
            while let Some(stream) = self.connection.next_ready() {
                self.send_body(stream);
            }
            if !self.connection.output().is_empty() {
                match pipe.write(self.connection.output()).await {
                    Ok(written) => self.connection.advance_output(written),
                    Err(_) => break,
                }
                continue;
            }
            match pipe.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(read) => self.receive(&buffer[..read]),
            }
        }
        let complete = self.complete;
        self.seen
            .into_iter()
            .filter(|(number, _)| complete.contains(number))
            .collect()
    }

    fn receive(&mut self, mut input: &[u8]) {
        while let Some(event) = self.connection.receive(&mut input, Duration::ZERO) {
            match event {
                ConnectionEvent::Request { stream, head, end } => {
                    let text = |part: &[u8]| String::from_utf8(part.to_vec()).unwrap();
                    let path = text(head.path().unwrap());
                    let first = format!("{} {path}", text(head.method()));
                    assert_eq!(head.authority(), Some(&b"a.test"[..]));
                    let (fields, number) = read_fields(head.fields());
                    let number = number.unwrap();
                    let body = Vec::new();
                    let trailers = None;
                    let request = Message {
                        first,
                        fields,
                        body,
                        trailers,
                    };
                    self.seen.insert(number, request);
                    self.numbers.insert(stream, number);
                    self.answer(stream, StreamEnd::NotYet);
                    self.finish(stream, end);
                }
                ConnectionEvent::Data { stream, data, end } => {
                    let number = self.numbers[&stream];
                    self.seen
                        .get_mut(&number)
                        .unwrap()
                        .body
                        .extend_from_slice(data);
                    self.connection.release(stream, data.len());
                    self.finish(stream, end);
                }
                ConnectionEvent::Trailers { stream, fields } => {
                    let number = self.numbers[&stream];
                    self.seen.get_mut(&number).unwrap().trailers = Some(read_fields(&fields).0);
                    self.finish(stream, StreamEnd::Here);
                }
                ConnectionEvent::Reset { violation, .. } => assert_eq!(violation, None),
                other => panic!("{other:?}"),
            }
        }
    }

    fn finish(&mut self, stream: StreamId, end: StreamEnd) {
        if end.is_here() {
            self.complete.push(self.numbers[&stream]);
            self.answer(stream, end);
        }
    }

    /// Answers a request whose head has come, or whose end has.
    fn answer(&mut self, stream: StreamId, end: StreamEnd) {
        let number = self.numbers[&stream];
        let answer = self.exchanges[number].answer.clone();
        match answer {
            Answer::Reset(code) if !end.is_here() => {
                self.connection.reset(stream, ErrorCode::from_number(code));
            }
            Answer::Early(message) if !end.is_here() => self.send(stream, &message),
            Answer::Late(message) if end.is_here() => self.send(stream, &message),
            _ => {}
        }
    }

    fn send(&mut self, stream: StreamId, message: &Message) {
        let status = message.first.parse().unwrap();
        let fields = lines(&message.fields);
        let sent = self
            .connection
            .send_head(stream, status, fields, StreamEnd::NotYet);
        if sent.is_ok() {
            self.sent.insert(stream, 0);
            self.send_body(stream);
        }
    }

    fn send_body(&mut self, stream: StreamId) {
        let (Answer::Early(message) | Answer::Late(message)) =
            &self.exchanges[self.numbers[&stream]].answer
        else {
            return;
        };
        let sent = self.sent.get_mut(&stream).unwrap();
        let end = match message.trailers {
            Some(_) => StreamEnd::NotYet,
            None => StreamEnd::Here,
        };
        let Ok(taken) = self
            .connection
            .send_data(stream, &message.body[*sent..], end)
        else {
            return;
        };
        *sent += taken;
        if let Some(trailers) = &message.trailers
            && *sent == message.body.len()
        {
            let sent = self.connection.send_trailers(stream, lines(trailers));
            sent.unwrap();
        }
    }
}

/// Returns the answer, as the client reads it.
async fn read_answer(answer: ResponseFuture) -> Result<Message, h2::Error> {
    let (head, body) = answer.await?.into_parts();
    let mut message = Message {
        first: head.status.as_str().to_owned(),
        fields: map_fields(&head.headers),
        ..Message::default()
    };
    read_body(body, &mut message).await?;
    Ok(message)
}

/// Makes one exchange, and compares the answer.
async fn exchange(sender: SendRequest<Bytes>, number: usize, exchange: Exchange) {
    let message = &exchange.request;
    let (method, path) = message.first.split_once(' ').unwrap();
    let uri = format!("http://a.test{path}");
    let mut request = Request::builder().method(method).uri(uri).body(()).unwrap();
    *request.headers_mut() = to_map(&message.fields);
    let value = HeaderValue::from(number);
    request.headers_mut().insert("x-number", value);
    let mut sender = sender.ready().await.unwrap();
    let (answer, mut stream) = sender.send_request(request, false).unwrap();
    if exchange.is_cancelled {
        stream.send_reset(Reason::CANCEL);
        return;
    }
    let sent = send_body(stream, message);
    let (sent, answer) = tokio::join!(sent, read_answer(answer));
    match &exchange.answer {
        Answer::Reset(code) => {
            let reason = answer.unwrap_err().reason();
            assert_eq!(reason, Some(Reason::from(*code)));
        }
        Answer::Late(expected) | Answer::Early(expected) => {
            sent.unwrap();
            assert_eq!(answer.unwrap(), expected.sorted());
        }
    }
}

/// Makes the exchanges at the same time, and compares what each side has seen.
async fn compare(exchanges: Vec<Exchange>, setting: PipeSetting) {
    let (ours, theirs) = duplex(setting.pipe);
    let limits = ConnectionLimits {
        max_streams: setting.own_streams,
        stream_window: setting.own_window,
        connection_window: setting.own_window,
        output_bytes: setting.own_output,
        ..LIMITS
    };
    let server = DuplexServer {
        connection: ServerConnection::new(limits, Duration::ZERO),
        exchanges: exchanges.clone(),
        seen: HashMap::new(),
        numbers: HashMap::new(),
        sent: HashMap::new(),
        complete: Vec::new(),
    };
    let served = tokio::spawn(server.serve(ours));
    let mut builder = Builder::new();
    builder
        .initial_window_size(setting.stream_window)
        .initial_connection_window_size(setting.connection_window)
        .max_frame_size(setting.max_frame_size)
        .header_table_size(setting.table)
        .initial_max_send_streams(1);
    let (sender, connection) = builder.handshake::<_, Bytes>(theirs).await.unwrap();
    let connection = tokio::spawn(connection);
    let tasks: Vec<_> = exchanges
        .iter()
        .enumerate()
        .map(|(number, planned)| tokio::spawn(exchange(sender.clone(), number, planned.clone())))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    drop(sender);
    connection.await.unwrap().unwrap();
    let seen = served.await.unwrap();
    for (number, planned) in exchanges.iter().enumerate() {
        let is_whole = !planned.is_cancelled && !matches!(planned.answer, Answer::Reset(_));
        if is_whole {
            assert_eq!(seen.get(&number), Some(&planned.request.sorted()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Goal: the client of the h2 crate and the connection agree on each request and answer. Method: exchanges at the same time, with
    /// fields, bodies, trailers, cancellations and resets, in windows, tables and pipes of many sizes.
    #[test]
    fn both_sides_see_the_same(exchanges in prop::collection::vec(planned(), 1..12), setting in setting()) {
        prop_assert!(end_in_time(compare(exchanges, setting)), "they wait for each other");
    }
}
