//! Measures what the heartbeats of a fleet cost its server: so many links of one process beat for some seconds, before a `redis-server` of
//! their own.
//!
//! `cargo run --release -p sluicegate-redis-link --example heartbeats -- 1000 20`
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a bench says what is wrong by panicking, and prints"
)]

use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sluicegate_redis_link::{
    CallResult, LibraryName, Link, LinkEnvironment, LinkEvent, LinkObserver, LinkSettings, Login,
    Moment, ServerAddress, Topology,
};

/// The longest time in which all links know each other.
const PATIENCE: Duration = Duration::from_secs(60);

/// The clocks of the system.
#[derive(Debug)]
struct SystemClock(Instant);

impl LinkEnvironment for SystemClock {
    fn now(&self) -> Moment {
        Moment::from_secs(1).saturating_add(self.0.elapsed())
    }

    fn wall(&self) -> Moment {
        Moment::default().saturating_add(SystemTime::now().duration_since(UNIX_EPOCH).unwrap())
    }
}

#[derive(Debug)]
struct NoObserver;

impl LinkObserver for NoObserver {
    fn count_call(&self, _: CallResult, _: Duration) {}

    fn count_event(&self, _: LinkEvent) {}
}

/// A server, killed on drop.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the server has used since it began.
#[derive(Clone, Copy, Debug)]
struct Used {
    cpu_seconds: f64,
    bytes: f64,
}

impl Used {
    fn read(socket: &Path) -> Self {
        let output = Command::new("redis-cli")
            .arg("-s")
            .arg(socket)
            .args(["INFO", "everything"])
            .output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let number = |field: &str| -> f64 {
            let mut lines = text.lines();
            let line = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            line.unwrap().trim().parse().unwrap()
        };
        Self {
            cpu_seconds: number("used_cpu_sys") + number("used_cpu_user"),
            bytes: number("total_net_input_bytes") + number("total_net_output_bytes"),
        }
    }
}

fn link(socket: &Path) -> Link {
    let settings = LinkSettings {
        topology: Topology::Single {
            address: ServerAddress::Unix(socket.to_owned()),
            database: 0,
        },
        login: Login {
            user: None,
            password: None,
        },
        tls: None,
        prefix: "bench".to_owned(),
        timeout: Duration::from_secs(1),
        exchange_timeout: Duration::from_secs(2),
        connect_timeout: Duration::from_secs(10),
        known_nodes: NonZeroU32::MIN,
        seed: None,
        library: LibraryName {
            name: "heartbeats",
            version: "1",
        },
        outage_effect: "nothing is measured",
        environment: Arc::new(SystemClock(Instant::now())),
    };
    let link = Link::new(settings, "return 1", Arc::new(NoObserver), None);
    link.start_on_current_runtime();
    link
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |or: u32| arguments.next().map_or(or, |word| word.parse().unwrap());
    let gateways = number(1000);
    let seconds = number(20);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("redis.sock");
    let server = Command::new("redis-server")
        .args([
            "--port",
            "0",
            "--save",
            "",
            "--maxclients",
            "20000",
            "--unixsocket",
        ])
        .arg(&socket)
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .spawn();
    let _server = Server(server.unwrap());
    let began = Instant::now();
    while !socket.exists() {
        assert!(began.elapsed() < PATIENCE, "redis-server does not listen");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let links: Vec<_> = (0..gateways).map(|_| link(&socket)).collect();
    let began = Instant::now();
    while links.iter().any(|link| link.nodes().get() < gateways) {
        assert!(
            began.elapsed() < PATIENCE,
            "the links do not know each other"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let before = Used::read(&socket);
    tokio::time::sleep(Duration::from_secs(seconds.into())).await;
    let after = Used::read(&socket);
    let cpu = (after.cpu_seconds - before.cpu_seconds) / f64::from(seconds);
    let bytes = (after.bytes - before.bytes) / f64::from(seconds);
    println!(
        "{gateways} gateways: {:.1} % of a core of the server, {:.2} MB/s",
        cpu * 100.0,
        bytes / 1e6
    );
}
