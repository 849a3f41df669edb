//! Measures what rounding does to the sliding window: each way beside an exact log.
//!
//! Run with `cargo run --release -p sluicegate-limiter --example rounding [--write]`. `--write` also puts the table into
//! `study/results.md`. Everything is the same on every run, and the study makes sure that the crate decides as its last column.
//!
//! # What is measured
//! As in `accuracy`: decisions that *differ* from an exact log's that sees the same requests, admissions *without room* by the
//! algorithm's own history, and the *wait*: what a refused client is told, on average, in periods.

mod study;

use std::error::Error;
use std::time::Duration;

use sluicegate_limiter::{Period, Rate};

use study::contender::{Contender, Fate};
use study::document::{Table, Target, percent, publish};
use study::rounded::{Rounded, Rounding};
use study::traffic::{Request, Size, Traffic, Trail, moment};

const SIZE: Size = Size(500_000);
const ROUNDINGS: [Rounding; 3] = [Rounding::Up, Rounding::Nearest, Rounding::Down];

/// Traffic under a rate, and what the documents call it.
struct Situation {
    name: String,
    rate: Rate,
    traffic: Traffic,
}

/// What one way of rounding did.
struct Measured {
    refused: f64,
    differ: f64,
    lenient: f64,
    most: u32,
    /// In periods.
    wait: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let write = std::env::args().any(|argument| argument == "--write");
    let target = if write { Target::Write } else { Target::Print };
    let mut table = Table::with_columns(&[
        "traffic",
        "the log refuses",
        "a unit: refuses, differs, without room; most; wait",
        "a unit from a half on",
        "nothing",
    ]);
    for Situation {
        name,
        rate,
        traffic,
    } in situations()?
    {
        let log = fates(Contender::ExactLog, rate, &traffic)?;
        let refused = log.iter().filter(|fate| **fate == Fate::Refused).count();
        let mut cells = vec![name, percent(refused as f64 / log.len() as f64)];
        for rounding in ROUNDINGS {
            let (measured, own) = measure(rounding, rate, &traffic, &log);
            if rounding == Rounding::Down {
                let crates = fates(Contender::SlidingWindow, rate, &traffic)?;
                assert_eq!(own, crates, "the crate's sliding window rounds down");
            }
            let Measured {
                refused,
                differ,
                lenient,
                most,
                wait,
            } = measured;
            let [refused, differ, lenient] = [refused, differ, lenient].map(percent);
            cells.push(format!("{refused}, {differ}, {lenient}; {most}; {wait:.2}"));
        }
        table.row(&cells);
    }
    publish(target, "rounding", &format!("{}\n", table.text()), &[])
}

fn situations() -> Result<Vec<Situation>, Box<dyn Error>> {
    let per_10s =
        |count| -> Result<Rate, Box<dyn Error>> { Ok(Rate::new(count, Period::from_secs(10)?)?) };
    let log = Traffic::from_short_log(include_str!("study/access-log.txt"))?;
    let mut all = vec![Situation {
        name: "access log, 10 per 10s".to_owned(),
        rate: per_10s(10)?,
        traffic: log,
    }];
    for count in [1, 2] {
        // A client that keeps to its limit: one request each 1.02 periods, or part of one.
        let gap = 10.2 / f64::from(count);
        let polite = (0..SIZE.0 / 10).map(|number| Request {
            client: 0,
            at: moment(gap * number as f64),
        });
        let name = format!("evenly, 0.98 × {count} per 10s");
        all.push(Situation {
            name,
            rate: per_10s(count)?,
            traffic: Traffic::new(polite.collect()),
        });
    }
    for count in [1, 2, 5, 10, 100] {
        for load in [0.5, 1.0, 3.0] {
            let rate = per_10s(count)?;
            let traffic = Traffic::poisson(rate, load, SIZE);
            all.push(Situation {
                name: format!("Poisson, {load} × {count} per 10s"),
                rate,
                traffic,
            });
        }
    }
    Ok(all)
}

fn fates(who: Contender, rate: Rate, traffic: &Traffic) -> Result<Vec<Fate>, Box<dyn Error>> {
    let mut judge = who.ready(rate, traffic.clients())?;
    let requests = traffic.requests().iter();
    Ok(requests.map(|request| judge.decide(request)).collect())
}

fn measure(
    rounding: Rounding,
    rate: Rate,
    traffic: &Traffic,
    log: &[Fate],
) -> (Measured, Vec<Fate>) {
    let span = Duration::from_secs(u64::from(rate.period().as_secs()));
    let mut counters = Rounded::new(rate, rounding);
    let mut trails = vec![Trail::default(); traffic.clients() as usize];
    let mut fates = Vec::with_capacity(log.len());
    let (mut refused, mut differ, mut lenient, mut most) = (0, 0, 0, 0);
    let mut waits = Duration::ZERO;
    for (request, truth) in traffic.requests().iter().zip(log) {
        let trail = &mut trails[request.client as usize];
        let fate = if counters.admits(request.client, request.at) {
            lenient += usize::from(trail.within(span, request.at) >= rate.count());
            trail.push(request.at);
            most = most.max(trail.within(span, request.at));
            Fate::Admitted(Duration::ZERO)
        } else {
            refused += 1;
            waits += counters.wait(request.client, request.at);
            Fate::Refused
        };
        differ += usize::from(fate != *truth);
        fates.push(fate);
    }
    let share = |part: usize| part as f64 / log.len() as f64;
    let measured = Measured {
        refused: share(refused),
        differ: share(differ),
        lenient: share(lenient),
        most,
        wait: waits.as_secs_f64() / span.as_secs_f64() / refused.max(1) as f64,
    };
    (measured, fates)
}
