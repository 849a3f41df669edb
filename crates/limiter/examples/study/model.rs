//! A table of buckets in slow motion: what other policies at the bound would do to whom.
//!
//! It has the buckets, slots and overflow words of the crate's table, no time and no threads: everything owes for ever.

use std::ops::Range;

use super::random::Random;

const SLOTS: usize = 7;
const BUCKETS: usize = 8_192;

/// What happens to a key that finds no vacant slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// It is added to the overflow words of both its buckets: what the crate does.
    Sums,
    /// The smaller of the two words grows by its cost, and the larger one at least to that ("conservative update").
    Raised,
    /// It takes the slot of the key that owes least; both words of that key then count at least what it owed.
    LightestEvicted,
}

/// What each key of a flood takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Units {
    Each(u32),
    /// Any number from 1 up to this.
    Up(u32),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u64,
    used: u32,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Model {
    policy: Policy,
    count: u32,
    buckets: Vec<Vec<Slot>>,
    overflow: Vec<u32>,
}

impl Model {
    pub(crate) fn new(policy: Policy, count: u32) -> Self {
        Self {
            policy,
            count,
            buckets: vec![Vec::new(); BUCKETS],
            overflow: vec![0; BUCKETS],
        }
    }

    /// Keys for which a table of this size is made: 0.6 a slot.
    pub(crate) fn capacity(&self) -> u64 {
        (BUCKETS * SLOTS * 6 / 10) as u64
    }

    /// Every key asks so often for one unit; how often that was refused.
    pub(crate) fn ask_each(&mut self, keys: Range<u64>, times: u32) -> u64 {
        let mut refused = 0;
        for key in keys {
            for _ in 0..times {
                refused += u64::from(!self.admits(key, 1));
            }
        }
        refused
    }

    /// Every key asks once.
    pub(crate) fn flood(&mut self, keys: Range<u64>, units: Units) {
        let mut random = Random::seeded(7);
        for key in keys {
            let units = match units {
                Units::Each(units) => units,
                Units::Up(most) => (random.unit() * f64::from(most)).ceil() as u32,
            };
            self.admits(key, units);
        }
    }

    fn homes(key: u64) -> [usize; 2] {
        [0, 1].map(|row| {
            let mut random = Random::seeded(2 * key + row);
            ((random.unit() * BUCKETS as f64) as usize).min(BUCKETS - 1)
        })
    }

    fn admits(&mut self, key: u64, units: u32) -> bool {
        let homes = Self::homes(key);
        for home in homes {
            if let Some(slot) = self.buckets[home].iter_mut().find(|slot| slot.key == key) {
                let fits = slot.used + units <= self.count;
                slot.used += if fits { units } else { 0 };
                return fits;
            }
        }
        let inherited = self.overflow[homes[0]].min(self.overflow[homes[1]]);
        if inherited + units > self.count {
            return false;
        }
        let used = inherited + units;
        let [first, second] = homes.map(|home| self.buckets[home].len());
        let emptier = if first <= second { homes[0] } else { homes[1] };
        if first.min(second) < SLOTS {
            self.buckets[emptier].push(Slot { key, used });
            return true;
        }
        match self.policy {
            Policy::Sums => homes
                .into_iter()
                .for_each(|home| self.overflow[home] += units),
            Policy::Raised => self.raise(homes, used),
            Policy::LightestEvicted => self.evict(homes, Slot { key, used }),
        }
        true
    }

    fn raise(&mut self, homes: [usize; 2], used: u32) {
        for home in homes {
            self.overflow[home] = self.overflow[home].max(used);
        }
    }

    fn evict(&mut self, homes: [usize; 2], newcomer: Slot) {
        let slots = homes.map(|home| {
            self.buckets[home]
                .iter()
                .map(move |slot| (slot.used, home, slot.key))
        });
        let lightest = slots.into_iter().flatten().min();
        if let Some((used, home, key)) = lightest {
            self.raise(Self::homes(key), used);
            if let Some(slot) = self.buckets[home].iter_mut().find(|slot| slot.key == key) {
                *slot = newcomer;
            }
        }
    }
}
