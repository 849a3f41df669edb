//! Says which content of a file beside the configuration is in force.

use std::path::Path;
use std::sync::Arc;

use super::Name;

/// Which content of a file is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// The content that the file has.
    Read,
    /// An earlier one: the file is broken.
    Kept,
    /// Nothing could be read: the file is broken, and no earlier content is known.
    Lost,
}

/// A file that is broken, and what holds meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenFile {
    /// The kind of the table that names it, such as `list`.
    pub kind: &'static str,
    /// The name of that table; empty for `[jwt]` and `[geo]`.
    pub name: Name,
    /// Where it is.
    pub file: Arc<Path>,
    /// [`FileState::Kept`] or [`FileState::Lost`].
    pub state: FileState,
}

impl FileState {
    /// The word for it in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Kept => "kept",
            Self::Lost => "lost",
        }
    }
}

impl std::fmt::Display for BrokenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.kind)?;
        if !self.name.is_empty() {
            write!(f, " {}", self.name)?;
        }
        write!(f, ": {} is broken; ", self.file.display())?;
        f.write_str(match (self.state, self.kind) {
            (FileState::Read | FileState::Kept, _) => "its content before that stays in force",
            (FileState::Lost, "list") => {
                "no content before that is known: only the addresses that could be read are listed"
            }
            (FileState::Lost, "limit") => {
                "no content before that is known: the rates of the limit hold for every key"
            }
            (FileState::Lost, "crawler") => {
                "no content before that is known: it proves nobody to be this crawler"
            }
            (FileState::Lost, _) => "no content before that is known: no token is believed",
        })
    }
}
