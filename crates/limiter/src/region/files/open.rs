//! Opens the file of an identity: the one that is there if it can be trusted, otherwise a new one.
//!
//! # Invariants
//! 1. *A name is a whole file.* A file is made under a draft's name: its blocks reserved, its header written, all of it
//!    on disk; then it is renamed, and the rename written out. Killed before the rename, a process leaves a draft, which
//!    the next one removes; killed after it, a file that can be trusted.
//! 2. *One file a name.* Looking for a file and publishing one happen in one turn of the directory, so that processes
//!    that start together end up on the same file.
//! 3. *Open means locked.* A process that maps a file holds a shared lock on it from before it can be found until it is unmapped. So
//!    the process that gets the exclusive lock is alone with it, and may recover it: complete what a process that died in
//!    the middle of a change has left.
//! 4. *Nothing is destroyed for being wrong.* What is not trusted is moved aside, the last [`KEPT`] of a name.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use rustix::io::Errno;

use crate::key::Seed;
use crate::time::Timestamp;

use super::directory::{Directory, DirectoryLock, read_start, reserve};
use super::error::{OpenOutcome, StateError};
use super::identity::{FileIdentity, HEADER_BYTES};
use super::record::UntrustedFile;
use crate::region::Region;

/// Files of one name that are kept aside.
pub(super) const KEPT: usize = 3;
/// Goes before the number of a file that was set aside.
pub(super) const ASIDE: &str = ".set-aside-";
/// Goes before the number of a file that is not published yet.
pub(super) const DRAFT: &str = ".draft-";
/// Drafts of one name at the same time; each is an edit under way.
const DRAFTS: usize = 16;

/// The result of opening a name.
enum FoundFile {
    Nothing,
    Usable(Region, OpenOutcome),
    Untrusted(UntrustedFile),
}

/// The reason why there is no file to go on from.
pub(super) enum UnusableFile {
    Missing,
    Untrusted(UntrustedFile),
}

/// A file that is in use already but does not have its name yet.
#[derive(Debug)]
#[must_use = "without its name the file is gone with the process"]
pub struct FileDraft {
    name: String,
    file: String,
}

/// The region of `identity`; `heal` is run on words that no other process uses and that may have been left in the
/// middle of a change.
pub(super) fn open(
    directory: &Directory,
    turn: &DirectoryLock,
    identity: &FileIdentity,
    seed: &Seed,
    now: Timestamp,
    heal: impl FnOnce(&Region),
) -> Result<(Region, OpenOutcome), StateError> {
    let name = identity.file_name();
    let adopted = match find(directory, identity, seed, heal)? {
        FoundFile::Usable(region, adopted) => return Ok((region, adopted)),
        FoundFile::Nothing => OpenOutcome::Fresh,
        FoundFile::Untrusted(reason) => OpenOutcome::SetAside {
            reason,
            moved_to: set_aside(directory, turn, name)?,
        },
    };
    let (region, draft) = draft(directory, turn, identity, seed, now)?;
    rename(directory, &draft)?;
    Ok((region, adopted))
}

/// A new region that is not found under its name before it is published.
pub(super) fn draft(
    directory: &Directory,
    _turn: &DirectoryLock,
    identity: &FileIdentity,
    seed: &Seed,
    now: Timestamp,
) -> Result<(Region, FileDraft), StateError> {
    let name = identity.file_name();
    let (file, draft) = make_draft(directory, name)?;
    let made = || -> Result<Region, StateError> {
        let path = directory.path_of(&draft);
        let fail = |action| StateError::io(action, &path);
        let no_space = || StateError::NoSpace {
            path: directory.path_of(name),
            bytes: identity.file_bytes().unwrap_or(u64::MAX),
        };
        // Invariant 3: no other process has this file open, so the lock is there to be had.
        file.lock_shared().map_err(fail("lock"))?;
        let bytes = identity.file_bytes().ok_or_else(no_space)?;
        reserve(&file, bytes).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => no_space(),
            _ => fail("reserve")(error),
        })?;
        file.write_all_at(identity.header(seed, now).bytes(), 0)
            .map_err(fail("write"))?;
        // Invariant 1.
        file.sync_all().map_err(fail("write out"))?;
        Region::mapped(file, HEADER_BYTES, identity.words()).map_err(fail("map"))
    };
    match made() {
        Ok(region) => Ok((
            region,
            FileDraft {
                name: name.to_owned(),
                file: draft,
            },
        )),
        Err(error) => {
            // What went wrong first is what the operator has to know.
            let _ = directory.remove(&draft);
            Err(error)
        }
    }
}

/// Gives a draft its name, over a file that has it.
pub(super) fn publish(
    directory: &Directory,
    _turn: &DirectoryLock,
    draft: &FileDraft,
) -> Result<(), StateError> {
    rename(directory, draft)
}

