//! Caps of crawlers: their user agents, the blocks that their operators publish, their signatures, and the look-ups of their names.

use std::time::Duration;

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

/// Number of networks whose failures are counted, in 8 bytes each: one table for signatures, one for look-ups of names. Two that meet in a
/// slot lose their counts by turns.
pub const NETWORK_FAILURE_SLOTS: usize = 4096;

/// Maximum number of domains of one crawler. Operators name up to about four. More are refused when the configuration is read.
pub const CRAWLER_DOMAINS: usize = 16;

/// Maximum number of DNS servers; as many as a system resolver reads from /etc/resolv.conf. More are refused when the configuration is
/// read, and not read from that file.
pub const DNS_SERVERS: usize = 3;

/// Maximum number of look-ups of crawlers' addresses that begin within a second, in all. A search engine crawls a large site from some
/// hundreds of addresses, each of which is looked up once in hours. Further ones wait.
pub const LOOK_UPS_PER_SECOND: u32 = 50;

/// Maximum number of look-ups in flight, each with one socket. Those of a resolver that answers within half a second need fewer. Further
/// ones wait.
pub const LOOK_UPS_IN_FLIGHT: usize = 32;

/// Maximum number of look-ups that wait beside known crawlers, and of those that wait elsewhere: more than a second of them. An address
/// that finds no place is looked up when a later request claims the crawler.
pub const LOOK_UPS_WAITING: usize = 64;

/// Maximum number of look-ups of one network of clients (/24, /48) in a minute that confirm nothing. Its further addresses stay unverified
/// until the next minute. The owner of a network can have names in a crawler's domain for none of its addresses.
pub const LOOK_UP_FAILURES: u64 = 16;

/// Maximum number of names of an address that are asked for their addresses. Crawlers have one. Further names count for nothing.
pub const LOOK_UP_NAMES: usize = 4;

/// Maximum number of addresses of a name that are compared. Crawlers have one; further ones count for nothing.
pub const LOOK_UP_ADDRESSES: usize = 64;

/// Maximum time for one answer of a DNS server, before the next server is asked. Resolvers answer within a second, or have given up.
pub const DNS_PATIENCE: Duration = Duration::from_secs(2);

/// Maximum number of times that a question is sent: to each server once, and to the only one twice, since datagrams are lost.
pub const DNS_ATTEMPTS: usize = 3;

/// Maximum time of a look-up with all its questions. One that takes longer has failed.
pub const LOOK_UP_PATIENCE: Duration = Duration::from_secs(10);

/// Maximum length of an answer of a DNS server, in bytes. Answers about crawlers have a few hundred. A longer one counts as none.
pub const DNS_ANSWER_BYTES: usize = 4096;

/// Maximum number of confirmed addresses that are kept, some 200 bytes each: the addresses of all search engines together. The oldest one
/// makes room for a new one.
pub const CONFIRMED_ADDRESSES: usize = 8192;

/// Maximum number of addresses that are kept since they were not confirmed, some 100 bytes each: as many as a flood can have looked up in
/// five minutes. The oldest one makes room for a new one, and costs a look-up when it comes again.
pub const UNCONFIRMED_ADDRESSES: usize = 16 * 1024;

/// Least time for which an address is confirmed, in seconds: a shorter time to live of its names would cost look-ups.
pub const CONFIRMED_LEAST: u64 = 300;

/// Greatest time for which an address is confirmed, in seconds. That of Google's names is a day.
pub const CONFIRMED_MOST: u64 = 86_400;

/// Time for which an address stays confirmed beyond that, in seconds, while its refresh runs or fails: an outage of DNS of an hour is
/// nothing that search engines should notice.
pub const CONFIRMED_STALE: u64 = 3_600;

/// Least time for which an address is not looked up again that was not confirmed, in seconds. Its owner chooses the time to live.
pub const UNCONFIRMED_LEAST: u64 = 300;

/// Greatest time of that kind, in seconds: after an hour names that were missing are found.
pub const UNCONFIRMED_MOST: u64 = 3_600;

/// Time for which an address is not looked up again after a failure, in seconds.
pub const LOOK_UP_FAILED_FOR: u64 = 30;

/// Pause between two readings of /etc/resolv.conf, which may change at any time. Containers and laptops change it.
pub const RESOLV_CONF_EVERY: Duration = Duration::from_secs(30);
