//! The load generator of `rls.sh`: calls of Envoy's rate limit service, over connections with several calls in flight each.
//!
//! h2load sends one prepared body, so it has one client; here the clients of the calls take turns. Each call has one descriptor with the
//! entry `remote_address`, as Envoy's action of that name sends it. With `--rate` calls are sent at a pace, and latencies count from the
//! moment when a call was due; else each call begins when the one before it has its answer.
//!
//! `calls --to ADDRESS --domain NAME [--seconds N] [--calls N] [--connections N] [--streams N] [--clients N] [--rate N]`
//!
//! `--calls` ends the run after so many calls. The program fails when a call has no answer.

use std::env;
use std::error::Error;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::LocalSet;

const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

type Failure = Box<dyn Error>;

/// `envoy.service.ratelimit.v3.RateLimitRequest`
#[derive(Clone, PartialEq, Message)]
struct Call {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// `envoy.service.ratelimit.v3.RateLimitResponse`, as far as it is read.
#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(int32, tag = "1")]
    overall_code: i32,
}

/// The load.
struct Load {
    to: SocketAddr,
    domain: String,
    seconds: u64,
    calls: u64,
    connections: u64,
    streams: u64,
    clients: u64,
    /// Calls a second over all connections; `None` is as fast as they are answered.
    rate: Option<u64>,
    /// The number of the next call.
    next: AtomicU64,
}

/// The answers to the calls of one stream after another.
#[derive(Default)]
struct Answers {
    /// In microseconds.
    latencies: Vec<u64>,
    admitted: u64,
    over: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let load = Rc::new(Load::from_arguments(env::args().skip(1))?);
    let local = LocalSet::new();
    let (all, elapsed) = local.run_until(run(&load)).await?;
    let Answers {
        mut latencies,
        admitted,
        over,
    } = all;
    latencies.sort_unstable();
    let at = |share: usize| {
        let index = (latencies.len() * share / 1000).min(latencies.len().saturating_sub(1));
        latencies.get(index).copied().unwrap_or(0)
    };
    let report = format!(
        "calls {} admitted {admitted} over {over} seconds {:.3} p50_us {} p99_us {}\n",
        latencies.len(),
        elapsed.as_secs_f64(),
        at(500),
        at(990),
    );
    std::io::stdout().write_all(report.as_bytes())?;
    Ok(())
}

/// Sends the load and returns all answers, and the time that they took.
async fn run(load: &Rc<Load>) -> Result<(Answers, Duration), Failure> {
    let mut connections = Vec::new();
    for _ in 0..load.connections {
        let stream = TcpStream::connect(load.to).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = h2::client::handshake(stream).await?;
        // Its end is seen by the calls on it.
        tokio::task::spawn_local(async move { drop(connection.await) });
        connections.push(sender);
    }
    let start = Instant::now();
    let mut tasks = Vec::new();
    for sender in connections {
        for _ in 0..load.streams {
            let (load, sender) = (Rc::clone(load), sender.clone());
            tasks.push(tokio::task::spawn_local(async move {
                load.send(sender, start)
                    .await
                    .map_err(|error| error.to_string())
            }));
        }
    }
    let mut all = Answers::default();
    for task in tasks {
        let answers = task.await??;
        all.latencies.extend(answers.latencies);
        all.admitted += answers.admitted;
        all.over += answers.over;
    }
    Ok((all, start.elapsed()))
}

/// Waits until a moment. The runtime's timers have a resolution of a millisecond, so the last of it passes in turns of the other calls.
async fn wait_until(moment: Instant) {
    loop {
        let left = moment.saturating_duration_since(Instant::now());
        match left.checked_sub(Duration::from_millis(2)) {
            _ if left.is_zero() => return,
            Some(long) => tokio::time::sleep(long).await,
            None => tokio::task::yield_now().await,
        }
    }
}

