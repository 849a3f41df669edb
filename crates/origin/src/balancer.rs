//! Decides which of several servers gets the next request, by the balance of their origin.
//!
//! A choice neither allocates nor waits: it reads the servers' states and adds one to a counter. The counter is the only thing that
//! requests share, and also the source of pseudo-random numbers: a mixing function turns each count into a number that is as good as a
//! random one for spreading, so tests can predict it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_limiter::Timestamp;

use super::client_counts::ClientTag;
use super::server::OriginServer;
use super::server_state::ShareMille;
use sluicegate_config::rules::{Balance, OriginAddress};

/// A group of servers to choose from: the primaries of an origin, or its backups.
#[derive(Debug, Default)]
pub(super) struct ServerTier {
    servers: Box<[Arc<OriginServer>]>,
    /// Indexes of servers, each as often as its weight says and as evenly spread as can be: one cycle of turns.
    cycle: Box<[u16]>,
}

/// The context of a choice.
#[derive(Clone, Copy)]
pub(super) struct PickContext<'a> {
    pub(super) balance: &'a Balance,
    pub(super) now: Timestamp,
    /// Servers that failed this request already.
    pub(super) failed: &'a [OriginAddress],
    /// The client of the request.
    pub(super) client: ClientTag,
    /// The value of the request's `hash_key`, hashed.
    pub(super) spread: Option<u64>,
    pub(super) turn: &'a AtomicU64,
}

impl ServerTier {
    /// A tier of these servers.
    pub(super) fn new(servers: Vec<Arc<OriginServer>>) -> Self {
        let weights: Vec<u16> = servers.iter().map(|server| server.weight.0.get()).collect();
        Self {
            servers: servers.into(),
            cycle: cycle(&weights),
        }
    }

    pub(super) fn servers(&self) -> &[Arc<OriginServer>] {
        &self.servers
    }

    /// Chooses a server that is in service, has room and has not failed the request; `None` where there is none.
    pub(super) fn choose(&self, terms: &PickContext<'_>) -> Option<&Arc<OriginServer>> {
        match (&terms.balance, terms.spread) {
            (Balance::RoundRobin, _) | (Balance::Hash(_), None) => self.in_turn(terms),
            (Balance::LeastRequests, _) => self.least_loaded(terms),
            (Balance::PowerOfTwo, _) => self.better_of_two(terms),
            (Balance::Hash(_), Some(spread)) => self.by_hash(terms, spread),
        }
    }

    /// Returns the next server of the cycle. A server out of service uses up its turn, so that the shares of the others stay
    /// equal.
    fn in_turn(&self, terms: &PickContext<'_>) -> Option<&Arc<OriginServer>> {
        let most = 2 * self.servers.len();
        for _ in 0..most {
            let turn = terms.take_turn();
            let server = self.at(self.cycle_at(turn)?)?;
            // A server in slow start gives up some of its turns.
            if terms.takes(server) && mix(turn) % 1000 < u64::from(terms.share(server).0) {
                return Some(server);
            }
        }
        // Few servers are usable, or their weights are small: take the next one, whatever its share.
        self.any_from(terms.take_turn(), terms)
    }

    /// Returns the server with the fewest requests in flight for its weight; of several the next.
    fn least_loaded(&self, terms: &PickContext<'_>) -> Option<&Arc<OriginServer>> {
        let first = terms.take_turn();
        let count = self.servers.len();
        (0..count)
            .filter_map(|step| self.at(index(first, count)?.wrapping_add(step) % count))
            .filter(|server| terms.takes(server))
            .reduce(|best, server| {
                if terms.is_less_loaded(server, best) {
                    server
                } else {
                    best
                }
            })
    }

    /// Picks two servers at random and returns the less loaded one.
    fn better_of_two(&self, terms: &PickContext<'_>) -> Option<&Arc<OriginServer>> {
        let chance = mix(terms.take_turn());
        let one = self.any_from(chance & u64::from(u32::MAX), terms)?;
        let other = self.any_from(chance >> 32, terms)?;
        Some(if terms.is_less_loaded(other, one) {
            other
        } else {
            one
        })
    }

