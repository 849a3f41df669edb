//! Owns the rules of `[list.NAME]`: blocks of client addresses, those that are written and those of a file.

use std::path::PathBuf;
use std::sync::Arc;

use super::FileState;
use crate::address::CidrSet;

/// `[list.NAME]`: blocks of client addresses.
///
/// Of these rules alone it is the compiled form that is kept: a million lines beside it would be as many again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRules {
    /// The blocks that are written in the configuration.
    pub written: Arc<CidrSet>,
    /// The file that has more of them; `None` where none is named.
    pub file: Option<ListFile>,
}

/// `file` of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFile {
    /// Where it is; it is watched.
    pub path: PathBuf,
    /// Which of its contents is in force.
    pub state: FileState,
    /// The blocks of that content.
    pub blocks: Arc<CidrSet>,
}

impl ListRules {
    /// Its blocks, as the sets that hold them.
    pub fn sets(&self) -> impl Iterator<Item = &Arc<CidrSet>> {
        std::iter::once(&self.written).chain(self.file.iter().map(|file| &file.blocks))
    }

    /// The number of its blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sets().map(|set| set.len()).sum()
    }

    /// Whether it names nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.sets().map(|set| set.bytes()).sum()
    }
}
