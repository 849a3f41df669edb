//! Says which of the claims that were made before the first line of the limiter hold in this run, and by how much.

use crate::load::{Answer, HOT, MANY, Threads};
use crate::memory::Bytes;
use crate::peer::{DECISION, FLOOR, GOVERNOR, OURS, PEERS, SKETCH};
use crate::table::Row;

/// What was aimed at.
pub struct Claim {
    pub text: &'static str,
    /// At most so much.
    pub aim: f64,
    /// The worst that was measured; `None` where nothing was.
    pub worst: Option<f64>,
}

/// All of them, judged by what was measured.
pub fn judged(rows: &[Row<'_>], bytes: &Bytes) -> Vec<Claim> {
    let many = || {
        let of_one_limit = rows.iter().filter(|row| row.load.limits == 1);
        of_one_limit.filter(|row| row.load.clients >= MANY)
    };
    let alone = |clients| {
        many().filter(move |row| {
            row.load.clients == clients
                && row.threads == Threads::One
                && row.rates == 1
                && row.is_even()
        })
    };
    let to_floor = |row: &Row<'_>| row.figures.ratio(DECISION, FLOOR);
    let peers = || (GOVERNOR..PEERS.len()).filter(|peer| *peer != SKETCH);
    let to_peers = move |row: &Row<'_>| {
        let ratios: Vec<_> = peers().map(|peer| row.figures.ratio(OURS, peer)).collect();
        worst(ratios.into_iter())
    };
    let hot = || rows.iter().filter(|row| row.load.name == HOT);
    let hot_from_two = hot().filter(|row| row.threads == Threads::Two);
    let ours = bytes
        .first()
        .map(|(_, row)| row.as_slice())
        .unwrap_or_default();
    vec![
        Claim {
            text: "a million keys, one rate, one thread: `decide()` to the floor",
            aim: 1.25,
            worst: worst(alone(1_000_000).map(to_floor)),
        },
        Claim {
            text: "ten million keys, one rate, one thread: `decide()` to the floor",
            aim: 1.25,
            worst: worst(alone(10_000_000).map(to_floor)),
        },
        Claim {
            text: "a million keys and more, one limit, any rates and threads: Sluicegate to the fastest peer",
            aim: 1.0,
            worst: worst(many().map(to_peers)),
        },
        Claim {
            text: "one hot key from two threads, any rates: Sluicegate to governor",
            aim: 0.5,
            worst: worst(hot_from_two.map(|row| row.figures.ratio(OURS, GOVERNOR))),
        },
        Claim {
            text: "refusing one hot key: from two threads to from one",
            aim: 1.1,
            worst: worst(
                hot()
                    .filter(|row| row.answer == Answer::Refuse && row.threads == Threads::Two)
                    .map(|two| {
                        let one = hot().find(|one| {
                            one.answer == two.answer
                                && one.rates == two.rates
                                && one.threads == Threads::One
                        })?;
                        two.figures.ratio_to(&one.figures, OURS)
                    }),
            ),
        },
        Claim {
            text: "a million keys: bytes a key and rate",
            aim: 32.0,
            worst: worst(
                ours.iter()
                    .zip(1..)
                    .map(|(bytes, rates)| Some(bytes / f64::from(rates))),
            ),
        },
    ]
}

impl Claim {
    /// Whether it holds, in a word.
    pub fn verdict(&self) -> &'static str {
        match self.worst {
            Some(worst) if worst <= self.aim => "met",
            Some(_) => "**missed**",
            None => "not measured",
        }
    }
}

/// The largest of what was measured.
fn worst(figures: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    figures.flatten().reduce(f64::max)
}
