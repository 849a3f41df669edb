//! A socket that sends exactly the bytes it is given, for what no well-behaved client would send.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::client::Response;
use super::eventually::PATIENCE;

/// One connection and what was read ahead of the answer being parsed.
pub struct RawConnection {
    stream: TcpStream,
    ahead: Vec<u8>,
}

/// How an answer's body ends.
enum Framing {
    Empty,
    Length(usize),
    Chunked,
    Close,
}

impl RawConnection {
    /// Connects.
    pub async fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            ahead: Vec::new(),
        }
    }

    /// Connects from a loopback address such as `127.0.0.7`: another client in the eyes of the gateway.
    pub async fn connect_from(from: &str, to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind((from.parse::<Ipv4Addr>().unwrap(), 0).into())
            .unwrap();
        let stream = socket.connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            ahead: Vec::new(),
        }
    }

    /// Connects with a small send buffer, so that what was written is soon known to have been read.
    pub async fn connect_unbuffered(to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(16 * 1024).unwrap();
        let stream = socket.connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            ahead: Vec::new(),
        }
    }

    /// Connects with little room for what it does not read.
    pub async fn connect_unread(to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = socket.connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            ahead: Vec::new(),
        }
    }

    /// Sends bytes as they are.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_write(bytes).await.unwrap();
    }

    /// Sends bytes as they are, or says that the gateway has closed.
    pub async fn try_write(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        timeout(PATIENCE, self.stream.write_all(bytes.as_ref())).await?
    }

    /// Reads one answer, framed as RFC 9112 §6.3 says for a request that was no HEAD.
    pub async fn read_response(&mut self) -> Response {
        self.read("GET")
            .await
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Reads one answer to a HEAD.
    pub async fn read_response_to_head(&mut self) -> Response {
        self.read("HEAD")
            .await
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Reads one chunk of a body in chunks, behind [`Self::read_response_to_head`].
    pub async fn read_chunk(&mut self) -> Vec<u8> {
        let chunk = async {
            let line = self.line().await?;
            let size = usize::from_str_radix(line.trim(), 16)
                .map_err(|_| format!("bad chunk size {line:?}"))?;
            let chunk = self.take(size).await?;
            self.line().await.map(|_| chunk)
        };
        let chunk = timeout(PATIENCE, chunk).await;
        chunk.expect("a chunk in time").unwrap()
    }

    /// Reads one answer, or says why there is none.
    pub async fn try_read_response(&mut self) -> Result<Response, String> {
        self.read("GET").await
    }

    /// Waits until the gateway closes, whatever it still sends, and returns that.
    pub async fn read_to_end(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.ahead);
        // A reset is an end too: the gateway may close while bytes of ours lie unread in its buffer.
        let end = timeout(PATIENCE, self.stream.read_to_end(&mut rest)).await;
        assert!(end.is_ok(), "the gateway keeps the connection open");
        rest
    }

    /// Reads some bytes and forgets them; how many, 0 at the end.
    pub async fn read_at_most(&mut self, most: usize) -> usize {
        let mut scrap = vec![0; most];
        let read = timeout(PATIENCE, self.stream.read(&mut scrap)).await;
        read.expect("bytes or the end").unwrap_or(0)
    }

    async fn read(&mut self, method: &str) -> Result<Response, String> {
        timeout(PATIENCE, self.read_unhurried(method))
            .await
            .map_err(|_| "no whole answer in time".to_owned())?
    }

    async fn read_unhurried(&mut self, method: &str) -> Result<Response, String> {
        let (length, status, headers) = loop {
            if let Some(head) = parse_head(&self.ahead)? {
                break head;
            }
            if !self.read_more().await? {
                return Err(format!(
                    "closed before an answer, after {:?}",
                    String::from_utf8_lossy(&self.ahead)
                ));
            }
        };
        self.ahead.drain(..length);
        let body = match framing(method, status, &headers) {
            Framing::Empty => Vec::new(),
            Framing::Length(length) => self.take(length).await?,
            Framing::Chunked => self.chunked().await?,
            Framing::Close => {
                while self.read_more().await? {}
                std::mem::take(&mut self.ahead)
            }
        };
        Ok(Response {
            status,
            headers,
            body: Bytes::from(body),
        })
    }

    async fn chunked(&mut self) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await?;
            let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)
                .map_err(|_| format!("bad chunk size {line:?}"))?;
            if size == 0 {
                while !self.line().await?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.take(size).await?);
            self.line().await?;
        }
    }

    async fn line(&mut self) -> Result<String, String> {
        loop {
            if let Some(end) = self.ahead.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.ahead.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if !self.read_more().await? {
                return Err("closed within a line".to_owned());
            }
        }
    }

    async fn take(&mut self, length: usize) -> Result<Vec<u8>, String> {
        while self.ahead.len() < length {
            if !self.read_more().await? {
                return Err(format!(
                    "closed after {} of {length} body bytes",
                    self.ahead.len()
                ));
            }
        }
        Ok(self.ahead.drain(..length).collect())
    }

    async fn read_more(&mut self) -> Result<bool, String> {
        let read = self
            .stream
            .read_buf(&mut self.ahead)
            .await
            .map_err(|error| error.to_string())?;
        Ok(read > 0)
    }
}

/// The head's length, status and fields, once all of it is there.
fn parse_head(bytes: &[u8]) -> Result<Option<(usize, u16, HeaderMap)>, String> {
    let mut fields = [httparse::EMPTY_HEADER; 100];
    let mut head = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(length) = head
        .parse(bytes)
        .map_err(|error| format!("{error}: {:?}", String::from_utf8_lossy(bytes)))?
    else {
        return Ok(None);
    };
    let mut headers = HeaderMap::new();
    for field in head.headers.iter() {
        headers.append(
            HeaderName::from_bytes(field.name.as_bytes()).map_err(|error| error.to_string())?,
            HeaderValue::from_bytes(field.value).map_err(|error| error.to_string())?,
        );
    }
    Ok(Some((length, head.code.unwrap_or_default(), headers)))
}

fn framing(method: &str, status: u16, headers: &HeaderMap) -> Framing {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if method == "HEAD" || status < 200 || status == 204 || status == 304 {
        return Framing::Empty;
    }
    if text("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return Framing::Chunked;
    }
    match text("content-length") {
        Some(length) => Framing::Length(length.parse().unwrap()),
        None => Framing::Close,
    }
}
