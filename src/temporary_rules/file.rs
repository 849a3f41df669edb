//! Keeps the temporary rules in a file of `[server] state_dir`, which is replaced whole at each change.
//!
//! A file that cannot be read is moved aside and reported: the gateway starts without its rules, and an operator can read them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sluicegate_base::bounds::TEMPORARY_RULES_FILE;
use tracing::{error, warn};

use super::book::{RuleBook, RuleEntry};
use super::written::WrittenEntry;
use crate::replaced_file::ReplacedFile;

/// The name of the file.
const FILE: &str = "temporary-rules.json";
/// The name of a file that could not be read.
const BROKEN: &str = "temporary-rules.broken.json";

/// The file of the rules.
#[derive(Debug)]
pub(super) struct RuleFile {
    file: ReplacedFile,
    /// The file as this process has read or written it last; `None` before there was one.
    version: Option<FileVersion>,
    error: Option<String>,
}

/// The facts by which a file that another process has replaced is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    modified: SystemTime,
    length: u64,
}

#[derive(Serialize, Deserialize)]
struct RuleFileText {
    version: u32,
    rules: Vec<WrittenEntry>,
}

impl RuleFile {
    /// Opens the file in a directory, and returns its entries.
    pub(super) fn open(directory: &Path) -> (Self, Vec<RuleEntry>) {
        let mut file = Self {
            file: ReplacedFile::new(directory, FILE),
            version: None,
            error: None,
        };
        if let Err(error) = file.file.remove_drafts() {
            let directory = directory.display();
            warn!("{directory}: drafts of the temporary rules not removed: {error}");
        }
        let entries = match file.read() {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                file.set_aside(&error);
                Vec::new()
            }
        };
        (file, entries)
    }

    /// Returns why the rules are not kept; `None` where they are.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns the entries of a file that another process has written since the last look; `None` where there is none.
    pub(super) fn read_if_changed(&mut self) -> Option<Vec<RuleEntry>> {
        let version = FileVersion::of_path(&self.file.path()).ok()?;
        if Some(version) == self.version {
            return None;
        }
        match self.read() {
            Ok(entries) => Some(entries),
            Err(error) => {
                self.set_aside(&error);
                None
            }
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

    fn read(&mut self) -> io::Result<Vec<RuleEntry>> {
        let path = self.file.path();
        let version = FileVersion::of_path(&path)?;
        let mut text = Vec::new();
        let mut file = File::open(&path)?.take(TEMPORARY_RULES_FILE + 1);
        file.read_to_end(&mut text)?;
        if text.len() as u64 > TEMPORARY_RULES_FILE {
            return Err(io::Error::other("it is too long"));
        }
        let text: RuleFileText = serde_json::from_slice(&text).map_err(io::Error::other)?;
        if text.version != 1 {
            let why = format!("its version {} is unknown", text.version);
            return Err(io::Error::other(why));
        }
        let entries = text.rules.iter().map(WrittenEntry::read);
        let entries: Result<Vec<RuleEntry>, String> = entries.collect();
        self.version = Some(version);
        entries.map_err(io::Error::other)
    }

    /// Moves a file aside that cannot be read.
    fn set_aside(&mut self, reason: &io::Error) {
        let path = self.file.path();
        warn!(
            "{}: the temporary rules cannot be read, so none of them is in force: {reason}; the file is moved to {BROKEN}",
            path.display()
        );
        if let Err(error) = fs::rename(&path, path.with_file_name(BROKEN)) {
            warn!("{}: not moved: {error}", path.display());
        }
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
