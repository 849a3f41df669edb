//! Tests pools made from a configuration: which servers are picked, and the effect of failures.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use proptest::prelude::*;
use sluicegate_base::address::{AddressPrefix, PrefixBits, prefix};
use sluicegate_base::bounds::{ORIGIN_STREAMS, SERVER_REQUESTS};
use sluicegate_limiter::Seed;

use super::*;
use crate::{
    AttemptFailure, AttemptOutcome, AttemptWait, ClientTag, PickRequest, PickResult, ServerStatus,
};
use sluicegate_config::rules::OriginAddress;
use sluicegate_config::{Environment, no_review, parse_in};

/// A resolver that maps every name to the first port of this machine, but for names that begin with `dead.`.
struct Still;

impl Environment for Still {
    fn resolve(&self, name: &str) -> std::io::Result<Vec<SocketAddr>> {
        if name.starts_with("dead.") {
            return Err(std::io::Error::other("no such name"));
        }
        Ok(vec![([127, 0, 0, 1], 1).into()])
    }

    fn read(&self, _: &std::path::Path) -> std::io::Result<String> {
        Err(std::io::Error::other("no files"))
    }

    fn is_open_to_all(&self, _: &std::path::Path) -> bool {
        false
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn cores(&self) -> usize {
        1
    }
}

pub(crate) fn address(port: u16) -> OriginAddress {
    SocketAddr::from(([127, 0, 0, 1], port)).into()
}

/// Returns the port of a server, which has one in most tests.
pub(crate) fn port_of(server: &Arc<OriginServer>) -> u16 {
    server.address.tcp().expect("a port").port()
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_secs(1_800_000_000).saturating_add(Duration::from_millis(millis))
}

pub(crate) fn rules(origin: &str) -> OriginRules {
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:8080\"\n[[route]]\npath = \"/*\"\norigin = \"app\"\n[origin.app]\n{origin}\n"
    );
    let loaded = parse_in("test.toml", &text, &Still, no_review).expect("good rules");
    loaded.rules.origins["app"].clone()
}

fn seed() -> KeySeed {
    KeySeed::from_seed(Seed::from_bytes([7; 16]))
}

pub(crate) fn pool(origin: &str) -> ServerPool {
    ServerPool::new("app".into(), rules(origin), &seed(), None, at(0))
}

fn servers(count: u16) -> String {
    let servers: Vec<String> = (1..=count)
        .map(|port| format!("\"{}\"", address(port)))
        .collect();
    format!("servers = [{}]", servers.join(", "))
}

fn request(millis: u64) -> PickRequest {
    PickRequest {
        now: at(millis),
        ..PickRequest::default()
    }
}

fn held(choice: PickResult<ServerPermit>) -> ServerPermit {
    match choice {
        PickResult::Server(held) => held,
        other => panic!("{other:?}"),
    }
}

fn port(choice: PickResult<ServerPermit>) -> u16 {
    port_of(&held(choice).server)
}

/// Counts how often each port is picked by sequential requests.
pub(crate) fn choose_many(pool: &ServerPool, requests: usize) -> BTreeMap<u16, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..requests {
        *counts.entry(port(pool.find(&request(0)))).or_default() += 1;
    }
    counts
}

/// Fails a request at the server of this port.
fn fail(pool: &ServerPool, port: u16, failure: AttemptFailure, millis: u64) {
    let server = pool
        .servers()
        .into_iter()
        .find(|server| port_of(server) == port);
    let mut held = server
        .and_then(|server| server.hold(ClientTag::default(), at(0)))
        .expect("a place");
    pool.failed(&mut held, failure, at(millis));
}

fn usable(pool: &ServerPool, millis: u64) -> usize {
    pool.servers()
        .iter()
        .filter(|server| server.is_usable(at(millis)))
        .count()
}

