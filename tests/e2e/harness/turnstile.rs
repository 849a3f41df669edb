//! A way to an origin that knows how many connections were open on it together.
//!
//! It passes bytes on. When a connection comes it looks at all that came before: whichever is still open then was open when this one
//! came, so what it counts was there, and never an end that it only heard of too late.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use futures_util::FutureExt;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::ports::listen_blocking;

/// It stops when dropped.
pub struct Turnstile {
    pub address: SocketAddr,
    seen: Arc<Seen>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    came: AtomicUsize,
    most: AtomicUsize,
}

impl Turnstile {
    /// One before the origin at this address.
    pub fn before(origin: SocketAddr) -> Self {
        let listener = listen_blocking();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn({
            let seen = Arc::clone(&seen);
            move || serve(listener, origin, &seen, stopped)
        });
        Self {
            address,
            seen,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// How many connections came so far.
    pub fn came(&self) -> usize {
        self.seen.came.load(Ordering::SeqCst)
    }

    /// The most that were open together.
    pub fn most(&self) -> usize {
        self.seen.most.load(Ordering::SeqCst)
    }
}

impl Drop for Turnstile {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    listener: std::net::TcpListener,
    origin: SocketAddr,
    seen: &Seen,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).unwrap();
        let mut others = Vec::new();
        let accept = async {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // What is closed is known once the runtime has asked the system.
                tokio::task::yield_now().await;
                others.retain(is_open);
                others.push(handle(&stream));
                seen.came.fetch_add(1, Ordering::SeqCst);
                seen.most.fetch_max(others.len(), Ordering::SeqCst);
                tokio::spawn(pass(stream, origin));
            }
        };
        tokio::select! {
            () = accept => {}
            _ = stopped => {}
        }
    });
}

/// Whether the gateway has not closed its end.
fn is_open(socket: &TcpStream) -> bool {
    let ready = socket.ready(Interest::READABLE).now_or_never();
    !ready.is_some_and(|ready| ready.unwrap().is_read_closed())
}

/// Another handle of the same socket.
fn handle(stream: &TcpStream) -> TcpStream {
    let socket = std::net::TcpStream::from(stream.as_fd().try_clone_to_owned().unwrap());
    TcpStream::from_std(socket).unwrap()
}

async fn pass(mut stream: TcpStream, origin: SocketAddr) {
    // An error is the other end's leaving, which the test sees in its own way.
    if let Ok(mut behind) = TcpStream::connect(origin).await {
        let _ = stream.set_nodelay(true);
        let _ = behind.set_nodelay(true);
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut behind).await;
    }
    // The second handle of the socket would keep it open.
    let _ = stream.shutdown().await;
}
