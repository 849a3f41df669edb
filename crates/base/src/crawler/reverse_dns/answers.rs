//! Keeps the results of look-ups for a bounded time, and decides when a look-up is due.
//!
//! A confirmed address stays confirmed while DNS cannot be asked, for a bounded time. An answer of DNS is believed at once in both
//! directions.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::domain::HostDomain;
use super::fault::{NamesFault, ReverseDnsFault};
use super::latest::LatestEntries;
use crate::bounds::{
    CONFIRMED_ADDRESSES, CONFIRMED_LEAST, CONFIRMED_MOST, CONFIRMED_STALE, LOOK_UP_FAILED_FOR,
    UNCONFIRMED_ADDRESSES, UNCONFIRMED_LEAST, UNCONFIRMED_MOST,
};

/// The names of an address that have the address themselves, in lower case and without the root dot.
pub type ConfirmedNames = Arc<[Arc<str>]>;

/// The result of one look-up. Times to live are in seconds, as DNS gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookUpResult {
    /// These names have the address; one at least.
    Confirmed {
        /// The names.
        names: ConfirmedNames,
        /// The shortest time to live of the answers.
        ttl: u32,
    },
    /// No name in a domain of a crawler has the address.
    Unconfirmed {
        /// The reason.
        fault: NamesFault,
        /// The shortest time to live of the answers.
        ttl: u32,
    },
    /// DNS did not answer.
    Failed,
}

/// The results that are known, at most [`CONFIRMED_ADDRESSES`] and [`UNCONFIRMED_ADDRESSES`]. Addresses without a confirmed name push
/// each other out, and none with one. All times are seconds since 1970.
#[derive(Clone, Debug)]
pub(super) struct CachedAnswers {
    confirmed: LatestEntries<ConfirmedAnswer>,
    unconfirmed: LatestEntries<UnconfirmedAnswer>,
}

/// An answer about an address, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KnownAnswer {
    /// Its names, and whether a look-up is due.
    Confirmed(ConfirmedNames, AnswerAge),
    /// DNS does not confirm it.
    Unconfirmed(ReverseDnsFault),
    /// Nothing, or nothing any more.
    Unknown,
}

/// The age of an answer: within its time to live, or beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerAge {
    Fresh,
    Stale,
}

#[derive(Clone, Debug)]
struct ConfirmedAnswer {
    names: ConfirmedNames,
    fresh_until: u64,
    usable_until: u64,
}

#[derive(Clone, Copy, Debug)]
struct UnconfirmedAnswer {
    fault: ReverseDnsFault,
    until: u64,
}

impl Default for CachedAnswers {
    fn default() -> Self {
        Self {
            confirmed: LatestEntries::new(CONFIRMED_ADDRESSES),
            unconfirmed: LatestEntries::new(UNCONFIRMED_ADDRESSES),
        }
    }
}

impl CachedAnswers {
    /// Returns what is known of an address.
    pub(super) fn find(&self, address: IpAddr, now: u64) -> KnownAnswer {
        let confirmed = self.confirmed.get(address);
        if let Some(answer) = confirmed.filter(|answer| now < answer.usable_until) {
            let is_fresh = now < answer.fresh_until;
            let age = if is_fresh {
                AnswerAge::Fresh
            } else {
                AnswerAge::Stale
            };
            return KnownAnswer::Confirmed(Arc::clone(&answer.names), age);
        }
        match self.unconfirmed.get(address) {
            Some(answer) if now < answer.until => KnownAnswer::Unconfirmed(answer.fault),
            _ => KnownAnswer::Unknown,
        }
    }

    /// Returns whether an address of the same network (/24, /48) is confirmed.
    pub(super) fn has_confirmed_neighbor(&self, address: IpAddr, now: u64) -> bool {
        let mut neighbors = self.confirmed.values_in(network(address));
        neighbors.any(|answer| now < answer.usable_until)
    }

