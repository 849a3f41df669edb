//! Tests the places of idle connections with sockets to a listener of the test. Each test runs on a thread of its own.

use std::sync::Arc;
use std::task::Wake;

use pingora::protocols::l4::stream::Stream as Socket;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::*;

const KEY: u64 = 7;
const OTHER_THREAD: ThreadNumber = ThreadNumber(u64::MAX);

/// A server, the list of its connections, and the other ends of these.
struct Bench {
    listener: TcpListener,
    all: Arc<IdleConnections>,
    list: Arc<IdleList>,
    ends: Vec<TcpStream>,
}

impl Bench {
    /// Returns a server where as many connections may be idle.
    async fn new(most: usize) -> Self {
        let list = Arc::<IdleList>::default();
        list.accept_only(Some(KEY), PoolGeneration::default());
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.expect("a port"),
            all: IdleConnections::new(most),
            list,
            ends: Vec::new(),
        }
    }

    /// Returns another server of the same process.
    async fn beside(&self) -> Self {
        let all = Arc::clone(&self.all);
        Self {
            all,
            ..Self::new(0).await
        }
    }

    async fn connection(&mut self) -> IdleConnection {
        self.idle(thread::number(), None).await
    }

    async fn idle(&mut self, thread: ThreadNumber, timeout: Option<Duration>) -> IdleConnection {
        let address = self.listener.local_addr().expect("an address");
        let (socket, accepted) = tokio::join!(TcpStream::connect(address), self.listener.accept());
        self.ends.push(accepted.expect("a connection").0);
        let home = ConnectionHome {
            key: KEY,
            list: Arc::downgrade(&self.list),
            thread,
            location: IdleLocation::Thread,
        };
        let socket = Socket::from(socket.expect("a listener"));
        let stream = (Box::new(socket) as _, IdleCheck::Readiness);
        IdleConnection::new(stream, ReusableTimeout::default(), home, timeout)
    }

    /// Takes a connection as a request does.
    fn take(&self) -> Option<IdleConnection> {
        match thread::take(KEY, &self.all) {
            Ok(idle) => Some(idle),
            Err(from) => self.list.take(KEY, from),
        }
    }

    fn keep(&self, idle: IdleConnection) {
        thread::keep(idle, &self.all);
    }

    /// Uses connections until the thread is busy. Returns the connection that it used.
    async fn become_busy(&mut self) -> IdleConnection {
        let mut idle = self.connection().await;
        for _ in 0..BUSY_USES {
            self.keep(idle);
            idle = self.take().expect("it was kept");
        }
        idle
    }

    /// Returns how many connections are in the list.
    fn listed(&self) -> usize {
        std::iter::from_fn(|| self.list.take(KEY, TakeFrom::AllThreads))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|idle| self.all.put(idle))
            .count()
    }
}

/// Lets the tasks of sweeps run, and the runtime read the state of sockets.
async fn sweep() {
    tokio::time::sleep(SWEEP_INTERVAL + Duration::from_millis(1)).await;
}

/// Goal: a thread that uses a server seldom keeps nothing for itself. Method: it keeps one connection; another thread takes it.
#[tokio::test]
async fn a_thread_that_is_not_busy_shares() {
    let mut bench = Bench::new(10).await;
    let idle = bench.connection().await;
    bench.keep(idle);
    assert_eq!((thread::kept(), bench.all.taken()), (0, 1));
    let taken = std::thread::scope(|scope| {
        let other = || bench.list.take(KEY, TakeFrom::AllThreads).is_some();
        scope.spawn(other).join().expect("it does not panic")
    });
    assert!(taken);
    assert_eq!(bench.all.taken(), 0);
}

/// Goal: other threads cannot take what a busy thread needs, and get what it did not need for an interval, and all once it is no longer
/// busy. Method: three connections, of which two at a time are used; sweeps.
#[tokio::test(start_paused = true)]
async fn a_busy_thread_keeps_what_it_needs() {
    let mut bench = Bench::new(10).await;
    let one = bench.become_busy().await;
    let others = [bench.connection().await, bench.connection().await];
    bench.keep(one);
    others.into_iter().for_each(|idle| bench.keep(idle));
    assert_eq!((thread::kept(), bench.listed()), (3, 0));
    sweep().await;
    assert_eq!(
        (thread::kept(), bench.all.taken()),
        (3, 3),
        "it had none before"
    );
    for _ in 0..BUSY_USES {
        let used = [bench.take(), bench.take()];
        used.into_iter().flatten().for_each(|idle| bench.keep(idle));
    }
    sweep().await;
    assert_eq!((thread::kept(), bench.listed()), (2, 1));
    sweep().await;
    assert_eq!((thread::kept(), bench.listed()), (0, 3));
    assert_eq!(bench.all.taken(), 3);
}

