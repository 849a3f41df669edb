//! Measures what strict decisions and pushes cost the store: calls of one gateway, through the real store and link, before a
//! `redis-server` of their own.
//!
//! `cargo run --release -p sluicegate-store --example decisions -- [SECONDS A ROW [PART OF A ROW'S NAME]]`
//!
//! The server's column is robust on a busy machine: it is the time that its process was running. Compare figures of one run, or of runs
//! that take turns.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a bench says what is wrong by panicking, and prints"
)]

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sluicegate_config::rules::StoreRules;
use sluicegate_config::{no_review, parse};
use sluicegate_decide::store::{CountingStore, KeyName, StoreAsk, StoreCall};
use sluicegate_limiter::{Algorithm, Alignment, Cost, KeyHash, Period, Policy, Rate, Rates};
use sluicegate_redis_link::{CallResult, LinkEvent, LinkObserver};
use sluicegate_store::script::{self, NodeId, PushNumber};
use sluicegate_store::{Store, SystemEnvironment};

/// The longest time in which the server and the link are ready.
const PATIENCE: Duration = Duration::from_secs(20);
/// The clients of a row that is not about one hot key.
const CLIENTS: u64 = 100_000;
/// The keys of one exchange of pushes.
const PUSHES: u64 = 512;
/// Clock ticks of a second in `/proc/PID/stat`.
const TICKS: f64 = 100.0;

#[derive(Debug)]
struct NoObserver;

impl LinkObserver for NoObserver {
    fn count_call(&self, _: CallResult, _: Duration) {}

    fn count_event(&self, _: LinkEvent) {}
}

/// A server, killed on drop.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start() -> Self {
        // The port is free again as soon as the listener is dropped.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let program = std::env::var("SLUICEGATE_TEST_REDIS");
        let process = Command::new(program.unwrap_or_else(|_| "redis-server".to_owned()))
            .args(["--bind", "127.0.0.1", "--save", "", "--port"])
            .arg(port.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < PATIENCE, "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { process, port }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the seconds for which a process has been running, with all of its threads.
fn cpu_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let fields = fields.split(' ').skip(11).take(2);
    fields
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / TICKS
}

fn rules(port: u16) -> StoreRules {
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:80\"\n[store]\nurl = \"redis://127.0.0.1:{port}\"\ntimeout = \"1s\"\n\
         [limit.a]\nkey = \"global\"\nrates = [\"1 per 1s\"]\nstore = \"shared\"\n\
         [[route]]\npath = \"/\"\nlimits = [\"a\"]\nrespond = {{ status = 200 }}\n"
    );
    let parsed = parse("gateway.toml", &text, no_review).expect("a configuration");
    parsed.rules.store.expect("a store")
}

fn policy(algorithm: Algorithm, period: u32) -> Policy {
    let period = Period::from_secs(period).expect("a period");
    let rate = Rate::new(1_000_000, period).expect("a rate");
    let rates = Rates::new([rate]).expect("one rate");
    Policy::new(algorithm, rates).expect("a policy")
}

