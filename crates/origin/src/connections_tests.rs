//! Tests permits without a proxy, with sockets to a listener of the test.

use std::pin::pin;
use std::task::Poll;

use futures_util::{FutureExt, poll};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream as Socket};

use super::*;

const HERE: Group = Group(1);
const OTHER: Group = Group(2);

/// A bound, a listener, and the connections under test.
struct Bench {
    connections: Arc<Connections>,
    queues: Arc<OriginQueues>,
    listener: TcpListener,
}

/// A connection as the dialer makes one: dropped in this order.
struct Established {
    socket: Socket,
    permit: ConnectionPermit,
}

impl Bench {
    async fn new() -> Self {
        Self {
            connections: Arc::default(),
            queues: Arc::default(),
            listener: TcpListener::bind("127.0.0.1:0").await.expect("a port"),
        }
    }

    fn permit(&self, most: u32, group: Group) -> Option<ConnectionPermit> {
        self.connections.permit(most, group, &self.queues)
    }

    async fn connect(&self, group: Group) -> Established {
        self.established(self.socket().await, group)
    }

    /// Returns a connection with a number that nothing else in this process gets: the system assigns the lowest free one.
    async fn connect_as(&self, number: RawFd, group: Group) -> Established {
        let socket = self.socket().await.into_std().expect("a socket");
        let moved = rustix::io::fcntl_dupfd_cloexec(&socket, number).expect("a free number");
        assert_eq!(moved.as_raw_fd(), number);
        let socket = Socket::from_std(moved.into()).expect("a socket");
        self.established(socket, group)
    }

    async fn socket(&self) -> Socket {
        let address = self.listener.local_addr().expect("an address");
        Socket::connect(address).await.expect("a listener")
    }

    fn established(&self, socket: Socket, group: Group) -> Established {
        let mut permit = self.permit(u32::MAX, group).expect("no bound");
        permit.record_established(&socket).expect("a second handle");
        Established { socket, permit }
    }

    fn begin_use(&self, made: &Established) -> Use {
        let socket = made.socket.as_raw_fd();
        let begun = self.connections.begin_use(socket);
        begun.expect("it stays open").expect("it has a permit")
    }

    /// Waits after this look, with a bound of one connection.
    async fn search_again(
        &self,
        search: ConnectionSearch,
        wait: &mut AttemptWait,
    ) -> Option<ConnectionSearch> {
        let end = timer::deadline(Duration::from_secs(60));
        self.connections.search_again(search, 1, wait, end).await
    }
}

/// Returns whether the connection was shut down.
async fn ends(made: &Established) -> bool {
    // The runtime learns readiness only when it polls the system.
    tokio::task::yield_now().await;
    let ready = made.socket.ready(Interest::READABLE).now_or_never();
    ready.is_some_and(|ready| ready.is_ok_and(|ready| ready.is_read_closed()))
}

/// Goal: permits never exceed the bound, and each is released once, whatever became of its connection. Method: all taken; one is
/// dropped before it is connected, one after, one when it is reported and once more.
#[tokio::test]
async fn permits_are_bounded_and_come_back() {
    let bench = Bench::new().await;
    let one = bench.connect(HERE).await;
    let two = bench.permit(2, HERE).expect("two may be");
    assert!(bench.permit(2, HERE).is_none());
    drop(two);
    let two = bench.connect(HERE).await;
    assert!(bench.permit(2, HERE).is_none());
    one.permit.on_disconnected();
    assert_eq!(bench.connections.open(), 2, "its socket is open");
    drop(one);
    assert_eq!(bench.connections.open(), 1);
    drop(two);
    let state = bench.connections.state();
    assert_eq!((state.open, state.sockets.len()), (0, 0));
}

/// Goal: a copy of a permit grants and releases nothing. Method: it is dropped.
#[tokio::test]
async fn a_copied_permit_is_none() {
    let bench = Bench::new().await;
    let permit = bench.permit(1, HERE).expect("one may be");
    let copy = permit.boxed_clone();
    copy.on_disconnected();
    drop(copy.boxed_clone());
    drop(copy);
    assert_eq!(bench.connections.open(), 1);
}

/// Goal: a socket number that the system reuses is another connection. Method: the use of a closed connection ends after another
/// got its number.
#[tokio::test]
async fn a_number_given_again_is_another_connection() {
    const NUMBER: RawFd = 900;
    let bench = Bench::new().await;
    let before = bench.connect_as(NUMBER, HERE).await;
    let used = bench.begin_use(&before);
    before.permit.on_disconnected();
    drop(before.socket);
    let after = bench.connect_as(NUMBER, HERE).await;
    let using = bench.begin_use(&after);
    used.end();
    drop(before.permit);
    let usage = bench.connections.state().sockets[&NUMBER].usage;
    assert_eq!(usage, Usage::By(1));
    using.end();
    assert_eq!(bench.connections.open(), 1);
}

