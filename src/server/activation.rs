//! Takes over listening sockets that the service manager opened before it started this process (sd_listen_fds(3)).
//!
//! A listener whose address is that of such a socket uses it instead of binding. The service manager keeps the socket, so
//! connections that arrive while the gateway restarts wait in the kernel's queue and are not refused, and the gateway needs no
//! right to bind its ports.

use std::io;

use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;
use tracing::warn;

use super::sockets::ListenerMap;
use crate::config::rules::Rules;

/// Returns the sockets that were passed to this process, by their addresses; mostly none.
///
/// # Errors
/// A descriptor is no TCP socket, or does not listen.
pub(super) fn sockets() -> io::Result<ListenerMap> {
    // This removes the variables, so that no program that the gateway starts takes the sockets for its own.
    let mut passed = ListenFd::from_env();
    let mut sockets = ListenerMap::new();
    for place in 0..passed.len() {
        let Some(socket) = passed.take_tcp_listener(place)? else {
            continue;
        };
        let address = socket.local_addr()?;
        if !socket_acceptconn(&socket)? {
            let message = format!("the one of {address} does not listen (systemd: Accept=no)");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        sockets.insert(address, socket);
    }
    Ok(sockets)
}

/// Warns about sockets that no listener uses: they are closed here, and nothing accepts there.
pub(super) fn tell_unused(sockets: &ListenerMap, rules: &Rules) {
    for address in sockets.keys() {
        let is_asked_for = Some(*address) == rules.admin.address
            || rules
                .listeners
                .iter()
                .any(|listener| listener.address == *address);
        if !is_asked_for {
            warn!(
                "the service manager opened {address}, which is the address of no listener; write the same in both places"
            );
        }
    }
}