/// One row of the table.
struct Row {
    name: String,
    limits: Arc<Vec<(&'static str, Policy)>>,
    clients: u64,
    in_flight: usize,
}

fn rows() -> Vec<Row> {
    let one = || vec![("otp", policy(Algorithm::SlidingWindow, 60))];
    let two = || {
        let windows = Algorithm::FixedWindow(Alignment::Epoch);
        let day = ("day", policy(windows, 86_400));
        one().into_iter().chain([day]).collect::<Vec<_>>()
    };
    let gcra = || vec![("gcra", policy(Algorithm::Gcra { burst: None }, 60))];
    let cases: [(&str, Vec<_>, u64); 4] = [
        ("one limit", one(), CLIENTS),
        ("one limit, one key", one(), 1),
        ("one limit, gcra", gcra(), CLIENTS),
        ("two limits", two(), CLIENTS),
    ];
    let mut rows = Vec::new();
    for (name, limits, clients) in cases {
        let limits = Arc::new(limits);
        for in_flight in [1, 50, 200] {
            rows.push(Row {
                name: format!("{name}, {in_flight} in flight"),
                limits: Arc::clone(&limits),
                clients,
                in_flight,
            });
        }
    }
    rows
}

/// Asks until `until`, one decision after the other, and returns how long each took, in microseconds.
async fn decide(
    store: Arc<Store>,
    row: Arc<Row>,
    next: Arc<AtomicU64>,
    until: Instant,
) -> Vec<u32> {
    let mut times = Vec::new();
    while Instant::now() < until {
        // Another client each time, in an order that the server cannot use.
        let number = next.fetch_add(1, Ordering::Relaxed);
        let client = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % row.clients;
        let name =
            |(limit, _): &(&str, _)| KeyName::new("bench", KeyHash::from_bits(client), limit);
        let names: Vec<KeyName> = row.limits.iter().map(name).collect();
        let asks = row.limits.iter().zip(&names);
        let asks = asks.map(|((_, policy), name)| StoreAsk {
            policy,
            name,
            cost: Cost::ONE,
        });
        let call = StoreCall {
            asks: asks.collect(),
        };
        let began = Instant::now();
        let answer = store.decide(call, store.now()).await;
        times.push(began.elapsed().as_micros() as u32);
        answer.expect("an answer");
    }
    times
}

/// Pushes until `until`, and returns the number of keys.
async fn push(store: &Store, until: Instant) -> u64 {
    let policy = policy(Algorithm::SlidingWindow, 60);
    let mut pushes = 0;
    while Instant::now() < until {
        let calls = (0..PUSHES).map(|_| {
            pushes += 1;
            let name = KeyName::new("bench", KeyHash::from_bits(pushes % CLIENTS), "pushed");
            let ask = StoreAsk {
                policy: &policy,
                name: &name,
                cost: Cost::ONE,
            };
            script::push(&ask, NodeId(1), PushNumber(pushes), store.now())
        });
        let calls: Vec<_> = calls.collect();
        let answers = store.run_all(&calls).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
    pushes
}

fn print(name: &str, number: u64, took: Duration, server: f64, own: f64, times: &[u32]) {
    let each = |seconds: f64| seconds * 1e6 / number as f64;
    let per_second = number as f64 / took.as_secs_f64();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or(0);
    println!(
        "{name:34} {:>10.2} {:>10.2} {per_second:>10.0} {:>8} {:>8}",
        each(server),
        each(own),
        at(50),
        at(99)
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(3, |word| word.parse().unwrap());
    let part = arguments.next().unwrap_or_default();
    let length = Duration::from_secs(seconds);
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let environment = Arc::new(SystemEnvironment);
    let store = Store::new(
        rules(server.port),
        None,
        environment,
        Arc::new(NoObserver),
        None,
    );
    let store = Arc::new(store);
    store.start();
    let began = Instant::now();
    while !store.decides_all_keys() || store.epoch().is_none() {
        assert!(began.elapsed() < PATIENCE, "{:?}", store.status());
        // The first of a fleet begins the epoch.
        runtime.block_on(store.sync());
        std::thread::sleep(Duration::from_millis(10));
    }
    let servers = server.process.id();
    let own = std::process::id();
    println!(
        "{:34} {:>10} {:>10} {:>10} {:>8} {:>8}",
        "µs each", "server", "this", "a second", "p50", "p99"
    );
    for row in rows() {
        if !row.name.contains(&part) {
            continue;
        }
        let row = Arc::new(row);
        let next = Arc::new(AtomicU64::new(1));
        let before = [cpu_seconds(servers), cpu_seconds(own)];
        let began = Instant::now();
        let tasks: Vec<_> = (0..row.in_flight)
            .map(|_| {
                let next = Arc::clone(&next);
                runtime.spawn(decide(
                    Arc::clone(&store),
                    Arc::clone(&row),
                    next,
                    began + length,
                ))
            })
            .collect();
        let mut times: Vec<u32> = Vec::new();
        for task in tasks {
            times.extend(runtime.block_on(task).unwrap());
        }
        let took = began.elapsed();
        times.sort_unstable();
        print(
            &row.name,
            times.len() as u64,
            took,
            cpu_seconds(servers) - before[0],
            cpu_seconds(own) - before[1],
            &times,
        );
    }
    let name = "pushes, 512 keys an exchange";
    if name.contains(&part) {
        let before = [cpu_seconds(servers), cpu_seconds(own)];
        let began = Instant::now();
        let pushes = runtime.block_on(push(&store, began + length));
        print(
            name,
            pushes,
            began.elapsed(),
            cpu_seconds(servers) - before[0],
            cpu_seconds(own) - before[1],
            &[],
        );
    }
}