fn rename(directory: &Directory, draft: &FileDraft) -> Result<(), StateError> {
    directory.rename(&draft.file, &draft.name)?;
    directory.sync()
}

/// Returns whether any process has it mapped. The result holds only while the directory's lock is held.
pub(super) fn is_in_use(file: &File) -> bool {
    // Closing the file, which the caller does soon, releases what was locked here.
    file.try_lock().is_err()
}

fn find(
    directory: &Directory,
    identity: &FileIdentity,
    seed: &Seed,
    heal: impl FnOnce(&Region),
) -> Result<FoundFile, StateError> {
    let name = identity.file_name();
    let path = directory.path_of(name);
    let fail = |action| StateError::io(action, &path);
    let file = match open_plain(directory, name).map_err(fail("open"))? {
        Ok(file) => file,
        Err(UnusableFile::Missing) => return Ok(FoundFile::Nothing),
        Err(UnusableFile::Untrusted(reason)) => return Ok(FoundFile::Untrusted(reason)),
    };
    let words = match recognise(&file, identity, seed).map_err(fail("read"))? {
        Ok(words) => words,
        Err(reason) => return Ok(FoundFile::Untrusted(reason)),
    };
    // Invariant 3. Every other process that wants the file waits for the lock of the directory, so this one can be changed into a
    // shared one without a gap.
    let alone = match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(error)) => return Err(fail("lock")(error)),
    };
    let locked = file.try_clone().map_err(fail("open"))?;
    let region = Region::mapped(file, HEADER_BYTES, words).map_err(fail("map"))?;
    if alone {
        heal(&region);
    }
    match locked.try_lock_shared() {
        Ok(()) if alone => Ok(FoundFile::Usable(region, OpenOutcome::Continued)),
        Ok(()) => Ok(FoundFile::Usable(region, OpenOutcome::Joined)),
        Err(TryLockError::WouldBlock) => Err(StateError::Busy { path }),
        Err(TryLockError::Error(error)) => Err(fail("lock")(error)),
    }
}

/// Number of words of an open file, if the file matches its name.
pub(super) fn recognise(
    file: &File,
    identity: &FileIdentity,
    seed: &Seed,
) -> io::Result<Result<usize, UntrustedFile>> {
    let mut header = [0; HEADER_BYTES];
    let length = read_start(file, &mut header)?;
    let bytes = file.metadata()?.len();
    Ok(identity.recognise(seed, &header[..length], bytes))
}

/// Opens a regular file that no other user can have written.
pub(super) fn open_plain(
    directory: &Directory,
    name: &str,
) -> io::Result<Result<File, UnusableFile>> {
    let file = match directory.open_file(name) {
        Ok(file) => file,
        Err(error) => {
            return match Errno::from_io_error(&error) {
                Some(Errno::NOENT) => Ok(Err(UnusableFile::Missing)),
                // A link (FreeBSD says so in its own way), a directory, a socket.
                Some(Errno::LOOP | Errno::MLINK | Errno::ISDIR | Errno::NXIO) => {
                    Ok(Err(UnusableFile::Untrusted(UntrustedFile::NotAFile)))
                }
                _ => Err(error),
            };
        }
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(Err(UnusableFile::Untrusted(UntrustedFile::NotAFile)));
    }
    let mode = found.mode() & 0o7777;
    // Not even readable: the seed is a secret, and counters tell who asked for what.
    if mode & 0o077 != 0 || found.uid() != rustix::process::geteuid().as_raw() {
        return Ok(Err(UnusableFile::Untrusted(UntrustedFile::Exposed {
            mode,
        })));
    }
    Ok(Ok(file))
}

/// Makes an empty file of a draft's name.
pub(super) fn make_draft(directory: &Directory, name: &str) -> Result<(File, String), StateError> {
    for number in 0..DRAFTS {
        let draft = format!("{name}{DRAFT}{number}");
        match directory.make_file(&draft) {
            Ok(file) => return Ok((file, draft)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(StateError::io("make", &directory.path_of(&draft))(error)),
        }
    }
    Err(StateError::Drafts {
        path: directory.path_of(name),
    })
}

/// Moves what has this name out of the way; where to.
pub(super) fn set_aside(
    directory: &Directory,
    _turn: &DirectoryLock,
    name: &str,
) -> Result<PathBuf, StateError> {
    let aside = |number: usize| format!("{name}{ASIDE}{number}");
    let free = (1..=KEPT).find(|number| {
        let path = directory.path_of(&aside(*number));
        path.symlink_metadata().is_err()
    });
    let number = free.unwrap_or(KEPT);
    if free.is_none() {
        // Invariant 4: the oldest goes, the others move up.
        directory.remove(&aside(1))?;
        for number in 1..KEPT {
            directory.rename(&aside(number + 1), &aside(number))?;
        }
    }
    directory.rename(name, &aside(number))?;
    Ok(directory.path_of(&aside(number)))
}
