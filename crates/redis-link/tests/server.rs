//! Runs a link against a real server: calls, the loss of the server, its return, and what processes share.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate_redis_link::{
    Call, CallResult, ConnectionState, LibraryName, Link, LinkEnvironment, LinkEvent, LinkObserver,
    LinkScript, LinkSettings, Login, Moment, RefusalReason, Reply, ServerAddress, StoreError,
    Topology,
};

/// The server under test: Valkey by `SLUICEGATE_TEST_REDIS=valkey-server`.
fn program() -> String {
    std::env::var("SLUICEGATE_TEST_REDIS").unwrap_or_else(|_| "redis-server".to_owned())
}

const COUNT: &str = "return redis.call('INCR', KEYS[1])";

const COUNT_MANY: &str = "
if ARGV[1] ~= 'batch' then return redis.call('INCR', KEYS[1]) end
local replies = {}
for place = 1, tonumber(ARGV[2]) do replies[place] = redis.pcall('INCR', KEYS[place]) end
return replies";

/// A clock that goes on by a second with each thousandth reading.
#[derive(Debug, Default)]
struct Ticks(AtomicUsize);

impl LinkEnvironment for Ticks {
    fn now(&self) -> Moment {
        let ticks = self.0.fetch_add(1, Ordering::Relaxed) as u64;
        Moment::from_secs(1_800_000_000 + ticks / 1_000)
    }

    fn wall(&self) -> Moment {
        Moment::from_secs(1_800_000_000)
    }
}

#[derive(Debug, Default)]
struct Counts {
    calls: AtomicUsize,
    opened: AtomicUsize,
}

impl LinkObserver for Counts {
    fn count_call(&self, _: CallResult, _: Duration) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn count_event(&self, event: LinkEvent) {
        if event == LinkEvent::BreakerOpened {
            self.opened.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A server, killed on drop.
struct Server(Child);

impl Server {
    /// Starts a server that listens on a Unix socket at `socket`, and nowhere else.
    fn start(socket: &Path) -> Self {
        let arguments = ["--port", "0", "--save", "", "--unixsocket"];
        let child = Command::new(program())
            .args(arguments)
            .arg(socket)
            .current_dir(socket.parent().unwrap())
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn call() -> Call {
    Call {
        keys: vec![b"k".to_vec()],
        args: Vec::new(),
    }
}

fn settings(socket: &Path) -> LinkSettings {
    LinkSettings {
        topology: Topology::Single {
            address: ServerAddress::Unix(socket.to_owned()),
            database: 0,
        },
        login: Login::default(),
        tls: None,
        prefix: "test".to_owned(),
        timeout: Duration::from_secs(5),
        exchange_timeout: Duration::from_secs(5),
        known_nodes: NonZeroU32::MIN,
        connect_timeout: Duration::from_secs(5),
        seed: None,
        library: LibraryName {
            name: "test",
            version: "1",
        },
        outage_effect: "nothing is counted",
        environment: Arc::new(Ticks::default()),
    }
}

/// Waits until `condition` holds, for 20 seconds at most.
async fn eventually(link: &Link, condition: impl Fn(&Link) -> bool) {
    for _ in 0..2_000 {
        if condition(link) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", link.status());
}

/// Returns the state of the link's only connection.
fn state(link: &Link) -> Option<ConnectionState> {
    let servers = link.status().servers;
    servers.first().map(|server| server.state)
}

/// Goal: calls are answered while the server is there, fail at once while it is not, and are answered again. Method: a server that is
/// killed and started again on its socket; seed, epoch and membership on the way.
#[tokio::test]
async fn a_server_is_used_lost_and_used_again() {
    let is_connected = |link: &Link| state(link) == Some(ConnectionState::Connected);
    let is_unavailable = |link: &Link| state(link) == Some(ConnectionState::Unavailable);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("server.sock");
    let server = Server::start(&socket);
    let counts = Arc::new(Counts::default());
    let observer = Arc::clone(&counts);
    let link = Link::new(settings(&socket), COUNT, observer, None);
    assert_eq!(link.run(call()).await, Err(StoreError::Unavailable));
    link.start();
    eventually(&link, is_connected).await;
    assert_eq!(link.run(call()).await, Ok(Reply::Integer(1)));
    assert_eq!(
        link.run_all(&[call(), call()]).await,
        [Ok(Reply::Integer(2)), Ok(Reply::Integer(3))]
    );
    assert_eq!(link.nodes().get(), 1);
    let epochs = link.new_epochs();
    assert_eq!(epochs.len(), 1);
    assert!(!epochs[0].is_loss);
    link.recovered(&epochs[0]);
    assert_eq!(link.new_epochs(), []);

    drop(server);
    eventually(&link, is_unavailable).await;
    assert_eq!(link.run(call()).await, Err(StoreError::Unavailable));
    assert_eq!(counts.opened.load(Ordering::Relaxed), 1);

    let _server = Server::start(&socket);
    eventually(&link, is_connected).await;
    assert_eq!(link.run(call()).await, Ok(Reply::Integer(1)));
    let [new] = &link.new_epochs()[..] else {
        panic!("one server has lost its data");
    };
    assert!(new.is_loss && *new != epochs[0]);
    eventually(&link, |link| link.seed().is_some()).await;
    assert!(counts.calls.load(Ordering::Relaxed) >= 4);
}

/// Runs a command by `redis-cli`, and returns what it prints.
fn command(socket: &Path, words: &[&str]) -> String {
    let output = Command::new("redis-cli")
        .arg("-s")
        .arg(socket)
        .args(words)
        .output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

/// Goal: calls that are made at the same time share runs of the script, each with its own answer, also on a server that has lost the
/// script. Method: a hundred keys, one of them of another type; then the same with a script that the server has forgotten.
#[tokio::test]
async fn calls_at_the_same_time_share_runs_of_the_script() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("server.sock");
    let _server = Server::start(&socket);
    let script = LinkScript::batched(COUNT_MANY);
    let observer = Arc::new(Counts::default());
    let link = Link::new(settings(&socket), script, observer, None);
    link.start();
    eventually(&link, |link| {
        state(link) == Some(ConnectionState::Connected)
    })
    .await;
    command(&socket, &["LPUSH", "k7", "no number"]);
    for round in 1..=2 {
        command(&socket, &["SCRIPT", "FLUSH"]);
        let calls = (0..100).map(|key| {
            link.run(Call {
                keys: vec![format!("k{key}").into_bytes()],
                args: Vec::new(),
            })
        });
        let answers = futures_util::future::join_all(calls).await;
        for (key, answer) in answers.into_iter().enumerate() {
            match (key, answer) {
                (7, Err(StoreError::Refused(RefusalReason::Script(error)))) => {
                    assert!(error.contains("WRONGTYPE"), "{error}");
                }
                (_, answer) => assert_eq!(answer, Ok(Reply::Integer(round)), "{key}"),
            }
        }
        let calls: Vec<Call> = (0..100).map(|_| call()).collect();
        let answers = link.run_all(&calls).await;
        let last = answers.last().cloned();
        assert_eq!(last, Some(Ok(Reply::Integer(100 * round))));
    }
    let stats = command(&socket, &["INFO", "commandstats"]);
    let runs = stats.lines().find_map(|line| {
        let (_, rest) = line.split_once("cmdstat_evalsha:calls=")?;
        rest.split(',').next()?.parse::<u32>().ok()
    });
    // Four hundred calls, and some heartbeats.
    assert!(runs.unwrap() < 100, "{stats}");
}
