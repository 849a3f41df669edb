//! A map of addresses that holds the latest insertions, as many as it may.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Values by address. An entry leaves when `most` others were inserted after it, so neither map nor order grows further.
#[derive(Clone, Debug)]
pub(super) struct LatestEntries<V> {
    entries: BTreeMap<IpAddr, (u64, V)>,
    /// The insertions, oldest first; one whose number is not that of the entry was replaced since.
    order: VecDeque<(u64, IpAddr)>,
    insertions: u64,
    most: usize,
}

impl<V> LatestEntries<V> {
    /// Returns an empty map of at most `most` entries.
    pub(super) fn new(most: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            order: VecDeque::new(),
            insertions: 0,
            most,
        }
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, address: IpAddr) -> Option<&V> {
        self.entries.get(&address).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, address: IpAddr) -> Option<&mut V> {
        self.entries.get_mut(&address).map(|(_, value)| value)
    }

    /// Returns the values of a block of addresses.
    pub(super) fn values_in(&self, block: RangeInclusive<IpAddr>) -> impl Iterator<Item = &V> {
        self.entries.range(block).map(|(_, (_, value))| value)
    }

    /// Inserts a value in place of that of the same address, and removes the oldest one where there are too many.
    pub(super) fn insert(&mut self, address: IpAddr, value: V) {
        self.insertions += 1;
        self.entries.insert(address, (self.insertions, value));
        self.order.push_back((self.insertions, address));
        while self.order.len() > self.most {
            let Some((number, oldest)) = self.order.pop_front() else {
                return;
            };
            if self
                .entries
                .get(&oldest)
                .is_some_and(|(of, _)| *of == number)
            {
                self.entries.remove(&oldest);
            }
        }
    }

    pub(super) fn remove(&mut self, address: IpAddr) {
        self.entries.remove(&address);
    }

    /// Keeps the entries whose values `is_kept` takes.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&V) -> bool) {
        self.entries.retain(|_, (_, value)| is_kept(value));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(number))
    }

    /// Goal: the map is bounded whatever is inserted, and forgets the oldest. Method: many addresses; then one of them over and over.
    #[test]
    fn the_latest_entries_stay() {
        let mut map = LatestEntries::new(4);
        for number in 0..100 {
            map.insert(address(number), number);
        }
        assert_eq!((map.len(), map.order.len()), (4, 4));
        assert_eq!(
            (map.get(address(95)), map.get(address(96))),
            (None, Some(&96))
        );
        for number in 0..100 {
            map.insert(address(99), number);
        }
        assert_eq!((map.len(), map.order.len()), (1, 4));
        assert_eq!(map.get(address(99)), Some(&99));
    }
}
