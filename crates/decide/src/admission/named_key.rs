//! Names a key of a limit, by its hash or by its values.

use sluicegate_limiter::KeyHash;

/// A key of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedKey {
    /// The hash in this process, as the access log writes it.
    pub key: KeyHash,
    /// The parts, each in the form that is counted; empty where only the hash is known.
    pub(super) parts: Vec<Vec<u8>>,
}

impl NamedKey {
    /// Returns whether the values are known.
    #[must_use]
    pub fn is_by_values(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Returns the parts in the form that is counted.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(Vec::as_slice)
    }

    /// Returns the key with this hash, as the log has it.
    #[must_use]
    pub fn of_hash(key: KeyHash) -> Self {
        Self {
            key,
            parts: Vec::new(),
        }
    }
}
