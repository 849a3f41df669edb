//! Caps of limits beside their counters: requests that wait, overrides, figures of use, and what is unsent to a store.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Seconds between two lines about clients that take more than their share of one limit's slots: a flood lasts for minutes.
pub const SHARE_NEWS_SECONDS: u64 = 60;

/// Keys in the sample of a limit's largest uses, of which there are two for each table: some 200 KB each when full.
///
/// The 99.9th percentile of so many is that of four keys. Where a limit has more keys, a fair sample of them is kept.
pub const USAGE_KEYS: usize = 4096;

/// Keys with the largest uses of each rate that are kept beside the sample: 16 bytes each. A list of so many is longer than an operator
/// reads, and a flood of light keys drops none of them.
pub const USAGE_HEAVIEST: usize = 256;

/// Bytes of the samples of uses of all limits, with their heaviest keys: full ones of 151 tables. With more tables each sample has fewer
/// keys.
pub const USAGE_BYTES: u64 = 64 << 20;

/// Time after which a sample of uses begins anew; it is shown for as long again, so the uses of the last one to two days are shown.
pub const USAGE_GENERATION: Duration = Duration::from_secs(24 * 60 * 60);

/// Pause between two walks of one limit for its sample of uses: a quarter of its shortest window within these bounds. A page that shows
/// them is a minute old at most.
pub const USAGE_WALK_GAP: RangeInclusive<Duration> =
    Duration::from_secs(5)..=Duration::from_secs(60);

/// Durations of a walk for which the sampler of uses pauses after it: walks take less than a hundredth of one core.
pub const USAGE_WALK_PAUSE: u32 = 100;

/// Keys of a limit whose texts are kept for operators, of each kind: the heaviest, those that were rejected most, the banned ones. As many
/// as the heaviest keys.
pub const KEY_TEXTS: usize = USAGE_HEAVIEST;

/// Bytes of the text of such a key; the rest is cut.
pub const KEY_TEXT: usize = 256;

/// Bytes of the texts of all limits: full ones of 85 limits. With more limits each has fewer keys of each kind, four at least.
pub const KEY_TEXTS_BYTES: u64 = 32 << 20;

/// Largest use, in units, that `/limits/NAME/usage` shows exactly; larger ones are joined in steps of 3 %.
pub const USAGE_EXACT: u32 = 128;

/// Steps between one power of two and the next in which uses beyond [`USAGE_EXACT`] are joined.
pub const USAGE_STEPS: u32 = 32;

/// Keys that `/limits/NAME/top` shows at most; a request for more is rejected. Each is some 300 bytes of JSON.
pub const TOP_KEYS: usize = 1000;

/// Bytes of a file of overrides: a million rows have about 40 MB. A larger file is refused when the configuration is read.
pub const OVERRIDE_BYTES: usize = 256 * 1024 * 1024;

/// Rows of a file of overrides. Each takes about 50 bytes of memory. More are refused when the configuration is read.
pub const OVERRIDE_ROWS: usize = 2_000_000;

/// Distinct rates in a file of overrides: tiers are plans that people have names for. More are refused when the configuration is read.
pub const OVERRIDE_TIERS: usize = 64;

/// Wider prefixes of a limit, each a limit of its own on every route that asks it, of which a route has eight.
pub const PREFIX_LEVELS: usize = 4;

/// Requests of the process that leaky buckets delay at the same time. Each takes a connection and the state of its request;
/// queues bound them by key, this one in all. At the bound a request that would have to wait is answered with 503, and nothing
/// is charged.
pub const WAITERS: usize = 4096;

/// Delayed requests of one limit: half of all, so that a limit by which many wait leaves room for others. At the bound a request
/// is answered with 503, and nothing is charged.
pub const WAITERS_OF_LIMIT: usize = WAITERS / 2;

/// Delayed requests of one client, an address or an IPv6 /64: more than an office behind one address has, and it takes eight
/// such clients to use all. At the bound a request is answered with 503, and nothing is charged.
pub const WAITERS_OF_CLIENT: usize = WAITERS / 8;

/// Interval at which a delayed request, and one that waits for its server, checks whether its HTTP/1 client is still connected: soon enough
/// to free the place for another, and with the maximum of waiters it makes 16,000 checks a second, a system call each.
pub const WAITER_LOOKS: Duration = Duration::from_millis(250);

/// Keys whose charges wait to be told to the store, merged by key. Each takes some 300 bytes. At the bound further keys are counted by
/// this node alone, and `sluicegate_store_unsent_dropped_total` counts their charges.
pub const UNSENT_KEYS: usize = 65_536;

/// Calls that settle a charge in the store, under way in the background. A store that is away answers each within its timeout, so a
/// thousand requests a second have twenty. At the bound a charge stays as it was made, which errs towards refusing.
pub const STORE_SETTLEMENTS: usize = 4096;

/// Keys of strict limits of which a gateway remembers what the store said last, some 300 bytes each, to tell it again to a store that has
/// lost it. Further ones are not told again.
pub const STORE_REMEMBERED: usize = 65_536;

/// Keys of shared limits that operators changed at other gateways, and of which a gateway has had no request since, some 150 bytes each;
/// and as many that the store keeps for gateways to read. The oldest go first.
pub const STORE_CHANGES: usize = 1024;

/// Keys of limits with `store = "shared"` of which the store is yet to be told something.
///
/// 64 shards of 1,792, which fill a table of 2,048 places to seven eighths: with 85 bytes a key at most 11 MB. A sync empties it, so it
/// takes 450,000 new keys a second at the default `sync_interval` to fill it. At the bound a sync begins at once; charges of further keys
/// are counted by this node alone meanwhile, and that is counted.
pub const SYNC_KEYS: usize = 64 * 1792;

/// Interval at which the conditions of limits are judged: soon enough that an origin under load waits for no operator.
pub const LOAD_LOOK: Duration = Duration::from_millis(250);

/// Time that the figures of conditions cover which are about many requests: percentiles, errors, rejections. Shorter ones jump with single
/// requests, longer ones are late.
pub const LOAD_WINDOW: Duration = Duration::from_secs(10);

/// Time between two readings that are kept of each counter, so eleven readings cover [`LOAD_WINDOW`].
pub const LOAD_READING: Duration = Duration::from_secs(1);

/// Responses within [`LOAD_WINDOW`] below which percentiles and shares of errors are unknown: a few requests, perhaps of one client, say
/// nothing of the load.
pub const LOAD_SAMPLES: u64 = 20;
