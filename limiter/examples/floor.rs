//! Measures one decision beside the floor of the machine in one run: one atomic addition to a random cache line of an
//! array as large as the table.
//!
//! Run with `cargo run --release -p sluicegate-limiter --example floor [MOST_KEYS]`. *Back to back* lets the processor
//! overlap a decision with the next; *one at a time* makes the next key depend on the last answer, with a fence between,
//! so that nobody hides a cache miss: that is what a request sees. Each number is the best of a few rounds, in which
//! all the columns take turns; read them as ratios.

use std::error::Error;
use std::hint::black_box;
use std::io::Write;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_limiter::{
    Ask, Capacity, Cost, KeyHash, Limit, MAX_COUNT, MAX_PERIOD, Outcome, Period, Rate, Rates, Seed,
    Timestamp, decide,
};

const ROUNDS: usize = 20;
/// How long one measurement takes, about.
const SLICE: Duration = Duration::from_millis(15);
const START: Timestamp = Timestamp::from_secs(1_800_000_000);

/// A cache line.
#[repr(align(64))]
struct Line(AtomicU64);

/// Whether a step may overlap with the one before.
#[derive(Clone, Copy)]
enum Pace {
    BackToBack,
    OneAtATime,
}

/// What is measured.
#[derive(Clone, Copy)]
enum Subject {
    Floor,
    /// A decision about a key that is hashed already.
    Decision,
    /// Hashing the key and deciding.
    HashAndDecision,
}

/// What clients are told.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    Admit,
    Refuse,
}

/// What all the threads of a measurement share.
struct Stage {
    keys: u64,
    seed: Seed,
    lines: Vec<Line>,
    limit: Limit,
}

fn main() -> Result<(), Box<dyn Error>> {
    let most = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 10_000_000,
    };
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "ns a step, ratio to the floor      | back to back               | one at a time"
    )?;
    writeln!(
        out,
        "keys      threads  answer    bytes | floor  decision  with hash | floor  decision      with hash"
    )?;
    for keys in [1, 1_000, 1_000_000, 10_000_000] {
        if keys > most {
            continue;
        }
        for answer in [Answer::Admit, Answer::Refuse] {
            let stage = Stage::new(keys, answer)?;
            for threads in [1, 2] {
                stage.report(&mut out, threads, answer)?;
            }
        }
    }
    Ok(())
}

impl Stage {
    fn new(keys: u64, answer: Answer) -> Result<Self, Box<dyn Error>> {
        // At a step every 3 µs two threads never use up a million a second.
        let (count, secs) = match answer {
            Answer::Admit => (MAX_COUNT, 1),
            Answer::Refuse => (1, MAX_PERIOD),
        };
        let rates = Rates::new([Rate::new(count, Period::from_secs(secs)?)?])?;
        let limit = Limit::new(rates, Capacity::new(keys)?);
        let lines = (0..limit.bytes().div_ceil(64).max(1)).map(|_| Line(AtomicU64::new(1)));
        let stage = Self {
            keys,
            seed: Seed::from_bytes([9; 16]),
            lines: lines.collect(),
            limit,
        };
        for number in 0..keys {
            stage.ask(stage.key(number), START);
        }
        Ok(stage)
    }

    fn report(
        &self,
        out: &mut impl Write,
        threads: usize,
        answer: Answer,
    ) -> Result<(), Box<dyn Error>> {
        let paces = [Pace::BackToBack, Pace::OneAtATime];
        let subjects = [Subject::Floor, Subject::Decision, Subject::HashAndDecision];
        let mut best = [[f64::MAX; 3]; 2];
        for _ in 0..ROUNDS {
            for (pace, row) in paces.into_iter().zip(&mut best) {
                for (subject, best) in subjects.into_iter().zip(row) {
                    *best = best.min(self.measure(threads, pace, subject));
                }
            }
        }
        let verb = match answer {
            Answer::Admit => "admit",
            Answer::Refuse => "refuse",
        };
        let [[floor, decision, hashed], [slow_floor, slow, slow_hashed]] = best;
        writeln!(
            out,
            "{:<9} {threads:<8} {verb:<7} {:>7}k | {floor:5.1} {decision:9.1} {hashed:10.1} | \
             {slow_floor:5.1} {slow:9.1} {:.2} {slow_hashed:9.1} {:.2}",
            self.keys,
            self.limit.bytes() / 1024,
            slow / slow_floor,
            slow_hashed / slow_floor,
        )?;
        Ok(())
    }

    /// Nanoseconds a step, as each of so many threads sees it.
    fn measure(&self, threads: usize, pace: Pace, subject: Subject) -> f64 {
        let start = Barrier::new(threads);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|thread| {
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        self.work(thread as u64 + 1, pace, subject)
                    })
                })
                .collect();
            let times = workers.into_iter().filter_map(|worker| worker.join().ok());
            times.fold(0.0, f64::max)
        })
    }

    fn work(&self, seed: u64, pace: Pace, subject: Subject) -> f64 {
        const BATCH: u64 = 4096;
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (mut steps, mut answers) = (0, 0);
        let started = Instant::now();
        let mut now = START;
        while started.elapsed() < SLICE {
            for _ in 0..BATCH {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                now = now.saturating_add(Duration::from_micros(3));
                // The answer counts for nothing, which only we know.
                let draw = random.wrapping_add(answers >> 63);
                let answer = match subject {
                    Subject::Floor => {
                        let line = scale(draw, self.lines.len() as u64) as usize;
                        self.lines[line].0.fetch_add(1, Ordering::Relaxed)
                    }
                    Subject::Decision => {
                        let bits = stirred(scale(draw, self.keys));
                        self.ask(KeyHash::from_bits(bits), now)
                    }
                    Subject::HashAndDecision => self.ask(self.hashed(scale(draw, self.keys)), now),
                };
                match pace {
                    Pace::BackToBack => black_box(answer),
                    Pace::OneAtATime => {
                        answers = answer;
                        // SeqCst: pairs with nothing; the next step starts when this one is done.
                        fence(Ordering::SeqCst);
                        answer
                    }
                };
            }
            steps += BATCH;
        }
        started.elapsed().as_nanos() as f64 / steps as f64
    }

    #[inline]
    fn ask(&self, key: KeyHash, now: Timestamp) -> u64 {
        let ask = Ask {
            limit: &self.limit,
            key,
            cost: Cost::ONE,
        };
        match decide(&[ask], now).outcome() {
            Outcome::Admitted => 1,
            Outcome::Refused { .. } => 2,
        }
    }

    fn key(&self, number: u64) -> KeyHash {
        KeyHash::from_bits(stirred(number))
    }

    /// As [`key`](Self::key), but hashed first.
    #[inline]
    fn hashed(&self, number: u64) -> KeyHash {
        let hash = self.seed.hasher().part(&number.to_le_bytes()).finish();
        KeyHash::from_bits(stirred(number).wrapping_add(hash.bits() & black_box(0)))
    }
}

/// The part of `0..n` that a random number falls in.
#[inline]
fn scale(random: u64, n: u64) -> u64 {
    ((u128::from(random) * u128::from(n)) >> 64) as u64
}

/// A permutation that makes neighbours strangers.
#[inline]
fn stirred(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
