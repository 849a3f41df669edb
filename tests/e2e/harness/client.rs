//! A client on one kept-alive connection, of HTTP/1.1, HTTP/2 or HTTP/3.
//!
//! hyper, h2 and h3 speak the protocols, so that an answer they cannot parse fails the test. What they would not send goes through
//! [`super::RawConnection`] and [`super::frames`].

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::HeaderMap;
use http::header::HOST;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpSocket;
use tokio::time::timeout;

use super::eventually::PATIENCE;
use super::h2c::H2cClient;
use super::http3_client::Http3Client;
use super::origin::Echo;

/// The protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    #[default]
    Http1,
    Http2,
    /// Over a listener that is made for it, as [`Setup::spoken_to_by`](super::Setup::spoken_to_by) does.
    Http3,
}

impl Version {
    /// All versions.
    pub const ALL: [Self; 3] = [Self::Http1, Self::Http2, Self::Http3];
}

/// A request in the making: `post("/x").header("a", "b").body("…")`.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

pub fn request(method: &str, target: &str) -> Request {
    Request {
        method: method.to_owned(),
        target: target.to_owned(),
        headers: Vec::new(),
        body: Bytes::new(),
    }
}

impl Request {
    /// The same with another method.
    pub fn by(self, method: &str) -> Self {
        Self {
            method: method.to_owned(),
            ..self
        }
    }
}

/// Starts a GET.
pub fn get(target: &str) -> Request {
    request("GET", target)
}

/// Starts a HEAD.
pub fn head(target: &str) -> Request {
    request("HEAD", target)
}

/// Starts a POST.
pub fn post(target: &str) -> Request {
    request("POST", target)
}

/// Starts an OPTIONS.
pub fn options(target: &str) -> Request {
    request("OPTIONS", target)
}

/// Starts a DELETE.
pub fn delete(target: &str) -> Request {
    request("DELETE", target)
}

impl Request {
    /// Adds a field; twice the same name sends it twice.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// As a trusted proxy would forward it for `client`.
    pub fn forwarded_for(self, client: &str) -> Self {
        self.header("X-Forwarded-For", client)
    }

    /// Adds the field of a bearer token.
    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// The body as it will be sent.
    pub(super) fn content(&self) -> Bytes {
        self.body.clone()
    }

    /// Takes away the `Host` that was set; the last one, where there are more.
    pub(super) fn take_host(&mut self) -> Option<String> {
        let is_host = |(name, _): &mut (String, String)| name.eq_ignore_ascii_case("host");
        let host = self.headers.extract_if(.., is_host).last();
        host.map(|(_, value)| value)
    }

    /// The request without its body, with `origin` before the path where a version needs the absolute form.
    pub(super) fn parts(&self, origin: &str) -> http::request::Builder {
        let mut builder = http::Request::builder()
            .method(self.method.as_str())
            .uri(format!("{origin}{}", self.target));
        for (name, value) in &self.headers {
            builder = builder.header(name, value);
        }
        builder
    }
}

/// An answer, read whole.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Response {
    /// The first field of this name, `None` when absent.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Every field of this name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers
            .get_all(name)
            .iter()
            .map(|value| value.to_str().unwrap())
            .collect()
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// What an echoing origin received.
    pub fn echo(&self) -> Echo {
        assert_eq!(self.status, 200, "{self:?}");
        Echo::from_json(&self.json())
    }

    /// `r` of the `RateLimit` item of this name.
    pub fn remaining(&self, item: &str) -> u64 {
        self.rate_limit_parameter(item, "r")
    }

    /// `t` of the `RateLimit` item of this name.
    pub fn seconds_to_more(&self, item: &str) -> u64 {
        self.rate_limit_parameter(item, "t")
    }

    /// `Retry-After` in seconds.
    pub fn retry_after(&self) -> u64 {
        let value = self
            .header("retry-after")
            .unwrap_or_else(|| panic!("no Retry-After: {self:?}"));
        value
            .parse()
            .unwrap_or_else(|_| panic!("Retry-After: {value} is no integer"))
    }

    /// The limits that the problem body names.
    pub fn violated(&self) -> Vec<String> {
        let problem = self.json();
        let names = problem["violated-policies"]
            .as_array()
            .unwrap_or_else(|| panic!("{self:?}"));
        names
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    }

    /// Whether this is an error answer of the gateway's own: `application/problem+json` with this status inside and out.
    pub fn assert_problem(&self, status: u16) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        assert_eq!(self.json()["status"], status, "{self:?}");
        assert!(
            self.json()["title"]
                .as_str()
                .is_some_and(|title| !title.is_empty()),
            "{self:?}"
        );
    }

    fn rate_limit_parameter(&self, item: &str, parameter: &str) -> u64 {
        let items = self.all("ratelimit").join(", ");
        let found = items
            .split(',')
            .map(str::trim)
            .find_map(|one| one.strip_prefix(&format!("\"{item}\"")))
            .unwrap_or_else(|| panic!("no RateLimit item {item:?} in {self:?}"));
        found
            .split(';')
            .find_map(|one| one.trim().strip_prefix(&format!("{parameter}=")))
            .unwrap_or_else(|| panic!("no parameter {parameter} in {items}"))
            .parse()
            .unwrap()
    }
}

