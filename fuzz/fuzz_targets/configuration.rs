//! Fuzzes the configuration: any text becomes rules, or errors with their places; and rules become a snapshot.
//!
//! The machine is not asked: names do not resolve and files hold what stands here, so that a text gives the same answer anywhere.
#![no_main]

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use sluicegate_config::{Environment, Loaded, Problems, Severity, parse_in};
use sluicegate_decide::admission::KeySeed;
use sluicegate_decide::route::review;
use sluicegate_decide::state::CounterStorage;
use sluicegate_explain::ConfigExplanation;
use sluicegate_limiter::{Capacity, Seed, Timestamp};
use sluicegate_process::snapshot::Snapshot;
use sluicegate_record::RequestMetrics;

/// The machine that a text is read on.
struct NoEnvironment;

impl Environment for NoEnvironment {
    fn resolve(&self, server: &str) -> io::Result<Vec<SocketAddr>> {
        let address = server.parse().map_err(|_| io::ErrorKind::NotFound)?;
        Ok(vec![address])
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        let name = path.file_name().and_then(|name| name.to_str());
        match name {
            Some("secret") => Ok("0123456789abcdef".repeat(4)),
            Some("blocks") => Ok("192.0.2.0/24 # a\n2001:db8::/32\n".to_owned()),
            Some("broken") => Ok("x\ny\n\u{feff}{}".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn is_open_to_all(&self, path: &Path) -> bool {
        path.ends_with("broken")
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "SECRET").then(|| "0123456789abcdef".to_owned())
    }

    fn cores(&self) -> usize {
        2
    }
}

fuzz_target!(|text: &str| {
    match parse_in("gateway.toml", text, &NoEnvironment, review) {
        Ok(loaded) => {
            assert_eq!(loaded.warnings.count(Severity::Error), 0);
            placed(&loaded.warnings, text);
            compiles(loaded);
        }
        Err(problems) => {
            assert!(
                problems.count(Severity::Error) > 0,
                "refused without an error"
            );
            placed(&problems, text);
        }
    }
});

/// Every problem names a place that the text has, and says something.
fn placed(problems: &Problems, text: &str) {
    // Behind the last line feed is a line too, and behind the last character a column.
    let lines: Vec<&str> = text.split('\n').collect();
    let drawn = problems.to_string();
    for problem in problems {
        let line = problem.line.checked_sub(1).and_then(|at| lines.get(at));
        let columns = line.map(|line| 1..=line.chars().count() + 1);
        assert!(
            columns.is_some_and(|columns| columns.contains(&problem.column)),
            "{problem} is nowhere in {text:?}"
        );
        assert!(
            !problem.message.is_empty() && !problem.advice.is_empty(),
            "{problem}"
        );
        assert!(
            drawn.contains(&problem.message),
            "{problem} is not in {drawn}"
        );
    }
}

/// Rules that were read need no more checks: they compile, and can be explained.
fn compiles(mut loaded: Loaded) {
    let least = Capacity::new(1).expect("1 is a capacity");
    assert!(
        !ConfigExplanation::new(&loaded, None)
            .expect("nothing is asked")
            .to_string()
            .is_empty()
    );
    // What tables cost is the operator's choice and no concern here.
    for limit in loaded.rules.limits.values_mut() {
        limit.capacity = least;
    }
    let compile = |rules, previous| {
        let now = Timestamp::from_secs(1_800_000_000);
        let seed = KeySeed::from_seed(Seed::from_bytes([7; 16]));
        Snapshot::compile(
            rules,
            previous,
            &CounterStorage::MEMORY,
            &RequestMetrics::new(),
            &seed,
            now,
        )
    };
    let rules = loaded.rules;
    let first = compile(rules.clone(), None);
    assert_eq!(first.routes.len(), rules.routes.len());
    // And again as a reload.
    assert_eq!(compile(rules, Some(&first)).generation, 2);
}
