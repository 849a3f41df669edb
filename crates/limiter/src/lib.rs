//! A keyed rate limiter: whether a request may pass, how much is left, and when to retry.
//!
//! A [`Limit`] has a [`Policy`], which is an [`Algorithm`] with one to four [`Rates`], and the counters of all its keys in a table whose
//! memory is fixed when it is made. [`decide`](fn@decide) charges one request against up to eight limits, all of them or none, and
//! returns a [`Verdict`]; [`reserve`] does so for a cost that is known later. The crate has no I/O, no clock and no thread: time is an
//! argument and keys are keyed hashes, so a test needs no waiting.
//!
//! [`Permits`] bound the requests of a key that are in flight, and [`Bans`] refuse a key for longer than the rate does, and for longer with
//! each repeat. Both keep one word for each key in the same kind of table.
//!
//! # Example
//! ```
//! use sluicegate_limiter::{
//!     Ask, Capacity, Cost, Limit, Outcome, Period, Rate, Rates, Seed, Timestamp, decide,
//! };
//!
//! // At most 2 per 10 s, for up to a thousand clients at the same time.
//! let rates = Rates::new([Rate::new(2, Period::from_secs(10)?)?])?;
//! let limit = Limit::new(rates, Capacity::new(1000)?);
//!
//! // The seed is a secret: take it from the operating system's random source.
//! let key = Seed::from_bytes([7; 16]).hasher().part(b"192.0.2.1").finish();
//! let ask = Ask { limit: &limit, key, cost: Cost::ONE, payer: None };
//!
//! let now = Timestamp::from_secs(1_800_000_000);
//! assert_eq!(decide(&[ask], now).outcome(), Outcome::Admitted);
//! assert_eq!(decide(&[ask], now).outcome(), Outcome::Admitted);
//!
//! let refused = decide(&[ask], now);
//! assert_eq!(refused.outcome(), Outcome::Refused { ask: 0, rate: 0 });
//!
//! // The wait is exact: the window ends in 10 s, and after the first millisecond of the next one less than 2 of its requests count.
//! let wait = refused.retry_after().expect("it was refused");
//! assert_eq!(wait.as_millis(), 10_001);
//! assert_eq!(decide(&[ask], now.saturating_add(wait)).outcome(), Outcome::Admitted);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layers
//! A module imports only modules to its left in its own row, and modules of the rows above:
//!
//! | layer | modules |
//! |---|---|
//! | plain values | `rate`, `cost`, `capacity`, `time`, `key`, `status` (the state of a rate), `terms`, `remote_state` |
//! | algorithms | `algorithm`: pure functions over one word a rate, each with its guarantee and its error |
//! | memory | `sync`, `prefetch`, `region` (heap, mapping or file), `share` (slots by payer) |
//! | tables | `table` (words), then `exact` (logs): the invariants that make them safe without a lock |
//! | decisions | `decision`, then `limit` (the handle and its edits), `ask`, `reservation`, `decide` (all or nothing) |
//! | beside limits | `permits`, `bans`, `remote` (decisions by a store's answer) |
#![cfg_attr(not(feature = "mmap"), forbid(unsafe_code))]
#![cfg_attr(feature = "mmap", deny(unsafe_code))]

#[cfg(all(feature = "mmap", not(unix)))]
compile_error!("feature `mmap` locks and maps files as Unix does");
#[cfg(all(feature = "mmap", loom))]
compile_error!("loom's atomics cannot lie in a mapping: explore without feature `mmap`");

mod algorithm;
mod ask;
mod bans;
mod capacity;
mod cost;
mod decide;
mod decision;
#[doc(hidden)]
pub mod exact;
mod key;
mod limit;
mod permits;
mod prefetch;
mod rate;
mod region;
mod remote;
mod remote_state;
mod reservation;
mod share;
mod status;
mod sync;
mod table;
mod terms;
mod time;

pub use algorithm::{
    Algorithm, Alignment, CalendarUnit, CalendarZone, Policy, PolicyError, Refill, ZoneError,
};
pub use ask::Ask;
pub use bans::{
    ActiveBan, BanError, BanFactor, BanRules, BanStats, BannedKey, BannedKeys, Bans, StrikeOutcome,
};
pub use capacity::{Capacity, CapacityError};
pub use cost::Cost;
pub use decide::{charge_unchecked, decide, peek, reserve};
pub use decision::{Decision, LateCharges, MAX_ASKS, Outcome, Verdict};
pub use key::{KeyHash, KeyHasher, Seed};
#[cfg(feature = "mmap")]
pub use limit::TableId;
pub use limit::{ActiveKeys, KeyUsage, Limit};
pub use permits::{
    Concurrency, ConcurrencyError, ConcurrencyExceeded, InFlight, Permit, PermitHolder, Permits,
};
pub use rate::{MAX_COUNT, MAX_PERIOD, MAX_RATES, Period, Rate, RateError, Rates, RatesError};
pub use region::{ALIGNMENT, Region};
#[cfg(feature = "mmap")]
pub use region::{
    AnonymousFiles, BootId, BootTime, Clock, ClockDrift, ClockMark, ClockReading, FileDraft,
    FileIdentity, LayoutId, OpenOutcome, RemovedFiles, StateDir, StateError, StateLocation,
    UNUSED_FILE_RETENTION, UntrustedFile, WallClock,
};
pub use remote_state::{LogEntry, RateState, RemoteOutcome, RemoteState};
pub use reservation::{Reservation, Settle, Settlement};
pub use share::Payer;
pub use status::{KeyPlacement, NEVER, RateStatus, RateStatuses};
#[cfg(any(loom, test))]
pub use sync::exhaust_backoff;
pub use table::{KeyAges, KeyPeak, Occupancy, OverflowPeriod, TableStats};
pub use terms::{CalendarWindow, DrainTime, PolicyTerms, RateTerms, WindowStart};
pub use time::Timestamp;

/// The README's example, which is tested with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
