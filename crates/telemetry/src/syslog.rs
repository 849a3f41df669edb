//! Sends lines to a syslog server, each as a message of RFC 5424: over a Unix socket, UDP (RFC 5426) or TCP (RFC 6587, counted octets).
//!
//! The connection is made with the first line, and again after a failure, in one of `ROUNDS` rounds of the writer: a server that is away
//! when the gateway starts loses nothing but what its buffers cannot hold.
//!
//! # Limits
//!
//! Connecting and each write take at most `PATIENCE`. A TCP batch has `BATCH` bytes and one message more.
//!
//! # Errors
//!
//! Each is returned, with the number of bytes whose lines are sent. What a TCP peer took and did not read before it went away is lost, and
//! over UDP whatever the network drops: neither protocol acknowledges a message.

use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::line_buffers::StampedLines;
use crate::rfc3339::TimeFormatter;

/// The longest wait for a connection or a write: the last lines of a process have two seconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// The rounds of the writer, ten a second, from one attempt to connect to the next.
const ROUNDS: u8 = 10;

/// The bytes of messages that are written to a TCP connection at once.
const BATCH: usize = 64 * 1024;

/// The severity of every line: informational.
const SEVERITY: u8 = 6;

/// A syslog server, and what its messages say of the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogTarget {
    /// The server.
    pub server: SyslogServer,
    /// The numerical code of the facility, 0 to 23.
    pub facility: u8,
    /// `HOSTNAME`: 1 to 255 visible characters of ASCII.
    pub hostname: Box<str>,
    /// `APP-NAME`: 1 to 48 visible characters of ASCII.
    pub app_name: Box<str>,
}

/// The address of a syslog server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyslogServer {
    /// `name:port`, each message a datagram.
    Udp(Box<str>),
    /// `name:port`, messages one after the other, each behind its length.
    Tcp(Box<str>),
    /// The path of a datagram socket, such as `/dev/log`.
    Unix(PathBuf),
}

impl SyslogTarget {
    /// Returns its name for the process log.
    pub(crate) fn name(&self) -> String {
        match &self.server {
            SyslogServer::Udp(place) => format!("the syslog server at udp://{place}"),
            SyslogServer::Tcp(place) => format!("the syslog server at tcp://{place}"),
            SyslogServer::Unix(path) => format!("the syslog server at {}", path.display()),
        }
    }
}

/// The way to a server.
pub(crate) struct SyslogSink {
    target: SyslogTarget,
    connection: Option<SyslogConnection>,
    /// The error of the last attempt to connect, and the rounds that do not make another.
    failed: Option<(io::Error, u8)>,
    time: TimeFormatter,
    batch: Vec<u8>,
    process_id: u32,
}

enum SyslogConnection {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Unix(UnixDatagram),
}

/// The way in which a server tells one message from the next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageFraming {
    /// Each is a datagram.
    Datagram,
    /// Each follows the number of its bytes, any number of them in a write.
    Counted,
}

impl SyslogSink {
    /// Makes a way that is not open yet.
    pub(crate) fn new(target: SyslogTarget) -> Self {
        Self {
            target,
            connection: None,
            failed: None,
            time: TimeFormatter::default(),
            batch: Vec::new(),
            process_id: std::process::id(),
        }
    }

    /// Sends the lines from byte `sent` on, and moves `sent` past those that are sent.
    ///
    /// # Errors
    ///
    /// The system's error for connecting or for the write that failed.
    pub(crate) fn send(&mut self, lines: &StampedLines, sent: &mut usize) -> io::Result<()> {
        let mut rest = lines.lines_from(*sent).peekable();
        if rest.peek().is_none() {
            return Ok(());
        }
        let mut connection = self.open()?;
        while rest.peek().is_some() {
            self.batch.clear();
            let mut taken = 0;
            let framing = connection.framing();
            while let Some((at, line)) = rest.peek().copied()
                && (taken == 0 || framing == MessageFraming::Counted && self.batch.len() < BATCH)
            {
                self.append(framing, at, line);
                taken += line.len();
                rest.next();
            }
            connection.write(&self.batch)?;
            *sent += taken;
        }
        // An error above drops the connection: a part of a message on it would break the next one.
        self.connection = Some(connection);
        Ok(())
    }

    /// Takes the open connection, or makes one.
    fn open(&mut self) -> io::Result<SyslogConnection> {
        let open = self.connection.take().filter(SyslogConnection::is_open);
        if let Some(open) = open {
            return Ok(open);
        }
        if let Some((error, rounds)) = &mut self.failed
            && *rounds > 0
        {
            *rounds -= 1;
            return Err(same(error));
        }
        let made = SyslogConnection::open(&self.target.server);
        self.failed = made.as_ref().err().map(|error| (same(error), ROUNDS - 1));
        made
    }

    /// Appends a line as a message: `<PRI>1 TIMESTAMP HOSTNAME APP-NAME PROCID MSGID - MSG`.
    fn append(&mut self, framing: MessageFraming, at: u64, line: &[u8]) {
        let start = self.batch.len();
        let priority = self.target.facility * 8 + SEVERITY;
        // Writing to a vector does not fail.
        let _ = write!(self.batch, "<{priority}>1 ");
        self.batch.extend_from_slice(self.time.at(at));
        let _ = write!(
            self.batch,
            " {} {} {} access - ",
            self.target.hostname, self.target.app_name, self.process_id
        );
        self.batch
            .extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        if framing == MessageFraming::Counted {
            let end = self.batch.len();
            let _ = write!(self.batch, "{} ", end - start);
            let length = self.batch.len() - end;
            self.batch[start..].rotate_right(length);
        }
    }
}

