//! Repeats the schedules that once failed.

use super::plan::{Fault, OnFailure, Plan, PlannedFault};
use super::run::run;
use super::world::Recording;

fn plan(seed: u64, faults: &[PlannedFault]) -> Plan {
    Plan {
        seed,
        gateways: 2,
        clients: 1,
        count: 23,
        on_failure: OnFailure::Local,
        sync_interval: 50,
        latency: [500, 4_000],
        clocks_differ: false,
        pause: 30,
        faults: faults.to_vec(),
    }
}

/// Goal: what a gateway remembers of a store that lost its keys is not replaced by what it adds to the empty one. Method: the store is
/// emptied between two heartbeats, so that charges are pushed, and settled, before a gateway knows of it.
#[test]
fn a_push_to_an_emptied_store_spoils_nothing_that_is_restored() {
    for seed in 0..24 {
        let at = 12_000 + seed * 713;
        let flush = PlannedFault {
            fault: Fault::Flush,
            begins: at,
            ends: at,
        };
        let result = run(&plan(seed, &[flush]), &[], Recording::Hash);
        assert!(
            result.violations.is_empty(),
            "seed {seed}: {:?}",
            result.violations
        );
    }
}
