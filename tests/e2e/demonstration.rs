//! The gateway at its job, at full speed: what the README claims, shown with the file that it ships, nginx as the origin and
//! wrk as the attacker; and with a million clients.
//!
//! Each takes the machine for up to a minute, so they take turns.

use std::io::Write;
use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;
use tokio::sync::Mutex;

use crate::harness::*;

static TURN: Mutex<()> = Mutex::const_new(());

/// How long wrk attacks: it touches four or five windows.
const ATTACK: Duration = Duration::from_secs(35);

/// What conf/gateway.toml allows each client on /auth/sendOTP.
const LIMIT: u64 = 5;
const WINDOW_MILLIS: u64 = 10_000;

/// The shipped file with this test's addresses in place of its own, without access log: a million lines are not the subject.
fn shipped(nginx: &Nginx, more: &str) -> Setup {
    let text = include_str!("../../conf/gateway.toml");
    let mut out = String::new();
    for line in text.lines() {
        match line.split('=').next().unwrap().trim() {
            "address" => out.push_str("address = \"{listener}\""),
            "servers" => out.push_str(&format!("servers = [\"{}\"]", nginx.address())),
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    assert!(
        !out.contains("\n[admin]") && !out.contains("\n[log]"),
        "the smallest file has grown: {out}"
    );
    assert!(
        out.contains("\"5 per 10s\"") && out.contains("/auth/sendOTP"),
        "another rule: {out}"
    );
    Setup::new().whole(&format!(
        "{out}\n[admin]\naddress = \"{{admin}}\"\n[log]\naccess = \"off\"\n{more}"
    ))
}

fn now_millis() -> u64 {
    u64::try_from(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis(),
    )
    .unwrap()
}

/// What nginx may have counted since `started`: the limit in each aligned window, and in no trailing window twice the limit.
fn assert_within_the_limit(nginx: &Nginx, started: u64) {
    let arrivals = nginx.arrivals("/auth/sendOTP");
    let windows = now_millis() / WINDOW_MILLIS - started / WINDOW_MILLIS + 1;
    let count = arrivals.len() as u64;
    assert!(count <= LIMIT * windows, "{count} in {windows} windows");
    assert!(
        count >= 3 * (windows - 2),
        "{count} in {windows} windows: refused too much"
    );
    // The way from the decision to nginx's log takes a moment, so the window is taken a little shorter.
    let twice = usize::try_from(2 * LIMIT).unwrap();
    for (first, beyond) in arrivals.iter().zip(arrivals.iter().skip(twice)) {
        assert!(
            beyond - first > WINDOW_MILLIS - 200,
            "more than {twice} from {first} to {beyond}"
        );
    }
}

#[tokio::test]
async fn an_attack_at_full_speed_reaches_the_origin_as_often_as_the_limit_says() {
    // Goal: the main job. Method: wrk posts to /auth/sendOTP for 35 s while another asks for /; nginx counts by itself.
    let _turn = TURN.lock().await;
    let nginx = Nginx::start("location / { return 200 ok; }").await;
    let gateway = shipped(&nginx, "").start().await;
    let started = now_millis();
    let attack = Wrk::for_duration(ATTACK)
        .method("POST")
        .run(gateway.address(), "/auth/sendOTP");
    let visit = Wrk::for_duration(ATTACK)
        .connections(2)
        .run(gateway.address(), "/");
    let (attack, visit) = tokio::join!(attack, visit);
    assert_within_the_limit(&nginx, started);
    assert!(
        attack.requests > 10_000 && attack.socket_errors == 0,
        "{}",
        attack.text
    );
    assert_eq!(
        (visit.unsuccessful, visit.socket_errors),
        (0, 0),
        "{}",
        visit.text
    );
    assert!(
        nginx.count("/") as u64 >= visit.requests && visit.requests > 1000,
        "{}",
        visit.text
    );
}

#[tokio::test]
async fn a_reload_loop_during_the_attack_refills_nothing_and_fails_nothing() {
    // Goal: C4 at the main job. Method: the same, while the file is replaced ten times a second with another unrelated route,
    // and SIGHUP asks for each: changes alone reload once a second.
    let _turn = TURN.lock().await;
    let nginx = Nginx::start("location / { return 200 ok; }").await;
    let edit = |n: u32| format!("[[route]]\npath = \"/edit-{n}\"\nrespond = {{ status = 204 }}\n");
    let mut gateway = shipped(&nginx, &edit(0)).start().await;
    let started = now_millis();
    let attack = tokio::spawn(
        Wrk::for_duration(ATTACK)
            .method("POST")
            .run(gateway.address(), "/auth/sendOTP"),
    );
    let visit = tokio::spawn(
        Wrk::for_duration(ATTACK)
            .connections(2)
            .run(gateway.address(), "/"),
    );
    let mut tenth_of_a_second = tokio::time::interval(Duration::from_millis(100));
    let mut edits = 0;
    while !attack.is_finished() {
        tenth_of_a_second.tick().await;
        edits += 1;
        gateway.write_setup(shipped(&nginx, &edit(edits)), Writing::Rename);
        gateway.signal(Signal::SIGHUP);
    }
    let (attack, visit) = (attack.await.unwrap(), visit.await.unwrap());
    assert_within_the_limit(&nginx, started);
    assert_eq!(attack.socket_errors, 0, "{}", attack.text);
    assert_eq!(
        (visit.unsuccessful, visit.socket_errors),
        (0, 0),
        "{}",
        visit.text
    );
    let metrics = gateway.metrics().await;
    for outcome in ["origin-failed", "internal", "rejected", "no-route"] {
        assert_eq!(
            metrics.sum("sluicegate_requests_total", &[("outcome", outcome)]),
            0.0,
            "{outcome}"
        );
    }
    assert!(
        gateway.generation().await > 100,
        "{} generations of {edits} edits",
        gateway.generation().await
    );
}

const CLIENTS: u64 = 1_000_000;

/// A trusted hop forwards for client number `n`.
fn forwarded(n: u64, buffer: &mut Vec<u8>) {
    let client = Ipv4Addr::from(0x0b00_0000 + u32::try_from(n).unwrap());
    write!(
        buffer,
        "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: {client}\r\n\r\n"
    )
    .unwrap();
}

/// Five an hour for each client, in a table as `capacity` says; everything that a first request allocates is allocated.
async fn warm_gateway(capacity: &str) -> Gateway {
    let rules = format!(
        r#"
        [client]
        trusted_proxies = ["127.0.0.0/8"]
        [limit.each]
        key = "client.ip"
        rates = ["5 per 1h"]
        {capacity}
        [[route]]
        path = "/"
        limits = ["each"]
        respond = {{ status = 200 }}
        [[route]]
        path = "/warm"
        respond = {{ status = 200 }}
        "#
    );
    let gateway = Setup::new()
        .without_access_log()
        .rules(&rules)
        .start()
        .await;
    let report = Flood::gets(20_000, "/warm").run(gateway.address()).await;
    assert_eq!(report.count(200), 20_000);
    gateway
}

/// Anything kept for a client takes more than 16 bytes: an address and a count. The allocator settles within a few MiB.
const FLAT: u64 = 16 * 1024 * 1024;

/// The most that the table of the only limit takes; its pages become resident with the first key in each.
async fn table_bytes(gateway: &Gateway) -> u64 {
    gateway.status().await["limits"][0]["bytes"]
        .as_u64()
        .unwrap()
}

#[tokio::test]
async fn a_million_clients_fit_where_the_capacity_is_set_for_them() {
    // Goal: C1 and C3 within the capacity. Method: one request from each of a million clients behind a trusted hop, five an
    // hour allowed: none may be refused, and resident memory grows by the pages of the table alone.
    let _turn = TURN.lock().await;
    let gateway = warm_gateway("capacity = 1000000").await;
    let table = table_bytes(&gateway).await;
    let before = gateway.resident_bytes();
    let report = Flood::of(CLIENTS, forwarded)
        .within(Duration::from_secs(120))
        .run(gateway.address())
        .await;
    let grown = gateway.resident_bytes().saturating_sub(before);
    eprintln!(
        "a million clients in {:?}; {before} bytes resident, {grown} more after",
        report.took
    );
    assert_eq!(
        (report.count(200), report.count(429), report.broken()),
        (1_000_000, 0, 0)
    );
    assert!(
        grown < table + FLAT,
        "{before} bytes grew by {grown}, the table has {table}"
    );
}

#[tokio::test]
async fn a_million_clients_beyond_the_capacity_never_pass_uncounted() {
    // Goal: C3 at the bound. Method: the same with the default capacity; then 20,000 of them, spread over all, ask six times
    // more: none may have been admitted more than five times in all. Metric, status and one log line tell of the overflow.
    let _turn = TURN.lock().await;
    const SAMPLE: u64 = 20_000;
    const STEP: u64 = CLIENTS / SAMPLE;
    const ROUNDS: u64 = 6;
    let gateway = warm_gateway("").await;
    let table = table_bytes(&gateway).await;
    let before = gateway.resident_bytes();
    let first = Flood::of(CLIENTS, forwarded)
        .within(Duration::from_secs(120))
        .run(gateway.address())
        .await;
    let again = Flood::of(SAMPLE * ROUNDS, |n, buffer| {
        forwarded(n % SAMPLE * STEP, buffer)
    });
    let again = again.run(gateway.address()).await;
    let grown = gateway.resident_bytes().saturating_sub(before);
    eprintln!(
        "{} of a million newcomers admitted in {:?}; {before} bytes resident, {grown} more after",
        first.count(200),
        first.took
    );
    assert_eq!((first.broken(), again.broken()), (0, 0));
    assert!(
        grown < table + FLAT,
        "{before} bytes grew by {grown}, the table has {table}"
    );

    let admitted = |client: usize| {
        let rounds =
            (0..ROUNDS as usize).map(|round| again.status(round * SAMPLE as usize + client));
        rounds
            .chain([first.status(client * STEP as usize)])
            .filter(|status| *status == 200)
            .count()
    };
    let most = (0..SAMPLE as usize).map(admitted).max();
    assert!(most <= Some(5), "a client was admitted {most:?} times");

    let metrics = gateway.metrics().await;
    let overflow = metrics.sum(
        "sluicegate_limit_overflow_decisions_total",
        &[("limit", "each")],
    );
    assert!(overflow > 0.0);
    let status = gateway.status().await;
    let advice = status["limits"][0]["overflow"]["advice"].as_u64();
    assert!(
        advice.is_some_and(|capacity| capacity > 262_144),
        "{status}"
    );
    let lines = eventually("the log tells of the overflow", async || {
        let log = gateway.stderr();
        let lines: Vec<String> = log
            .lines()
            .filter(|line| line.contains("each") && line.contains("capacity"))
            .map(str::to_owned)
            .collect();
        (!lines.is_empty()).then_some(lines)
    })
    .await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
}
