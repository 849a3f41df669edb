//! An origin that answers as the test says, well or badly, and remembers what it received.
//!
//! It speaks HTTP/1.1 in bytes of its own, because half of its answers are ones that a proper server refuses to give. It lives
//! on a thread of its own, so that a test may block.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite;
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::{Role, WebSocket};

use super::eventually::eventually;
use super::ports::handed_out;

/// A request as it arrived at the origin.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Which of the origin's connections carried it, from 0.
    pub connection: usize,
    /// Whether the body came whole.
    pub whole: bool,
}

/// What an echoing origin received, as its answer tells.
pub type Echo = Received;

/// What the origin does with a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A proper answer.
    Answer(Answer),
    /// A proper answer, then the close, without a word about it in the answer.
    AnswerAndClose(Answer),
    /// The reply, later.
    After(Duration, Box<Reply>),
    /// No answer; the connection stays open until the other end closes it.
    Hang,
    /// A chunked body, one piece every so often.
    Drip {
        piece: &'static str,
        every: Duration,
        pieces: usize,
    },
    /// A head that promises more body than is sent before the close.
    CutShort { promised: usize, sent: usize },
    /// These bytes, then the close.
    Raw(Vec<u8>),
    /// These pieces, and so long between two of them; the connection stays open.
    Pieces(Vec<Vec<u8>>, Duration),
    /// The close, without a byte.
    Close,
    /// The upgrade, then every message sent back.
    WebSocket,
}

/// A proper answer.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// The origin; it stops when dropped.
pub struct Origin {
    address: SocketAddr,
    seen: Arc<Seen>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Received>>,
    accepted: AtomicUsize,
    open: AtomicUsize,
}

type Script = dyn Fn(&Received) -> Reply + Send + Sync;

impl Origin {
    /// Tells what it received, as JSON, with 200.
    pub fn echo() -> Self {
        Self::answering(|received| Reply::Answer(Answer::new(200).json(&received.to_json())))
    }

    /// Says its name, with 200.
    pub fn named(name: &'static str) -> Self {
        Self::answering(move |_| Answer::new(200).body(name).into())
    }

    /// Does to every request what `script` says.
    pub fn answering(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::answering_at("127.0.0.1:0".parse().unwrap(), script)
    }

    /// As [`Self::answering`], at a given address: an origin that comes back.
    pub fn answering_at(
        address: SocketAddr,
        script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = bind(address);
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn({
            let seen = Arc::clone(&seen);
            move || serve(listener, Arc::new(script), seen, stopped)
        });
        Self {
            address,
            seen,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Received> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// The only request so far.
    pub fn only_request(&self) -> Received {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.into_iter().next().unwrap()
    }

    /// How many requests so far.
    pub fn count(&self) -> usize {
        self.seen.requests.lock().unwrap().len()
    }

    /// Waits until it has had this many requests.
    pub async fn is_asked(&self, times: usize) {
        eventually("the origin is asked", async || {
            (self.count() == times).then_some(())
        })
        .await;
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> usize {
        self.seen.accepted.load(Ordering::Relaxed)
    }

    /// How many connections are open.
    pub fn open_connections(&self) -> usize {
        self.seen.open.load(Ordering::Relaxed)
    }

    /// Closes the listener and every connection; the address is free when this returns.
    pub fn stop(mut self) -> SocketAddr {
        self.halt();
        self.address
    }

    fn halt(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.halt();
    }
}

impl Received {
    /// Every field of this name, as sent.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let same = self
            .headers
            .iter()
            .filter(|(found, _)| found.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value.as_str()).collect()
    }

    /// The only field of this name, `None` when absent.
    pub fn header(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() <= 1, "{name} came {} times: {self:?}", all.len());
        all.first().copied()
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Reads back what [`Self::to_json`] wrote.
    pub fn from_json(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let fields = value["headers"]
            .as_array()
            .unwrap_or_else(|| panic!("no echo: {value}"));
        Self {
            method: text(&value["method"]),
            target: text(&value["target"]),
            headers: fields
                .iter()
                .map(|field| (text(&field[0]), text(&field[1])))
                .collect(),
            body: text(&value["body"]).into_bytes(),
            connection: value["connection"].as_u64().unwrap() as usize,
            whole: true,
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "method": self.method,
            "target": self.target,
            "headers": self.headers,
            "body": String::from_utf8_lossy(&self.body),
            "connection": self.connection,
        })
    }
}

impl Answer {
    /// A status without fields or body.
    pub fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Adds a field.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a JSON body.
    pub fn json(self, value: &Value) -> Self {
        self.header("Content-Type", "application/json")
            .body(value.to_string())
    }

