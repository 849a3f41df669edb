//! How many requests a server gets at once with `adaptive_concurrency`, and whose are rejected first.
//!
//! [`Workers`] is a server that works on so many requests at a time. [`Steps`] is one whose time, and that of the gateway, the test sets,
//! so that a busy machine changes no latency. The controller itself is tested against a model; here it is seen that the real gateway
//! measures, limits, counts clients and says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate_limiter::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use super::on_demand::OnDemand;
use super::*;

/// A server that works on so many requests at a time and queues the others, as many as come.
pub(super) struct Workers {
    pub(super) address: SocketAddr,
    /// Requests that have come and were not answered, and the most of them since it was last asked.
    present: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    /// Milliseconds that a request takes.
    service: Arc<AtomicU64>,
}

impl Workers {
    pub(super) async fn start(workers: usize, service: u64) -> Self {
        let listener = listen();
        let server = Self {
            address: listener.local_addr().unwrap(),
            present: Arc::default(),
            most: Arc::default(),
            service: Arc::new(AtomicU64::new(service)),
        };
        let free = Arc::new(Semaphore::new(workers));
        let (present, most) = (Arc::clone(&server.present), Arc::clone(&server.most));
        let service = Arc::clone(&server.service);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (present, most) = (Arc::clone(&present), Arc::clone(&most));
                let (free, service) = (Arc::clone(&free), Arc::clone(&service));
                tokio::spawn(serve(stream, free, service, present, most));
            }
        });
        server
    }

    /// Returns the most requests that were there since the last call.
    fn most(&self) -> usize {
        self.most.swap(0, Ordering::SeqCst)
    }
}

async fn serve(
    mut stream: TcpStream,
    free: Arc<Semaphore>,
    service: Arc<AtomicU64>,
    present: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
) {
    let mut read = Vec::new();
    loop {
        while !read.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read_buf(&mut read).await {
                Ok(1..) => {}
                _ => return,
            }
        }
        read.clear();
        most.fetch_max(present.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let worker = free.acquire().await.unwrap();
        tokio::time::sleep(Duration::from_millis(service.load(Ordering::SeqCst))).await;
        drop(worker);
        present.fetch_sub(1, Ordering::SeqCst);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// The pause of a client after a rejection. Otherwise rejections take the machine, and each server looks slow.
const REJECTED: Duration = Duration::from_millis(50);

/// Clients that send their next request as soon as the last one was answered, until they are told to stop.
pub(super) struct Crowd {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<[u64; 2]>>,
}

impl Crowd {
    /// So many clients at this address.
    pub(super) fn of(clients: usize, from: &'static str, gateway: &Gateway) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let to = gateway.address();
        let client = |_| {
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let mut client = Client::connect_from(from, to).await;
                let mut answered = [0; 2];
                at_a_pace(REJECTED, async move || {
                    while !stop.load(Ordering::SeqCst) {
                        let is_rejected = client.get("/").await.status == 503;
                        answered[usize::from(is_rejected)] += 1;
                        if is_rejected {
                            return None;
                        }
                    }
                    Some(answered)
                })
                .await
            })
        };
        Self {
            clients: (0..clients).map(client).collect(),
            stop,
        }
    }

    /// Stops them; returns how many requests were answered, and how many rejected.
    pub(super) async fn end(self) -> [u64; 2] {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = [0; 2];
        for client in self.clients {
            let answered = client.await.unwrap();
            all = [all[0] + answered[0], all[1] + answered[1]];
        }
        all
    }
}

async fn limited(server: SocketAddr, lines: &str) -> Gateway {
    Setup::new()
        .servers("app", &[server])
        .origin_line(lines)
        .rules(PASS)
        .start()
        .await
}

/// The limit in `/origins`.
async fn limit(gateway: &Gateway) -> Value {
    let origins = gateway.admin(get("/origins")).await.json();
    origins["origins"][0]["servers"][0]["limit"].clone()
}

/// Waits until the limit is as `right` says.
async fn limit_is(gateway: &Gateway, what: &str, right: impl Fn(u64) -> bool) -> u64 {
    eventually(what, async || {
        let most = limit(gateway).await["requests"].as_u64().unwrap();
        right(most).then_some(most)
    })
    .await
}

