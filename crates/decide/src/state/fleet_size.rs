//! Remembers the number of gateways that share the store, so that a process that starts while the store is unavailable takes its share and
//! not the whole.
//!
//! With `[server] state_dir` the number is a file there, which is replaced whole when the number changes. In an upgrade the old process
//! hands it over.

use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::Path;

use tracing::warn;

use crate::replaced_file::ReplacedFile;

/// The target of process logs, below that of the counters.
const LOG_TARGET: &str = "sluicegate::state::fleet_size";

/// The name of the file.
const FILE: &str = "gateways";
/// The longest content: ten digits and the end of the line.
const LONGEST: u64 = 11;

/// The number of gateways before this process, and the file for the processes after it.
#[derive(Debug)]
pub(super) struct FleetSize {
    /// The number that an earlier process has left; `None` where none has.
    pub(super) known: Option<NonZeroU32>,
    file: Option<ReplacedFile>,
}

impl FleetSize {
    /// The number that no process has left, and none keeps.
    pub(super) const UNKNOWN: Self = Self {
        known: None,
        file: None,
    };

    /// Reads the number in a state directory, and removes what killed processes have left of theirs.
    pub(super) fn in_directory(directory: &Path) -> Self {
        let file = ReplacedFile::new(directory, FILE);
        if let Err(error) = file.remove_drafts() {
            warn!(
                target: LOG_TARGET,
                "{}: drafts of the number of gateways not removed: {error}",
                directory.display()
            );
        }
        let known = match read(&file.path()) {
            Ok(known) => Some(known),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                warn!(
                    target: LOG_TARGET,
                    "{}: number of gateways unreadable: {error}",
                    directory.display()
                );
                None
            }
        };
        Self {
            known,
            file: Some(file),
        }
    }

    /// Writes the number.
    pub(super) fn keep(&self, number: NonZeroU32) {
        let Some(file) = &self.file else { return };
        if let Err(error) = file.replace(format!("{number}\n").as_bytes()) {
            let path = file.path();
            warn!(target: LOG_TARGET, "{}: number of gateways not kept: {error}", path.display());
        }
    }
}

fn read(path: &Path) -> io::Result<NonZeroU32> {
    let unreadable = || io::Error::new(io::ErrorKind::InvalidData, "it is no number");
    if fs::metadata(path)?.len() > LONGEST {
        return Err(unreadable());
    }
    let text = fs::read_to_string(path)?;
    text.trim_end().parse().map_err(|_| unreadable())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the number of the latest process is found, and a damaged file is none. Method: numbers that are kept and read again; files
    /// with something else.
    #[test]
    fn the_latest_number_is_read_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        assert_eq!(FleetSize::in_directory(path).known, None);
        let size = FleetSize::in_directory(path);
        for number in [3, 3, 2] {
            size.keep(NonZeroU32::new(number).expect("positive"));
        }
        assert_eq!(FleetSize::in_directory(path).known, NonZeroU32::new(2));
        for damaged in ["", "0\n", "-1\n", "4294967296\n", "00000000000000000002\n"] {
            fs::write(path.join(FILE), damaged).expect("it is ours");
            assert_eq!(FleetSize::in_directory(path).known, None, "{damaged:?}");
        }
        let files = fs::read_dir(path).expect("a directory").count();
        assert_eq!(files, 1);
    }

    /// Goal: a draft of a process that has ended is removed, and nothing else. Method: a draft with a number that no process has,
    /// one of this process, and files with similar names.
    #[test]
    fn drafts_of_processes_that_ended_are_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let own = format!("{FILE}.{}", std::process::id());
        // Numbers of processes are below 2^22.
        let ended = format!("{FILE}.{}", u32::MAX);
        let others = [FILE, &own, "gateways.old", "gateways.7.counters", "seed"];
        for name in others.into_iter().chain([&*ended]) {
            fs::write(path.join(name), "3\n").expect("it is ours");
        }
        assert_eq!(FleetSize::in_directory(path).known, NonZeroU32::new(3));
        assert!(!path.join(ended).exists());
        for name in others {
            assert!(path.join(name).exists(), "{name}");
        }
    }
}
