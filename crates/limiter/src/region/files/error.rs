//! Says why there is no state, and how state was found: the operator's errors, and the surprises that are none.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::record::UntrustedFile;

/// The state in which a file was found when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenOutcome {
    /// There was none; a new one was made.
    Fresh,
    /// The file goes on from what earlier processes counted; none of them counts in it any more.
    Continued,
    /// The file is in use by another process, or elsewhere in this one: both count in it from now on.
    Joined,
    /// The old file is not trusted: it was moved away and a new one made.
    SetAside {
        /// The reason.
        reason: UntrustedFile,
        /// The new path of the old file.
        moved_to: PathBuf,
    },
}

impl fmt::Display for OpenOutcome {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fresh => write!(into, "made"),
            Self::Continued => write!(into, "continued"),
            Self::Joined => write!(into, "shared with another process"),
            Self::SetAside { reason, moved_to } => {
                write!(
                    into,
                    "made anew, the old one is not trusted: {reason}; see "
                )?;
                write!(into, "{}", moved_to.display())
            }
        }
    }
}

/// The reason why state cannot be kept. All of it is the operator's or the system's to mend.
#[derive(Debug)]
pub enum StateError {
    /// The path of the directory is something else.
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// Others may write to the directory, so its files cannot be trusted.
    Exposed {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The directory belongs to another user.
    Owner {
        /// The directory.
        path: PathBuf,
        /// The owner's user id.
        uid: u32,
    },
    /// Another process holds the directory's lock for longer than any change takes.
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// Too many new files of one name are being filled at the same time.
    Drafts {
        /// The file.
        path: PathBuf,
    },
    /// There is no room for a file.
    NoSpace {
        /// The file.
        path: PathBuf,
        /// The wanted length, in bytes.
        bytes: u64,
    },
    /// The system refused.
    Io {
        /// The operation that failed.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl StateError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotADirectory { path } => {
                write!(into, "{} is not a directory", path.display())
            }
            Self::Exposed { path, mode } => write!(
                into,
                "others may write to {} (mode {mode:o}), and with it to every counter; chmod 700 it",
                path.display()
            ),
            Self::Owner { path, uid } => write!(
                into,
                "{} belongs to user {uid}, neither to this one nor to root",
                path.display()
            ),
            Self::Busy { path } => write!(
                into,
                "another process has held {} for too long; is one stopped?",
                path.display()
            ),
            Self::Drafts { path } => {
                write!(
                    into,
                    "too many edits at once want to make {}",
                    path.display()
                )
            }
            Self::NoSpace { path, bytes } => {
                write!(into, "no room for the {bytes} bytes of {}", path.display())
            }
            Self::Io {
                action,
                path,
                source,
            } => write!(into, "cannot {action} {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for StateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
