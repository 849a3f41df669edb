//! Says where a limit's counters are to lie: in a directory, or in files without a name that another process can be given.
//!
//! Both are asked in the same way, so that a limit is opened and edited alike wherever its counters are.

use std::sync::MutexGuard;

use crate::region::Region;
use crate::time::Timestamp;

use super::anonymous::{AnonymousFiles, NamedFiles, UnnamedFile};
use super::directory::DirectoryLock;
use super::error::{OpenOutcome, StateError};
use super::identity::FileIdentity;
use super::open::FileDraft;
use super::state_dir::StateDir;

/// The storage of counters that another process goes on with.
#[derive(Clone, Copy, Debug)]
pub enum StateLocation<'a> {
    /// Files of a directory.
    Directory(&'a StateDir),
    /// Memory that another process can be given.
    Anonymous(&'a AnonymousFiles),
}

/// The right to open and publish files of a place, one's own until it is dropped.
pub(crate) enum LocationLock<'a> {
    Directory(&'a StateDir, DirectoryLock),
    Anonymous(&'a AnonymousFiles, MutexGuard<'a, NamedFiles>),
}

/// A file that is in use already, but is not found under its name yet.
#[must_use = "without its name the file is gone with the process"]
pub(crate) enum LocationDraft<'a> {
    Directory(&'a StateDir, FileDraft),
    Anonymous(&'a AnonymousFiles, UnnamedFile),
}

impl<'a> From<&'a StateDir> for StateLocation<'a> {
    fn from(directory: &'a StateDir) -> Self {
        Self::Directory(directory)
    }
}

impl<'a> From<&'a AnonymousFiles> for StateLocation<'a> {
    fn from(files: &'a AnonymousFiles) -> Self {
        Self::Anonymous(files)
    }
}

impl<'a> StateLocation<'a> {
    /// Waits for the turn, within bounds.
    pub(crate) fn turn(self) -> Result<LocationLock<'a>, StateError> {
        Ok(match self {
            Self::Directory(directory) => LocationLock::Directory(directory, directory.turn()?),
            Self::Anonymous(files) => LocationLock::Anonymous(files, files.lock()),
        })
    }

    /// A new region that is found under its name once it is published; see [`StateDir::draft`].
    pub(crate) fn draft(
        self,
        identity: &FileIdentity,
        now: Timestamp,
    ) -> Result<(Region, LocationDraft<'a>), StateError> {
        match self {
            Self::Directory(directory) => {
                let (region, draft) = directory.draft(identity, now)?;
                Ok((region, LocationDraft::Directory(directory, draft)))
            }
            Self::Anonymous(files) => {
                let (region, unnamed) = files.draft(identity, now)?;
                Ok((region, LocationDraft::Anonymous(files, unnamed)))
            }
        }
    }
}

impl LocationLock<'_> {
    /// The region of `identity`; see [`StateDir::region`].
    pub(crate) fn region(
        &mut self,
        identity: &FileIdentity,
        now: Timestamp,
        heal: impl FnOnce(&Region),
    ) -> Result<(Region, OpenOutcome), StateError> {
        match self {
            Self::Directory(directory, turn) => directory.region_in(turn, identity, now, heal),
            Self::Anonymous(files, named) => files.region(named, identity, now),
        }
    }

    /// Puts a new region, once `fill` has filled it, in the place of another of its name; returns the result of
    /// `fill`.
    pub(crate) fn replace<T>(
        &mut self,
        identity: &FileIdentity,
        now: Timestamp,
        fill: impl FnOnce(Region) -> T,
    ) -> Result<T, StateError> {
        match self {
            Self::Directory(directory, turn) => {
                let (region, draft) = directory.draft_in(turn, identity, now)?;
                let filled = fill(region);
                directory.publish_in(turn, &draft)?;
                Ok(filled)
            }
            Self::Anonymous(files, named) => {
                let (region, unnamed) = files.draft(identity, now)?;
                let filled = fill(region);
                AnonymousFiles::publish(named, unnamed);
                Ok(filled)
            }
        }
    }
}

impl LocationDraft<'_> {
    /// Gives it its name; see [`StateDir::publish`].
    pub(crate) fn publish(self) -> Result<(), StateError> {
        match self {
            Self::Directory(directory, draft) => directory.publish(&draft),
            Self::Anonymous(files, unnamed) => {
                AnonymousFiles::publish(&mut files.lock(), unnamed);
                Ok(())
            }
        }
    }
}
