//! What does one decision cost while another thread decides too?
//!
//! On one hot client, where both threads want the same cache line, and over a million, where they hardly meet. The time is
//! that of a decision as each thread sees it: twice the throughput at the same time would be perfect scaling.
//!
//! It needs two idle cores; read it as ratios within one run; `benches/README.md` says why.

mod peers;

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::Criterion;
use peers::{Answer, Draw, PEERS, Peer, warm};

const THREADS: u64 = 2;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    for (population, clients) in [("hot", 1), ("1M", 1_000_000)] {
        for (verb, answer) in [("admit", Answer::Admit), ("refuse", Answer::Refuse)] {
            let name = format!("contention/{population}/{verb}");
            let mut group = criterion.benchmark_group(name);
            for (name, maker) in PEERS {
                let mut peer = None;
                let time = AtomicU64::new(1);
                group.bench_function(name, |bencher| {
                    // Made here, so that what a filter leaves out is not made.
                    let peer = peer.get_or_insert_with(|| warm(maker, clients, answer));
                    bencher.iter_custom(|count| together(peer.as_ref(), clients, count, &time));
                });
            }
            group.finish();
        }
    }
    criterion.final_summary();
}

/// Lets every thread make `count` decisions at the same time; returns how long the slower one took.
fn together(peer: &dyn Peer, clients: u32, count: u64, time: &AtomicU64) -> Duration {
    // Relaxed: one thread at a time starts a round; the threads of a round take their steps from here.
    let first = time.fetch_add(count * THREADS, Ordering::Relaxed);
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let start = &start;
                scope.spawn(move || {
                    let mut draw = Draw::new(clients, first + number);
                    start.wait();
                    let started = Instant::now();
                    for step in 0..count {
                        black_box(peer.admits(draw.client(), first + step * THREADS + number));
                    }
                    started.elapsed()
                })
            })
            .collect();
        let times = threads
            .into_iter()
            .map(|thread| thread.join().expect("no limiter panics"));
        times.max().unwrap_or_default()
    })
}