    /// Keeps a result.
    pub(super) fn put(&mut self, address: IpAddr, result: &LookUpResult, now: u64) {
        match result {
            LookUpResult::Confirmed { names, ttl } => {
                let ttl = u64::from(*ttl).clamp(CONFIRMED_LEAST, CONFIRMED_MOST);
                let answer = ConfirmedAnswer {
                    names: Arc::clone(names),
                    fresh_until: now.saturating_add(ttl),
                    usable_until: now.saturating_add(ttl + CONFIRMED_STALE),
                };
                self.unconfirmed.remove(address);
                self.confirmed.insert(address, answer);
            }
            LookUpResult::Unconfirmed { fault, ttl } => {
                let ttl = u64::from(*ttl).clamp(UNCONFIRMED_LEAST, UNCONFIRMED_MOST);
                self.confirmed.remove(address);
                let fault = ReverseDnsFault::Names(*fault);
                self.refuse(address, fault, now.saturating_add(ttl));
            }
            LookUpResult::Failed => {
                let again = now.saturating_add(LOOK_UP_FAILED_FOR);
                match self.confirmed.get_mut(address) {
                    Some(answer) if now < answer.usable_until => answer.fresh_until = again,
                    _ => self.refuse(address, ReverseDnsFault::Failed, again),
                }
            }
        }
    }

    fn refuse(&mut self, address: IpAddr, fault: ReverseDnsFault, until: u64) {
        let answer = UnconfirmedAnswer { fault, until };
        self.unconfirmed.insert(address, answer);
    }

    /// Returns the answers that hold for other domains too: a name that has its address is a fact, while an address without one may have
    /// it in a domain that was not asked for.
    pub(super) fn for_domains(&self, domains: &[HostDomain]) -> Self {
        let mut confirmed = self.confirmed.clone();
        confirmed.retain(|answer| {
            let mut names = answer.names.iter();
            names.any(|name| domains.iter().any(|domain| domain.contains(name)))
        });
        Self {
            confirmed,
            ..Self::default()
        }
    }

    /// Returns the number of confirmed addresses, and that of others.
    pub(super) fn lens(&self) -> (usize, usize) {
        (self.confirmed.len(), self.unconfirmed.len())
    }
}

