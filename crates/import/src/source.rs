//! The way to the files that the input includes. The crate opens none itself.

/// A file that was included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludedFile {
    /// Its name in reports.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Reads included files.
pub trait IncludedFiles {
    /// Returns the files of a path or a pattern, in the order of their names. The list is empty where the folder of a pattern was read and
    /// no file in it fits.
    ///
    /// # Errors
    ///
    /// The reason for which they, or the folder of the pattern, cannot be read.
    fn read(&self, pattern: &str) -> Result<Vec<IncludedFile>, String>;
}

/// No files: each `include` is left out.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl IncludedFiles for NoFiles {
    fn read(&self, _: &str) -> Result<Vec<IncludedFile>, String> {
        Err("no other file is read here".to_owned())
    }
}
