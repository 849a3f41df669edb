//! Keeps the temporary rules in a file of `[server] state_dir`, which is replaced whole at each change.
//!
//! Of a file with entries that no gateway writes the others are in force; of one that is no list of rules, none. Either is copied before it
//! is replaced, beside earlier copies, and the fault is said until an operator has changed a rule or the file is read without a fault. A
//! file that the system does not let be read stays where it is and is tried again; only a change of the rules moves it aside.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sluicegate_base::bounds::TEMPORARY_RULES_FILE;
use tracing::{error, warn};

use super::book::{RuleBook, RuleEntry};
use super::written::WrittenEntry;
use crate::replaced_file::ReplacedFile;

/// The target of process logs, as that of the rules.
const LOG_TARGET: &str = "sluicegate::temporary_rules::file";
/// The name of the file.
const FILE: &str = "temporary-rules.json";
/// The name of the copy of a file with faults, before its number and its ending.
const BROKEN: &str = "temporary-rules.broken";
/// Copies of files with faults that are kept.
const MOST_BROKEN: u32 = 100;

/// The file of the rules.
#[derive(Debug)]
pub(super) struct RuleFile {
    file: ReplacedFile,
    /// The file as this process has read or written it last; `None` before there was one.
    version: Option<FileVersion>,
    /// True if the last attempt to read the file failed.
    is_unread: bool,
    /// The reason why the latest change is not in the file.
    error: Option<String>,
    /// The faults of the file as it was read last, and the name of its copy.
    fault: Option<String>,
}

/// The entries of the file, and what is wrong with the others.
#[derive(Debug, Default)]
pub(super) struct FileContents {
    pub(super) entries: Vec<RuleEntry>,
    pub(super) faults: Vec<String>,
    pub(super) bytes: Vec<u8>,
}

/// The facts by which a file that another process has replaced is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    modified: SystemTime,
    length: u64,
}

#[derive(Serialize)]
struct RuleFileText {
    version: u32,
    rules: Vec<WrittenEntry>,
}

/// The file before its entries are read one by one.
#[derive(Deserialize)]
struct UnreadEntries {
    version: u32,
    rules: Vec<serde_json::Value>,
}

impl RuleFile {
    /// Opens the file in a directory.
    pub(super) fn open(directory: &Path) -> Self {
        let file = ReplacedFile::new(directory, FILE);
        if let Err(error) = file.remove_drafts() {
            let directory = directory.display();
            warn!(target: LOG_TARGET, "{directory}: drafts of the temporary rules not removed: {error}");
        }
        Self {
            file,
            version: None,
            is_unread: false,
            error: None,
            fault: None,
        }
    }

    /// Returns why the rules are not kept; `None` where they are.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns the faults of the file as it was read last; `None` where there are none.
    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Forgets the faults once the file is replaced.
    pub(super) fn forget_fault(&mut self) {
        if self.error.is_none() {
            self.fault = None;
        }
    }

    /// Returns whether this process has read or written the file.
    pub(super) fn is_read(&self) -> bool {
        self.version.is_some()
    }

    /// Returns the content of a file that another process has written since the last look; `None` where there is none.
    pub(super) fn read_if_changed(&mut self) -> Option<FileContents> {
        let path = self.file.path();
        let version = FileVersion::of_path(&path).ok()?;
        if Some(version) == self.version {
            return None;
        }
        match read_bytes(&path) {
            Ok(bytes) => {
                self.version = Some(version);
                self.is_unread = false;
                Some(FileContents::parse(bytes))
            }
            Err(error) => {
                self.note_unread(&error);
                None
            }
        }
    }

    /// Reports that the file could not be read. Its version stays unknown, so the next look tries again.
    fn note_unread(&mut self, error: &io::Error) {
        self.is_unread = true;
        let path = self.file.path();
        let fault = format!(
            "{}: it cannot be read, so its rules are not in force: {error}",
            path.display()
        );
        if self.fault.as_ref() != Some(&fault) {
            error!(target: LOG_TARGET, "temporary rules are lost: {fault}");
            self.fault = Some(fault);
        }
    }

    /// Reports the faults of a file that was read, and copies it where there are some.
    pub(super) fn judge(&mut self, bytes: &[u8], faults: &[String]) {
        self.fault = faults.first().map(|first| {
            let copy = match self.keep_broken(bytes) {
                Ok(copy) => format!("the file is copied to {}", copy.display()),
                Err(error) => format!("the file is not copied: {error}"),
            };
            let path = self.file.path();
            let path = path.display();
            match faults.len() {
                1 => format!("{path}: {first}; {copy}"),
                number => format!("{path}: {number} faults, the first: {first}; {copy}"),
            }
        });
        if let Some(fault) = &self.fault {
            error!(target: LOG_TARGET, "temporary rules are lost: {fault}");
        }
    }

