//! Sends requests to the admin listener of a running gateway, for the commands that show it or change it.
//!
//! The client blocks, sends one request a connection and bounds everything that it waits for and reads. The listener has no TLS, so neither
//! has the client.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use http::Uri;
use http::uri::Authority;
use sluicegate_base::bounds::{ADMIN_ANSWER, ADMIN_CONNECT};

/// The admin listener of a gateway, and the token for it.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminClient {
    /// Host and port, or an address.
    authority: String,
    /// The path before that of each request, without a slash at its end.
    prefix: String,
    token: Option<String>,
    patience: Duration,
}

/// The mistake in a URL, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUrl(String);

/// The reason why there is no answer.
#[derive(Debug)]
pub enum AdminError {
    /// Nothing accepts connections there, or the connection broke.
    Unreachable(String, io::Error),
    /// The other side speaks no HTTP, or not as the admin listener does.
    NotAdmin(String, &'static str),
    /// The answer needs a token that was not sent, or another one.
    Denied(String, TokenState),
    /// The request failed, with this status and this body.
    Failed(String, u16, String),
}

/// The token of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenState {
    /// None was.
    Missing,
    /// One was, and it is not that of the gateway.
    Wrong,
}

impl AdminClient {
    /// Returns the client of the listener at `address`.
    #[must_use]
    pub fn at(address: SocketAddr, token: Option<&str>, patience: Duration) -> Self {
        Self {
            authority: address.to_string(),
            prefix: String::new(),
            token: token.map(str::to_owned),
            patience,
        }
    }

    /// Returns the client of the listener at a URL, `http://127.0.0.1:9180`.
    ///
    /// # Errors
    /// The URL is none of an admin listener.
    pub fn of_url(url: &str, token: Option<&str>, patience: Duration) -> Result<Self, BadUrl> {
        let bad = |reason: &str| {
            BadUrl(format!(
                "{url}: {reason}; write http://HOST:PORT, as http://127.0.0.1:9180"
            ))
        };
        if url.starts_with("https://") {
            return Err(bad(
                "the admin listener has no TLS, so it is asked over http only; forward its port to this machine if it is another one's",
            ));
        }
        let rest = url
            .strip_prefix("http://")
            .ok_or_else(|| bad("this is no http URL"))?;
        let uri: Uri = format!("http://{rest}")
            .parse()
            .map_err(|_| bad("this is no URL"))?;
        let authority = uri.authority().ok_or_else(|| bad("there is no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad(
                "a user name is not understood; give the token by --token-file",
            ));
        }
        if uri.query().is_some() {
            return Err(bad("there is a query"));
        }
        Ok(Self {
            authority: with_port(authority),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            token: token.map(str::to_owned),
            patience,
        })
    }

    /// Returns host and port.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Reads `target` and returns the body of the answer, which has the status 200.
    ///
    /// # Errors
    /// There is no answer, or it has another status.
    pub fn get(&self, target: &str) -> Result<String, AdminError> {
        let (status, body) = self.send("GET", target)?;
        let authority = self.authority.clone();
        match status {
            200 => Ok(body),
            401 => Err(AdminError::Denied(
                authority,
                match self.token {
                    None => TokenState::Missing,
                    Some(_) => TokenState::Wrong,
                },
            )),
            _ => Err(AdminError::Failed(authority, status, body)),
        }
    }

    /// Sends a request and returns status and body of the answer, whatever they are.
    ///
    /// # Errors
    /// There is no answer.
    pub fn send(&self, method: &str, target: &str) -> Result<(u16, String), AdminError> {
        self.send_with_body(method, target, "")
    }

    /// Sends a request with a body of JSON, and returns status and body of the answer, whatever they are.
    ///
    /// # Errors
    /// There is no answer.
    pub fn send_with_body(
        &self,
        method: &str,
        target: &str,
        body: &str,
    ) -> Result<(u16, String), AdminError> {
        let answer = self
            .exchange(method, target, body)
            .map_err(|error| AdminError::Unreachable(self.authority.clone(), self.named(error)))?;
        parse(&answer).map_err(|reason| AdminError::NotAdmin(self.authority.clone(), reason))
    }

    /// Returns the error in the words of the caller: a wait that ends is an answer that does not come.
    fn named(&self, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let seconds = self.patience.as_secs_f64();
                let message = format!("the gateway does not answer within {seconds} s");
                io::Error::new(io::ErrorKind::TimedOut, message)
            }
            _ => error,
        }
    }

    /// Returns the bytes of the answer.
    fn exchange(&self, method: &str, target: &str, body: &str) -> io::Result<Vec<u8>> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(self.patience))?;
        stream.set_write_timeout(Some(ADMIN_CONNECT))?;
        let token = self.token.as_ref();
        let token = token.map_or_else(String::new, |token| {
            format!("authorization: Bearer {token}\r\n")
        });
        let length = match body {
            "" => String::new(),
            body => format!(
                "content-type: application/json\r\ncontent-length: {}\r\n",
                body.len()
            ),
        };
        let request = format!(
            "{method} {}{target} HTTP/1.1\r\nhost: {}\r\n{token}{length}connection: close\r\n\r\n{body}",
            self.prefix, self.authority
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ADMIN_ANSWER + 1).read_to_end(&mut answer)?;
        if answer.is_empty() {
            let closed = "the connection was closed without an answer";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, closed));
        }
        Ok(answer)
    }

    /// Connects to the first address of the host that accepts.
    fn connect(&self) -> io::Result<TcpStream> {
        let mut latest = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.authority.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, ADMIN_CONNECT) {
                Ok(stream) => return Ok(stream),
                Err(error) => latest = error,
            }
        }
        Err(latest)
    }
}

