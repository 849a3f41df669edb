//! Defines the exit codes of the program.

/// The exit code of success.
pub(super) const SUCCESS: u8 = 0;
/// The exit code of a failure outside the configuration.
pub(super) const FAILED: u8 = 1;
/// The exit code of an import of which a part is to be filled in.
pub(super) const INCOMPLETE: u8 = 2;
/// The exit code where a configuration differs from the one in force.
pub(super) const CHANGES: u8 = 2;
/// The exit code of bad configuration or usage; EX_USAGE of sysexits.h.
pub(super) const USAGE: u8 = 64;