    /// Writes the rules.
    pub(super) fn write(&mut self, book: &RuleBook) {
        let text = RuleFileText {
            version: 1,
            rules: book
                .entries()
                .map(|entry| WrittenEntry::new(&entry))
                .collect(),
        };
        let written = serde_json::to_vec_pretty(&text).map_err(io::Error::other);
        let replaced = written.and_then(|bytes| {
            self.move_unread()?;
            self.file.replace(&bytes)
        });
        match replaced.and_then(|()| FileVersion::of_path(&self.file.path())) {
            Ok(version) => {
                self.version = Some(version);
                self.error = None;
            }
            Err(error) => {
                let path = self.file.path();
                let error = format!("{}: {error}", path.display());
                error!(target: LOG_TARGET, "temporary rules are not kept: {error}");
                self.error = Some(error);
            }
        }
    }

    /// Moves a file aside that could not be read, since its rules are not among those that are written.
    fn move_unread(&mut self) -> io::Result<()> {
        if !self.is_unread {
            return Ok(());
        }
        let path = self.file.path();
        let copy = self.free_copy()?;
        match fs::rename(&path, &copy) {
            Ok(()) => warn!(
                target: LOG_TARGET,
                "{}: moved to {}, since it could not be read",
                path.display(),
                copy.display()
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.is_unread = false;
        Ok(())
    }

    /// Copies a file with faults and returns the path of the copy: that of an earlier one with the same content, or a new one.
    fn keep_broken(&self, bytes: &[u8]) -> io::Result<PathBuf> {
        let has_same = |copy: &PathBuf| fs::read(copy).is_ok_and(|earlier| earlier == bytes);
        if let Some(earlier) = self.copies().find(has_same) {
            return Ok(earlier);
        }
        let copy = self.free_copy()?;
        fs::copy(self.file.path(), &copy)?;
        Ok(copy)
    }

    /// Returns a name for a copy that no file has.
    fn free_copy(&self) -> io::Result<PathBuf> {
        let is_free = |copy: &PathBuf| {
            let found = fs::symlink_metadata(copy);
            found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        self.copies().find(is_free).ok_or_else(|| {
            io::Error::other(format!(
                "there are {MOST_BROKEN} copies of such files already"
            ))
        })
    }

    /// Returns the names that copies have.
    fn copies(&self) -> impl Iterator<Item = PathBuf> {
        let path = self.file.path();
        (1..=MOST_BROKEN).map(move |number| {
            path.with_file_name(match number {
                1 => format!("{BROKEN}.json"),
                _ => format!("{BROKEN}.{number}.json"),
            })
        })
    }
}

impl FileContents {
    /// Parses the entries, each by itself.
    fn parse(bytes: Vec<u8>) -> Self {
        let unread = match serde_json::from_slice::<UnreadEntries>(&bytes) {
            Ok(unread) if unread.version == 1 => unread,
            Ok(unread) => {
                let why = format!("its version {} is unknown", unread.version);
                return Self::without_entries(bytes, &why);
            }
            Err(error) => return Self::without_entries(bytes, &error),
        };
        let mut contents = Self {
            bytes,
            ..Self::default()
        };
        for (at, value) in unread.rules.into_iter().enumerate() {
            let written = serde_json::from_value::<WrittenEntry>(value);
            let read = written.map_err(|_| "it is no rule".to_owned());
            match read.and_then(|written| written.read()) {
                Ok(entry) => contents.entries.push(entry),
                Err(why) => contents.faults.push(format!("entry {}: {why}", at + 1)),
            }
        }
        contents
    }

    /// Returns the content of a file of which nothing is in force.
    fn without_entries(bytes: Vec<u8>, why: &dyn std::fmt::Display) -> Self {
        Self {
            entries: Vec::new(),
            faults: vec![format!(
                "it cannot be read, so none of its rules is in force: {why}"
            )],
            bytes,
        }
    }
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = File::open(path)?.take(TEMPORARY_RULES_FILE + 1);
    file.read_to_end(&mut bytes)?;
    match bytes.len() as u64 > TEMPORARY_RULES_FILE {
        true => Err(io::Error::other("it is too long")),
        false => Ok(bytes),
    }
}

impl FileVersion {
    fn of_path(path: &Path) -> io::Result<Self> {
        let facts = fs::metadata(path)?;
        Ok(Self {
            modified: facts.modified()?,
            length: facts.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an error of the system loses no rule. Method: a name that can be opened and not read, which then is a file; and such a name
    /// when the rules change.
    #[test]
    fn a_file_that_cannot_be_read_is_tried_again_and_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        fs::create_dir(&path).unwrap();
        let mut file = RuleFile::open(directory.path());
        for _ in 0..2 {
            assert!(file.read_if_changed().is_none());
            assert!(file.fault().unwrap().contains("it cannot be read"));
        }
        fs::remove_dir(&path).unwrap();
        fs::write(&path, r#"{"version":1,"rules":[]}"#).unwrap();
        let contents = file.read_if_changed().unwrap();
        assert!(contents.faults.is_empty());
        file.judge(&contents.bytes, &contents.faults);
        assert_eq!(file.fault(), None);

        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(file.read_if_changed().is_none());
        file.write(&RuleBook::default());
        assert_eq!(file.error(), None);
        assert!(path.is_file());
        assert!(path.with_file_name(format!("{BROKEN}.json")).is_dir());
    }
}
