//! What becomes of keys: when they expire, what they cost, what an edit finds, and what is not ours.

use std::time::Duration;

use sluicegate::store::script::{self, NodeId, PushNumber, Reply, ScriptAnswer};
use sluicegate_decide::store::{ChargeResult, KeyName};
use sluicegate_limiter::{
    Algorithm, Alignment, CalendarUnit, CalendarZone, Policy, Refill, Settle, Timestamp,
};

use super::server::Server;
use super::{START, after, ask, name, policy, rates};

const SLIDING: Algorithm = Algorithm::SlidingWindow;
const GCRA: Algorithm = Algorithm::Gcra { burst: None };
const FIRST: Algorithm = Algorithm::FixedWindow(Alignment::FirstRequest);
const INTERVAL: Algorithm = Algorithm::TokenBucket {
    burst: Some(5),
    refill: Refill::Interval,
};

/// What is left of the first rate of a key.
fn left(server: &mut Server, policy: &Policy, name: &KeyName, now: Timestamp) -> u32 {
    let ask = ask(policy, name, 1);
    let decided = server.decided_at(&[ask], &script::peek(&[ask], now), now);
    decided.results[0].decision.statuses()[0].remaining
}

/// Whether a key is gone at the latest so many milliseconds from now, and not more than five seconds earlier.
fn expires_in(server: &mut Server, key: &str, millis: i64) -> bool {
    let left = server.number(&format!("PTTL {key}"));
    (millis - 5_000..=millis).contains(&left)
}

/// Goal: keys expire a second after their counters. Method: each algorithm charged three seconds into a
/// window, by the time that its key has left; giving back and charging less do not bring that forward.
#[test]
fn a_key_expires_after_its_counters() {
    let mut server = Server::start();
    let now = after(3_000);
    for (algorithm, units, due) in [
        // To the end of the window after this one.
        (SLIDING, 1, 17_000),
        (Algorithm::FixedWindow(Alignment::Epoch), 1, 7_000),
        (FIRST, 1, 10_000),
        (INTERVAL, 5, 17_000),
        (GCRA, 2, 5_001),
        (Algorithm::Exact, 1, 10_000),
    ] {
        let policy = policy(algorithm.clone(), &[(4, 10)]);
        let name = name(1, "limit");
        let ask = ask(&policy, &name, units);
        let decided = server.decide_at(&[ask], now);
        let key = match algorithm {
            Algorithm::Exact => format!("{}:log", name.as_str()),
            _ => name.as_str().to_owned(),
        };
        assert!(expires_in(&mut server, &key, due + 1_000), "{algorithm:?}");
        let charge = decided.results[0].charge.as_ref().unwrap();
        let back = script::settle(charge, Settle::Refund, now).unwrap();
        let settled = server.decided_at(&[ask], &back, now);
        assert_eq!(settled.charge_result, ChargeResult::Done);
        assert_eq!(left(&mut server, &policy, &name, now), units.max(4));
        if algorithm != Algorithm::Exact {
            assert!(expires_in(&mut server, &key, due + 1_000), "{algorithm:?}");
            server.decide_at(&[super::ask(&policy, &name, 1)], now);
            assert!(expires_in(&mut server, &key, due + 1_000), "{algorithm:?}");
        }
        server.say("FLUSHALL").unwrap();
    }
}

/// Goal: what the store said of a key that it lost is counted again, once, and never takes the place of more. Method: three of five of
/// each
/// algorithm; a store that forgot, and is told twice; one that counts one more by then.
#[test]
fn what_a_store_lost_is_counted_again_once() {
    let mut server = Server::start();
    let now = after(3_000);
    for algorithm in [
        SLIDING,
        Algorithm::FixedWindow(Alignment::Epoch),
        FIRST,
        INTERVAL,
        Algorithm::Gcra { burst: Some(5) },
        Algorithm::Exact,
    ] {
        let policy = policy(algorithm.clone(), &[(5, 10)]);
        let name = name(1, "limit");
        let one = ask(&policy, &name, 1);
        let decided = server.decide_at(&[ask(&policy, &name, 3)], now);
        let told = script::restore(&one, &decided.results[0].state, now);
        server.say("FLUSHALL").unwrap();
        for _ in 0..2 {
            let restored = server.decided_at(&[one], &told, now);
            assert_eq!(restored.charge_result, ChargeResult::Done);
            assert_eq!(restored.results[0].state, decided.results[0].state);
            assert_eq!(left(&mut server, &policy, &name, now), 2, "{algorithm:?}");
        }
        server.decide_at(&[one], now);
        server.decided_at(&[one], &told, now);
        assert_eq!(left(&mut server, &policy, &name, now), 1, "{algorithm:?}");
        server.say("FLUSHALL").unwrap();
    }
}