/// Returns the addresses of the network of `address`.
fn network(address: IpAddr) -> RangeInclusive<IpAddr> {
    match address {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            let hosts = u32::MAX >> 24;
            let at = |bits| IpAddr::V4(Ipv4Addr::from_bits(bits));
            at(bits & !hosts)..=at(bits | hosts)
        }
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let hosts = u128::MAX >> 48;
            let at = |bits| IpAddr::V6(Ipv6Addr::from_bits(bits));
            at(bits & !hosts)..=at(bits | hosts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn confirmed(ttl: u32) -> LookUpResult {
        let names = Arc::from(["crawl.googlebot.com".into()]);
        LookUpResult::Confirmed { names, ttl }
    }

    fn unconfirmed(ttl: u32) -> LookUpResult {
        let fault = NamesFault::Mismatch;
        LookUpResult::Unconfirmed { fault, ttl }
    }

    fn age(answers: &CachedAnswers, now: u64) -> Option<AnswerAge> {
        match answers.find(address("192.0.2.1"), now) {
            KnownAnswer::Confirmed(_, age) => Some(age),
            KnownAnswer::Unconfirmed(_) | KnownAnswer::Unknown => None,
        }
    }

    /// Goal: who owns a zone chooses no time to live beyond the bounds. Method: the least and the greatest of both kinds.
    #[test]
    fn times_to_live_are_clamped() {
        for (ttl, holds) in [(0, CONFIRMED_LEAST), (u32::MAX, CONFIRMED_MOST)] {
            let mut answers = CachedAnswers::default();
            answers.put(address("192.0.2.1"), &confirmed(ttl), NOW);
            assert_eq!(age(&answers, NOW + holds - 1), Some(AnswerAge::Fresh));
            assert_eq!(age(&answers, NOW + holds), Some(AnswerAge::Stale));
            assert_eq!(age(&answers, NOW + holds + CONFIRMED_STALE), None);
        }
        for (ttl, holds) in [(0, UNCONFIRMED_LEAST), (u32::MAX, UNCONFIRMED_MOST)] {
            let mut answers = CachedAnswers::default();
            answers.put(address("192.0.2.1"), &unconfirmed(ttl), NOW);
            let find = |now| answers.find(address("192.0.2.1"), now);
            let mismatch = KnownAnswer::Unconfirmed(ReverseDnsFault::Names(NamesFault::Mismatch));
            assert_eq!(find(NOW + holds - 1), mismatch);
            assert_eq!(find(NOW + holds), KnownAnswer::Unknown);
        }
    }

    /// Goal: an outage of DNS takes a confirmation away only at its bound, and an answer at once. Method: failures of the refresh until the
    /// bound; then a fresh confirmation and an answer without one.
    #[test]
    fn a_failure_keeps_what_was_confirmed_for_a_bounded_time() {
        let mut answers = CachedAnswers::default();
        answers.put(address("192.0.2.1"), &confirmed(0), NOW);
        let end = NOW + CONFIRMED_LEAST + CONFIRMED_STALE;
        let mut now = NOW + CONFIRMED_LEAST;
        while now < end {
            assert_eq!(age(&answers, now), Some(AnswerAge::Stale));
            answers.put(address("192.0.2.1"), &LookUpResult::Failed, now);
            assert_eq!(age(&answers, now), Some(AnswerAge::Fresh), "{now}");
            now += LOOK_UP_FAILED_FOR;
        }
        assert_eq!(age(&answers, end), None);
        answers.put(address("192.0.2.1"), &LookUpResult::Failed, end);
        let failed = KnownAnswer::Unconfirmed(ReverseDnsFault::Failed);
        assert_eq!(answers.find(address("192.0.2.1"), end), failed);
        answers.put(address("192.0.2.1"), &confirmed(0), end);
        answers.put(address("192.0.2.1"), &unconfirmed(0), end + 1);
        assert_eq!(age(&answers, end + 1), None);
    }

    /// Goal: a crowd of addresses without names pushes no crawler out. Method: more of them than fit.
    #[test]
    fn confirmed_addresses_outlast_a_flood() {
        let mut answers = CachedAnswers::default();
        answers.put(address("192.0.2.1"), &confirmed(0), NOW);
        for number in 0..UNCONFIRMED_ADDRESSES as u32 + 10 {
            let other = IpAddr::V4(Ipv4Addr::from_bits(number));
            answers.put(other, &unconfirmed(0), NOW);
        }
        assert_eq!(age(&answers, NOW), Some(AnswerAge::Fresh));
        assert_eq!(answers.lens(), (1, UNCONFIRMED_ADDRESSES));
        assert_eq!(answers.find(address("0.0.0.9"), NOW), KnownAnswer::Unknown);
    }

    /// Goal: a network is as wide as where failures are counted. Method: neighbors at both ends, in both families.
    #[test]
    fn neighbors_share_a_network() {
        let mut answers = CachedAnswers::default();
        for confirmed_one in ["192.0.2.1", "2001:db8:1:2::3"] {
            answers.put(address(confirmed_one), &confirmed(0), NOW);
        }
        for (text, has) in [
            ("192.0.2.0", true),
            ("192.0.2.255", true),
            ("192.0.3.1", false),
            ("2001:db8:1::", true),
            ("2001:db8:1:ffff:ffff:ffff:ffff:ffff", true),
            ("2001:db8:2::", false),
        ] {
            let found = answers.has_confirmed_neighbor(address(text), NOW);
            assert_eq!(found, has, "{text}");
        }
    }
}
