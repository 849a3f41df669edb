//! Owns the directory that counters survive in: one seed, one clock, and a file for every table.
//!
//! ```text
//! lock                          whoever changes names holds it
//! seed                          the secret that keys are hashed under
//! clock                         limiter time, as of the latest tick
//! otp.5f0c….counters            the counters of one limit in one shape
//! otp.5f0c….counters.set-aside-1    one that was not trusted
//! ```
//!
//! Seed and clock have files of their own since a process has one of each: a request's key is hashed once for all its
//! limits, and all of them are judged at one moment. A file of counters carries a digest of the seed, so that it is
//! set aside when the seed is another one.
//!
//! The clock's file has two marks. A tick overwrites the older, so a tick that is cut off leaves the newer; and the
//! later of two readable ones is right, since limiter time never goes back.
//!
//! # What survives what
//! | | counters | clock |
//! |---|---|---|
//! | restart, upgrade, `kill -9` | all: pages of a shared mapping belong to the kernel | exact, from any mark of this boot |
//! | kernel crash, loss of power; directory on a disk | as of the latest write-back, some 30 s; each word old or new | so too |
//! | …; directory in memory (`/dev/shm`, `/run`) | none | none |
//!
//! On a disk, the first write to a page after each write-back takes a page fault, and busy tables write themselves out
//! every 30 s; in memory there is neither. Network file systems are no place for a state directory.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::key::Seed;
use crate::time::Timestamp;

use super::clock::{Clock, ClockMark, ClockReading, MARK_BYTES};
use super::directory::{self, Directory, DirectoryLock, read_start};
use super::error::{OpenOutcome, StateError};
use super::identity::{FileIdentity, SUFFIX};
use super::open::{self, ASIDE, DRAFT, FileDraft, UnusableFile};
use super::record::FileRecord;
use crate::region::Region;

const SEED: &str = "seed";
const CLOCK: &str = "clock";
const SEED_BYTES: usize = 64;
const SEED_MAGIC: [u8; 8] = *b"sluiceSD";
/// Bytes of the clock's file: two marks.
const CLOCK_BYTES: usize = 2 * MARK_BYTES;
/// Time for which a file that no limit uses is kept: long enough to go back to last month's configuration.
pub const UNUSED_FILE_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Most names that one sweep looks at; the next one goes on with what is left.
const MOST_NAMES: usize = 10_000;

/// The directory that counters survive in.
#[derive(Debug)]
pub struct StateDir {
    directory: Directory,
    seed: Seed,
    seed_found: OpenOutcome,
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedFiles {
    /// Files that were removed.
    pub removed: usize,
    /// Files that no limit uses, but that are too young to go or still open somewhere.
    pub kept: usize,
}

impl StateDir {
    /// Opens the directory at `path`, or makes it where its parent exists. `fresh`, from the system's random source,
    /// becomes the seed if there is none yet.
    ///
    /// # Errors
    /// When others may write to it, it belongs to another user, is no directory, or the system refuses.
    pub fn open(path: &Path, fresh: Seed) -> Result<Self, StateError> {
        let directory = Directory::open(path)?;
        let turn = directory.turn()?;
        remove_drafts(&directory)?;
        let (seed, seed_found) = adopt_seed(&directory, &turn, fresh)?;
        drop(turn);
        Ok(Self {
            directory,
            seed,
            seed_found,
        })
    }