impl SyslogConnection {
    fn open(server: &SyslogServer) -> io::Result<Self> {
        match server {
            SyslogServer::Udp(place) => {
                let to = first_address(place)?;
                let from = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(from)?;
                socket.connect(to)?;
                socket.set_write_timeout(Some(PATIENCE))?;
                Ok(Self::Udp(socket))
            }
            SyslogServer::Tcp(place) => {
                let stream = TcpStream::connect_timeout(&first_address(place)?, PATIENCE)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            SyslogServer::Unix(path) => connect_unix(path).map(Self::Unix),
        }
    }

    fn framing(&self) -> MessageFraming {
        match self {
            Self::Tcp(_) => MessageFraming::Counted,
            Self::Udp(_) | Self::Unix(_) => MessageFraming::Datagram,
        }
    }

    /// Returns whether the peer has not closed the connection: a write after that would be lost without an error.
    fn is_open(&self) -> bool {
        let Self::Tcp(stream) = self else { return true };
        let looked = stream
            .set_nonblocking(true)
            .and_then(|()| stream.peek(&mut [0]));
        let is_open = match looked {
            // A server has nothing to say, but one that does is there.
            Ok(bytes) => bytes > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        is_open && stream.set_nonblocking(false).is_ok()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(socket) => socket.send(bytes).map(drop),
            Self::Udp(socket) => match socket.send(bytes) {
                // The answer to an earlier datagram, which is lost; this one was not sent.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    socket.send(bytes).map(drop)
                }
                sent => sent.map(drop),
            },
        }
    }
}

fn same(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

fn first_address(place: &str) -> io::Result<std::net::SocketAddr> {
    let none = || io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    place.to_socket_addrs()?.next().ok_or_else(none)
}

fn connect_unix(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    const AT: u64 = 1_700_000_000_123_000_000;
    const HEAD: &str = "<134>1 2023-11-14T22:13:20.123Z edge-1 sluicegate ";

    fn sink(server: SyslogServer) -> SyslogSink {
        SyslogSink::new(SyslogTarget {
            server,
            facility: 16,
            hostname: "edge-1".into(),
            app_name: "sluicegate".into(),
        })
    }

    fn lines(texts: &[&str]) -> StampedLines {
        let mut lines = StampedLines::default();
        for text in texts {
            lines.push(AT, text.as_bytes());
        }
        lines
    }

    fn message(line: &str) -> String {
        format!("{HEAD}{} access - {line}", std::process::id())
    }

    /// Goal: each line is one datagram, as RFC 5424 has it, and only lines that were not sent are. Method: a Unix socket and a UDP socket.
    #[test]
    fn a_line_is_a_datagram() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let unix = UnixDatagram::bind(&path).expect("the socket is made");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = udp.local_addr().expect("an address").port();
        let lines = lines(&["one\n", "two\n", "three\n"]);
        let mut buffer = [0; 1_000];
        for server in [
            SyslogServer::Unix(path),
            SyslogServer::Udp(format!("127.0.0.1:{port}").into()),
        ] {
            let is_unix = matches!(server, SyslogServer::Unix(_));
            let mut sent = 4;
            sink(server).send(&lines, &mut sent).expect("it is sent");
            assert_eq!(sent, lines.bytes.len());
            for line in ["two", "three"] {
                let read = if is_unix {
                    unix.recv(&mut buffer)
                } else {
                    udp.recv(&mut buffer)
                };
                let datagram = &buffer[..read.expect("a datagram")];
                assert_eq!(datagram, message(line).as_bytes());
            }
        }
    }

    /// Goal: messages on a TCP connection are apart, and a connection that the server closed is made again before a line is lost. Method:
    /// two connections to a listener, the first closed after its messages.
    #[test]
    fn a_closed_connection_is_made_again() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("an address").to_string();
        let mut sink = sink(SyslogServer::Tcp(place.into()));
        for text in ["one\n", "two\n"] {
            sink.send(&lines(&[text, text]), &mut 0)
                .expect("it is sent");
            let (mut connection, _) = listener.accept().expect("a connection");
            let message = message(text.trim_end());
            let expected = format!("{} {message}{} {message}", message.len(), message.len());
            let mut read = vec![0; expected.len()];
            connection.read_exact(&mut read).expect("both messages");
            assert_eq!(String::from_utf8_lossy(&read), expected);
            drop(connection);
            // The end of the connection arrives like its bytes.
            while sink
                .connection
                .as_ref()
                .is_some_and(SyslogConnection::is_open)
            {
                std::thread::yield_now();
            }
        }
    }

    /// Goal: a server that is away keeps the lines, and is not called for each of them. Method: a path without a socket.
    #[test]
    fn a_server_that_is_away_keeps_the_lines() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let mut sink = sink(SyslogServer::Unix(path.clone()));
        let lines = lines(&["one\n"]);
        let mut sent = 0;
        let error = sink.send(&lines, &mut sent).expect_err("nobody listens");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let _socket = UnixDatagram::bind(&path).expect("the socket is made");
        for _ in 1..ROUNDS {
            let error = sink.send(&lines, &mut sent).expect_err("it is too early");
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert_eq!(sent, 0);
        }
        sink.send(&lines, &mut sent).expect("it is sent");
        assert_eq!(sent, lines.bytes.len());
    }
}
