//! `align = "key"`: the windows of each client at a place of its own, and always at that place.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use sluicegate_limiter::Timestamp;

use crate::harness::*;

const HOUR: u64 = 3_600;

/// A limit by address on `/`, with these lines; the gateway believes what the test says of clients.
fn rules(lines: &str) -> String {
    format!(
        "[client]\ntrusted_proxies = [\"127.0.0.1\"]\n\
         [limit.a]\nkey = \"client.ip\"\nalgorithm = \"fixed-window\"\n{lines}\n\
         [[route]]\npath = \"/\"\nlimits = [\"a\"]\nrespond = {{ status = 200 }}\n"
    )
}

const BY_KEY: &str = "rates = [\"5 per 1h\"]\nalign = \"key\"";

/// So many addresses, each a client of its own.
fn clients(count: u32) -> impl Iterator<Item = String> {
    (1..=count).map(|number| format!("198.51.{}.{}", number / 256, number % 256))
}

/// The second of the hour in which the window of a client ends, by the gateway's answer.
async fn end_of(gateway: &Gateway, client: &str) -> u64 {
    let answer = gateway.send(get("/").forwarded_for(client)).await;
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
    (now + answer.seconds_to_more("a")) % HOUR
}

/// Returns whether two seconds of the hour are the same, but for the time between two readings of clocks.
fn is_same(one: u64, other: u64) -> bool {
    let apart = one.abs_diff(other);
    apart.min(HOUR - apart) <= 2
}

#[tokio::test]
async fn clients_that_come_together_come_back_apart() {
    // Goal: no second to which a herd returns. Method: 100 clients within a moment, under windows of the clock and of each key: `t` of the
    // first differs by the time that passes meanwhile, that of the second lies in every part of the hour.
    let gateway = Gateway::start(&rules("rates = [\"5 per 1h\"]")).await;
    let mut ends = BTreeSet::new();
    for client in clients(20) {
        ends.insert(end_of(&gateway, &client).await);
    }
    assert!(ends.iter().all(|end| is_same(*end, 0)), "{ends:?}");

    let gateway = Gateway::start(&rules(BY_KEY)).await;
    let (mut ends, mut tenths) = (BTreeSet::new(), [0; 10]);
    for client in clients(100) {
        let end = end_of(&gateway, &client).await;
        ends.insert(end);
        tenths[(end * 10 / HOUR) as usize] += 1;
    }
    // Of 100 in 3,600 places more than 90 differ, and no tenth of the hour has none but once in 3,700 runs; two have none never.
    assert!(ends.len() > 90, "{ends:?}");
    let empty = tenths.iter().filter(|count| **count == 0).count();
    assert!(
        empty < 2 && tenths.iter().all(|count| *count < 30),
        "{tenths:?}"
    );
}

#[tokio::test]
async fn a_client_does_not_choose_where_its_windows_begin() {
    // Goal: no other spelling moves the window. Method: one network of IPv6 by several addresses, and one address of IPv4 by its other
    // spelling; all of them share one end, and one count.
    let gateway = Gateway::start(&rules(BY_KEY)).await;
    for spellings in [
        ["2001:db8::1", "2001:db8::ffff:2", "2001:DB8:0:0:3::"],
        ["203.0.113.7", "::ffff:203.0.113.7", "::FFFF:CB00:7107"],
    ] {
        let mut ends = Vec::new();
        for (used, client) in (1..).zip(spellings) {
            ends.push(end_of(&gateway, client).await);
            let line = gateway.send(get("/").forwarded_for(client)).await;
            assert_eq!(line.remaining("a"), 5 - u64::min(5, 2 * used), "{client}");
        }
        assert!(ends.iter().all(|end| is_same(*end, ends[0])), "{ends:?}");
    }
}

#[tokio::test]
async fn the_windows_of_one_client_begin_at_one_place() {
    // Goal: a constant offset through windows and reloads, and a true `Retry-After`. Method: a clock that the test sets, twelve windows,
    // and an edit of the rates in between; each window ends at the same second, rejects until then, and not after.
    let gateway = Setup::new().rules(&rules(BY_KEY)).with_driven_clock();
    let mut gateway = gateway.start().await;
    let mut clock = gateway.clock();
    let mut ends = BTreeSet::new();
    for window in 0..12 {
        if window == 6 {
            gateway
                .reload(&rules("rates = [\"3 per 1h\"]\nalign = \"key\""))
                .await;
        }
        // Anywhere in the hour.
        let now = 1_800_000_000 + window * 2 * HOUR + window * 263;
        clock.set(Timestamp::from_secs(now));
        let mut client = gateway.client().await;
        let refused = loop {
            let answer = client.send(get("/").forwarded_for("198.51.100.1")).await;
            if answer.status == 429 {
                break answer;
            }
        };
        let wait = refused.retry_after();
        ends.insert((now + wait) % HOUR);
        clock.set(Timestamp::from_secs(now + wait).saturating_sub(Duration::from_secs(1)));
        let early = client.send(get("/").forwarded_for("198.51.100.1")).await;
        clock.set(Timestamp::from_secs(now + wait));
        let in_time = client.send(get("/").forwarded_for("198.51.100.1")).await;
        assert_eq!((early.status, in_time.status), (429, 200), "{refused:?}");
    }
    assert_eq!(ends.len(), 1, "{ends:?}");
}

#[tokio::test]
async fn a_restart_keeps_where_windows_begin() {
    // Goal: C4 for offsets. Method: ends of windows of several clients before and after `kill -9`, with a state directory; and after an
    // edit of the alignment, which takes what was used along.
    let kept = format!("[server]\nstate_dir = \"state\"\n{}", rules(BY_KEY));
    let mut gateway = Gateway::start(&kept).await;
    let mut before = Vec::new();
    for client in clients(10) {
        before.push(end_of(&gateway, &client).await);
    }
    gateway.kill();
    gateway.start_again().await;
    for (client, before) in clients(10).zip(&before) {
        let after = end_of(&gateway, &client).await;
        assert!(is_same(after, *before), "{client}: {before} {after}");
    }
    let clock = kept.replace("align = \"key\"", "");
    gateway.reload(&clock).await;
    for client in clients(10) {
        let left = gateway.send(get("/").forwarded_for(&client)).await;
        // A window may have ended in between.
        assert!([2, 3, 4].contains(&left.remaining("a")), "{left:?}");
    }
}