/// Goal: backups are used only while no primary is in service. Method: drain the primaries one by one, then undrain.
#[test]
fn backups_wait_for_the_last_primary() {
    let pool = pool(
        "servers = [\"127.0.0.1:1\", \"127.0.0.1:2\", { address = \"127.0.0.1:3\", backup = true }]",
    );
    let all = pool.servers();
    assert_eq!(choose_many(&pool, 10), [(1, 5), (2, 5)].into());
    all[0].server_state.drain();
    assert_eq!(choose_many(&pool, 10), [(2, 10)].into());
    all[1].server_state.drain();
    assert_eq!(choose_many(&pool, 10), [(3, 10)].into());
    all[2].server_state.drain();
    assert!(matches!(pool.find(&request(0)), PickResult::None));
    all[1].server_state.undrain(at(0));
    assert_eq!(choose_many(&pool, 10), [(2, 10)].into());
}

/// Goal: a request is not sent to a server that failed it while there is another, a backup included. Method: a request with more
/// and more failed servers.
#[test]
fn a_server_that_failed_a_request_is_its_last_choice() {
    let pool = pool(
        "servers = [\"127.0.0.1:1\", \"127.0.0.1:2\", { address = \"127.0.0.1:3\", backup = true }]",
    );
    let failed = |ports: &[u16]| PickRequest {
        failed: ports.iter().copied().map(address).collect(),
        ..request(0)
    };
    for _ in 0..4 {
        assert_eq!(port(pool.find(&failed(&[1]))), 2);
        assert_eq!(port(pool.find(&failed(&[1, 2]))), 3);
        assert_ne!(port(pool.find(&failed(&[1, 2, 3]))), 3);
    }
}

/// Goal: a retry meets the server that failed the request while every other one is full or out of service, and only then; its bound holds
/// for retries. Method: two primaries and a backup with one place each, taken and released one after the other; then a drain.
#[test]
fn a_retry_returns_only_where_no_other_server_has_room() {
    let pool = pool(
        "servers = [\"127.0.0.1:1\", \"127.0.0.1:2\", { address = \"127.0.0.1:3\", backup = true }]\n\
         circuit_breaker = { max_requests = 1 }",
    );
    let retry = || {
        pool.find(&PickRequest {
            failed: vec![address(1)],
            ..request(0)
        })
    };
    let second = held(retry());
    let backup = held(retry());
    let failed = held(retry());
    let ports = [&second, &backup, &failed].map(|permit| port_of(&permit.server));
    assert_eq!(ports, [2, 3, 1]);
    assert!(matches!(retry(), PickResult::Full));
    drop(failed);
    assert_eq!(port(retry()), 1);
    drop(backup);
    assert_eq!(port(retry()), 3);
    drop(second);
    assert_eq!(port(retry()), 2);
    for server in pool.servers() {
        if server.address != address(1) {
            server.server_state.drain();
        }
    }
    assert_eq!(port(retry()), 1);
}

/// Goal: a pool never exceeds the bound on requests of a server, and reports it as full. Method: fill it, release one place.
#[test]
fn full_servers_differ_from_missing_ones() {
    let pool = pool(&format!(
        "{}\ncircuit_breaker = {{ max_requests = 2 }}",
        servers(2)
    ));
    let mut inside: Vec<ServerPermit> = (0..4).map(|_| held(pool.find(&request(0)))).collect();
    assert!(matches!(pool.find(&request(0)), PickResult::Full));
    let left = inside.pop().expect("four").server.address.clone();
    assert_eq!(held(pool.find(&request(0))).server.address, left);
    drop(inside);
    assert!(
        pool.servers()
            .iter()
            .all(|server| server.server_state.in_flight() == 0)
    );
}

/// Returns the client whose requests wait.
fn client() -> AddressPrefix {
    prefix(Ipv4Addr::LOCALHOST.into(), PrefixBits::default())
}

