//! Many requests on many kept-alive connections, bounded in count and time.
//!
//! Every thread writes one request on each of its connections, then reads one answer from each: as cheap as blocking sockets
//! get, and a request's number tells which client it plays.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const THREADS: usize = 2;

/// Writes request number `n` into the buffer.
type Writer = dyn Fn(u64, &mut Vec<u8>) + Send + Sync;

/// A flood in the making.
pub struct Flood {
    requests: u64,
    connections: usize,
    limit: Duration,
    write: Box<Writer>,
}

/// What came of it.
pub struct FloodReport {
    /// The status of each answer by the request's number; 0 where the connection broke.
    statuses: Vec<u16>,
    /// How long it took.
    pub took: Duration,
}

impl Flood {
    /// So many requests, each written by `write`, on 64 connections within a minute.
    pub fn of(requests: u64, write: impl Fn(u64, &mut Vec<u8>) + Send + Sync + 'static) -> Self {
        Self {
            requests,
            connections: 64,
            limit: Duration::from_secs(60),
            write: Box::new(write),
        }
    }

    /// So many GETs of one path.
    pub fn gets(requests: u64, path: &'static str) -> Self {
        Self::of(requests, move |_, buffer| {
            write!(buffer, "GET {path} HTTP/1.1\r\nHost: gateway.test\r\n\r\n").unwrap();
        })
    }

    /// On so many connections.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Within so long.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs to the end; panics when it takes too long.
    pub async fn run(self, to: SocketAddr) -> FloodReport {
        tokio::task::spawn_blocking(move || self.run_blocking(to))
            .await
            .unwrap()
    }

    fn run_blocking(self, to: SocketAddr) -> FloodReport {
        let started = Instant::now();
        let deadline = started + self.limit;
        let mut statuses = vec![0; usize::try_from(self.requests).unwrap()];
        let share = statuses.len().div_ceil(THREADS).max(1);
        let connections = (self.connections / THREADS).max(1);
        std::thread::scope(|scope| {
            for (part, statuses) in statuses.chunks_mut(share).enumerate() {
                let first = (part * share) as u64;
                let write = &*self.write;
                scope.spawn(move || drive(to, connections, first, statuses, write, deadline));
            }
        });
        FloodReport {
            statuses,
            took: started.elapsed(),
        }
    }
}

impl FloodReport {
    /// How many answers had this status.
    pub fn count(&self, status: u16) -> usize {
        self.statuses
            .iter()
            .filter(|found| **found == status)
            .count()
    }

    /// How many requests got no answer.
    pub fn broken(&self) -> usize {
        self.count(0)
    }

    /// The status of request number `n`.
    pub fn status(&self, n: usize) -> u16 {
        self.statuses[n]
    }
}

fn drive(
    to: SocketAddr,
    connections: usize,
    first: u64,
    statuses: &mut [u16],
    write: &Writer,
    deadline: Instant,
) {
    let mut lines: Vec<Line> = (0..connections.min(statuses.len()))
        .map(|_| Line::connect(to))
        .collect();
    let mut request = Vec::new();
    let width = lines.len().max(1);
    for (turn, answers) in statuses.chunks_mut(width).enumerate() {
        assert!(
            Instant::now() < deadline,
            "the flood takes too long: {} turns done",
            turn
        );
        let base = first + (turn * width) as u64;
        for (line, number) in lines.iter_mut().zip(base..base + answers.len() as u64) {
            request.clear();
            write(number, &mut request);
            line.send(to, &request);
        }
        for (line, answer) in lines.iter_mut().zip(answers) {
            *answer = line.status();
        }
    }
}

/// One connection; a broken one is replaced at its next request.
struct Line {
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Line {
    fn connect(to: SocketAddr) -> Self {
        Self {
            stream: Self::open(to),
            buffer: Vec::with_capacity(4096),
        }
    }

    fn open(to: SocketAddr) -> Option<TcpStream> {
        let stream = TcpStream::connect(to).ok()?;
        stream.set_nodelay(true).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_secs(15)))
            .ok()?;
        Some(stream)
    }

    fn send(&mut self, to: SocketAddr, request: &[u8]) {
        if self.stream.is_none() {
            self.stream = Self::open(to);
        }
        let sent = self
            .stream
            .as_mut()
            .is_some_and(|stream| stream.write_all(request).is_ok());
        if !sent {
            self.stream = None;
        }
    }

    /// The status of one answer, whose body is read too; 0 when there was none.
    fn status(&mut self) -> u16 {
        let answer = self.read_answer();
        match answer {
            Some((status, Persistence::Kept)) => status,
            Some((status, Persistence::Closed)) => {
                self.stream = None;
                status
            }
            None => {
                self.stream = None;
                0
            }
        }
    }

    fn read_answer(&mut self) -> Option<(u16, Persistence)> {
        let stream = self.stream.as_mut()?;
        self.buffer.clear();
        let mut piece = [0; 4096];
        loop {
            let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
            self.buffer.extend_from_slice(&piece[..read]);
            let mut fields = [httparse::EMPTY_HEADER; 64];
            let mut head = httparse::Response::new(&mut fields);
            let httparse::Status::Complete(length) = head.parse(&self.buffer).ok()? else {
                continue;
            };
            let mut body = 0;
            let mut persistence = Persistence::Kept;
            for field in head.headers.iter() {
                if field.name.eq_ignore_ascii_case("content-length") {
                    body = std::str::from_utf8(field.value).ok()?.parse().ok()?;
                } else if field.name.eq_ignore_ascii_case("connection")
                    && field.value.eq_ignore_ascii_case(b"close")
                {
                    persistence = Persistence::Closed;
                }
            }
            let status = head.code?;
            let mut have = self.buffer.len() - length;
            while have < body {
                have += stream.read(&mut piece).ok().filter(|read| *read > 0)?;
            }
            return Some((status, persistence));
        }
    }
}

/// Whether the gateway keeps the connection.
enum Persistence {
    Kept,
    Closed,
}
