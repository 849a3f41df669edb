//! What the script leaves behind where the store refuses to write: nothing.

use sluicegate::store::script::{self, NodeId, PushNumber};
use sluicegate_decide::store::ChargeResult;
use sluicegate_limiter::{Algorithm, Policy};

use super::server::Server;
use super::{START, ask, name, policy};

/// A limit of words and one of logs.
fn both() -> [Policy; 2] {
    [Algorithm::SlidingWindow, Algorithm::Exact].map(|algorithm| policy(algorithm, &[(3, 10)]))
}

/// Each way to write is refused with these words, and what is read only is answered.
fn is_refused(server: &mut Server, words: &str) {
    let [sliding, exact] = both();
    let names = [name(1, "sliding"), name(1, "exact")];
    let asks = [ask(&sliding, &names[0], 1), ask(&exact, &names[1], 1)];
    let charges = [
        script::decide(&asks, START),
        script::push(&asks[0], NodeId(1), PushNumber(1), START),
        script::push(&asks[1], NodeId(1), PushNumber(1), START),
    ];
    for call in charges {
        let said = server.run_at(&call, START).unwrap_err();
        assert!(said.contains(words), "{said}");
    }
    let look = server.decided_at(&asks, &script::peek(&asks, START), START);
    assert_eq!(look.charge_result, ChargeResult::NotCharged);
    let left = look
        .results
        .iter()
        .map(|told| told.decision.statuses()[0].remaining);
    assert!(left.eq([2, 2]), "nothing was charged");
}

fn charged_once(server: &mut Server) {
    let [sliding, exact] = both();
    let names = [name(1, "sliding"), name(1, "exact")];
    let asks = [ask(&sliding, &names[0], 1), ask(&exact, &names[1], 1)];
    assert_eq!(
        server.decide_at(&asks, START).charge_result,
        ChargeResult::Charged
    );
}

/// Goal: a full store charges all or nothing. Method: no memory left, nothing may be evicted.
#[test]
fn a_full_store_charges_nothing() {
    let mut server = Server::start();
    charged_once(&mut server);
    server.say("CONFIG SET maxmemory 1").unwrap();
    is_refused(&mut server, "OOM");
    server.say("CONFIG SET maxmemory 0").unwrap();
    charged_once(&mut server);
}

/// Goal: a replica charges nothing, and answers a look. Method: the server becomes a replica of a server that does not exist.
#[test]
fn a_replica_charges_nothing() {
    let mut server = Server::start();
    charged_once(&mut server);
    server.say("REPLICAOF 127.0.0.1 1").unwrap();
    is_refused(&mut server, "READONLY");
    server.say("REPLICAOF NO ONE").unwrap();
    charged_once(&mut server);
}
