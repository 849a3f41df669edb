//! Whatever happens to a store, a call is decided within its timeout, carried out once or not at all, and the store is found again.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use sluicegate_redis_link::{CallResult, LinkEvent, RefusalReason, StoreError};

use super::{SLACK, Way as Link, call, counted};
use crate::harness::{Mishap, Redis, Way, eventually};

const TIMEOUT: Duration = Duration::from_millis(20);

/// Goal: a late answer is not taken for another call's. Method: two calls whose answers come after their timeout, then others on the same
/// connection while those still arrive; each answer names its call.
#[tokio::test]
async fn an_answer_that_comes_too_late_is_taken_for_no_other() {
    let redis = Redis::start().await;
    let mishap = Mishap::before(redis.address()).await;
    let store = format!("url = 'redis://{}'\ntimeout = '1s'", mishap.address());
    let link = Link::open(&store).await;
    mishap.set(Way::Hold);
    // Two at a time: with heartbeats in between, four failures in a row at most, which the breaker bears.
    let late = join_all([link.count("late", "one"), link.count("late", "other")]).await;
    assert_eq!(late, [Err(StoreError::TimedOut), Err(StoreError::TimedOut)]);
    mishap.set(Way::Pass);
    for round in 0..100 {
        let words: Vec<String> = (0..20).map(|at| format!("{round} {at}")).collect();
        // `count` fails where an answer belongs to another call.
        let results = join_all(words.iter().map(|word| link.count("soon", word))).await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
    assert_eq!(
        mishap.seen().connections,
        1,
        "all of that was one connection"
    );
    assert_eq!(redis.command(&["GET", "late"]), json!("2"));
}

/// Goal: a store that hangs costs a call its timeout, a few calls that, and later ones nothing; it is back by itself. Method: SIGSTOP
/// under
/// concurrent calls, then SIGCONT.
#[tokio::test]
async fn a_store_that_hangs_is_left_alone_until_it_answers() {
    let redis = Redis::start().await;
    let link = Link::open(&format!("url = '{}'\ntimeout = '20ms'", redis.url())).await;
    redis.pause();
    let crowd = join_all((0..50).map(|_| link.timed("k"))).await;
    for (result, took) in crowd {
        assert!(
            matches!(
                result,
                Err(StoreError::TimedOut | StoreError::ConnectionLost)
            ),
            "{result:?}"
        );
        assert!(took < TIMEOUT + SLACK, "{took:?}");
    }
    assert_eq!(link.tallies.events(LinkEvent::BreakerOpened), 1);
    link.is_left_alone().await;
    redis.resume();
    link.is_connected().await;
    eventually("calls pass again", async || {
        link.count("k", "word").await.ok()
    })
    .await;
}

/// Goal: what was lost on its way back is not sent again. Method: the next answer, most likely that of the call, is cut in its middle,
/// and
/// the connection with it; the server's own count tells how often each call ran.
#[tokio::test]
async fn a_call_whose_answer_is_cut_ran_once_at_most() {
    let redis = Redis::start().await;
    let mishap = Mishap::before(redis.address()).await;
    let store = format!(
        "url = 'redis://{}'\ntimeout = '1s'\nsecret_file = 'store-secret'",
        mishap.address()
    );
    let link = Link::open(&store).await;
    let counted = || {
        let count = redis.command(&["GET", "once"]);
        count
            .as_str()
            .map_or(0, |count| count.parse::<u32>().unwrap())
    };
    for _ in 0..8 {
        let before = counted();
        mishap.set(Way::CutAfter(6));
        assert_eq!(
            link.count("once", "word").await,
            Err(StoreError::ConnectionLost)
        );
        link.is_connected().await;
        assert!(counted() - before <= 1);
    }
    assert!(
        counted() >= 4,
        "most of them ran, and their answers were lost"
    );
}

/// Goal: a killed server is found again when it is there, and given the script. Method: kill -9, and start it on its port.
#[tokio::test]
async fn a_killed_server_is_found_again() {
    let mut redis = Redis::start().await;
    let link = Link::open(&format!("url = '{}'", redis.url())).await;
    assert_eq!(link.count("k", "word").await, Ok(1));
    redis.kill();
    link.is_away().await;
    link.is_left_alone().await;
    redis.restart().await;
    link.is_connected().await;
    assert_eq!(link.count("k", "word").await, Ok(1));
    assert_eq!(link.tallies.events(LinkEvent::BreakerOpened), 1);
}

/// Goal: a server that forgot the script gets it, in the same call. Method: SCRIPT FLUSH, then one call, then many.
#[tokio::test]
async fn a_forgotten_script_is_sent_once_more() {
    let redis = Redis::start().await;
    let link = Link::open(&format!("url = '{}'", redis.url())).await;
    let loads = link.tallies.events(LinkEvent::ScriptLoaded);
    redis.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(link.count("k", "word").await, Ok(1));
    assert_eq!(link.count("k", "word").await, Ok(2));
    assert_eq!(link.tallies.events(LinkEvent::ScriptLoaded), loads + 1);
    redis.command(&["SCRIPT", "FLUSH"]);
    let calls: Vec<_> = (0..300).map(|at| call("many", &at.to_string())).collect();
    let results = link.link.run_all(&calls).await;
    let words = (0..300).map(|at| at.to_string());
    for (result, word) in results.into_iter().zip(words) {
        counted(
            &result.unwrap_or_else(|trouble| panic!("{word}: {trouble}")),
            &word,
        );
    }
    assert_eq!(redis.command(&["GET", "many"]), json!("300"));
}

/// Goal: what a server says of its own state opens the breaker with the first call, and it closes by itself. Method: make it a replica,
/// full, and let the user go; each undone.
#[tokio::test]
async fn servers_that_take_no_writes_are_away_until_they_do() {
    let redis = Redis::start().await;
    redis.command(&["ACL", "SETUSER", "gateway", "on", ">hunter2", "~*", "+@all"]);
    let store = format!(
        "url = 'redis://gateway@{}'\npassword_file = 'store-password'\ntimeout = '1s'",
        redis.address()
    );
    let link = Link::open(&store).await;
    let nobody = crate::harness::free_port().to_string();
    for (cause, cure, expected) in [
        (
            &["REPLICAOF", "127.0.0.1", &nobody][..],
            &["REPLICAOF", "NO", "ONE"][..],
            &[RefusalReason::ReadOnly, RefusalReason::MasterDown][..],
        ),
        (
            &["CONFIG", "SET", "maxmemory", "1"],
            &["CONFIG", "SET", "maxmemory", "0"],
            &[RefusalReason::Full],
        ),
        (
            &["ACL", "SETUSER", "gateway", "-@all"],
            &["ACL", "SETUSER", "gateway", "+@all"],
            &[RefusalReason::Denied],
        ),
    ] {
        let opened = link.tallies.events(LinkEvent::BreakerOpened);
        redis.command(cause);
        // A heartbeat may be told first.
        match link.count("k", "word").await {
            Err(StoreError::Refused(refusal)) => {
                assert!(expected.contains(&refusal), "{refusal:?}")
            }
            result => assert!(
                matches!(
                    result,
                    Err(StoreError::Unavailable | StoreError::ConnectionLost)
                ),
                "{result:?}"
            ),
        }
        assert_eq!(
            link.count("k", "word").await,
            Err(StoreError::Unavailable),
            "{cause:?}"
        );
        assert_eq!(
            link.tallies.events(LinkEvent::BreakerOpened),
            opened + 1,
            "{cause:?}"
        );
        redis.command(cure);
        link.is_connected().await;
        assert!(link.count("k", "word").await.is_ok(), "{cure:?}");
    }
}

/// Goal: a slow store counts as unavailable, and nothing waits longer for it. Method: every answer 50 ms late at a timeout of
/// 20 ms, then in time again.
#[tokio::test]
async fn a_slow_store_is_away() {
    let redis = Redis::start().await;
    let mishap = Mishap::before(redis.address()).await;
    let store = format!("url = 'redis://{}'\ntimeout = '20ms'", mishap.address());
    let link = Link::open(&store).await;
    mishap.set(Way::Delay(Duration::from_millis(50)));
    for _ in 0..20 {
        let (result, took) = link.timed("k").await;
        assert!(result.is_err());
        assert!(took < TIMEOUT + SLACK, "{took:?}");
    }
    link.is_away().await;
    mishap.set(Way::Pass);
    link.is_connected().await;
    assert!(link.tallies.calls(CallResult::TimedOut) >= 1);
}

/// Goal: tries to reconnect do not come in a storm, and cost no call anything. Method: a server whose connections end at once; half a
/// second of it.
#[tokio::test]
async fn tries_to_connect_are_spaced_out() {
    let redis = Redis::start().await;
    let mishap = Mishap::before(redis.address()).await;
    let link = Link::open(&format!("url = 'redis://{}'", mishap.address())).await;
    mishap.set(Way::Refuse);
    mishap.cut();
    link.is_away().await;
    eventually("several tries have failed", async || {
        assert_eq!(link.count("k", "word").await, Err(StoreError::Unavailable));
        (mishap.seen().connections >= 4).then_some(())
    })
    .await;
    // 1 that stood, then tries after some 10, 100, 200 ms.
    let tried = link.tallies.events(LinkEvent::NotConnected);
    assert!(tried < 10, "{tried}");
}

/// Goal: no request waits for a name or a machine that does not answer. Method: a name that does not exist, and a closed port.
#[tokio::test]
async fn a_store_that_was_never_there_costs_nothing() {
    let port = crate::harness::free_port();
    for url in [
        "redis://no-such-host.invalid",
        &format!("redis://127.0.0.1:{port}"),
    ] {
        let link = Link::to(&format!("url = '{url}'"));
        link.is_left_alone().await;
        assert!(!link.link.is_up());
    }
}
