//! Owns what is compared: each limiter behind one question.
//!
//! All are asked with an IPv4 address and hash it themselves, and all read a clock for every decision, because that is what each
//! costs whoever uses it; who takes the time as an argument reads the clock that governor reads. Only the floor and `decide()`
//! do neither: the one is what no table can avoid, the other what this crate adds to hash and clock.
//!
//! A limiter that knows all keys is what is measured: the first sight of a key happens before.

mod dashmap;
mod floor;
mod governor;
mod limitador;
mod pingora_limits;
mod sluicegate;
mod throttlecrab;

use std::hint::black_box;
use std::sync::atomic::{Ordering, fence};

use crate::load::{Answer, Pace};

pub use floor::Floor;

/// A limiter under test.
pub trait Limiter: Send + Sync {
    /// Decides about one request of this client; true admits.
    fn admits(&self, client: u32, moment: Moment) -> bool;
}

/// Nanoseconds since the start, in the bench's own time: a limiter that takes the time as an argument decides then.
#[derive(Clone, Copy, Debug)]
pub struct Moment(pub u64);

/// A batch of requests.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    pub clients: &'a [u32],
    /// Of the first.
    pub moment: Moment,
    /// From one to the next, in nanoseconds.
    pub step: u64,
    pub pace: Pace,
}

/// A limiter that is asked in batches, so that only the batch goes through a table of functions.
pub trait Peer: Send + Sync {
    /// Decides about all requests of a turn, and returns how many pass.
    fn decide(&self, turn: Turn<'_>) -> usize;
}

impl<L: Limiter> Peer for L {
    fn decide(&self, turn: Turn<'_>) -> usize {
        let (mut admitted, mut moment) = (0, turn.moment);
        for client in turn.clients {
            moment.0 += turn.step;
            admitted += usize::from(black_box(self.admits(*client, moment)));
            if turn.pace == Pace::OneAtATime {
                // SeqCst: pairs with nothing; it keeps the next decision's loads from starting before this one is done.
                fence(Ordering::SeqCst);
            }
        }
        admitted
    }
}

/// What a limiter is made for.
#[derive(Clone, Copy, Debug)]
pub struct Brief {
    pub clients: u32,
    pub answer: Answer,
    pub rates: usize,
}

impl Brief {
    /// What each rate answers: of several only the last refuses.
    pub fn answers(self) -> impl Iterator<Item = Answer> {
        let others = std::iter::repeat_n(Answer::Admit, self.rates - 1);
        others.chain([self.answer])
    }
}

/// A kind of limiter.
pub struct Kind {
    /// As the tables call it.
    pub name: &'static str,
    /// What it takes beyond this is not worth the wait.
    pub most_clients: u32,
    pub most_rates: usize,
    pub make: fn(Brief) -> Box<dyn Peer>,
}

/// Which of [`PEERS`] everything is compared with, and which is ours.
pub const FLOOR: usize = 0;
pub const DECISION: usize = 1;
pub const OURS: usize = 2;
pub const GOVERNOR: usize = 3;

/// All of them, in the order of the columns.
pub const PEERS: [Kind; 9] = [
    kind("floor", |brief| Box::new(Floor::new(brief))),
    kind("decide()", |brief| {
        Box::new(sluicegate::Decision::new(brief))
    }),
    kind("Sluicegate", |brief| {
        Box::new(sluicegate::Sluicegate::new(brief))
    }),
    kind("governor", governor::default),
    kind("governor, fastest", governor::fastest),
    kind("DashMap", |brief| Box::new(dashmap::Map::new(brief))),
    kind("pingora-limits", |brief| {
        Box::new(pingora_limits::Sketches::new(brief))
    }),
    kind("throttlecrab", |brief| {
        Box::new(throttlecrab::Locked::new(brief))
    }),
    Kind {
        most_clients: 1_000_000,
        ..kind("limitador", |brief| {
            Box::new(limitador::InMemory::new(brief))
        })
    },
];

const fn kind(name: &'static str, make: fn(Brief) -> Box<dyn Peer>) -> Kind {
    Kind {
        name,
        most_clients: u32::MAX,
        most_rates: 3,
        make,
    }
}

/// Makes a limiter that knows all clients, and checks that it answers as it should.
pub fn warm(kind: &Kind, clients: u32, answer: Answer, rates: usize) -> Box<dyn Peer> {
    let brief = Brief {
        clients,
        answer,
        rates,
    };
    let peer = (kind.make)(brief);
    let all: Vec<u32> = (0..clients).collect();
    let ask = |clients: &[u32]| {
        peer.decide(Turn {
            clients,
            moment: Moment(0),
            step: 0,
            pace: Pace::BackToBack,
        })
    };
    for clients in all.chunks(4096) {
        ask(clients);
    }
    let admits = ask(&[clients / 2]) == 1;
    assert_eq!(
        admits,
        answer == Answer::Admit,
        "{} does not answer as the bench says",
        kind.name
    );
    peer
}