    /// Returns the server with the highest bid: each server bids for each value, and a server that is added or removed changes
    /// only its own bids (rendezvous hashing; with weights as in Schindelhauer and Schomaker, "Weighted Distributed Hash
    /// Tables", 2005).
    fn by_hash(&self, terms: &PickContext<'_>, spread: u64) -> Option<&Arc<OriginServer>> {
        let bid = |server: &OriginServer| {
            let chance = (mix(spread ^ server.point) >> 11) as f64 / (1u64 << 53) as f64;
            let weight = terms.weight(server) as f64;
            // `chance` is below 1, so its logarithm is below 0, and -∞ where `chance` is 0, which makes a bid of 0.
            weight / -chance.ln()
        };
        self.servers
            .iter()
            .filter(|server| terms.takes(server))
            .map(|server| (bid(server), server))
            .reduce(|best, next| if next.0 > best.0 { next } else { best })
            .map(|(_, server)| server)
    }

    /// Returns the first server in service, from the index of `number` on.
    fn any_from(&self, number: u64, terms: &PickContext<'_>) -> Option<&Arc<OriginServer>> {
        let count = self.servers.len();
        // A few other indexes first: otherwise the server after one out of service would get that one's share too.
        for attempt in 0..4 {
            let server = self.at(index(number_of(number, attempt), count)?)?;
            if terms.takes(server) {
                return Some(server);
            }
        }
        (0..count)
            .filter_map(|step| self.at(index(number, count)?.wrapping_add(step) % count))
            .find(|server| terms.takes(server))
    }

    fn cycle_at(&self, turn: u64) -> Option<usize> {
        let at = index(turn, self.cycle.len())?;
        self.cycle.get(at).map(|at| usize::from(*at))
    }

    fn at(&self, index: usize) -> Option<&Arc<OriginServer>> {
        self.servers.get(index)
    }
}

impl PickContext<'_> {
    fn take_turn(&self) -> u64 {
        // Relaxed: the counter only spreads requests and publishes nothing.
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn takes(&self, server: &OriginServer) -> bool {
        server.is_usable(self.now)
            && server.has_room(self.client)
            && !self.failed.contains(&server.address)
    }

    fn share(&self, server: &OriginServer) -> ShareMille {
        server.share(self.now)
    }

    /// Returns thousandths of weight.
    fn weight(&self, server: &OriginServer) -> u64 {
        u64::from(server.weight.0.get()) * u64::from(self.share(server).0)
    }

    /// Returns whether one more request loads `one` less than `other`.
    fn is_less_loaded(&self, one: &OriginServer, other: &OriginServer) -> bool {
        let load = |server: &OriginServer| u64::from(server.server_state.in_flight()) + 1;
        // Compares two fractions, multiplied out. Below 2^32 × 2^18.
        load(one) * self.weight(other) < load(other) * self.weight(one)
    }
}

/// Maps a number to one of `count` indexes; `None` where there is none.
fn index(number: u64, count: usize) -> Option<usize> {
    let place = number.checked_rem(count as u64)?;
    usize::try_from(place).ok()
}

/// Returns the number of a further attempt; that of the first is `number` itself.
fn number_of(number: u64, attempt: u64) -> u64 {
    if attempt == 0 {
        number
    } else {
        mix(number.wrapping_add(attempt << 32))
    }
}

/// Mixes a number into a pseudo-random one: the output function of SplitMix64 (Steele, Lea and Flood, 2014).
pub(super) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns one cycle of smooth weighted round-robin: at each step every server gains its weight, and the one with the most pays
/// the sum and is next. It is nginx's rule, computed in advance; weights are divided by their greatest common divisor, so equal
/// servers make a short cycle.
fn cycle(weights: &[u16]) -> Box<[u16]> {
    let divisor = weights.iter().copied().fold(0, greatest_common_divisor);
    let steps: Vec<i64> = weights
        .iter()
        .map(|weight| i64::from(weight / divisor.max(1)))
        .collect();
    let sum: i64 = steps.iter().sum();
    let mut wealth = vec![0i64; steps.len()];
    (0..sum)
        .filter_map(|_| {
            for (wealth, step) in wealth.iter_mut().zip(&steps) {
                *wealth += step;
            }
            // The first of equals: `max_by_key` would take the last.
            let (richest, most) = wealth
                .iter_mut()
                .enumerate()
                .reduce(|best, next| if *next.1 > *best.1 { next } else { best })?;
            *most -= sum;
            u16::try_from(richest).ok()
        })
        .collect()
}

fn greatest_common_divisor(a: u16, b: u16) -> u16 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
#[path = "balancer_tests.rs"]
mod tests;
