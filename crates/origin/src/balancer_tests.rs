//! Tests the balances alone: shares, order, and servers that are never chosen.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::pool::tests::{address, choose_many, pool, port_of};

fn weighted(weights: &[u16]) -> String {
    let servers = weights.iter().enumerate();
    let servers: Vec<String> = servers
        .map(|(index, weight)| {
            format!(
                "{{ address = \"127.0.0.1:{}\", weight = {weight} }}",
                index + 1
            )
        })
        .collect();
    format!("servers = [{}]", servers.join(", "))
}

fn tier(weights: &[u16]) -> ServerTier {
    ServerTier::new(pool(&weighted(weights)).servers())
}

fn terms<'a>(balance: &'a Balance, turn: &'a AtomicU64, spread: Option<u64>) -> PickContext<'a> {
    PickContext {
        balance,
        now: Timestamp::from_secs(1_800_000_000),
        failed: &[],
        client: ClientTag::default(),
        spread,
        turn,
    }
}

static BY_HASH: Balance = Balance::Hash(sluicegate_config::rules::KeyTemplate(Vec::new()));

/// Goal: the order is nginx's, which spreads a heavy server over the cycle. Method: its own example.
#[test]
fn a_cycle_is_smooth() {
    assert_eq!(*cycle(&[5, 1, 1]), [0, 0, 1, 0, 2, 0, 0]);
    assert_eq!(*cycle(&[2, 2, 4]), [2, 0, 1, 2]);
    assert_eq!(*cycle(&[7]), [0]);
    assert!(cycle(&[]).is_empty());
}

proptest! {
    /// Goal: over a cycle each server has exactly its share, and never more than one turn too many on the way. Method: any weights.
    #[test]
    fn every_cycle_keeps_the_shares(weights in prop::collection::vec(1u16..=256, 1..12)) {
        let order = cycle(&weights);
        let sum: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
        let cycles = sum / order.len();
        for (index, weight) in weights.iter().enumerate() {
            let turns = order.iter().filter(|turn| usize::from(**turn) == index).count();
            prop_assert_eq!(turns * cycles, usize::from(*weight));
        }
    }

    /// Goal: a new server takes only values that become its own, and about its share of them. Method: values before and after,
    /// with one server more.
    #[test]
    fn a_hash_moves_no_value_between_servers_that_stay(count in 1usize..12, seed in any::<u64>()) {
        let (before, after) = (tier(&vec![1; count]), tier(&vec![1; count + 1]));
        let turn = AtomicU64::new(0);
        let added = address(u16::try_from(count + 1).expect("a port"));
        let mut moved = 0;
        for value in 0..1000u64 {
            let terms = terms(&BY_HASH, &turn, Some(mix(seed.wrapping_add(value))));
            let old = &before.choose(&terms).expect("a server").address;
            let new = &after.choose(&terms).expect("a server").address;
            if new != old {
                prop_assert_eq!(new, &added);
                moved += 1;
            }
        }
        let share = 1000 / (count + 1);
        // Six standard deviations of a binomial distribution are below 96: four would be exceeded once in a hundred runs of this test.
        prop_assert!(moved < share + 96 && moved + 96 > share, "{moved} of 1000, not {share}");
    }

    /// Goal: no balance chooses a drained server, and each finds one that is not drained. Method: any servers drained but one.
    #[test]
    fn a_drained_server_is_never_chosen(
        drained in prop::collection::vec(any::<bool>(), 1..10),
        spared in any::<prop::sample::Index>(),
        first in any::<u64>(),
    ) {
        let tier = tier(&vec![1; drained.len()]);
        let spared = spared.index(drained.len());
        for (index, (server, drains)) in tier.servers().iter().zip(&drained).enumerate() {
            if *drains && index != spared {
                server.server_state.drain();
            }
        }
        let turn = AtomicU64::new(first);
        for balance in [Balance::RoundRobin, Balance::LeastRequests, Balance::PowerOfTwo, BY_HASH.clone()] {
            for value in 0..20 {
                let chosen = tier.choose(&terms(&balance, &turn, Some(mix(value))));
                prop_assert!(chosen.is_some_and(|server| !server.server_state.is_draining()), "{balance:?}");
            }
        }
    }
}

/// Goal: shares stay right when a server is out of service. Method: three equal servers, one of them drained: the others get
/// half each.
#[test]
fn the_turns_of_an_absent_server_are_shared() {
    let pool = pool(&weighted(&[1, 1, 1]));
    pool.servers()[1].server_state.drain();
    assert_eq!(choose_many(&pool, 100), [(1, 50), (3, 50)].into());
}

/// Goal: the least loaded server for its weight is chosen. Method: servers with so many in flight.
#[test]
fn the_least_loaded_is_found() {
    let tier = tier(&[1, 1, 4]);
    let turn = AtomicU64::new(0);
    let load = |index: usize, count: usize| {
        (0..count).for_each(|_| assert!(tier.servers()[index].server_state.enter(u32::MAX)));
    };
    let chosen = || {
        let balance = Balance::LeastRequests;
        let server = tier
            .choose(&terms(&balance, &turn, None))
            .expect("a server");
        port_of(server)
    };
    assert_eq!(chosen(), 3);
    load(2, 4);
    // 5 in flight for a weight of 4 are more than 1 for 1.
    assert!([1, 2].contains(&chosen()));
    load(0, 1);
    assert_eq!(chosen(), 2);
    load(1, 1);
    assert_eq!(chosen(), 3);
}

/// Goal: of two servers the less loaded is chosen, so a server that hangs gets hardly anything. Method: ten servers, one with a
/// hundred in flight.
#[test]
fn power_of_two_avoids_a_busy_server() {
    let tier = tier(&[1; 10]);
    (0..100).for_each(|_| assert!(tier.servers()[0].server_state.enter(u32::MAX)));
    let turn = AtomicU64::new(0);
    let balance = Balance::PowerOfTwo;
    let mut counts = BTreeMap::new();
    for _ in 0..10_000 {
        let server = tier
            .choose(&terms(&balance, &turn, None))
            .expect("a server");
        *counts.entry(port_of(server)).or_insert(0) += 1;
    }
    // It is chosen only where chance picks it twice: 1 of 100.
    assert!(counts[&1] < 200, "{counts:?}");
    assert!(
        counts
            .values()
            .skip(1)
            .all(|count| (900..1300).contains(count)),
        "{counts:?}"
    );
}

/// Goal: values are spread by weight. Method: many values over servers of 1 and 3.
#[test]
fn a_hash_keeps_weights() {
    let tier = tier(&[1, 3]);
    let turn = AtomicU64::new(0);
    let heavy = (0..10_000u64)
        .filter(|value| {
            let chosen = tier.choose(&terms(&BY_HASH, &turn, Some(mix(*value))));
            chosen.is_some_and(|server| server.address == address(2))
        })
        .count();
    assert!((7_300..7_700).contains(&heavy), "{heavy}");
}
