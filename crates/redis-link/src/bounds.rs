//! Bounds what waits, what is remembered and how often a call is sent on.

/// Calls that wait to be written to one connection. At the bound a call waits within its timeout; more than this at once is a server
/// that does not keep up.
pub(crate) const QUEUE: usize = 1024;

/// Calls that travel in one write of [`Link::run_all`](crate::Link::run_all): enough that a write is worth its system call, few enough
/// that a call made meanwhile does not wait behind them for longer than a millisecond or two.
pub const BATCH: usize = 128;

/// Calls that one run of the script carries: with 32 the fixed cost of a run is a tenth of it, and a server that is busy with them answers
/// others within a millisecond.
pub(crate) const SCRIPT_CALLS: usize = 32;

/// Batches of calls that are under way to one server. At the bound calls wait within their timeouts.
pub(crate) const BATCHES: usize = 64;

/// Redirections that one call follows: to the new server of a slot, from there to the server that imports it, and once more with the
/// whole script. More is a Cluster in disorder: the call fails.
pub(crate) const REDIRECTIONS: usize = 4;
