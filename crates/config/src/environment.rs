//! Asks the machine what a configuration needs beside its text: names, files, variables, cores.
//!
//! The questions stand behind a trait so that the same file gives the same answer in a test, whatever the resolver says there.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use glob::MatchOptions;
use sluicegate_base::bounds::{RESOLVE_LEAST, RESOLVE_PATIENCE};
use sluicegate_base::geo::GeoDatabase;

/// The kind of what stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A directory to which at most its owner may write.
    Folder,
    /// A directory to which other users may write.
    SharedFolder,
    /// A socket.
    Socket,
    /// Anything else that exists.
    File,
    /// Nothing.
    Absent,
    /// It cannot be found out, or is not to be judged.
    Unknown,
}

/// The questions that a configuration may ask of the machine it is read on.
pub trait Environment {
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

    /// All bytes of a file, at most `most` of them and one more.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    fn read_bytes(&self, path: &Path, most: usize) -> io::Result<Vec<u8>> {
        let _ = (path, most);
        Err(io::ErrorKind::NotFound.into())
    }

    /// The database that is in force and came from this file; `None` where there is none, as at the start.
    fn database_in_force(&self, path: &Path) -> Option<Arc<GeoDatabase>> {
        let _ = path;
        None
    }

    /// Returns the kind of what stands at a path at which the start opens or creates something.
    fn kind_of(&self, path: &Path) -> PathKind {
        let _ = path;
        PathKind::Unknown
    }

    /// Tries to open a file for writing or, where there is none, to create one in its directory; leaves nothing behind.
    ///
    /// # Errors
    ///
    /// The system's, for this user. An absent directory is none: [`Self::kind_of`] has it.
    fn try_writing(&self, path: &Path) -> io::Result<()> {
        let _ = path;
        Ok(())
    }

    /// Tries to bind a listener to an address, where the configuration is checked for a start.
    ///
    /// # Errors
    ///
    /// The system's, for this user. An address in use is none: it may be the running gateway's.
    fn try_binding(&self, address: SocketAddr) -> io::Result<()> {
        let _ = address;
        Ok(())
    }

    /// The files that a pattern names, in order.
    ///
    /// # Errors
    ///
    /// When it is no pattern.
    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let _ = pattern;
        Ok(Vec::new())
    }

    /// Returns whether every user of the machine can read a file.
    fn is_open_to_all(&self, path: &Path) -> bool;

    /// Returns the value of a variable of the environment; `None` where there is none, or where it is not UTF-8.
    fn variable(&self, name: &str) -> Option<String>;

    /// Returns the number of threads that can run at once, at least 1.
    fn cores(&self) -> usize;

    /// Returns whether only the text is to be judged: no name is looked up, and no certificate, key or secret is read.
    fn is_offline(&self) -> bool {
        false
    }

    /// Returns whether an address is this machine's.
    fn is_own_address(&self, address: IpAddr) -> bool {
        address.is_loopback()
    }

    /// Returns whether this build sends spans to collectors: its feature `otlp`.
    fn exports_spans(&self) -> bool {
        cfg!(feature = "otlp")
    }
}

/// Tries to bind a listener to an address as the start does.
pub type BindProbe = fn(SocketAddr) -> io::Result<()>;

/// The machine itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnvironment;

/// The machine, with a bound on the time that all names together may take.
#[derive(Debug, Default)]
pub(super) struct BoundedEnvironment {
    /// Milliseconds that were waited for answers.
    waited: Cell<u64>,
    /// The databases of the configuration in force, by their files.
    databases: BTreeMap<PathBuf, Arc<GeoDatabase>>,
    /// The treatment of the paths at which a start opens something.
    start_paths: StartPaths,
    /// Tries addresses; `None` where the reader listens on none, or a start is about to bind them.
    bind: Option<BindProbe>,
}

/// The treatment of the paths at which a start opens or creates something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StartPaths {
    /// They are judged, for a start and for `check`.
    #[default]
    Judged,
    /// They are not judged: the reader opens none of them, or opened them at its start.
    Ignored,
}

/// The machine, of which only the files are read that are no certificates, keys or secrets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfflineEnvironment;

/// A machine without names, files and variables: what is asked of it is the same everywhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEnvironment;

impl BoundedEnvironment {
    /// Returns the machine on which a configuration with these databases is in force.
    pub(super) fn with_databases(databases: BTreeMap<PathBuf, Arc<GeoDatabase>>) -> Self {
        Self {
            databases,
            ..Self::without_start()
        }
    }

    /// Returns the machine for `check`, which tries what a start would open or bind.
    pub(super) fn with_bind_probe(bind: BindProbe) -> Self {
        Self {
            bind: Some(bind),
            ..Self::default()
        }
    }

    /// Returns the machine for a reader that starts no gateway.
    pub(super) fn without_start() -> Self {
        Self {
            start_paths: StartPaths::Ignored,
            ..Self::default()
        }
    }
}

impl Environment for SystemEnvironment {
    fn resolve(&self, server: &str) -> io::Result<Vec<SocketAddr>> {
        server.to_socket_addrs().map(Iterator::collect)
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }

