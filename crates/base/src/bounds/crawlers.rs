//! Caps of crawlers: their user agents, the blocks that their operators publish, and their signatures.

/// Maximum number of crawlers of a configuration.
///
/// A request on a route that reads its crawler is compared with all of them; the largest published lists have some dozens. More
/// are refused when the configuration is read.
pub const CRAWLERS: usize = 64;

/// Maximum number of user agents of one crawler. Operators list up to about a dozen. More are refused when the configuration is read.
pub const CRAWLER_USER_AGENTS: usize = 16;

/// Maximum length of one user agent of a crawler, in bytes. Published ones are product names of a few dozen bytes. A longer one is
/// refused when the configuration is read.
pub const CRAWLER_USER_AGENT_BYTES: usize = 64;

/// Maximum number of bytes of a `User-Agent` that are searched for crawlers. Those of crawlers are much shorter; the search copies them
/// to the stack. What stands behind them claims nothing.
pub const USER_AGENT_BYTES: usize = 1024;

/// Maximum number of `User-Agent` fields that are searched; RFC 9110 has one. Further ones claim nothing.
pub const USER_AGENT_FIELDS: usize = 4;

/// Maximum number of files with blocks of one crawler. More are refused when the configuration is read.
pub const CRAWLER_RANGE_FILES: usize = 8;

/// Maximum number of blocks of one such file. Published files have thousands at most. A longer file is
/// refused, and the blocks before it stay.
pub const CRAWLER_BLOCKS: usize = 64 * 1024;

/// Maximum number of crawlers and groups that one route or list names. More are refused when the configuration is read.
pub const CRAWLER_NAMES: usize = 256;

/// Maximum number of hosts for which crawlers may sign. More are refused when the configuration is read.
pub const SIGNED_HOSTS: usize = 256;

/// Maximum number of signatures of one network of clients (/24, /48) that fail within a minute before further ones are not verified:
/// each costs a signature verification. A crawler whose clock or key is wrong fails on all of them anyway.
pub const SIGNATURE_FAILURES: u64 = 16;

/// Number of networks whose failures are counted, in 8 bytes each. Two that meet in a slot lose their counts by turns.
pub const NETWORK_FAILURE_SLOTS: usize = 4096;