/// Goal: a call for another epoch does nothing. Method: the same call with the marker that is there, another one, and none.
#[test]
fn a_call_for_another_epoch_is_not_carried_out() {
    let mut server = Server::start();
    let (policy, name, now) = (policy(SLIDING, &[(5, 10)]), name(1, "limit"), after(3_000));
    let one = ask(&policy, &name, 1);
    let answer = |server: &mut Server, epoch: &str| {
        let call = script::guarded(script::decide(&[one], now), b"marker".to_vec(), epoch);
        server.answer_at(&[one], &call, now)
    };
    assert!(matches!(answer(&mut server, "a"), ScriptAnswer::Emptied));
    server.say("SET marker a").unwrap();
    assert!(matches!(answer(&mut server, "a"), ScriptAnswer::Decided(_)));
    assert!(matches!(answer(&mut server, "b"), ScriptAnswer::Emptied));
    assert_eq!(left(&mut server, &policy, &name, now), 4);
}

/// Goal: what a key costs is known; docs/fleet.md has the figures. Method: a key of each kind as full as it gets, and what the
/// server says of it, against a bound with room for other versions of the server.
#[test]
fn a_key_takes_what_the_documents_say() {
    let mut server = Server::start();
    let two = &[(5, 10), (50, 600)][..];
    for (algorithm, numbers, units, most) in [
        (SLIDING, &two[..1], 5, 200),
        (SLIDING, two, 5, 240),
        (FIRST, &two[..1], 5, 200),
        (FIRST, two, 5, 240),
        (INTERVAL, &two[..1], 5, 200),
        (GCRA, &two[..1], 5, 200),
        (GCRA, two, 5, 240),
        (Algorithm::Exact, &two[..1], 5, 250),
        (Algorithm::Exact, &[(100, 600)], 100, 1_600),
        (Algorithm::Exact, &[(1024, 600)], 1024, 14_000),
    ] {
        let policy = policy(algorithm.clone(), numbers);
        let name = KeyName::new(
            "sluicegate",
            sluicegate_limiter::KeyHash::from_bits(!0),
            "otp",
        );
        assert_eq!(
            server
                .decide_at(&[ask(&policy, &name, units)], START)
                .charge_result,
            ChargeResult::Charged
        );
        let key = match algorithm {
            Algorithm::Exact => format!("{}:log", name.as_str()),
            _ => name.as_str().to_owned(),
        };
        let bytes = server.number(&format!("MEMORY USAGE {key}"));
        eprintln!("{algorithm:?} of {numbers:?}: {bytes} bytes");
        assert!(
            (50..most).contains(&bytes),
            "{algorithm:?} of {numbers:?}: {bytes} bytes"
        );
        assert_eq!(server.number("DBSIZE"), 1, "there is nothing beside it");
        server.say("FLUSHALL").unwrap();
    }
}

