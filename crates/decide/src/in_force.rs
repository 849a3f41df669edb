//! Gives a background task the part of the configuration in force that it works on.
//!
//! A task must not hold a snapshot, since a reload replaces it, and need not know the whole process. It gets a function that reads
//! its part of whatever snapshot is in force at the moment of the call.

use std::sync::Arc;

/// Reads one part of the configuration in force.
#[derive(Clone)]
pub struct InForce<T>(Arc<dyn Fn() -> T + Send + Sync>);

impl<T> InForce<T> {
    /// A part that `read` takes from the snapshot in force.
    #[must_use]
    pub fn new(read: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// Returns the part as it is now.
    #[must_use]
    pub fn load(&self) -> T {
        (self.0)()
    }
}
