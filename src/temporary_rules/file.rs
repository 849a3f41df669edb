//! Keeps the temporary rules in a file of `[server] state_dir`, which is replaced whole at each change.
//!
//! Of a file with entries that no gateway writes the others are in force; of one that is no list of rules, none. Either is copied before it
//! is replaced, beside earlier copies, and the fault is said until an operator has changed a rule or the file is read without a fault.

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
    /// The content as it was read last, until it is judged.
    read: Vec<u8>,
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
            warn!("{directory}: drafts of the temporary rules not removed: {error}");
        }
        Self {
            file,
            version: None,
            read: Vec::new(),
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
        self.version = Some(version);
        Some(match read_bytes(&path) {
            Ok(bytes) => {
                let contents = FileContents::parse(&bytes);
                self.read = bytes;
                contents
            }
            Err(error) => FileContents::unreadable(&error),
        })
    }

    /// Reports the faults of the file that was read, and copies it where there are some.
    pub(super) fn judge(&mut self, faults: impl Iterator<Item = String>) {
        let read = std::mem::take(&mut self.read);
        let faults: Vec<String> = faults.collect();
        self.fault = faults.first().map(|first| {
            let copy = match self.keep_broken(&read) {
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
            error!("temporary rules are lost: {fault}");
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
        let replaced = written.and_then(|bytes| self.file.replace(&bytes));
        match replaced.and_then(|()| FileVersion::of_path(&self.file.path())) {
            Ok(version) => {
                self.version = Some(version);
                self.error = None;
            }
            Err(error) => {
                let path = self.file.path();
                let error = format!("{}: {error}", path.display());
                error!("temporary rules are not kept: {error}");
                self.error = Some(error);
            }
        }
    }

    /// Copies a file with faults and returns the path of the copy: that of an earlier copy with the same content, or a new one. A file
    /// whose content is unknown is renamed.
    fn keep_broken(&self, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.file.path();
        for number in 1..=MOST_BROKEN {
            let copy = path.with_file_name(match number {
                1 => format!("{BROKEN}.json"),
                _ => format!("{BROKEN}.{number}.json"),
            });
            match fs::symlink_metadata(&copy) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match bytes.is_empty() {
                        true => fs::rename(&path, &copy)?,
                        false => fs::copy(&path, &copy).map(drop)?,
                    }
                    return Ok(copy);
                }
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            if !bytes.is_empty() && fs::read(&copy).is_ok_and(|earlier| earlier == bytes) {
                return Ok(copy);
            }
        }
        let why = format!("there are {MOST_BROKEN} copies of such files already");
        Err(io::Error::other(why))
    }
}

impl FileContents {
    /// Parses the entries, each by itself.
    fn parse(text: &[u8]) -> Self {
        let unread: UnreadEntries = match serde_json::from_slice(text) {
            Ok(unread) => unread,
            Err(error) => return Self::unreadable(&error),
        };
        if unread.version != 1 {
            return Self::unreadable(&format!("its version {} is unknown", unread.version));
        }
        let mut contents = Self::default();
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
    fn unreadable(why: &dyn std::fmt::Display) -> Self {
        Self {
            entries: Vec::new(),
            faults: vec![format!(
                "it cannot be read, so none of its rules is in force: {why}"
            )],
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
