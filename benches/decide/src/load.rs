//! Owns who asks: how many clients there are, how often each comes, how many threads ask, and what they are told.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Uniform, Zipf};

/// Clients that ask a limiter.
#[derive(Debug)]
pub struct Load {
    /// As the tables call it.
    pub name: &'static str,
    /// How many there are.
    pub clients: u32,
    /// How often each comes.
    pub spread: Spread,
    /// Whether a decision may overlap with the one before.
    pub pace: Pace,
    /// Limits that are decided together, each with keys of its own.
    pub limits: usize,
    /// Numbers of rates that a limit may have.
    pub rates: &'static [usize],
    /// How often everybody has a turn.
    pub rounds: usize,
    /// How long half a turn takes, about.
    pub slice: Duration,
}

/// How often each client comes.
#[derive(Clone, Copy, Debug)]
pub enum Spread {
    /// All alike.
    Even,
    /// As Zipf's law has it, with an exponent of 1: the first comes twice as often as the second.
    Zipf,
}

/// Whether a decision may overlap with the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It may: the figure is that of a core which does nothing else.
    BackToBack,
    /// It waits for it: nobody hides a cache miss behind the next. That is what a request sees.
    OneAtATime,
}

/// What most rows have in common.
const ROW: Load = Load {
    name: "",
    clients: 1,
    spread: Spread::Even,
    pace: Pace::OneAtATime,
    limits: 1,
    rates: &[1, 2, 3],
    rounds: 9,
    slice: Duration::from_millis(10),
};

/// A million clients: tables that fit into no cache of one core, and take a while to get into those they fit into.
const MILLION: Load = Load {
    clients: 1_000_000,
    rounds: 7,
    slice: Duration::from_millis(40),
    ..ROW
};

/// The rows of the tables.
pub const ROWS: [Load; 8] = [
    // Often, since two cores at one line have slow seconds and fast ones.
    Load {
        name: HOT,
        rounds: 81,
        ..ROW
    },
    Load {
        name: "hot back to back",
        pace: Pace::BackToBack,
        ..ROW
    },
    Load {
        name: "hot in 3 limits",
        limits: 3,
        rates: &[1],
        ..ROW
    },
    Load {
        name: "1k",
        clients: 1_000,
        ..ROW
    },
    Load {
        name: "1M",
        ..MILLION
    },
    Load {
        name: "zipf",
        spread: Spread::Zipf,
        ..MILLION
    },
    Load {
        name: "1M in 3 limits",
        limits: 3,
        rates: &[1],
        ..MILLION
    },
    // To make these tables takes longer than to ask them.
    Load {
        name: "10M",
        clients: 10_000_000,
        rates: &[1, 3],
        rounds: 5,
        ..MILLION
    },
];

/// The row of one client.
pub const HOT: &str = "hot";
/// Rows of so many clients or more are about cache misses.
pub const MANY: u32 = 1_000_000;

/// What every request is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It passes, and is charged.
    Admit,
    /// It does not.
    Refuse,
}

/// How many threads ask at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    One = 1,
    Two = 2,
}

/// Draws made ahead for each thread: read in order, so that drawing costs next to nothing and no line that a limiter wants.
const DRAWS: usize = 1 << 20;

impl Load {
    /// Nanoseconds of the bench's own time from one request to the next: slow enough that one client never uses up a million a
    /// second, and fast enough that each of ten million still owes something when it comes again.
    pub fn step(&self) -> u64 {
        (10_000 / u64::from(self.clients)).max(100)
    }

    /// What one thread asks, in order: the same for every peer.
    pub fn draws(&self, thread: u64) -> Vec<u32> {
        let random = SmallRng::seed_from_u64(thread);
        match self.spread {
            Spread::Even => {
                let even = Uniform::new(0, self.clients).expect("there is a client");
                even.sample_iter(random).take(DRAWS).collect()
            }
            Spread::Zipf => {
                let zipf = Zipf::new(f64::from(self.clients), 1.0).expect("there is a client");
                // The distribution counts from one; who comes often lies anywhere.
                zipf.sample_iter(random)
                    .take(DRAWS)
                    .map(|rank| scattered(rank as u32 - 1, self.clients))
                    .collect()
            }
        }
    }
}

/// A permutation of `0..clients` for a number of clients that is no multiple of this prime.
fn scattered(rank: u32, clients: u32) -> u32 {
    const PRIME: u64 = 2_654_435_761;
    (u64::from(rank) * PRIME % u64::from(clients)) as u32
}
