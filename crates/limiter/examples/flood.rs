//! Measures a flood of new keys: what it does to clients that are known, to new keys, to itself, and to the time of a decision.
//!
//! Run with `cargo run --release -p sluicegate-limiter --example flood [--write]`. `--write` also puts the tables into
//! `study/results.md`. Counts are the same on every run, times are not.
//!
//! # What is measured
//! One limit of `20 per 1m` and the default capacity; all happens at one moment, so nothing is forgotten meanwhile. *Known
//! clients* had used 5 before the flood; then they and as many *new keys* ask 5 times each, of which a limiter without
//! bounds refuses none. A flooder's key either asks once, so that it owes 1, or takes 20 at once, so that it is at its limit. The
//! *model* is of a table that could be: buckets, slots and words as in this one, sequential, with what is to be compared.

mod study;

use std::error::Error;
use std::fmt::Write;
use std::time::Instant;

use sluicegate_limiter::{
    Ask, Capacity, Cost, KeyHash, Limit, Outcome, Period, Rate, Rates, Seed, Timestamp, decide,
};

use study::document::{Table, Target, percent, publish};
use study::model::{Model, Policy, Units};

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
/// Units that a key may use, and how many each client uses before and after the flood.
const COUNT: u32 = 20;
const USED: u32 = 5;
/// Known clients, and new keys.
const CLIENTS: u64 = 10_000;
/// Keys of the largest flood.
const MOST: u64 = 10_000_000;
/// Keys with one address of 64 bits each under one of 48 bits.
const PREFIX_COUNT: u32 = 200;

/// Who asks: numbers of different kinds never meet.
#[derive(Clone, Copy)]
enum Who {
    Known(u64),
    Newcomer(u64),
    Flooder(u64),
    Prefix(u64),
}

/// What each key of a flood takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    OwesOne,
    AtTheLimit,
}

impl Shape {
    fn cost(self) -> Result<Cost, Box<dyn Error>> {
        match self {
            Self::OwesOne => Ok(Cost::ONE),
            Self::AtTheLimit => Cost::new(COUNT).ok_or_else(|| "a count is no cost".into()),
        }
    }
}

/// What a flood did.
struct Harm {
    known: f64,
    newcomers: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let write = std::env::args().any(|argument| argument == "--write");
    let target = if write { Target::Write } else { Target::Print };
    let text = format!("{}\n\n{}\n{}\n", by_size()?, by_prefixes()?, by_policy()?);
    publish(target, "flood", &text, &[])
}

/// The harm by the size of the flood, and the time of a decision in the largest.
fn by_size() -> Result<String, Box<dyn Error>> {
    let capacity = Capacity::default();
    let mut table = Table::with_columns(&[
        "flooding keys",
        "× capacity",
        "known clients refused",
        "new keys refused, keys owe 1",
        "new keys refused, keys at their limit",
    ]);
    let mut times = String::new();
    for keys in [
        131_072, 262_144, 524_288, 786_432, 1_048_576, 2_097_152, MOST,
    ] {
        let mut cells = vec![
            keys.to_string(),
            format!("{:.1}", keys as f64 / capacity.keys() as f64),
        ];
        let mut known = 0.0_f64;
        for shape in [Shape::OwesOne, Shape::AtTheLimit] {
            let limit = limit(COUNT, capacity)?;
            let bytes = limit.bytes();
            let before = meet(&limit, Who::Known)?;
            let mut times_of = flood(&limit, keys, shape)?;
            assert_nobody_was_reset(&limit, keys, shape)?;
            let harm = Harm {
                known: before.max(meet(&limit, Who::Known)?),
                newcomers: meet(&limit, Who::Newcomer)?,
            };
            assert_eq!(limit.bytes(), bytes, "memory is flat");
            known = known.max(harm.known);
            cells.push(percent(harm.newcomers));
            if keys == MOST {
                let told = match shape {
                    Shape::OwesOne => "owe 1",
                    Shape::AtTheLimit => "are at their limit",
                };
                let told_of = |nanos: &mut [u32]| {
                    [0.5, 0.99, 0.999, 0.9999].map(|part| f64::from(quantile(nanos, part)) / 1000.0)
                };
                let flooding = told_of(&mut times_of.flooding);
                let known = told_of(&mut times_of.known);
                writeln!(
                    times,
                    "Keys that {told}: one decision, clock included, took {flooding:.2?} µs at the median, p99, p99.9 and p99.99; one \
                     about a known key, made after each of them, {known:.2?} µs. The table keeps its {:.1} MB.\n",
                    bytes as f64 / 1e6,
                )?;
            }
        }
        cells.insert(2, percent(known));
        table.row(&cells);
    }
    Ok(format!("{}\n{}", table.text(), times.trim_end()))
}

/// The same flood out of so many networks, with and without a limit for each network.
fn by_prefixes() -> Result<String, Box<dyn Error>> {
    let mut table = Table::with_columns(&[
        "networks that the keys come from",
        "keys with a count",
        "new keys refused, without",
        "new keys refused, with a limit a network",
    ]);
    for networks in [1, 256, 1_024, 4_096, 16_384, 65_536] {
        let own = limit(COUNT, Capacity::default())?;
        let network = limit(PREFIX_COUNT, Capacity::default())?;
        for number in 0..MOST {
            let asks = [
                ask(&network, Who::Prefix(number % networks)),
                ask(&own, Who::Flooder(number)),
            ];
            let _ = decide(&asks, NOW);
        }
        let counted = own.occupancy(NOW).live + own.stats().admitted_in_overflow;
        let mut refused = 0;
        for client in 0..CLIENTS {
            for _ in 0..USED {
                let asks = [
                    ask(&network, Who::Prefix(networks + client / 4)),
                    ask(&own, Who::Newcomer(client)),
                ];
                refused += u64::from(decide(&asks, NOW).outcome() != Outcome::Admitted);
            }
        }
        let alone = limit(COUNT, Capacity::default())?;
        flood(&alone, MOST, Shape::OwesOne)?;
        table.row(&[
            networks.to_string(),
            counted.to_string(),
            percent(meet(&alone, Who::Newcomer)?),
            percent(refused as f64 / (CLIENTS * u64::from(USED)) as f64),
        ]);
    }
    Ok(table.text().to_owned())
}

