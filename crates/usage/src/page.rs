//! Owns the shape of `/limits/NAME/usage`, which the admin listener writes and the command line reads.

use serde::{Deserialize, Serialize};
use sluicegate_base::clock;
use sluicegate_decide::rfc3339;

use super::{RateUsage, UsageView};
use sluicegate_config::algorithm_name;
use sluicegate_decide::admission::{ActiveLimit, RateScaling, ScaledRates};

/// The caveat of every page.
const NOTE: &str = "a rejection charges nothing: keys at the limit may have wanted more than it; \
     where keys_at_limit of any rate is not 0, the uses under all rates may be too low";

/// The page: how many keys of a limit used how much of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsagePage {
    /// The limit.
    pub limit: String,
    /// The time of the latest sample.
    pub at: String,
    /// The time since which uses are recorded.
    pub since: String,
    /// Seconds between both.
    pub seconds: u64,
    /// The key, as one would write it in the configuration.
    pub key: String,
    /// The algorithm, as the configuration names it.
    pub algorithm: String,
    /// The action, as the configuration names it.
    pub action: String,
    /// Keys that are banned now; `None` where the limit bans no key.
    pub banned_keys: Option<u64>,
    /// The latest time in which new keys shared counters, where it reaches into the sample; `None` where none did.
    pub overflow: Option<SharedCounters>,
    /// The caveat of the numbers.
    pub note: String,
    /// Each rate in force.
    pub rates: Vec<RatePage>,
    /// The temporary rule that multiplied them; `None` where they are those of the configuration.
    pub scaled: Option<ScaledRates>,
    /// Each rate in shadow.
    pub shadow_rates: Vec<RatePage>,
}

/// A time in which new keys shared counters, since the table was full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedCounters {
    /// Set while it goes on.
    pub active: bool,
    /// Its begin.
    pub since: String,
    /// Its end, unless more keys come.
    pub until: String,
}

/// The keys by their largest use under one rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RatePage {
    /// The rate.
    pub rate: String,
    /// Units that a key may use at once.
    pub limit: u32,
    /// The period.
    pub window_seconds: u32,
    /// Keys: the heaviest, and the others extrapolated from the sample.
    pub keys: u64,
    /// The error of `keys`, which it exceeds once in twenty times.
    pub keys_error: u64,
    /// Set if lighter keys are extrapolated.
    pub sampled: bool,
    /// Keys that the gateway keeps: the heaviest, and those of the sample.
    pub sample_keys: u64,
    /// The use above which each key is counted by itself, whether `sampled` or not.
    pub complete_above: u32,
    /// Keys that used all of `limit`.
    pub keys_at_limit: u64,
    /// The error of `keys_at_limit`, as `keys_error`.
    pub keys_at_limit_error: u64,
    /// Keys that shared counters with others: what they used themselves is not known.
    pub shared_keys: u64,
    /// Units by which a key of a bucket may have used more than is shown.
    pub unseen: u32,
    /// Keys by their largest use, rising.
    pub peaks: Vec<PeakCount>,
}

/// The keys with one largest use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakCount {
    /// Units.
    pub used: u32,
    /// Keys; those of a use up to `complete_above` may be extrapolated.
    pub keys: u64,
}

impl UsagePage {
    /// Returns the page of a limit.
    #[must_use]
    pub fn new(active: &ActiveLimit, view: &UsageView) -> Self {
        let pages = |rates: &[RateUsage]| rates.iter().map(RatePage::new).collect();
        Self {
            limit: active.name.to_string(),
            at: rfc3339::format(view.walked_at),
            since: rfc3339::format(view.since),
            seconds: clock::between(view.since, view.walked_at).as_secs(),
            key: active.key.to_string(),
            algorithm: algorithm_name(active.limit.policy().algorithm()).to_owned(),
            action: active.action.name().to_owned(),
            banned_keys: view.banned_keys,
            overflow: view.overflow.map(|period| SharedCounters {
                active: view.walked_at < period.until,
                since: rfc3339::format(period.since),
                until: rfc3339::format(period.until),
            }),
            note: NOTE.to_owned(),
            rates: pages(&view.rates),
            scaled: active.scaling.as_ref().map(RateScaling::shown),
            shadow_rates: pages(&view.shadow_rates),
        }
    }
}

impl RatePage {
    fn new(usage: &RateUsage) -> Self {
        let peaks = usage.peaks.iter().map(|(used, keys)| PeakCount {
            used: *used,
            keys: *keys,
        });
        Self {
            rate: usage.rate.to_string(),
            limit: usage.limit,
            window_seconds: usage.rate.period().as_secs(),
            keys: usage.keys.keys,
            keys_error: usage.keys.error,
            sampled: usage.keys_for_each > 1,
            sample_keys: usage.kept_keys,
            complete_above: usage.complete_above,
            keys_at_limit: usage.at_limit.keys,
            keys_at_limit_error: usage.at_limit.error,
            shared_keys: usage.shared_keys,
            unseen: usage.unseen,
            peaks: peaks.collect(),
        }
    }
}
