//! Says why there is no storage for counters, and what to do about it.

use std::fmt;

use sluicegate_limiter::StateError;

/// The reason for which there is no storage for counters.
#[derive(Debug)]
pub enum CounterStorageError {
    /// The system has no random source.
    Random(getrandom::Error),
    /// The state directory cannot be used.
    Directory(StateError),
    /// The handover of the old process cannot be used.
    Handover(std::io::Error),
}

impl fmt::Display for CounterStorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random(cause) => write!(f, "no random source for the keys' seed: {cause}"),
            Self::Directory(cause) => {
                write!(f, "[server] state_dir: {cause}; {}", advice(cause))
            }
            Self::Handover(cause) => {
                write!(f, "the counters of the old process cannot be used: {cause}")
            }
        }
    }
}

impl std::error::Error for CounterStorageError {}

/// Returns the cure for a directory that cannot be used.
fn advice(error: &StateError) -> &'static str {
    match error {
        StateError::NotADirectory { .. } => "name a directory of its own",
        StateError::Exposed { .. } => "or name one below it: it will be made for this user alone",
        StateError::Owner { .. } => "run as that user, or name a directory of this one",
        StateError::Busy { .. } => "end that process, or name another directory",
        StateError::NoSpace { .. } => "make room, or name a directory on another file system",
        StateError::Io { source, .. } => match source.kind() {
            std::io::ErrorKind::NotFound => "make the directory that it is to lie in",
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                "name a directory that this user may write to"
            }
            _ => "name another directory, or leave state_dir out to count in memory",
        },
        _ => "name another directory, or leave state_dir out to count in memory",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CounterStorage, PersistenceMode};

    /// Goal: each error has its cure. Method: a file in the way, a missing parent, a directory open to others.
    #[test]
    fn a_directory_that_cannot_be_used_says_what_to_do() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("file"), "").expect("room");
        std::fs::create_dir(path("open")).expect("room");
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(path("open"), everybody).expect("it is ours");
        for (name, advice) in [
            ("file", "is not a directory; name a directory of its own"),
            ("absent/state", "make the directory that it is to lie in"),
            ("open", "chmod 700 it; or name one below it"),
        ] {
            let error = match CounterStorage::open(PersistenceMode::Directory(&path(name))) {
                Ok(_) => panic!("{name} was opened"),
                Err(error) => error.to_string(),
            };
            assert!(error.starts_with("[server] state_dir: "), "{error}");
            assert!(error.contains(advice), "{error}");
        }
    }
}