    /// Returns the user who owns the directory at `path`, where [`Self::open`] refuses it for that; `None` where there is no directory.
    #[must_use]
    pub fn foreign_owner(path: &Path) -> Option<u32> {
        let found = std::fs::metadata(path).ok()?;
        directory::foreign_owner(&found)
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The seed that all keys must be hashed under.
    #[must_use]
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// The state in which the seed was found. With a new seed, no earlier counter is found again: the old files are
    /// set aside.
    #[must_use]
    pub fn seed_found(&self) -> &OpenOutcome {
        &self.seed_found
    }

    /// The clock that goes on from the latest mark kept here, and whether there was one.
    ///
    /// # Errors
    /// The system's.
    pub fn clock(&self, reading: ClockReading) -> Result<(Clock, OpenOutcome), StateError> {
        let turn = self.directory.turn()?;
        let (latest, adopted) = match self.marks()? {
            Ok(marks) => (latest(marks), OpenOutcome::Continued),
            Err(UnusableFile::Missing) => (None, OpenOutcome::Fresh),
            Err(UnusableFile::Untrusted(reason)) => {
                let moved_to = open::set_aside(&self.directory, &turn, CLOCK)?;
                (None, OpenOutcome::SetAside { reason, moved_to })
            }
        };
        let clock = match latest {
            Some(mark) => Clock::continued(mark, reading),
            None => Clock::started(reading),
        };
        if latest.is_none() {
            let mark = clock.mark(reading).sealed();
            let both = [*mark.bytes(), *mark.bytes()].concat();
            write_new(&self.directory, CLOCK, &both)?;
        }
        drop(turn);
        self.tick(&clock, reading)?;
        Ok((clock, adopted))
    }

    /// Keeps limiter time. Once a second is often enough: after a restart on the same boot any mark is exact, after a
    /// reboot it says from when on time may be missing. Does not wait for a disk, nor for other processes.
    ///
    /// # Errors
    /// The system's.
    pub fn tick(&self, clock: &Clock, reading: ClockReading) -> Result<(), StateError> {
        let path = self.directory.path_of(CLOCK);
        let older = match self.marks()? {
            Ok([Some(first), Some(second)]) => usize::from(first.time() > second.time()),
            Ok([Some(_), None]) => 1,
            Ok([None, _]) | Err(_) => 0,
        };
        let mark = clock.mark(reading).sealed();
        self.directory
            .open_file(CLOCK)
            .and_then(|file| file.write_all_at(mark.bytes(), (older * MARK_BYTES) as u64))
            .map_err(StateError::io("write", &path))
    }

    /// The region of `identity`, from its file if that can be trusted, otherwise from a new one. `heal` is run on words
    /// that no other process uses and that a killed process may have left in the middle of a change.
    ///
    /// # Errors
    /// No room for the file, or the system's. An untrusted file is not an error: see [`OpenOutcome::SetAside`].
    pub fn region(
        &self,
        identity: &FileIdentity,
        now: Timestamp,
        heal: impl FnOnce(&Region),
    ) -> Result<(Region, OpenOutcome), StateError> {
        self.region_in(&self.turn()?, identity, now, heal)
    }

    /// The right to open and publish files, one's own until it is dropped: for more than one of these in a row.
    pub(crate) fn turn(&self) -> Result<DirectoryLock, StateError> {
        self.directory.turn()
    }

    /// Opens a region like [`region`](Self::region), while the directory's lock is held.
    pub(crate) fn region_in(
        &self,
        turn: &DirectoryLock,
        identity: &FileIdentity,
        now: Timestamp,
        heal: impl FnOnce(&Region),
    ) -> Result<(Region, OpenOutcome), StateError> {
        open::open(&self.directory, turn, identity, &self.seed, now, heal)
    }

    /// A new region, for an edit that changes a table's shape: it gets its name by [`publish`](Self::publish), when all
    /// counts are copied into it. Killed before that, a process leaves the old file as it was.
    ///
    /// # Errors
    /// As for [`region`](Self::region).
    pub fn draft(
        &self,
        identity: &FileIdentity,
        now: Timestamp,
    ) -> Result<(Region, FileDraft), StateError> {
        self.draft_in(&self.turn()?, identity, now)
    }

    /// Makes a draft like [`draft`](Self::draft), while the directory's lock is held.
    pub(crate) fn draft_in(
        &self,
        turn: &DirectoryLock,
        identity: &FileIdentity,
        now: Timestamp,
    ) -> Result<(Region, FileDraft), StateError> {
        open::draft(&self.directory, turn, identity, &self.seed, now)
    }

    /// Gives a draft its name, when it counts all that the limit's old file does.
    ///
    /// A file that has the name is replaced: what it counted before the limit took another shape is older than what the
    /// draft was filled from. A process that still counts in it, an older one that drains, goes on alone.
    ///
    /// # Errors
    /// The system's. The region goes on counting for as long as this process lives.
    pub fn publish(&self, draft: &FileDraft) -> Result<(), StateError> {
        self.publish_in(&self.turn()?, draft)
    }

    /// Publishes like [`publish`](Self::publish), while the directory's lock is held.
    pub(crate) fn publish_in(
        &self,
        turn: &DirectoryLock,
        draft: &FileDraft,
    ) -> Result<(), StateError> {
        open::publish(&self.directory, turn, draft)
    }

    /// Removes what no limit of the configuration uses and none has used for [`UNUSED_FILE_RETENTION`], as of `wall`; once a day
    /// is often enough.
    ///
    /// The time of a file is when a sweep last saw it in use, and when it was made before the first. Nothing that is
    /// open anywhere is removed.
    ///
    /// # Errors
    /// The system's.
    pub fn sweep(
        &self,
        in_use: &[FileIdentity],
        wall: Timestamp,
    ) -> Result<RemovedFiles, StateError> {
        let _turn = self.directory.turn()?;
        let wall = io_time(wall);
        let mut swept = RemovedFiles::default();
        for name in self.directory.names(MOST_NAMES)? {
            if !name.ends_with(SUFFIX) && !name.contains(ASIDE) {
                continue;
            }
            let path = self.directory.path_of(&name);
            let used = in_use.iter().any(|identity| identity.file_name() == name);
            let Ok(file) = self.directory.open_file(&name) else {
                // Gone meanwhile, or not a file: nothing that a sweep should touch.
                continue;
            };
            if used {
                file.set_modified(wall)
                    .map_err(StateError::io("date", &path))?;
                continue;
            }
            let modified = file
                .metadata()
                .and_then(|found| found.modified())
                .map_err(StateError::io("inspect", &path))?;
            let old = wall
                .duration_since(modified)
                .is_ok_and(|age| age > UNUSED_FILE_RETENTION);
            if old && !open::is_in_use(&file) {
                self.directory.remove(&name)?;
                swept.removed += 1;
            } else {
                swept.kept += 1;
            }
        }
        Ok(swept)
    }

    /// The marks of the clock's file; not trusted when neither is readable.
    fn marks(&self) -> Result<Result<[Option<ClockMark>; 2], UnusableFile>, StateError> {
        let path = self.directory.path_of(CLOCK);
        let bytes = match read_trusted::<CLOCK_BYTES>(&self.directory, CLOCK)
            .map_err(StateError::io("read", &path))?
        {
            Ok(bytes) => bytes,
            Err(reason) => return Ok(Err(reason)),
        };
        let (first, second) = bytes.split_at(MARK_BYTES.min(bytes.len()));
        let marks = [ClockMark::opened(first), ClockMark::opened(second)];
        Ok(match marks {
            [Err(reason), Err(_)] => Err(UnusableFile::Untrusted(reason)),
            marks => Ok(marks.map(Result::ok)),
        })
    }
}

fn io_time(time: Timestamp) -> std::time::SystemTime {
    std::time::SystemTime::UNIX_EPOCH + Duration::from_nanos(time.as_nanos())
}

fn latest(marks: [Option<ClockMark>; 2]) -> Option<ClockMark> {
    marks.into_iter().flatten().max_by_key(ClockMark::time)
}

/// The first `MOST` bytes of a file that no other user can have written.
fn read_trusted<const MOST: usize>(
    directory: &Directory,
    name: &str,
) -> io::Result<Result<Vec<u8>, UnusableFile>> {
    let file = match open::open_plain(directory, name)? {
        Ok(file) => file,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut bytes = vec![0; MOST];
    let length = read_start(&file, &mut bytes)?;
    bytes.truncate(length);
    Ok(Ok(bytes))
}

/// The seed that is kept, or `fresh`, which is kept from now on.
fn adopt_seed(
    directory: &Directory,
    turn: &DirectoryLock,
    fresh: Seed,
) -> Result<(Seed, OpenOutcome), StateError> {
    let read = read_trusted::<SEED_BYTES>(directory, SEED)
        .map_err(StateError::io("read", &directory.path_of(SEED)))?;
    let opened = read.and_then(|bytes| {
        FileRecord::<SEED_BYTES>::opened(&bytes, SEED_MAGIC).map_err(UnusableFile::Untrusted)
    });
    let adopted = match opened {
        Ok(record) => {
            let [low, high] = record.fields();
            let bytes = u128::from(low) | u128::from(high) << 64;
            return Ok((
                Seed::from_bytes(bytes.to_le_bytes()),
                OpenOutcome::Continued,
            ));
        }
        Err(UnusableFile::Missing) => OpenOutcome::Fresh,
        Err(UnusableFile::Untrusted(reason)) => OpenOutcome::SetAside {
            reason,
            moved_to: open::set_aside(directory, turn, SEED)?,
        },
    };
    let bytes = u128::from_le_bytes(*fresh.bytes());
    let record =
        FileRecord::<SEED_BYTES>::sealed(SEED_MAGIC, &[bytes as u64, (bytes >> 64) as u64]);
    write_new(directory, SEED, record.bytes())?;
    Ok((fresh, adopted))
}

/// Makes a small file whole, or not at all.
fn write_new(directory: &Directory, name: &str, bytes: &[u8]) -> Result<(), StateError> {
    let (file, draft) = open::make_draft(directory, name)?;
    let written = file.write_all_at(bytes, 0).and_then(|()| file.sync_all());
    written.map_err(StateError::io("write", &directory.path_of(&draft)))?;
    directory.rename(&draft, name)?;
    directory.sync()
}

/// Removes what processes that were killed before they published it have left.
fn remove_drafts(directory: &Directory) -> Result<(), StateError> {
    for name in directory.names(MOST_NAMES)? {
        let dead = name.contains(DRAFT)
            && directory
                .open_file(&name)
                .is_ok_and(|file| !open::is_in_use(&file));
        if dead {
            directory.remove(&name)?;
        }
    }
    Ok(())
}