    fn to_bytes(&self, method: &str) -> Vec<u8> {
        let mut bytes = format!(
            "HTTP/1.1 {} Scripted\r\nContent-Length: {}\r\n",
            self.status,
            self.body.len()
        );
        for (name, value) in &self.headers {
            bytes.push_str(&format!("{name}: {value}\r\n"));
        }
        bytes.push_str("\r\n");
        let mut bytes = bytes.into_bytes();
        if method != "HEAD" {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

/// Binds, with patience where the address was in use a moment ago.
fn bind(address: SocketAddr) -> std::net::TcpListener {
    if address.port() == 0 {
        return handed_out(|| std::net::TcpListener::bind(address));
    }
    for _ in 0..200 {
        match std::net::TcpListener::bind(address) {
            Ok(listener) => return listener,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    panic!("{address} stays in use")
}

fn serve(
    listener: std::net::TcpListener,
    script: Arc<Script>,
    seen: Arc<Seen>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    listener.set_nonblocking(true).unwrap();
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).unwrap();
        let accept = async {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let connection = seen.accepted.fetch_add(1, Ordering::Relaxed);
                seen.open.fetch_add(1, Ordering::Relaxed);
                let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                tokio::spawn(async move {
                    // An error is the other end's leaving, which the test sees in its own way.
                    let _ = converse(stream, connection, &*script, &seen).await;
                    seen.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        };
        tokio::select! {
            () = accept => {}
            _ = stopped => {}
        }
    });
}

async fn converse(
    mut stream: TcpStream,
    connection: usize,
    script: &Script,
    seen: &Seen,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut ahead = Vec::new();
    while let Some(received) = receive(&mut stream, &mut ahead, connection).await? {
        let whole = received.whole;
        seen.requests.lock().unwrap().push(received.clone());
        if !whole {
            return Ok(());
        }
        let mut reply = script(&received);
        while let Reply::After(delay, later) = reply {
            tokio::time::sleep(delay).await;
            reply = *later;
        }
        match reply {
            Reply::After(..) => unreachable!("unwrapped above"),
            Reply::Answer(answer) => stream.write_all(&answer.to_bytes(&received.method)).await?,
            Reply::AnswerAndClose(answer) => {
                return stream.write_all(&answer.to_bytes(&received.method)).await;
            }
            Reply::Hang => return wait_for_close(&mut stream).await,
            Reply::Drip {
                piece,
                every,
                pieces,
            } => drip(&mut stream, piece, every, pieces).await?,
            Reply::CutShort { promised, sent } => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {promised}\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(&vec![b'x'; sent]).await?;
                return Ok(());
            }
            Reply::Raw(bytes) => return stream.write_all(&bytes).await,
            Reply::Pieces(pieces, pause) => {
                for (index, piece) in pieces.iter().enumerate() {
                    if index > 0 {
                        tokio::time::sleep(pause).await;
                    }
                    stream.write_all(piece).await?;
                }
            }
            Reply::Close => return Ok(()),
            Reply::WebSocket => return echo_messages(stream, &received).await,
        }
    }
    Ok(())
}

async fn drip(
    stream: &mut TcpStream,
    piece: &str,
    every: Duration,
    pieces: usize,
) -> std::io::Result<()> {
    stream
        .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await?;
    for _ in 0..pieces {
        stream
            .write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes())
            .await?;
        tokio::time::sleep(every).await;
    }
    stream.write_all(b"0\r\n\r\n").await
}

async fn wait_for_close(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut sink = [0; 4096];
    while stream.read(&mut sink).await? > 0 {}
    Ok(())
}

/// Shakes hands, then leaves the socket to a thread that sends every message back.
async fn echo_messages(mut stream: TcpStream, received: &Received) -> std::io::Result<()> {
    let key = received.header("sec-websocket-key").unwrap_or_default();
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n",
        derive_accept_key(key.as_bytes())
    );
    stream.write_all(head.as_bytes()).await?;
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    std::thread::spawn(move || {
        let mut socket = WebSocket::from_raw_socket(stream, Role::Server, None);
        while let Ok(message) = socket.read() {
            if (message.is_text() || message.is_binary()) && socket.send(message).is_err() {
                break;
            }
        }
    });
    Ok(())
}

/// One request, or `None` when the connection ended before another began.
async fn receive(
    stream: &mut TcpStream,
    ahead: &mut Vec<u8>,
    connection: usize,
) -> std::io::Result<Option<Received>> {
    let (length, mut received) = loop {
        if let Some(head) = parse_head(ahead, connection) {
            break head;
        }
        if stream.read_buf(ahead).await? == 0 {
            return Ok(None);
        }
    };
    ahead.drain(..length);
    if received.header("expect") == Some("100-continue") {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    let chunked = received
        .all("transfer-encoding")
        .iter()
        .any(|coding| coding.contains("chunked"));
    let body = if chunked {
        read_chunked(stream, ahead).await?
    } else {
        let length = received
            .header("content-length")
            .map_or(0, |length| length.parse().unwrap());
        read_exactly(stream, ahead, length).await?
    };
    match body {
        Some(body) => received.body = body,
        None => received.whole = false,
    }
    Ok(Some(received))
}

fn parse_head(bytes: &[u8], connection: usize) -> Option<(usize, Received)> {
    let mut fields = [httparse::EMPTY_HEADER; 300];
    let mut head = httparse::Request::new(&mut fields);
    let parsed = head.parse(bytes).unwrap_or_else(|error| {
        panic!(
            "the gateway sent no request ({error}): {:?}",
            String::from_utf8_lossy(bytes)
        )
    });
    let httparse::Status::Complete(length) = parsed else {
        return None;
    };
    let fields = head.headers.iter();
    let received = Received {
        method: head.method.unwrap_or_default().to_owned(),
        target: head.path.unwrap_or_default().to_owned(),
        headers: fields
            .map(|field| {
                (
                    field.name.to_owned(),
                    String::from_utf8_lossy(field.value).into_owned(),
                )
            })
            .collect(),
        body: Vec::new(),
        connection,
        whole: true,
    };
    Some((length, received))
}

/// A body of known length, or `None` when it was cut.
async fn read_exactly(
    stream: &mut TcpStream,
    ahead: &mut Vec<u8>,
    length: usize,
) -> std::io::Result<Option<Vec<u8>>> {
    while ahead.len() < length {
        if stream.read_buf(ahead).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(ahead.drain(..length).collect()))
}

/// A chunked body, or `None` when it was cut.
async fn read_chunked(
    stream: &mut TcpStream,
    ahead: &mut Vec<u8>,
) -> std::io::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = ahead.windows(2).position(|two| two == b"\r\n") {
                break end;
            }
            if stream.read_buf(ahead).await? == 0 {
                return Ok(None);
            }
        };
        let line = String::from_utf8_lossy(&ahead[..end]).into_owned();
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)
            .unwrap_or_else(|_| panic!("the gateway sent a bad chunk size: {line:?}"));
        ahead.drain(..end + 2);
        let Some(piece) = read_exactly(stream, ahead, size + 2).await? else {
            return Ok(None);
        };
        body.extend_from_slice(&piece[..size]);
        if size == 0 {
            return Ok(Some(body));
        }
    }
}
