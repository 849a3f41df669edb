//! Tests the connector with several threads, each with a runtime of its own, and a listener of the test.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use sluicegate_limiter::Timestamp;

use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;

use super::*;
use crate::pool::tests::pool;
use crate::{AttemptWait, PickRequest, PickResult, ServerPermit, ServerPool};

/// A listener that counts connections.
struct Origin {
    address: SocketAddr,
    accepted: Receiver<TcpStream>,
}

impl Origin {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, accepted) = channel();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if sender.send(stream).is_err() {
                    return;
                }
            }
        });
        Self { address, accepted }
    }

    /// Returns the number of connections so far, and closes them.
    fn close_all(&self) -> usize {
        let last = TcpStream::connect(self.address).expect("it listens");
        let last = last.local_addr().expect("an address");
        let is_before = |stream: &TcpStream| stream.peer_addr().is_ok_and(|peer| peer != last);
        self.accepted.iter().take_while(is_before).count()
    }

    fn pool(&self, lines: &str) -> ServerPool {
        pool(&format!("servers = [\"{}\"]\n{lines}", self.address))
    }
}

fn permit(pool: &ServerPool) -> ServerPermit {
    let request = PickRequest {
        now: Timestamp::from_secs(1_800_000_000),
        ..PickRequest::default()
    };
    match pool.choose(&request) {
        PickResult::Server(permit) => permit,
        other => panic!("{other:?}"),
    }
}

/// Makes a connection carry one request. Returns whether it was used before.
async fn use_once(connector: &OriginConnector, pool: &ServerPool) -> bool {
    let mut permit = permit(pool);
    let connection = connector
        .connect(&permit.server, ProtocolNeed::Any, None)
        .await
        .expect("a server");
    permit
        .connected(connection.socket())
        .expect("it stays open");
    let is_reused = connection.is_reused();
    connector.keep(connection, None);
    is_reused
}

/// Runs the future on a thread of its own, after which its runtime runs until `end`.
fn on_a_thread(work: impl Future<Output = bool> + Send, end: oneshot::Receiver<()>) -> bool {
    let run = || {
        block_on(async {
            let output = work.await;
            let _ = end.await;
            output
        })
    };
    std::thread::scope(|scope| scope.spawn(run).join().expect("it does not panic"))
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work)
}

/// Goal: a thread takes a connection that is idle in another before it opens one. Method: two threads by turns, before a server without a
/// bound, and before one with a bound.
#[test]
fn a_connection_goes_from_thread_to_thread() {
    for lines in ["", "circuit_breaker = { max_connections = 4 }"] {
        let origin = Origin::start();
        let (pool, connector) = (origin.pool(lines), OriginConnector::new(10));
        let (sender, end) = oneshot::channel();
        let (used, is_used) = channel();
        let (first, second) = std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                let work = async {
                    let is_reused = use_once(&connector, &pool).await;
                    used.send(()).expect("the test waits");
                    is_reused
                };
                on_a_thread(work, end)
            });
            is_used.recv().expect("it is used");
            let second = block_on(use_once(&connector, &pool));
            drop(sender);
            (first.join().expect("it does not panic"), second)
        });
        assert_eq!((first, second), (false, true), "{lines}");
        assert_eq!(origin.close_all(), 1, "{lines}");
    }
}

/// Goal: the bound holds over both paths, and an idle connection of one path gives way to a request of the other. Method: the only
/// connection is idle in the list, and then in the hands of the framework, which sees its end.
#[tokio::test]
async fn idle_connections_of_one_path_give_way_to_the_other() {
    let origin = Origin::start();
    let pool = origin.pool("circuit_breaker = { max_connections = 1 }");
    let connector = OriginConnector::new(10);
    let framework = TransportConnector::new(None);
    let mut wait = AttemptWait::default();
    assert!(!use_once(&connector, &pool).await);
    assert!(use_once(&connector, &pool).await);

    let mut held = permit(&pool);
    let refused = framework.new_stream(&held.server.peer).await;
    let refused = refused.map_err(|error| ConnectError::from_error(&error, &held.server));
    assert!(matches!(refused, Err(ConnectError::AtBound)));
    assert!(held.search_again(&mut wait).await);
    let stream = framework.new_stream(&held.server.peer).await;
    let mut stream = stream.expect("there is room");
    held.connected(stream.id()).expect("it stays open");
    drop(held);

    let mut held = permit(&pool);
    let refused = connector
        .connect(&held.server, ProtocolNeed::Any, None)
        .await;
    assert!(matches!(refused, Err(ConnectError::AtBound)));
    assert_eq!(stream.read(&mut [0]).await.expect("its end"), 0);
    drop(stream);
    assert!(held.search_again(&mut wait).await);
    let connection = connector
        .connect(&held.server, ProtocolNeed::Any, None)
        .await;
    assert!(!connection.expect("there is room").is_reused());
    assert_eq!(origin.close_all(), 3);
}

/// Goal: closed connections keep no request from the server. Method: more than a request looks at are idle; the server closes all.
#[tokio::test]
async fn closed_connections_are_dropped() {
    let origin = Origin::start();
    let most = IDLE_LOOKS + 4;
    let pool = origin.pool(&format!("circuit_breaker = {{ max_connections = {most} }}"));
    let connector = OriginConnector::new(100);
    let mut permits: Vec<_> = (0..most).map(|_| permit(&pool)).collect();
    let mut connections = Vec::new();
    for held in &mut permits {
        let connection = connector
            .connect(&held.server, ProtocolNeed::Any, None)
            .await
            .expect("a server");
        held.connected(connection.socket()).expect("it stays open");
        connections.push(connection);
    }
    connections
        .into_iter()
        .for_each(|one| connector.keep(one, None));
    drop(permits);
    assert_eq!(origin.close_all(), most);
    // The runtime learns of the ends when it polls the system.
    tokio::task::yield_now().await;
    assert!(!use_once(&connector, &pool).await);
    let open = pool.servers()[0].open_connections();
    assert_eq!(open, Some(5), "those that it did not look at, and its own");
    assert!(use_once(&connector, &pool).await);
}

/// Goal: idle connections of HTTP/2 are within the bound on all idle connections: one takes the place of an idle connection of HTTP/1.1,
/// and ends with its last request where another one of HTTP/2 has the last place. Method: one place, and three servers in turn.
#[tokio::test]
async fn an_idle_connection_of_http2_has_a_place_or_ends() {
    let origins = [Origin::start(), Origin::start(), Origin::start()];
    let http1 = origins[0].pool("circuit_breaker = { max_connections = 9 }");
    let [first, second] = [1, 2].map(|at: usize| origins[at].pool("protocol = \"h2c\""));
    let connector = OriginConnector::new(1);
    assert!(!use_once(&connector, &http1).await);
    assert!(use_once(&connector, &http1).await);
    assert!(!use_once(&connector, &first).await);
    assert!(use_once(&connector, &first).await, "it has the place");
    assert_eq!(http1.servers()[0].open_connections(), Some(0));
    for _ in 0..2 {
        assert!(!use_once(&connector, &second).await, "no place is left");
        assert!(!use_once(&connector, &http1).await, "no place is left");
    }
    assert!(use_once(&connector, &first).await, "it still has the place");
    assert_eq!(origins.map(|origin| origin.close_all()), [3, 1, 2]);
}
