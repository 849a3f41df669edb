//! Bounds what waits, what is remembered and how often a call is sent on.

/// Calls that wait to be written to one connection. At the bound a call waits within its timeout; more than this at once is a server
/// that does not keep up.
pub(crate) const QUEUE: usize = 1024;

/// Calls that travel in one write of [`Link::run_all`](crate::Link::run_all): enough that a write is worth its system call, few enough
/// that a call made meanwhile does not wait behind them for longer than a millisecond or two.
pub const BATCH: usize = 128;

/// Redirections that one call follows: to the new server of a slot, from there to the server that imports it, and once more with the
/// whole script. More is a Cluster in disorder: the call fails.
pub(crate) const REDIRECTIONS: usize = 4;
