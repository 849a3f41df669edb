//! Remembers the number of gateways that share the store, so that a process that starts while the store is unavailable takes its share and
//! not the whole.
//!
//! With `[server] state_dir` the number is a file there, which is replaced whole when the number changes. It is on the disk before it has
//! the name, so a loss of power leaves the former number or the new one. In an upgrade the old process hands it over.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use tracing::warn;

/// The name of the file.
const FILE: &str = "gateways";
/// The longest content: ten digits and the end of the line.
const LONGEST: u64 = 11;

/// The number of gateways before this process, and the file for the processes after it.
#[derive(Debug)]
pub(super) struct FleetSize {
    /// The number that an earlier process has left; `None` where none has.
    pub(super) known: Option<NonZeroU32>,
    directory: Option<PathBuf>,
}

impl FleetSize {
    /// The number that no process has left, and none keeps.
    pub(super) const UNKNOWN: Self = Self {
        known: None,
        directory: None,
    };

    /// Reads the number in a state directory, and removes what killed processes have left of theirs.
    pub(super) fn in_directory(directory: &Path) -> Self {
        if let Err(error) = remove_drafts(directory) {
            warn!(
                "{}: drafts of the number of gateways not removed: {error}",
                directory.display()
            );
        }
        let known = match read(&directory.join(FILE)) {
            Ok(known) => Some(known),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                warn!(
                    "{}: number of gateways unreadable: {error}",
                    directory.display()
                );
                None
            }
        };
        Self {
            known,
            directory: Some(directory.to_owned()),
        }
    }

    /// Writes the number.
    pub(super) fn keep(&self, number: NonZeroU32) {
        let Some(directory) = &self.directory else {
            return;
        };
        if let Err(error) = write(directory, number) {
            warn!(
                "{}: number of gateways not kept: {error}",
                directory.display()
            );
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

/// Writes a draft and renames it, so that the name always has a whole file.
fn write(directory: &Path, number: NonZeroU32) -> io::Result<()> {
    let draft = directory.join(format!("{FILE}.{}", std::process::id()));
    let mut file = File::create(&draft)?;
    file.write_all(format!("{number}\n").as_bytes())?;
    // Some file systems write the name before the content.
    file.sync_all()?;
    fs::rename(&draft, directory.join(FILE))?;
    File::open(directory)?.sync_all()
}

/// Removes the drafts of processes that have ended.
fn remove_drafts(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if drafting_process(&name).is_some_and(|process| !is_running(process)) {
            fs::remove_file(directory.join(name))?;
        }
    }
    Ok(())
}

/// Returns the process whose draft a file of this name is; `None` for every other file.
fn drafting_process(name: &OsStr) -> Option<u32> {
    let process = name.to_str()?.strip_prefix(FILE)?.strip_prefix('.')?;
    process.parse().ok()
}

fn is_running(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
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
