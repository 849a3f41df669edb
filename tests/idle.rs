//! Bytes that an idle connection holds, counted at the allocator: exact, unlike resident memory.
//!
//! A listener serves connections in this process, in a time that passes at once. What 200 connections hold is divided by their number, so
//! a byte of other threads does not count. The clients' ends of the connections count too.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "in a test a panic is the report"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate::config::rules::{AccessLogTarget, LogRules};
use sluicegate::config::{no_review, parse};
use sluicegate_budgets::OpenFiles;
use sluicegate_decide::admission::KeySeed;
use sluicegate_decide::state::{CounterStorage, PersistenceMode};
use sluicegate_edge::listener::{ConnectionApp, Intake};
use sluicegate_process::GatewayProcess;
use sluicegate_record::{AccessLog, RequestMetrics, RequestRecorder};
use sluicegate_tls::client_socket::ClientSocket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::sleep;

const CONFIGURATION: &str = "
    listener = [{ address = '127.0.0.1:8080' }]
    route = [{ path = '/*', respond = { status = 200, body = 'hello' } }]
    server = { max_headers = 250, keepalive_timeout = '1h', max_connections = 10000, max_connections_per_client = 10000 }
";

const CONNECTIONS: usize = 200;

/// Bytes that one connection of HTTP/1.1 may hold between two requests. With what the allocator adds and a socket has,
/// it stays below 4 KB of resident memory.
const MOST_HELD: usize = 3072;

/// Bytes that are allocated.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count.
struct CountedAllocator;

// SAFETY: every call goes to the system's allocator as it is; the count touches no memory of it.
unsafe impl GlobalAlloc for CountedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed, here and below: a sum that is read once everything is at rest.
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise about the pointer and its layout is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountedAllocator = CountedAllocator;

/// A listener, and what tells its connections of a shutdown.
struct Listener {
    intake: Arc<Intake>,
    sockets: TcpListener,
    shutdown: watch::Sender<bool>,
}

impl Listener {
    async fn new() -> Self {
        let rules = parse("gateway.toml", CONFIGURATION, no_review)
            .unwrap()
            .rules;
        let log = AccessLog::start(&LogRules::to(AccessLogTarget::Off)).unwrap();
        let recorder = RequestRecorder::new(Arc::new(RequestMetrics::new()), log);
        let (storage, seed) = CounterStorage::open(PersistenceMode::Process).unwrap();
        let (seed, files) = (KeySeed::from_seed(seed), OpenFiles::default());
        let file = Path::new("/etc/sluicegate/gateway.toml");
        let process = GatewayProcess::new(file, rules, recorder, storage, seed, files);
        let address = "127.0.0.1:8080".parse().unwrap();
        Self {
            intake: Arc::new(Intake::new(process.shared, address)),
            sockets: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            shutdown: watch::Sender::new(false),
        }
    }

    /// Returns a connection whose first request has so many fields, once it is answered.
    async fn ask(&self, fields: usize) -> TcpStream {
        let mut client = TcpStream::connect(self.sockets.local_addr().unwrap())
            .await
            .unwrap();
        let (server, peer) = self.sockets.accept().await.unwrap();
        let server = ClientSocket::new(server, peer);
        let shutdown = self.shutdown.subscribe();
        let permit = self.intake.admit(peer).expect("room");
        tokio::spawn(Arc::clone(&self.intake).serve(server, permit, shutdown));
        request(&mut client, fields).await;
        client
    }

    /// Returns the bytes that each of many connections holds once it is idle.
    async fn held(&self, fields: usize) -> usize {
        let before = ALLOCATED.load(Ordering::Relaxed);
        let mut connections = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            connections.push(self.ask(fields).await);
        }
        // Time is paused, and passes once nothing is left to do.
        sleep(Duration::from_secs(10)).await;
        let held = (ALLOCATED.load(Ordering::Relaxed) - before) / CONNECTIONS;
        // They still serve.
        for connection in &mut connections {
            request(connection, 3).await;
        }
        drop(connections);
        // The next count begins once they have ended, and only this listener has the intake.
        while Arc::strong_count(&self.intake) > 1 {
            yield_now().await;
        }
        held
    }
}

/// Sends a request with so many fields, and reads its answer. All heads have the same length.
async fn request(client: &mut TcpStream, fields: usize) {
    const LINES: usize = 4_000;
    let mut lines: String = (2..fields)
        .map(|number| format!("x-{number}: 1\r\n"))
        .collect();
    lines += &format!("filler: {}\r\n", "f".repeat(LINES - lines.len()));
    let head = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    while !read.ends_with(b"hello") {
        assert!(client.read_buf(&mut read).await.unwrap() > 0, "the end");
    }
    assert!(read.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

/// Goal: an idle connection of HTTP/1.1 holds no more than that, and after a request with many fields not a byte more: neither
/// the list of its fields nor the bytes of its head. Method: connections whose only request has 3 fields, and others with 250; each serves
/// another request in the end.
#[test]
fn an_idle_connection_gives_back_what_its_request_took() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = Listener::new().await;
        // The first ones bring what the process keeps.
        listener.held(250).await;
        let few = listener.held(3).await;
        let many = listener.held(250).await;
        assert!(few <= MOST_HELD, "{few} bytes");
        assert!(
            many <= few + 16,
            "{many} bytes after many fields, {few} after few"
        );
    });
}
