//! Finds ports for processes that cannot be asked which one the system gave them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Ports that tests take. A node of a cluster listens 10,000 higher too, which is no port of this range, and below the 32768 from which
/// Linux hands out its own.
const PORTS: std::ops::Range<u32> = 11_000..21_000;

/// Where the next search for a free port begins: anywhere, since several runs of the tests share a machine.
static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| {
    let random = RandomState::new().build_hasher().finish();
    AtomicU32::new(u32::try_from(random % 10_000).unwrap())
});

/// A port on loopback that nobody listens on, and that no connection gets before somebody does.
pub fn free_port() -> u16 {
    loop {
        // Relaxed: a number that no two searches of this process share, nothing else.
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + step % (PORTS.end - PORTS.start);
        let port = u16::try_from(port).unwrap();
        let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}

/// An address of such a port.
pub fn free_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()))
}
