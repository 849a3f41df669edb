//! Owns what the admin listener says of the keys of one limit: those nearest to it, and one of them in detail.

use serde::{Deserialize, Serialize};
use sluicegate_decide::temporary_rules::written_key;

use sluicegate_telemetry::terminal_text::printable;

/// The keys of a limit with the highest use, `/limits/NAME/top`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NearestKeys {
    /// The limit.
    pub limit: String,
    /// The reason for which no values of keys are shown; `None` where they are.
    pub key_values_hidden: Option<String>,
    /// Fullest first.
    pub top: Vec<NearKey>,
}

/// A key that is near its limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NearKey {
    /// Its hash.
    pub key: String,
    /// Its values; `None` where they are unknown or hidden.
    pub key_values: Option<Vec<String>>,
    /// The used share of its fullest rate.
    pub used: f64,
    /// Set if some of it may be the use of other keys.
    pub shared: bool,
    /// The answer of the limit to the next request, a word of `/limits/NAME/top`.
    pub next: String,
    /// Set if the next request would be rejected.
    pub refused: bool,
    /// The ban in force.
    pub ban: Option<KeyBanDetail>,
    /// Each rate.
    pub rates: Vec<NearRate>,
}

/// Returns the values of a key on one line; `None` for a key whose values are unknown or hidden.
pub(super) fn written_values(values: Option<&[String]>) -> Option<String> {
    match values? {
        [] => Some("all requests".to_owned()),
        values => Some(printable(&written_key(values)).into_owned()),
    }
}

/// A rate of such a key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NearRate {
    /// The rate.
    pub rate: String,
    /// Requests that still fit.
    pub remaining: u64,
    /// Seconds until everything is free.
    pub reset: f64,
}

/// One key, `/limits/NAME/keys/KEY`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KeyDetail {
    /// The limit.
    pub(super) limit: String,
    /// Its hash.
    pub(super) key: String,
    /// Its values; `None` where they are unknown or hidden.
    pub(super) key_values: Option<Vec<String>>,
    /// The answer of the limit to the next request.
    pub(super) next: String,
    /// Set if it shares counters, since the table is full.
    pub(super) in_overflow: bool,
    /// Each rate.
    pub(super) rates: Vec<KeyRateDetail>,
    /// The ban in force.
    pub(super) ban: Option<KeyBanDetail>,
    /// Bans in a row.
    pub(super) ban_level: u64,
    /// Requests in flight.
    pub(super) in_flight: Option<u64>,
}

/// A rate of one key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KeyRateDetail {
    /// The rate.
    pub(super) rate: String,
    /// Its count.
    pub(super) limit: u64,
    /// The used part.
    pub(super) used: u64,
    /// Seconds until more fits; `None` for never.
    pub(super) next: Option<f64>,
    /// Seconds until everything is free.
    pub(super) reset: Option<f64>,
}

/// A ban of one key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyBanDetail {
    /// Seconds until its end.
    pub left: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no value of a key turns a frame around. Method: a value with characters that act on a terminal or hide.
    #[test]
    fn values_of_a_key_act_on_no_terminal() {
        let values = ["a\u{202e}b\u{1b}[2J".to_owned(), "c\n".to_owned()];
        let shown = written_values(Some(&values));
        assert_eq!(shown.as_deref(), Some("a\\u202eb\\u001b[2J, c\\u000a"));
    }
}
