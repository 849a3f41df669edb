//! Reads the figures that conditions of limits compare, and switches limits and tiers on and off by them.
//!
//! [`LoadMonitor`] keeps readings of counters for the last [`LOAD_WINDOW`](sluicegate_base::bounds::LOAD_WINDOW) and judges the conditions
//! at a time that is its argument: the gateway's task calls it by the clock, replay by the times of a log.
//!
//! # Limits
//! Only what conditions compare is read: of each limit eleven numbers. What no condition compares any more is forgotten at the next look.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluicegate_config::rules::Name;
use sluicegate_config::{LimitFigure, LoadFigure, OriginFigure};
use sluicegate_limiter::Timestamp;

use crate::activation::{ActivationChange, LoadActivation};
use crate::admission::{ActiveLimit, KeySeed};
use crate::reading_window::ReadingWindow;

/// A figure of one origin.
pub type FigureOfOrigin<'a> = (&'a Name, OriginFigure);

/// The sources of figures, at one moment.
pub struct LoadSources<'a> {
    /// Every limit in force.
    pub limits: &'a BTreeMap<Name, Arc<ActiveLimit>>,
    /// Returns the rejections of a limit so far.
    pub rejections: &'a dyn Fn(&Name) -> u64,
    /// Connections of clients.
    pub connections: u64,
    /// The secret of the limits' keys.
    pub seed: &'a KeySeed,
    /// The time.
    pub now: Timestamp,
}

/// The readings of the last seconds. It lives as long as the process: a reload changes which figures are compared, not what was counted.
#[derive(Debug, Default)]
pub struct LoadMonitor {
    rejections: BTreeMap<Name, ReadingWindow<u64>>,
}

/// The change of one limit or tier.
#[derive(Debug)]
pub struct ActivationEvent {
    /// The limit.
    pub limit: Name,
    /// The tier, where it is one of the limit's.
    pub tier: Option<Name>,
    /// The change.
    pub change: ActivationChange,
    /// The figures that it compares, with their values.
    pub figures: String,
}

impl LoadMonitor {
    /// Reads the figures that conditions compare, and takes a step of each activation. Returns the changes. `origins` returns the values of
    /// these figures, which are all that are compared of origins.
    pub fn look(
        &mut self,
        sources: &LoadSources<'_>,
        origins: impl FnOnce(&[FigureOfOrigin<'_>]) -> Vec<Option<u64>>,
    ) -> Vec<ActivationEvent> {
        let activations = || {
            (sources.limits.values()).flat_map(|limit| {
                limit
                    .activations()
                    .map(move |(tier, activation)| (&limit.name, tier, activation))
            })
        };
        let compared: BTreeSet<&LoadFigure> = activations()
            .flat_map(|(_, _, activation)| activation.rules.conditions())
            .flat_map(|condition| condition.figures())
            .collect();
        let values = self.values(&compared, sources, origins);
        let mut events = Vec::new();
        for (limit, tier, activation) in activations() {
            let value = |figure: &LoadFigure| values.get(figure).copied().flatten();
            if let Some(change) = activation.look(value, sources.now) {
                events.push(ActivationEvent {
                    limit: Arc::clone(limit),
                    tier: tier.cloned(),
                    change,
                    figures: shown(activation, value),
                });
            }
        }
        events
    }

    /// Returns the value of each figure, and forgets the readings of all others.
    fn values<'f>(
        &mut self,
        compared: &BTreeSet<&'f LoadFigure>,
        sources: &LoadSources<'_>,
        origins: impl FnOnce(&[FigureOfOrigin<'_>]) -> Vec<Option<u64>>,
    ) -> BTreeMap<&'f LoadFigure, Option<u64>> {
        self.rejections.retain(|name, _| {
            let figure = LoadFigure::Limit(Arc::clone(name), LimitFigure::Rejected);
            compared.contains(&figure)
        });
        let of_origins = compared.iter().filter_map(|figure| match figure {
            LoadFigure::Origin(name, figure) => Some((name, *figure)),
            _ => None,
        });
        let of_origins: Vec<FigureOfOrigin<'_>> = of_origins.collect();
        // Also where there are none, so that their readings are forgotten.
        let mut values = origins(&of_origins).into_iter();
        let figures = compared.iter().map(|figure| {
            let value = match figure {
                LoadFigure::Connections => Some(sources.connections),
                LoadFigure::Limit(name, LimitFigure::Used) => (sources.limits.get(name))
                    .map(|limit| limit.used_share(sources.seed, sources.now)),
                LoadFigure::Limit(name, LimitFigure::Rejected) => {
                    self.rejected_per_second(name, sources)
                }
                LoadFigure::Origin(..) => values.next().flatten(),
            };
            (*figure, value)
        });
        figures.collect()
    }

    /// Returns the rejections of a limit per second, rounded down; `None` at the first look.
    fn rejected_per_second(&mut self, name: &Name, sources: &LoadSources<'_>) -> Option<u64> {
        let reading = (sources.rejections)(name);
        let window = self.rejections.entry(Arc::clone(name)).or_default();
        let (began, earlier) = window.begin(&reading, sources.now);
        let millis = sources.now.saturating_since(began).as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        (reading.saturating_sub(earlier) * 1_000).checked_div(millis)
    }
}

/// Returns the figures of an activation with their values, for the log.
fn shown(activation: &LoadActivation, value: impl Fn(&LoadFigure) -> Option<u64>) -> String {
    let figures = activation
        .rules
        .conditions()
        .flat_map(|condition| condition.figures());
    let figures: BTreeSet<&LoadFigure> = figures.collect();
    let figures = figures.into_iter().map(|figure| match value(figure) {
        Some(value) => format!("{figure} is {}", figure.shown(value)),
        None => format!("{figure} is unknown"),
    });
    figures.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
