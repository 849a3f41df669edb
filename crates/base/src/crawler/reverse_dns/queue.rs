//! Bounds the look-ups that wait, and orders them.
//!
//! A network (/24, /48) has one look-up at a time, so nobody fills the queue from one network. Addresses beside a confirmed one come first:
//! a crawler that is known does not wait behind a crowd that claims to be it.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use crate::address::{AddressPrefix, PrefixBits, prefix};
use crate::bounds::LOOK_UPS_WAITING;

/// The order of look-ups: known addresses come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookUpPriority {
    /// The address is confirmed, or one beside it is.
    Known,
    /// Nothing is known of its network.
    Unknown,
}

/// The reason why an address does not get into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotQueued {
    /// It is in the queue, or its look-up is under way.
    Already,
    /// Another address of its network is.
    Network,
    /// The queue is full.
    Full,
}

/// The look-ups that wait, and the networks of all that did not end.
#[derive(Debug, Default)]
pub(super) struct LookUpQueue {
    known: VecDeque<IpAddr>,
    unknown: VecDeque<IpAddr>,
    /// The address of each network that waits or is looked up.
    busy: BTreeMap<AddressPrefix, IpAddr>,
}

impl LookUpQueue {
    /// Checks that an address may be queued.
    pub(super) fn check(&self, address: IpAddr, priority: LookUpPriority) -> Result<(), NotQueued> {
        let waiting = match priority {
            LookUpPriority::Known => &self.known,
            LookUpPriority::Unknown => &self.unknown,
        };
        match self.busy.get(&network(address)) {
            Some(busy) if *busy == address => Err(NotQueued::Already),
            Some(_) => Err(NotQueued::Network),
            None if waiting.len() >= LOOK_UPS_WAITING => Err(NotQueued::Full),
            None => Ok(()),
        }
    }

    /// Queues an address where [`Self::check`] allows it.
    pub(super) fn push(
        &mut self,
        address: IpAddr,
        priority: LookUpPriority,
    ) -> Result<(), NotQueued> {
        self.check(address, priority)?;
        self.busy.insert(network(address), address);
        match priority {
            LookUpPriority::Known => self.known.push_back(address),
            LookUpPriority::Unknown => self.unknown.push_back(address),
        }
        Ok(())
    }

    /// Takes the next address out. Its network stays busy until [`Self::release`].
    pub(super) fn pop(&mut self) -> Option<IpAddr> {
        self.known.pop_front().or_else(|| self.unknown.pop_front())
    }

    /// Returns the number of look-ups that wait: beside known crawlers, and elsewhere.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.known.len(), self.unknown.len())
    }

    /// Lets the network of an address have another look-up.
    pub(super) fn release(&mut self, address: IpAddr) {
        self.busy.remove(&network(address));
    }
}

fn network(address: IpAddr) -> AddressPrefix {
    prefix(address, PrefixBits { v4: 24, v6: 48 })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Goal: a network has one look-up at a time, until that ends. Method: the same address, a neighbor and another network, in both
    /// families, before and after the release.
    #[test]
    fn a_network_has_one_look_up_at_a_time() {
        for (first, neighbor, other) in [
            ("192.0.2.1", "192.0.2.2", "192.0.3.1"),
            ("2001:db8:1::1", "2001:db8:1:2::1", "2001:db8:2::1"),
        ] {
            let mut queue = LookUpQueue::default();
            let mut push = |text| queue.push(address(text), LookUpPriority::Unknown);
            assert_eq!(push(first), Ok(()));
            assert_eq!(push(first), Err(NotQueued::Already));
            assert_eq!(push(neighbor), Err(NotQueued::Network));
            assert_eq!(push(other), Ok(()));
            assert_eq!(queue.pop(), Some(address(first)));
            let check =
                |queue: &LookUpQueue| queue.check(address(neighbor), LookUpPriority::Unknown);
            assert_eq!(check(&queue), Err(NotQueued::Network));
            queue.release(address(first));
            assert_eq!(check(&queue), Ok(()));
        }
    }

    /// Goal: a crowd fills its queue and not that of known crawlers, whose look-ups come first. Method: networks beyond the bound, then a
    /// known address.
    #[test]
    fn known_crawlers_pass_a_crowd() {
        let mut queue = LookUpQueue::default();
        let of_crowd = |at: usize| IpAddr::V4(Ipv4Addr::from_bits((at as u32) << 8));
        for at in 0..LOOK_UPS_WAITING {
            assert_eq!(queue.push(of_crowd(at), LookUpPriority::Unknown), Ok(()));
        }
        let one_more = of_crowd(LOOK_UPS_WAITING);
        assert_eq!(
            queue.push(one_more, LookUpPriority::Unknown),
            Err(NotQueued::Full)
        );
        let known = address("192.0.2.1");
        assert_eq!(queue.push(known, LookUpPriority::Known), Ok(()));
        assert_eq!(queue.pop(), Some(known));
        assert_eq!(queue.pop(), Some(of_crowd(0)));
    }
}