/// Goal: all or nothing. Method: two limits of which the second has no room; the first is charged for nothing, and no key of it
/// comes to be.
#[test]
fn a_rejection_by_one_limit_charges_none() {
    let mut server = Server::start();
    let (wide, tight) = (
        policy(SLIDING, &[(9, 10)]),
        policy(Algorithm::Exact, &[(1, 10)]),
    );
    let (first, second) = (name(1, "wide"), name(1, "tight"));
    assert_eq!(
        server
            .decide_at(&[ask(&tight, &second, 1)], START)
            .charge_result,
        ChargeResult::Charged
    );
    let asks = [ask(&wide, &first, 1), ask(&tight, &second, 1)];
    let refused = server.decide_at(&asks, START);
    assert_eq!(refused.charge_result, ChargeResult::NotCharged);
    assert!(refused.results[0].decision.is_admitted());
    assert_eq!(
        refused.verdict().outcome(),
        sluicegate_limiter::Outcome::Refused { ask: 1, rate: 0 }
    );
    assert_eq!(server.number(&format!("EXISTS {}", first.as_str())), 0);
    let third = server.decide_at(&asks, after(10_000));
    assert_eq!(third.charge_result, ChargeResult::Charged);
}

/// Goal: two asks of one name take from one counter together. Method: three and two units of five, then the same of four.
#[test]
fn asks_of_one_name_are_judged_together() {
    let mut server = Server::start();
    for (count, charge_result) in [(5, ChargeResult::Charged), (4, ChargeResult::NotCharged)] {
        let policy = policy(SLIDING, &[(count, 10)]);
        let name = name(1, &count.to_string());
        let decided = server.decide_at(&[ask(&policy, &name, 3), ask(&policy, &name, 2)], START);
        assert_eq!(
            (decided.charge_result, decided.results.len()),
            (charge_result, 2)
        );
    }
}

/// Goal: a key of somebody else's is named and left alone. Method: each of our keys as another type; beside another limit that
/// would be charged.
#[test]
fn a_key_of_another_type_is_named_and_nothing_is_written() {
    let mut server = Server::start();
    let words = policy(SLIDING, &[(5, 10)]);
    let log = policy(Algorithm::Exact, &[(5, 10)]);
    for (policy, ending) in [(&words, ""), (&log, ":log"), (&log, ":beside")] {
        let (before, ours) = (name(2, "before"), name(2, "ours"));
        let foreign = format!("{}{ending}", ours.as_str());
        server.say(&format!("SET {foreign} theirs")).unwrap();
        let asks = [ask(&words, &before, 1), ask(policy, &ours, 1)];
        let call = match ending {
            // Read only where something is given back or told.
            ":beside" => script::push(&asks[1], NodeId(1), PushNumber(1), START),
            _ => script::decide(&asks, START),
        };
        let named = match ending {
            ":beside" => server.answer_at(&asks[1..], &call, START),
            _ => server.answer_at(&asks, &call, START),
        };
        assert!(
            matches!(&named, ScriptAnswer::Foreign(named) if *named == ours),
            "{named:?}"
        );
        assert_eq!(
            server.say(&format!("GET {foreign}")),
            Ok(Reply::Bytes(b"theirs".to_vec()))
        );
        assert_eq!(server.number("DBSIZE"), 1);
        server.say("FLUSHALL").unwrap();
    }
}

/// Goal: a malformed value counts as unused, is reported, and is overwritten. Method: fields and entries that are none.
#[test]
fn what_cannot_be_read_counts_as_unused() {
    let mut server = Server::start();
    let words = policy(SLIDING, &[(1, 10)]);
    let name = name(1, "limit");
    for field in [
        "",
        "x",
        "1 2",
        "1 2 3 4",
        "-1 0 0",
        "1800000000 0 1e3",
        "0x10 1 1",
        "nan 0 0",
    ] {
        let key = name.as_str().as_bytes();
        server
            .command(&[b"HSET", key, b"s10", field.as_bytes()])
            .unwrap();
        let decided = server.decide_at(&[ask(&words, &name, 1)], START);
        assert_eq!(
            (decided.charge_result, decided.unreadable),
            (ChargeResult::Charged, 1),
            "{field:?}"
        );
        let decided = server.decide_at(&[ask(&words, &name, 1)], START);
        assert_eq!(
            (decided.charge_result, decided.unreadable),
            (ChargeResult::NotCharged, 0)
        );
    }
    let huge = "1800000000 999999999999999 999999999999999";
    server
        .command(&[b"HSET", name.as_str().as_bytes(), b"s10", huge.as_bytes()])
        .unwrap();
    let decided = server.decide_at(&[ask(&words, &name, 1)], START);
    assert_eq!(
        decided.charge_result,
        ChargeResult::NotCharged,
        "numbers too large are as large as they get"
    );
    let log = policy(Algorithm::Exact, &[(1, 10)]);
    server
        .say(&format!("LPUSH {}:log x", name.as_str()))
        .unwrap();
    let decided = server.decide_at(&[ask(&log, &name, 1)], START);
    assert_eq!(
        (decided.charge_result, decided.unreadable),
        (ChargeResult::Charged, 1)
    );
}

