//! Decides what becomes of unsent charges when a reload replaces a store, by another or by none.
//!
//! Unsent charges follow the counters. Where limits go on in another store in which keys have the same names, the charges are sent there:
//! no limit calls the old store any more, and it may be replaced because it failed. Pushes without an answer keep their numbers, so that
//! a replica that takes its master's place counts them once. The first gateway that reaches an empty store sets the seed of the old
//! one, so that keys have the same names there; and keys that the old store refused are refused until the new one answers.
//!
//! Where no store follows, since `[store]` is gone or keys get other names, the charges are sent to the old store: other gateways may
//! still count there. It has [`PATIENCE`] for that, in which requests that began before the reload are settled too.
//!
//! # Limits
//! The old store is closed after [`PATIENCE`], whatever is still unsent; a log line has the number of keys.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use sluicegate_decide::store::CountingStore;
use sluicegate_redis_link::{HashSeed, Link};
use tracing::warn;

use super::Store;
use super::client::StoreState;
use super::replication::{SyncQueues, SyncSession};
use super::sync::HURRY;

/// The target of process logs: the module of the gateway that this was, so that filters on it or a module above it go on.
const LOG_TARGET: &str = "sluicegate::store::store_switch";
/// The time for sending to an old store: it covers most requests that are settled by their response.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends what is unsent to a store that is no longer in force, and closes it.
pub(super) async fn flush_and_close(store: Arc<Store>) {
    let since = store.now();
    while store.since(since) < PATIENCE {
        store.sync().await;
        // A request that still holds the store may charge.
        if store.unsent_keys() == 0 && Arc::strong_count(&store) == 1 {
            return;
        }
        tokio::time::sleep(HURRY).await;
    }
    let keys = store.unsent_keys();
    if keys > 0 {
        warn!(
            target: LOG_TARGET,
            "store: charges of {keys} keys unsent to the store before the reload; this gateway alone counts them"
        );
    }
}

impl Store {
    /// Returns the number of unsent keys.
    fn unsent_keys(&self) -> usize {
        let shared = &self.shared;
        let unanswered = usize::from(shared.pushed.oldest_unanswered().is_some());
        shared.pending_writes.backlog().keys + shared.replay_queue.keys() + unanswered
    }

    /// Adopts the seed of the store, and returns whether it is known. Where the names of unsent keys were made with another seed, these
    /// keys are dropped and their units counted: this gateway alone goes on counting them.
    pub(super) fn adopt_seed(&self, session: &mut SyncSession, queues: SyncQueues<'_>) -> bool {
        let Some(seed) = Link::seed(self) else {
            return false;
        };
        let before = self.shared.replace_seed(seed);
        if before.is_some_and(|before| before != seed) {
            session.give_up(queues);
            let lost = queues
                .pending
                .drop_due()
                .saturating_add(queues.replay.forget());
            if lost > 0 {
                queues.pending.count_lost(lost);
                warn!(target: LOG_TARGET, "store: seed changed, {lost} units dropped; this gateway alone counts them");
            }
        }
        true
    }
}

impl StoreState {
    /// Replaces the seed that names are made with, and returns the one before.
    fn replace_seed(&self, seed: HashSeed) -> Option<HashSeed> {
        // It is replaced whole, so a poisoned lock still holds one.
        let mut under = self.under.lock().unwrap_or_else(PoisonError::into_inner);
        under.replace(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemEnvironment;
    use sluicegate_config::rules::{StoreRules, StoreSeed};
    use sluicegate_config::{no_review, parse};
    use sluicegate_redis_link::{CallResult, LinkEvent, LinkObserver};

    /// Counts nothing.
    #[derive(Debug)]
    struct NoCounts;

    impl LinkObserver for NoCounts {
        fn count_call(&self, _: CallResult, _: Duration) {}

        fn count_event(&self, _: LinkEvent) {}
    }

    fn rules(place: &str) -> StoreRules {
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:80\"\n[store]\n{place}\n\
             [limit.a]\nkey = \"global\"\nrates = [\"1 per 1s\"]\nstore = \"shared\"\n\
             [[route]]\npath = \"/\"\nlimits = [\"a\"]\nrespond = {{ status = 200 }}\n"
        );
        let rules = parse("gateway.toml", &text, no_review)
            .expect("a configuration")
            .rules;
        rules.store.expect("a store")
    }

    fn store(rules: StoreRules, before: Option<&Store>) -> Store {
        let environment = Arc::new(SystemEnvironment);
        Store::new(rules, None, environment, Arc::new(NoCounts), before)
    }

    /// Goal: unsent charges follow the names of keys. Method: edits of how the store is reached, of where it is, and of what keys are
    /// called there.
    #[test]
    fn charges_go_where_keys_have_the_same_names() {
        let url = "url = \"redis://127.0.0.1:1\"";
        let old = store(rules(url), None);
        let mut secret = rules(url);
        secret.secret_file = Some(StoreSeed([7; 16]));
        for (after, follows) in [
            (rules(&format!("{url}\ntimeout = \"9ms\"")), true),
            (rules("url = \"redis://127.0.0.1:2\""), true),
            (rules("cluster = [\"127.0.0.1:2\"]"), true),
            (rules(&format!("{url}\nprefix = \"b\"")), false),
            (secret, false),
        ] {
            let new = store(after, Some(&old));
            assert_eq!(new.follows(&old), follows, "{:?}", new.rules());
        }
    }
}