/// Goal: a busy thread uses few connections of others, because each wakes the other thread: it never keeps them, and takes one of its own
/// first. Method: a list with connections of both.
#[tokio::test]
async fn connections_of_other_threads_are_borrowed() {
    let mut bench = Bench::new(1000).await;
    let own = bench.become_busy().await;
    let foreign = bench.idle(OTHER_THREAD, None).await;
    bench.keep(foreign);
    assert_eq!((thread::kept(), bench.listed()), (0, 1));
    bench.all.put(own);
    let foreign = bench.idle(OTHER_THREAD, None).await;
    bench.all.put(foreign);
    let own = bench.take().expect("two are listed");
    assert_eq!(own.home.thread, thread::number());
    let foreign = bench.take().expect("one is listed");
    assert_eq!(foreign.home.thread, OTHER_THREAD);
    bench.keep(foreign);
    let miss = |_| thread::take(KEY, &bench.all).err();
    let misses: Vec<_> = (0..=BUSY_USES).filter_map(miss).collect();
    assert_eq!(misses.last(), Some(&TakeFrom::OwnThread));
    assert!(bench.list.take(KEY, TakeFrom::OwnThread).is_none());
    assert!(bench.list.take(KEY, TakeFrom::AllThreads).is_some());
}

/// Goal: a thread finds its own connections behind any number of others, so that it opens none while it has an idle one. Method: one of its
/// own, then a hundred of another thread.
#[tokio::test]
async fn a_thread_finds_its_own_behind_others() {
    let mut bench = Bench::new(1000).await;
    let own = bench.connection().await;
    bench.all.put(own);
    for _ in 0..100 {
        let foreign = bench.idle(OTHER_THREAD, None).await;
        bench.all.put(foreign);
    }
    let own = bench.list.take(KEY, TakeFrom::OwnThread);
    assert_eq!(own.map(|idle| idle.home.thread), Some(thread::number()));
    assert!(bench.list.take(KEY, TakeFrom::OwnThread).is_none());
    assert_eq!(bench.listed(), 100);
}

/// Goal: the number of idle connections is bounded, and the one that is idle for the longest time is closed. Method: three places, taken
/// by a busy thread and the lists of two servers; one more.
#[tokio::test(start_paused = true)]
async fn the_longest_idle_connection_makes_room() {
    let mut one = Bench::new(3).await;
    let mut two = one.beside().await;
    let kept = one.become_busy().await;
    one.keep(kept);
    for bench in [&mut one, &mut two] {
        tokio::time::advance(Duration::from_millis(1)).await;
        let idle = bench.idle(OTHER_THREAD, None).await;
        bench.keep(idle);
    }
    assert_eq!((one.listed(), two.listed(), one.all.taken()), (1, 1, 3));
    let further = two.idle(OTHER_THREAD, None).await;
    two.keep(further);
    assert_eq!((one.listed(), two.listed(), one.all.taken()), (0, 2, 3));
    assert_eq!(thread::kept(), 1);
    drop(one.take());
    drop((two.list.take_longest_idle(), two.list.take_longest_idle()));
    sweep().await;
    assert_eq!(one.all.taken(), 0);
}

/// Goal: connections of no use are closed, in threads as in lists. Method: one whose server closed it, one that received a byte, one whose
/// timeout has passed, and one that is well, in both places.
#[tokio::test(start_paused = true)]
async fn sweeps_close_connections_of_no_use() {
    let mut bench = Bench::new(100).await;
    drop(bench.become_busy().await);
    bench.ends.clear();
    for thread in [thread::number(), OTHER_THREAD] {
        let timeout = Some(SWEEP_INTERVAL / 2);
        let closed = bench.idle(thread, None).await;
        drop(bench.ends.pop());
        let written = bench.idle(thread, None).await;
        let end = bench.ends.last_mut().expect("a connection");
        end.write_all(b"x").await.expect("it is open");
        let expired = bench.idle(thread, timeout).await;
        let well = bench.idle(thread, None).await;
        [closed, written, expired, well]
            .into_iter()
            .for_each(|idle| bench.keep(idle));
    }
    assert_eq!((thread::kept(), bench.all.taken()), (4, 8));
    sweep().await;
    assert_eq!((thread::kept(), bench.all.taken()), (1, 2));
    sweep().await;
    assert_eq!((thread::kept(), bench.listed()), (0, 2));
}

/// Goal: a connection is never used for another kind of peer, and what no request can use is closed soon. Method: the key changes, by a
/// reload; a look-up of the configuration before ends late; the server is removed.
#[tokio::test(start_paused = true)]
async fn another_key_closes_all() {
    let mut bench = Bench::new(100).await;
    let own = bench.become_busy().await;
    bench.keep(own);
    let listed = bench.idle(OTHER_THREAD, None).await;
    bench.keep(listed);
    assert_eq!(bench.all.taken(), 2);
    let (before, after) = (PoolGeneration::default(), PoolGeneration::default().next());
    bench.list.accept_only(Some(KEY + 1), after);
    assert_eq!(bench.all.taken(), 1);
    bench.list.accept_only(Some(KEY), before);
    assert!(bench.list.accepts(KEY + 1));
    assert!(bench.list.take(KEY, TakeFrom::AllThreads).is_none());
    sweep().await;
    assert_eq!((thread::kept(), bench.all.taken()), (0, 0));
    let late = bench.idle(OTHER_THREAD, None).await;
    bench.keep(late);
    assert_eq!(bench.all.taken(), 0);
    bench.list.accept_only(None, after.next());
    assert!(!bench.list.accepts(KEY + 1));
}