/// The harm in models of tables with other policies.
fn by_policy() -> Result<String, Box<dyn Error>> {
    let mut table = Table::with_columns(&[
        "keys of the flood",
        "× capacity",
        "as it is: known, new keys",
        "words raised to the smaller: known, new keys",
        "the lightest evicted: known, new keys",
    ]);
    let shapes = [
        ("owe 1", Units::Each(1)),
        ("owe 1 to 20", Units::Up(COUNT)),
        ("owe 20", Units::Each(COUNT)),
    ];
    for (name, units) in shapes {
        for times in [2, 4, 6, 10] {
            let mut cells = vec![name.to_owned(), times.to_string()];
            for policy in [Policy::Sums, Policy::Raised, Policy::LightestEvicted] {
                let mut model = Model::new(policy, COUNT);
                let clients = model.capacity() / 25;
                let known = 0..clients;
                let newcomers = clients..2 * clients;
                model.ask_each(known.clone(), USED);
                model.flood(2 * clients..2 * clients + times * model.capacity(), units);
                let asked = (clients * u64::from(USED)) as f64;
                let harm = Harm {
                    known: model.ask_each(known, USED) as f64 / asked,
                    newcomers: model.ask_each(newcomers, USED) as f64 / asked,
                };
                cells.push(format!(
                    "{}, {}",
                    percent(harm.known),
                    percent(harm.newcomers)
                ));
            }
            table.row(&cells);
        }
    }
    Ok(table.text().to_owned())
}

fn limit(count: u32, capacity: Capacity) -> Result<Limit, Box<dyn Error>> {
    let rate = Rate::new(count, Period::from_secs(60)?)?;
    Ok(Limit::new(Rates::new([rate])?, capacity))
}

fn key(who: Who) -> KeyHash {
    let (kind, number) = match who {
        Who::Known(number) => (1_u8, number),
        Who::Newcomer(number) => (2, number),
        Who::Flooder(number) => (3, number),
        Who::Prefix(number) => (4, number),
    };
    let mut hasher = Seed::from_bytes([9; 16]).hasher();
    hasher.part(&[kind]).part(&number.to_le_bytes()).finish()
}

fn ask(limit: &Limit, who: Who) -> Ask<'_> {
    Ask {
        limit,
        key: key(who),
        cost: Cost::ONE,
        payer: None,
    }
}

/// Lets every client ask, and says what share of it is refused.
fn meet(limit: &Limit, who: fn(u64) -> Who) -> Result<f64, Box<dyn Error>> {
    let mut refused = 0_u64;
    for client in 0..CLIENTS {
        for _ in 0..USED {
            let verdict = decide(&[ask(limit, who(client))], NOW);
            refused += u64::from(verdict.outcome() != Outcome::Admitted);
        }
    }
    Ok(refused as f64 / (CLIENTS * u64::from(USED)) as f64)
}

/// The nanoseconds that decisions took: those about a flood's keys, and one about a known key after each. What other
/// processes take from this one, they take from both.
struct Times {
    flooding: Vec<u32>,
    known: Vec<u32>,
}

/// So many new keys, each once.
fn flood(limit: &Limit, keys: u64, shape: Shape) -> Result<Times, Box<dyn Error>> {
    let cost = shape.cost()?;
    let (mut flooding, mut known) = (Vec::new(), Vec::new());
    flooding.reserve_exact(keys as usize);
    known.reserve_exact(keys as usize);
    let between = |begun: Instant, ended: Instant| {
        u32::try_from((ended - begun).as_nanos()).unwrap_or(u32::MAX)
    };
    for number in 0..keys {
        let begun = Instant::now();
        let ask_of = Ask {
            cost,
            ..ask(limit, Who::Flooder(number))
        };
        let _ = decide(&[ask_of], NOW);
        let decided = Instant::now();
        // Peeked at: the flood is to find what it would without this.
        let _ = limit.peek(key(Who::Known(0)), Cost::ONE, NOW);
        flooding.push(between(begun, decided));
        known.push(between(decided, Instant::now()));
    }
    Ok(Times { flooding, known })
}

/// The flooder has not reset himself, nor anybody else: known clients have left what they had, and none of his keys has more
/// left than its charge left it.
fn assert_nobody_was_reset(limit: &Limit, keys: u64, shape: Shape) -> Result<(), Box<dyn Error>> {
    for client in 0..CLIENTS {
        let left = limit
            .peek(key(Who::Known(client)), Cost::ONE, NOW)
            .statuses()[0]
            .remaining;
        assert_eq!(left, COUNT - USED, "known client {client}");
    }
    // The flood is asked about by peeking: asking would change what new keys meet.
    for number in (0..keys).step_by((keys / 1_000) as usize) {
        let left = limit
            .peek(key(Who::Flooder(number)), Cost::ONE, NOW)
            .statuses()[0]
            .remaining;
        assert!(
            left <= COUNT - shape.cost()?.get(),
            "key {number} of the flood"
        );
    }
    Ok(())
}

fn quantile(nanos: &mut [u32], part: f64) -> u32 {
    let last = nanos.len().saturating_sub(1);
    let at = (part * last as f64) as usize;
    *nanos.select_nth_unstable(at).1
}
