//! Runs a link against a real server: calls, the loss of the server, its return, and what processes share.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate_redis_link::{
    Call, CallResult, Clock, ConnectionState, HostPort, LibraryName, Link, LinkEvent, LinkObserver,
    LinkSettings, Login, Moment, Reply, ServerAddress, StoreError, Topology,
};

const COUNT: &str = "return redis.call('INCR', KEYS[1])";

/// A clock that goes on by a second with each reading.
#[derive(Debug, Default)]
struct Ticks(AtomicUsize);

impl Clock for Ticks {
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
    fn start(port: u16) -> Self {
        let arguments = [
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--bind",
            "127.0.0.1",
        ];
        let child = Command::new("redis-server")
            .args(arguments)
            .current_dir(std::env::temp_dir())
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

/// Waits until the connection of the link is in this state.
async fn state(link: &Link, wanted: ConnectionState) {
    for _ in 0..2_000 {
        let servers = link.status().servers;
        if servers.first().is_some_and(|server| server.state == wanted) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", link.status());
}

/// Goal: calls are answered while the server is there, fail at once while it is not, and are answered again. Method: a server that is
/// killed and started again on its port; seed, epoch and membership on the way.
#[tokio::test]
async fn a_server_is_used_lost_and_used_again() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let server = Server::start(port);
    let place = ServerAddress::Tcp(HostPort {
        host: "127.0.0.1".into(),
        port,
    });
    let settings = LinkSettings {
        topology: Topology::Single { place, database: 0 },
        login: Login::default(),
        tls: None,
        prefix: "test".to_owned(),
        timeout: Duration::from_secs(5),
        connect_timeout: Duration::from_secs(5),
        seed: None,
        library: LibraryName {
            name: "test",
            version: "1",
        },
        clock: Arc::new(Ticks::default()),
    };
    let counts = Arc::new(Counts::default());
    let observer = Arc::clone(&counts);
    let link = Link::new(settings, COUNT, observer, None);
    assert_eq!(link.run(call()).await, Err(StoreError::Unavailable));
    link.start();
    state(&link, ConnectionState::Connected).await;
    assert_eq!(link.run(call()).await, Ok(Reply::Integer(1)));
    assert_eq!(
        link.run_all(&[call(), call()]).await,
        [Ok(Reply::Integer(2)), Ok(Reply::Integer(3))]
    );
    assert_eq!(link.nodes().get(), 1);
    let epochs = link.new_epochs();
    assert_eq!(epochs.len(), 1);
    assert!(!epochs[0].is_loss);

    drop(server);
    state(&link, ConnectionState::Unavailable).await;
    assert_eq!(link.run(call()).await, Err(StoreError::Unavailable));
    assert_eq!(counts.opened.load(Ordering::Relaxed), 1);

    let _server = Server::start(port);
    state(&link, ConnectionState::Connected).await;
    assert_eq!(link.run(call()).await, Ok(Reply::Integer(1)));
    assert_ne!(link.new_epochs(), epochs);
    for _ in 0..2_000 {
        if link.seed().is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(link.seed().is_some());
    assert!(counts.calls.load(Ordering::Relaxed) >= 4);
}