/// The time that a worker of [`Steps`] takes for a request.
const STEP: Duration = Duration::from_millis(20);

/// A server whose workers each answer one request in [`STEP`], and clients that send their next request in the step after the last one was
/// answered or rejected. A step ends when all requests have come to the server or were rejected, however long that takes, so latencies are
/// whole steps, and depend on nothing but the number of requests.
struct Steps {
    server: OnDemand,
    workers: usize,
    gateway: Gateway,
    clock: DrivenClock,
    now: Timestamp,
    clients: Vec<Client>,
    requests: JoinSet<(Client, u16)>,
    answered: usize,
    rejected: usize,
}

impl Steps {
    /// So many workers, and one client.
    async fn of(workers: usize, lines: &str) -> Self {
        let server = OnDemand::taking(1_000).await;
        let setup = Setup::new()
            .servers("app", &[server.address])
            .origin_line(&format!("protocol = \"h2c\"\n{lines}"))
            .rules(PASS);
        let gateway = setup.with_driven_clock().start().await;
        let (mut clock, now) = (gateway.clock(), Timestamp::from_secs(1_900_000_000));
        clock.set(now);
        Self {
            server,
            workers,
            clients: vec![gateway.client().await],
            gateway,
            clock,
            now,
            requests: JoinSet::new(),
            answered: 0,
            rejected: 0,
        }
    }

    /// Lets one step pass. Returns the number of requests that the server had.
    async fn pass(&mut self) -> usize {
        for mut client in self.clients.drain(..) {
            let request = async move {
                let status = client.get("/").await.status;
                (client, status)
            };
            self.requests.spawn(request);
        }
        let (requests, server) = (&mut self.requests, &self.server);
        let (clients, rejected) = (&mut self.clients, &mut self.rejected);
        let answered = self.answered;
        let present = eventually("the server has what was not rejected", async || {
            while let Some(ended) = requests.try_join_next() {
                let (client, status) = ended.unwrap();
                assert_eq!(status, 503);
                *rejected += 1;
                clients.push(client);
            }
            let present = server.asked().len() - answered;
            (requests.len() == present).then_some(present)
        })
        .await;
        self.now = self.now.saturating_add(STEP);
        self.clock.set(self.now);
        let done = present.min(self.workers);
        self.server.answer(done);
        self.answered += done;
        for _ in 0..done {
            let (client, status) = self.requests.join_next().await.unwrap().unwrap();
            assert_eq!(status, 200);
            self.clients.push(client);
        }
        present
    }
}

#[tokio::test]
async fn an_overloaded_server_gets_no_more_than_it_can_work_on() {
    // Goal: the limit comes down to what the server works on, from one that is far too large, and stays there; requests beyond are
    // rejected, and their cause is in the metric. Method: six workers of 20 ms, a hundred clients, and a limit that begins at
    // eighty; the requests that the server has in each step of 20 ms.
    let lines = "adaptive_concurrency = { min = 2, max = 200, initial = 80, window = \"50ms\" }";
    let mut steps = Steps::of(6, lines).await;
    // A few requests alone, so that the gateway knows the server without a queue.
    for _ in 0..30 {
        assert_eq!(steps.pass().await, 1);
    }
    let alone = limit(&steps.gateway).await;
    assert_eq!(alone["requests"], 80);
    assert_eq!(alone["baseline_ms"].as_f64(), Some(20.0));
    for _ in 1..100 {
        let client = Client::connect_from("127.0.0.2", steps.gateway.address()).await;
        steps.clients.push(client);
    }
    // A single network may have two thirds of the places.
    let first = steps.pass().await;
    assert!((50..=54).contains(&first), "{first}");
    for _ in 0..100 {
        steps.pass().await;
    }
    // Enough for the workers; a queue of as much again, and one step more in a probe or when the limit grows.
    for _ in 0..100 {
        let present = steps.pass().await;
        assert!((6..=18).contains(&present), "{present}");
    }
    let Steps {
        gateway, rejected, ..
    } = &steps;
    let metrics = gateway.metrics().await;
    let failures = "sluicegate_origin_failures_total";
    let heavy = metrics.sum(failures, &[("failure", "heavy-client")]);
    let full = metrics.sum(failures, &[("failure", "adaptive-limit")]);
    assert_eq!((heavy + full) as usize, *rejected);
    let most = metrics.sum("sluicegate_origin_concurrency_limit", &[("origin", "app")]);
    assert!((6.0..40.0).contains(&most), "{most}");
    let baseline = metrics.sum("sluicegate_origin_baseline_latency_seconds", &[]);
    // Probes measure it among queues of whole steps.
    assert!((0.02..0.04).contains(&baseline), "{baseline}");
}

