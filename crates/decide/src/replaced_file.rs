//! Writes a small file of a state directory whole: on the disk before it has the name, so a loss of power leaves the former content or the
//! new one, and only the user of the process reads it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that is replaced whole. Drafts beside it have its name and the number of the process that writes them.
#[derive(Clone, Debug)]
pub struct ReplacedFile {
    directory: PathBuf,
    name: &'static str,
}

impl ReplacedFile {
    /// The file of this name in a directory.
    #[must_use]
    pub fn new(directory: &Path, name: &'static str) -> Self {
        Self {
            directory: directory.to_owned(),
            name,
        }
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join(self.name)
    }

    /// Writes a draft and renames it, so that the name always has a whole file.
    ///
    /// # Errors
    /// The system's; the former content then stays.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let draft = format!("{}.{}", self.name, std::process::id());
        let draft = self.directory.join(draft);
        let mut file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)?;
        file.write_all(bytes)?;
        // Some file systems write the name before the content.
        file.sync_all()?;
        fs::rename(&draft, self.path())?;
        File::open(&self.directory)?.sync_all()
    }

    /// Removes the drafts of processes that have ended.
    ///
    /// # Errors
    /// The system's.
    pub fn remove_drafts(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            if (self.drafting_process(&name)).is_some_and(|process| !is_running(process)) {
                fs::remove_file(self.directory.join(name))?;
            }
        }
        Ok(())
    }

    /// Returns the process whose draft a file of this name is; `None` for every other file.
    fn drafting_process(&self, name: &OsStr) -> Option<u32> {
        let process = name.to_str()?.strip_prefix(self.name)?.strip_prefix('.')?;
        process.parse().ok()
    }
}

fn is_running(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}
