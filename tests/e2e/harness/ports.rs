//! Finds ports: for processes that cannot be asked which one the system gave them, and for listeners of the tests.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::eventually::PATIENCE;

/// Ports that tests take. A node of a cluster listens 10,000 higher too, which is no port of this range, and below the 32768 from which
/// Linux hands out its own.
const PORTS: std::ops::Range<u32> = 11_000..21_000;

/// Where the next search for a free port begins: anywhere, since several runs of the tests share a machine.
static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| {
    let random = RandomState::new().build_hasher().finish();
    AtomicU32::new(u32::try_from(random % 10_000).unwrap())
});

/// Whether a test has waited in vain for a port that the system hands out: no other one waits then.
static IS_EXHAUSTED: AtomicBool = AtomicBool::new(false);

/// Listens on loopback, at a port that the system hands out.
pub fn listen_blocking() -> TcpListener {
    handed_out(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
}

/// As [`listen_blocking`], for the runtime of a test.
pub fn listen() -> tokio::net::TcpListener {
    let listener = listen_blocking();
    listener.set_nonblocking(true).unwrap();
    tokio::net::TcpListener::from_std(listener).unwrap()
}

/// Repeats `bind`, which asks the system for a port, while the system has none; once too long, one line says what is wrong.
pub(super) fn handed_out<T>(mut bind: impl FnMut() -> io::Result<T>) -> T {
    let started = Instant::now();
    loop {
        match bind() {
            Ok(bound) => return bound,
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => panic!("a port that the system hands out: {error}"),
        }
        // Relaxed: nothing else is published by it.
        if started.elapsed() > PATIENCE || IS_EXHAUSTED.load(Ordering::Relaxed) {
            IS_EXHAUSTED.store(true, Ordering::Relaxed);
            let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
            let range = range.unwrap_or_default();
            let range: Vec<&str> = range.split_whitespace().collect();
            panic!(
                "this machine has no free port: connections fill the range {} that the system hands out; `ss -tanp` shows whose, \
                 end them and run the tests again",
                range.join("-")
            );
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

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