/// Goal: a refused request may get the permit of a connection that it cannot use. Method: the only permitted connection is idle;
/// it is shut down, and its end lets the request look again.
#[tokio::test(start_paused = true)]
async fn a_refused_request_ends_what_is_of_no_use() {
    let bench = Bench::new().await;
    let other = bench.connect(OTHER).await;
    bench.begin_use(&other).end();
    let search = bench.connections.begin_search();
    assert!(bench.permit(1, HERE).is_none());
    let mut wait = AttemptWait::default();
    let search = bench.search_again(search, &mut wait).await;
    let search = search.expect("a connection may have changed hands");
    assert!(!ends(&other).await);
    let mut next = pin!(bench.search_again(search, &mut wait));
    assert!(poll!(next.as_mut()).is_pending());
    assert!(ends(&other).await);
    let taken = bench.connections.begin_use(other.socket.as_raw_fd());
    assert_eq!(taken.err(), Some(ConnectionClosing));
    assert_eq!(bench.connections.open(), 1, "until it is closed");
    drop(other);
    assert!(matches!(poll!(next), Poll::Ready(Some(_))));
    assert!(bench.permit(1, HERE).is_some());
}

/// Goal: a refusal is not final while another request looks for a connection. Method: two look; the one that is refused is woken
/// when the other has its connection, and closes nothing meanwhile.
#[tokio::test]
async fn a_refused_request_waits_for_the_looks_of_others() {
    let bench = Bench::new().await;
    let idle = bench.connect(HERE).await;
    bench.begin_use(&idle).end();
    let (taking, refused) = (
        bench.connections.begin_search(),
        bench.connections.begin_search(),
    );
    let mut wait = AttemptWait::default();
    let mut next = pin!(bench.search_again(refused, &mut wait));
    assert!(poll!(next.as_mut()).is_pending());
    assert!(!ends(&idle).await, "the other may just take it");
    let _used = bench.begin_use(&idle);
    drop(taking);
    assert!(matches!(poll!(next), Poll::Ready(Some(_))));
}

/// Goal: refused requests look again one after the other, in order of arrival, and a request that leaves does not stop that.
/// Method: three wait for the look of a fourth; the first of them leaves.
#[tokio::test]
async fn looks_go_round_in_order() {
    let bench = Bench::new().await;
    let made = bench.connect(HERE).await;
    let _used = bench.begin_use(&made);
    let first = bench.connections.begin_search();
    let mut waits: [AttemptWait; 3] = Default::default();
    for wait in &mut waits {
        wait.ticket();
    }
    let [leaving, one, two] = &mut waits;
    let search = || bench.connections.begin_search();
    let mut leaving = Box::pin(bench.search_again(search(), leaving));
    let mut two = pin!(bench.search_again(search(), two));
    let mut one = pin!(bench.search_again(search(), one));
    assert!(poll!(leaving.as_mut()).is_pending());
    assert!(poll!(two.as_mut()).is_pending() && poll!(one.as_mut()).is_pending());
    drop(first);
    drop(leaving);
    let Poll::Ready(Some(search)) = poll!(one) else {
        panic!("the one that left kept its turn");
    };
    assert!(poll!(two.as_mut()).is_pending());
    drop(search);
    assert!(matches!(poll!(two), Poll::Ready(Some(_))));
    assert_eq!(bench.connections.state().searches, 0);
}

/// Goal: a server without a connection is exhausted, all that wait there are woken, and a release ends that. Method: the only
/// permitted connection is used; one request is refused twice while another waits; the use ends.
#[tokio::test(start_paused = true)]
async fn a_server_without_a_connection_is_exhausted() {
    let bench = Bench::new().await;
    let made = bench.connect(HERE).await;
    let used = bench.begin_use(&made);
    let (mut one, mut two) = (AttemptWait::default(), AttemptWait::default());
    let (search, other) = (
        bench.connections.begin_search(),
        bench.connections.begin_search(),
    );
    let mut two = pin!(bench.search_again(other, &mut two));
    assert!(poll!(two.as_mut()).is_pending());
    let search = bench.search_again(search, &mut one).await;
    let search = search.expect("a connection may have changed hands");
    assert!(!bench.connections.is_exhausted());
    assert!(bench.search_again(search, &mut one).await.is_none());
    assert!(bench.connections.is_exhausted());
    assert!(matches!(poll!(two), Poll::Ready(None)));
    used.end();
    assert!(!bench.connections.is_exhausted());
    let mut late = AttemptWait::default();
    let (search, over) = (
        bench.connections.begin_search(),
        timer::deadline(Duration::ZERO),
    );
    let late = bench.connections.search_again(search, 2, &mut late, over);
    assert!(late.await.is_none(), "its wait has ended");
}

/// Goal: useless connections are closed without a request, and usable ones are not. Method: two idle connections, two sweeps.
#[tokio::test]
async fn sweeps_end_idle_connections_of_other_groups() {
    let bench = Bench::new().await;
    let (here, other) = (bench.connect(HERE).await, bench.connect(OTHER).await);
    bench.begin_use(&here).end();
    bench.begin_use(&other).end();
    bench.connections.sweep(HERE);
    assert!(!ends(&other).await, "it was used since the sweep before");
    bench.connections.sweep(HERE);
    assert!(ends(&other).await && !ends(&here).await);
}
