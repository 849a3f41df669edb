//! The engine of the playground, in JavaScript, against this crate: the vectors, and random schedules for every algorithm.
//!
//! `node` runs the port (`ui/playground/engine/`) on the asks that are made here, and every answer is compared with the crate's.
//! `PLAYGROUND_SEED=N` runs the schedules of another seed again.
#![cfg(not(miri))]
#![allow(clippy::print_stderr, reason = "the fresh seed is printed")]

#[path = "../vectors/reading.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod reading;
mod schedule;

use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use schedule::{Asked, Random, Schedule};
use sluicegate_limiter::{
    Algorithm, Alignment, Ask, Capacity, Cost, Decision, Limit, NEVER, Policy, Refill, Timestamp,
    decide, peek,
};

/// Seeds that every run has; one more is fresh.
const SEEDS: [u64; 3] = [1, 2, 3];
/// Schedules of each algorithm and seed.
const SCHEDULES: usize = 60;

/// Writes a limit as `decide.mjs` reads it.
fn spell_limit(policy: &Policy) -> String {
    let burst_of = |burst: &Option<u32>| burst.map_or(String::new(), |it| format!(" burst={it}"));
    let algorithm = match policy.algorithm() {
        Algorithm::SlidingWindow => "sliding-window".to_owned(),
        Algorithm::Exact => "exact".to_owned(),
        Algorithm::FixedWindow(Alignment::Epoch) => "fixed-window".to_owned(),
        Algorithm::FixedWindow(Alignment::FirstRequest) => {
            "fixed-window align=first-request".to_owned()
        }
        Algorithm::FixedWindow(Alignment::Key) => {
            format!("fixed-window key={}", reading::KEY.bits())
        }
        // The vectors have no other calendar.
        Algorithm::FixedWindow(Alignment::Calendar { .. }) => {
            "fixed-window align=berlin-days".to_owned()
        }
        Algorithm::TokenBucket { burst, refill } => {
            let refill = match refill {
                Refill::Greedy => "",
                Refill::Interval => " refill=interval",
            };
            format!("token-bucket{refill}{}", burst_of(burst))
        }
        Algorithm::Gcra { burst } => format!("gcra{}", burst_of(burst)),
        Algorithm::LeakyBucket { queue, max_wait } => {
            let wait = u32::try_from(max_wait.as_millis()).unwrap_or(u32::MAX);
            format!("leaky-bucket queue={queue} max_wait={wait}")
        }
    };
    let rates = policy.rates().iter();
    let rates = rates.map(|rate| format!("{}/{}", rate.count(), rate.period().as_secs()));
    format!(
        "limit {algorithm} rates={}\n",
        rates.collect::<Vec<_>>().join(",")
    )
}

/// Writes what a decision states, as `decide.mjs` does.
fn spell(decision: &Decision) -> String {
    let statuses = decision.statuses();
    let statuses = statuses.iter().map(|status| {
        let [next_free, reset] = [status.next_free, status.reset].map(|wait| wait.as_nanos());
        format!("{}/{next_free}/{reset}", status.remaining)
    });
    let outcome = match decision.is_admitted() {
        true => "admitted",
        false => "refused",
    };
    let refusing = decision.refusing_rate();
    let refusing = refusing.map_or("-".to_owned(), |rate| rate.to_string());
    format!(
        "{outcome} {} {refusing}",
        statuses.collect::<Vec<_>>().join(",")
    )
}

/// The lines that the port answers to these.
fn port(asks: &str) -> Vec<String> {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/playground/decide.mjs");
    let mut node = Command::new("node")
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node runs the port; install Node.js, as ./dev test does");
    let mut input = node.stdin.take().expect("it is piped");
    // The port reads all asks before it answers, so neither side waits for the other.
    input.write_all(asks.as_bytes()).expect("node reads");
    drop(input);
    let output = node.wait_with_output().expect("node ends");
    assert!(output.status.success(), "node fails: {}", output.status);
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(str::to_owned).collect()
}

/// Asks the crate, and returns what the port has to answer.
fn expected(limit: &Limit, asked: &Asked) -> String {
    let ask = |cost| Ask {
        limit,
        key: reading::KEY,
        cost,
        payer: None,
    };
    let verdict = decide(&[ask(asked.cost)], asked.now);
    let decision = &verdict.decisions()[0];
    let mut says = format!("{} {} ", spell(decision), decision.delay().as_nanos());
    match limit.active_keys(asked.now).next() {
        Some(usage) => _ = write!(says, "{}", usage.fullness()),
        // Nothing counts any more.
        None => says.push('0'),
    }
    let probe = peek(&[ask(asked.probe_cost)], asked.probe);
    format!("{says} {}", spell(&probe.decisions()[0]))
}

