//! A client of HTTP/2 that writes frames by hand, and an origin that does, for what no library would send.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::ports::listen;
use super::within;
use std::time::Duration;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
/// RFC 7540 §6.3; RFC 9113 §5.3.2 has receivers ignore it.
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
/// RFC 9218 §7.1.
pub const PRIORITY_UPDATE: u8 = 16;

pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;

/// Reasons to end a stream or a connection (RFC 9113 §7).
pub const NO_ERROR: u32 = 0;
pub const PROTOCOL_ERROR: u32 = 1;
pub const INTERNAL_ERROR: u32 = 2;
pub const REFUSED_STREAM: u32 = 7;
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// What a client sends first (RFC 9113 §3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long a frame is waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// A frame as it arrived.
#[derive(Clone, Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// What the gateway made of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// An answer, with this status.
    Answered(u16),
    /// The stream was reset, for this reason.
    Reset(u32),
    /// The connection was ended.
    Closed,
}

/// One connection.
pub struct Frames {
    stream: TcpStream,
}

/// The bytes of a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Fields as HPACK literals without indexing, byte for byte (RFC 7541 §6.2.2).
pub fn fields(of: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in of {
        block.push(0);
        text(&mut block, name);
        text(&mut block, value);
    }
    block
}

/// RFC 7541 §5.2, without Huffman; lengths of 7 bits and more.
fn text(block: &mut Vec<u8>, text: &[u8]) {
    if text.len() < 127 {
        block.push(text.len() as u8);
    } else {
        block.push(127);
        let mut rest = text.len() - 127;
        while rest >= 128 {
            block.push((rest % 128) as u8 | 128);
            rest /= 128;
        }
        block.push(rest as u8);
    }
    block.extend(text);
}

/// The head of a GET with further fields.
pub fn get(path: &[u8], more: &[(&[u8], &[u8])]) -> Vec<u8> {
    head(b"GET", path, more)
}

/// The head of a request with further fields.
pub fn head(method: &[u8], path: &[u8], more: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut all: Vec<(&[u8], &[u8])> = vec![
        (b":method", method),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"gateway.test"),
    ];
    all.extend(more);
    fields(&all)
}

/// Starts an origin that answers the head of each request with these frames of its stream, for as long as the test's runtime lives.
pub async fn answering(answer: impl Fn(u32) -> Vec<u8> + Clone + Send + 'static) -> SocketAddr {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut frames = Frames::accept(stream).await;
                while let Some(frame) = frames.next().await {
                    if frame.kind == HEADERS {
                        frames.write(&answer(frame.stream)).await;
                    }
                }
            });
        }
    });
    address
}

impl Frames {
    /// Connects, and sends the preface and empty settings.
    pub async fn connect(to: SocketAddr) -> Self {
        Self::over(TcpStream::connect(to).await.unwrap()).await
    }

    /// The same, from a loopback address such as `127.0.0.7`: another client in the eyes of the gateway.
    pub async fn connect_from(from: &str, to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind((from.parse::<Ipv4Addr>().unwrap(), 0).into())
            .unwrap();
        Self::over(socket.connect(to).await.unwrap()).await
    }

    /// The same, with little room for what it does not read.
    pub async fn connect_unread(to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        Self::over(socket.connect(to).await.unwrap()).await
    }

