//! Owns the listening sockets: bound here, or taken over from the old process or from the service manager.
//!
//! Pingora would bind by itself, and retry an address in use for half a minute. Bound here, a start fails early and clearly, and
//! there are sockets to hand over. Pingora gets a duplicate of each; the kernel keeps a socket, and the connections that wait in
//! its queue, until the last duplicate in any process is closed.
//!
//! An option of a listening socket applies to every connection that it accepts, so the bound on unsent bytes in the kernel
//! ([`CLIENT_UNSENT`]) is set here, once.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::IntoRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pingora::server::ListenFds;
use sluicegate_base::bounds::CLIENT_UNSENT;

use super::StartError;

/// Listening sockets by the address that the configuration gives them.
pub(super) type ListenerMap = BTreeMap<SocketAddr, TcpListener>;

/// The sockets of this process.
pub(super) struct ListenerSockets(Mutex<ListenerMap>);

impl ListenerSockets {
    /// Returns a socket for each of the `addresses`, taken from the `inherited` ones or bound. Closes inherited ones that are
    /// not needed.
    ///
    /// # Errors
    /// An address cannot be bound.
    /// When an address cannot be listened on.
    pub(super) fn open(
        addresses: impl IntoIterator<Item = SocketAddr>,
        mut inherited: ListenerMap,
    ) -> Result<Self, StartError> {
        let open = |address| {
            let socket = match inherited.remove(&address) {
                Some(socket) => socket,
                None => {
                    TcpListener::bind(address).map_err(|cause| StartError::Bind(address, cause))?
                }
            };
            bound_unsent(&socket);
            Ok((address, socket))
        };
        let sockets: Result<ListenerMap, StartError> = addresses.into_iter().map(open).collect();
        Ok(Self(Mutex::new(sockets?)))
    }

    /// Passes Pingora a duplicate of the sockets for these addresses, which it then does not bind.
    pub(super) fn give(&self, fds: &ListenFds, addresses: &[String]) -> std::io::Result<()> {
        for (address, socket) in &*self.lock() {
            let address = address.to_string();
            if addresses.contains(&address) {
                let duplicate = socket.try_clone()?;
                // Pingora's runtime waits for them by epoll.
                duplicate.set_nonblocking(true)?;
                fds.lock().add(address, duplicate.into_raw_fd());
            }
        }
        Ok(())
    }

    /// Returns duplicates of all, for a new process.
    pub(super) fn duplicates(&self) -> std::io::Result<ListenerMap> {
        self.lock()
            .iter()
            .map(|(address, socket)| Ok((*address, socket.try_clone()?)))
            .collect()
    }

    /// Closes the sockets. An address is free once Pingora, and every other process, has closed its duplicate too.
    pub(super) fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, ListenerMap> {
        // Every change of the map is one call, so a poisoned lock still holds a complete one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bounds the unsent bytes of an answer in the kernel, on each connection of this listener. Without the bound the kernel keeps
/// as much as its send buffer may grow to, 4 MiB on Linux, of every answer that is not read.
#[cfg(target_os = "linux")]
fn bound_unsent(socket: &TcpListener) {
    // A kernel without the option keeps more, and is otherwise the same.
    let _ = socket2::SockRef::from(socket).set_tcp_notsent_lowat(CLIENT_UNSENT);
}

#[cfg(not(target_os = "linux"))]
fn bound_unsent(_: &TcpListener) {
    let _ = CLIENT_UNSENT;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a new process needs no free address, and binds new ones. Method: one address inherited, one not; and the same one
    /// without inheritance, while it is in use.
    #[test]
    fn an_inherited_address_is_not_bound_again() {
        let old = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = old.local_addr().expect("its address");
        let free = "127.0.0.1:0".parse().expect("an address");
        let handed = ListenerMap::from([(address, old.try_clone().expect("a duplicate"))]);
        let sockets = ListenerSockets::open([address, free], handed).expect("both open");
        assert_eq!(sockets.duplicates().expect("duplicates").len(), 2);
        assert!(matches!(
            ListenerSockets::open([address], ListenerMap::new()),
            Err(StartError::Bind(taken, _)) if taken == address
        ));
        sockets.close();
        assert!(sockets.duplicates().expect("none").is_empty());
    }
}