/// Sends a hundred requests from each of three networks, one at a time each, and returns how many were rejected.
async fn light_clients(gateway: &Gateway) -> u32 {
    let clients = ["127.1.0.1", "127.2.0.1", "127.3.0.1"].map(|from| {
        let to = gateway.address();
        tokio::spawn(async move {
            let mut client = Client::connect_from(from, to).await;
            let mut rejected = 0;
            for _ in 0..100 {
                rejected += u32::from(client.get("/").await.status == 503);
            }
            rejected
        })
    });
    let mut rejected = 0;
    for client in clients {
        rejected += client.await.unwrap();
    }
    rejected
}

/// Starts a hundred connections from two addresses of one /24, and waits until they are rejected as a heavy client.
async fn heavy_client(gateway: &Gateway) -> [Crowd; 2] {
    let crowds = ["127.0.0.2", "127.0.0.3"].map(|from| Crowd::of(50, from, gateway));
    let rejected = "sluicegate_origin_failures_total";
    eventually("the heavy client is rejected", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum(rejected, &[("failure", "heavy-client")]) > 100.0).then_some(())
    })
    .await;
    crowds
}

#[tokio::test]
async fn light_clients_are_never_rejected_while_they_need_less_than_is_left() {
    // Goal: whatever a heavy client does, by many addresses of one network too, others get in as long as they need no more than the third
    // of the places that it leaves; the process log names the cause. Method: a limit that is fixed at twelve, of which a heavy client gets
    // eight; three light clients.
    let server = Workers::start(8, 20).await;
    // Of several threads each may let one request of the heavy client in at the moment at which there is room for one.
    let gateway = Setup::new()
        .servers("app", &[server.address])
        .origin_line("adaptive_concurrency = { min = 12, max = 12 }")
        .rules(&format!("[server]\nthreads = 1\n{PASS}"))
        .start()
        .await;
    let heavy = heavy_client(&gateway).await;
    assert!(
        gateway
            .stderr()
            .contains("heavy-client: the servers are busy")
    );
    assert_eq!(light_clients(&gateway).await, 0);
    for crowd in heavy {
        crowd.end().await;
    }
    assert!(server.most() <= 12);
}

#[tokio::test]
async fn light_clients_get_in_while_the_limit_follows_the_latency() {
    // Goal: the same for a limit that the gateway finds. Method: the same load. The model of the unit tests asserts one rejection in a
    // hundred. Here it is one in twenty, since latencies are those of a real clock: whenever the machine pauses all of it for some
    // milliseconds, the server looks slow, and until the next windows the limit is below what the others need.
    let server = Workers::start(8, 20).await;
    let lines = "adaptive_concurrency = { initial = 12, window = \"100ms\" }";
    let gateway = limited(server.address, lines).await;
    let heavy = heavy_client(&gateway).await;
    let of_light = light_clients(&gateway).await;
    let mut of_heavy = [0; 2];
    for crowd in heavy {
        let answered = crowd.end().await;
        of_heavy = [of_heavy[0] + answered[0], of_heavy[1] + answered[1]];
    }
    assert!(
        of_light <= 300 / 20,
        "{of_light} of 300 light requests were rejected"
    );
    assert!(of_heavy[0] > 0 && of_heavy[1] > of_heavy[0], "{of_heavy:?}");
}