/// Goal: released places go to requests in order of arrival, no later request overtakes them, and the queue is bounded. Method:
/// a place taken; three wait, of which the first leaves; a fourth and a later one come too late.
#[tokio::test]
async fn places_that_are_left_go_round_in_order() {
    let rules =
        "circuit_breaker = { max_requests = 1, max_pending = 3, pending_timeout = \"60s\" }";
    let pool = pool(&format!("{}\n{rules}", servers(1)));
    let queue = pool.queue.as_ref().expect("a queue");
    let inside = held(pool.find(&request(0)));
    let mut waits: [AttemptWait; 4] = Default::default();
    let [first, second, third, fourth] = &mut waits;
    let mut first = Box::pin(pool.wait(first, client(), || request(0)));
    let mut second = pin!(pool.wait(second, client(), || request(0)));
    let mut third = pin!(pool.wait(third, client(), || request(0)));
    assert!(poll!(first.as_mut()).is_pending() && poll!(second.as_mut()).is_pending());
    assert!(poll!(third.as_mut()).is_pending());
    assert_eq!(queue.waiting(), 3);
    assert!(matches!(
        pool.wait(fourth, client(), || request(0)).await,
        PickResult::Full
    ));
    assert_eq!((queue.waiting(), queue.refused()), (3, 1));
    drop(inside);
    assert!(matches!(pool.choose(&request(0)), PickResult::Full));
    // It was woken, and its end wakes the next.
    drop(first);
    assert!(poll!(third.as_mut()).is_pending());
    let Poll::Ready(inside) = poll!(second) else {
        panic!("nobody woke it");
    };
    assert!(poll!(third.as_mut()).is_pending());
    drop(inside);
    let Poll::Ready(inside) = poll!(third) else {
        panic!("nobody woke it");
    };
    assert_eq!(port(inside), 1);
    assert_eq!(queue.waiting(), 0);
    assert!(matches!(pool.choose(&request(0)), PickResult::Server(_)));
}

/// Goal: a queued request keeps its slot until it has its connection, and a request that was not queued gets no slot by its
/// server's refusal. Method: one place and one slot; the request that had waited comes back from the server, beside a new one,
/// and then has its connection.
#[tokio::test]
async fn a_seat_is_kept_until_there_is_a_connection() {
    let rules =
        "circuit_breaker = { max_connections = 1, max_pending = 1, pending_timeout = \"60s\" }";
    let pool = pool(&format!("{}\n{rules}", servers(1)));
    let queue = pool.queue.as_ref().expect("a queue");
    let mut waits: [AttemptWait; 3] = Default::default();
    let [first, second, third] = &mut waits;
    let inside = held(pool.find(&request(0)));
    {
        let mut waiting = pin!(pool.wait(first, client(), || request(0)));
        assert!(poll!(waiting.as_mut()).is_pending());
        // Its rank dates from the server.
        second.ticket();
        assert!(matches!(
            pool.wait(second, client(), || request(0)).await,
            PickResult::Full
        ));
        drop(inside);
        let Poll::Ready(PickResult::Server(again)) = poll!(waiting) else {
            panic!("nobody woke it");
        };
        assert_eq!(queue.waiting(), 0);
        assert!(matches!(
            pool.wait(third, client(), || request(0)).await,
            PickResult::Full
        ));
        again.give_back();
    }
    let inside = held(pool.find(&request(0)));
    {
        let mut waiting = pin!(pool.wait(first, client(), || request(0)));
        assert!(poll!(waiting.as_mut()).is_pending());
    }
    let [first, ..] = waits;
    // The same happens when it has its connection.
    drop(first);
    let mut fourth = AttemptWait::default();
    let mut waiting = pin!(pool.wait(&mut fourth, client(), || request(0)));
    assert!(poll!(waiting.as_mut()).is_pending());
    assert_eq!((queue.waiting(), queue.refused()), (1, 2));
    drop(inside);
}

/// Goal: requests of the configuration before a reload are woken by those of the next, and the reverse. Method: one of each
/// waits for the place of the other.
#[tokio::test]
async fn a_reload_parts_no_request_from_what_wakes_it() {
    let bounded = |pending| {
        let circuit = format!("circuit_breaker = {{ max_requests = 1, max_pending = {pending} }}");
        rules(&format!("{}\n{circuit}", servers(1)))
    };
    let seed = seed();
    let before = ServerPool::new("app".into(), bounded(1), &seed, None, at(0));
    let after = ServerPool::new("app".into(), bounded(2), &seed, Some(&before), at(0));
    for (one, other) in [(&before, &after), (&after, &before)] {
        let inside = held(one.find(&request(0)));
        let mut wait = AttemptWait::default();
        let mut waiting = pin!(other.wait(&mut wait, client(), || request(0)));
        assert!(poll!(waiting.as_mut()).is_pending());
        drop(inside);
        assert!(matches!(poll!(waiting), Poll::Ready(PickResult::Server(_))));
    }
}

