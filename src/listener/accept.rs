//! Accepts the connections of a listening socket, and serves each on a thread of its service.
//!
//! A thread of a service has a runtime of its own, which waits for the sockets that are registered with it. A connection is registered
//! with the thread that serves it: registered with the one that accepts, each of its events would wake that thread, which would
//! wake the other one by a write
//! ([0064](../../docs/decisions/0064-connections-are-registered-where-they-are-served.md)).

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::Arc;

use pingora::protocols::l4::stream::Stream as SocketStream;
use pingora::protocols::{GetSocketDigest, SocketDigest, Stream};
use pingora::server::ShutdownWatch;
use pingora_runtime::current_handle;
use sluicegate_base::bounds::ACCEPT_PAUSE;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::sleep;

/// The application of a listener.
pub trait ConnectionApp: Send + Sync + 'static {
    /// Notes that a connection could not be accepted.
    fn note_accept_error(&self, error: &io::Error);

    /// Serves a connection to its end.
    fn serve(
        self: Arc<Self>,
        stream: Stream,
        shutdown: ShutdownWatch,
    ) -> impl Future<Output = ()> + Send;
}

/// A listening socket that is registered with the thread that accepts.
pub(crate) struct Acceptor(AsyncFd<TcpListener>);

impl Acceptor {
    /// Returns the acceptor of a socket that does not block.
    ///
    /// # Errors
    /// The socket cannot be waited for.
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for types whose descriptor may be another at each call: that of a listener stays the same"
    )]
    pub(crate) fn new(socket: TcpListener) -> io::Result<Self> {
        AsyncFd::with_interest(socket, Interest::READABLE).map(Self)
    }

    /// Accepts connections until the shutdown, and serves each by `app` in a task of its own.
    pub(crate) async fn serve<A: ConnectionApp>(self, app: &Arc<A>, mut shutdown: ShutdownWatch) {
        let watch = shutdown.clone();
        // Its sender is dropped where the process ends.
        let mut is_over = pin!(shutdown.wait_for(|is_over| *is_over));
        loop {
            let accepted = tokio::select! {
                biased;
                _ = &mut is_over => return,
                accepted = self.0.async_io(Interest::READABLE, accept) => accepted,
            };
            match accepted {
                Ok((socket, peer)) => {
                    let (app, shutdown) = (Arc::clone(app), watch.clone());
                    less_busy_thread().spawn(async move {
                        match registered(socket, peer) {
                            Ok(stream) => app.serve(stream, shutdown).await,
                            Err(error) => app.note_accept_error(&error),
                        }
                    });
                }
                Err(error) if is_of_connection(&error) => {}
                Err(error) => {
                    app.note_accept_error(&error);
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Returns one of two random threads of the service: the one with fewer tasks, so that the busiest has hardly more than others
/// (Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, 2001).
fn less_busy_thread() -> Handle {
    let (one, other) = (current_handle(), current_handle());
    if other.metrics().num_alive_tasks() < one.metrics().num_alive_tasks() {
        other
    } else {
        one
    }
}

/// Accepts a connection that does not block: in one system call, where the standard library takes two.
#[cfg(target_os = "linux")]
fn accept(socket: &TcpListener) -> io::Result<(std::net::TcpStream, SocketAddr)> {
    use rustix::net::{SocketFlags, acceptfrom_with};

    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (accepted, peer) = acceptfrom_with(socket, flags)?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    Ok((accepted.into(), peer.ok_or(ErrorKind::ConnectionAborted)?))
}

#[cfg(not(target_os = "linux"))]
fn accept(socket: &TcpListener) -> io::Result<(std::net::TcpStream, SocketAddr)> {
    let (accepted, peer) = socket.accept()?;
    accepted.set_nonblocking(true)?;
    Ok((accepted, peer))
}

/// Registers an accepted connection with this thread.
fn registered(accepted: std::net::TcpStream, peer: SocketAddr) -> io::Result<Stream> {
    let socket = TcpStream::from_std(accepted)?;
    let digest = SocketDigest::from_raw_fd(socket.as_raw_fd());
    // It is new, and has none.
    let _ = digest.peer_addr.set(Some(peer.into()));
    let mut stream = SocketStream::from(socket);
    stream.set_socket_digest(digest);
    Ok(Box::new(stream))
}

/// Returns whether only the connection failed that was to be accepted, accept(2), so that the next one may be accepted at once. All other
/// errors stay until something is freed, and would return at once again.
fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::Interrupted
            | ErrorKind::NetworkDown
            | ErrorKind::NetworkUnreachable
    )
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use pingora_runtime::Runtime;

    use super::*;

    /// Goal: no thread has many more connections than others. Method: 4,000 tasks on four threads; at random, the numbers of two threads
    /// differ by sixty on average.
    #[test]
    fn threads_have_as_many_connections() {
        let runtime = Runtime::new_no_steal(4, "test");
        let spawned = runtime.get_handle().spawn(async {
            for _ in 0..4_000 {
                less_busy_thread().spawn(pending::<()>());
            }
        });
        let Runtime::NoSteal(threads) = &runtime else {
            panic!("a thread takes tasks of others");
        };
        threads
            .get_runtime_at(0)
            .block_on(spawned)
            .expect("spawned");
        let tasks = (0..4).map(|thread| threads.get_runtime_at(thread).metrics().num_alive_tasks());
        let tasks: Vec<usize> = tasks.collect();
        let (most, fewest) = (tasks.iter().max(), tasks.iter().min());
        let most = most.expect("four");
        assert!(most - fewest.expect("four") <= 20, "{tasks:?}");
    }
}
