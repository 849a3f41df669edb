//! Defines what the link takes from the program that embeds it: clocks, random numbers and opened connections.
//!
//! A program that implements only the clocks gets the random numbers and the sockets of the system. A test that replaces all of them, and
//! starts the link on a runtime of one thread with a paused clock, repeats a run exactly.

use std::fmt;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::address::ServerAddress;
use crate::time::Moment;

/// A connection that carries bytes both ways.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// The future of an opened connection.
pub type OpeningStream<'a> =
    Pin<Box<dyn Future<Output = io::Result<Box<dyn ByteStream>>> + Send + 'a>>;

/// The clocks, the random numbers and the network of the program that embeds the link.
pub trait LinkEnvironment: fmt::Debug + Send + Sync {
    /// Returns the time by which durations are measured. A step of the wall clock must not show in it.
    fn now(&self) -> Moment;

    /// Returns the wall clock's time, which is compared with the clocks of servers.
    fn wall(&self) -> Moment;

    /// Returns a random number; `None` where the system has no source of random numbers.
    fn random(&self) -> Option<u64> {
        getrandom::u64().ok()
    }

    /// Opens a connection without encryption. The caller bounds the time.
    fn open<'a>(&'a self, address: &'a ServerAddress) -> OpeningStream<'a> {
        Box::pin(open_socket(address))
    }
}

impl dyn LinkEnvironment + '_ {
    /// Returns a random number for jitter and names; a fixed one where the system has no source of random numbers.
    #[must_use]
    pub fn jitter(&self) -> u64 {
        self.random().unwrap_or(500)
    }
}

/// Opens a socket of the system.
async fn open_socket(address: &ServerAddress) -> io::Result<Box<dyn ByteStream>> {
    match address {
        ServerAddress::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        ServerAddress::Tcp(address) => {
            let stream = TcpStream::connect((&*address.host, address.port)).await?;
            // A call is one small packet that should leave at once.
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
    }
}