/// Runs schedules, each of a seed, through both and compares every answer; returns how many there were.
fn compare(schedules: &[(u64, Schedule)]) -> usize {
    let (mut asks, mut expect) = (String::new(), Vec::new());
    for (seed, schedule) in schedules {
        let line = spell_limit(&schedule.policy);
        let capacity = Capacity::new(16).expect("a capacity");
        let limit = Limit::new(schedule.policy.clone(), capacity);
        asks += &line;
        for asked in &schedule.asks {
            let text = format!(
                "ask {} {} {} {}\n",
                asked.now.as_nanos(),
                asked.cost.get(),
                asked.probe.as_nanos(),
                asked.probe_cost.get()
            );
            let origin = format!("PLAYGROUND_SEED={seed}: {line}{text}");
            expect.push((origin, expected(&limit, asked)));
            asks += &text;
        }
    }
    let answers = port(&asks);
    assert_eq!(answers.len(), expect.len(), "an answer to each ask");
    for ((origin, expect), answer) in expect.iter().zip(&answers) {
        assert_eq!(answer, expect, "{origin}");
    }
    answers.len()
}

/// Goal: the port says what the vectors say, in the crate's own words. Method: each section on a new limit, answers spelled as the
/// vectors spell them.
#[test]
fn the_port_says_what_the_vectors_say() {
    let sections = reading::sections();
    let mut asks = String::new();
    for section in &sections {
        asks += &spell_limit(&section.policy);
        for step in &section.steps {
            let (now, cost) = (step.now.as_nanos(), step.cost.get());
            let _ = writeln!(asks, "ask {now} {cost} {now} 1");
        }
    }
    let answers = port(&asks);
    let steps: Vec<_> = sections.iter().flat_map(|section| &section.steps).collect();
    assert!(
        steps.len() > 80 && steps.len() == answers.len(),
        "the vectors are read"
    );
    for (step, answer) in steps.iter().zip(&answers) {
        assert_eq!(as_vectors_say(answer), step.says, "line {}", step.line);
    }
}

/// An answer of the port in the words of the vectors.
fn as_vectors_say(answer: &str) -> String {
    let words: Vec<&str> = answer.split(' ').collect();
    let [outcome, statuses, refusing, delay, ..] = words[..] else {
        unreachable!("no answer: {answer}");
    };
    let millis = |nanos: &str| {
        let nanos: u64 = nanos.parse().expect("nanoseconds");
        match Duration::from_nanos(nanos) {
            NEVER => "never".to_owned(),
            _ => (nanos as f64 / 1e6).to_string(),
        }
    };
    let statuses: Vec<Vec<&str>> = statuses
        .split(',')
        .map(|status| status.split('/').collect())
        .collect();
    let mut says = format!("{outcome}, left");
    for status in &statuses {
        let _ = write!(says, " {}", status[0]);
    }
    if let Ok(rate) = refusing.parse::<usize>() {
        let _ = write!(says, ", wait {}", millis(statuses[rate][1]));
    }
    if delay != "0" {
        let _ = write!(says, ", delay {}", millis(delay));
    }
    says
}

/// Goal: the port decides as the crate, for every algorithm. Method: random limits of one to three rates, asks at random moments, at the
/// edges of windows and before them, with costs of one and more, while the clock steps back now and then; each answer, and a probe of
/// the state at another moment.
#[test]
fn the_port_decides_random_schedules_as_the_crate_does() {
    let fresh = match std::env::var("PLAYGROUND_SEED") {
        Ok(seed) => seed.parse().expect("PLAYGROUND_SEED is a number"),
        Err(_) => RandomState::new().build_hasher().finish(),
    };
    eprintln!("fresh seed of the schedules: {fresh}");
    let mut schedules = Vec::new();
    for seed in SEEDS.into_iter().chain([fresh]) {
        let mut random = Random::new(seed);
        for kind in 0..schedule::KINDS {
            for _ in 0..SCHEDULES {
                schedules.push((seed, Schedule::random(kind, &mut random)));
            }
        }
    }
    let decisions = compare(&schedules);
    assert!(decisions >= 20_000 * schedule::KINDS, "{decisions}");
}

/// Goal: a port that errs is noticed. Method: an answer to another ask than the crate got.
#[test]
#[should_panic(expected = "another answer")]
fn a_difference_is_noticed() {
    let policy = &reading::sections()[0].policy;
    let limit = Limit::new(policy.clone(), Capacity::new(16).expect("a capacity"));
    let now = Timestamp::from_secs(1_800_000_000);
    let asked = Asked {
        now,
        cost: Cost::ONE,
        probe: now,
        probe_cost: Cost::ONE,
    };
    let answers = port(&format!(
        "{}ask {} 2 {} 1\n",
        spell_limit(policy),
        now.as_nanos(),
        now.as_nanos()
    ));
    assert_eq!(answers[0], expected(&limit, &asked), "another answer");
}
