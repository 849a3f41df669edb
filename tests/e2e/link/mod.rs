//! The way to the store: real Redis servers, alone, behind Sentinels, in a cluster, and what can happen to them.

mod faults;
mod fleet;
mod gateway;
mod places;
mod servers;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate::config::rules::StoreRules;
use sluicegate::store::{SystemEnvironment, link_settings};
use sluicegate_record::StoreCallCounts;
use sluicegate_redis_link::{Call, ConnectionState, Link, Reply, StoreError};

use crate::harness::eventually;

/// A script that writes, and tells calls apart: it counts under the key, and answers the count and its argument.
const SCRIPT: &str = "return { redis.call('INCR', KEYS[1]), ARGV[1] }";

/// What a call may take longer than its timeout on a loaded machine.
const SLACK: Duration = Duration::from_millis(1500);

/// A link in the test's own process.
struct Way {
    link: Link,
    tallies: Arc<StoreCallCounts>,
}

impl Way {
    /// To the store that these lines of `[store]` name; relative paths begin at the tests' certificates.
    fn to(store: &str) -> Self {
        let tallies = Arc::new(StoreCallCounts::default());
        let observer = Arc::clone(&tallies);
        let link = Link::new(
            link_settings(&rules(store), Arc::new(SystemEnvironment)),
            SCRIPT,
            observer,
            None,
        );
        link.start();
        Self { link, tallies }
    }

    /// As [`Self::to`], once it is connected. Where a test says nothing of the timeout, no busy moment of this machine is to count.
    async fn open(store: &str) -> Self {
        let way = if store.contains("timeout") {
            Self::to(store)
        } else {
            Self::to(&format!("{store}\ntimeout = '5s'"))
        };
        way.is_connected().await;
        way
    }

    /// Waits until calls pass to every server.
    async fn is_connected(&self) {
        eventually("every server is connected", async || {
            let servers = self.link.status().servers;
            let up = servers
                .iter()
                .all(|server| server.state == ConnectionState::Connected);
            (up && !servers.is_empty()).then_some(())
        })
        .await;
    }

    /// Waits until no server is connected.
    async fn is_away(&self) {
        eventually("the store is away", async || {
            let servers = self.link.status().servers;
            let up = servers
                .iter()
                .any(|server| server.state == ConnectionState::Connected);
            (!up).then_some(())
        })
        .await;
    }

    /// Calls while the store is away. A hundred that wait would take a hundred times the least timeout that a test has.
    async fn is_left_alone(&self) {
        let began = Instant::now();
        for _ in 0..100 {
            assert_eq!(self.count("k", "word").await, Err(StoreError::Unavailable));
        }
        assert!(began.elapsed() < SLACK, "{:?}", began.elapsed());
    }

    /// One call; the count that it brought. An answer to another call fails the test.
    async fn count(&self, key: &str, word: &str) -> Result<i64, StoreError> {
        self.link
            .run(call(key, word))
            .await
            .map(|reply| counted(&reply, word))
    }

    /// One call, and how long it took.
    async fn timed(&self, key: &str) -> (Result<i64, StoreError>, Duration) {
        let started = Instant::now();
        let result = self.count(key, "word").await;
        (result, started.elapsed())
    }
}

fn rules(store: &str) -> StoreRules {
    let text = format!(
        "listener = [{{ address = '127.0.0.1:1' }}]\n\
         route = [{{ path = '/*', limits = ['a'], respond = {{ status = 204 }} }}]\n\
         [limit.a]\nkey = 'global'\nrates = ['1 per 1s']\nstore = 'shared-strict'\n[store]\n{store}\n"
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls/gateway.toml");
    let loaded =
        sluicegate::config::parse(file.to_str().unwrap(), &text, sluicegate::config::no_review);
    loaded
        .unwrap_or_else(|problems| panic!("{problems}"))
        .rules
        .store
        .unwrap()
}

fn call(key: &str, word: &str) -> Call {
    Call {
        keys: vec![key.into()],
        args: vec![word.into()],
    }
}

fn counted(reply: &Reply, word: &str) -> i64 {
    match reply {
        Reply::Rows(rows) => match &rows[..] {
            [Reply::Integer(count), Reply::Bytes(said)] => {
                assert_eq!(said, word.as_bytes(), "this answers another call");
                *count
            }
            _ => panic!("{reply:?}"),
        },
        _ => panic!("{reply:?}"),
    }
}