/// Goal: a list that is gone keeps no place and no connection. Method: the state of its server is dropped.
#[tokio::test(start_paused = true)]
async fn a_removed_server_leaves_nothing() {
    let mut bench = Bench::new(100).await;
    let own = bench.become_busy().await;
    bench.keep(own);
    let listed = bench.idle(OTHER_THREAD, None).await;
    bench.keep(listed);
    bench.list = Arc::default();
    assert_eq!((thread::kept(), bench.all.taken()), (1, 1));
    sweep().await;
    assert_eq!((thread::kept(), bench.all.taken()), (0, 0));
}

/// A task of which only its waker is known.
struct Task;

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

/// Waits with the timer of a connection. Returns the task that it would wake.
fn wait_with(idle: &mut IdleConnection) -> Arc<Task> {
    let task = Arc::new(Task);
    let waker = Waker::from(Arc::clone(&task));
    let never = pin!(std::future::pending::<()>());
    let waiting = pin!(idle.timeout.wait(never, 10 * SWEEP_INTERVAL));
    assert!(waiting.poll(&mut Context::from_waker(&waker)).is_pending());
    task
}

/// Goal: an idle connection, in a list or in its thread, does not keep the memory of the task that used it last. Method: tasks whose wakers
/// are counted wait with the timers of two connections; a sweep.
#[tokio::test(start_paused = true)]
async fn an_idle_connection_releases_its_task() {
    let mut bench = Bench::new(10).await;
    let mut listed = bench.connection().await;
    let of_listed = wait_with(&mut listed);
    bench.keep(listed);
    let mut kept = bench.become_busy().await;
    let of_kept = wait_with(&mut kept);
    bench.keep(kept);
    assert_eq!((thread::kept(), bench.all.taken()), (1, 2));
    for task in [&of_listed, &of_kept] {
        assert!(Arc::strong_count(task) > 1);
    }
    sweep().await;
    assert_eq!((thread::kept(), bench.all.taken()), (1, 2));
    for task in [&of_listed, &of_kept] {
        assert_eq!(Arc::strong_count(task), 1);
    }
}

/// Goal: where a second response is likely, one that came since the runtime last asked the kernel is found, too. Method: two connections
/// whose server sends bytes while the runtime does not run; the check by readiness alone does not see them.
#[tokio::test]
async fn bytes_that_the_runtime_has_not_seen_are_found() {
    let mut bench = Bench::new(10).await;
    let mut by_readiness = bench.connection().await;
    let mut by_socket = bench.connection().await;
    by_socket.check = IdleCheck::Socket;
    for end in &bench.ends {
        end.writable().await.expect("an open connection");
    }
    assert!(by_readiness.is_silent() && by_socket.is_silent());
    for end in &bench.ends {
        let sent = end.try_write(b"HTTP/1.1 200 OK\r\n\r\n");
        assert!(sent.is_ok_and(|bytes| bytes > 0));
    }
    assert!(by_readiness.is_silent() && !by_socket.is_silent());
}

/// Goal: the check of the socket finds the end of a connection, and disturbs none that goes on. Method: a server that ends one.
#[tokio::test]
async fn a_checked_socket_that_ended_is_not_silent() {
    let mut bench = Bench::new(10).await;
    let mut idle = bench.connection().await;
    idle.check = IdleCheck::Socket;
    assert!(idle.is_silent() && idle.is_silent());
    bench.ends.clear();
    assert!(!idle.is_silent());
}

/// Goal: bytes that came a moment ago, which the runtime has not reported, are found where the socket itself is to be looked at. Method:
/// the other end writes, and the thread of the runtime does not wait for events before the check.
#[tokio::test]
async fn bytes_that_the_runtime_has_not_reported_are_found() {
    for (check, is_silent) in [(IdleCheck::Readiness, true), (IdleCheck::Socket, false)] {
        let mut bench = Bench::new(10).await;
        let mut idle = bench.connection().await;
        idle.check = check;
        assert!(idle.is_silent(), "{check:?}");
        let end = bench.ends.pop().expect("its other end");
        assert_eq!(end.try_write(b"x").expect("room for a byte"), 1);
        while idle.has_empty_socket() {
            std::thread::yield_now();
        }
        assert_eq!(idle.is_silent(), is_silent, "{check:?}");
    }
}
