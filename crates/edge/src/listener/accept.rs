//! Accepts the connections of a listening socket, and serves each on a thread of its service.
//!
//! A thread of a service has a runtime of its own, which waits for the sockets that are registered with it. A connection is registered
//! with the thread that serves it: registered with the one that accepts, each of its events would wake that thread, which would
//! wake the other one by a write
//! ([0064](../../docs/decisions/0064-connections-are-registered-where-they-are-served.md)).

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;

use pingora::server::ShutdownWatch;
use pingora_runtime::current_handle;
use sluicegate_base::bounds::{ACCEPT_PAUSE, LISTEN_BACKLOG};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::sleep;

use sluicegate_tls::client_socket::ClientSocket;

/// The application of a listener.
pub trait ConnectionApp: Send + Sync + 'static {
    /// The permit of one connection, from its acceptance to its end.
    type Permit: Send + 'static;

    /// Returns a permit for a connection from this address; `None` where there are as many as may be, which closes it without a byte.
    fn admit(&self, peer: SocketAddr) -> Option<Self::Permit>;

    /// Notes that a connection could not be accepted.
    fn note_accept_error(&self, error: &io::Error);

    /// Serves a connection to its end.
    fn serve(
        self: Arc<Self>,
        socket: ClientSocket,
        permit: Self::Permit,
        shutdown: ShutdownWatch,
    ) -> impl Future<Output = ()> + Send;
}

/// A listening socket that is registered with the thread that accepts.
pub struct Acceptor(AsyncFd<TcpListener>);

/// The connections that wait in the queue of a listening socket when it closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuedConnections {
    /// They are served: the kernel resets those that are left when no process has the socket any more.
    Served,
    /// They are left to a new process, which has the socket too.
    Left,
}

