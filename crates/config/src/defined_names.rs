//! Keeps the names that a file defines, for the checks of what uses them.

use std::collections::BTreeMap;

use super::report::KeyPlace;
use super::rules::Name;

/// The names that are defined, whether or not their tables could be read.
pub(super) struct DefinedNames {
    pub(super) limits: BTreeMap<Name, KeyPlace>,
    pub(super) lists: BTreeMap<Name, KeyPlace>,
    pub(super) origins: BTreeMap<Name, KeyPlace>,
    pub(super) crawlers: BTreeMap<Name, KeyPlace>,
}
