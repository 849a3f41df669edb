//! Takes the time of all peers in turns: a slice each, round after round.
//!
//! Each turn begins with as much time that is not counted, so that a limiter finds its own table in the caches, as far as they hold it,
//! and not what the one before has left there. A turn's figure is the median over its batches of decisions, which leaves out those in
//! which the system took the core away, and a row's figure is the median over the rounds. Off each goes what a turn took in the same
//! round in which nobody decided: the loop is ours and no limiter's. A ratio is formed inside a round, between neighbours in time, and its
//! median is taken then: what slows the machine down for a second slows down both.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::load::{Load, Threads};
use crate::peer::{Moment, NOTHING, Peer, Turn};

/// Decisions between two looks at the clock: a tenth of a millisecond where they are fast.
const BATCH: usize = 2048;

/// What was measured of one row: a time a round, of each peer that took part, without what the bench takes by itself.
#[derive(Debug)]
pub struct Figures(Vec<Option<Vec<f64>>>);

impl Figures {
    /// The same without what the bench took by itself.
    fn net(mut self) -> Self {
        let own = self.0[NOTHING].clone().unwrap_or_default();
        let others = self.0.iter_mut().enumerate();
        for rounds in
            others.filter_map(|(peer, rounds)| rounds.as_mut().filter(|_| peer != NOTHING))
        {
            for (nanos, own) in rounds.iter_mut().zip(&own) {
                *nanos -= own;
            }
        }
        self
    }

    /// Nanoseconds a decision, as each thread sees it; `None` for a peer that took no part.
    pub fn nanos(&self, peer: usize) -> Option<f64> {
        self.0[peer].as_ref().map(|rounds| median(rounds.clone()))
    }

    /// How many times what `other` takes this one takes.
    pub fn ratio(&self, peer: usize, other: usize) -> Option<f64> {
        ratio(self.0[peer].as_ref()?, self.0[other].as_ref()?)
    }

    /// How many times what a peer takes in `other`, a row that was measured with this one, it takes in this one.
    pub fn ratio_to(&self, other: &Self, peer: usize) -> Option<f64> {
        ratio(self.0[peer].as_ref()?, other.0[peer].as_ref()?)
    }
}

/// The median over the rounds of what these took to what those took.
fn ratio(these: &[f64], those: &[f64]) -> Option<f64> {
    Some(median(
        these.iter().zip(those).map(|(a, b)| a / b).collect(),
    ))
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Lets all peers decide under this load, from one thread and from two by turns.
pub fn measure(peers: &[Option<Box<dyn Peer>>], load: &Load) -> [(Threads, Figures); 2] {
    let mut rows = [Threads::One, Threads::Two].map(|threads| {
        let begun = |peer: &Option<_>| peer.as_ref().map(|_| Vec::with_capacity(load.rounds));
        (threads, Figures(peers.iter().map(begun).collect()))
    });
    let draws = [0, 1].map(|thread| load.draws(thread));
    let time = AtomicU64::new(0);
    // The first round only warms.
    for round in 0..=load.rounds {
        for (index, peer) in peers.iter().enumerate() {
            let Some(peer) = peer else {
                continue;
            };
            for (threads, figures) in &mut rows {
                let nanos = turn(&**peer, load, &draws[..*threads as usize], &time);
                if let (1.., Some(rounds)) = (round, &mut figures.0[index]) {
                    rounds.push(nanos);
                }
            }
        }
    }
    rows.map(|(threads, figures)| (threads, figures.net()))
}

/// One turn of one peer: every thread decides about its draws; returns what the slower one took for each.
fn turn(peer: &dyn Peer, load: &Load, draws: &[Vec<u32>], time: &AtomicU64) -> f64 {
    let step = load.step();
    let start = Barrier::new(draws.len());
    thread::scope(|scope| {
        let threads: Vec<_> = draws
            .iter()
            .map(|draws| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let mut batches = draws.chunks_exact(BATCH).cycle();
                    let mut spend = || {
                        let (mut times, started) = (Vec::new(), Instant::now());
                        while times.is_empty() || started.elapsed() < load.slice {
                            let clients = batches.next().unwrap_or_default();
                            let span = BATCH as u64 * step;
                            // Relaxed: who takes which span does not matter.
                            let moment = Moment(time.fetch_add(span, Ordering::Relaxed));
                            let begun = Instant::now();
                            peer.decide(Turn {
                                clients,
                                moment,
                                step,
                                pace: load.pace,
                            });
                            times.push(begun.elapsed().as_nanos() as f64 / clients.len() as f64);
                        }
                        median(times)
                    };
                    spend();
                    spend()
                })
            })
            .collect();
        let times = threads
            .into_iter()
            .map(|thread| thread.join().expect("no limiter panics"));
        times.fold(0.0, f64::max)
    })
}