impl Acceptor {
    /// Returns the acceptor of a socket that does not block.
    ///
    /// # Errors
    /// The socket cannot be waited for.
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for types whose descriptor may be another at each call: that of a listener stays the same"
    )]
    pub fn new(socket: TcpListener) -> io::Result<Self> {
        AsyncFd::with_interest(socket, Interest::READABLE).map(Self)
    }

    /// Accepts connections until the shutdown, then those that are `queued`, and serves each by `app` in a task of its own.
    pub async fn serve<A: ConnectionApp>(
        self,
        app: &Arc<A>,
        mut shutdown: ShutdownWatch,
        queued: QueuedConnections,
    ) {
        let watch = shutdown.clone();
        // Its sender is dropped where the process ends.
        let mut is_over = pin!(shutdown.wait_for(|is_over| *is_over));
        loop {
            let accepted = tokio::select! {
                biased;
                _ = &mut is_over => break,
                accepted = self.0.async_io(Interest::READABLE, accept) => accepted,
            };
            match accepted {
                Ok(connection) => begin(connection, app, &watch),
                Err(error) if is_of_connection(&error) => {}
                Err(error) => {
                    app.note_accept_error(&error);
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        if queued == QueuedConnections::Served {
            self.serve_queued(app, &watch);
        }
    }

    /// Serves the connections that wait in the queue, and no more than fit into it: others may come meanwhile.
    fn serve_queued<A: ConnectionApp>(&self, app: &Arc<A>, shutdown: &ShutdownWatch) {
        for _ in 0..LISTEN_BACKLOG {
            match accept(self.0.get_ref()) {
                Ok(connection) => begin(connection, app, shutdown),
                Err(error) if is_of_connection(&error) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return app.note_accept_error(&error),
            }
        }
    }
}

/// Begins to serve an accepted connection, if there may be one more.
///
/// The permit is taken here, not where the connection is served: threads may take longer to look at connections than it takes to accept
/// them, and meanwhile they would take more descriptors than there may be.
fn begin<A: ConnectionApp>(
    (socket, peer): (std::net::TcpStream, SocketAddr),
    app: &Arc<A>,
    shutdown: &ShutdownWatch,
) {
    let Some(permit) = app.admit(peer) else {
        return;
    };
    let app = Arc::clone(app);
    let shutdown = shutdown.clone();
    less_busy_thread().spawn(async move {
        // Registers it with this thread.
        match TcpStream::from_std(socket) {
            Ok(socket) => {
                let socket = ClientSocket::new(socket, peer);
                app.serve(socket, permit, shutdown).await;
            }
            Err(error) => app.note_accept_error(&error),
        }
    });
}

/// Returns one of two random threads of the service: the one with fewer tasks, so that the busiest has hardly more than others
/// (Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, 2001).
fn less_busy_thread() -> Handle {
    let one = current_handle();
    let other = current_handle();
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
    use std::io::Read;
    use std::net::TcpStream as Client;
    use std::os::fd::AsRawFd;
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use pingora::protocols::SocketDigest;
    use pingora_runtime::{NoStealRuntime, Runtime};
    use tokio::sync::watch;

    use super::*;

    /// The longest wait for what should happen.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// An application that serves each connection forever.
    struct Forever {
        permits: Mutex<usize>,
        /// Gets a message for each connection that is served.
        served: Sender<()>,
    }

    impl ConnectionApp for Forever {
        type Permit = ();

        fn admit(&self, _: SocketAddr) -> Option<()> {
            let mut permits = self.permits.lock().expect("nothing panics");
            *permits = permits.checked_sub(1)?;
            Some(())
        }

        fn note_accept_error(&self, error: &io::Error) {
            panic!("{error}");
        }

        async fn serve(self: Arc<Self>, socket: ClientSocket, (): (), _: ShutdownWatch) {
            // The receiver is dropped at the end of a test.
            let _ = self.served.send(());
            pending::<()>().await;
            drop(socket);
        }
    }

    /// Returns an application with so many permits, and the receiver of its messages.
    fn forever(permits: usize) -> (Arc<Forever>, Receiver<()>) {
        let (served, receiver) = channel();
        let permits = Mutex::new(permits);
        (Arc::new(Forever { permits, served }), receiver)
    }

    /// Returns a listening socket, and clients whose connections wait in its queue.
    fn queued(clients: usize) -> (TcpListener, Vec<Client>) {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
        socket.set_nonblocking(true).expect("an option");
        let address = socket.local_addr().expect("its address");
        let connect = |_| Client::connect(address).expect("room in the queue");
        let clients: Vec<_> = (0..clients).map(connect).collect();
        // A client is connected before its last segment has arrived. Of a listening socket the kernel reports the queue here.
        let digest = SocketDigest::from_raw_fd(socket.as_raw_fd());
        let queue = || digest.tcp_info().expect("an open socket").tcpi_unacked as usize;
        let since = std::time::Instant::now();
        while queue() < clients.len() && since.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        (socket, clients)
    }

    /// Returns the threads of a runtime that lasts as long as the process: Pingora stores the handles of a service by the number of a
    /// thread, so that a thread which got the number of an ended one would spawn on the runtime of that one.
    fn threads(number: usize) -> &'static NoStealRuntime {
        match Box::leak(Box::new(Runtime::new_no_steal(number, "test"))) {
            Runtime::NoSteal(threads) => threads,
            Runtime::Steal { .. } => panic!("a thread takes tasks of others"),
        }
    }

    /// Goal: no thread has many more connections than others. Method: 4,000 tasks on four threads; at random, the numbers of two threads
    /// differ by sixty on average.
    #[test]
    fn threads_have_as_many_connections() {
        let threads = threads(4);
        let spawned = threads.get_runtime().spawn(async {
            for _ in 0..4_000 {
                less_busy_thread().spawn(pending::<()>());
            }
        });
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

    /// Goal: connections that wait for a busy thread take no more descriptors than there may be. Method: one of two threads is blocked; of
    /// twenty connections three have permits, and the others are closed meanwhile.
    #[test]
    fn a_connection_counts_before_its_thread_looks_at_it() {
        let threads = threads(2);
        let (unblock, blocked) = channel::<()>();
        threads.get_runtime_at(1).spawn(async move {
            // It ends when the test does.
            let _ = blocked.recv();
        });
        let (app, _served) = forever(3);
        let (socket, clients) = queued(20);
        let (_keep, shutdown) = watch::channel(false);
        threads.get_runtime_at(0).spawn(async move {
            let acceptor = Acceptor::new(socket).expect("a socket");
            acceptor
                .serve(&app, shutdown, QueuedConnections::Served)
                .await;
        });
        let (tell_closed, closed) = channel();
        for mut client in clients {
            let tell_closed = tell_closed.clone();
            std::thread::spawn(move || {
                let end = client.read(&mut [0]);
                // The receiver is dropped at the end of the test.
                let _ = tell_closed.send(end.ok());
            });
        }
        for _ in 0..17 {
            let end = closed.recv_timeout(PATIENCE).expect("a closed connection");
            assert_eq!(end, Some(0));
        }
        drop(unblock);
    }

    /// Goal: a shutdown resets no connection that waits in the queue, unless a new process has it too. Method: a shutdown before the first
    /// connection is accepted.
    #[test]
    fn queued_connections_are_served_at_the_shutdown() {
        for (queue, expected) in [(QueuedConnections::Served, 5), (QueuedConnections::Left, 0)] {
            let thread = threads(1).get_runtime_at(0);
            let (app, served) = forever(9);
            let (socket, clients) = queued(5);
            let (_keep, shutdown) = watch::channel(true);
            let accepting = thread.spawn(async move {
                let acceptor = Acceptor::new(socket).expect("a socket");
                acceptor.serve(&app, shutdown, queue).await;
            });
            let end = thread.block_on(accepting);
            end.expect("no panic");
            for _ in 0..expected {
                served.recv_timeout(PATIENCE).expect("a served connection");
            }
            assert!(served.try_recv().is_err());
            drop(clients);
        }
    }
}
