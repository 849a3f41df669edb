//! Asks DNS servers: by a datagram, and over a stream where the answer does not fit into one.
//!
//! Each question has a socket of its own, so that its port is as hard to guess as the system makes it (RFC 5452 §4.5), and the system
//! drops what other addresses send. No question is repeated beyond [`DNS_ATTEMPTS`].

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sluicegate_base::bounds::{DNS_ANSWER_BYTES, DNS_ATTEMPTS, DNS_PATIENCE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::message::{DnsAnswer, DnsQuestion};

/// Asks the servers in order, until one settles the question.
///
/// # Errors
/// The failure of the last one.
pub(super) async fn ask(
    servers: &[SocketAddr],
    mut question: DnsQuestion,
) -> io::Result<DnsAnswer> {
    let mut failure = io::Error::other("there is no DNS server");
    // A datagram may be lost, so a single server is asked twice.
    let attempts = DNS_ATTEMPTS.min(servers.len().max(2));
    for server in servers.iter().cycle().take(attempts) {
        question.renew()?;
        let answer = timeout(DNS_PATIENCE, exchange(*server, &question)).await;
        let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match answer.and_then(DnsAnswer::settled) {
            Ok(answer) => return Ok(answer),
            Err(error) => failure = io::Error::new(error.kind(), format!("{server}: {error}")),
        }
    }
    Err(failure)
}

async fn exchange(server: SocketAddr, question: &DnsQuestion) -> io::Result<DnsAnswer> {
    let answer = by_datagram(server, question).await?;
    if answer.is_truncated() {
        return by_stream(server, question).await;
    }
    Ok(answer)
}

/// Sends a datagram, and waits for the answer. Whatever else arrives is dropped.
async fn by_datagram(server: SocketAddr, question: &DnsQuestion) -> io::Result<DnsAnswer> {
    let from = match server {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((from, 0)).await?;
    socket.connect(server).await?;
    socket.send(question.bytes()).await?;
    let mut buffer = [0; DNS_ANSWER_BYTES];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(answer) = buffer
            .get(..length)
            .and_then(|bytes| question.answer(bytes))
        {
            return Ok(answer);
        }
    }
}

/// Asks over a stream, RFC 1035 §4.2.2: each message has its length in front.
async fn by_stream(server: SocketAddr, question: &DnsQuestion) -> io::Result<DnsAnswer> {
    let mut stream = TcpStream::connect(server).await?;
    let bytes = question.bytes();
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut message = length.to_be_bytes().to_vec();
    message.extend_from_slice(bytes);
    stream.write_all(&message).await?;
    let length = usize::from(stream.read_u16().await?);
    if length > DNS_ANSWER_BYTES {
        let error = format!("an answer of {length} bytes is too long");
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).await?;
    let other = || io::Error::new(io::ErrorKind::InvalidData, "it answers another question");
    question.answer(&answer).ok_or_else(other)
}
