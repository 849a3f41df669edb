//! A text that is not shown: passwords, keys and tokens.

use std::fmt;
use std::sync::Arc;

/// What must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Keeps it.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The secret itself, for who must send it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str("Secret")
    }
}
