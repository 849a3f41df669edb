//! Counts by name in each step, for a bounded number of names.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use sluicegate_base::bounds::HISTORY_STEPS;

use sluicegate_config::rules::Name;

/// The counts of the names with the most of them. A name without any within the hour has no series.
#[derive(Debug)]
pub(super) struct SeriesTable<const N: usize> {
    most: usize,
    series: BTreeMap<Name, CountSeries<N>>,
    /// Finished steps since a name was left out.
    steps_since_omission: usize,
}

/// The counts of one name, by step, the latest last.
#[derive(Debug)]
struct CountSeries<const N: usize> {
    closed: VecDeque<[u32; N]>,
    open: [u32; N],
    /// The sum of all.
    sum: u64,
}

/// The counts of some names in the same steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesView<const N: usize> {
    /// The counts by name, one for each step.
    pub rows: BTreeMap<Name, Vec<[u32; N]>>,
    /// Set where every name with counts is among them.
    pub is_complete: bool,
}

impl<const N: usize> SeriesTable<N> {
    /// Returns a table of at most `most` names.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            series: BTreeMap::new(),
            steps_since_omission: HISTORY_STEPS,
        }
    }

    /// Adds `growth` to the unfinished step of `name`.
    pub(super) fn add(&mut self, name: &Name, growth: [u64; N]) {
        if growth == [0; N] {
            return;
        }
        if !self.series.contains_key(name) && !self.make_room(&growth) {
            self.steps_since_omission = 0;
            return;
        }
        let series = self.series.entry(Arc::clone(name)).or_default();
        for (count, more) in series.open.iter_mut().zip(growth) {
            let before = *count;
            *count = before.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
            series.sum += u64::from(*count - before);
        }
    }

    /// Makes room for a name with `growth`. Returns false where every series has more.
    fn make_room(&mut self, growth: &[u64; N]) -> bool {
        let growth = growth.iter().copied().fold(0, u64::saturating_add);
        if self.series.len() < self.most {
            return true;
        }
        let least = self.series.iter().min_by_key(|(_, series)| series.sum);
        let Some(name) = least
            .filter(|(_, series)| series.sum < growth)
            .map(|(name, _)| Arc::clone(name))
        else {
            return false;
        };
        self.series.remove(&name);
        self.steps_since_omission = 0;
        true
    }

    /// Finishes the step of every name.
    pub(super) fn close_step(&mut self) {
        self.steps_since_omission = self.steps_since_omission.saturating_add(1);
        for series in self.series.values_mut() {
            series.close_step();
        }
        self.series.retain(|_, series| series.sum > 0);
    }

    /// Returns the counts of the last `closed` finished steps and of the unfinished one.
    pub(super) fn view(&self, closed: usize) -> SeriesView<N> {
        let rows = self.series.iter().map(|(name, series)| {
            // A series begins with its first count.
            let missing = closed.saturating_sub(series.closed.len());
            let known = series
                .closed
                .iter()
                .skip(series.closed.len().saturating_sub(closed));
            let counts = std::iter::repeat_n([0; N], missing).chain(known.copied());
            (Arc::clone(name), counts.chain([series.open]).collect())
        });
        SeriesView {
            rows: rows.collect(),
            is_complete: self.steps_since_omission >= HISTORY_STEPS,
        }
    }
}

impl<const N: usize> CountSeries<N> {
    fn close_step(&mut self) {
        self.closed.push_back(self.open);
        self.open = [0; N];
        if self.closed.len() > HISTORY_STEPS {
            let forgotten = self.closed.pop_front().unwrap_or([0; N]);
            self.sum -= forgotten.into_iter().map(u64::from).sum::<u64>();
        }
    }
}

impl<const N: usize> Default for CountSeries<N> {
    fn default() -> Self {
        Self {
            // Its final size: a queue that grows may be half empty.
            closed: VecDeque::with_capacity(HISTORY_STEPS + 1),
            open: [0; N],
            sum: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Arc::from(text)
    }

    /// Goal: memory is bounded, and the names with the most counts are those that are kept. Method: a table of two names that gets four,
    /// then an hour without counts.
    #[test]
    fn the_names_with_the_most_counts_are_kept() {
        let mut table = SeriesTable::<1>::new(2);
        table.add(&name("a"), [5]);
        table.add(&name("b"), [1]);
        assert!(table.view(0).is_complete);
        table.add(&name("c"), [3]);
        table.add(&name("d"), [2]);
        let view = table.view(0);
        let names: Vec<_> = view.rows.keys().map(|name| &**name).collect();
        assert_eq!((names, view.is_complete), (vec!["a", "c"], false));
        for _ in 0..HISTORY_STEPS {
            table.close_step();
        }
        assert_eq!(
            table.view(HISTORY_STEPS).rows[&name("a")].len(),
            HISTORY_STEPS + 1
        );
        table.close_step();
        let view = table.view(HISTORY_STEPS);
        assert!(view.rows.is_empty() && view.is_complete);
    }

    /// Goal: each count stands in its step. Method: a name that comes in the third step, beside one of the first, read whole and in part.
    #[test]
    fn counts_stand_in_their_steps() {
        let mut table = SeriesTable::<2>::new(2);
        table.add(&name("old"), [1, 0]);
        table.close_step();
        table.close_step();
        table.add(&name("new"), [2, u64::MAX]);
        table.close_step();
        let view = table.view(3);
        assert_eq!(view.rows[&name("old")], [[1, 0], [0, 0], [0, 0], [0, 0]]);
        assert_eq!(
            view.rows[&name("new")],
            [[0, 0], [0, 0], [2, u32::MAX], [0, 0]]
        );
        assert_eq!(table.view(1).rows[&name("new")], [[2, u32::MAX], [0, 0]]);
    }
}
