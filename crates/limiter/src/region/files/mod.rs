//! Keeps counters in files, so that they survive the process: feature `mmap`.
//!
//! `state_dir` is the door; `anonymous` is the one to files that only processes have which were given them, and `location` says which of
//! both is meant. `open` decides whether a file that is there can be trusted, `identity` what its counters
//! mean, `record` whether its bytes are whole, `directory` that no other user wrote them; `clock` what time it is for a
//! limiter that was away.

mod anonymous;
mod clock;
mod directory;
mod error;
mod identity;
mod location;
mod open;
mod record;
mod state_dir;

pub use anonymous::AnonymousFiles;
pub use clock::{BootId, BootTime, Clock, ClockDrift, ClockMark, ClockReading, WallClock};
pub use error::{OpenOutcome, StateError};
pub(crate) use identity::WordLengths;
pub use identity::{FileIdentity, LayoutId};
pub use location::StateLocation;
pub use open::FileDraft;
pub use record::UntrustedFile;
pub use state_dir::{RemovedFiles, StateDir, UNUSED_FILE_RETENTION};
