//! Repeats the schedules that once failed.

use super::plan::{Fault, OnFailure, Plan, PlannedFault};
use super::redis::ServerCondition;
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

/// Goal: the gateway that is back first does not decide by an emptied store before the others have restored it. Method: a store that is
/// away for a second comes back empty, so the number of gateways was last reported two seconds before they are all back (seeds 806, 1824).
#[test]
fn a_gateway_that_is_back_first_waits_for_the_others() {
    for seed in 0..24 {
        let begins = 12_000 + seed * 71;
        let restart = PlannedFault {
            fault: Fault::RestartEmpty,
            begins,
            ends: begins + 1_050,
        };
        let result = run(&plan(seed, &[restart]), &[], Recording::Hash);
        assert!(
            result.violations.is_empty(),
            "seed {seed}: {:?}",
            result.violations
        );
    }
}

/// Goal: an emptied store gets back what a gateway knows that has just returned. Method: a gateway that was away for so long that the
/// others forgot it returns, is heard by some of them, and is the last to come back when the store comes back empty (seed 201).
#[test]
fn a_gateway_that_has_just_returned_restores_before_others_go_on() {
    let fault = |fault, begins, ends| PlannedFault {
        fault,
        begins,
        ends,
    };
    let cut = |from_store| Fault::Partition {
        gateway: 3,
        to_store: true,
        from_store,
    };
    let faults = [
        fault(cut(true), 6_771, 12_007),
        fault(cut(false), 13_332, 16_297),
        fault(Fault::RestartEmpty, 13_418, 24_645),
        fault(Fault::Refusing(ServerCondition::Loading), 13_809, 20_764),
        fault(Fault::Reload { gateway: 2 }, 15_870, 15_870),
    ];
    let plan = Plan {
        gateways: 6,
        clients: 2,
        count: 17,
        pause: 15,
        ..plan(201, &faults)
    };
    let result = run(&plan, &[], Recording::Hash);
    assert_eq!(result.unrestored, 0, "{:?}", result.violations);
}
