//! Lists the columns of each pane, with the width of the screen from which each is shown.

use ratatui::layout::Constraint::{self, Fill, Length};

use super::key_view::{NearKey, written_values};
use super::numbers::{per_second, short};
use super::view::{LimitRow, ServerRow};

/// A column.
pub(super) struct PaneColumn<T> {
    pub(super) title: &'static str,
    pub(super) width: Constraint,
    /// The least width of a screen that shows it.
    pub(super) least: u16,
    pub(super) text: fn(&T) -> String,
}

impl<T> PaneColumn<T> {
    const fn new(
        title: &'static str,
        width: Constraint,
        least: u16,
        text: fn(&T) -> String,
    ) -> Self {
        Self {
            title,
            width,
            least,
            text,
        }
    }
}

/// The columns of limits.
pub(super) const LIMITS: [PaneColumn<LimitRow>; 8] = [
    PaneColumn::new("limit", Fill(1), 0, |limit| limit.name.clone()),
    PaneColumn::new("action", Length(6), 70, |limit| limit.action.clone()),
    PaneColumn::new("admit/s", Length(7), 0, |limit| per_second(limit.admitted)),
    PaneColumn::new("rejct/s", Length(7), 0, |limit| per_second(limit.rejected)),
    PaneColumn::new("shadw/s", Length(7), 44, |limit| {
        per_second(limit.shadow_rejected)
    }),
    PaneColumn::new("ovflw/s", Length(7), 60, |limit| per_second(limit.overflow)),
    PaneColumn::new("keys", Length(6), 52, |limit| short(limit.keys as f64)),
    PaneColumn::new("rates", Fill(2), 76, rates),
];

/// The columns of keys.
pub(super) const KEYS: [PaneColumn<NearKey>; 4] = [
    PaneColumn::new("key", Length(16), 0, |key| key.key.clone()),
    PaneColumn::new("used", Length(6), 0, used),
    PaneColumn::new("next", Length(6), 36, decision),
    PaneColumn::new("remaining, all free in", Fill(1), 50, remaining),
];

/// The columns of keys whose values are shown.
pub(super) const KEYS_WITH_VALUES: [PaneColumn<NearKey>; 5] = [
    PaneColumn::new("who", Fill(2), 0, |key| {
        let values = written_values(key.key_values.as_deref());
        values.unwrap_or_else(|| "unknown until its next request".to_owned())
    }),
    PaneColumn::new("key", Length(16), 76, |key| key.key.clone()),
    PaneColumn::new("used", Length(6), 0, used),
    PaneColumn::new("next", Length(6), 36, decision),
    PaneColumn::new("remaining, all free in", Fill(3), 60, remaining),
];

/// The columns of servers.
pub(super) const SERVERS: [PaneColumn<ServerRow>; 8] = [
    PaneColumn::new("origin", Fill(1), 0, |server| server.origin.clone()),
    PaneColumn::new("server", Fill(2), 0, |server| server.address.clone()),
    PaneColumn::new("state", Length(10), 0, |server| server.state.clone()),
    PaneColumn::new("in fl.", Length(6), 50, |server| {
        server.in_flight.to_string()
    }),
    PaneColumn::new("limit", Length(9), 100, concurrency),
    PaneColumn::new("tries/s", Length(7), 60, |server| {
        per_second(server.attempts)
    }),
    PaneColumn::new("err/s", Length(7), 44, |server| per_second(server.errors)),
    PaneColumn::new("last error", Fill(2), 76, last_error),
];

/// Returns the rates in force, with the factor of a temporary rule in front of them: a narrow column cuts the end.
fn rates(limit: &LimitRow) -> String {
    let scaled = limit.scaled.as_ref();
    let factor = scaled.map(|scaled| format!("temporary ×{}: ", scaled.factor));
    factor.unwrap_or_default() + &limit.rates.join(", ")
}

fn used(key: &NearKey) -> String {
    let at_most = if key.shared { "≤" } else { "" };
    format!("{at_most}{:.0} %", key.used * 100.0)
}

fn decision(key: &NearKey) -> String {
    match &*key.next {
        "admitted" => "admit",
        "exempt" => "exempt",
        "marked" => "mark",
        "shadow-rejected" => "shadow",
        "challenged" => "page",
        "banned" => "banned",
        "blocked" => "block",
        _ => "reject",
    }
    .to_owned()
}

fn remaining(key: &NearKey) -> String {
    let rates = key.rates.iter();
    let rates =
        rates.map(|rate| format!("{} of {} in {:.0} s", rate.remaining, rate.rate, rate.reset));
    let ban = key.ban.iter();
    let ban = ban.map(|ban| format!("banned for {:.0} s", ban.left));
    ban.chain(rates).collect::<Vec<_>>().join(", ")
}

/// Writes the requests that wait for a server beside its adaptive limit.
fn concurrency(server: &ServerRow) -> String {
    let limit = server.limit.as_ref();
    limit.map_or_else(String::new, |limit| {
        format!("{}/{}", limit.waiting, limit.requests)
    })
}

fn last_error(server: &ServerRow) -> String {
    let error = server.last_error.as_ref();
    error.map_or_else(String::new, |error| {
        format!("{}: {}", error.failure, error.reason)
    })
}