/// Goal: a repeated push counts once, and one of another gateway counts separately. Method: pushes again, older and
/// newer, of two nodes, in words and in a log; after all that was owed has expired the key still knows them.
#[test]
fn a_push_counts_once() {
    let mut server = Server::start();
    for algorithm in [SLIDING, Algorithm::Exact] {
        let policy = policy(algorithm, &[(100, 1)]);
        let name = name(1, "limit");
        let mut pushed = |node, number, millis| {
            let ask = ask(&policy, &name, 3);
            let call = script::push(&ask, NodeId(node), PushNumber(number), START);
            let decided = server.decided_at(&[ask], &call, after(millis));
            (
                decided.charge_result,
                decided.results[0].decision.statuses()[0].remaining,
            )
        };
        assert_eq!(pushed(1, 5, 0), (ChargeResult::Charged, 97));
        assert_eq!(pushed(1, 5, 0), (ChargeResult::Done, 97));
        assert_eq!(
            pushed(1, 4, 0),
            (ChargeResult::Done, 97),
            "older ones were charged before"
        );
        assert_eq!(pushed(2, 1, 0), (ChargeResult::Charged, 94));
        assert_eq!(pushed(1, 6, 0), (ChargeResult::Charged, 91));
        assert_eq!(
            pushed(1, 6, 50_000),
            (ChargeResult::Done, 100),
            "remembered for longer than owed"
        );
        for kept in server.keys() {
            let least = script::PUSH_MEMORY.as_millis() as i64;
            assert!(expires_in(&mut server, &kept, least + 1_000), "{kept}");
        }
        server.say("FLUSHALL").unwrap();
    }
}

/// Goal: what a key remembers of nodes is bounded by those that are alive. Method: two hundred nodes push, eleven minutes later
/// another does.
#[test]
fn nodes_that_push_no_more_are_forgotten() {
    let mut server = Server::start();
    let policy = policy(SLIDING, &[(1_000, 3_600)]);
    let name = name(1, "limit");
    let ask = ask(&policy, &name, 1);
    for node in 0..200 {
        let call = script::push(&ask, NodeId(node), PushNumber(1), START);
        server.decided_at(&[ask], &call, START);
    }
    assert_eq!(server.number(&format!("HLEN {}", name.as_str())), 201);
    let call = script::push(&ask, NodeId(200), PushNumber(1), START);
    server.decided_at(&[ask], &call, after(11 * 60_000));
    assert_eq!(server.number(&format!("HLEN {}", name.as_str())), 2);
    assert_eq!(
        left(&mut server, &policy, &name, after(11 * 60_000)),
        1_000 - 201
    );
}

/// Goal: the store's clock chooses the window of a calendar, wherever the gateway's is. Method: a gateway whose clock is two days
/// off is told the store's, asks again near that, and is decided.
#[test]
fn a_calendar_is_asked_again_near_the_clock_of_the_store() {
    let mut server = Server::start();
    let days = Algorithm::FixedWindow(Alignment::Calendar {
        zone: std::sync::Arc::new(CalendarZone::utc()),
        unit: CalendarUnit::Day,
    });
    let policy = policy(days, &[(2, 86_400)]);
    let name = name(1, "limit");
    let asks = [ask(&policy, &name, 2)];
    let off = after(2 * 86_400_000);
    for call in [
        script::decide(&asks, off),
        script::peek(&asks, off),
        script::push(&asks[0], NodeId(1), PushNumber(1), off),
    ] {
        let answer = server.answer_at(&asks, &call, START);
        assert!(
            matches!(answer, ScriptAnswer::Elsewhen(now) if now == START),
            "{answer:?}"
        );
    }
    assert_eq!(server.number("DBSIZE"), 0);
    let beside = script::decide(&asks, after(86_400_000));
    assert_eq!(
        server.decided_at(&asks, &beside, START).charge_result,
        ChargeResult::Charged
    );
    assert_eq!(
        server.decide_at(&asks, START).charge_result,
        ChargeResult::NotCharged
    );
}

