//! Owns what is compared: each limiter behind one question.
//!
//! All are asked with an IPv4 address and hash it themselves, and all read a clock for every decision, because that is what each
//! costs whoever uses it; who takes the time as an argument reads the clock that governor reads. Only the floor and `decide()`
//! do neither: the one is what no table can avoid, the other what this crate adds to hash and clock. "As used" the floor does both.
//!
//! A limiter that knows all keys is what is measured: the first sight of a key happens before.

mod dashmap;
mod floor;
mod governor;
mod limitador;
mod nothing;
mod pingora_limits;
mod sluicegate;
mod throttlecrab;

use std::hint::black_box;

use crate::load::{Answer, Pace};
use floor::{Floor, FloorAsUsed};
use sluicegate::{Decision, Sluicegate};

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
        match turn.pace {
            Pace::BackToBack => back_to_back(self, turn),
            Pace::OneAtATime => one_at_a_time(self, turn),
        }
    }
}

fn back_to_back(limiter: &impl Limiter, turn: Turn<'_>) -> usize {
    let (mut admitted, mut moment) = (0, turn.moment);
    for client in turn.clients {
        moment.0 += turn.step;
        admitted += usize::from(black_box(limiter.admits(*client, moment)));
    }
    admitted
}

/// Who comes next depends on the last answer, and is asked about when that answer is there.
fn one_at_a_time(limiter: &impl Limiter, turn: Turn<'_>) -> usize {
    // Zero, which only we know.
    let nothing = black_box(0);
    let (mut admitted, mut answer, mut moment) = (0, 0, turn.moment);
    for next in 0..turn.clients.len() {
        moment.0 += turn.step;
        let client = turn.clients[next | (answer & nothing)];
        answer = usize::from(black_box(limiter.admits(client, moment)));
        admitted += answer;
        let_finish();
    }
    admitted
}

/// Lets the processor finish what it has begun before it begins anything else.
///
/// Dependence is not enough: processors guess answers, as any branch, and go on with the next client before this one's cache
/// miss is over. Nor is a fence, which orders memory and not execution: with one the floor of a million clients is 20 ns, not the
/// 170 that a miss takes. That is why there is `unsafe` here.
#[cfg(target_arch = "x86_64")]
fn let_finish() {
    // SAFETY: the instruction belongs to SSE2, which every processor of this architecture has.
    unsafe { std::arch::x86_64::_mm_lfence() }
}

/// As far as safe Rust goes elsewhere.
#[cfg(not(target_arch = "x86_64"))]
fn let_finish() {
    // SeqCst: pairs with nothing; it orders the next decision's loads behind this one's.
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// A hash for next to nothing, for those who are given one: a permutation that makes neighbours strangers.
#[inline]
fn hashed(client: u32) -> u64 {
    let mut bits = (u64::from(client) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits ^ (bits >> 32)
}

/// What a client is called in each of several limits: as many keys each, and no two alike.
#[inline]
fn keys<const LIMITS: usize>(client: u32) -> [u32; LIMITS] {
    std::array::from_fn(|limit| client ^ limit as u32)
}

/// What a limiter is made for.
#[derive(Clone, Copy, Debug)]
pub struct Brief {
    pub clients: u32,
    pub answer: Answer,
    pub limits: usize,
    /// Of each limit.
    pub rates: usize,
}

impl Brief {
    /// What each rate of each limit answers: of several only the last refuses.
    pub fn answers(self) -> impl Iterator<Item = Answer> {
        let others = std::iter::repeat_n(Answer::Admit, self.limits * self.rates - 1);
        others.chain([self.answer])
    }
}

/// A kind of limiter.
pub struct Kind {
    /// As the tables call it.
    pub name: &'static str,
    /// What it takes beyond this is not worth the wait.
    pub most_clients: u32,
    /// Limits that it can be asked about at once.
    pub most_limits: usize,
    pub make: fn(Brief) -> Box<dyn Peer>,
}

/// Which of [`PEERS`] is the bench itself, with which everything is compared, and which is ours.
pub const NOTHING: usize = 0;
pub const FLOOR: usize = 1;
pub const FLOOR_AS_USED: usize = 2;
pub const DECISION: usize = 3;
pub const OURS: usize = 4;
pub const GOVERNOR: usize = 5;
pub const FASTEST_GOVERNOR: usize = 6;
/// Keeps no client apart from the others: nothing is claimed beside it.
pub const SKETCH: usize = 8;

/// A peer that is compiled for the number of its limits: one, or three.
macro_rules! of_limits {
    ($peer:ident, $brief:expr) => {
        match $brief.limits {
            1 => Box::new($peer::<1>::new($brief)) as Box<dyn Peer>,
            _ => Box::new($peer::<3>::new($brief)),
        }
    };
}

/// All of them, in the order of the columns.
pub const PEERS: [Kind; 11] = [
    kind("nothing", |brief| Box::new(nothing::Nothing::new(brief))),
    kind("floor", |brief| of_limits!(Floor, brief)),
    kind("floor, as used", |brief| of_limits!(FloorAsUsed, brief)),
    kind("decide()", |brief| of_limits!(Decision, brief)),
    kind("Sluicegate", |brief| of_limits!(Sluicegate, brief)),
    kind("governor", governor::default),
    kind("governor, fastest", governor::fastest),
    Kind {
        most_limits: 1,
        ..kind("DashMap", |brief| Box::new(dashmap::Map::new(brief)))
    },
    kind("pingora-limits", |brief| {
        Box::new(pingora_limits::Sketches::new(brief))
    }),
    Kind {
        most_clients: 1_000_000,
        ..kind("throttlecrab", |brief| {
            Box::new(throttlecrab::Locked::new(brief))
        })
    },
    Kind {
        most_clients: 1,
        ..kind("limitador", |brief| {
            Box::new(limitador::InMemory::new(brief))
        })
    },
];

const fn kind(name: &'static str, make: fn(Brief) -> Box<dyn Peer>) -> Kind {
    Kind {
        name,
        most_clients: u32::MAX,
        most_limits: usize::MAX,
        make,
    }
}

/// Makes a limiter that knows all clients, and checks that it answers as it should.
pub fn warm(kind: &Kind, brief: Brief) -> Box<dyn Peer> {
    let peer = (kind.make)(brief);
    let all: Vec<u32> = (0..brief.clients).collect();
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
    let admits = ask(&[brief.clients / 2]) == 1;
    assert_eq!(
        admits,
        brief.answer == Answer::Admit,
        "{} does not answer as the bench says",
        kind.name
    );
    peer
}