    fn read_bytes(&self, path: &Path, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let file = std::fs::File::open(path)?;
        file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn kind_of(&self, path: &Path) -> PathKind {
        /// Users that are not the owner may write.
        const WRITTEN_BY_OTHERS: u32 = 0o022;
        let found = match std::fs::metadata(path) {
            Ok(found) => found,
            Err(error) => {
                let is_absent = matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                );
                return if is_absent {
                    PathKind::Absent
                } else {
                    PathKind::Unknown
                };
            }
        };
        let is_shared = found.permissions().mode() & WRITTEN_BY_OTHERS != 0;
        match found.file_type() {
            kind if kind.is_dir() && is_shared => PathKind::SharedFolder,
            kind if kind.is_dir() => PathKind::Folder,
            kind if kind.is_socket() => PathKind::Socket,
            _ => PathKind::File,
        }
    }

    fn try_writing(&self, path: &Path) -> io::Result<()> {
        match std::fs::metadata(path) {
            Ok(found) if found.is_file() => OpenOptions::new().append(true).open(path).map(drop),
            Ok(found) if found.is_dir() => create_and_remove(path),
            // A device or a pipe.
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = folder_of(path);
                match folder.exists() {
                    true => create_and_remove(folder),
                    false => Ok(()),
                }
            }
            Err(error) => Err(error),
        }
    }

    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        files_matching(pattern)
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

/// Returns the directory in which a file lies.
pub(super) fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Creates an empty file in a directory and removes it.
fn create_and_remove(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".sluicegate-check.{}", std::process::id()));
    let created = OpenOptions::new().write(true).create_new(true).open(&path);
    match created {
        // Another thread, or a process that was killed, could create it.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => std::fs::remove_file(&path),
    }
}

/// The files that a pattern names, in order. Names that begin with a dot are not meant: editors leave such files.
pub(super) fn files_matching(pattern: &Path) -> io::Result<Vec<PathBuf>> {
    let text = pattern.to_str();
    let text = text.ok_or_else(|| io::Error::other("the pattern is not UTF-8"))?;
    let options = MatchOptions {
        require_literal_leading_dot: true,
        ..MatchOptions::new()
    };
    let found = glob::glob_with(text, options).map_err(io::Error::other)?;
    found.map(|path| path.map_err(io::Error::from)).collect()
}

/// The files that some patterns name; none for one that cannot be followed now.
#[must_use]
pub fn matching(patterns: &[PathBuf]) -> Vec<PathBuf> {
    let found = patterns
        .iter()
        .filter_map(|pattern| files_matching(pattern).ok());
    found.flatten().collect()
}

impl Environment for BoundedEnvironment {
    /// The system's resolver has deadlines of its own, of many seconds a name, so a thread waits for it. That thread ends when the resolver
    /// gives up.
    fn resolve(&self, server: &str) -> io::Result<Vec<SocketAddr>> {
        let too_late = || io::Error::new(io::ErrorKind::TimedOut, "the resolver did not answer");
        let left = RESOLVE_PATIENCE.saturating_sub(Duration::from_millis(self.waited.get()));
        let (answer, answered) = mpsc::sync_channel(1);
        let name = server.to_owned();
        let asked = thread::Builder::new().spawn(move || {
            // Nobody listens any more where the answer comes too late.
            let _ = answer.send(SystemEnvironment.resolve(&name));
        })?;
        let found = answered.recv_timeout(left.max(RESOLVE_LEAST));
        drop(asked);
        if let Err(RecvTimeoutError::Timeout) = found {
            let waited = left.max(RESOLVE_LEAST).as_millis();
            let waited = u64::try_from(waited).unwrap_or(u64::MAX);
            self.waited.set(self.waited.get().saturating_add(waited));
        }
        found.unwrap_or_else(|_| Err(too_late()))
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        SystemEnvironment.read(path)
    }

    fn read_bytes(&self, path: &Path, most: usize) -> io::Result<Vec<u8>> {
        SystemEnvironment.read_bytes(path, most)
    }

    fn database_in_force(&self, path: &Path) -> Option<Arc<GeoDatabase>> {
        self.databases.get(path).cloned()
    }

    fn kind_of(&self, path: &Path) -> PathKind {
        match self.start_paths {
            StartPaths::Judged => SystemEnvironment.kind_of(path),
            StartPaths::Ignored => PathKind::Unknown,
        }
    }

    fn try_writing(&self, path: &Path) -> io::Result<()> {
        match self.start_paths {
            StartPaths::Judged => SystemEnvironment.try_writing(path),
            StartPaths::Ignored => Ok(()),
        }
    }

    fn try_binding(&self, address: SocketAddr) -> io::Result<()> {
        self.bind.map_or(Ok(()), |bind| bind(address))
    }

    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        SystemEnvironment.matching(pattern)
    }

    fn is_open_to_all(&self, path: &Path) -> bool {
        SystemEnvironment.is_open_to_all(path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        SystemEnvironment.variable(name)
    }

    fn cores(&self) -> usize {
        SystemEnvironment.cores()
    }

    fn is_own_address(&self, address: IpAddr) -> bool {
        SystemEnvironment.is_own_address(address)
    }
}

impl Environment for OfflineEnvironment {
    fn resolve(&self, _: &str) -> io::Result<Vec<SocketAddr>> {
        Ok(Vec::new())
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        SystemEnvironment.read(path)
    }

    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        SystemEnvironment.matching(pattern)
    }

    fn is_open_to_all(&self, _: &Path) -> bool {
        false
    }

    fn variable(&self, name: &str) -> Option<String> {
        SystemEnvironment.variable(name)
    }

    fn cores(&self) -> usize {
        SystemEnvironment.cores()
    }

    fn is_offline(&self) -> bool {
        true
    }
}

impl Environment for NoEnvironment {
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
