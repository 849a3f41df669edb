//! What does one decision cost, from one thread?
//!
//! For one hot client, a thousand and a million; admitted and refused; back to back, and for a million also one at a time:
//! with a fence after each, so that no decision hides its cache miss behind the next. That is what a request sees, and it is
//! the number to compare with the floor: one atomic addition in an array as large as the table.
//!
//! Read it as ratios within one run; `benches/README.md` says why.

mod peers;

use std::hint::black_box;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use criterion::Criterion;
use peers::{Answer, Draw, PEERS, warm};

const POPULATIONS: [(&str, u32); 3] = [("hot", 1), ("1k", 1_000), ("1M", 1_000_000)];

/// Whether a decision may overlap with the one before.
#[derive(Clone, Copy)]
enum Pace {
    BackToBack,
    OneAtATime,
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for (population, clients) in POPULATIONS {
        for answer in [Answer::Admit, Answer::Refuse] {
            compare(
                &mut criterion,
                population,
                clients,
                answer,
                Pace::BackToBack,
            );
        }
    }
    for answer in [Answer::Admit, Answer::Refuse] {
        compare(&mut criterion, "1M", 1_000_000, answer, Pace::OneAtATime);
    }
    criterion.final_summary();
}

/// All peers and the floor in one group.
fn compare(criterion: &mut Criterion, population: &str, clients: u32, answer: Answer, pace: Pace) {
    let verb = match answer {
        Answer::Admit => "admit",
        Answer::Refuse => "refuse",
    };
    let suffix = match pace {
        Pace::BackToBack => "",
        Pace::OneAtATime => "/one at a time",
    };
    let mut group = criterion.benchmark_group(format!("decide/{population}/{verb}{suffix}"));
    for (name, maker) in PEERS {
        let mut peer = None;
        let mut draw = Draw::new(clients, 1);
        let mut step = 1;
        group.bench_function(name, |bencher| {
            // Made here, so that what a filter leaves out is not made.
            let peer = peer.get_or_insert_with(|| warm(maker, clients, answer));
            bencher.iter(|| {
                step += 1;
                black_box(peer.admits(draw.client(), step));
                if let Pace::OneAtATime = pace {
                    // SeqCst: pairs with nothing; it keeps the next decision's loads from starting before this one is done.
                    fence(Ordering::SeqCst);
                }
            });
        });
    }
    group.finish();
}
