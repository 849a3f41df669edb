//! Tests adaptive limits against a model of a server: so many workers, each with one request at a time, and a queue before them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::*;
use sluicegate_config::rules::Percent;

const WINDOW: Duration = Duration::from_millis(500);

fn rules() -> AdaptiveConcurrencyRules {
    AdaptiveConcurrencyRules {
        min: 4,
        max: 1000,
        initial: None,
        tolerance: Percent(50),
        window: WINDOW,
    }
}

/// Returns a client of a bucket of its own, as good as.
fn client(number: u64) -> ClientTag {
    ClientTag(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A server behind a limit, and the requests that come.
struct Simulation {
    limit: ServerLimit,
    /// In microseconds.
    now: u64,
    /// The times at which the workers are free.
    workers: BinaryHeap<Reverse<u64>>,
    /// The time that a request takes, in microseconds.
    service: u64,
    /// True if that is a mean, of an exponential distribution.
    varies: bool,
    answers: BinaryHeap<Reverse<(u64, usize)>>,
    places: Vec<Option<LimitPermit>>,
    random: u64,
    answered: u64,
    rejected: u64,
    /// The part of the requests that comes from clients with few.
    light: f64,
    /// Clients with many.
    heavy: u64,
    /// Requests of clients with few, and how many of those were rejected.
    of_light: (u64, u64),
}

impl Simulation {
    fn new(rules: AdaptiveConcurrencyRules, workers: usize, service: u64) -> Self {
        Self {
            limit: ServerLimit {
                rules,
                limit: Arc::new(AdaptiveLimit::new(&rules)),
                heavy: HeavyClients::Queued,
            },
            now: 1_000_000,
            workers: (0..workers).map(|_| Reverse(0)).collect(),
            service,
            varies: false,
            answers: BinaryHeap::new(),
            places: Vec::new(),
            random: 1,
            answered: 0,
            rejected: 0,
            light: 0.0,
            heavy: 1,
            of_light: (0, 0),
        }
    }

    /// Returns a number between 0 and 1, which is neither.
    fn chance(&mut self) -> f64 {
        // The generator MINSTD, of Park and Miller.
        self.random = self.random * 48_271 % 0x7fff_ffff;
        self.random as f64 / f64::from(0x7fff_ffff)
    }

    fn exponential(&mut self, mean: f64) -> u64 {
        (-mean * self.chance().ln()) as u64
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_secs(1_800_000_000).saturating_add(Duration::from_micros(self.now))
    }

    /// Returns the requests in a second that the server can answer.
    fn capacity(&self) -> f64 {
        self.workers.len() as f64 * 1e6 / self.service as f64
    }

    /// Runs for so many windows with so many requests a second. Returns the mean limit.
    fn run(&mut self, windows: u32, rate: f64) -> f64 {
        (self.answered, self.rejected, self.of_light) = (0, 0, (0, 0));
        let end = self.now + u64::from(windows) * WINDOW.as_micros() as u64;
        let mut next = self.now + self.exponential(1e6 / rate);
        let (mut sum, mut requests) = (0.0, 0.0);
        while self.now < end {
            match self.answers.peek() {
                Some(Reverse((at, place))) if *at <= next => {
                    self.now = *at;
                    let place = *place;
                    self.answers.pop();
                    let time = self.time();
                    if let Some(mut place) = self.places[place].take() {
                        place.answered(time);
                        self.answered += 1;
                    }
                }
                _ => {
                    self.now = next;
                    self.request();
                    next += 1 + self.exponential(1e6 / rate);
                    sum += f64::from(self.limit.most());
                    requests += 1.0;
                }
            }
        }
        sum / requests
    }

    fn request(&mut self) {
        let is_light = self.chance() < self.light;
        let many = if is_light { 100 } else { self.heavy };
        let number = (self.chance() * many as f64) as u64 + if is_light { 1_000 } else { 1 };
        self.of_light.0 += u64::from(is_light);
        let Some(place) = self.limit.enter(client(number), self.time()) else {
            self.rejected += 1;
            self.of_light.1 += u64::from(is_light);
            return;
        };
        let service = if self.varies {
            self.exponential(self.service as f64)
        } else {
            self.service
        };
        let Some(Reverse(free)) = self.workers.pop() else {
            return;
        };
        let done = free.max(self.now) + service;
        self.workers.push(Reverse(done));
        self.answers.push(Reverse((done, self.places.len())));
        self.places.push(Some(place));
    }

    /// Returns the part of what the server can do that it did in the last run.
    fn goodput(&self, windows: u32) -> f64 {
        self.answered as f64 / (self.capacity() * f64::from(windows) * WINDOW.as_secs_f64())
    }

    fn rejections(&self) -> f64 {
        self.rejected as f64 / (self.rejected + self.answered) as f64
    }
}

/// Windows after which a limit has found the server, whatever it began with: eight probes.
const SETTLED: u32 = 480;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    /// Goal: under overload the limit comes near what the server can work on, so that the server is never idle and never has a long queue;
    /// it comes back after the server was slower, and after it lost workers. Method: servers of many kinds, at twice to five times of what
    /// they can answer, from a limit that is too small and from one that is too large.
    #[test]
    fn a_limit_finds_the_server(
        (workers, service) in (4_usize..40, 20_000_u64..150_000),
        load in 2.0..5.0,
        (varies, from) in (any::<bool>(), prop_oneof![Just(0.2), Just(5.0)]),
        seed in 1_u64..1_000_000,
    ) {
        let initial = Some((workers as f64 * from) as u32);
        let mut server = Simulation::new(AdaptiveConcurrencyRules { initial, ..rules() }, workers, service);
        (server.varies, server.random) = (varies, seed);
        let rate = server.capacity() * load;
        let check = |server: &mut Simulation, workers: usize, what: &str| {
            server.run(SETTLED, rate);
            let limit = server.run(60, rate);
            // Ten answers of a server with few workers say less about it than ten of one with many.
            let most = workers as f64 * 5.0 + 15.0;
            prop_assert!((workers as f64 * 0.7..most).contains(&limit), "{what}: {limit} of {workers} workers");
            let done = server.goodput(60);
            prop_assert!(done > 0.8, "{what}: {done}");
            Ok(())
        };
        check(&mut server, workers, "under load")?;
        server.service = service * 3;
        check(&mut server, workers, "slower")?;
        server.service = service;
        check(&mut server, workers, "as before")?;
        let fewer = (workers / 3).max(4);
        for _ in fewer..workers {
            server.workers.pop();
        }
        check(&mut server, fewer, "with fewer workers")?;
    }

    /// Goal: one client that sends four times what the server can answer takes nothing from a hundred others, and the server has no less to
    /// do. Method: servers of many kinds; the others have a tenth of what the server can do, of whose requests at most one in a hundred is
    /// rejected; the heavy one gets the rest.
    #[test]
    fn light_clients_get_in_beside_a_heavy_one(
        (workers, service) in (8_usize..40, 20_000_u64..150_000),
        (varies, seed) in (any::<bool>(), 1_u64..1_000_000),
    ) {
        let mut server = Simulation::new(rules(), workers, service);
        (server.varies, server.random) = (varies, seed);
        server.limit.heavy = HeavyClients::Rejected;
        server.light = 0.025;
        let rate = server.capacity() * 4.0;
        server.run(SETTLED, rate);
        server.run(SETTLED, rate);
        let (asked, rejected) = server.of_light;
        prop_assert!(rejected * 100 <= asked, "{rejected} of {asked}");
        prop_assert!(server.goodput(SETTLED) > 0.8, "{}", server.goodput(SETTLED));
    }

    /// Goal: a limit does not collapse under steady load, and does not grow beyond use. Method: a server at a half of what it can answer,
    /// whose times vary; hardly a request is rejected, and the limit stays where requests need it.
    #[test]
    fn a_limit_does_not_collapse_under_steady_load(
        (workers, service) in (8_usize..40, 20_000_u64..150_000),
        seed in 1_u64..1_000_000,
    ) {
        let mut server = Simulation::new(rules(), workers, service);
        (server.varies, server.random) = (true, seed);
        let rate = server.capacity() * 0.5;
        server.run(SETTLED, rate);
        let limit = server.run(SETTLED, rate);
        prop_assert!(server.rejections() < 0.03, "{}", server.rejections());
        let workers = workers as f64;
        prop_assert!((workers * 0.5..workers.max(20.0) * 5.0).contains(&limit), "{limit} for {workers}");
    }
}

/// Goal: a client that takes all it gets leaves places to others, and a client without requests gets the last one. Method: two such clients
/// at a limit of twenty, then clients with one request each.
#[test]
fn heavy_clients_leave_places() {
    let mut server = Simulation::new(rules(), 20, 1).limit;
    server.heavy = HeavyClients::Rejected;
    let now = Timestamp::from_secs(1_800_000_000);
    let fill = |number| -> Vec<LimitPermit> {
        std::iter::from_fn(|| server.enter(client(number), now)).collect()
    };
    let mut kept = fill(1);
    assert_eq!(kept.len(), 14);
    assert_eq!(server.refusal(client(1)), Some(LimitRefusal::Heavy(14)));
    kept.extend(fill(2));
    assert_eq!(kept.len(), 14 + 4);
    let light: Vec<_> = (3..5)
        .filter_map(|number| server.enter(client(number), now))
        .collect();
    assert_eq!(light.len(), 2);
    assert_eq!(server.refusal(client(5)), Some(LimitRefusal::Reached(20)));
    drop(kept);
    assert_eq!(server.waiting(), 2);
    drop(light);
    assert_eq!(server.waiting(), 0);
}

/// Goal: a probe measures enough requests for a mean, and ends all the same where few come. Method: a full server until its limit is
/// halved; then ten requests each half a window, of which the fourth ten end the probe, and five each window, which the fourth ends.
#[test]
fn a_probe_lasts_for_forty_requests_or_four_windows() {
    for (requests, pause) in [(10, WINDOW / 2), (5, WINDOW)] {
        let rules = AdaptiveConcurrencyRules { max: 20, ..rules() };
        let server = Simulation::new(rules, 20, 1).limit;
        let mut now = Timestamp::from_secs(1_800_000_000);
        let mut answer = |requests, pause| {
            let at = now.saturating_add(pause);
            let places: Vec<_> = (0..requests)
                .filter_map(|number| server.enter(client(number), at))
                .collect();
            now = at.saturating_add(Duration::from_millis(10));
            for mut place in places {
                place.answered(now);
            }
            server.most()
        };
        let windows = (0..100).take_while(|_| answer(20, WINDOW) == 20).count();
        assert!((59..100).contains(&windows), "{windows}");
        let limits: Vec<u32> = (0..4).map(|_| answer(requests, pause)).collect();
        assert!(limits[..3].iter().all(|limit| *limit < 15), "{limits:?}");
        assert_eq!(limits[3], 20);
    }
}

/// Goal: the time in which a client sends its body is no latency and takes no place, and the place is taken again when the body is whole.
/// Method: a request that is paused for longer than any latency, beside others.
#[test]
fn an_upload_takes_no_place_and_gives_no_sample() {
    let server = Simulation::new(rules(), 20, 1).limit;
    let at =
        |millis| Timestamp::from_secs(1_800_000_000).saturating_add(Duration::from_millis(millis));
    let enter = |millis| server.enter(client(1), at(millis)).expect("room");
    let mut upload = enter(0);
    upload.pause();
    assert_eq!(server.waiting(), 0);
    for turn in 0..20 {
        enter(turn * 100).answered(at(turn * 100 + 10));
    }
    upload.resume();
    assert_eq!(server.waiting(), 1);
    upload.answered(at(3_600_000));
    assert_eq!(server.waiting(), 0);
    assert_eq!(server.baseline(), Some(Duration::from_millis(10)));
}

/// Goal: a client that gives up on a slow server shows that it is slow, and one that gives up at once shows nothing. Method: places that
/// are dropped so long ago that they are late, and new ones.
#[test]
fn a_client_that_gives_up_is_a_sample_once_it_is_late() {
    let server = Simulation::new(rules(), 20, 1).limit;
    let at =
        |millis| Timestamp::from_secs(1_800_000_000).saturating_add(Duration::from_millis(millis));
    for turn in 0..20 {
        let place = server.enter(client(1), at(turn * 100));
        place.expect("room").answered(at(turn * 100 + 10));
    }
    let place = server.enter(client(1), at(5_000)).expect("room");
    assert!(!place.is_late(at(5_014)) && place.is_late(at(5_016)));
}

/// Goal: no interleaving lets more requests in than the limit, and all places come back. Method: threads that enter and leave.
#[test]
fn no_interleaving_exceeds_the_limit() {
    let mut server = Simulation::new(rules(), 20, 1).limit;
    server.heavy = HeavyClients::Rejected;
    let now = Timestamp::from_secs(1_800_000_000);
    std::thread::scope(|scope| {
        for number in 1..=4 {
            let server = &server;
            scope.spawn(move || {
                for _ in 0..2_000 {
                    let places: Vec<_> = (0..12)
                        .filter_map(|_| server.enter(client(number), now))
                        .collect();
                    assert!(server.waiting() <= 20);
                    places.into_iter().for_each(|mut place| place.leave());
                }
            });
        }
    });
    assert_eq!(server.waiting(), 0);
    assert!((1..=4).all(|number| server.limit.clients.count(client(number)) == 0));
}
