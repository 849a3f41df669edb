//! The vectors through the local core; the store passes the same (`tests/e2e/store/vectors.rs`).

mod reading;

use sluicegate_limiter::{Ask, Capacity, Limit, decide};

/// Goal: what each algorithm says, in numbers that a reader can follow. Method: each section on a new limit, every ask's answer
/// against its line.
#[test]
fn the_local_core_says_what_the_vectors_say() {
    let sections = reading::sections();
    assert!(sections.len() > 10, "the vectors are read");
    let mut wrong = String::new();
    for section in sections {
        assert!(
            !section.steps.is_empty(),
            "line {}: nothing is asked",
            section.line
        );
        let limit = Limit::new(section.policy, Capacity::new(16).expect("a capacity"));
        for step in section.steps {
            let ask = Ask {
                limit: &limit,
                key: reading::KEY,
                cost: step.cost,
                payer: None,
            };
            let verdict = decide(&[ask], step.now);
            let says = reading::said(&verdict.decisions()[0]);
            if says != step.says {
                wrong += &format!("line {}: says {says:?}, not {:?}\n", step.line, step.says);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
