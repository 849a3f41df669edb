//! Names the things of a configuration.

use std::sync::Arc;

/// The name of a limit, an origin or a route: 1–64 of `a-z A-Z 0-9 _ - .`, or for a route without a name its pattern.
pub type Name = Arc<str>;