/// Goal: an edit of a period or an algorithm keeps what was counted, for gateways before and after the edit together. Method:
/// each algorithm after each other; what was used before is used after, and charges of both are seen by both.
#[test]
fn an_edit_of_periods_or_algorithms_keeps_the_counts() {
    let mut server = Server::start();
    let all = [
        (SLIDING, 600),
        (SLIDING, 60),
        (Algorithm::FixedWindow(Alignment::Epoch), 60),
        (FIRST, 600),
        (
            Algorithm::TokenBucket {
                burst: None,
                refill: Refill::Interval,
            },
            600,
        ),
        (GCRA, 600),
    ];
    let now = after(1_000);
    for (index, (before, secs)) in all.iter().enumerate() {
        for (after, later) in all.iter().skip(index + 1).chain(&all[..index]) {
            let (old, new) = (
                policy(before.clone(), &[(10, *secs)]),
                policy(after.clone(), &[(10, *later)]),
            );
            let name = name(1, "limit");
            server.decide_at(&[ask(&old, &name, 4)], now);
            let seen = left(&mut server, &new, &name, now);
            assert_eq!(seen, 6, "{before:?} {secs} to {after:?} {later}");
            server.decide_at(&[ask(&new, &name, 3)], now);
            assert_eq!(
                left(&mut server, &old, &name, now),
                3,
                "the edit is not everywhere yet"
            );
            assert_eq!(server.number(&format!("HLEN {}", name.as_str())), 1);
            server.say("FLUSHALL").unwrap();
        }
    }
}

/// Goal: of several old periods each new one continues from the next longer. Method: two rates, of which one is edited, and one more.
#[test]
fn a_new_period_goes_on_from_the_next_longer_one() {
    let mut server = Server::start();
    let numbers = [(10, 10), (20, 600)];
    let name = name(1, "limit");
    let old = policy(SLIDING, &numbers);
    server.decide_at(&[ask(&old, &name, 5)], START);
    server.decide_at(&[ask(&old, &name, 5)], after(30_000));
    let new = Policy::new(SLIDING, rates(&[(10, 10), (20, 60), (30, 3_600)])).unwrap();
    let ask = ask(&new, &name, 1);
    let decided = server.decide_at(&[ask], after(30_000));
    let statuses = decided.results[0].decision.statuses();
    let left: Vec<u32> = statuses.iter().map(|status| status.remaining).collect();
    assert_eq!(left, [4, 9, 19]);
}

/// Goal: the script as it is shipped reads the store's own clock. Method: two charges of one unit by it; both get the time of
/// the server, the second waits for the first.
#[test]
fn the_clock_is_the_store_s() {
    let mut server = Server::start();
    let policy = policy(Algorithm::Exact, &[(1, 3_600)]);
    let name = name(1, "limit");
    let asks = [ask(&policy, &name, 1)];
    let mut decided = || {
        // By the gateway's clock it is somewhen else.
        let reply = server.run(&script::decide(&asks, START)).unwrap();
        match script::read(&asks, reply).unwrap() {
            ScriptAnswer::Decided(decided) => decided,
            other => panic!("it judges, and does not say {other:?}"),
        }
    };
    let (first, second) = (decided(), decided());
    assert_eq!(
        (first.charge_result, second.charge_result),
        (ChargeResult::Charged, ChargeResult::NotCharged)
    );
    assert!(first.now > Timestamp::from_secs(1_700_000_000) && first.now <= second.now);
    let wait = second.verdict().retry_after().unwrap();
    assert!(wait <= Duration::from_millis(3_600_001));
}