    async fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        let mut frames = Self { stream };
        frames.write(PREFACE).await;
        frames.write(&frame(SETTINGS, 0, 0, &[])).await;
        frames
    }

    /// The other end of a connection: reads the preface, and sends empty settings.
    pub async fn accept(mut stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        let mut preface = [0; PREFACE.len()];
        stream.read_exact(&mut preface).await.unwrap();
        assert_eq!(&preface, PREFACE);
        let mut frames = Self { stream };
        frames.write(&frame(SETTINGS, 0, 0, &[])).await;
        frames
    }

    /// The connection itself, for bytes that are written at any pace.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Sends bytes as they are.
    pub async fn write(&mut self, bytes: &[u8]) {
        self.try_write(bytes).await.unwrap();
    }

    /// Sends bytes as they are, or says that the gateway has closed.
    pub async fn try_write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        tokio::time::timeout(PATIENCE, self.stream.write_all(bytes)).await?
    }

    /// A whole request without a body.
    pub async fn request(&mut self, stream: u32, block: &[u8]) {
        let frame = frame(HEADERS, END_HEADERS | END_STREAM, stream, block);
        self.write(&frame).await;
    }

    /// The next frame; `None` at the end of the connection.
    pub async fn next(&mut self) -> Option<Frame> {
        let read = async {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await.ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).await.ok()?;
            Some(Frame {
                kind: head[3],
                flags: head[4],
                stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
                payload,
            })
        };
        tokio::time::timeout(PATIENCE, read)
            .await
            .expect("the gateway says nothing")
    }

    /// Waits until the gateway says what becomes of the stream; settings are acknowledged on the way.
    pub async fn fate(&mut self, stream: u32) -> Fate {
        loop {
            let Some(frame) = self.next().await else {
                return Fate::Closed;
            };
            match frame.kind {
                GOAWAY => return Fate::Closed,
                SETTINGS if frame.flags & ACK == 0 => {
                    let acknowledged = self::frame(SETTINGS, ACK, 0, &[]);
                    // A gateway that is closing need not be told.
                    let _ = self.try_write(&acknowledged).await;
                }
                RST_STREAM if frame.stream == stream => {
                    let reason = frame.payload[..4].try_into().unwrap();
                    return Fate::Reset(u32::from_be_bytes(reason));
                }
                HEADERS if frame.stream == stream => return Fate::Answered(status(&frame)),
                _ => {}
            }
        }
    }

    /// Reads the body of the answer on a stream, up to its end or the reason of a reset.
    pub async fn body(&mut self, stream: u32) -> (Vec<u8>, Result<(), u32>) {
        let mut body = Vec::new();
        loop {
            let frame = self.next().await.expect("the connection goes on");
            if frame.stream != stream {
                continue;
            }
            match frame.kind {
                RST_STREAM => {
                    let reason = frame.payload[..4].try_into().unwrap();
                    return (body, Err(u32::from_be_bytes(reason)));
                }
                DATA => body.extend(&frame.payload),
                _ => {}
            }
            if matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0 {
                return (body, Ok(()));
            }
        }
    }

    /// Waits for the head of the answer on a stream, and gives its block of fields.
    pub async fn block(&mut self, stream: u32) -> Vec<u8> {
        loop {
            let frame = self.next().await.expect("the connection goes on");
            if frame.kind == HEADERS && frame.stream == stream {
                return frame.payload;
            }
        }
    }

    /// Waits until the gateway has read all that was sent, which a ping tells.
    pub async fn pong(&mut self) {
        let asked = b"all read";
        self.write(&frame(PING, 0, 0, asked)).await;
        while let Some(next) = self.next().await {
            if next.kind == PING && next.flags & ACK != 0 && next.payload == asked {
                return;
            }
        }
        panic!("the gateway closed the connection");
    }

    /// Waits until the gateway ends the connection, and gives the reason that it told, if it did.
    pub async fn goaway(&mut self) -> Option<u32> {
        let mut reason = None;
        while let Some(frame) = self.next().await {
            if frame.kind == GOAWAY {
                reason = Some(u32::from_be_bytes(frame.payload[4..8].try_into().unwrap()));
            }
        }
        reason
    }
}

/// The sizes of the table with which a block of fields begins (RFC 7541 §6.3), and the rest of it.
pub fn table_sizes(mut block: &[u8]) -> (Vec<usize>, &[u8]) {
    let mut sizes = Vec::new();
    while let Some((first, mut rest)) = block.split_first().filter(|(first, _)| **first >> 5 == 1) {
        let mut size = usize::from(*first & 31);
        if size == 31 {
            let length = rest.iter().position(|byte| byte & 128 == 0).unwrap() + 1;
            for (at, byte) in rest[..length].iter().enumerate() {
                size += usize::from(byte & 127) << (7 * at);
            }
            rest = &rest[length..];
        }
        sizes.push(size);
        block = rest;
    }
    (sizes, block)
}

/// The status of an answer, which HPACK gives as an index for those in its static table, else as digits.
fn status(frame: &Frame) -> u16 {
    const KNOWN: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    let (_, block) = table_sizes(&frame.payload);
    let mut decoder = Decoder(block);
    if let Some(known) = decoder.0[0]
        .checked_sub(0x88)
        .and_then(|at| KNOWN.get(usize::from(at)))
    {
        return *known;
    }
    decoder.literal().parse().unwrap()
}

/// Just enough of HPACK for a literal whose name is `:status` in the static table.
struct Decoder<'a>(&'a [u8]);

impl Decoder<'_> {
    fn literal(&mut self) -> String {
        let (huffman, length) = (self.0[1] & 0x80 != 0, usize::from(self.0[1] & 0x7f));
        let bytes = &self.0[2..2 + length];
        if !huffman {
            return String::from_utf8(bytes.to_vec()).unwrap();
        }
        // RFC 7541, appendix B: 0 to 2 have five bits, 3 to 9 six.
        let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
        let (mut rest, mut digits) = (&*bits, String::new());
        while digits.len() < 3 {
            let five = u8::from_str_radix(&rest[..5], 2).unwrap();
            if five <= 2 {
                digits.push(char::from(b'0' + five));
                rest = &rest[5..];
            } else {
                let six = u8::from_str_radix(&rest[..6], 2).unwrap();
                digits.push(char::from(b'0' + six - 0x19 + 3));
                rest = &rest[6..];
            }
        }
        digits
    }
}

/// Waits for something that must come soon, without asking too often.
pub async fn soon(what: &str, ask: impl AsyncFnMut() -> Option<()>) {
    within(PATIENCE, what, ask).await;
}
