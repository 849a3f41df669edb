//! Owns what the decision benches compare: each limiter behind one question, and the keys they are asked about.
//!
//! All are asked with an IPv4 address, all hash it themselves, and all read a clock for every decision, because that is what
//! each costs whoever uses it. Sluicegate takes the time as an argument: here it reads the clock like the others, and then
//! decides at a time of the bench's own, so that a limit can be made which never refuses at any speed.
//!
//! A limiter that has seen all keys is what is measured: the first sight of a key happens before the clock starts.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each bench includes this file and uses a part"
)]

use std::collections::HashMap;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use governor::clock::DefaultClock;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};
use sluicegate_limiter::{
    Ask, Capacity, Cost, Limit, Outcome, Period, Rate, Rates, Seed, Timestamp, decide,
};

/// What the limiter answers in the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Every request is admitted, and therefore charged.
    Admit,
    /// Every request is refused.
    Refuse,
}

/// A limiter under test.
pub trait Peer: Send + Sync {
    /// Decides about one request of this client; true admits. `step` is the number of the request, for a time of one's own.
    fn admits(&self, client: u32, step: u64) -> bool;
}

/// A peer's name in the report, and how it is made for so many clients.
pub type Maker = (&'static str, fn(u32, Answer) -> Box<dyn Peer>);

/// The floor, then all of them.
pub const PEERS: [Maker; 5] = [
    ("floor", |clients, answer| {
        Box::new(Floor::new(clients, answer))
    }),
    ("sluicegate", |clients, answer| {
        Box::new(Sluicegate::new(clients, answer))
    }),
    ("governor", |_, answer| Box::new(Governor::new(answer))),
    ("pingora-limits", |_, answer| Box::new(Sketch::new(answer))),
    ("mutex-hashmap", |_, answer| {
        Box::new(MutexHashMap::new(answer))
    }),
];

/// Makes a peer that knows all clients, and checks that it answers as the bench wants.
pub fn warm(
    maker: fn(u32, Answer) -> Box<dyn Peer>,
    clients: u32,
    answer: Answer,
) -> Box<dyn Peer> {
    let peer = maker(clients, answer);
    for client in 0..clients {
        peer.admits(client, 0);
    }
    let admits = peer.admits(clients / 2, 1);
    assert_eq!(
        admits,
        answer == Answer::Admit,
        "the limiter does not answer as the bench says"
    );
    peer
}

/// A client drawn uniformly: the same sequence for every peer. One multiplication, so that drawing costs next to nothing.
#[derive(Clone, Debug)]
pub struct Draw {
    state: u64,
    clients: u32,
}

impl Draw {
    /// Draws from `0..clients`; threads take different seeds.
    pub fn new(clients: u32, seed: u64) -> Self {
        Self {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            clients,
        }
    }

    /// The next client. (Knuth's MMIX generator; its high bits are good enough to choose a cache line.)
    pub fn client(&mut self) -> u32 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let scaled = (self.state >> 32) * u64::from(self.clients);
        (scaled >> 32) as u32
    }
}

/// The crate that this repository ships.
struct Sluicegate {
    limit: Limit,
    seed: Seed,
    step: u64,
}

impl Sluicegate {
    /// A million a second never refuses in a time where a client comes at most once in 10 µs; one in 31 days refuses.
    fn new(clients: u32, answer: Answer) -> Self {
        let (count, period) = match answer {
            Answer::Admit => (1_048_575, 1),
            Answer::Refuse => (1, 31 * 86_400),
        };
        let period = Period::from_secs(period).expect("within the limiter's range");
        let rate = Rate::new(count, period).expect("within the limiter's range");
        let rates = Rates::new([rate]).expect("one rate is a valid set");
        let keys = u64::from(clients).max(Capacity::DEFAULT.keys());
        let capacity = Capacity::new(keys).expect("within the limiter's range");
        Self {
            limit: Limit::new(rates, capacity),
            seed: Seed::from_bytes([7; 16]),
            // Slow enough for one client, and fast enough that each of a million comes several times in a window.
            step: (10_000 / u64::from(clients)).max(100),
        }
    }
}

impl Peer for Sluicegate {
    fn admits(&self, client: u32, step: u64) -> bool {
        black_box(SystemTime::now());
        let now = Timestamp::from_nanos(1_800_000_000_000_000_000 + step * self.step);
        let key = self.seed.hasher().part(&client.to_be_bytes()).finish();
        let verdict = decide(
            &[Ask {
                limit: &self.limit,
                key,
                cost: Cost::ONE,
            }],
            now,
        );
        matches!(verdict.outcome(), Outcome::Admitted)
    }
}