/// Goal: a server gets as many requests as both bounds allow. Method: one bound, the other, both, over HTTP/1 and HTTP/2.
#[test]
fn places_are_what_requests_and_connections_allow() {
    let streams = ORIGIN_STREAMS as u32;
    for (lines, max_in_flight) in [
        ("", SERVER_REQUESTS),
        ("protocol = \"h2c\"", SERVER_REQUESTS * streams),
        ("circuit_breaker = { max_requests = 3 }", 3),
        ("circuit_breaker = { max_connections = 2 }", 2),
        (
            "circuit_breaker = { max_requests = 3, max_connections = 2 }",
            2,
        ),
        (
            "circuit_breaker = { max_requests = 2, max_connections = 3 }",
            2,
        ),
        (
            "protocol = \"h2c\"\ncircuit_breaker = { max_connections = 2 }",
            2 * streams,
        ),
        (
            "protocol = \"h2c\"\ncircuit_breaker = { max_requests = 3, max_connections = 2 }",
            3,
        ),
    ] {
        let pool = pool(&format!("{}\n{lines}", servers(1)));
        assert_eq!(pool.servers()[0].max_in_flight, max_in_flight, "{lines}");
    }
}

/// Goal: a permit that is given back counts as no attempt. Method: one is given back, another ends without an answer.
#[test]
fn a_place_given_back_is_no_try() {
    let rules = "circuit_breaker = { max_connections = 2 }";
    let pool = pool(&format!("{}\n{rules}", servers(1)));
    let server = Arc::clone(&pool.servers()[0]);
    let other = held(pool.find(&request(0)));
    held(pool.find(&request(0))).give_back();
    assert_eq!(server.server_state.in_flight(), 1);
    drop(other);
    let attempts = |outcome: &AttemptOutcome| server.server_state.count(*outcome);
    assert_eq!(AttemptOutcome::ALL.iter().map(attempts).sum::<u64>(), 1);
    assert_eq!(server.server_state.in_flight(), 0);
}

/// Goal: a sticky client gets its server, and another where that is out of service. Method: the tag of one, which then drains.
#[test]
fn a_tag_leads_to_its_server() {
    let pool = pool(&format!("{}\nsticky = {{}}", servers(5)));
    let first = held(pool.find(&request(0)));
    let sticky = PickRequest {
        sticky: pool.tag_of(&first),
        ..request(0)
    };
    for _ in 0..10 {
        assert_eq!(
            held(pool.find(&sticky)).server.address,
            first.server.address
        );
    }
    first.server.server_state.drain();
    assert_ne!(
        held(pool.find(&sticky)).server.address,
        first.server.address
    );
    let again = ServerPool::new("app".into(), pool.rules.clone(), &seed(), None, at(0));
    first.server.server_state.undrain(at(0));
    assert_eq!(
        held(again.find(&sticky)).server.address,
        first.server.address
    );
}

/// Goal: a reload that changes the rules keeps drains and requests in flight, and new servers start slowly. Method: a pool made
/// after another.
#[test]
fn servers_that_stay_keep_their_state() {
    let before = pool(&servers(2));
    let inside = held(before.find(&request(0)));
    before.servers()[1].server_state.drain();
    let rules = rules(&format!("{}\nslow_start = \"10s\"", servers(3)));
    let after = ServerPool::new("app".into(), rules, &seed(), Some(&before), at(0));
    let states: Vec<_> = after
        .servers()
        .iter()
        .map(|server| server.state(at(1)))
        .collect();
    assert_eq!(
        states,
        [
            ServerStatus::Unchecked,
            ServerStatus::Draining,
            ServerStatus::SlowStart
        ]
    );
    assert_eq!(after.servers()[0].server_state.in_flight(), 1);
    drop(inside);
    assert_eq!(after.servers()[0].server_state.in_flight(), 0);
}

