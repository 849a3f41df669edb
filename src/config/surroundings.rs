//! The seven questions that reading a configuration asks the machine; all else is in its text.
//!
//! They stand behind a trait so that the same file gives the same answer in a test, whatever the resolver says there.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What a configuration may ask of the machine it is read on.
pub trait Surroundings {
    /// All addresses of `host:port`; blocks as long as the system's resolver does.
    ///
    /// # Errors
    ///
    /// When the name has no address or the resolver cannot be asked.
    fn resolve(&self, server: &str) -> io::Result<Vec<SocketAddr>>;

    /// The whole text of a file.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is not UTF-8.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Whether every user of the machine can read a file.
    fn is_open_to_all(&self, path: &Path) -> bool;

    /// What a variable of the environment says; `None` where there is none, or where it is not UTF-8.
    fn variable(&self, name: &str) -> Option<String>;

    /// How many threads can run at once, at least 1.
    fn cores(&self) -> usize;

    /// Whether an address is this machine's.
    fn is_own_address(&self, address: IpAddr) -> bool {
        address.is_loopback()
    }

    /// Whether this build tells collectors of spans: its feature `otlp`.
    fn exports_spans(&self) -> bool {
        cfg!(feature = "otlp")
    }
}

/// The machine itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

/// A machine without names, files and variables: what is asked of it is the same everywhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl Surroundings for System {
    fn resolve(&self, server: &str) -> io::Result<Vec<SocketAddr>> {
        server.to_socket_addrs().map(Iterator::collect)
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }

    fn is_open_to_all(&self, path: &Path) -> bool {
        const READ_BY_OTHERS: u32 = 0o004;
        std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & READ_BY_OTHERS != 0)
    }

    fn variable(&self, name: &str) -> Option<String> {
        // A name with these makes the standard library panic.
        let sayable = !name.is_empty() && !name.contains(['=', '\0']);
        sayable.then(|| std::env::var(name).ok()).flatten()
    }

    fn cores(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    fn is_own_address(&self, address: IpAddr) -> bool {
        // No other can be bound; nothing is sent.
        address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
    }
}

impl Surroundings for Nowhere {
    fn resolve(&self, _: &str) -> io::Result<Vec<SocketAddr>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn read(&self, _: &Path) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn is_open_to_all(&self, _: &Path) -> bool {
        false
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn cores(&self) -> usize {
        1
    }

    // The keys are the same in every build.
    fn exports_spans(&self) -> bool {
        true
    }
}
