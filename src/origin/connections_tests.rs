//! Permits without a proxy: sockets to a listener of the test's own.

use futures_util::{FutureExt, poll};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream as Socket};

use super::*;
use crate::config::rules::CircuitRules;

const HERE: Group = Group(1);
const OTHER: Group = Group(2);

fn queue() -> Arc<Queue> {
    Arc::new(Queue::new(CircuitRules {
        requests: None,
        connections: Some(1),
        pending: 1,
        patience: Duration::from_secs(60),
    }))
}

/// A bound of so many, a listener, and what they are about.
struct Bench {
    connections: Arc<Connections>,
    queue: Arc<Queue>,
    listener: TcpListener,
}

/// A connection as the dialer makes one: dropped in this order.
struct Made {
    socket: Socket,
    permit: Permit,
}

impl Bench {
    async fn new() -> Self {
        Self {
            connections: Arc::default(),
            queue: queue(),
            listener: TcpListener::bind("127.0.0.1:0").await.expect("a port"),
        }
    }

    fn permit(&self, most: u32, group: Group) -> Option<Permit> {
        self.connections.permit(most, group, &self.queue)
    }

    async fn connect(&self, group: Group) -> Made {
        self.made(self.socket().await, group)
    }

    /// A connection with a number that nobody else in this process gets: the system gives the lowest that is free.
    async fn connect_as(&self, number: RawFd, group: Group) -> Made {
        let socket = self.socket().await.into_std().expect("a socket");
        let moved = rustix::io::fcntl_dupfd_cloexec(&socket, number).expect("a free number");
        assert_eq!(moved.as_raw_fd(), number);
        let socket = Socket::from_std(moved.into()).expect("a socket");
        self.made(socket, group)
    }

    async fn socket(&self) -> Socket {
        let address = self.listener.local_addr().expect("an address");
        Socket::connect(address).await.expect("a listener")
    }

    fn made(&self, socket: Socket, group: Group) -> Made {
        let mut permit = self.permit(u32::MAX, group).expect("no bound");
        permit.made(&socket).expect("a second handle");
        Made { socket, permit }
    }

    fn begin_use(&self, made: &Made) -> Use {
        let socket = made.socket.as_raw_fd();
        self.connections.begin_use(socket).expect("it has a permit")
    }

    /// Whether the next look is worth while at once, later, or not at all.
    fn pause(&self, refusal: &mut Refusal) -> Option<Duration> {
        self.connections.pause(1, refusal)
    }
}

/// Whether it was asked to close.
async fn ends(made: &Made) -> bool {
    // What is ready is known once the runtime has asked the system.
    tokio::task::yield_now().await;
    let ready = made.socket.ready(Interest::READABLE).now_or_never();
    ready.is_some_and(|ready| ready.is_ok_and(|ready| ready.is_read_closed()))
}

/// Goal: never more permits than may be, each given back once, whatever became of its connection. Method: all taken; one is dropped before
/// it is connected, one after, one when Pingora says so and once more.
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
    assert_eq!((state.open, state.dialing, state.sockets.len()), (0, 0, 0));
}

/// Goal: a copy of a permit gives no right and takes none back. Method: it is dropped.
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

/// Goal: a number that the system gives again is another connection. Method: the use of a connection that has gone ends after another got
/// its number.
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
    drop((used, before.permit));
    let usage = bench.connections.state().sockets[&NUMBER].usage;
    assert_eq!(usage, Usage::By(1));
    drop(using);
    assert_eq!(bench.connections.open(), 1);
}

/// Goal: a refused request may have the permit of a connection that it cannot use. Method: one of another group that is used, that is idle;
/// one of its own group that is idle.
#[tokio::test]
async fn who_is_refused_ends_what_is_of_no_use() {
    let bench = Bench::new().await;
    let other = bench.connect(OTHER).await;
    let used = bench.begin_use(&other);
    assert!(bench.permit(1, HERE).is_none());
    assert!(!ends(&other).await);
    drop(used);
    assert!(bench.permit(1, OTHER).is_none());
    assert!(!ends(&other).await);
    assert!(bench.permit(1, HERE).is_none());
    assert!(!ends(&other).await, "somebody may just want it");
    bench.connections.sweep(OTHER);
    assert!(bench.permit(1, HERE).is_none());
    assert!(ends(&other).await);
    assert_eq!(bench.connections.open(), 1, "until it is closed");
    drop(other);
    assert!(bench.permit(1, HERE).is_some());
}

/// Goal: looks are bounded, wait for connections that are being made, and end what was idle all the time. Method: what a refusal is told
/// while one is made, used, idle.
#[tokio::test]
async fn looks_are_bounded() {
    let bench = Bench::new().await;
    let made = bench.connect(HERE).await;
    let mut refusal = Refusal::default();
    assert_eq!(bench.pause(&mut refusal), Some(CHANGE), "it is being made");
    let used = bench.begin_use(&made);
    for pause in [1, 2, 4, 8, 16] {
        assert_eq!(
            bench.pause(&mut refusal),
            Some(Duration::from_millis(pause))
        );
    }
    assert_eq!(bench.pause(&mut refusal), None);
    drop(used);
    assert_eq!(bench.pause(&mut refusal), None, "it was idle only now");
    refusal.begin_anew();
    refusal.pauses = CONNECTION_PAUSES;
    assert_eq!(bench.pause(&mut refusal), Some(CHANGE));
    assert!(ends(&made).await);
    assert_eq!(bench.pause(&mut refusal), Some(CHANGE), "it closes");
    drop(made);
    assert_eq!(bench.pause(&mut refusal), Some(Duration::ZERO));
    let looks = (0..=CONNECTION_LOOKS)
        .filter(|_| refusal.may_look())
        .count();
    assert_eq!(looks, usize::from(CONNECTION_LOOKS));
}

/// Goal: what nobody can use goes by itself, and what anybody may just take does not. Method: two idle connections, two sweeps.
#[tokio::test]
async fn sweeps_end_idle_connections_of_other_groups() {
    let bench = Bench::new().await;
    let (here, other) = (bench.connect(HERE).await, bench.connect(OTHER).await);
    drop((bench.begin_use(&here), bench.begin_use(&other)));
    bench.connections.sweep(HERE);
    assert!(!ends(&other).await, "it was used since the sweep before");
    bench.connections.sweep(HERE);
    assert!(ends(&other).await && !ends(&here).await);
}

/// Goal: a connection that closes wakes who waits for it. Method: a look that waits, and a permit that ends.
#[tokio::test]
async fn an_end_is_heard() {
    let bench = Bench::new().await;
    let made = bench.connect(HERE).await;
    let (mut refusal, mut late) = (Refusal::default(), Refusal::default());
    let end = bench.queue.deadline();
    let mut look = pin!(bench.connections.another_look(1, &mut refusal, end));
    assert!(poll!(look.as_mut()).is_pending());
    bench.connections.exhaust();
    drop(made);
    assert!(look.await);
    assert!(!bench.connections.is_exhausted());
    let over = clock::deadline(Duration::ZERO);
    assert!(!bench.connections.another_look(1, &mut late, over).await);
}