/// Goal: a server in slow start gets less at first and its share in the end. Method: a thousand turns at moments of its start.
#[test]
fn a_slow_start_ramps_the_share() {
    let pool = pool(&format!("{}\nslow_start = \"10s\"", servers(2)));
    let server_state = Arc::clone(&pool.servers()[0].server_state);
    server_state.drain();
    server_state.undrain(at(0));
    let share = |millis| {
        let chosen = (0..1000).filter(|_| port(pool.find(&request(millis))) == 1);
        chosen.count()
    };
    let (start, half, end) = (share(0), share(5_000), share(10_000));
    // Of two equal servers one at a tenth gets 1 of 11, at a half 1 of 3.
    assert!((50..150).contains(&start), "{start}");
    assert!((270..400).contains(&half), "{half}");
    assert_eq!(end, 500);
}

/// Goal: the rules decide which answers are failures, and a success resets the count. Method: answers of every kind.
#[test]
fn answers_eject_as_the_rules_say() {
    let ejection = "outlier_detection = { consecutive_failures = 2, on = [503], base_ejection_time = \"10s\" }";
    let pool = pool(&format!("{}\n{ejection}", servers(2)));
    let answer = |status: u16| {
        let server = Arc::clone(&pool.servers()[0]);
        let mut held = server.hold(ClientTag::default(), at(0)).expect("a place");
        let status = http::StatusCode::from_u16(status).expect("a status");
        pool.answered(&mut held, status, || at(0));
    };
    [503, 200, 503, 500, 503].into_iter().for_each(answer);
    fail(&pool, 1, AttemptFailure::Reset, 0);
    assert_eq!(usable(&pool, 0), 2);
    answer(503);
    assert_eq!(usable(&pool, 0), 1);
    assert_eq!(choose_many(&pool, 6), [(2, 6)].into());
    assert_eq!(usable(&pool, 10_000), 2);
    let server_state = &pool.servers()[0].server_state;
    assert_eq!(
        (
            server_state.ejections(),
            server_state.last_failure().map(|(_, at)| at)
        ),
        (1, Some(at(0)))
    );
}

/// Goal: `retries` bounds attempts, `on` and `deadline` their reasons and time. Method: one case for each.
#[test]
fn retries_are_for_what_the_rules_name() {
    let none = || Duration::ZERO;
    let plain = pool(&servers(1));
    assert!(plain.grants_retry(AttemptFailure::Connect, 1, none));
    assert!(
        !plain.grants_retry(AttemptFailure::Connect, 2, none),
        "retries = 1"
    );
    assert!(
        !plain.grants_retry(AttemptFailure::Timeout, 1, none),
        "it was sent"
    );
    let retry = "retries = 2\nretry = { on = [503], min_per_second = 1, deadline = \"1s\" }";
    let chosen = pool(&format!("{}\n{retry}", servers(1)));
    assert!(!chosen.grants_retry(AttemptFailure::Connect, 1, none));
    assert!(!chosen.grants_retry(AttemptFailure::Status(503), 1, || Duration::from_secs(1)));
    assert!(chosen.grants_retry(AttemptFailure::Status(503), 2, none));
    assert!(
        !chosen.grants_retry(AttemptFailure::Status(503), 1, none),
        "the budget is one"
    );
    assert_eq!((chosen.budget.retries(), chosen.budget.exhausted()), (1, 1));
}

proptest! {
    /// Goal: ejection never leaves fewer servers than `max_percent` allows, whatever else is out of service. Method: failures
    /// and drains of servers in any order.
    #[test]
    fn ejections_leave_enough_servers(
        count in 1u16..12,
        percent in 1usize..=100,
        events in prop::collection::vec((0u16..12, any::<bool>(), 0u64..30_000), 0..80),
    ) {
        let ejection = format!("outlier_detection = {{ consecutive_failures = 1, max_percent = {percent}, base_ejection_time = \"5s\" }}");
        let pool = pool(&format!("{}\n{ejection}", servers(count)));
        let mut drained = 0;
        let mut events = events;
        events.sort_by_key(|event| event.2);
        for (server, drains, millis) in events {
            let port = server % count + 1;
            let before = usable(&pool, millis);
            if drains && drained == 0 {
                pool.servers()[usize::from(port) - 1].server_state.drain();
                drained = 1;
                continue;
            }
            fail(&pool, port, AttemptFailure::Connect, millis);
            let after = usable(&pool, millis);
            if after < before {
                let out = usize::from(count) - after;
                prop_assert!(out * 100 <= usize::from(count) * percent, "{out} of {count} are out");
            }
        }
    }
}