#[tokio::test]
async fn requests_wait_in_turn_where_there_is_a_queue() {
    // Goal: with a queue, requests beyond the limit wait in its order instead of being rejected. Method: a limit of two, a queue for fifty
    // that takes clients in turn; twenty requests of one client and one of another, all of which are served.
    let server = Workers::start(2, 20).await;
    let lines = "adaptive_concurrency = { min = 2, max = 2 }\n\
        circuit_breaker = { max_requests = 100, max_pending = 50, pending_timeout = \"1m\", queue_order = \"fair\" }";
    let gateway = limited(server.address, lines).await;
    let ask = |from: &'static str| {
        let to = gateway.address();
        tokio::spawn(async move { Client::connect_from(from, to).await.get("/").await.status })
    };
    let all: Vec<_> = (0..20)
        .map(|_| ask("127.0.0.2"))
        .chain([ask("127.1.0.1")])
        .collect();
    for one in all {
        assert_eq!(one.await.unwrap(), 200);
    }
    assert!(server.most() <= 2);
}

#[tokio::test]
async fn what_takes_long_after_its_head_takes_no_place() {
    // Goal: WebSockets, downloads and slow uploads neither hold places nor count as latency. Method: a limit of one; while each of them is
    // open, other requests are answered.
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/socket" => Reply::WebSocket,
        "/stream" => Reply::Drip {
            piece: "more",
            every: Duration::from_secs(1),
            pieces: 1000,
        },
        _ => Answer::new(200).into(),
    });
    let lines = "adaptive_concurrency = { min = 1, max = 1 }";
    let gateway = limited(origin.address(), lines).await;
    let _socket = gateway.websocket().await;
    let mut stream = gateway.raw().await;
    stream
        .write(b"GET /stream HTTP/1.1\r\nhost: a\r\n\r\n")
        .await;
    assert_eq!(stream.read_response_to_head().await.status, 200);
    let mut upload = gateway.raw().await;
    upload
        .write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n12345")
        .await;
    eventually("all three are there", async || {
        let server = gateway.status().await["origins"][0]["servers"][0].clone();
        (server["in_flight"] == 3 && server["limit"]["waiting"] == 0).then_some(())
    })
    .await;
    for _ in 0..20 {
        assert_eq!(gateway.get("/").await.status, 200);
    }
    let baseline = limit(&gateway).await["baseline_ms"].as_f64().unwrap();
    assert!(baseline < 5_000.0, "{baseline}");
}

#[tokio::test]
async fn a_limit_survives_reloads() {
    // Goal: a reload that changes something else, or the limits of the limit, keeps what was learned. Method: a limit that has grown.
    let server = Workers::start(50, 5).await;
    let lines = "adaptive_concurrency = { min = 2, max = 40, initial = 4, window = \"20ms\" }";
    let mut gateway = limited(server.address, lines).await;
    let crowd = Crowd::of(60, "127.0.0.2", &gateway);
    let grown = limit_is(&gateway, "the limit grows", |most| most >= 20).await;
    crowd.end().await;
    let before = limit(&gateway).await;
    assert!(before["requests"].as_u64().unwrap() >= grown / 2);
    gateway
        .reload(&format!(
            "{PASS}[[route]]\npath = \"/other\"\norigin = \"app\"\n"
        ))
        .await;
    assert_eq!(limit(&gateway).await, before);
}

#[tokio::test]
async fn explain_says_how_much_a_server_gets() {
    // Goal: what an origin does under overload can be read before it happens. Method: an origin without a queue, and one with.
    let origin = |name: &str, lines: &str| {
        format!(
            "[origin.{name}]\nservers = [\"127.0.0.1:9\"]\nadaptive_concurrency = {{ min = 8, initial = 12 }}\n{lines}\n\
             [[route]]\nname = \"{name}\"\npath = \"/{name}\"\norigin = \"{name}\"\n"
        )
    };
    let queue = "circuit_breaker = { max_requests = 100, max_pending = 9, pending_timeout = \"200ms\", queue_order = \"fair\" }";
    let rules = origin("alone", "") + &origin("queue", queue);
    let text = crate::explain::explained(&rules, &[], &[]).await;
    let bounds = "Each server gets as many requests at once as its latency allows";
    for sentence in [
        "8 to 1000, 12 at first; near that the clients with the most requests get 503 first.",
        "8 to 100, 12 at first; beyond that up to 9 wait for 200ms, and others get 503.",
    ] {
        let sentence = format!("{bounds}, {sentence}");
        assert!(text.contains(&sentence), "{sentence}\n{text}");
    }
}
