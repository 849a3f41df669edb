//! The vectors through the script; the local core passes the same (`crates/limiter/tests/vectors`).

#[path = "../../../crates/limiter/tests/vectors/reading.rs"]
mod reading;

use sluicegate_decide::store::{KeyName, StoreAsk};

use super::server::Server;

/// Goal: the same algorithms locally and in the store. Method: the local core's vectors, every ask's answer against its line.
#[test]
fn the_script_agrees_with_the_vectors() {
    let mut server = Server::start();
    let mut wrong = String::new();
    for section in reading::sections() {
        let name = KeyName::new("test", reading::KEY, &section.line.to_string());
        for step in section.steps {
            let ask = StoreAsk {
                policy: &section.policy,
                name: &name,
                cost: step.cost,
            };
            let decided = server.decide_at(&[ask], step.now);
            let says = reading::said(&decided.results[0].decision);
            if says != step.says {
                wrong += &format!("line {}: says {says:?}, not {:?}\n", step.line, step.says);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