impl fmt::Debug for AdminClient {
    /// Writes the token of no client.
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            into,
            "AdminClient(http://{}{})",
            self.authority, self.prefix
        )
    }
}

impl fmt::Display for BadUrl {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str(&self.0)
    }
}

impl fmt::Display for AdminError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(authority, error) => write!(into, "{authority}: {error}"),
            Self::NotAdmin(authority, reason) => write!(
                into,
                "{authority}: {reason}; give the address of [admin], which is 127.0.0.1:9180 by default"
            ),
            Self::Denied(authority, TokenState::Missing) => write!(
                into,
                "{authority}: the gateway asks for a token; give a file with one by --token-file, or the configuration whose [admin] \
                 token_file has one by --config"
            ),
            Self::Denied(authority, TokenState::Wrong) => write!(
                into,
                "{authority}: the token is wrong; it is one of those in [admin] token_file at the gateway"
            ),
            Self::Failed(authority, status, body) => {
                write!(into, "{authority}: answers {status}: {}", body.trim())
            }
        }
    }
}

impl std::error::Error for AdminError {}

/// Returns host and port; without a port, that of HTTP.
fn with_port(authority: &Authority) -> String {
    match authority.port_u16() {
        Some(_) => authority.to_string(),
        None => format!("{}:80", authority.host()),
    }
}

/// Parses an answer into its status and its body.
fn parse(answer: &[u8]) -> Result<(u16, String), &'static str> {
    if answer.len() as u64 > ADMIN_ANSWER {
        return Err("the answer is too long");
    }
    let answer = std::str::from_utf8(answer).map_err(|_| "the answer is no text")?;
    let head = answer
        .strip_prefix("HTTP/1.")
        .ok_or("the answer is not HTTP")?;
    let (head, body) = head.split_once("\r\n\r\n").ok_or("the answer has no end")?;
    let status = head.split(' ').nth(1).and_then(|status| status.get(..3));
    let status = status.and_then(|status| status.parse().ok());
    let status = status.ok_or("the answer has no status")?;
    for line in head.lines().skip(1) {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err("the answer is chunked, as the admin listener's never are");
        }
        if name.eq_ignore_ascii_case("content-length") && value.trim().parse() != Ok(body.len()) {
            return Err("the answer breaks off");
        }
    }
    Ok((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    /// Goal: a URL leads to the listener, or says what to write. Method: URLs with and without port, prefix and brackets, and slips.
    #[test]
    fn a_url_leads_to_a_listener_or_says_what_to_write() {
        for (url, shown) in [
            (
                "http://127.0.0.1:9180",
                "AdminClient(http://127.0.0.1:9180)",
            ),
            ("http://[::1]:9180/", "AdminClient(http://[::1]:9180)"),
            ("http://gateway", "AdminClient(http://gateway:80)"),
            (
                "http://a:1/sluicegate/",
                "AdminClient(http://a:1/sluicegate)",
            ),
        ] {
            let client = AdminClient::of_url(url, Some("secret"), PATIENCE);
            assert_eq!(format!("{:?}", client.unwrap()), shown, "{url}");
        }
        for (url, part) in [
            ("https://127.0.0.1:9180", "has no TLS"),
            ("127.0.0.1:9180", "no http URL"),
            ("http://", " no "),
            ("http://a b", "no URL"),
            ("http://user@a:1", "--token-file"),
            ("http://a:1/?x=1", "query"),
        ] {
            let message = AdminClient::of_url(url, None, PATIENCE)
                .unwrap_err()
                .to_string();
            assert!(message.contains(part), "{url}: {message}");
            assert!(message.contains("write http://HOST:PORT"), "{message}");
        }
    }

    /// Goal: no answer is taken for another. Method: a whole one, and others that are cut, chunked, or none.
    #[test]
    fn only_a_whole_answer_is_one() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(parse(whole), Ok((200, "ok".to_owned())));
        for (answer, part) in [
            (&whole[..whole.len() - 1], "breaks off"),
            (&whole[..20], "no end"),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0",
                "chunked",
            ),
            (b"SSH-2.0-OpenSSH\r\n\r\n", "not HTTP"),
            (b"HTTP/1.1 abc\r\n\r\n", "status"),
            (b"", "not HTTP"),
            (b"HTTP/1.1 200 OK\r\n\r\n\xff", "no text"),
        ] {
            assert!(parse(answer).unwrap_err().contains(part), "{part}");
        }
    }
}