impl Load {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut to = None;
        let mut load = Self {
            to: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            domain: String::new(),
            seconds: 3600,
            calls: u64::MAX,
            connections: 1,
            streams: 10,
            clients: 1,
            rate: None,
            next: AtomicU64::new(0),
        };
        while let Some(name) = arguments.next() {
            let value = arguments
                .next()
                .ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--to" => to = Some(value.parse()?),
                "--domain" => load.domain = value,
                "--seconds" => load.seconds = value.parse()?,
                "--calls" => load.calls = value.parse()?,
                "--connections" => load.connections = value.parse()?,
                "--streams" => load.streams = value.parse()?,
                "--clients" => load.clients = value.parse()?,
                "--rate" => load.rate = Some(value.parse()?),
                _ => return Err(format!("{name} is not known").into()),
            }
        }
        load.to = to.ok_or("--to is needed")?;
        let counts = [load.seconds, load.connections, load.streams, load.clients];
        if load.domain.is_empty() || counts.contains(&0) || load.rate == Some(0) {
            return Err("--domain is needed, and no number may be 0".into());
        }
        Ok(load)
    }

    /// Sends one call after another until the time or the calls are over.
    async fn send(
        &self,
        mut sender: SendRequest<Bytes>,
        start: Instant,
    ) -> Result<Answers, Failure> {
        let mut answers = Answers::default();
        loop {
            // Relaxed: the numbers only have to differ.
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let due = match self.rate {
                None => start.elapsed(),
                Some(rate) => Duration::from_nanos(number * 1_000_000_000 / rate),
            };
            if number >= self.calls || due >= Duration::from_secs(self.seconds) {
                return Ok(answers);
            }
            wait_until(start + due).await;
            match self.call(&mut sender, number % self.clients).await? {
                1 => answers.admitted += 1,
                2 => answers.over += 1,
                other => return Err(format!("an answer has overall_code {other}").into()),
            }
            let latency = start.elapsed().saturating_sub(due).as_micros();
            answers
                .latencies
                .push(u64::try_from(latency).unwrap_or(u64::MAX));
        }
    }

    /// Sends one call and returns the code of its answer.
    async fn call(&self, sender: &mut SendRequest<Bytes>, client: u64) -> Result<i32, Failure> {
        let request = Request::post(format!("http://{}{METHOD}", self.to))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        std::future::poll_fn(|context| sender.poll_ready(context)).await?;
        let (response, mut body) = sender.send_request(request, false)?;
        body.send_data(self.message(client)?, true)?;
        let mut response = response.await?.into_body();
        let mut received = Vec::new();
        while let Some(piece) = response.data().await {
            let piece = piece?;
            response.flow_control().release_capacity(piece.len())?;
            received.extend_from_slice(&piece);
        }
        let trailers = response.trailers().await?.ok_or("a call has no trailers")?;
        let status = trailers.get("grpc-status").map(|status| status.as_bytes());
        if status != Some(b"0") {
            return Err(format!("a call failed: {trailers:?}").into());
        }
        let message = received.get(PREFIX_BYTES..).unwrap_or_default();
        Ok(Answer::decode(message)?.overall_code)
    }

    /// Returns the message of a call about a client, with its prefix.
    fn message(&self, client: u64) -> Result<Bytes, Failure> {
        let [.., high, middle, low] = client.to_be_bytes();
        let entry = Entry {
            key: "remote_address".to_owned(),
            value: Ipv4Addr::new(10, high, middle, low).to_string(),
        };
        let call = Call {
            domain: self.domain.clone(),
            descriptors: vec![Descriptor {
                entries: vec![entry],
            }],
        };
        let length = u32::try_from(call.encoded_len())?;
        let mut message = Vec::with_capacity(PREFIX_BYTES + call.encoded_len());
        message.push(0);
        message.extend(length.to_be_bytes());
        call.encode(&mut message)?;
        Ok(message.into())
    }
}