/// governor with its defaults: a DashMap of GCRA states, the quanta clock.
struct Governor(RateLimiter<u32, DefaultKeyedStateStore<u32>, DefaultClock>);

impl Governor {
    fn new(answer: Answer) -> Self {
        let quota = match answer {
            Answer::Admit => {
                Quota::per_second(NonZeroU32::new(1_000_000_000).expect("it is not zero"))
            }
            Answer::Refuse => Quota::with_period(Duration::from_secs(31 * 86_400))
                .expect("it is not zero")
                .allow_burst(NonZeroU32::MIN),
        };
        Self(RateLimiter::keyed(quota))
    }
}

impl Peer for Governor {
    fn admits(&self, client: u32, _: u64) -> bool {
        self.0.check_key(&client).is_ok()
    }
}

/// `pingora_limits::rate::Rate`, used as its documentation shows. One sketch of 4 × 1024 counters for all clients: fast
/// because it is small, and wrong about single clients as soon as there are many.
struct Sketch {
    rate: pingora_limits::rate::Rate,
    most: isize,
}

impl Sketch {
    fn new(answer: Answer) -> Self {
        let most = match answer {
            Answer::Admit => isize::MAX,
            Answer::Refuse => 0,
        };
        Self {
            rate: pingora_limits::rate::Rate::new(Duration::from_secs(3600)),
            most,
        }
    }
}

impl Peer for Sketch {
    fn admits(&self, client: u32, _: u64) -> bool {
        self.rate.observe(&client, 1) <= self.most
    }
}

/// What one writes in an afternoon: a map behind a lock, two counters an entry, the standard hasher.
struct MutexHashMap {
    windows: Mutex<HashMap<u32, Window>>,
    most: f64,
    period: Duration,
    start: Instant,
}

#[derive(Clone, Copy, Default)]
struct Window {
    index: u64,
    previous: u32,
    current: u32,
}

impl MutexHashMap {
    fn new(answer: Answer) -> Self {
        let (most, period) = match answer {
            Answer::Admit => (f64::INFINITY, Duration::from_secs(1)),
            Answer::Refuse => (1.0, Duration::from_secs(31 * 86_400)),
        };
        Self {
            windows: Mutex::new(HashMap::new()),
            most,
            period,
            start: Instant::now(),
        }
    }
}

impl Peer for MutexHashMap {
    fn admits(&self, client: u32, _: u64) -> bool {
        let position = self.start.elapsed().as_secs_f64() / self.period.as_secs_f64();
        let index = position as u64;
        let mut windows = self.windows.lock().expect("no holder panics");
        let window = windows.entry(client).or_default();
        match index - window.index {
            0 => {}
            1 => (window.previous, window.current) = (window.current, 0),
            _ => (window.previous, window.current) = (0, 0),
        }
        window.index = index;
        let weighted = f64::from(window.previous) * (1.0 - position.fract());
        let admitted = weighted + f64::from(window.current) + 1.0 <= self.most;
        if admitted {
            window.current += 1;
        }
        admitted
    }
}

/// The floor under every table of this size: one atomic addition to a line of 64 bytes, drawn as the clients are.
struct Floor {
    lines: Vec<Line>,
    used: u64,
    answer: Answer,
}

#[repr(align(64))]
struct Line(AtomicU64);

impl Floor {
    /// As large as the limiter's table for so many clients, of which as many lines are used as there are clients.
    fn new(clients: u32, answer: Answer) -> Self {
        let count = Sluicegate::new(clients, answer).limit.bytes() / 64;
        let mut lines = Vec::with_capacity(count);
        lines.resize_with(count, || Line(AtomicU64::new(1)));
        Self {
            lines,
            used: u64::from(clients).min(count as u64),
            answer,
        }
    }
}

impl Peer for Floor {
    fn admits(&self, client: u32, _: u64) -> bool {
        // The used lines lie scattered over the whole array, as a hash would scatter them.
        let scattered = (u64::from(client) % self.used).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let line = ((u128::from(scattered) * self.lines.len() as u128) >> 64) as usize;
        let added = self.lines[line].0.fetch_add(1, Ordering::Relaxed) > 0;
        added == (self.answer == Answer::Admit)
    }
}
