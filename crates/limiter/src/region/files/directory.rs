//! Works on the files of one directory, and on no others: every name is resolved in the directory that was checked, no
//! link is followed, and what is made belongs to its user alone.
//!
//! # Concurrency
//! A process that changes the names, or decides by which processes have a file open, holds the directory's [`DirectoryLock`]: a lock on
//! a file of its own, which the system releases when the process dies. Threads exclude each other by it as processes
//! do.

use std::fs::{self, DirBuilder, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, fallocate, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::error::StateError;

/// The file that a turn locks.
const LOCK: &str = "lock";
/// Between two looks at a lock that another holds.
const WAIT: Duration = Duration::from_millis(10);
/// Looks before giving up: 30 seconds, longer than the largest table takes to be reserved or healed.
const LOOKS: usize = 3000;
/// Permission bits of others, the group included, that let them write.
const WRITABLE: u32 = 0o022;
/// Bytes written at once where a file system cannot reserve blocks.
const CHUNK: usize = 1 << 20;

/// A directory that no other user may write to.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    fd: File,
}

/// The right to change what files there are, until it is dropped.
#[derive(Debug)]
pub(crate) struct DirectoryLock(#[expect(dead_code, reason = "closing it releases the lock")] File);

impl Directory {
    /// Opens the directory at `path`; makes it, for this user alone, if only it is missing.
    pub(super) fn open(path: &Path) -> Result<Self, StateError> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(StateError::io("make the directory", path)(error));
            }
            _ => {}
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOTDIR) => {
                return Err(StateError::NotADirectory {
                    path: path.to_owned(),
                });
            }
            Err(errno) => return Err(StateError::io("open", path)(errno.into())),
        };
        let found = fd.metadata().map_err(StateError::io("inspect", path))?;
        if let Some(uid) = foreign_owner(&found) {
            return Err(StateError::Owner {
                path: path.to_owned(),
                uid,
            });
        }
        if found.mode() & WRITABLE != 0 {
            return Err(StateError::Exposed {
                path: path.to_owned(),
                mode: found.mode() & 0o7777,
            });
        }
        Ok(Self {
            path: path.to_owned(),
            fd,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the file with this name.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Waits for the turn, within bounds.
    pub(super) fn turn(&self) -> Result<DirectoryLock, StateError> {
        let path = self.path_of(LOCK);
        let file = self
            .open_at(LOCK, OFlags::RDWR | OFlags::CREATE)
            .map_err(StateError::io("open", &path))?;
        for _ in 0..LOOKS {
            match file.try_lock() {
                Ok(()) => return Ok(DirectoryLock(file)),
                Err(TryLockError::WouldBlock) => std::thread::sleep(WAIT),
                Err(TryLockError::Error(error)) => {
                    return Err(StateError::io("lock", &path)(error));
                }
            }
        }
        Err(StateError::Busy { path })
    }

    /// Opens a file to read and write; neither waits for a pipe nor follows a link.
    pub(super) fn open_file(&self, name: &str) -> io::Result<File> {
        self.open_at(name, OFlags::RDWR | OFlags::NONBLOCK)
    }

    /// Makes a file that was not there.
    pub(super) fn make_file(&self, name: &str) -> io::Result<File> {
        self.open_at(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    fn open_at(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(File::from(fd))
    }

    /// Moves a file to another name, over what has that name.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), StateError> {
        renameat(&self.fd, from, &self.fd, to)
            .map_err(|errno| StateError::io("rename", &self.path_of(from))(errno.into()))
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&self, name: &str) -> Result<(), StateError> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(StateError::io("remove", &self.path_of(name))(errno.into())),
        }
    }

    /// Makes names last: a rename survives a loss of power only if the directory was written out after it.
    pub(super) fn sync(&self) -> Result<(), StateError> {
        self.fd
            .sync_all()
            .map_err(StateError::io("write out", &self.path))
    }

    /// The names of up to `most` files; others than UTF-8 are none of ours.
    pub(super) fn names(&self, most: usize) -> Result<Vec<String>, StateError> {
        let listed = || -> io::Result<Vec<String>> {
            let entries = fs::read_dir(&self.path)?.take(most);
            let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
            Ok(names
                .collect::<io::Result<Vec<_>>>()?
                .into_iter()
                .flatten()
                .collect())
        };
        listed().map_err(StateError::io("list", &self.path))
    }
}

/// Returns the user who owns a directory, where it is neither this one nor root.
pub(super) fn foreign_owner(found: &Metadata) -> Option<u32> {
    let uid = found.uid();
    (uid != rustix::process::geteuid().as_raw() && uid != 0).then_some(uid)
}

/// Gives a new file `bytes` zero bytes that the disk really has: a mapped hole is a SIGBUS when the disk is full.
pub(super) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => write_zeroes(file, bytes),
        Err(errno) => Err(errno.into()),
    }
}

fn write_zeroes(file: &File, bytes: u64) -> io::Result<()> {
    let zeroes = vec![0; CHUNK];
    let mut at = 0;
    while at < bytes {
        let length = usize::try_from(bytes - at).unwrap_or(CHUNK).min(CHUNK);
        file.write_all_at(&zeroes[..length], at)?;
        at += length as u64;
    }
    Ok(())
}

/// The first bytes of a file: as many as `into` has room for, or all.
pub(super) fn read_start(file: &File, into: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    // Ends: each turn reads more, or is the last.
    while length < into.len() {
        match file.read_at(&mut into[length..], length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a file has its bytes on disk whichever way they get there. Method: lengths around a chunk, by hand.
    #[test]
    #[cfg_attr(miri, ignore = "needs a file system")]
    fn zeroes_are_written_where_blocks_cannot_be_reserved() {
        for bytes in [1, CHUNK as u64 - 1, CHUNK as u64, CHUNK as u64 + 1] {
            let (written, reserved) = (
                tempfile::tempfile().expect("a file"),
                tempfile::tempfile().expect("a file"),
            );
            write_zeroes(&written, bytes).expect("room");
            reserve(&reserved, bytes).expect("room");
            for file in [written, reserved] {
                let found = file.metadata().expect("it is open");
                assert_eq!(found.len(), bytes);
                assert!(found.blocks() * 512 >= bytes);
            }
        }
    }
}