/// One connection, kept alive as long as the gateway keeps it.
pub struct Client {
    sender: Sender,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(H2cClient),
    Http3(Http3Client),
}

impl Client {
    /// Connects from an address that the system chooses.
    pub async fn connect(to: SocketAddr) -> Self {
        Self::try_connect(to).await.unwrap()
    }

    /// Connects from a loopback address such as `127.0.0.7`: another client in the eyes of the gateway.
    pub async fn connect_from(from: &str, to: SocketAddr) -> Self {
        Self::connect_by(Version::Http1, Some(from), to).await
    }

    /// Connects by this version.
    pub async fn connect_by(by: Version, from: Option<&str>, to: SocketAddr) -> Self {
        let from = from.map(|from| from.parse().unwrap());
        Self::try_connect_from(by, from, to).await.unwrap()
    }

    /// One on a connection that stands.
    pub(super) fn over(sender: http1::SendRequest<Full<Bytes>>) -> Self {
        Self {
            sender: Sender::Http1(sender),
        }
    }

    /// One of HTTP/2 on a connection that stands.
    pub(super) fn over_http2(client: H2cClient) -> Self {
        Self {
            sender: Sender::Http2(client),
        }
    }

    /// Connects, or says why not.
    pub async fn try_connect(to: SocketAddr) -> std::io::Result<Self> {
        Self::try_connect_from(Version::Http1, None, to).await
    }

    async fn try_connect_from(
        by: Version,
        from: Option<IpAddr>,
        to: SocketAddr,
    ) -> std::io::Result<Self> {
        if by == Version::Http3 {
            let sender = Sender::Http3(Http3Client::connect(from, to).await?);
            return Ok(Self { sender });
        }
        let socket = if to.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        if let Some(from) = from {
            socket.bind(SocketAddr::new(from, 0))?;
        }
        let stream = socket.connect(to).await?;
        stream.set_nodelay(true)?;
        if by == Version::Http2 {
            return Ok(Self::over_http2(H2cClient::over(stream).await));
        }
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        Ok(Self::over(sender))
    }

    /// Sends a request and reads the answer whole.
    pub async fn send(&mut self, request: Request) -> Response {
        let shown = format!("{} {}", request.method, request.target);
        self.try_send(request)
            .await
            .unwrap_or_else(|error| panic!("{shown}: {error}"))
    }

    /// Sends a request and reads the answer whole, or says what broke.
    pub async fn try_send(&mut self, request: Request) -> Result<Response, String> {
        let sender = match &mut self.sender {
            Sender::Http1(sender) => sender,
            Sender::Http2(client) => return client.try_send(request).await,
            Sender::Http3(client) => return client.try_send(request).await,
        };
        let body = Full::new(request.content());
        let mut built = request
            .parts("")
            .body(body)
            .map_err(|error| error.to_string())?;
        built
            .headers_mut()
            .entry(HOST)
            .or_insert(http::HeaderValue::from_static("gateway.test"));
        timeout(PATIENCE, async {
            sender
                .ready()
                .await
                .map_err(|error| format!("connection gone: {error}"))?;
            let answer = sender
                .send_request(built)
                .await
                .map_err(|error| format!("no answer: {error}"))?;
            let (head, body) = answer.into_parts();
            let body = body
                .collect()
                .await
                .map_err(|error| format!("body broken: {error}"))?
                .to_bytes();
            Ok(Response {
                status: head.status.as_u16(),
                headers: head.headers,
                body,
            })
        })
        .await
        .map_err(|_| "no answer in time".to_owned())?
    }

    /// GET in short.
    pub async fn get(&mut self, target: &str) -> Response {
        self.send(get(target)).await
    }

    /// POST without a body in short.
    pub async fn post(&mut self, target: &str) -> Response {
        self.send(post(target)).await
    }
}
