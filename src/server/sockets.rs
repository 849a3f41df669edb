//! Owns the listening sockets: bound here, or taken over from the old process or from the service manager.
//!
//! They are bound before the server runs, so that a start fails early and clearly. A service listens on a duplicate; the kernel keeps a
//! socket, and the connections that wait in its queue, until the last duplicate in any process is closed.
//!
//! An option of a listening socket applies to every connection that it accepts, so options of connections are set here. Two of them bound
//! what the kernel holds for a client: unsent bytes ([`CLIENT_UNSENT`]), and the time for which nothing of what was sent is acknowledged.
//! An answer that the kernel has taken whole waits in no write of the gateway, so without the second its connection, or the stream of
//! events that it carries, would last as long as the kernel tries: a quarter of an hour on Linux.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_base::bounds::{CLIENT_UNSENT, LEAST_UNACKNOWLEDGED, LISTEN_BACKLOG};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::start_error::StartError;

/// Listening sockets by the address that the configuration gives them.
pub(super) type ListenerMap = BTreeMap<SocketAddr, TcpListener>;

/// The sockets of this process.
pub(super) struct ListenerSockets(Mutex<ListenerMap>);

impl ListenerSockets {
    /// Returns a socket for each of the `addresses`, taken from the `inherited` ones or bound. Closes inherited ones that are
    /// not needed. A client may acknowledge nothing for `write_timeout`.
    ///
    /// # Errors
    /// An address cannot be bound.
    /// When an address cannot be listened on.
    pub(super) fn open(
        addresses: impl IntoIterator<Item = SocketAddr>,
        mut inherited: ListenerMap,
        write_timeout: Duration,
    ) -> Result<Self, StartError> {
        let cannot_listen = |address| move |cause| StartError::Bind(address, cause);
        let open = |address| {
            let socket = match inherited.remove(&address) {
                Some(socket) => socket,
                None => bind(address).map_err(cannot_listen(address))?.into(),
            };
            set_options(&socket).map_err(cannot_listen(address))?;
            Ok((address, socket))
        };
        let sockets: Result<ListenerMap, StartError> = addresses.into_iter().map(open).collect();
        let sockets = Self(Mutex::new(sockets?));
        sockets.bound_unacknowledged(write_timeout);
        Ok(sockets)
    }

    /// Bounds the time for which a client of a connection that begins from now on may acknowledge nothing of what was sent.
    pub(super) fn bound_unacknowledged(&self, write_timeout: Duration) {
        for socket in self.lock().values() {
            bound_unacknowledged(socket, write_timeout.max(LEAST_UNACKNOWLEDGED));
        }
    }

    /// Returns a duplicate of the socket for this address.
    ///
    /// # Errors
    /// There is none any more, or no descriptor for the duplicate.
    pub(super) fn duplicate(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let sockets = self.lock();
        let socket = sockets.get(&address).ok_or(ErrorKind::NotFound)?;
        socket.try_clone()
    }

    /// Returns duplicates of all, for a new process.
    pub(super) fn duplicates(&self) -> io::Result<ListenerMap> {
        self.lock()
            .iter()
            .map(|(address, socket)| Ok((*address, socket.try_clone()?)))
            .collect()
    }

    /// Closes the sockets. An address is free once its service, and every other process, has closed its duplicate too.
    pub(super) fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, ListenerMap> {
        // Every change of the map is one call, so a poisoned lock still holds a complete one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tries to bind an address as a start does, for `check`. Nothing listens meanwhile, so a start at the same time succeeds.
///
/// # Errors
///
/// The address cannot be bound, and is not in use.
pub fn try_binding(address: SocketAddr) -> io::Result<()> {
    match bind(address) {
        Err(error) if error.kind() != ErrorKind::AddrInUse => Err(error),
        _ => Ok(()),
    }
}

/// Returns a socket that is bound to an address, and does not listen yet.
///
/// # Errors
///
/// The system's.
fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // Connections of a process that has ended do not hold the address.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Sets the options of a listening socket, and those that its connections take over.
///
/// # Errors
/// The system refuses an option.
fn set_options(socket: &TcpListener) -> io::Result<()> {
    // The threads wait for it by epoll.
    socket.set_nonblocking(true)?;
    let options = SockRef::from(socket);
    // One of the service manager listens already, with a queue of its length.
    options.listen(LISTEN_BACKLOG)?;
    // An answer is one write, which should not wait for the acknowledgment of the one before.
    options.set_tcp_nodelay(true)?;
    bound_unsent(&options);
    Ok(())
}

/// Bounds the unsent bytes of an answer in the kernel. Without the bound the kernel keeps as much as its send buffer may grow to, 4 MiB on
/// Linux, of every answer that is not read.
#[cfg(target_os = "linux")]
fn bound_unsent(socket: &SockRef<'_>) {
    // A kernel without the option keeps more, and is otherwise the same.
    let _ = socket.set_tcp_notsent_lowat(CLIENT_UNSENT);
}

#[cfg(not(target_os = "linux"))]
fn bound_unsent(_: &SockRef<'_>) {
    let _ = CLIENT_UNSENT;
}

/// Ends each connection of this listener whose client acknowledges nothing for so long, or takes nothing of what waits (RFC 5482,
/// `tcp(7)`).
#[cfg(target_os = "linux")]
fn bound_unacknowledged(socket: &TcpListener, time: Duration) {
    // A kernel without the option waits longer, and is otherwise the same.
    let _ = SockRef::from(socket).set_tcp_user_timeout(Some(time));
}

#[cfg(not(target_os = "linux"))]
fn bound_unacknowledged(_: &TcpListener, _: Duration) {}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// Goal: a new process needs no free address, and binds new ones. Method: one address inherited, one not; and the same one
    /// without inheritance, while it is in use.
    #[test]
    fn an_inherited_address_is_not_bound_again() {
        let old = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = old.local_addr().expect("its address");
        let free = "127.0.0.1:0".parse().expect("an address");
        let handed = ListenerMap::from([(address, old.try_clone().expect("a duplicate"))]);
        let sockets = ListenerSockets::open([address, free], handed, TIMEOUT).expect("both open");
        assert_eq!(sockets.duplicates().expect("duplicates").len(), 2);
        assert!(matches!(
            ListenerSockets::open([address], ListenerMap::new(), TIMEOUT),
            Err(StartError::Bind(taken, _)) if taken == address
        ));
        sockets.close();
        assert!(sockets.duplicates().expect("none").is_empty());
    }
    /// Goal: a connection has the bound that is in force when it begins, and no bound is shorter than a retransmission. Method: connections
    /// at the start and after each change.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_connection_has_the_bound_of_its_beginning() {
        let free = "127.0.0.1:0".parse().expect("an address");
        let sockets = ListenerSockets::open([free], ListenerMap::new(), TIMEOUT).expect("it opens");
        let listener = sockets
            .duplicates()
            .expect("one")
            .remove(&free)
            .expect("it");
        let address = listener.local_addr().expect("its address");
        let accepted = || {
            let client = std::net::TcpStream::connect(address).expect("a connection");
            let (socket, _) = listener.accept().expect("its other end");
            let time = SockRef::from(&socket).tcp_user_timeout();
            drop(client);
            time.expect("the option")
        };
        assert_eq!(accepted(), Some(TIMEOUT));
        sockets.bound_unacknowledged(Duration::from_secs(5));
        assert_eq!(accepted(), Some(Duration::from_secs(5)));
        sockets.bound_unacknowledged(Duration::from_millis(1));
        assert_eq!(accepted(), Some(LEAST_UNACKNOWLEDGED));
    }
}
